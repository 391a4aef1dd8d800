"""Token n-grams against literal restatements and hand-made texts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.methods import MethodOptions
from pan_scdg.methods.containment import (
    ContainmentMethod,
    ContainmentSettings,
    GramLogisticMethod,
    GramLogisticSettings,
    Overlap,
    measure_covered_tokens,
    measure_overlap,
)
from pan_scdg.methods.logistic import LogisticWeights
from pan_scdg.methods.simple import split_tokens
from tests.methods.conftest import make_pair, measure
from tests.passages import make_passage

TOKENS = st.lists(st.sampled_from("abc"), max_size=25)
NS = st.integers(1, 5)


def list_grams(tokens: list[str], n: int) -> set[tuple[str, ...]]:
    return {tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)}


def test_tokens_keep_apostrophes_underscores_and_hyphens_inside_words() -> None:
    text = "Don't -- the WELL-known snake_case 'quoted' o’clock end- _x_ 3.5 état"
    expected = ("don't", "the", "well-known", "snake_case", "quoted", "o’clock", "end", "x", "3", "5", "état")
    assert split_tokens(text) == list(expected)


@given(TOKENS, TOKENS, NS)
@settings(max_examples=100, deadline=None)
def test_containment_is_the_papers_formula(target: list[str], source: list[str], n: int) -> None:
    grams = list_grams(source, n)

    def is_covered(i: int) -> int:
        windows = range(max(0, i - n + 1), min(i, len(target) - n) + 1)
        return int(any(tuple(target[w : w + n]) in grams for w in windows))

    short = len(target) < n or len(source) < n
    expected = 0.0 if short else sum(is_covered(i) for i in range(len(target))) / len(target)
    assert measure_covered_tokens(target, source, n) == pytest.approx(expected, abs=1e-15)


@given(TOKENS, TOKENS, NS)
@settings(max_examples=100, deadline=None)
def test_overlap_counts_sets_of_ngrams(target: list[str], source: list[str], n: int) -> None:
    p, s = list_grams(target, n), list_grams(source, n)
    common = len(p & s)
    expected = Overlap(
        common / len(p | s) if p | s else 0.0, common / len(p) if p else 0.0, common / len(s) if s else 0.0
    )
    assert measure_overlap(target, source, n) == expected


def test_hand_made_pair() -> None:
    target = "yesterday the old bridge was closed for repairs again today"
    source = "The old bridge was closed; for repairs, they said."
    # common: the..was, old..closed, bridge..for, was..repairs, that is tokens 1 to 7 of 10
    containment = ContainmentMethod(ContainmentSettings(), MethodOptions())
    assert measure(containment, (target, source), ("one two three", "one two three"), ("", "")) == [0.7, 0.0, 0.0]
    assert containment.detect(make_pair("ab", "cde")) == (make_passage(0, 2, 0, 3),)
    assert containment.detect(make_pair("", "cde")) == ()
    logistic = GramLogisticSettings(n=4)
    (score,) = GramLogisticMethod(logistic, MethodOptions()).score([make_pair(target, source)])
    assert score.values == {
        "jaccard": 4 / (7 + 6 - 4),
        "target_containment": 4 / 7,
        "source_containment": 4 / 6,
    }
    weights = LogisticWeights(intercept=0.0, coefficients=(1.0, 0.0, 0.0), mean=(4 / 9, 0, 0), scale=(1.0, 1.0, 1.0))
    assert logistic.model_copy(update={"weights": weights}).compute_score(score.values) == 0.5
