"""Find the passages of two texts by their words and, with an encoder, by their paragraphs.

A paragraph that a language model rewrote shares few words with its original, and its neighbours may come from anywhere:
each paragraph of the target is matched with at most one of the source. Paragraphs are separated by blank lines.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pan_scdg.align.passages import Alignment, extend_copies
from pan_scdg.align.vectors import EncodedText, SentenceEncoder
from pan_scdg.models.find import FoundModel
from pan_scdg.records import Identities, MeasuredPassage, Passage, Span
from pan_scdg.text.units import Integers, prepare_text

if TYPE_CHECKING:
    from pan_scdg.models.encoder import EncoderUse

MIN_PARAGRAPHS = 5
"""Two texts with at least this many paragraphs each are matched by paragraphs."""
MIN_PARAGRAPH_LENGTH = 150
"""A shorter paragraph, such as a heading, is not matched."""
MIN_PARAGRAPH_COSINE = 0.65
MIN_PARAGRAPH_MARGIN = 0.1
"""Least difference between the cosines of the nearest and the second source paragraph."""

_BLANK_LINES = re.compile(r"\r?\n[ \t]*(?:\r?\n[ \t]*)+")


class PassageLocator:
    """Finds the passages of the pairs that another method than alignment decides; all of them count.

    Args:
        encoder: matches rewritten paragraphs; None: passages are found by their words only.
    """

    def __init__(self, encoder: SentenceEncoder | None = None) -> None:
        self.encoder = encoder

    @property
    def models(self) -> dict[str, FoundModel]:
        """Return the encoder by its name in ``job.json``."""
        return {} if self.encoder is None else {"passage_encoder": self.encoder.model}

    @property
    def encoders(self) -> dict[str, "EncoderUse"]:
        """Return how the encoder is loaded, by its name in ``job.json``."""
        return {} if self.encoder is None else {"passage_encoder": self.encoder.use}

    def identify(self) -> Identities:
        """Return the fields of ``job.json`` that identify the encoder."""
        return {} if self.encoder is None else {"passage_encoder": {"weights": self.encoder.fingerprint}}

    def align(self, target: str, source: str) -> Alignment:
        """Return the alignment of two texts by their words."""
        split = prepare_text if self.encoder is None else self.encoder.split
        return Alignment(split(target), split(source))

    def list_measured(self, target: str, source: str, alignment: Alignment) -> list[MeasuredPassage]:
        """Return all passages of two texts, in characters of the alignment, and the parts of the target around them."""
        if self.encoder is None:
            return alignment.list_measured()
        encode = self.encoder.encode
        return alignment.list_measured(match_paragraphs(alignment, lambda: (encode(target), encode(source))))

    def locate(self, target: str, source: str, *, positive: bool = True) -> list[MeasuredPassage]:
        """Return the passages of a positive pair in the order of the target; no two overlap in it."""
        if not positive:
            return []
        alignment = self.align(target, source)
        passages = self.list_measured(target, source, alignment)
        passages = [part for one in passages for part in alignment.split_patchwork(one)]
        if passages:
            passages = extend_copies(alignment.restore(alignment.add_copies(passages)), target, source)
        return [passage._replace(counts=True) for passage in passages]


def open_locator(encoder: str | None, device: str, opened: SentenceEncoder | None = None) -> PassageLocator:
    """Return a locator.

    Args:
        encoder: the name of the embedding model; None: passages are found by their words only.
        device: "cpu" or "cuda".
        opened: an encoder that is used if it has the same model.

    Raises:
        UserError: the embedding model is missing or damaged.
    """
    if encoder is None:
        return PassageLocator()
    is_open = opened is not None and opened.model.name == encoder
    return PassageLocator(opened if is_open else SentenceEncoder(encoder, device))


def match_paragraphs(alignment: Alignment, encode: Callable[[], tuple[EncodedText, EncodedText]]) -> list[Passage]:
    """Return the target paragraphs whose nearest source paragraph is near enough, and clearly nearer than the second.

    Neighbours in the target that match neighbours in the source in the same order are one passage. A text with too
    few paragraphs has none.

    Args:
        alignment: of the target and the source.
        encode: returns both with their vectors; called only if they have enough paragraphs.
    """
    paragraphs, others = (split_paragraphs(side.text) for side in (alignment.target, alignment.source))
    if min(len(paragraphs), len(others)) < MIN_PARAGRAPHS:
        return []
    first, second = encode()
    if not len(first.vectors) or not len(second.vectors):  # without words, and so without dimensions
        return []
    vectors = average_sentences(paragraphs, first.prepared.spans, first.vectors)
    cosines = vectors @ average_sentences(others, second.prepared.spans, second.vectors).T
    rows, best = np.arange(len(paragraphs)), cosines.argmax(axis=1)
    nearest = cosines[rows, best]
    cosines[rows, best] = -1.0
    margins = nearest - cosines.max(axis=1, initial=-1.0)
    passages: list[Passage] = []
    before = (-2, -2)
    for i in np.flatnonzero((nearest >= MIN_PARAGRAPH_COSINE) & (margins >= MIN_PARAGRAPH_MARGIN)).tolist():
        j = int(best[i])
        (start, end), (source_start, source_end) = paragraphs[i].tolist(), others[j].tolist()
        if before == (i - 1, j - 1):
            last = passages.pop()
            start, source_start = last.target.begin, last.source.begin
        passages.append(Passage(Span(start, end), Span(source_start, source_end)))
        before = (i, j)
    return passages


def split_paragraphs(text: str) -> Integers:
    """Return first character and exclusive end of the paragraphs that are long enough to be matched, ``[p, 2]``."""
    cuts = [match.span() for match in _BLANK_LINES.finditer(text)]
    spans = []
    for start, end in zip([0, *(end for _, end in cuts)], [*(start for start, _ in cuts), len(text)]):
        part = text[start:end]
        start, end = end - len(part.lstrip()), start + len(part.rstrip())
        if end - start >= MIN_PARAGRAPH_LENGTH:
            spans.append((start, end))
    return np.array(spans, np.int64).reshape(-1, 2)


def average_sentences(
    paragraphs: Integers, sentences: Integers, vectors: npt.NDArray[np.float32]
) -> npt.NDArray[np.float64]:
    """Return the unit vector of each paragraph's mean sentence, ``[p, d]``; zeros for one without sentences.

    A sentence belongs to the paragraph that contains its middle. On rewritten paragraphs these vectors are as good as
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
