"""Rows of rankings, their differences, and the choice that the hold-out has no part in."""

import numpy as np
import pytest

from pan_scdg.errors import UserError
from pan_scdg.evaluation.resampling import run_randomisation_test
from pan_scdg.evaluation.retrieval import bootstrap_queries, compute_per_query, compute_retrieval_metrics
from studies.data.queries import QueryFold
from studies.retrieval.comparison import METRICS, apply, choose_configuration, compare_rows, make_run
from studies.retrieval.grid import FEATURES, Candidates, search_grid

Qrels = dict[str, dict[str, int]]
QUERIES = 30


def planted(feature: str, queries: range) -> tuple[Qrels, dict[str, Candidates]]:
    """Of 150 candidates two deep ones are relevant, and one feature tells so."""
    qrels, candidates = {}, {}
    for query in queries:
        rng = np.random.default_rng(query)
        docs = tuple(f"d{i}" for i in rng.permutation(900)[:150])
        gains = rng.normal(size=(150, len(FEATURES)))
        gains[[90, 40], FEATURES.index(feature)] = 6.0, 5.0
        candidates[f"q{query}"] = Candidates(docs, np.linspace(1, 0, 150), gains)
        qrels[f"q{query}"] = {docs[90]: 2, docs[40]: 1, "missed": 1}
    return qrels, candidates


def folds(queries: int) -> list[QueryFold]:
    return [QueryFold(f"q{i}", i % 5) for i in range(queries)]


def test_rows_are_those_of_the_evaluation_and_each_is_held_against_the_one_above() -> None:
    qrels, candidates = planted("mean", range(QUERIES))
    runs = [("coarse", {q: make_run(c.doc_ids) for q, c in candidates.items()})]
    runs.append(("backwards", {q: make_run(c.doc_ids[::-1]) for q, c in candidates.items()}))
    first, second = compare_rows(qrels, runs, resamples=499)
    expected = compute_retrieval_metrics(qrels, runs[1][1])
    assert second.metrics == pytest.approx({name: expected[name] for name in METRICS})
    assert tuple(second.metrics) == METRICS
    assert (first.name, second.name, dict(first.above)) == ("coarse", "backwards", {})
    one, other = (compute_per_query(qrels, run)["R@100"] for _, run in runs)
    values = {query: other[query] - one[query] for query in sorted(one)}
    found = second.above["R@100"]
    assert found.mean.value == pytest.approx(second.metrics["R@100"] - first.metrics["R@100"])
    assert found.mean[1:] == bootstrap_queries({"R@100": values})["R@100"]
    assert found.p_value == run_randomisation_test(list(values.values()), resamples=499)


def test_a_permutation_of_the_candidates_leaves_the_recall_of_all_as_it_is() -> None:
    qrels, candidates = planted("mean", range(QUERIES))
    runs = [("a", {q: make_run(c.doc_ids) for q, c in candidates.items()})]
    runs.append(("b", {q: make_run(sorted(c.doc_ids)) for q, c in candidates.items()}))
    found = compare_rows(qrels, runs, resamples=99)[1].above["R@1000"]
    assert found == ((0.0, 0.0, 0.0), 1.0)


def test_no_figure_depends_on_the_order_of_the_files() -> None:
    qrels, candidates = planted("mean", range(QUERIES))
    runs = [("a", {q: make_run(c.doc_ids) for q, c in candidates.items()})]
    runs.append(("b", {q: make_run(sorted(c.doc_ids)) for q, c in candidates.items()}))
    found = compare_rows(qrels, runs, resamples=99)
    turned = [(name, dict(reversed(run.items()))) for name, run in runs]
    assert compare_rows(dict(reversed(qrels.items())), turned, resamples=99) == found


def test_the_choice_is_made_on_the_development_folds_alone() -> None:
    """On the hold-out another feature would be best."""
    qrels, candidates = planted("median", range(QUERIES))
    other_qrels, other = planted("deviation", range(0, QUERIES, 5))
    qrels, candidates = {**qrels, **other_qrels}, {**candidates, **other}
    found = choose_configuration(qrels, candidates, folds(QUERIES))
    assert found.chosen.feature == "median"
    development = {q: of for q, of in qrels.items() if int(q[1:]) % 5}
    assert found.grid == search_grid(development, candidates)
    coarse, reranked = found.development
    assert reranked.metrics["nDCG@10"] == pytest.approx(found.grid[0].ndcg)
    assert coarse.metrics["nDCG@10"] == 0.0
    assert reranked.above["nDCG@10"].mean.low > 0.5
    assert reranked.above["nDCG@10"].p_value < 0.001
    assert found.holdout[1].metrics["nDCG@10"] < 0.3


def test_what_was_chosen_is_applied_to_every_query() -> None:
    qrels, candidates = planted("top-2%", range(QUERIES))
    found = choose_configuration(qrels, candidates, folds(QUERIES))
    run = apply(found.chosen, candidates)
    assert {q: sorted(d for d, _ in r) for q, r in run.items()} == {q: sorted(c.doc_ids) for q, c in candidates.items()}
    held = {q: of for q, of in qrels.items() if int(q[1:]) % 5 == 0}
    assert compute_retrieval_metrics(held, run)["AP"] == pytest.approx(found.holdout[1].metrics["AP"])


def test_too_few_queries_are_the_users_error() -> None:
    qrels, candidates = planted("mean", range(6))
    with pytest.raises(UserError, match="1 judged queries are too few"):
        compare_rows({"q0": qrels["q0"]}, [("a", {})])
    with pytest.raises(UserError, match="1 judged queries are too few"):
        choose_configuration(qrels, candidates, [QueryFold("q0", 0), *folds(5)[1:]])
    with pytest.raises(UserError, match="0 judged queries"):
        choose_configuration(qrels, candidates, [QueryFold("q1", 0), QueryFold("q2", 0)])
