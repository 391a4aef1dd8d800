"""Score pairs by BM25 of the target as a query on the source (paper, BM25 pair score)."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import Field

from pan_scdg.methods import Measurements, Method, MethodOptions, MethodSettings
from pan_scdg.methods.simple import SimpleMethod, split_tokens
from pan_scdg.records import Reason, TextPair
from pan_scdg.settings import ProfileTables

LARGEST_LOG = 30.0
"""Logarithm of a number of sources far beyond any."""


class Bm25PairSettings(MethodSettings):
    """BM25 of the target as a query on the source, divided by the tokens of the query (BM25 pair score)."""

    needs_input = True
    k1: float = Field(default=1.2, gt=0)
    b: float = Field(default=0.75, ge=0, le=1)

    def open(self, profile: ProfileTables, options: MethodOptions, statistics: Any = None) -> Method:
        """Return the method with the statistics of all sources."""
        return Bm25Method(self, options, statistics)

    def count_sources(self, texts: Iterable[str]) -> "Statistics":
        """Return document frequencies and mean length; see `count_statistics`."""
        return count_statistics(texts)

    def warn_of_sources(self, statistics: Any, threshold: float | None) -> list[Reason]:
        """Return a reason if the sources are too few for a copy to reach the threshold."""
        needed = 0 if threshold is None else count_needed_sources(threshold)
        if threshold is None or statistics.documents >= needed:
            return []
        return [Reason("few_sources", {"sources": statistics.documents, "score": threshold, "needed": needed})]


class Statistics(NamedTuple):
    """Statistics of the sources of an input, each document once, whatever the pairs."""

    documents: int
    document_frequency: Mapping[str, int]
    average_length: float
    """In tokens."""


class Bm25Method(SimpleMethod):
    """Scores a pair by BM25, divided by the tokens of the target; see `methods.Method`.

    Args:
        settings: k1 and b.
        options: without effect.
        statistics: of all sources; required to score.
    """

    def __init__(
        self, settings: Bm25PairSettings, options: MethodOptions, statistics: Statistics | None = None
    ) -> None:
        self._settings, self._statistics = settings, statistics

    def score(self, pairs: Sequence[TextPair]) -> list[Measurements]:
        """Return ``score`` of each pair, which is not negative.

        Raises:
            ValueError: the method was made without statistics.
        """
        if self._statistics is None:
            raise ValueError("BM25 needs the statistics of all sources")
        constants = self._statistics, self._settings.k1, self._settings.b
        tokens = ((split_tokens(pair.target), split_tokens(pair.source)) for pair in pairs)
        return [Measurements({"score": compute_pair_score(target, source, *constants)}) for target, source in tokens]


def count_statistics(texts: Iterable[str]) -> Statistics:
    """Return document frequencies and mean length; memory contains one text and the distinct tokens."""
    documents, length, frequency = 0, 0, Counter[str]()
    for text in texts:
        tokens = split_tokens(text)
        documents += 1
        length += len(tokens)
        frequency.update(set(tokens))
    return Statistics(documents, dict(frequency), length / documents if documents else 0.0)


def count_needed_sources(threshold: float) -> int:
    """Return the number of sources N with which a copy reaches a threshold if no other source has half of its words.

    Each of these adds ``log(1 + (N - .5) / 1.5)``, see `compute_pair_score`.
    """
    return max(1, math.ceil(1.5 * math.expm1(min(2 * threshold, LARGEST_LOG)) + 0.5))


def compute_pair_score(
    query: Sequence[str], source: Sequence[str], statistics: Statistics, k1: float, b: float
) -> float:
    """Return the paper's raw score divided by the number of tokens of the query.

    ``1/m sum_t qtf(t) log(1 + (N - df(t) + .5) / (df(t) + .5)) f(t) (k1 + 1) / (f(t) + k1 (1 - b + b |S| / avgdl))``
    over the distinct terms t of a query of m tokens, with natural logarithms. An empty query scores 0. Terms are added
    with `math.fsum`, so that the result does not depend on their order.

    Raises:
        KeyError: the source is not one of those that were counted.
    """
    counts = Counter(source)
    common = [(term, times, counts[term]) for term, times in Counter(query).items() if term in counts]
    if not common:
        return 0.0
    norm = k1 * (1 - b + b * len(source) / statistics.average_length)
    frequency, documents = statistics.document_frequency, statistics.documents
    terms = (
        times * math.log(1 + (documents - frequency[term] + 0.5) / (frequency[term] + 0.5)) * f * (k1 + 1) / (f + norm)
        for term, times, f in common
    )
    return math.fsum(terms) / len(query)
