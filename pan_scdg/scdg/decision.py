"""Choosing q and the threshold on labelled pairs (paper, Eligible Tokens and Aggregation)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserError
from pan_scdg.scdg.arrays import Floats

MOST_PAIRS = 2**24


class Choice(NamedTuple):
    """A pair is positive when its Top-``q`` score is at least ``threshold``; figures on the calibration pairs."""

    q: float
    threshold: float
    f1: float
    accuracy: float


def choose(scores_by_q: Mapping[float, Floats], labels: npt.NDArray[Any]) -> Choice:
    """The q and threshold that maximise F1; ties by accuracy, then larger q, then higher threshold.

    Candidate thresholds are the unique scores of each q.

    Args:
        scores_by_q: Scores of the same pairs for each q, in the order of ``labels``.
        labels: True where the pair is one of reuse.

    Raises:
        UserError: all pairs have the same label.
        ValueError: nothing to choose from, lengths differ, or a score is not finite.
    """
    truth = np.asarray(labels, dtype=bool)
    _check(scores_by_q, truth)
    best = max(_best_of(float(q), np.asarray(s, np.float64), truth) for q, s in scores_by_q.items())
    f1, correct, q, threshold = best
    return Choice(q, threshold, f1, correct / len(truth))


def _best_of(q: float, scores: Floats, truth: npt.NDArray[np.bool_]) -> tuple[float, int, float, float]:
    """``(f1, correct decisions, q, threshold)`` of the best threshold for one q; greater is better.

    Equal F1 are equal floats and unequal ones keep their order: F1 is a quotient a/b of whole numbers with b <= 2n, so
    two different values are at least 1/(4n^2) apart, more than the spacing 2^-53 of floats below 1 for n <= 2^24, and
    IEEE division rounds each correctly. Accuracies share their denominator and are compared as counts.
    """
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
    flagged = last + 1
    hits = np.cumsum(truth[order])[last]
    positives = int(truth.sum())
    f1 = 2 * hits / (flagged + positives)
    correct = hits + (len(truth) - positives) - (flagged - hits)
    at = np.lexsort((ranked[last], correct, f1))[-1]
    return float(f1[at]), int(correct[at]), q, float(ranked[last][at])


def _check(scores_by_q: Mapping[float, Floats], truth: npt.NDArray[np.bool_]) -> None:
    if not scores_by_q or truth.ndim != 1 or len(truth) > MOST_PAIRS:
        raise ValueError(f"needs one q or more and at most {MOST_PAIRS} labels in one dimension")
    for q, scores in scores_by_q.items():
        if np.shape(scores) != truth.shape or not np.isfinite(scores).all():
            raise ValueError(f"the scores of q = {q} are not {len(truth)} finite numbers")
    if truth.all() or not truth.any():
        missing = "negative" if len(truth) and truth.all() else "positive"
        raise UserError(f"there is no {missing} pair to calibrate on", "give pairs with and without reuse")
