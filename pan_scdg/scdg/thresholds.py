"""Choose thresholds from the scores of pairs."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserError
from pan_scdg.scdg.aggregation import Floats

MAX_PAIRS = 2**24


class Choice(NamedTuple):
    """The chosen threshold, with its quality on the calibration pairs."""

    parameter: float
    """The q or w of the aggregation that gave the scores."""
    threshold: float
    """A pair is positive if its score is at least this."""
    f1: float
    accuracy: float


def choose_threshold(
    scores_by: Mapping[float, Floats], labels: npt.NDArray[Any], max_false_positives: float = 1.0
) -> Choice:
    """Return the parameter and threshold with the largest F1; ties by accuracy, larger parameter, higher threshold.

    The paper's parameter is q, that of a window is its width w. Candidate thresholds are the unique scores of each.

    Args:
        scores_by: Scores of the same pairs for each parameter, in the order of ``labels``.
        labels: True where the source was reused.
        max_false_positives: No threshold is chosen that calls a larger share of the negative pairs positive.

    Raises:
        UserError: all pairs have the same label, or every threshold calls too many negatives positive.
        ValueError: nothing to choose from, lengths differ, or a score is not finite.
    """
    truth = np.asarray(labels, dtype=bool)
    _check_scores(scores_by, truth)
    allowed = int(max_false_positives * int((~truth).sum()) + 1e-9)
    candidates = [_find_best(float(p), np.asarray(s, np.float64), truth, allowed) for p, s in scores_by.items()]
    best = max((b for b in candidates if b is not None), default=None)
    if best is None:
        raise UserError(
            f"every threshold gives more than {max_false_positives:.0%} false positives",
            "raise max_false_positives in the profile",
        )
    f1, correct, parameter, threshold = best
    return Choice(parameter, threshold, f1, correct / len(truth))


def _find_best(
    parameter: float, scores: Floats, truth: npt.NDArray[np.bool_], allowed: int
) -> tuple[float, int, float, float] | None:
    """Return ``(f1, correct decisions, parameter, threshold)`` of the best threshold for a parameter.

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


def _check_scores(scores_by: Mapping[float, Floats], truth: npt.NDArray[np.bool_]) -> None:
    if not scores_by or truth.ndim != 1 or len(truth) > MAX_PAIRS:
        raise ValueError(f"needs one parameter or more and at most {MAX_PAIRS} labels in one dimension")
    for parameter, scores in scores_by.items():
        if np.shape(scores) != truth.shape or not np.isfinite(scores).all():
            raise ValueError(f"the scores of {parameter:g} are not {len(truth)} finite numbers")
    require_both_classes(truth, "calibrate on")


def require_both_classes(labels: npt.NDArray[np.bool_], purpose: str) -> None:
    """Raise UserError if all pairs have the same label; ``purpose`` completes "no positive pair was found to"."""
    if labels.all() or not labels.any():
        missing = "negative" if len(labels) and labels.all() else "positive"
        raise UserError(f"no {missing} pair was found to {purpose}", "give pairs with and without reuse")
