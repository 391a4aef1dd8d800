"""First-stage rankings and reranked ones side by side, and the choice of a configuration (paper, PAN26 retrieval).

The grid is searched on the development folds of one coarse ranking; its best configuration is then measured on the
hold-out and applied to other rankings as it is. The paper does not say on which ranking it searched, only that the
stronger ones were not searched again: the caller says which.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pan_scdg.errors import UserError
from pan_scdg.evaluation.randomisation import RESAMPLES, randomisation_test
from pan_scdg.evaluation.resampling import Intervals
from pan_scdg.evaluation.retrieval import RETRIEVAL_METRICS, TIRA, Qrels, Run, bootstrap_queries, per_query
from pan_scdg.research.data.query_folds import QueryFold, Role
from pan_scdg.research.retrieval.rerank_grid import Candidates, Configuration, GridRow, rerank_grid, reranked

METRICS = tuple(name for name in RETRIEVAL_METRICS if name != TIRA)
"""Columns of the paper's table; RR is its MRR, AP its MAP."""
SEED = 42
PerQuery = Mapping[str, Mapping[str, float]]
"""Measure -> query -> value."""


class Difference(NamedTuple):
    """What a row has more than the row above, on the same queries."""

    mean: float
    low: float
    high: float
    """The ends of a 95 % bootstrap interval over queries."""
    p_value: float
    """Of a two-sided paired randomisation test."""


class RetrievalRow(NamedTuple):
    """One row of the table."""

    name: str
    metrics: Mapping[str, float]
    """Means over all judged queries, by the names of `METRICS`."""
    above: Mapping[str, Difference]
    """Against the row above; empty in the first row."""


class Frozen(NamedTuple):
    """The grid on the development queries, and its best configuration on queries that had no part in the choice."""

    grid: Sequence[GridRow]
    """The best first."""
    development: Sequence[RetrievalRow]
    """The coarse ranking and the reranked one."""
    holdout: Sequence[RetrievalRow]
    """The same two on the hold-out."""

    @property
    def chosen(self) -> Configuration:
        """What is applied unchanged from here on."""
        return self.grid[0].configuration


def retrieval_rows(
    qrels: Qrels, runs: Sequence[tuple[str, Run]], seed: int = SEED, resamples: int = RESAMPLES
) -> list[RetrievalRow]:
    """Every run, in order, against all queries of ``qrels``; a query that a run lacks counts 0.

    Args:
        qrels: grades by query and document.
        runs: name and run of each row.
        seed: of the randomisation tests and of the bootstrap.
        resamples: number of random swaps of a test.

    Raises:
        UserError: fewer than two judged queries, or a grade above 20.
    """
    _need_two(qrels)
    rows, former = [], None
    for name, run in runs:
        values = {metric: of for metric, of in per_query(qrels, run).items() if metric in METRICS}
        # correctly rounded sums: no figure may depend on the order of the files
        means = {metric: math.fsum(of.values()) / len(of) for metric, of in values.items()}
        rows.append(RetrievalRow(name, means, {} if former is None else _compared(values, former, seed, resamples)))
        former = values
    return rows


def _compared(values: PerQuery, former: PerQuery, seed: int, resamples: int) -> dict[str, Difference]:
    differences = {m: {query: value - former[m][query] for query, value in of.items()} for m, of in values.items()}
    intervals: Intervals = bootstrap_queries(differences, seed)
    found = {}
    for metric, of in differences.items():
        column = np.array([of[query] for query in sorted(of)])
        p_value = randomisation_test(column, seed, resamples)
        found[metric] = Difference(math.fsum(column) / len(column), *intervals[metric], p_value)
    return found


def frozen_choice(
    qrels: Qrels, candidates: Mapping[str, Candidates], folds: Sequence[QueryFold], seed: int = SEED
) -> Frozen:
    """Search the grid on the development folds and measure the best configuration there and on the hold-out.

    Raises:
        UserError: fewer than two judged queries are for development or held out, or a grade is above 20.
    """
    development, holdout = judged_parts(qrels, folds)
    plain = {query: run_of(found.doc_ids) for query, found in candidates.items()}
    grid = rerank_grid(development, candidates)
    better = apply(grid[0].configuration, candidates)
    both = [("coarse", plain), ("reranked", better)]
    return Frozen(grid, retrieval_rows(development, both, seed), retrieval_rows(holdout, both, seed))


def judged_parts(qrels: Qrels, folds: Sequence[QueryFold]) -> tuple[Qrels, Qrels]:
    """The judgements of the development queries, and those of the hold-out.

    Raises:
        UserError: fewer than two judged queries are for development or held out.
    """
    development, holdout = (_of_role(qrels, folds, role) for role in ("development", "holdout"))
    _need_two(development)
    _need_two(holdout)
    return development, holdout


def apply(chosen: Configuration, candidates: Mapping[str, Candidates]) -> dict[str, list[tuple[str, float]]]:
    """The run of the reranked candidates of every query."""
    return {query: run_of(reranked(found, chosen)) for query, found in candidates.items()}


def run_of(doc_ids: Sequence[str]) -> list[tuple[str, float]]:
    """Documents with whole scores down to 1, so that every evaluator sees this very order."""
    return [(doc_id, float(len(doc_ids) - i)) for i, doc_id in enumerate(doc_ids)]


def _need_two(qrels: Qrels) -> None:
    if len(qrels) < 2:
        raise UserError(f"{len(qrels)} judged queries are too few to compare rankings", "give qrels of more queries")


def _of_role(qrels: Qrels, folds: Sequence[QueryFold], role: Role) -> dict[str, Mapping[str, int]]:
    queries = {fold.query_id for fold in folds if fold.role == role}
    return {query: grades for query, grades in qrels.items() if query in queries}
