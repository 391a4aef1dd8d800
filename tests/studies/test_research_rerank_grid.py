"""The grid without sorting against rerank and ir_measures, configuration by configuration."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.evaluation.retrieval import compute_retrieval_metrics
from studies.retrieval.grid import (
    FEATURES,
    Candidates,
    Configuration,
    list_configurations,
    list_features,
    make_candidates,
    rerank_by,
    search_grid,
)
from pan_scdg.retrieval.ranking import Ranked
from pan_scdg.scdg.aggregation import Aggregate, compute_statistics
from pan_scdg.scdg.decision import rerank

Qrels = dict[str, dict[str, int]]


def drawn(queries: int, depth: int, seed: int, decimals: int = 1) -> tuple[Qrels, dict[str, Candidates]]:
    """Rounded scores, so that there are many ties, and judged documents that the first stage did not find."""
    rng = np.random.default_rng(seed)
    candidates, qrels = {}, {}
    for query in range(queries):
        names = [f"d{number}" for number in rng.permutation(2 * depth + 4)]
        coarse = np.sort(np.round(rng.random(depth), decimals))[::-1]
        gains = np.round(rng.normal(size=(depth, len(FEATURES))), decimals)
        candidates[f"q{query}"] = Candidates(tuple(names[:depth]), coarse, gains)
        judged = rng.choice(names, size=4, replace=False)
        qrels[f"q{query}"] = dict(zip(judged.tolist(), rng.integers(0, 4, size=4).tolist()))
    return qrels, candidates


def literal(found: Candidates, chosen: Configuration) -> list[tuple[str, float]]:
    """The first N reranked, the others behind them, written down as a run is."""
    n = min(chosen.depth, len(found.gains))
    head = rerank(found.doc_ids[:n], found.coarse[:n], found.gains[:n, FEATURES.index(chosen.feature)], chosen.weight)
    order = [doc_id for doc_id, _ in head] + list(found.doc_ids[n:])
    return [(doc_id, float(len(order) - i)) for i, doc_id in enumerate(order)]


def check(qrels: Qrels, candidates: dict[str, Candidates], some: list[Configuration]) -> None:
    rows = {row.configuration: row for row in search_grid(qrels, candidates)}
    assert len(rows) == 108
    for configuration in some:
        run = {query: literal(found, configuration) for query, found in candidates.items()}
        expected = compute_retrieval_metrics(qrels, run)
        row = rows[configuration]
        assert row.ndcg == pytest.approx(expected["nDCG@10"], abs=1e-12)
        assert row.recall == pytest.approx(expected["R@10"], abs=1e-12)
        assert row.deep_recall == pytest.approx(expected["R@100"], abs=1e-12)


def test_all_configurations_agree_with_rerank_and_ir_measures() -> None:
    check(*drawn(queries=4, depth=130, seed=1), list_configurations())


def test_candidates_that_were_not_scored_stay_behind() -> None:
    qrels, candidates = drawn(queries=3, depth=130, seed=5)
    first = {query: found._replace(gains=found.gains[:30]) for query, found in candidates.items()}
    some = [Configuration("top-2%", 100, 0.75), Configuration("mean", 1000, 1.0)]
    check(qrels, first, some)
    for found in first.values():
        assert rerank_by(found, some[1]) == [doc_id for doc_id, _ in literal(found, some[1])]
        assert tuple(rerank_by(found, some[1])[30:]) == found.doc_ids[30:]


def test_depths_of_a_thousand_candidates() -> None:
    some = [Configuration(f, n, w) for f, n, w in (("top-2%", 100, 0.75), ("mean", 500, 0.25), ("deviation", 1000, 1))]
    check(*drawn(queries=2, depth=1100, seed=2, decimals=3), some)


@settings(max_examples=25, deadline=None)
@given(depth=st.integers(0, 14), seed=st.integers(0, 999))
def test_any_small_data(depth: int, seed: int) -> None:
    check(*drawn(2, depth, seed), [Configuration("top-2%", 100, 0.5), Configuration("median", 1000, 1.0)])


def test_a_query_without_candidates_and_one_without_relevant_documents_count_zero() -> None:
    qrels, candidates = drawn(3, 20, 3)
    qrels["q0"] = dict.fromkeys(candidates["q0"].doc_ids[:4], 3)
    alone = search_grid({"q0": qrels["q0"]}, candidates)[0]
    with_others = search_grid({"q0": qrels["q0"], "q1": {"d1": 0}, "unknown": {"d1": 1}, "q2": {}}, candidates)[0]
    assert with_others.ndcg == pytest.approx(alone.ndcg / 4)


def test_the_best_comes_first_and_ties_follow_the_papers_order() -> None:
    rows = search_grid(*drawn(6, 40, 4))
    keys = [(row.ndcg, row.recall, row.deep_recall) for row in rows]
    assert keys == sorted(keys, reverse=True)
    assert len({row.configuration for row in rows}) == 108


def test_where_all_configurations_are_alike_the_cheapest_is_taken() -> None:
    """One feature as good as any other and as the coarse scores: every order is the same."""
    order = np.arange(30.0, 0, -1)
    found = Candidates(tuple(f"d{i:02}" for i in range(30)), order, np.tile(order[:, None], (1, len(FEATURES))))
    rows = search_grid({"q": {"d03": 2, "d11": 1}}, {"q": found})
    assert [row.configuration for row in rows] == list_configurations()
    assert rows[0].configuration == Configuration("top-1%", 100, 0.25)


def test_the_planted_feature_is_found() -> None:
    qrels, candidates = drawn(5, 200, 5)
    for query, found in candidates.items():
        qrels[query] = {found.doc_ids[i]: 1 for i in (150, 120, 180)}
        found.gains[[150, 120, 180], FEATURES.index("median")] = 9.0
    assert search_grid(qrels, candidates)[0].configuration == Configuration("median", 500, 0.75)


def test_reranked_is_what_the_grid_measured() -> None:
    qrels, candidates = drawn(3, 60, 6)
    best = search_grid(qrels, candidates)[0]
    run = {q: [(d, -float(i)) for i, d in enumerate(rerank_by(c, best.configuration))] for q, c in candidates.items()}
    assert compute_retrieval_metrics(qrels, run)["nDCG@10"] == pytest.approx(best.ndcg)


def test_the_order_of_queries_changes_nothing() -> None:
    qrels, candidates = drawn(9, 40, 7)
    assert search_grid(dict(reversed(qrels.items())), candidates) == search_grid(qrels, candidates)


TAILS = [Aggregate("top", q) for q in (1, 2, 5, 10)]


def test_features_of_one_candidate_by_hand() -> None:
    gains = np.array([3.0, -1.0, 0.0, 1.0])
    found = list_features(compute_statistics(gains, TAILS, 0.0))
    assert found == [3.0, 3.0, 3.0, 3.0, 0.75, 0.5, 0.5, 2.0, pytest.approx(math.sqrt(35) / 4)]
    assert len(found) == len(FEATURES) == 9


def test_candidates_are_put_together_from_a_ranking_and_stored_statistics() -> None:
    values = {
        "a": compute_statistics(np.array([1.0, -1.0]), TAILS, 0.0),
        "b": compute_statistics(np.ones(3), TAILS, 0.0),
    }
    scored = {("q", doc_id): (of, "key") for doc_id, of in values.items()}
    found = make_candidates("q", [Ranked("b", 2.0), Ranked("a", 0.5)], scored)
    assert (found.doc_ids, found.coarse.tolist()) == (("b", "a"), [2.0, 0.5])
    assert found.gains.tolist() == [list_features(values["b"]), list_features(values["a"])]
    assert make_candidates("q", [], scored).gains.shape == (0, 9)
    with pytest.raises(KeyError):
        make_candidates("q", [Ranked("unscored", 1.0)], scored)
