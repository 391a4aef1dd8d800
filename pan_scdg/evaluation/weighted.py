"""The measures of pairs for many resamples at once: counts in, one value per resample out.

``pair_metrics`` asks scikit-learn for one set of pairs; a thousand resamples of ten thousand pairs that way take
minutes. Here they are a few matrix products; the tests hold both to the same values.
"""

import numpy as np
import numpy.typing as npt

from pan_scdg.evaluation.resampling import Floats

Flags = npt.NDArray[np.bool_]
PAIR_METRICS = ("precision", "recall", "f1", "fpr", "balanced_accuracy", "mcc", "auroc", "average_precision")


def weighted_metrics(labels: Flags, scores: Floats, decisions: Flags, counts: Floats) -> dict[str, Floats]:
    """Every measure of ``PAIR_METRICS``, shape ``[resamples]``, nan where it is undefined.

    Args:
        labels: true class of each pair, shape ``[pairs]``.
        scores: finite scores, shape ``[pairs]``.
        decisions: decided class of each pair, shape ``[pairs]``.
        counts: how often each resample holds each pair, shape ``[resamples, pairs]``.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return {**_of_decisions(labels, decisions, counts), **_of_scores(labels, scores, counts)}


def _of_decisions(labels: Flags, decisions: Flags, counts: Floats) -> dict[str, Floats]:
    tp, fp = counts @ (labels & decisions), counts @ (~labels & decisions)
    fn, tn = counts @ (labels & ~decisions), counts @ (~labels & ~decisions)
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


def _of_scores(labels: Flags, scores: Floats, counts: Floats) -> dict[str, Floats]:
    """Area under the ROC curve (ties count one half) and average precision (steps, no interpolation)."""
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
