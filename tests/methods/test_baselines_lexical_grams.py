"""Token n-grams against literal restatements and hand-made texts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.simple_pair_scores import four_gram_containment
from pan_scdg.methods.lexical import (
    LexicalScorer,
    Overlap,
    make_containment,
    make_gram_overlap,
    measure_covered_tokens,
    measure_overlap,
    split_tokens,
)
from pan_scdg.profile.baseline import Containment, GramLogistic
from pan_scdg.records import TextPair

TOKENS = st.lists(st.sampled_from("abc"), max_size=25)
NS = st.integers(1, 5)


def grams(tokens: list[str], n: int) -> set[tuple[str, ...]]:
    return {tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)}


def scorer_of(settings: Containment | GramLogistic) -> LexicalScorer:
    return make_containment(settings) if isinstance(settings, Containment) else make_gram_overlap(settings)


def test_tokens_keep_apostrophes_underscores_and_hyphens_inside_and_nowhere_else() -> None:
    text = "Don't -- the WELL-known snake_case 'quoted' o’clock end- _x_ 3.5 état"
    assert split_tokens(text) == [
        *("don't", "the", "well-known", "snake_case", "quoted", "o’clock", "end", "x", "3", "5", "état")
    ]


@given(TOKENS, TOKENS, NS)
@settings(max_examples=100, deadline=None)
def test_containment_is_the_papers_formula(target: list[str], source: list[str], n: int) -> None:
    known = grams(source, n)

    def covered(i: int) -> int:
        windows = range(max(0, i - n + 1), min(i, len(target) - n) + 1)
        return int(any(tuple(target[w : w + n]) in known for w in windows))

    short = len(target) < n or len(source) < n
    expected = 0.0 if short else sum(covered(i) for i in range(len(target))) / len(target)
    assert measure_covered_tokens(target, source, n) == pytest.approx(expected, abs=1e-15)


@given(TOKENS, TOKENS, NS)
@settings(max_examples=100, deadline=None)
def test_overlap_counts_sets_of_ngrams(target: list[str], source: list[str], n: int) -> None:
    p, s = grams(target, n), grams(source, n)
    found = measure_overlap(target, source, n)
    assert found.jaccard == (len(p & s) / len(p | s) if p | s else 0.0)
    assert found.target_containment == (len(p & s) / len(p) if p else 0.0)
    assert found.source_containment == (len(p & s) / len(s) if s else 0.0)
    assert measure_overlap(source, target, n) == Overlap(
        found.jaccard, found.source_containment, found.target_containment
    )


def test_hand_made_pair() -> None:
    target = split_tokens("yesterday the old bridge was closed for repairs again today")
    source = split_tokens("The old bridge was closed; for repairs, they said.")
    # found: the..was, old..closed, bridge..for, was..repairs, that is tokens 1 to 7 of 10
    assert measure_covered_tokens(target, source, 4) == 0.7
    assert measure_overlap(target, source, 4) == Overlap(4 / (7 + 6 - 4), 4 / 7, 4 / 6)


def test_pairs_shorter_than_four_tokens_score_zero() -> None:
    scorer = scorer_of(Containment(kind="containment"))
    texts = [("one two three", "one two three"), ("one two three four", "one two three"), ("", "")]
    assert list(scorer.score(TextPair("p", "s", t, s) for t, s in texts)) == [(0.0,)] * 3


def test_scorers_say_what_they_give() -> None:
    pair = TextPair("p", "s", "a b c d e", "a b c d f")
    containment, three = scorer_of(Containment(kind="containment")), scorer_of(GramLogistic(kind="gram-logistic"))
    assert list(containment.score([pair])) == [(0.8,)]
    assert list(three.score([pair])) == [(1 / 3, 0.5, 0.5)]
    assert three.features == ("jaccard", "target_containment", "source_containment")
    assert containment.identify() != scorer_of(Containment(kind="containment", n=3)).identify()


@given(st.text(alphabet="ab '-.", max_size=80), st.text(alphabet="ab '-.", max_size=80))
@settings(max_examples=50, deadline=None)
def test_the_benchmarks_older_score_is_the_same_number(target: str, source: str) -> None:
    (score,) = next(scorer_of(Containment(kind="containment")).score([TextPair("p", "s", target, source)]))
    assert score == pytest.approx(four_gram_containment([(target, source)])[0], abs=1e-15)
