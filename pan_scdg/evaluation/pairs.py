"""Measure pair decisions (paper, Evaluation Metrics): F1 and seven other measures."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.evaluation.resampling import RESAMPLES, SEED, Floats, Intervals, draw_resamples, find_interval

Flags = npt.NDArray[np.bool_]
PAIR_METRICS = ("precision", "recall", "f1", "fpr", "balanced_accuracy", "mcc", "auroc", "average_precision")


class LabelledPairs(NamedTuple):
    """Pairs with their truth, and their scores and decisions in a result, in one order."""

    keys: Sequence[tuple[str, str]]
    """Suspicious document and source."""
    labels: Sequence[bool]
    scores: Sequence[float]
    decisions: Sequence[bool]
    threshold: float | None

    @property
    def groups(self) -> list[str]:
        """Return the suspicious document of each pair; pairs of one document are resampled together."""
        return [key[0] for key in self.keys]


def compute_pair_metrics(labels: npt.ArrayLike, scores: npt.ArrayLike, decisions: npt.ArrayLike) -> dict[str, float]:
    """Return the eight measures of ``PAIR_METRICS``, as scikit-learn computes them.

    Args:
        labels: 0 or 1 (or bool) for each pair, 1 for reuse; shape ``[pairs]``.
        scores: finite, higher for more reuse; used by auroc and average_precision alone.
        decisions: 0 or 1 (or bool) for each pair.

    Returns:
        Name -> value; nan where a measure is undefined (a class is missing, nothing is decided positive).

    Raises:
        ValueError: the lengths differ, or a score is not finite.
    """
    once = np.ones((1, np.size(np.asarray(labels))))
    return {name: float(v[0]) for name, v in compute_weighted_metrics(labels, scores, decisions, once).items()}


def bootstrap_pairs(
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    decisions: npt.ArrayLike,
    seed: int = SEED,
    resamples: int = RESAMPLES,
    groups: Sequence[object] | None = None,
) -> Intervals:
    """Return percentile 95 % intervals over resampled pairs, or over resampled whole groups; none of one pair or group.

    Arguments are those of `compute_pair_metrics`; its measures may be undefined in some resamples.
    """
    count = len(np.asarray(labels))
    if len({*groups} if groups is not None else range(count)) < 2:
        return {}
    draws = draw_resamples(count, resamples, seed, groups)
    return _collect([compute_weighted_metrics(labels, scores, decisions, counts) for counts in draws])


def bootstrap_pair_differences(first: LabelledPairs, other: LabelledPairs) -> Intervals:
    """Return the paired 95 % interval of each measure of ``other`` minus that of ``first``.

    Both are measured on the same resamples, so that the difficulty of the pairs cancels.

    Raises:
        ValueError: the results are not of the same pairs with the same labels.
    """
    if first.keys != other.keys or first.labels != other.labels:
        raise ValueError("the results are not of the same pairs")
    blocks: list[Mapping[str, Floats]] = []
    if len({*first.groups}) < 2:
        return {}
    for counts in draw_resamples(len(first.labels), RESAMPLES, SEED, first.groups):
        base, changed = (compute_weighted_metrics(p.labels, p.scores, p.decisions, counts) for p in (first, other))
        blocks.append({name: values - base[name] for name, values in changed.items()})
    return _collect(blocks)


def _collect(blocks: Sequence[Mapping[str, Floats]]) -> Intervals:
    """Return the intervals of all measures from their values in blocks of resamples."""
    return {name: find_interval(np.concatenate([block[name] for block in blocks])) for name in PAIR_METRICS}


def compute_weighted_metrics(
    labels: npt.ArrayLike, scores: npt.ArrayLike, decisions: npt.ArrayLike, counts: Floats
) -> dict[str, Floats]:
    """Return every measure of ``PAIR_METRICS``, shape ``[resamples]``, nan if undefined.

    The first three arguments are those of `compute_pair_metrics`; ``counts`` says how often each resample contains
    each pair, shape ``[resamples, pairs]``.
    """
    true, decided = np.asarray(labels, dtype=np.bool_), np.asarray(decisions, dtype=np.bool_)
    values = np.asarray(scores, dtype=np.float64)
    if not true.shape == decided.shape == values.shape or not np.isfinite(values).all():
        raise ValueError("labels, finite scores and decisions must have the same length")
    with np.errstate(divide="ignore", invalid="ignore"):
        return {**_measure_decisions(true, decided, counts), **_measure_scores(true, values, counts)}


def _measure_decisions(labels: Flags, decisions: Flags, counts: Floats) -> dict[str, Floats]:
    return measure_counts(counts @ _mark_outcomes(labels, decisions))


def count_outcomes(pairs: LabelledPairs) -> Floats:
    """Return the true and false positives, false and true negatives of each suspicious document, ``[documents, 4]``."""
    numbers = {name: row for row, name in enumerate(dict.fromkeys(pairs.groups))}
    outcomes = _mark_outcomes(np.asarray(pairs.labels, np.bool_), np.asarray(pairs.decisions, np.bool_))
    counts = np.zeros((len(numbers), 4))
    np.add.at(counts, [numbers[name] for name in pairs.groups], outcomes)
    return counts


def _mark_outcomes(labels: Flags, decisions: Flags) -> Floats:
    """Return 1 for the outcome of each pair, ``[pairs, 4]``."""
    outcomes = (labels & decisions, ~labels & decisions, labels & ~decisions, ~labels & ~decisions)
    return np.stack(outcomes, axis=1).astype(np.float64)


def measure_counts(counts: Floats) -> dict[str, Floats]:
    """Return the measures of decisions from true and false positives, false and true negatives, ``[resamples, 4]``."""
    tp, fp, fn, tn = counts.T
    with np.errstate(divide="ignore", invalid="ignore"):
        return _measure_outcomes(tp, fp, fn, tn)


def _measure_outcomes(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> dict[str, Floats]:
    recall, specificity = tp / (tp + fn), tn / (tn + fp)
    margins = np.sqrt(tp + fp) * np.sqrt(tp + fn) * np.sqrt(tn + fp) * np.sqrt(tn + fn)
    return {
        "precision": tp / (tp + fp),
        "recall": recall,
        "f1": 2 * tp / (2 * tp + fp + fn),
        "fpr": fp / (fp + tn),
        "balanced_accuracy": (recall + specificity) / 2,
        "mcc": (tp * tn - fp * fn) / margins,
    }


def _measure_scores(labels: Flags, scores: Floats, counts: Floats) -> dict[str, Floats]:
    """Return area under the ROC curve (ties count one half) and average precision (steps, no interpolation)."""
    if not len(scores):
        return dict.fromkeys(PAIR_METRICS[-2:], np.full(len(counts), np.nan))
    order = np.argsort(-scores, kind="stable")
    # One column per distinct score, the highest first: pairs with equal scores enter together.
    first = np.flatnonzero(np.diff(scores[order], prepend=np.inf))
    positive = np.add.reduceat((counts * labels)[:, order], first, axis=1)
    negative = np.add.reduceat((counts * ~labels)[:, order], first, axis=1)
    tp, fp = positive.cumsum(axis=1), negative.cumsum(axis=1)
    positives, negatives = tp[:, -1], fp[:, -1]
    # Each negative of a column has all positives of higher columns above it and half of its own column's beside it.
    won = (negative * (tp - positive / 2)).sum(axis=1)
    precision = tp / np.maximum(tp + fp, 1)
    return {
        "auroc": won / (positives * negatives),
        "average_precision": (positive * precision).sum(axis=1) / positives,
    }
