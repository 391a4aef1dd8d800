"""Find the text that many documents share and no source has, such as the question that all were given.

Documents are compared by runs of `RUN_WORDS` words, normalised as for an alignment. Two documents that have more in
common than a question are copies of each other and count as one: what only copies share is no question.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.align.seeds import RUN_WORDS, list_grams
from pan_scdg.text.sentences import find_sentence_spans
from pan_scdg.text.units import Integers, read_words

MIN_DOCUMENTS = 3
"""Documents that share a question, or another text that none of them wrote."""
MAX_WORDS, MAX_SHARE = 150, 2 / 3
"""Two documents that have more words, or a larger share of the longer one, in common are copies."""
MIN_SENTENCE_SHARE = 2 / 3
"""Least share of the sentences or lines around a shared stretch that it fills: a question is a whole sentence."""
_NO_RUNS = np.empty(0, np.int64)
_STOPS = re.compile("[.?!:;,…]+")

Mask = npt.NDArray[np.bool_]


class SharedStretch(NamedTuple):
    """A stretch of a document that others contain, too."""

    begin: int
    """First character."""
    end: int
    """The character after the last."""
    documents: tuple[int, ...]
    """Numbers of the documents that contain it."""
    words: tuple[str, ...]
    """Its words, normalised."""


class HashedText(NamedTuple):
    """The hashes of the runs of words of a text; its words are not kept, for there may be many texts."""

    text: str
    size: int
    """Number of words."""
    runs: Integers
    """The hash of the run that begins at each word, ``[max(0, size - RUN_WORDS + 1)]``."""


class _Document:
    """The runs of a text that no source contains; all of them before the sources are known."""

    def __init__(self, hashed: HashedText, author: str = "") -> None:
        self.author, self.size, self.runs = author, hashed.size, hashed.runs
        self.own: Mask = np.ones(len(self.runs), bool)
        """True for these runs."""
        self.distinct: Integers = np.unique(self.runs)

    def leave_out(self, in_sources: Integers) -> None:
        """Leave out the runs that sources contain."""
        self.own = ~np.isin(self.runs, in_sources)
        self.distinct = np.unique(self.runs[self.own])

    def cover(self, runs: Integers) -> Mask:
        """Return True for the words inside runs with these hashes that no source contains, ``[w]``."""
        chosen = self.own & np.isin(self.runs, runs)
        covered = np.zeros(self.size, bool)
        for shift in range(RUN_WORDS):
            covered[shift : shift + len(chosen)] |= chosen
        return covered


def hash_runs(text: str) -> HashedText:
    """Return the hashes of the runs of words of a text."""
    words = read_words(text)
    return HashedText(text, len(words.forms), np.array([hash(gram) for gram in list_grams(words)], np.int64))


def find_shared(
    texts: Sequence[HashedText],
    sources: Iterable[HashedText],
    required: int = MIN_DOCUMENTS,
    authors: Sequence[str] | None = None,
    max_words: float = MAX_WORDS,
) -> list[list[SharedStretch]]:
    """Return the stretches of each text that ``required`` independent texts share and no source has, in order.

    What many independent sources share is no copy from one of them: they may be answers to the same question.

    Args:
        texts: the documents that may contain a question.
        sources: texts that the others may have copied from.
        required: least number of texts, of which no two are copies of each other or of one author.
        authors: of each text; "" and None: of another one than all others.
        max_words: that two texts may have in common without being copies of each other.
    """
    documents = [_Document(text, author) for text, author in zip(texts, authors or [""] * len(texts), strict=True)]
    if not _find_frequent(documents, required).size:
        return [[] for _ in texts]
    others = [_Document(text) for text in sources]
    shared = _list_owners(others, MIN_DOCUMENTS, MAX_WORDS)
    in_sources = np.setdiff1d(np.concatenate([_NO_RUNS, *(one.distinct for one in others)]), list(shared))
    for document in documents:
        document.leave_out(in_sources)
    owners = _list_owners(documents, required, max_words)
    return [list(_list_stretches(one.text, document, owners)) for one, document in zip(texts, documents)]


def _find_frequent(documents: Sequence[_Document], required: int) -> Integers:
    """Return the runs that enough documents contain, independent or not."""
    runs, counts = np.unique(np.concatenate([_NO_RUNS, *(one.distinct for one in documents)]), return_counts=True)
    return np.asarray(runs[counts >= required])


def _list_owners(documents: Sequence[_Document], required: int, max_words: float) -> dict[int, tuple[int, ...]]:
    """Return the runs that enough independent documents contain, and the numbers of all documents that do."""
    frequent = _find_frequent(documents, required)
    owners: defaultdict[int, list[int]] = defaultdict(list)
    for number, document in enumerate(documents):
        for run in document.distinct[np.isin(document.distinct, frequent)].tolist():
            owners[run].append(number)

    @cache
    def are_copies(first: int, second: int) -> bool:
        one, other = documents[first], documents[second]
        if one.author == other.author != "":
            return True
        words = int(one.cover(other.distinct).sum())
        return words > min(max_words, MAX_SHARE * max(one.size, other.size))

    @cache
    def is_question(numbers: tuple[int, ...]) -> bool:
        independent: list[int] = []
        for number in numbers:
            if not any(are_copies(other, number) for other in independent):
                independent.append(number)
                if len(independent) == required:
                    return True
        return False

    return {run: tuple(numbers) for run, numbers in owners.items() if is_question(tuple(numbers))}


def _list_stretches(text: str, document: _Document, owners: Mapping[int, tuple[int, ...]]) -> Iterator[SharedStretch]:
    """Yield the stretches of a document inside such runs that fill most of the sentences around them."""
    covered = document.cover(np.fromiter(owners, np.int64, len(owners)))
    if not covered.any():
        return
    forms, words = read_words(text)
    sentences = (begin for begin, _ in find_sentence_spans(text))
    lines = (match.end() for match in re.finditer("\n", text))
    # the first word of each sentence and line, and the number of words
    bounds = np.unique(np.searchsorted(words[:, 0], [0, *sentences, *lines, len(text)]))
    edges = np.flatnonzero(np.diff(covered, prepend=False, append=False)).tolist()
    for first, last in (_trim(*edge, bounds.tolist()) for edge in zip(edges[::2], edges[1::2])):
        if first < last:
            containing = max((owners.get(run, ()) for run in document.runs[first:last].tolist()), key=len, default=())
            begin, end = int(words[first, 0]), int(words[last - 1, 1])
            yield SharedStretch(begin, end + count_stops(text, end), containing, forms[first:last])


def count_stops(text: str, end: int) -> int:
    """Return the number of punctuation marks at ``end`` that belong to what stands before."""
    stops = _STOPS.match(text, end)
    return 0 if stops is None else len(stops[0])


def _trim(first: int, last: int, bounds: Sequence[int]) -> tuple[int, int]:
    """Return a stretch of words without the parts of sentences at its ends; empty if it is no whole sentence."""
    low, high = bisect_right(bounds, first) - 1, bisect_left(bounds, last)
    if high - low > 1 and bounds[low + 1] - first < MIN_SENTENCE_SHARE * (bounds[low + 1] - bounds[low]):
        low, first = low + 1, bounds[low + 1]
    if high - low > 1 and last - bounds[high - 1] < MIN_SENTENCE_SHARE * (bounds[high] - bounds[high - 1]):
        high, last = high - 1, bounds[high - 1]
    is_whole = last - first >= MIN_SENTENCE_SHARE * (bounds[high] - bounds[low])
    return first, last if is_whole else first
