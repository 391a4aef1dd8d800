"""Choose the passage of a target that a language model looks at: the one that matches one place of a source best."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.passages.units import Integers, PreparedText

TARGET_WORDS = 60
"""Least number of words of the chosen passage: in fewer, gains are mostly chance."""
SOURCE_WORDS = 120
"""Least number of words of its place in the source, so that sentences may be merged, split or moved."""
BLOCK = 1024
"""Sentences of the target that are compared at a time, which bounds the memory."""

Floats = npt.NDArray[np.float32]
Span = tuple[int, int]
"""The first character of a passage and the one behind its last."""


class Window(NamedTuple):
    """A passage of the target, and the place in the source that it matches best."""

    target: Span
    source: Span


def choose_window(
    target: PreparedText, source: PreparedText, target_vectors: Floats, source_vectors: Floats
) -> Window | None:
    """Return the best window of whole sentences, or None if a text has none.

    Of all shortest runs of sentences with `TARGET_WORDS` words, the one whose words have the largest mean cosine, each
    word that of its sentence with the nearest sentence of the source. Its place in the source is the one of all
    shortest runs of `SOURCE_WORDS` words in which its sentences find the largest mean cosine. A text with fewer words
    is taken as it is, and the first of equals is chosen.

    Args:
        target: the target, in `n` sentences.
        source: the source, in `m` sentences.
        target_vectors: unit vectors of the target's sentences, ``[n, d]``.
        source_vectors: unit vectors of the source's sentences, ``[m, d]``.
    """
    if not len(target_vectors) or not len(source_vectors):
        return None
    starts = range(0, len(target_vectors), BLOCK)
    nearest = np.concatenate([(target_vectors[i : i + BLOCK] @ source_vectors.T).max(axis=1) for i in starts])
    words = np.diff(target.units, axis=1)[:, 0]
    sums = np.concatenate([[0.0], np.cumsum(nearest.astype(np.float64) * words)])
    counts = np.concatenate([[0], np.cumsum(words)])
    begin, end = max(
        _list_shortest(words, TARGET_WORDS),
        key=lambda run: (sums[run[1]] - sums[run[0]]) / (counts[run[1]] - counts[run[0]]),
    )
    cosines = target_vectors[begin:end] @ source_vectors.T
    first, last = max(
        _list_shortest(np.diff(source.units, axis=1)[:, 0], SOURCE_WORDS),
        key=lambda run: float(cosines[:, run[0] : run[1]].max(axis=1).mean()),
    )
    return Window(_span(target, begin, end), _span(source, first, last))


def _list_shortest(words: Integers, least: int) -> list[tuple[int, int]]:
    """Return the runs of sentences, each the shortest from its first, that have so many words; all if too few."""
    counts = np.concatenate([[0], np.cumsum(words)])
    ends = np.searchsorted(counts, counts[:-1] + least)
    runs = [(begin, int(end)) for begin, end in enumerate(ends) if end < len(counts)]
    return runs or [(0, len(words))]


def _span(text: PreparedText, begin: int, end: int) -> Span:
    return int(text.spans[begin, 0]), int(text.spans[end - 1, 1])
