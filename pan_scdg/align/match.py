"""Match the sentences of two texts by their embeddings: evidence of reuse that survives rewriting.

A rewritten passage shares few words with its source, but its sentences are near those of one place of the source. What
two sentences on one topic have in common anyway is subtracted: sentences that are near to many others are no evidence.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

SENTENCES = 2
"""Consecutive sentences of the target that are matched together."""
NEARBY = 4
"""Consecutive sentences of the source in which both have to lie."""
NEIGHBOURS = 6
"""Most similar sentences of the other text, whose mean cosine says how near a sentence is to everything."""
CORRECTION = 0.3
"""Share of these means that is subtracted from a cosine."""
NO_MATCH = -1.0
BLOCK = 1024
"""Sentences of the target that are compared at a time, which bounds the memory."""

Floats = npt.NDArray[np.float32]


class Match(NamedTuple):
    """Consecutive sentences of a target, and those of a source that they match: starts and exclusive ends."""

    begin: int
    end: int
    source_begin: int
    source_end: int


def measure_match(target: Floats, source: Floats) -> float:
    """Return the match of the best two consecutive sentences of a target with one place of a source.

    With the cosines ``m[i, j]``, and the means ``r[i]`` and ``s[j]`` of the `NEIGHBOURS` largest ones of row i and of
    column j, a pair of sentences has ``c[i, j] = m[i, j] - CORRECTION * (r[i] + s[j])``. The result is the largest
    mean, over `SENTENCES` consecutive sentences of the target, of the largest ``c`` within the same `NEARBY`
    consecutive ones of the source. Shorter texts are taken as they are.

    Args:
        target: unit vectors of the target's sentences in their order, ``[t, d]``.
        source: unit vectors of the source's sentences in their order, ``[s, d]``.

    Returns:
        A number from -1 to 1; `NO_MATCH` if a text has no sentences.
    """
    return max((float(means.max()) for _, means in _compare_places(target, source)), default=NO_MATCH)


def find_matches(target: Floats, source: Floats, least: float) -> list[Match]:
    """Return the consecutive sentences of a target that match a place of the source at least so well, in order.

    If none does, the best ones are returned. Stretches that overlap in both texts are joined; of others that overlap in
    the target, the first is kept.
    """
    best = measure_match(target, source)
    together, nearby = min(SENTENCES, len(target)), min(NEARBY, len(source))
    found: list[Match] = []
    for start, means in _compare_places(target, source):
        for row in np.flatnonzero(means.max(axis=1) >= min(least, best)).tolist():
            first, place = start + row, int(means[row].argmax())
            match = Match(first, first + together, place, place + nearby)
            last = found[-1] if found else None
            if last and first < last.end and place < last.source_end and last.source_begin < match.source_end:
                begin, end = min(last.source_begin, place), max(last.source_end, match.source_end)
                found[-1] = Match(last.begin, match.end, begin, end)
            elif not last or first >= last.end:
                found.append(match)
    return found


def _compare_places(target: Floats, source: Floats) -> Iterator[tuple[int, Floats]]:
    """Yield the match of `SENTENCES` sentences with each place of the source, ``[n, p]``, and the first sentence."""
    if not len(target) or not len(source):
        return
    rows, columns = _average_nearest(target, source), _average_nearest(source, target)
    together = min(SENTENCES, len(target))
    for start, cosines in _compare_blocks(target, source, together - 1):
        end = start + len(cosines)
        places = _find_nearby(cosines - CORRECTION * (rows[start:end, None] + columns[None, :]))
        yield start, np.lib.stride_tricks.sliding_window_view(places, together, axis=0).mean(axis=2)


def _find_nearby(matches: Floats) -> Floats:
    """Return the largest match of each row within every `NEARBY` consecutive columns."""
    width = min(NEARBY, matches.shape[1])
    places: Floats = np.lib.stride_tricks.sliding_window_view(matches, width, axis=1).max(axis=2)
    return places


def _average_nearest(vectors: Floats, others: Floats) -> Floats:
    """Return the mean cosine of each vector with its `NEIGHBOURS` nearest others, ``[n]``."""
    count = min(NEIGHBOURS, len(others))
    means = np.empty(len(vectors), np.float32)
    for start, cosines in _compare_blocks(vectors, others, 0):
        nearest = np.partition(cosines, len(others) - count, axis=1)[:, len(others) - count :]
        means[start : start + len(cosines)] = nearest.mean(axis=1)
    return means


def _compare_blocks(vectors: Floats, others: Floats, overlap: int) -> Iterator[tuple[int, Floats]]:
    """Yield the cosines of blocks of vectors with all others; a block begins with the last ones of the block before."""
    for start in range(0, max(1, len(vectors) - overlap), BLOCK):
        yield start, vectors[start : start + BLOCK + overlap] @ others.T
