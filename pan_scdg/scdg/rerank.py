"""Fusion of the first stage's scores with gains (paper, PAN26 Sparse Reranking)."""

from collections.abc import Sequence

import numpy as np

from pan_scdg.scdg.arrays import Floats


def min_max(values: Sequence[float] | Floats) -> Floats:
    """``values`` mapped onto [0, 1]; a list whose values are all equal becomes zeros.

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
    """The same documents, best first, with ``(1 - weight) * minmax(coarse) + weight * minmax(gain)``.

    Ties are broken by document id (paper, Eq. pan26-stage2-score).

    Raises:
        ValueError: lengths differ, an id is repeated, a score is not finite, or ``weight`` is outside [0, 1].
    """
    if not len(doc_ids) == len(coarse) == len(gain) or len(set(doc_ids)) != len(doc_ids):
        raise ValueError("needs one coarse score and one gain for each of several different documents")
    if not 0 <= weight <= 1:
        raise ValueError(f"weight must lie between 0 and 1, not {weight}")
    final = (1 - weight) * min_max(coarse) + weight * min_max(gain)
    return sorted(zip(doc_ids, final.tolist()), key=lambda scored: (-scored[1], scored[0]))
