"""Ranking measures against values worked out by hand, formats.md's own example, and TIRA where it can be asked."""

from importlib.util import find_spec
from math import log2

import numpy as np
import pytest
from ir_measures import AP, calc_aggregate, nDCG

from pan_scdg.evaluation.retrieval import (
    NDCG,
    PAPER,
    RETRIEVAL_METRICS,
    TIRA,
    bootstrap_queries,
    compute_per_query,
    compute_retrieval_metrics,
)

NDCG_10, PAPER_10 = NDCG.format(10), PAPER.format(10)
QRELS = {"1": {"a": 3, "b": 1, "c": 0}, "2": {"a": 2}}
RUN = {"1": [("x", 5.0), ("a", 4.0), ("b", 3.0)], "2": [("a", 2.0), ("c", 1.0)]}

# The example of formats.md, section B3, on the spot-check data.
SPOT_QRELS = {
    "1": {"1803.04393": 1, "doc-1": 0, "doc-2": 0, "doc-3": 0, "doc-4": 0},
    "2": {"hep-ph/0407230": 2, "doc-1": 0, "doc-2": 0, "doc-3": 0},
    "3": {"1803.04393": 1},
    "4": {"hep-ph/0407230": 2},
}
SPOT_RUN = {
    "1": [("1803.04393", 9.5), ("doc-1", 3.1)],
    "2": [("doc-2", 8.0), ("hep-ph/0407230", 7.5)],
    "3": [("doc-1", 6.0), ("1803.04393", 6.0)],
    "4": [("doc-9", 5.0)],
}


def test_worked_by_hand():
    result = compute_per_query(QRELS, RUN)
    assert result[PAPER_10]["1"] == pytest.approx((7 / log2(3) + 1 / log2(4)) / (7 + 1 / log2(3)))
    linear = pytest.approx((3 / log2(3) + 1 / log2(4)) / (3 + 1 / log2(3)))
    assert (result[NDCG_10]["1"], result[TIRA]["1"]) == (linear, linear)
    assert result["RR"] == pytest.approx({"1": 0.5, "2": 1.0})
    assert result["AP"] == pytest.approx({"1": (1 / 2 + 2 / 3) / 2, "2": 1.0})
    assert result["R@10"] == {"1": 1.0, "2": 1.0}
    assert tuple(result) == RETRIEVAL_METRICS
    assert compute_retrieval_metrics(QRELS, RUN)["RR"] == 0.75


def test_spot_check_example():
    result = compute_retrieval_metrics(SPOT_QRELS, SPOT_RUN)
    assert result[TIRA] == pytest.approx(0.5654648767857288)
    assert round(result[NDCG_10], 4) == 0.5655
    assert result["RR"] == 0.5
    assert result["R@10"] == result["R@100"] == result["R@1000"] == 0.75


def test_depths():
    run = {"1": [(f"d{i:04}", 2000.0 - i) for i in range(1500)]}
    qrels = {"1": {f"d{i:04}": 1 for i in (9, 10, 99, 100, 999, 1000)}}
    result = compute_retrieval_metrics(qrels, run)
    assert [result[f"R@{k}"] for k in (10, 100, 1000)] == pytest.approx([1 / 6, 3 / 6, 5 / 6])
    assert 0 < result[NDCG_10] < result[NDCG.format(100)] < 1


def test_query_missing_from_the_run_counts_zero_except_for_tira():
    result = compute_retrieval_metrics(QRELS, {"2": RUN["2"]})
    assert result[NDCG_10] == 0.5
    assert result[TIRA] == 1.0


def test_query_without_judgements_is_left_out_except_by_tira():
    result = compute_retrieval_metrics(QRELS, {**RUN, "9": [("a", 1.0)]})
    assert result[NDCG_10] == compute_retrieval_metrics(QRELS, RUN)[NDCG_10]
    assert result[TIRA] == pytest.approx(compute_retrieval_metrics(QRELS, RUN)[TIRA] * 2 / 3)


def test_tira_takes_the_order_of_lines_and_the_others_the_scores():
    result = compute_per_query({"1": {"a": 1}}, {"1": [("x", 1.0), ("a", 2.0)]})
    assert result[NDCG_10]["1"] == 1.0
    assert result[TIRA]["1"] == pytest.approx(1 / log2(3))


def test_equal_scores_are_ordered_by_document_id_descending():
    assert compute_per_query({"1": {"a": 1}}, {"1": [("a", 1.0), ("b", 1.0)]})["RR"]["1"] == 0.5


def test_nothing_relevant_and_nothing_at_all():
    assert set(compute_retrieval_metrics({"1": {"a": 0}}, {"1": [("a", 1.0)]}).values()) == {0.0}
    assert set(compute_retrieval_metrics({"1": {"a": -2}, "2": {}}, {"1": [("a", 1.0)]}).values()) == {0.0}
    empty = compute_retrieval_metrics({"1": {"a": 1}}, {})
    assert empty[NDCG_10] == 0.0
    assert np.isnan(empty[TIRA])
    assert np.isnan(list(compute_retrieval_metrics({}, {}).values())).all()


@pytest.mark.parametrize(("grade", "lacks"), [(20, ""), (21, "paper"), (2**20, "nDCG")])
def test_a_large_grade_costs_the_measures_that_it_breaks(grade, lacks):
    result = compute_retrieval_metrics({"1": {"a": grade, "b": 1}}, {"1": [("b", 2.0), ("a", 1.0)]})
    assert set(RETRIEVAL_METRICS) - set(result) == {n for n in RETRIEVAL_METRICS if lacks and lacks in n and n != TIRA}
    assert (result["RR"], result["AP"]) == (1.0, 1.0)


@pytest.mark.parametrize("seed", range(3))
def test_gains_are_those_of_ir_measures(seed):
    qrels, run = random_case(seed)
    gains = {grade: 2**grade - 1 for grade in (1, 2, 3)}
    measures = {NDCG_10: nDCG @ 10, PAPER_10: nDCG(gains=gains) @ 10, "AP": AP}
    ranked = {query: dict(docs) for query, docs in run.items()}
    expected = {}
    for name, measure in measures.items():  # one at a time: ir_measures writes gains into the judgements it is given
        judged = {query: {doc: max(0, grade) for doc, grade in docs.items()} for query, docs in qrels.items()}
        expected |= {name: calc_aggregate([measure], judged, ranked)[measure]}
    result = compute_retrieval_metrics(qrels, run)
    assert {name: result[name] for name in measures} == pytest.approx(expected)


def test_intervals_over_queries():
    values = {"RR": {str(i): float(i % 2) for i in range(40)}, "none": {}}
    result = bootstrap_queries(values, seed=1, resamples=500)
    # The mean of 40 throws of a coin has a standard deviation of 0.079.
    assert result["RR"] == pytest.approx((0.5 - 1.96 * 0.079, 0.5 + 1.96 * 0.079), abs=0.04)
    assert np.isnan(result["none"]).all()
    turned = {"RR": dict(reversed(values["RR"].items()))}
    assert bootstrap_queries(turned, seed=1, resamples=500)["RR"] == result["RR"]


def literal_tira(qrels, run):
    """TIRA's way, spelt out: the first ten lines of each query, summed, divided by the queries of the run."""
    total = 0.0
    for query, lines in run.items():
        judged = [g for g in qrels.get(query, {}).values() if g > 0]
        ideal = sum(g / log2(r + 2) for r, g in enumerate(sorted(judged, reverse=True)[:10]))
        gained = sum(max(qrels.get(query, {}).get(d, 0), 0) / log2(r + 2) for r, (d, _) in enumerate(lines[:10]))
        total += gained / ideal if ideal else 0.0
    return total / len(run)


def random_case(seed):
    rng = np.random.default_rng(seed)
    docs = [f"d{i}" for i in range(30)]
    qrels = {str(q): {str(d): int(rng.integers(-1, 4)) for d in rng.choice(docs, 8, False)} for q in range(5)}
    run = {
        str(q): [(str(d), float(rng.integers(9))) for d in rng.choice(docs, rng.integers(5, 25), False)]
        for q in rng.choice(7, 4, False)
    }
    return qrels, run


@pytest.mark.parametrize("seed", range(5))
def test_tira_ndcg_equals_a_literal_restatement(seed):
    qrels, run = random_case(seed)
    assert compute_retrieval_metrics(qrels, run)[TIRA] == pytest.approx(literal_tira(qrels, run), abs=1e-12)


@pytest.mark.skipif(find_spec("trectools") is None, reason="trectools, which TIRA's evaluator needs, is not installed")
@pytest.mark.parametrize("seed", range(5))
def test_tira_ndcg_equals_tira(tmp_path, seed):
    from tira.evaluators import evaluate

    qrels, run = random_case(seed)
    for name in ("run", "truth", "out"):
        (tmp_path / name).mkdir()
    lines = [f"{q} Q0 {d} {i} {s} t\n" for q, docs in run.items() for i, (d, s) in enumerate(docs, 1)]
    (tmp_path / "run/run.txt").write_text("".join(lines), encoding="utf-8")
    judged = [f"{q} 0 {d} {g}\n" for q, docs in qrels.items() for d, g in docs.items()]
    (tmp_path / "truth/qrels.txt").write_text("".join(judged), encoding="utf-8")
    settings = {
        "run_format": "run.txt",
        "run_format_configuration": {},
        "truth_format": "qrels.txt",
        "truth_format_configuration": {},
        "measures": ["nDCG@10", "RR"],
    }
    tira = evaluate(tmp_path / "run", tmp_path / "truth", settings, tmp_path / "out")
    assert compute_retrieval_metrics(qrels, run)[TIRA] == pytest.approx(tira["nDCG@10"], abs=1e-12)
