"""Compare two results on the same items: bootstrap intervals of the differences of their measures.

Both results are measured on the same resamples, so that the difficulty of the items cancels.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pan_scdg.evaluation.pairs import PAIR_METRICS, compute_weighted_metrics
from pan_scdg.evaluation.resampling import Floats, Intervals, draw_resamples

RESAMPLES, SEED = 1000, 42


class JudgedPairs(NamedTuple):
    """Pairs with their truth, and their scores and decisions in a result, in one order."""

    keys: Sequence[tuple[str, str]]
    """Suspicious document and source."""
    labels: Sequence[bool]
    scores: Sequence[float]
    decisions: Sequence[bool]
    threshold: float | None

    @property
    def groups(self) -> list[str]:
        """The suspicious document of each pair; pairs of one document are resampled together."""
        return [key[0] for key in self.keys]


def bootstrap_pair_differences(first: JudgedPairs, other: JudgedPairs) -> Intervals:
    """Return the paired 95 % interval of each pair measure of ``other`` minus that of ``first``.

    Raises:
        ValueError: the results are not of the same pairs with the same labels.
    """
    if first.keys != other.keys or first.labels != other.labels:
        raise ValueError("the results are not of the same pairs")
    blocks = [
        {name: values - base[name] for name, values in _measure(other, counts).items()}
        for counts in draw_resamples(len(first.labels), RESAMPLES, SEED, first.groups)
        for base in [_measure(first, counts)]
    ]
    intervals = Intervals()
    for name in PAIR_METRICS:
        intervals.add(name, np.concatenate([block[name] for block in blocks]))
    return intervals


def _measure(pairs: JudgedPairs, counts: Floats) -> dict[str, Floats]:
    labels, decisions = np.array(pairs.labels, dtype=bool), np.array(pairs.decisions, dtype=bool)
    return compute_weighted_metrics(labels, np.array(pairs.scores, dtype=np.float64), decisions, counts)


def bootstrap_query_differences(
    first: Mapping[str, Mapping[str, float]], other: Mapping[str, Mapping[str, float]]
) -> Intervals:
    """Return the paired 95 % interval of the mean of each measure of ``other`` minus that of ``first``.

    Args:
        first: measure -> query -> value, see `evaluation.retrieval.compute_per_query`.
        other: the same of the other run. Measures whose queries differ are left out.
    """
    intervals = Intervals()
    for name, values in first.items():
        queries = sorted(values)
        if not queries or queries != sorted(other.get(name, {})):
            continue
        column = np.array([other[name][query] - values[query] for query in queries], dtype=np.float64)
        means = [counts @ column / len(column) for counts in draw_resamples(len(column), RESAMPLES, SEED)]
        intervals.add(name, np.concatenate(means))
    return intervals
