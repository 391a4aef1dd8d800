"""BM25: the interface of the three engines, and Terrier's formula, which two of them share.

The order of Terrier's operations is kept, so that the scores of both engines agree to the last bits.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from pan_scdg.records import Ranking
from pan_scdg.retrieval.ranking import DEPTH, fuse_by_rrf
from pan_scdg.text.sentences import split_sentences

TERMS, FULL_TERMS = 64, 512
"""Number of the rarest indexed terms that are kept of a sentence, and of a whole query (paper, BM25 retrieval)."""
K1, B = 1.2, 0.75
"""The paper's (BM25 retrieval), which are the defaults of Terrier and SQLite too."""
SCORE_STEPS = 1e9
"""Terrier's scores are compared in whole multiples of 1e-9: sums of the same numbers in another order differ in their
last bits, and equal documents must stay equal."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Opened = TypeVar("Opened", bound="LexicalIndex")


class LexicalIndex(ABC):
    """A BM25 index, opened for reading. Use it as a context manager, in one thread."""

    def search_sentences(self, query: str, terms: int = TERMS, depth: int = DEPTH) -> Ranking:
        """Rank documents for a query: one search a sentence, the rankings fused by reciprocal rank with k = 60.

        The score is the fused one. A sentence without any indexed term adds nothing; without any there is no result.

        Args:
            query: the whole text.
            terms: number of the rarest indexed terms of a sentence that are searched.
            depth: documents of each ranking, and of the result.
        """
        return fuse_by_rrf(self.rank(split_sentences(query), terms, depth), depth)

    def search_full(self, query: str, terms: int = FULL_TERMS, depth: int = DEPTH) -> Ranking:
        """Rank documents for the query as one unit; the score is that of BM25."""
        return next(iter(self.rank([query], terms, depth)), [])

    @abstractmethod
    def rank(self, units: Sequence[str], terms: int, depth: int) -> Sequence[Ranking]:
        """Return the ranking for each unit by its rarest ``terms`` indexed terms; one without any may be left out."""

    @abstractmethod
    def close(self) -> None:
        """Close the files."""

    def __enter__(self: Opened) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def pick_rarest(frequencies: Mapping[str, int], limit: int) -> list[str]:
    """Return the ``limit`` indexed terms of lowest document frequency, equal ones by term; 0 is not indexed."""
    return [term for _, term in sorted((n, term) for term, n in frequencies.items() if n)[:limit]]


def compute_idf(documents: int, frequency: int) -> float:
    """Return Terrier's weight of a term in ``frequency`` of the ``documents``; negative if in more than half of them.

    Terrier multiplies it with a weight of the term's count in the query, which is 1 here: every term counts once.
    """
    return math.log((documents - frequency + 0.5) / (frequency + 0.5)) * (1 / math.log(2))


def compute_length_norms(lengths: Integers) -> Floats:
    """Return the term of the denominator that depends on the length of each document, ``[documents]``."""
    average = float(lengths.sum()) / max(1, len(lengths))
    # Where every document is empty no term is indexed and no norm is asked for.
    return np.asarray(K1 * ((1 - B) + B * lengths / (average or 1.0)), np.float64)


def order_terms(frequencies: Mapping[str, int], documents: int) -> list[str]:
    """Return the terms in the order in which scores are summed: those of negative weight first, then rarest first.

    Terrier adds in the order of the query. Both engines get this one, so that their sums agree to the last bit.
    """
    return sorted(frequencies, key=lambda term: (compute_idf(documents, n := frequencies[term]) >= 0, n, term))


def round_to_steps(scores: Floats) -> Integers:
    """Return scores in whole steps of 1e-9."""
    return np.rint(scores * SCORE_STEPS).astype(np.int64)
