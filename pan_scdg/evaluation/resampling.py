"""Resampling: bootstrap intervals and the paired randomisation test.

A bootstrap resample is a vector of counts, so that a measure of all resamples is a few matrix products.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
RESAMPLES, SEED = 1000, 42
CELLS = 2_000_000
"""Largest number of counts in memory: 16 MB."""


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
