"""Fusion by hand-worked values, by a literal restatement of the paper's equations, and its invariants."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.retrieval.ranking import (
    Ranked,
    Ranking,
    fuse_by_comb_sum,
    fuse_by_daac,
    fuse_by_rrf,
    rank_best,
)

DOCS = "abcdefghij"
lists = st.lists(st.sampled_from(DOCS), unique=True, max_size=10)
fuzzy = settings(max_examples=50, deadline=None)


def ranking(doc_ids: str | list[str]) -> Ranking:
    """The documents in this order, with falling scores."""
    return [Ranked(doc_id, float(-rank)) for rank, doc_id in enumerate(doc_ids)]


def literal_daac(b: list[str], d: list[str], a: list[str]) -> dict[str, float]:
    """The paper's Eq. supp-daac-components, symbol by symbol."""
    scores = {}
    for x in {*b, *d, *a}:
        r_b, r_d, r_l = (route.index(x) + 1 if x in route else math.inf for route in (b, d, a))
        b_x, d_x, l_x = ((1 / (60 + r) if r < math.inf else 0) for r in (r_b, r_d, r_l))
        c_a = 1 / math.log2(r_l + 1) if r_l < math.inf else 0
        u_d = 1 - min(1, 61 * d_x)
        scores[x] = d_x * (1 + u_d * c_a) + b_x**2 + l_x**2
    return scores


def test_top_orders_by_score_then_id() -> None:
    assert [r.doc_id for r in rank_best({"b": 1.0, "a": 1.0, "c": 2.0, "d": 0.5}, 3)] == ["c", "a", "b"]


def test_top_refuses_what_is_not_a_number() -> None:
    with pytest.raises(ValueError, match="not a number"):
        rank_best({"a": math.nan}, 1)
    with pytest.raises(ValueError, match="depth"):
        rank_best({"a": 1.0}, 0)


def test_reciprocal_rank_by_hand() -> None:
    scores = dict(fuse_by_rrf([ranking("ab"), ranking("bc")], 3))
    assert scores == pytest.approx({"a": 1 / 61, "b": 1 / 62 + 1 / 61, "c": 1 / 62})


def test_rrf_orders_equal_scores_by_id_and_cuts() -> None:
    fused = fuse_by_rrf([ranking("ba"), ranking("ab"), ranking("d")], 3)
    assert [r.doc_id for r in fused] == ["a", "b", "d"]
    assert fused[0].score == fused[1].score


def test_daac_by_hand() -> None:
    # x: dense rank 2, abstract rank 1, no BM25: U = 1 - 61/62, C = 1/log2(2) = 1.
    # y: BM25 rank 1 alone: (1/61)^2. z: dense rank 1 alone: certain, 1/61.
    fused = fuse_by_daac(bm25=ranking("y"), dense=ranking("zx"), abstract=ranking("x"), depth=10)
    expected = {"x": 1 / 62 * (1 + 1 / 62) + 1 / 61**2, "z": 1 / 61, "y": 1 / 61**2}
    assert [r.doc_id for r in fused] == ["x", "z", "y"]
    assert dict(fused) == pytest.approx(expected)


def test_daac_ties_by_id() -> None:
    assert [r.doc_id for r in fuse_by_daac(ranking("z"), [], ranking("a"), 10)] == ["a", "z"]
    assert [r.doc_id for r in fuse_by_daac(ranking("a"), [], ranking("z"), 10)] == ["a", "z"]


@fuzzy
@given(lists, lists, lists, st.integers(1, 12))
def test_daac_is_the_papers_equation(b: list[str], d: list[str], a: list[str], depth: int) -> None:
    fused = fuse_by_daac(ranking(b), ranking(d), ranking(a), depth)
    expected = literal_daac(b, d, a)
    assert len(fused) == min(depth, len(expected))
    assert dict(fused) == pytest.approx({r.doc_id: expected[r.doc_id] for r in fused})
    assert fused == rank_best(dict(fused), depth)
    assert all(score > 0 for _, score in fused)


@fuzzy
@given(lists, lists, lists, st.randoms(use_true_random=False))
def test_fusion_looks_at_ranks_only(b: list[str], d: list[str], a: list[str], rng: random.Random) -> None:
    routes = [ranking(b), ranking(d), ranking(a)]
    rescored = [[Ranked(r.doc_id, 10 - i + rng.random() / 2) for i, r in enumerate(route)] for route in routes]
    assert fuse_by_daac(*routes, depth=20) == fuse_by_daac(*rescored, depth=20)
    assert fuse_by_rrf(routes, 20) == fuse_by_rrf(rescored, 20)


@fuzzy
@given(st.lists(lists, max_size=6), st.randoms(use_true_random=False))
def test_order_of_the_rankings_does_not_matter(routes: list[list[str]], rng: random.Random) -> None:
    given_, shuffled = [ranking(r) for r in routes], [ranking(r) for r in routes]
    rng.shuffle(shuffled)
    assert fuse_by_rrf(given_, 20) == fuse_by_rrf(shuffled, 20)
    assert fuse_by_comb_sum(given_, 20) == fuse_by_comb_sum(shuffled, 20)
    assert {r.doc_id for r in fuse_by_rrf(given_, 20)} == {doc_id for route in routes for doc_id in route}


def test_comb_sum_by_hand() -> None:
    one = [Ranked("a", 10.0), Ranked("b", 5.0), Ranked("c", 0.0)]
    two = [Ranked("b", 3.0), Ranked("d", 1.0)]
    constant = [Ranked("e", 7.0), Ranked("a", 7.0)]
    assert fuse_by_comb_sum([one, two, constant, []], 10) == [
        ("b", 1.5),
        ("a", 1.0),
        ("c", 0.0),
        ("d", 0.0),
        ("e", 0.0),
    ]


@pytest.mark.parametrize(
    "fuse", [lambda r: fuse_by_rrf([r], 5), lambda r: fuse_by_comb_sum([r], 5), lambda r: fuse_by_daac(r, [], [], 5)]
)
def test_a_document_twice_in_a_ranking_is_refused(fuse) -> None:
    with pytest.raises(ValueError, match="twice"):
        fuse([Ranked("a", 2.0), Ranked("b", 1.5), Ranked("a", 1.0)])
