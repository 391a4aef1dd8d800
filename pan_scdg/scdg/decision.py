"""Choosing q, or w, and the threshold on labelled pairs (paper, Eligible Tokens and Aggregation)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserError
from pan_scdg.scdg.arrays import Floats

MOST_PAIRS = 2**24


class Choice(NamedTuple):
    """A pair is positive when its score is at least ``threshold``; figures on the calibration pairs.

    ``parameter`` is the q or w of the aggregation that gave the scores.
    """

    parameter: float
    threshold: float
    f1: float
    accuracy: float


def choose(scores_by: Mapping[float, Floats], labels: npt.NDArray[Any], most_false_positives: float = 1.0) -> Choice:
    """The parameter and threshold that maximise F1; ties by accuracy, then larger parameter, then higher threshold.

    The paper's parameter is q, that of a window is its width w. Candidate thresholds are the unique scores of each.

    Args:
        scores_by: Scores of the same pairs for each parameter, in the order of ``labels``.
        labels: True where the pair is one of reuse.
        most_false_positives: No threshold is chosen that calls a larger share of the negative pairs positive.

    Raises:
        UserError: all pairs have the same label, or no threshold calls so few negatives positive.
        ValueError: nothing to choose from, lengths differ, or a score is not finite.
    """
    truth = np.asarray(labels, dtype=bool)
    _check(scores_by, truth)
    allowed = int(most_false_positives * int((~truth).sum()) + 1e-9)
    found = [_best_of(float(p), np.asarray(s, np.float64), truth, allowed) for p, s in scores_by.items()]
    best = max((b for b in found if b is not None), default=None)
    if best is None:
        raise UserError(
            f"every threshold calls more than {most_false_positives:.0%} of the negative pairs positive",
            "raise most_false_positives in the profile",
        )
    f1, correct, parameter, threshold = best
    return Choice(parameter, threshold, f1, correct / len(truth))


def _best_of(
    parameter: float, scores: Floats, truth: npt.NDArray[np.bool_], allowed: int
) -> tuple[float, int, float, float] | None:
    """``(f1, correct decisions, parameter, threshold)`` of the best threshold for one parameter; greater is better.

    None when each calls more than ``allowed`` negatives positive.

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
    few = flagged - hits <= allowed
    if not few.any():
        return None
    ranked_last, hits, flagged = ranked[last][few], hits[few], flagged[few]
    f1 = 2 * hits / (flagged + positives)
    correct = hits + (len(truth) - positives) - (flagged - hits)
    at = np.lexsort((ranked_last, correct, f1))[-1]
    return float(f1[at]), int(correct[at]), parameter, float(ranked_last[at])


def _check(scores_by: Mapping[float, Floats], truth: npt.NDArray[np.bool_]) -> None:
    if not scores_by or truth.ndim != 1 or len(truth) > MOST_PAIRS:
        raise ValueError(f"needs one parameter or more and at most {MOST_PAIRS} labels in one dimension")
    for parameter, scores in scores_by.items():
        if np.shape(scores) != truth.shape or not np.isfinite(scores).all():
            raise ValueError(f"the scores of {parameter:g} are not {len(truth)} finite numbers")
    if truth.all() or not truth.any():
        missing = "negative" if len(truth) and truth.all() else "positive"
        raise UserError(f"there is no {missing} pair to calibrate on", "give pairs with and without reuse")
