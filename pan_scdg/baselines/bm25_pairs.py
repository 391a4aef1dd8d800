"""Score pairs by BM25 with the suspicious document as a query on the source (paper, BM25 pair score)."""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from pan_scdg.baselines.token_grams import split_tokens
from pan_scdg.records import TextPair


class Collection(NamedTuple):
    """The sources that term statistics are taken over: those of a manifest, each document once, whatever the pairs."""

    digest: str
    """Hash of their texts; see `hash_collection`."""
    texts: Callable[[], Iterable[str]]
    """Yields the texts, one at a time; called only if a score is missing."""


class Statistics(NamedTuple):
    """Statistics of a collection."""

    documents: int
    document_frequency: Mapping[str, int]
    average_length: float
    """In tokens."""


class Bm25PairScorer:
    """BM25 per query token, with statistics over one collection of sources."""

    features: tuple[str, ...] = ("score",)

    def __init__(self, k1: float, b: float, collection: Collection) -> None:
        self.k1, self.b, self._collection = k1, b, collection

    def identify(self) -> dict[str, Any]:
        """Return the method, its constants and the collection."""
        return {"kind": "bm25", "k1": self.k1, "b": self.b, "collection": self._collection.digest}

    @cached_property
    def statistics(self) -> Statistics:
        """Return the statistics of the collection, counted when first needed."""
        return count_statistics(self._collection.texts())

    def score(self, pairs: Iterable[TextPair]) -> Iterator[tuple[float, ...]]:
        """Yield one number per pair, 0 or more."""
        for pair in pairs:
            yield (
                compute_pair_score(
                    split_tokens(pair.target), split_tokens(pair.source), self.statistics, self.k1, self.b
                ),
            )


def hash_collection(digests: Iterable[str]) -> str:
    """Return the SHA-256 of the hashes of the documents' texts, independent of their order."""
    return hashlib.sha256("\n".join(sorted(digests)).encode()).hexdigest()


def count_statistics(texts: Iterable[str]) -> Statistics:
    """Return document frequencies and mean length; texts are read one at a time, memory holds the distinct tokens."""
    documents, length, frequency = 0, 0, Counter[str]()
    for text in texts:
        tokens = split_tokens(text)
        documents += 1
        length += len(tokens)
        frequency.update(set(tokens))
    return Statistics(documents, frequency, length / documents if documents else 0.0)


def compute_pair_score(query: list[str], source: list[str], statistics: Statistics, k1: float, b: float) -> float:
    """Return the paper's raw score divided by the number of tokens of the query.

    ``1/m sum_t qtf(t) log(1 + (N - df(t) + .5) / (df(t) + .5)) f(t) (k1 + 1) / (f(t) + k1 (1 - b + b |S| / avgdl))``
    over the distinct terms t of a query of m tokens, with natural logarithms. An empty query scores 0. Terms are added
    with `math.fsum`, so that the result does not depend on their order.

    Raises:
        ValueError: a term of the source is in no document of the collection.
    """
    if not query:
        return 0.0
    counts = Counter(source)
    wanted = [(term, times, counts[term]) for term, times in Counter(query).items() if term in counts]
    if not wanted:
        return 0.0
    norm = k1 * (1 - b + b * len(source) / statistics.average_length)
    terms = (times * _compute_idf(statistics, term) * f * (k1 + 1) / (f + norm) for term, times, f in wanted)
    return math.fsum(terms) / len(query)


def _compute_idf(statistics: Statistics, term: str) -> float:
    df = statistics.document_frequency.get(term, 0)
    if not df:
        raise ValueError(f"no document of the collection contains {term!r}, a term of the source")
    return math.log(1 + (statistics.documents - df + 0.5) / (df + 0.5))
