"""The interface of the three BM25 engines."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeVar

from pan_scdg.profile import Bm25Settings
from pan_scdg.retrieval.ranking import Ranking, fuse_by_rrf
from pan_scdg.retrieval.sentences import split_sentences

Opened = TypeVar("Opened", bound="LexicalIndex")


class LexicalIndex(ABC):
    """A BM25 index, opened for reading. Use it as a context manager, in one thread."""

    def __init__(self, settings: Bm25Settings) -> None:
        self._settings = settings

    def search_sentences(self, query_text: str) -> Ranking:
        """Rank documents for a query: one search a sentence, the rankings fused by reciprocal rank with k = 60.

        The score is the fused one. A sentence without any indexed term adds nothing; without any there is no result.
        """
        return fuse_by_rrf(self.rank(split_sentences(query_text), self._settings.terms), self._settings.depth)

    def search_full(self, query_text: str) -> Ranking:
        """Rank documents for the query as one unit; the score is that of BM25."""
        return next(iter(self.rank([query_text], self._settings.full_terms)), [])

    @abstractmethod
    def rank(self, units: Sequence[str], terms: int) -> Sequence[Ranking]:
        """Return the ranking for each unit by its rarest ``terms`` indexed terms; one without any may be left out."""

    @abstractmethod
    def close(self) -> None:
        """Close the files."""

    def __enter__(self: Opened) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
