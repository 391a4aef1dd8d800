"""Measures of rankings (paper, Evaluation Metrics) by ir_measures, and TIRA's own nDCG@10 beside them.

nDCG has two gains: the grade, as trec_eval, ir_measures and TIRA have it, and ``2^grade - 1``, as the paper has it.

A run is the documents of each query with their scores, in the order of the file's lines. All measures but TIRA's sort
by score, equal scores by document id descending, and count a judged query that the run lacks as 0.
"""

from collections.abc import Callable, Mapping, Sequence
from math import log2
from typing import Any

import numpy as np

from pan_scdg.evaluation.resampling import RESAMPLES, SEED, Intervals, draw_resamples, find_interval

Qrels = Mapping[str, Mapping[str, int]]
Run = Mapping[str, Sequence[tuple[str, float]]]
NDCG, PAPER = "nDCG@{} (linear)", "nDCG@{} (paper, 2^grade-1)"
"""Names of nDCG with the grade as gain, and with that of the paper, by depth."""
TIRA = "nDCG@10 (linear, TIRA)"
BINARY = ("R@10", "R@100", "R@1000", "RR", "AP")
RETRIEVAL_METRICS = (*(name.format(depth) for depth in (10, 100) for name in (NDCG, PAPER)), *BINARY, TIRA)
PAPER_METRICS = {"nDCG@10": PAPER.format(10), "nDCG@100": PAPER.format(100)} | {name: name for name in BINARY}
"""The paper's names of its measures, and those here."""
TIRA_DEPTH = 10
LARGEST_GRADE = 20
LARGEST_GAIN = 2**LARGEST_GRADE - 1
"""The program behind ir_measures keeps an array as long as the largest gain."""


def compute_retrieval_metrics(qrels: Qrels, run: Run) -> dict[str, float]:
    """Return the mean over queries of every measure of `compute_per_query`; nan where there is no query at all."""
    values = {name: list(of_query.values()) for name, of_query in compute_per_query(qrels, run).items()}
    return {name: float(np.mean(column)) if column else float("nan") for name, column in values.items()}


def compute_per_query(qrels: Qrels, run: Run) -> dict[str, dict[str, float]]:
    """Return measure -> query -> value, in the order of `RETRIEVAL_METRICS`.

    The queries are those of the qrels. For TIRA's measure they are those of the run: a judged query that the run
    lacks is left out, and a query without judgements has 0. A grade above 0 is relevant for measures other than nDCG.
    nDCG is left out with a gain above `LARGEST_GAIN`: the paper's from a grade of 21 on.
    """
    values = {TIRA: compute_tira_ndcg(qrels, run)}
    for measures, gains in _list_measures(qrels):
        values |= _compute_measures(measures, gains, run)
    return {name: values[name] for name in RETRIEVAL_METRICS if name in values}


def _compute_measures(measures: Mapping[str, Any], qrels: Qrels, run: Run) -> dict[str, dict[str, float]]:
    import ir_measures

    values: dict[str, dict[str, float]] = {name: dict.fromkeys(qrels, 0.0) for name in measures}
    names = {measure: name for name, measure in measures.items()}
    judged = {query: dict(docs) for query, docs in qrels.items() if docs}
    scored = {query: dict(run[query]) for query in judged if run.get(query)}
    if scored:
        for value in ir_measures.iter_calc(list(names), judged, scored):
            values[names[value.measure]][value.query_id] = float(value.value)
    return values


def compute_tira_ndcg(qrels: Qrels, run: Run) -> dict[str, float]:
    """Return query -> nDCG@10 as TIRA computes it: linear gains, documents in the order of the run's lines."""
    return {
        query: _compute_linear_ndcg(qrels.get(query, {}), [doc for doc, _ in ranking[:TIRA_DEPTH]])
        for query, ranking in run.items()
        if ranking
    }


def bootstrap_queries(
    values: Mapping[str, Mapping[str, float]], seed: int = SEED, resamples: int = RESAMPLES
) -> Intervals:
    """Return percentile 95 % intervals of the means of `compute_per_query`, over resampled queries of each measure.

    A measure of one query has none.
    """
    intervals = {}
    for name, of_query in values.items():
        # A fixed order of queries: the interval must not depend on the order of the files.
        column = np.array([of_query[query] for query in sorted(of_query)], dtype=np.float64)
        if len(column) == 1:
            continue
        draws = draw_resamples(len(column), resamples, seed) if len(column) else ()
        means = [counts @ column / len(column) for counts in draws]
        intervals[name] = find_interval(np.concatenate([np.empty(0), *means]))
    return intervals


def bootstrap_query_differences(
    first: Mapping[str, Mapping[str, float]], other: Mapping[str, Mapping[str, float]]
) -> Intervals:
    """Return the paired 95 % interval of the mean of each measure of ``other`` minus that of ``first``.

    Both are those of `compute_per_query`; measures whose queries differ are left out.
    """
    shared = {name: values for name, values in first.items() if values and values.keys() == other.get(name, {}).keys()}
    return bootstrap_queries({name: {q: other[name][q] - values[q] for q in values} for name, values in shared.items()})


def _list_measures(qrels: Qrels) -> list[tuple[dict[str, Any], Qrels]]:
    """Return groups of measures, each with the judgements that have its gains as grades."""
    from ir_measures import AP, RR, R, nDCG

    largest = max((grade for docs in qrels.values() for grade in docs.values()), default=0)
    groups: list[tuple[dict[str, Any], Qrels]] = [
        (dict(zip(BINARY, (R @ 10, R @ 100, R @ 1000, RR, AP), strict=True)), _change(qrels, lambda grade: grade > 0))
    ]
    if largest <= LARGEST_GAIN:
        groups.append(({NDCG.format(k): nDCG @ k for k in (10, 100)}, _change(qrels, lambda grade: grade)))
    if largest <= LARGEST_GRADE:
        groups.append(({PAPER.format(k): nDCG @ k for k in (10, 100)}, _change(qrels, lambda grade: 2**grade - 1)))
    return groups


def _change(qrels: Qrels, gain: Callable[[int], int]) -> dict[str, dict[str, int]]:
    """Return the judgements with the gains of grades above 0, and 0 for the others."""
    return {
        query: {doc: int(gain(grade)) if grade > 0 else 0 for doc, grade in docs.items()}
        for query, docs in qrels.items()
    }


def _compute_linear_ndcg(grades: Mapping[str, int], ranking: Sequence[str]) -> float:
    best = sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:TIRA_DEPTH]
    ideal = _compute_dcg(best)
    return _compute_dcg([max(0, grades.get(doc, 0)) for doc in ranking]) / ideal if ideal else 0.0


def _compute_dcg(gains: Sequence[int]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, start=1))
