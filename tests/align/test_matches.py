"""Two texts by the vectors of their sentences: the numbers are those of their definitions."""

import math
from collections.abc import Sequence
from statistics import median

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity

from pan_scdg.align import matches
from pan_scdg.align.matches import (
    COMMON_SLOPE,
    FOCUS_SENTENCES,
    compare_stem_sets,
    compute_topic,
    find_matches,
    measure_focus,
    measure_match,
)
from pan_scdg.align.units import prepare_text

Floats = npt.NDArray[np.float32]


def literal_match(target: Floats, source: Floats) -> float:
    """Restate the docstring of `measure_match` with loops."""
    m = target.astype(np.float64) @ source.astype(np.float64).T
    r = [np.sort(row)[-6:].mean() for row in m]
    s = [np.sort(column)[-6:].mean() for column in m.T]
    best = -1.0
    two, four = min(2, len(target)), min(4, len(source))
    for i in range(len(target) - two + 1):
        for j in range(len(source) - four + 1):
            largest = [max(m[a, b] - 0.3 * (r[a] + s[b]) for b in range(j, j + four)) for a in range(i, i + two)]
            best = max(best, sum(largest) / two)
    return best


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 99), st.integers(1, 4))
@settings(max_examples=80, deadline=None)
def test_the_match_is_that_of_the_formula(targets: int, sources: int, seed: int, batch: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = (rng.standard_normal((n, 3)).astype(np.float32) for n in (targets, sources))
    one, other = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (one, other))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matches, "BATCH_SENTENCES", batch)
        assert measure_match(one, other) == pytest.approx(literal_match(one, other), abs=1e-6)


def test_a_text_without_sentences_matches_nothing() -> None:
    assert measure_match(np.zeros((0, 3), np.float32), np.eye(3, dtype=np.float32)) == -1


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 99), st.sampled_from([-0.5, 0.2, 9.0]))
@settings(max_examples=60, deadline=None)
def test_the_sentences_that_decided(targets: int, sources: int, seed: int, least: float) -> None:
    rng = np.random.default_rng(seed)
    target, source = draw_vectors(rng, targets), draw_vectors(rng, sources)
    stretches = find_matches(target, source, least)
    assert stretches
    assert all(0 <= m.begin < m.end <= targets and 0 <= m.source_begin < m.source_end <= sources for m in stretches)
    assert all(before.end <= after.begin for before, after in zip(stretches, stretches[1:]))
    if least == 9.0 and targets > 1:  # only the best ones, whose value is that of the whole texts
        part = measure_literally(target, source, stretches[0].begin, stretches[0].source_begin)
        assert part == pytest.approx(measure_match(target, source), abs=1e-5)


def measure_literally(target: Floats, source: Floats, first: int, place: int) -> float:
    m = target @ source.T
    r = np.sort(m, axis=1)[:, -6:].mean(axis=1)
    s = np.sort(m, axis=0)[-6:].mean(axis=0)
    c = (m - 0.3 * (r[:, None] + s[None, :]))[first : first + 2, place : place + 4]
    return float(c.max(axis=1).mean())


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
    expected = COMMON_SLOPE * math.log(math.sqrt(len(target) * len(source)))
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
    found = measure_focus(target, np.stack(list(map(compute_topic, texts))))
    for value, source in zip(found.tolist(), texts, strict=True):
        stretches = [
            target[i : i + FOCUS_SENTENCES].sum(axis=0) for i in range(max(1, sentences - FOCUS_SENTENCES + 1))
        ]
        if not sentences or not len(source):
            assert value == 0
            continue
        cosines = cosine_similarity(stretches, [source.sum(axis=0)]).ravel().tolist()
        assert value == pytest.approx(max(cosines) - median(cosines), abs=1e-5)


def test_focus_is_on_the_stretch_with_the_topic_of_the_source() -> None:
    one, other = np.eye(2, dtype=np.float32)
    inserted, throughout = np.stack([other] * 6 + [one] * 3 + [other] * 6), np.stack([one] * 9)
    topics = compute_topic(np.stack([one, one]))[None]
    assert measure_focus(inserted, topics).tolist() == [1.0]
    assert measure_focus(throughout, topics).tolist() == [0.0]


def test_texts_without_sentences_have_no_focus() -> None:
    nothing = np.zeros((0, 0), np.float32)
    topics = np.stack([compute_topic(nothing)])
    assert measure_focus(nothing, topics).tolist() == [0.0]
    assert measure_focus(np.ones((1, 3), np.float32), topics).tolist() == [0.0]


def test_stems_of_a_quotation_do_not_count() -> None:
    text = prepare_text(
        'The boats sailed at dawn today. She wrote: "Harbours freeze every winter." We rowed home late.', 3
    )
    assert {"boat", "sail", "row"} <= text.list_counted_stems()
    assert "harbour" in text.stems
    assert "harbour" not in text.list_counted_stems()
