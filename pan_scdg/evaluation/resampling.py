"""Resampling: bootstrap intervals, paired randomisation tests, and Holm's correction of their p-values.

A bootstrap resample is a vector of counts, so that a measure of all resamples is a few matrix products. Measures that
are no means, such as F1 and plagdet, are functions of sums over items (documents, queries).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
RESAMPLES, SEED = 1000, 42
CELLS = 2_000_000
"""Largest number of counts in memory: 16 MB."""


Measure = Callable[[Floats], Mapping[str, Floats]]
"""Returns the values of measures, ``[resamples]``, from sums over items, ``[resamples, numbers]``."""
Intervals = dict[str, tuple[float, float]]
"""Lower and upper end of the 95 % interval of each measure; see `find_interval`."""


def find_interval(values: Floats) -> tuple[float, float]:
    """Return the 95 % interval of one value per resample, without those that are nan; (nan, nan) if all are."""
    defined = values[~np.isnan(values)]
    low, high = np.percentile(defined, [2.5, 97.5]) if len(defined) else (np.nan, np.nan)
    return float(low), float(high)


def draw_resamples(items: int, resamples: int, seed: int, groups: Sequence[object] | None = None) -> Iterator[Floats]:
    """Yield blocks of rows ``[<= resamples, items]``: how often each item occurs in a resample.

    Draws as many items as there are with replacement, or whole groups of items when ``groups`` names the group of
    each: then as many groups as there are, each with all its items.
    """
    numbers = {name: i for i, name in enumerate(dict.fromkeys(groups or ()))}
    member = np.arange(items) if groups is None else np.array([numbers[name] for name in groups])
    units = int(member.max()) + 1
    rng = np.random.default_rng(seed)
    rows = max(1, CELLS // items)
    for start in range(0, resamples, rows):
        count = min(rows, resamples - start)
        drawn = rng.integers(units, size=(count, units)) + units * np.arange(count)[:, None]
        yield np.bincount(drawn.ravel(), minlength=count * units).reshape(count, units)[:, member].astype(np.float64)


SWAPS = 9999
BATCH = 500
"""Number of resamples in memory."""
EQUAL = 1e-12
"""Differences of measures that are nearer to each other are equal."""


def run_randomisation_test(differences: npt.ArrayLike, seed: int = SEED, resamples: int = SWAPS) -> float:
    """Return the two-sided p-value of the mean of paired differences, by swapping both methods at random in each pair.

    All swaps are tried where there are no more of them than ``resamples``, random ones otherwise; what was observed
    counts among these, so that no p-value is 0. It is twice the smaller of both tails, at most 1.

    Args:
        differences: value of one method minus value of the other on the same query, ``[queries]``, two or more.
        seed: of the random swaps.
        resamples: number of random swaps.
    """
    from scipy.stats import permutation_test

    def compute_mean(sample: Floats, axis: int) -> Floats:
        return np.asarray(sample.mean(axis=axis))

    test = permutation_test(
        (np.asarray(differences, dtype=np.float64),),
        compute_mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=BATCH,
        rng=np.random.default_rng(seed),
    )
    return float(test.pvalue)


def bootstrap_sums(sums: Floats, measure: Measure, other: Floats | None = None) -> Intervals:
    """Return the 95 % interval of each measure over resampled items; none of fewer than two items.

    Args:
        sums: the numbers of each item, ``[items, numbers]``.
        measure: of the sums.
        other: of another system on the same items; then the interval is that of the other's value minus the first's.
    """
    if len(sums) < 2:
        return {}
    blocks = []
    for counts in draw_resamples(len(sums), RESAMPLES, SEED):
        values = measure(counts @ sums)
        if other is not None:
            values = {name: column - values[name] for name, column in measure(counts @ other).items()}
        blocks.append(values)
    return {name: find_interval(np.concatenate([block[name] for block in blocks])) for name in blocks[0]}


def compute_p_values(
    first: Floats, other: Floats, measure: Measure, seed: int = SEED, resamples: int = SWAPS
) -> dict[str, float]:
    """Return the two-sided p-value of the difference of each measure between two systems on the same items.

    As `run_randomisation_test`, which tests a mean: both systems' numbers of an item are exchanged or not, in all ways
    where there are no more of them than ``resamples``, at random otherwise. nan where a measure is undefined.

    Args:
        first: the numbers of each item of one system, ``[items, numbers]``.
        other: those of the other system.
        measure: of the sums of these numbers.
        seed: of the random exchanges.
        resamples: number of random exchanges.
    """
    total, blocks = np.stack([first.sum(axis=0), other.sum(axis=0)]), []
    change = other - first
    for swapped in _draw_swaps(len(first), resamples, seed):
        moved = swapped @ change
        one, two = measure(total[0] + moved), measure(total[1] - moved)
        blocks.append({name: two[name] - one[name] for name in one})
    observed = {name: values[1] - values[0] for name, values in measure(total).items()}
    adjustment = 0 if 2 ** len(first) <= resamples else 1
    p_values = {}
    for name, difference in observed.items():
        drawn = np.concatenate([block[name] for block in blocks])
        drawn = drawn[~np.isnan(drawn)]
        # equal up to the order of a sum
        counts = (drawn <= difference + EQUAL).sum(), (drawn >= difference - EQUAL).sum()
        p_value = 2 * (min(counts) + adjustment) / (len(drawn) + adjustment) if len(drawn) else np.nan
        p_values[name] = float("nan") if np.isnan(difference) else min(1.0, float(p_value))
    return p_values


def _draw_swaps(items: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Yield blocks of rows ``[<= BATCH, items]`` of 0 and 1: the items that are exchanged."""
    every = 2**items <= resamples
    rng = np.random.default_rng(seed)
    total = 2**items if every else resamples
    for start in range(0, total, BATCH):
        numbers = np.arange(start, min(start + BATCH, total))
        rows = (
            numbers[:, None] >> np.arange(items) & 1
            if every
            else rng.integers(2, size=(len(numbers), items), dtype=np.int8)
        )
        yield rows.astype(np.float64)


def correct_p_values(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's method; nan stays, and is not counted."""
    order = sorted((p, index) for index, p in enumerate(p_values) if p == p)
    corrected, largest = list(p_values), 0.0
    for place, (p, index) in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - place) * p))
        corrected[index] = largest
    return corrected
