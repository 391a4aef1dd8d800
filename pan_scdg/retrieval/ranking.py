"""Rankings of documents and their fusion: RRF, DAAC and CombSUM (paper, First-Stage PAN26 Retrieval).

A document's rank is its position in the given ranking, counted from 1. Sums are exact (``fsum``), so the order in
which rankings are given cannot change a score.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from math import fsum, log2

from pan_scdg.records import Ranked, Ranking

K = 60
"""The constant of reciprocal ranks."""
DEPTH = 1000
"""Documents of a route, and candidates after fusion (paper, First-Stage PAN26 Retrieval)."""


def rank_best(scores: Mapping[str, float], depth: int) -> Ranking:
    """Return the ``depth`` best documents: score descending, equal scores by ascending document id.

    Raises:
        ValueError: ``depth`` is below 1 or a score is not a number.
    """
    if depth < 1:
        raise ValueError(f"depth must be at least 1, not {depth}")
    if any(math.isnan(score) for score in scores.values()):
        raise ValueError("a score is not a number")
    return [Ranked(*item) for item in sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:depth]]


def list_ranks(ranking: Ranking) -> dict[str, int]:
    """Return the rank of every document, counted from 1.

    Raises:
        ValueError: a document is listed twice.
    """
    ranks = {ranked.doc_id: rank for rank, ranked in enumerate(ranking, 1)}
    if len(ranks) < len(ranking):
        raise ValueError("a ranking lists a document twice")
    return ranks


def fuse_by_rrf(rankings: Iterable[Ranking], depth: int) -> Ranking:
    """Fuse rankings by the sum of ``1 / (K + rank)``, with equal weights (paper, Three-route RRF).

    Raises:
        ValueError: ``depth`` is below 1, or a ranking lists a document twice.
    """
    parts: defaultdict[str, list[float]] = defaultdict(list)
    for ranking in rankings:
        for doc_id, rank in list_ranks(ranking).items():
            parts[doc_id].append(1 / (K + rank))
    return rank_best({doc_id: fsum(own) for doc_id, own in parts.items()}, depth)


def fuse_by_daac(bm25: Ranking, dense: Ranking, abstract: Ranking, depth: int) -> Ranking:
    """Fuse three routes by dense-anchored abstract calibration (paper, Eq. daac-full and Eq. supp-daac-components).

    Raises:
        ValueError: a ranking lists a document twice, or ``depth`` is below 1.
    """
    b, d, a = list_ranks(bm25), list_ranks(dense), list_ranks(abstract)
    scores = {x: score_daac(b.get(x), d.get(x), a.get(x)) for x in b.keys() | d.keys() | a.keys()}
    return rank_best({x: score for x, score in scores.items() if score > 0}, depth)


def score_daac(bm25: int | None, dense: int | None, abstract: int | None) -> float:
    """Return the DAAC score of a document from its ranks, counted from 1; None: not found by the route."""
    b, d, a = (0.0 if rank is None else 1 / (K + rank) for rank in (bm25, dense, abstract))
    uncertainty = 1 - min(1.0, (K + 1) * d)
    confidence = 0.0 if abstract is None else 1 / log2(abstract + 1)
    return d * (1 + uncertainty * confidence) + b**2 + a**2


def fuse_by_comb_sum(rankings: Iterable[Ranking], depth: int) -> Ranking:
    """Fuse rankings by the sum of their min-max normalised scores (paper, Four-way CombSUM).

    A ranking whose scores are all equal counts 0 for each of its documents, and so does a missing document.

    Raises:
        ValueError: a ranking lists a document twice, or ``depth`` is below 1.
    """
    parts: defaultdict[str, list[float]] = defaultdict(list)
    for ranking in rankings:
        list_ranks(ranking)
        low = min((ranked.score for ranked in ranking), default=0.0)
        span = max((ranked.score for ranked in ranking), default=0.0) - low
        for doc_id, score in ranking:
            parts[doc_id].append((score - low) / span if span > 0 else 0.0)
    return rank_best({doc_id: fsum(values) for doc_id, values in parts.items()}, depth)
