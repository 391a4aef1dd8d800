"""The operating point of the same-topic study, on two training sets at once (paper, Hyperparameter Selection)."""

from typing import NamedTuple

import numpy as np

from pan_scdg.errors import UserError
from pan_scdg.research.pairs.score_table import Flags
from pan_scdg.scdg.arrays import Floats


class PooledChoice(NamedTuple):
    """A pair is positive when its score is at least ``threshold``; figures on the training pairs."""

    threshold: float
    f1: float
    """On all pairs."""
    own_f1: float
    """On the pairs of PAN25 alone."""
    accuracy: float
    """On all pairs."""


def choose_pooled(scores: Floats, labels: Flags, own: Flags) -> PooledChoice:
    """The threshold with the largest pooled F1; ties by F1 on PAN25, then pooled accuracy, then the higher threshold.

    Candidates are the unique scores of all pairs. Both F1 are quotients of whole numbers, rounded correctly, so that
    equal ones are equal floats (see `pan_scdg.scdg.decision`); accuracy is compared as a count.

    Args:
        scores: shape ``[pairs]``.
        labels: True where the pair is one of reuse, ``[pairs]``.
        own: True where the pair is of PAN25, ``[pairs]``.

    Raises:
        UserError: all pairs have the same label.
        ValueError: lengths differ, or a score is not finite.
    """
    if not scores.shape == labels.shape == own.shape or scores.ndim != 1 or not np.isfinite(scores).all():
        raise ValueError(f"scores, labels, own of shapes {scores.shape}, {labels.shape}, {own.shape}, or not finite")
    if labels.all() or not labels.any():
        missing = "negative" if len(labels) and labels.all() else "positive"
        raise UserError(f"there is no {missing} pair to choose a threshold on", "give pairs with and without reuse")
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
    hits, flagged = np.cumsum(labels[order])[last], last + 1
    own_hits, own_flagged = np.cumsum((labels & own)[order])[last], np.cumsum(own[order])[last]
    f1 = 2 * hits / (flagged + labels.sum())
    # at high thresholds there may be nothing of PAN25 yet, and at none if it has no positive pair
    own_f1 = 2 * own_hits / np.maximum(own_flagged + (labels & own).sum(), 1)
    correct = hits + (~labels).sum() - (flagged - hits)
    at = np.lexsort((ranked[last], correct, own_f1, f1))[-1]
    return PooledChoice(float(ranked[last][at]), float(f1[at]), float(own_f1[at]), float(correct[at]) / len(labels))
