"""Match the paragraphs of two texts by embeddings: each paragraph of the target has at most one source paragraph.

For texts whose paragraphs are separated by blank lines. A paragraph that a language model rewrote shares few words with
its original, and its neighbours may come from anywhere.
"""

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pan_scdg.align.units import EncodedText, Integers
from pan_scdg.profile import PassageSettings
from pan_scdg.records import Passage

_BLANK_LINES = re.compile(r"\r?\n[ \t]*(?:\r?\n[ \t]*)+")


def split_paragraphs(text: str, least: int) -> Integers:
    """Return the paragraphs of at least ``least`` characters, first one and the one after the last, ``[p, 2]``."""
    cuts = [match.span() for match in _BLANK_LINES.finditer(text)]
    spans = []
    for start, end in zip([0, *(end for _, end in cuts)], [*(start for start, _ in cuts), len(text)]):
        part = text[start:end]
        start, end = end - len(part.lstrip()), start + len(part.rstrip())
        if end - start >= least:
            spans.append((start, end))
    return np.array(spans, np.int64).reshape(-1, 2)


def average_sentences(
    paragraphs: Integers, sentences: Integers, vectors: npt.NDArray[np.float32]
) -> npt.NDArray[np.float64]:
    """Return the unit vector of each paragraph's mean sentence, ``[p, d]``; zeros for one without sentences.

    A sentence belongs to the paragraph that its middle lies in. On rewritten paragraphs these vectors are as good as
    those of whole paragraphs (benchmarks/results/passages.md), and the sentences are encoded anyway.

    Args:
        paragraphs: first character of each and the one after its last, ``[p, 2]``, in order.
        sentences: the same of the sentences, ``[s, 2]``.
        vectors: unit vectors of the sentences, ``[s, d]``.
    """
    middles = sentences.mean(axis=1)
    owners = np.searchsorted(paragraphs[:, 0], middles, "right") - 1
    inside = (owners >= 0) & (middles < paragraphs[owners, 1])
    sums = np.zeros((len(paragraphs), vectors.shape[1]))
    np.add.at(sums, owners[inside], vectors[inside])
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    means: npt.NDArray[np.float64] = sums / np.where(lengths > 0, lengths, 1.0)
    return means


def match_paragraphs(
    target: str, source: str, settings: PassageSettings, encode: Callable[[str], EncodedText]
) -> list[Passage]:
    """Return the target paragraphs whose nearest source paragraph is near enough, and clearly nearer than the second.

    Neighbours in the target that match neighbours in the source in the same order are one passage. A text with too
    few paragraphs has none.

    Args:
        target: the suspicious document.
        source: the candidate source.
        settings: least cosine and least distance to the second, and what counts as a paragraph.
        encode: returns the sentences of a text with their vectors.
    """
    here, there = (split_paragraphs(text, settings.paragraph_length) for text in (target, source))
    if min(len(here), len(there)) < settings.paragraphs:
        return []
    (first, vectors), (second, others) = encode(target), encode(source)
    if not len(vectors) or not len(others):  # without words, and so without dimensions
        return []
    cosines = average_sentences(here, first.spans, vectors) @ average_sentences(there, second.spans, others).T
    best = cosines.argmax(axis=1)
    nearest = cosines[np.arange(len(here)), best]
    cosines[np.arange(len(here)), best] = -1.0
    second_best = cosines.max(axis=1, initial=-1.0)
    chosen = (nearest >= settings.paragraph_cosine) & (nearest - second_best >= settings.paragraph_margin)
    passages: list[Passage] = []
    before = (-2, -2)
    for i in np.flatnonzero(chosen).tolist():
        j = int(best[i])
        (start, end), (source_start, source_end) = here[i].tolist(), there[j].tolist()
        if before == (i - 1, j - 1):
            last = passages.pop()
            start, source_start = last.this_offset, last.source_offset
        passages.append(Passage(start, end - start, source_start, source_end - source_start))
        before = (i, j)
    return passages
