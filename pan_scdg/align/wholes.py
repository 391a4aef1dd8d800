"""Compare two texts as wholes: reuse that no two sentences show.

A text whose words were exchanged one by one keeps more words of its source than another text on the topic does. A
summary inside another text has no sentence from the source, but its topic stands out from the text around it.
"""

import numpy as np
import numpy.typing as npt

from pan_scdg.align.match import Floats

EXPECTED = 0.06
"""Rise of the cosine of unrelated texts' sets of stems with the logarithm of their size (geometric mean)."""
TOGETHER = 3
"""Consecutive sentences of the target whose topic is compared."""

Numbers = npt.NDArray[np.float64]


def compare_stem_sets(common: npt.ArrayLike, target: npt.ArrayLike, source: npt.ArrayLike) -> Numbers:
    """Return by how much the cosine of two sets of stems exceeds that of unrelated sets of their sizes, 0 or more.

    Args:
        common: number of stems that both sets have.
        target: number of stems of the target.
        source: number of stems of the source.
    """
    size = np.sqrt(np.maximum(1.0, np.multiply(target, source, dtype=np.float64)))
    return np.asarray(np.maximum(0.0, np.asarray(common) / size - EXPECTED * np.log(size)))


def measure_focus(target: Floats, topics: Floats) -> Numbers:
    """Return by how much the best `TOGETHER` sentences of a target are nearer to a source's topic than the others are.

    Each `TOGETHER` consecutive sentences have the direction of their sum. The result is their largest cosine with the
    topic, less the median of these cosines: 0 for a target that is as near to the source everywhere.

    Args:
        target: unit vectors of the target's sentences in their order, ``[t, d]``.
        topics: of each source, see `find_topic`, ``[s, d]``.

    Returns:
        From 0 to 2 for each source, ``[s]``.
    """
    if not target.size or not topics.size:
        return np.zeros(len(topics))
    together = min(TOGETHER, len(target))
    sums = np.lib.stride_tricks.sliding_window_view(target, together, axis=0).sum(axis=-1)
    cosines = _normalise(sums) @ topics.T
    return np.asarray(cosines.max(axis=0) - np.median(cosines, axis=0), np.float64)


def find_topic(source: Floats) -> Floats:
    """Return the direction of the sum of a source's sentences, ``[d]``."""
    return np.asarray(_normalise(source.sum(axis=0, keepdims=True))[0])


def _normalise(vectors: Floats) -> Floats:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(norms, np.float32(1e-9)), np.float32)
