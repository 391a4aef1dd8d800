"""Order the candidates of a query by their scores (paper, PAN26)."""

from collections.abc import Sequence

import numpy as np

from pan_scdg.scdg.aggregation import Floats

SCORE_DECIMALS = 6
"""Digits of a final score of retrieval; the others depend on the processor."""


def scale_min_max(values: Sequence[float] | Floats) -> Floats:
    """Return ``values`` mapped onto [0, 1]; equal values become zeros.

    Raises:
        ValueError: a value is not finite, or their range is not.
    """
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError("a score is not finite")
    if not len(array) or array.min() == array.max():
        return np.zeros(len(array))
    with np.errstate(over="raise"):
        try:
            scaled: Floats = (array - array.min()) / (array.max() - array.min())
        except FloatingPointError as e:
            raise ValueError("the range of the scores is not finite") from e
    return scaled


def rerank(
    doc_ids: Sequence[str],
    coarse: Sequence[float] | Floats,
    gain: Sequence[float] | Floats,
    weight: float,
) -> list[tuple[str, float]]:
    """Return the documents, best first, by ``(1 - weight) * minmax(coarse) + weight * minmax(gain)``.

    Scores are rounded to `SCORE_DECIMALS`, and equal ones go by document id (paper, Eq. pan26-stage2-score).

    Raises:
        ValueError: lengths differ, an id is repeated, a score is not finite, or ``weight`` is outside [0, 1].
    """
    if not len(doc_ids) == len(coarse) == len(gain) or len(set(doc_ids)) != len(doc_ids):
        raise ValueError("needs one coarse score and one gain for each of several different documents")
    if not 0 <= weight <= 1:
        raise ValueError(f"weight must lie between 0 and 1, not {weight}")
    final = (1 - weight) * scale_min_max(coarse) + weight * scale_min_max(gain)
    rounded = [round(score, SCORE_DECIMALS) for score in final.tolist()]
    return sorted(zip(doc_ids, rounded), key=lambda scored: (-scored[1], scored[0]))
