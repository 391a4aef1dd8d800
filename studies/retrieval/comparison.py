"""Choose a reranking configuration, rerank by it, and compare the rankings (paper, PAN26 retrieval).

The grid is searched on the development folds of one coarse ranking; its best configuration is evaluated on the hold-out
and applied unchanged to other rankings.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pan_scdg.evaluation.report import Estimate
from pan_scdg.evaluation.resampling import SWAPS, run_randomisation_test
from pan_scdg.evaluation.retrieval import RETRIEVAL_METRICS, TIRA, Qrels, Run, bootstrap_queries, compute_per_query
from pan_scdg.profile import RetrievalSettings
from studies.data.queries import QueryFold
from studies.retrieval.data import Data, Orders, RetrievalStudy, Stages, list_ranked, require_two, split_qrels
from studies.retrieval.grid import (
    UPPER_TAILS,
    Candidates,
    Configuration,
    GridRow,
    make_candidates,
    rerank_by,
    search_grid,
)
from pan_scdg.scdg.aggregation import Aggregate, choose_aggregate
from pan_scdg.scoring.candidates import Found
from pan_scdg.scoring.reranking import rank_queries
from pan_scdg.store import Store

METRICS = tuple(name for name in RETRIEVAL_METRICS if name != TIRA)
"""Columns of the paper's table; RR is its MRR, AP its MAP."""
PAPER = Configuration("top-2%", 1000, 0.75)
"""The paper's choice on its development folds."""
PerQuery = Mapping[str, Mapping[str, float]]
"""Values by measure and query."""


class Difference(NamedTuple):
    """The mean difference from the row above on the same queries."""

    mean: Estimate
    """With a 95 % bootstrap interval over queries."""
    p_value: float
    """Of a two-sided paired randomisation test."""


class RetrievalRow(NamedTuple):
    """One row of the table."""

    name: str
    metrics: Mapping[str, float]
    """Means over all judged queries, by the names of `METRICS`."""
    above: Mapping[str, Difference]
    """Differences from the row above by measure; empty in the first row."""


class Frozen(NamedTuple):
    """The grid on the development queries, and its best configuration on the held-out queries."""

    grid: Sequence[GridRow]
    """The best first."""
    development: Sequence[RetrievalRow]
    """The coarse ranking and the reranked one."""
    holdout: Sequence[RetrievalRow]
    """The same two on the hold-out."""

    @property
    def chosen(self) -> Configuration:
        """Return the best configuration, which is applied unchanged from here on."""
        return self.grid[0].configuration


def compare_rows(qrels: Qrels, runs: Sequence[tuple[str, Run]], resamples: int = SWAPS) -> list[RetrievalRow]:
    """Evaluate every run on all queries of ``qrels``, and compare it with the run before; missing queries count 0.

    Args:
        qrels: grades by query and document.
        runs: name and run of each row.
        resamples: number of random swaps of a test.

    Raises:
        UserError: there are fewer than two judged queries, or a grade is above 20.
    """
    require_two(qrels)
    rows, former = [], None
    for name, run in runs:
        values = {metric: of for metric, of in compute_per_query(qrels, run).items() if metric in METRICS}
        # correctly rounded sums: no figure may depend on the order of the files
        means = {metric: math.fsum(of.values()) / len(of) for metric, of in values.items()}
        rows.append(RetrievalRow(name, means, {} if former is None else _compare(values, former, resamples)))
        former = values
    return rows


def _compare(values: PerQuery, former: PerQuery, resamples: int) -> dict[str, Difference]:
    differences = {m: {query: value - former[m][query] for query, value in of.items()} for m, of in values.items()}
    intervals = bootstrap_queries(differences)
    found = {}
    for metric, of in differences.items():
        column = np.array([of[query] for query in sorted(of)])
        p_value = run_randomisation_test(column, resamples=resamples)
        found[metric] = Difference(Estimate(math.fsum(column) / len(column), *intervals[metric]), p_value)
    return found


def choose_configuration(qrels: Qrels, candidates: Mapping[str, Candidates], folds: Sequence[QueryFold]) -> Frozen:
    """Search the grid on the development folds, and evaluate the best configuration there and on the hold-out.

    Raises:
        UserError: a role has fewer than two judged queries, or a grade is above 20.
    """
    development, holdout = split_qrels(qrels, folds)
    plain = make_runs({query: found.doc_ids for query, found in candidates.items()})
    grid = search_grid(development, candidates)
    both = [("coarse", plain), ("reranked", apply(grid[0].configuration, candidates))]
    return Frozen(grid, compare_rows(development, both), compare_rows(holdout, both))


def apply(chosen: Configuration, candidates: Mapping[str, Candidates]) -> dict[str, list[tuple[str, float]]]:
    """Return the run of the reranked candidates of every query."""
    return make_runs({query: rerank_by(found, chosen) for query, found in candidates.items()})


def make_run(doc_ids: Sequence[str]) -> list[tuple[str, float]]:
    """Return documents with whole scores down to 1, so that every evaluator keeps this order."""
    return [(doc_id, float(len(doc_ids) - i)) for i, doc_id in enumerate(doc_ids)]


def make_runs(orders: Mapping[str, Sequence[str]]) -> dict[str, list[tuple[str, float]]]:
    """Return the run of the documents of each query."""
    return {query_id: make_run(order) for query_id, order in orders.items()}


def make_rankings(
    study: RetrievalStudy,
    data: Data,
    orders: Mapping[str, Orders],
    stages: Mapping[str, Stages],
    scored: Found,
    store: Store,
) -> tuple[list[tuple[str, Run]], Frozen | None]:
    """Return the run of each row and, below it, the reranked ones; and the choice that these depend on, or None.

    Candidates are reranked by the configuration that is best on the development folds of the row that the grid is
    searched on; by the paper's, if that is another; and by the profile's own, if that is neither, exactly as ``run``
    does it.

    Args:
        study: its rows, in the order of the table.
        data: judgements and folds of the queries.
        orders: all documents of each row, by name and query.
        stages: the candidates of each row that is reranked.
        scored: gains of all these candidates, or of the first ``scored`` of the settings of each ranking.
        store: holds the gains themselves if the profile's own configuration needs them.

    Raises:
        UserError: see `choose_configuration`.
    """
    settings = study.profile.need_retrieval()
    candidates = {
        name: {query: make_candidates(query, of.candidates, scored, settings.scored) for query, of in found.items()}
        for name, found in stages.items()
    }
    frozen = None
    if study.search_on is not None:
        frozen = choose_configuration(data.qrels, candidates[study.search_on], data.folds)
    runs: list[tuple[str, Run]] = []
    for row in study.rows:
        runs.append((row.name, make_runs(orders[row.name])))
        if frozen is None or not row.reranked:
            continue
        runs.append((f"{row.name} + SCDG", apply(frozen.chosen, candidates[row.name])))
        if frozen.chosen != PAPER:
            runs.append((f"{row.name} + SCDG, paper's configuration", apply(PAPER, candidates[row.name])))
        if has_own_configuration(settings, frozen.chosen):
            own = rank_queries(stages[row.name], scored, settings, store).rankings
            runs.append((f"{row.name} + SCDG as the profile has it", make_runs(list_ranked(own))))
    return runs, frozen


def has_own_configuration(settings: RetrievalSettings, chosen: Configuration) -> bool:
    """Return True if the profile reranks otherwise than by the chosen and the paper's configuration."""
    named = [name for name, q in UPPER_TAILS.items() if choose_aggregate(settings) == Aggregate("top", q)]
    depth = min(settings.depth, settings.scored or settings.depth)
    own = Configuration(named[0], depth, settings.weight) if named else None  # None: it is not in the grid
    return settings.rerank and own not in (chosen, PAPER)


def describe(configuration: Configuration) -> str:
    """Return a configuration in words."""
    return f"{configuration.feature}, N = {configuration.depth}, weight {configuration.weight:g}"
