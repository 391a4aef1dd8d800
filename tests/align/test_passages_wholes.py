"""Two texts as wholes: the numbers are those of their definitions, and mean what they are for."""

import math
from collections.abc import Sequence
from statistics import median

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity

from pan_scdg.align.units import prepare_text
from pan_scdg.align.wholes import EXPECTED, TOGETHER, compare_stem_sets, find_topic, measure_focus

Floats = npt.NDArray[np.float32]


def draw_vectors(rng: np.random.Generator, count: int) -> Floats:
    vectors = rng.normal(size=(count, 5)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_stem_sets_are_compared_by_the_cosine_of_their_marks(target: set[int], source: set[int]) -> None:
    found = float(compare_stem_sets(len(target & source), len(target), len(source)))
    if not target or not source:
        assert found == 0
        return
    marks = [[number in chosen for number in range(31)] for chosen in (target, source)]
    cosine = cosine_similarity(np.array(marks, np.float64))[0, 1]
    expected = EXPECTED * math.log(math.sqrt(len(target) * len(source)))
    assert found == pytest.approx(max(0.0, cosine - expected))


def test_many_sources_are_compared_at_once() -> None:
    sizes, common = np.array([0, 4, 90]), np.array([0, 4, 30])
    alone = [float(compare_stem_sets(c, 40, s)) for c, s in zip(common, sizes, strict=True)]
    assert compare_stem_sets(common, 40, sizes).tolist() == alone


@given(st.integers(0, 9), st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_focus_is_the_best_stretch_less_the_median(sentences: int, sources: Sequence[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    target, texts = draw_vectors(rng, sentences), [draw_vectors(rng, count) for count in sources]
    found = measure_focus(target, np.stack(list(map(find_topic, texts))))
    for value, source in zip(found.tolist(), texts, strict=True):
        stretches = [target[i : i + TOGETHER].sum(axis=0) for i in range(max(1, sentences - TOGETHER + 1))]
        if not sentences or not len(source):
            assert value == 0
            continue
        cosines = cosine_similarity(stretches, [source.sum(axis=0)]).ravel().tolist()
        assert value == pytest.approx(max(cosines) - median(cosines), abs=1e-5)


def test_focus_is_on_the_stretch_with_the_topic_of_the_source() -> None:
    one, other = np.eye(2, dtype=np.float32)
    inserted, throughout = np.stack([other] * 6 + [one] * 3 + [other] * 6), np.stack([one] * 9)
    topics = find_topic(np.stack([one, one]))[None]
    assert measure_focus(inserted, topics).tolist() == [1.0]
    assert measure_focus(throughout, topics).tolist() == [0.0]


def test_texts_without_sentences_have_no_focus() -> None:
    nothing = np.zeros((0, 0), np.float32)
    topics = np.stack([find_topic(nothing)])
    assert measure_focus(nothing, topics).tolist() == [0.0]
    assert measure_focus(np.ones((1, 3), np.float32), topics).tolist() == [0.0]


def test_stems_of_a_quotation_do_not_count() -> None:
    text = prepare_text(
        'The boats sailed at dawn today. She wrote: "Harbours freeze every winter." We rowed home late.', 3
    )
    assert {"boat", "sail", "row"} <= text.list_counted_stems()
    assert "harbour" in text.stems
    assert "harbour" not in text.list_counted_stems()
