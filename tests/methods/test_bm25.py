"""The BM25 pair score against the paper's formula, term by term."""

import math
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.methods import MethodOptions
from pan_scdg.methods.bm25 import (
    Bm25Method,
    Bm25PairSettings,
    compute_pair_score,
    count_needed_sources,
    count_statistics,
)
from pan_scdg.methods.simple import split_tokens
from pan_scdg.records import Reason
from tests.methods.conftest import measure

TEXTS = st.lists(st.sampled_from(["ash", "Birch", "cedar", "elm"]), max_size=12).map(" ".join)


def compute_literally(target: str, source: str, sources: list[str], k1: float, b: float) -> float:
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
    k1, b = constants
    statistics = pickle.loads(pickle.dumps(count_statistics(sources)))
    method = Bm25Method(Bm25PairSettings(k1=k1, b=b), MethodOptions(), statistics)
    expected = [compute_literally(target, source, sources, k1, b) for source in sources]
    assert measure(method, *((target, source) for source in sources)) == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_hand_made_pair() -> None:
    # N 2, avgdl 3; "ash" is in both (df 2), "elm" in one; the query has ash twice
    statistics = count_statistics(["ash ash elm", "ash oak fir"])
    ash = math.log(1 + 0.5 / 2.5) * 2 * 2.2 / (2 + 1.2)
    elm = math.log(1 + 1.5 / 1.5) * 1 * 2.2 / (1 + 1.2)
    score = compute_pair_score(split_tokens("ash elm ash yew"), split_tokens("ash ash elm"), statistics, 1.2, 0.75)
    assert score == pytest.approx((2 * ash + elm) / 4, rel=1e-14)


def test_empty_texts_score_zero_and_sources_that_were_not_counted_are_an_error() -> None:
    statistics = count_statistics(["", "ash"])
    assert compute_pair_score([], ["ash"], statistics, 1.2, 0.75) == 0.0
    assert compute_pair_score(["ash"], [], statistics, 1.2, 0.75) == 0.0
    assert compute_pair_score(["ash"], [], count_statistics([""]), 1.2, 0.75) == 0.0
    with pytest.raises(KeyError, match="elm"):
        compute_pair_score(["elm"], ["elm"], statistics, 1.2, 0.75)
    with pytest.raises(ValueError, match="statistics"):
        Bm25Method(Bm25PairSettings(), MethodOptions()).score([])


@pytest.mark.parametrize(("threshold", "needed"), [(0.6477334899, 5), (1.0, 11)])
def test_a_copy_needs_sources(threshold: float, needed: int) -> None:
    """With so many sources half of the words of a copy reach the threshold, each in one source and once."""
    score = 0.5 * math.log(1 + (needed - 0.5) / 1.5)
    assert count_needed_sources(threshold) == needed
    assert score >= threshold > 0.5 * math.log(1 + (needed - 1.5) / 1.5)
    settings = Bm25PairSettings()
    few, enough = (count_statistics([f"word{i}" for i in range(n)]) for n in (needed - 1, needed))
    (reason,) = settings.warn_of_sources(few, threshold)
    assert reason == Reason("few_sources", {"sources": needed - 1, "score": threshold, "needed": needed})
    assert settings.warn_of_sources(enough, threshold) == []
    assert settings.warn_of_sources(few, None) == []
