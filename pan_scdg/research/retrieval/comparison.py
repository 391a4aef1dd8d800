"""Compare rankings of the same queries, and choose a reranking configuration (paper, PAN26 retrieval).

The grid is searched on the development folds of one coarse ranking; its best configuration is evaluated on the hold-out
and applied unchanged to other rankings.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pan_scdg.errors import UserError
from pan_scdg.evaluation.report import Estimate
from pan_scdg.evaluation.resampling import SWAPS, run_randomisation_test
from pan_scdg.evaluation.retrieval import RETRIEVAL_METRICS, TIRA, Qrels, Run, bootstrap_queries, compute_per_query
from pan_scdg.research.data.queries import QueryFold
from pan_scdg.research.retrieval.grid import Candidates, Configuration, GridRow, rerank_by, search_grid

METRICS = tuple(name for name in RETRIEVAL_METRICS if name != TIRA)
"""Columns of the paper's table; RR is its MRR, AP its MAP."""
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
    _require_two(qrels)
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


def split_qrels(qrels: Qrels, folds: Sequence[QueryFold]) -> tuple[Qrels, Qrels]:
    """Return the judgements of the development queries, and those of the hold-out.

    Raises:
        UserError: a role has fewer than two judged queries.
    """
    parts: list[Qrels] = []
    for role in ("development", "holdout"):
        queries = {fold.query_id for fold in folds if fold.role == role}
        parts.append({query: grades for query, grades in qrels.items() if query in queries})
        _require_two(parts[-1])
    return parts[0], parts[1]


def apply(chosen: Configuration, candidates: Mapping[str, Candidates]) -> dict[str, list[tuple[str, float]]]:
    """Return the run of the reranked candidates of every query."""
    return make_runs({query: rerank_by(found, chosen) for query, found in candidates.items()})


def make_run(doc_ids: Sequence[str]) -> list[tuple[str, float]]:
    """Return documents with whole scores down to 1, so that every evaluator keeps this order."""
    return [(doc_id, float(len(doc_ids) - i)) for i, doc_id in enumerate(doc_ids)]


def make_runs(orders: Mapping[str, Sequence[str]]) -> dict[str, list[tuple[str, float]]]:
    """Return the run of the documents of each query."""
    return {query_id: make_run(order) for query_id, order in orders.items()}


def _require_two(qrels: Qrels) -> None:
    if len(qrels) < 2:
        raise UserError(f"{len(qrels)} judged queries are too few to compare rankings", "give qrels of more queries")
