"""Compare two texts by the vectors of their sentences: evidence of reuse that survives rewriting.

A rewritten passage shares few words with its source, but its sentences are near those of one place of the source. What
two sentences on one topic have in common anyway is subtracted: a sentence that is near to many others is no evidence.

Texts are also compared as wholes, for reuse that no two sentences show. A text whose words were exchanged one by one
keeps more stems of its source than another text on the topic has. A summary inside another text has no sentence from
the source, but its topic stands out from the text around it.
"""

from collections.abc import Iterator
from functools import reduce
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MATCH_SENTENCES = 2
"""Consecutive sentences of the target that are matched together."""
PLACE_SENTENCES = 4
"""Consecutive sentences of the source that are one place."""
NEIGHBOURS = 6
"""Most similar sentences of the other text, whose mean cosine says how near a sentence is to everything."""
CORRECTION = 0.3
"""Share of these means that is subtracted from a cosine."""
NO_MATCH = -1.0
BATCH_SENTENCES = 1024
"""Sentences of the target that are compared at a time, which bounds the memory."""
COMMON_SLOPE = 0.06
"""Rise of the cosine of unrelated texts' sets of stems with the logarithm of their size (geometric mean)."""
FOCUS_SENTENCES = 3
"""Consecutive sentences of the target whose topic is compared."""

Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.float64]


class Match(NamedTuple):
    """Consecutive sentences of a target and of a source that match: starts and exclusive ends."""

    begin: int
    end: int
    source_begin: int
    source_end: int


def measure_match(target: Floats, source: Floats) -> float:
    """Return the match of the best two consecutive sentences of a target with one place of a source.

    With the cosines ``m[i, j]``, and the means ``r[i]`` and ``s[j]`` of the `NEIGHBOURS` largest ones of row i and of
    column j, a pair of sentences has ``c[i, j] = m[i, j] - CORRECTION * (r[i] + s[j])``. The result is the largest
    mean, over `MATCH_SENTENCES` consecutive sentences of the target, of the largest ``c`` within the same
    `PLACE_SENTENCES` consecutive ones of the source. Shorter texts are taken as they are.

    Args:
        target: unit vectors of the target's sentences in their order, ``[t, d]``.
        source: unit vectors of the source's sentences in their order, ``[s, d]``.

    Returns:
        A number from -1 to 1; `NO_MATCH` if a text has no sentences.
    """
    return max((float(means.max()) for _, means in _compare_places(target, source)), default=NO_MATCH)


def find_matches(target: Floats, source: Floats, min_match: float) -> list[Match]:
    """Return the consecutive sentences of a target whose match is at least ``min_match``, in order.

    If there are none, the best ones are returned. Stretches that overlap in both texts are joined; of others that
    overlap in the target, the first is kept.
    """
    best = measure_match(target, source)
    height, width = min(MATCH_SENTENCES, len(target)), min(PLACE_SENTENCES, len(source))
    matches: list[Match] = []
    for start, means in _compare_places(target, source):
        for row in np.flatnonzero(means.max(axis=1) >= min(min_match, best)).tolist():
            first, place = start + row, int(means[row].argmax())
            match = Match(first, first + height, place, place + width)
            last = matches[-1] if matches else None
            if last and first < last.end and place < last.source_end and last.source_begin < match.source_end:
                begin, end = min(last.source_begin, place), max(last.source_end, match.source_end)
                matches[-1] = Match(last.begin, match.end, begin, end)
            elif not last or first >= last.end:
                matches.append(match)
    return matches


def _compare_places(target: Floats, source: Floats) -> Iterator[tuple[int, Floats]]:
    """Yield the first sentence of a batch, and the match of its stretches with the places of the source, ``[n, p]``."""
    if not len(target) or not len(source):
        return
    height, width = min(MATCH_SENTENCES, len(target)), min(PLACE_SENTENCES, len(source))
    places = len(source) - width + 1
    starts = range(0, len(target) - height + 1, BATCH_SENTENCES)
    first = target[: BATCH_SENTENCES + height - 1] @ source.T
    if len(starts) == 1:
        columns = _average_largest(first.T)
    else:
        batches = (source[i : i + BATCH_SENTENCES] for i in range(0, len(source), BATCH_SENTENCES))
        columns = np.concatenate([_average_largest(batch @ target.T) for batch in batches])
    for start in starts:
        cosines = first if start == 0 else target[start : start + BATCH_SENTENCES + height - 1] @ source.T
        corrected = cosines - CORRECTION * (_average_largest(cosines)[:, None] + columns[None, :])
        best = reduce(np.maximum, [corrected[:, i : i + places] for i in range(width)])
        sums = reduce(np.add, [best[i : i + len(best) - height + 1] for i in range(height)])
        yield start, np.divide(sums, height, dtype=np.float32)


def _average_largest(cosines: Floats) -> Floats:
    """Return the mean of the `NEIGHBOURS` largest cosines of each row, ``[n]``."""
    rest = max(0, cosines.shape[1] - NEIGHBOURS)
    means: Floats = np.partition(cosines, rest, axis=1)[:, rest:].mean(axis=1)
    return means


def compare_stem_sets(common: npt.ArrayLike, target: npt.ArrayLike, source: npt.ArrayLike) -> Numbers:
    """Return by how much the cosine of two sets of stems exceeds that of unrelated sets of their sizes, 0 or more.

    Args:
        common: number of stems in both sets.
        target: number of stems of the target.
        source: number of stems of the source.
    """
    size = np.sqrt(np.maximum(1.0, np.multiply(target, source, dtype=np.float64)))
    return np.asarray(np.maximum(0.0, np.asarray(common) / size - COMMON_SLOPE * np.log(size)))


def measure_focus(target: Floats, topics: Floats) -> Numbers:
    """Return by how much the best `FOCUS_SENTENCES` sentences of a target are nearer to a source's topic than others.

    Each `FOCUS_SENTENCES` consecutive sentences have the direction of their sum. The result is their largest cosine
    with the topic, less the median of these cosines: 0 for a target that is as near to the source everywhere.

    Args:
        target: unit vectors of the target's sentences in their order, ``[t, d]``.
        topics: the topic of each source, see `compute_topic`, ``[s, d]``.

    Returns:
        From 0 to 2 for each source, ``[s]``.
    """
    if not target.size or not topics.size:
        return np.zeros(len(topics))
    height = min(FOCUS_SENTENCES, len(target))
    sums = np.lib.stride_tricks.sliding_window_view(target, height, axis=0).sum(axis=-1)
    cosines = _normalise(sums) @ topics.T
    return np.asarray(cosines.max(axis=0) - np.median(cosines, axis=0), np.float64)


def compute_topic(source: Floats) -> Floats:
    """Return the direction of the sum of a source's sentences, ``[d]``."""
    return np.asarray(_normalise(source.sum(axis=0, keepdims=True))[0])


def _normalise(vectors: Floats) -> Floats:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(norms, np.float32(1e-9)), np.float32)
