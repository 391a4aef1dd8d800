"""Simulate cascades with heads of several sizes from the gains of both models, and choose the smallest good one."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pan_scdg.evaluation.report import Estimate
from pan_scdg.evaluation.retrieval import Qrels, bootstrap_queries, compute_per_query
from pan_scdg.jobs.retrieval.cascade import Cascade, make_cascade
from pan_scdg.profile import RetrievalSettings
from studies.retrieval.comparison import make_runs
from studies.retrieval.data import Orders, Stages, list_ranked
from pan_scdg.scoring.candidates import Found
from pan_scdg.scoring.reranking import Ranking, rank_queries
from pan_scdg.store import Store

SIZES = (1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 300, 400, 500, 750)
"""Sizes of heads; those that are not below the number of reranked candidates are left out."""
ENOUGH = 0.99
"""Share of the full run's nDCG@10 that a head must keep."""
MEASURE, TOP = "nDCG@10", 10


class Agreement(NamedTuple):
    """Means over queries, with 95 % bootstrap intervals, of a ranking beside that of the full run."""

    ndcg: Estimate
    difference: Estimate
    """nDCG@10 minus that of the full run."""
    overlap: Estimate
    """Share of the first ten documents of the full run that are among the first ten."""
    correlation: Estimate
    """Kendall's tau of the reranked candidates; nan if no query has two."""


class Simulation:
    """Cascades of two models that have both scored all candidates.

    Args:
        stages: the candidates of each query.
        small: the order of the small model.
        large: gains of the profile's model.
        settings: those of the profile's model.
        store: holds the gains themselves if the aggregation needs them.
    """

    def __init__(
        self,
        stages: Stages,
        small: Mapping[str, Ranking],
        large: Found,
        settings: RetrievalSettings,
        store: Store,
    ) -> None:
        self._stages, self._small, self._large, self._settings, self._store = stages, small, large, settings, store
        self.small = list_ranked(small)
        self.full = list_ranked(rank_queries(stages, large, settings, store).rankings)
        self.reranked = {query_id: sum(score is not None for _, score in of) for query_id, of in small.items()}

    def cut(self, head: int) -> Cascade:
        """Return the cascade with a head of this size."""
        return make_cascade(self._stages, self._small, head)

    def rank(self, head: int) -> dict[str, list[str]]:
        """Return the order of a cascade with a head of this size, as ``run`` writes it."""
        cascade = self.cut(head)
        ranked = rank_queries(cascade.heads, self._large, self._settings, self._store)
        return list_ranked(cascade.append_tails(ranked.rankings))

    def list_sizes(self) -> list[int]:
        """Return the heads to compare, the smallest first."""
        most = max(self.reranked.values(), default=0)
        return [head for head in SIZES if head < most]

    def compare(self, qrels: Qrels, orders: Orders) -> Agreement:
        """Return the agreement of ``orders`` with the full run on the queries of ``qrels``."""
        ndcg, full = measure_ndcg(qrels, orders), measure_ndcg(qrels, self.full)
        values = {
            "ndcg": ndcg,
            "difference": {query_id: ndcg[query_id] - full[query_id] for query_id in ndcg},
            "overlap": {q: compute_overlap(orders[q], self.full[q]) for q in qrels if self.full.get(q)},
            "correlation": {
                q: compute_correlation(orders[q][: self.reranked[q]], self.full[q][: self.reranked[q]])
                for q in qrels
                if self.reranked.get(q, 0) > 1
            },
        }
        intervals = bootstrap_queries(values)
        return Agreement(*(Estimate(compute_mean(of), *intervals[name]) for name, of in values.items()))


def measure_ndcg(qrels: Qrels, orders: Orders) -> dict[str, float]:
    """Return nDCG@10 of each query of ``qrels``."""
    return compute_per_query(qrels, make_runs(orders))[MEASURE]


def compute_mean(values: Mapping[str, float]) -> float:
    """Return the mean, which does not depend on the order of the queries; nan of none."""
    return math.fsum(values.values()) / len(values) if values else math.nan


def compute_overlap(order: Sequence[str], full: Sequence[str]) -> float:
    """Return the share of the first ten documents of ``full`` that are among the first ten of ``order``."""
    first = set(full[:TOP])
    return len(first.intersection(order[:TOP])) / len(first)


def compute_correlation(order: Sequence[str], full: Sequence[str]) -> float:
    """Return Kendall's tau of two orders of the same documents."""
    from scipy.stats import kendalltau

    places = {doc_id: place for place, doc_id in enumerate(full)}
    return float(kendalltau(range(len(order)), [places[doc_id] for doc_id in order]).statistic)


def choose_head(by_size: Mapping[int, float], full: float) -> int | None:
    """Return the smallest head whose nDCG@10 is at least `ENOUGH` of the full run's; None if none is."""
    return min((head for head, ndcg in by_size.items() if ndcg >= ENOUGH * full), default=None)
