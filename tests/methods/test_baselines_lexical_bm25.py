"""The BM25 pair score against the paper's formula, term by term."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.simple_pair_scores import bm25
from pan_scdg.methods.lexical import (
    Collection,
    compute_pair_score,
    count_statistics,
    hash_collection,
    make_bm25,
    split_tokens,
)
from pan_scdg.profile.baseline import Bm25Pairs
from pan_scdg.records import TextPair

TEXTS = st.lists(st.sampled_from(["ash", "Birch", "cedar", "elm"]), max_size=12).map(" ".join)


def literal(target: str, source: str, sources: list[str], k1: float, b: float) -> float:
    p, s, collection = target.lower().split(), source.lower().split(), [x.lower().split() for x in sources]
    if not p:
        return 0.0
    average = sum(map(len, collection)) / len(collection)
    total = 0.0
    for t in set(p):
        df = sum(t in d for d in collection)
        f = s.count(t)
        idf = math.log(1 + (len(collection) - df + 0.5) / (df + 0.5))
        if f:
            total += p.count(t) * idf * f * (k1 + 1) / (f + k1 * (1 - b + b * len(s) / average))
    return total / len(p)


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=6), st.sampled_from([(1.2, 0.75), (0.5, 0.0), (2.0, 1.0)]))
@settings(max_examples=100, deadline=None)
def test_the_score_is_the_papers_formula(target: str, sources: list[str], constants: tuple[float, float]) -> None:
    statistics = count_statistics(sources)
    for source in sources:
        score = compute_pair_score(split_tokens(target), split_tokens(source), statistics, *constants)
        assert score == pytest.approx(literal(target, source, sources, *constants), rel=1e-12, abs=1e-15)


def test_hand_made_pair() -> None:
    # N 2, avgdl 3; "ash" is in both (df 2), "elm" in one; the query has ash twice
    statistics = count_statistics(["ash ash elm", "ash oak fir"])
    ash = math.log(1 + 0.5 / 2.5) * 2 * 2.2 / (2 + 1.2)
    elm = math.log(1 + 1.5 / 1.5) * 1 * 2.2 / (1 + 1.2)
    score = compute_pair_score(split_tokens("ash elm ash yew"), split_tokens("ash ash elm"), statistics, 1.2, 0.75)
    assert score == pytest.approx((2 * ash + elm) / 4, rel=1e-14)


@given(st.lists(TEXTS.filter(bool), min_size=1, max_size=4, unique=True))
@settings(max_examples=30, deadline=None)
def test_the_benchmarks_older_score_is_the_same_number(texts: list[str]) -> None:
    pairs = [(target, source) for target in texts for source in texts]
    statistics = count_statistics(texts)
    found = [compute_pair_score(split_tokens(p), split_tokens(s), statistics, 1.2, 0.75) for p, s in pairs]
    assert found == pytest.approx(bm25(pairs).tolist(), rel=1e-12)


def test_empty_texts_score_zero() -> None:
    statistics = count_statistics(["", "ash"])
    assert compute_pair_score([], ["ash"], statistics, 1.2, 0.75) == 0.0
    assert compute_pair_score(["ash"], [], statistics, 1.2, 0.75) == 0.0
    assert compute_pair_score(["ash"], [], count_statistics([""]), 1.2, 0.75) == 0.0


def test_a_source_of_another_collection_is_no_zero() -> None:
    with pytest.raises(KeyError, match="elm"):
        compute_pair_score(["elm"], ["elm"], count_statistics(["ash"]), 1.2, 0.75)


def test_statistics_are_counted_once_and_only_when_needed() -> None:
    asked: list[int] = []

    def texts() -> list[str]:
        asked.append(1)
        return ["ash elm", "ash"]

    scorer = make_bm25(Bm25Pairs(kind="bm25"), Collection(hash_collection(["x", "y"]), texts))
    assert scorer.identify() == {"kind": "bm25", "k1": 1.2, "b": 0.75, "collection": hash_collection(["y", "x"])}
    assert list(scorer.score([])) == []
    assert asked == []
    pair = TextPair("p", "s", "elm", "ash elm")
    assert (
        list(scorer.score([pair])) + list(scorer.score([pair]))
        == [(pytest.approx(literal("elm", "ash elm", ["ash elm", "ash"], 1.2, 0.75)),)] * 2
    )
    assert asked == [1]
    assert hash_collection(["x", "x"]) != hash_collection(["x"])
