"""Lexical baselines: n-grams of characters and of word-like tokens, and BM25 of a pair (paper, Pairwise Baselines).

A token is a run of letters and digits in lower case; an apostrophe, underscore or hyphen stays where it joins two such
runs.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from pan_scdg.methods.char_ngrams import compute_covered_share
from pan_scdg.digests import hash_text
from pan_scdg.profile.baseline import Bm25Pairs, CharNgrams, Containment, GramLogistic
from pan_scdg.records import TextPair

TOKEN = re.compile(r"[^\W_]+(?:['’_-][^\W_]+)*")


class Overlap(NamedTuple):
    """Overlap of two sets of n-grams, G(P) of the target and G(S) of the source; 0 if one is empty."""

    jaccard: float
    """``|G(P) & G(S)| / |G(P) | G(S)|``."""
    target_containment: float
    """``|G(P) & G(S)| / |G(P)|``."""
    source_containment: float
    """``|G(P) & G(S)| / |G(S)|``."""


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


@dataclass
class LexicalScorer:
    """A `PairScorer` that computes its numbers from both texts of a pair alone."""

    identity: dict[str, Any]
    compute: Callable[[str, str], tuple[float, ...]]
    """Returns the numbers of target and source."""
    features: tuple[str, ...] = ("score",)

    def identify(self) -> dict[str, Any]:
        """Return the method, its constants and, for BM25, the collection."""
        return self.identity

    def score(self, pairs: Iterable[TextPair]) -> Iterator[tuple[float, ...]]:
        """Yield the numbers of each pair."""
        return (self.compute(pair.target, pair.source) for pair in pairs)


def make_char_ngrams(settings: CharNgrams) -> LexicalScorer:
    """Return the scorer of the covered share of characters."""
    identity, n = {"kind": "char-ngrams", "n": settings.n}, settings.n
    return LexicalScorer(identity, lambda p, s: (compute_covered_share(p, s, n),))


def make_containment(settings: Containment) -> LexicalScorer:
    """Return the scorer of the covered share of tokens."""
    identity, n = {"kind": "containment", "n": settings.n}, settings.n
    return LexicalScorer(identity, lambda p, s: (measure_covered_tokens(split_tokens(p), split_tokens(s), n),))


def make_gram_overlap(settings: GramLogistic) -> LexicalScorer:
    """Return the scorer of the features of the logistic model, whose weights are fitted later."""
    identity, n = {"kind": "gram-overlap", "n": settings.n}, settings.n
    return LexicalScorer(identity, lambda p, s: measure_overlap(split_tokens(p), split_tokens(s), n), Overlap._fields)


def make_bm25(settings: Bm25Pairs, collection: Collection) -> LexicalScorer:
    """Return the scorer by BM25, which counts the collection when a score is first needed."""
    k1, b = settings.k1, settings.b
    count = cache(lambda: count_statistics(collection.texts()))
    identity = {"kind": "bm25", "k1": k1, "b": b, "collection": collection.digest}
    return LexicalScorer(identity, lambda p, s: (compute_pair_score(split_tokens(p), split_tokens(s), count(), k1, b),))


def split_tokens(text: str) -> list[str]:
    """Return the word-like tokens of ``text`` in their order."""
    return TOKEN.findall(text.lower())


def measure_covered_tokens(target: Sequence[str], source: Sequence[str], n: int) -> float:
    """Return the share of target tokens inside an n-gram that also occurs in the source; each token counts once.

    A pair of which one text has fewer than ``n`` tokens scores 0.
    """
    if min(len(target), len(source)) < n:
        return 0.0
    known, covered = set(_iterate_grams(source, n)), np.zeros(len(target), dtype=np.bool_)
    for start, gram in enumerate(_iterate_grams(target, n)):
        if gram in known:
            covered[start : start + n] = True
    return float(covered.mean())


def measure_overlap(target: Sequence[str], source: Sequence[str], n: int) -> Overlap:
    """Return the overlap of the distinct n-grams of both texts.

    The paper names "4-gram Jaccard similarity and the two directional containment scores" and gives no formula; these
    are the usual ones, over sets. The covered share of tokens is another number.
    """
    ours, theirs = set(_iterate_grams(target, n)), set(_iterate_grams(source, n))
    common = len(ours & theirs)
    return Overlap(
        _divide(common, len(ours) + len(theirs) - common), _divide(common, len(ours)), _divide(common, len(theirs))
    )


def _iterate_grams(tokens: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    return zip(*(islice(tokens, i, None) for i in range(n)), strict=False)


def _divide(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def hash_collection(digests: Iterable[str]) -> str:
    """Return the SHA-256 of the hashes of the documents' texts, independent of their order."""
    return hash_text("\n".join(sorted(digests)))


def count_statistics(texts: Iterable[str]) -> Statistics:
    """Return document frequencies and mean length; texts are read one at a time, memory holds the distinct tokens."""
    documents, length, frequency = 0, 0, Counter[str]()
    for text in texts:
        tokens = split_tokens(text)
        documents += 1
        length += len(tokens)
        frequency.update(set(tokens))
    return Statistics(documents, dict(frequency), length / documents if documents else 0.0)


def compute_pair_score(query: list[str], source: list[str], statistics: Statistics, k1: float, b: float) -> float:
    """Return the paper's raw score divided by the number of tokens of the query.

    ``1/m sum_t qtf(t) log(1 + (N - df(t) + .5) / (df(t) + .5)) f(t) (k1 + 1) / (f(t) + k1 (1 - b + b |S| / avgdl))``
    over the distinct terms t of a query of m tokens, with natural logarithms. An empty query scores 0. Terms are added
    with `math.fsum`, so that the result does not depend on their order. The source is one of the collection.
    """
    if not query:
        return 0.0
    counts = Counter(source)
    wanted = [(term, times, counts[term]) for term, times in Counter(query).items() if term in counts]
    if not wanted:
        return 0.0
    norm = k1 * (1 - b + b * len(source) / statistics.average_length)
    frequency, documents = statistics.document_frequency, statistics.documents
    terms = (
        times * math.log(1 + (documents - frequency[term] + 0.5) / (frequency[term] + 0.5)) * f * (k1 + 1) / (f + norm)
        for term, times, f in wanted
    )
    return math.fsum(terms) / len(query)
