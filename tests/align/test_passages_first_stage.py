"""The first stage loses no pair: its loops agree with the exact code, and what it leaves out cannot reach a limit."""

import math
import random
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.align.align import Alignment
from pan_scdg.align.kernels import compile_kernels
from pan_scdg.align.match import find_matches, measure_match
from pan_scdg.align.reachable import FirstStage, SharedRuns, Vocabulary, hash_runs
from pan_scdg.align.similarity import Comparison
from pan_scdg.align.units import EncodedText, prepare_text
from pan_scdg.align.verbatim import find_runs
from pan_scdg.align.wholes import compare_stem_sets, find_topic, measure_focus
from pan_scdg.profile import PassageSettings
from pan_scdg.profile.baseline import Alignment as AlignmentProfile
from pan_scdg.scoring.baseline_registry import METHODS

Floats = npt.NDArray[np.float32]
WEIGHTS = {"similarity_weight": 0.3, "common_weight": 0.3, "focus_weight": 0.2}
PROFILE = AlignmentProfile(kind="alignment", model="none", length_slope=0.01, **WEIGHTS)
VOCABULARY = "the of and tide river harbour boat net salt quay morning rope storm mast sail gull cod lamp pier"
WORDS = VOCABULARY.split()


def draw_vectors(rng: np.random.Generator, count: int, dimensions: int = 5) -> Floats:
    vectors = rng.normal(size=(count, dimensions)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float16).astype(np.float32)


def measure_rest(target: EncodedText, source: EncodedText, similarity: float) -> tuple[float, ...]:
    """Return the numbers of a pair whose similarity is known."""
    ours, theirs = target.prepared.list_counted_stems(), set(source.prepared.stems)
    common = float(compare_stem_sets(len(ours & theirs), len(ours), len(theirs)))
    focus = float(measure_focus(target.counted, find_topic(source.vectors)[None])[0])
    candidates = float(len(target.counted) * len(source.vectors))
    return measure_match(target.counted, source.vectors), similarity, common, focus, candidates, 99.0, 0.0


def write_text(rng: random.Random, sentences: int, words: Sequence[str] = WORDS, quoted: float = 0.0) -> str:
    written = (" ".join(rng.choices(words, k=rng.randint(4, 9))).capitalize() + "." for _ in range(sentences))
    return " ".join(f'"{sentence}"' if rng.random() < quoted else sentence for sentence in written)


@given(st.integers(0, 9), st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_matches_of_many_sources_are_those_of_each(targets: int, sources: Sequence[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    target, vectors = draw_vectors(rng, targets), [draw_vectors(rng, count) for count in sources]
    found = np.empty(len(sources))
    compile_kernels()[0](target @ np.concatenate(vectors).T, np.concatenate([[0], np.cumsum(sources)]), found)
    assert found == pytest.approx([measure_match(target, source) for source in vectors], abs=1e-5)


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 999), st.sampled_from([0.2, 0.5, 0.8]))
@settings(max_examples=100, deadline=None)
def test_seeds_are_seen_where_there_are_any(targets: int, sources: int, seed: int, least: float) -> None:
    rng = random.Random(seed)
    texts = [prepare_text(write_text(rng, count), 3) for count in (targets, sources)]
    vocabulary = Vocabulary()
    seen = compile_kernels()[1](*(tuple(vocabulary.count_stems(text)) for text in texts), least, least)
    exact = Comparison(*texts).find_seeds(least, least)
    assert seen == bool(exact)


def test_runs_in_common_are_found() -> None:
    rng = random.Random(2)
    texts = [prepare_text(write_text(rng, 6), 3) for _ in range(20)]
    hashes = [hash_runs(text, 3) for text in texts]
    for text, own in zip(texts, hashes, strict=True):
        expected = [bool(find_runs(text, other, 3)) for other in texts]
        assert SharedRuns(hashes).find(own).tolist() == expected
        assert 1 < sum(expected) < 20


@pytest.mark.parametrize("least", [0.2, 0.35, 0.5])
def test_what_is_left_out_cannot_reach_the_limit(least: float) -> None:
    chance, rng = random.Random(3), np.random.default_rng(3)
    words = [word + end for word in WORDS for end in ("", "land", "house", "stone")]
    drawn = (write_text(chance, chance.randint(0, 9), chance.sample(words, 12), 0.2) for _ in range(24))
    texts = [prepare_text(text, 3) for text in drawn]
    assert sum(not text.counted.all() for text in texts) > 3
    encoded = [EncodedText(text, draw_vectors(rng, len(text.spans), 60)) for text in texts]
    stage = FirstStage(encoded, PROFILE, PassageSettings(), least)
    left_out = reached = 0
    for target, places in zip(encoded, stage.find_all(encoded, threads=2), strict=True):
        chosen = set(places)
        for place, source in enumerate(encoded):
            alignment = Alignment(target.prepared, source.prepared, PassageSettings())
            measured = map(alignment.measure, alignment.find_passages())
            similarity = max((found.similarity for found in measured if found.counts), default=0.0)
            if place not in chosen:
                left_out += 1
                assert METHODS[AlignmentProfile].combine(PROFILE, [measure_rest(target, source, similarity)])[0] < least
            elif alignment.seeds or alignment.runs:
                reached += 1
    assert left_out > 50
    assert reached > 20


def test_beyond_a_length_scores_fall_faster_in_both_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pan_scdg.profile.baseline.MOST_CANDIDATES", 30)
    steep = PROFILE.model_copy(update={"long_slope": 0.2})
    rows = [(0.5, 0.0, 0.0, 0.0, number, 99.0, 0.0) for number in (0.0, 1.0, 30.0, 31.0, 3000.0)]
    expected = [0.5 - 0.01 * math.log(max(1, n)) - 0.2 * math.log(max(1, n / 30)) for *_, n, _, _ in rows]
    assert METHODS[AlignmentProfile].combine(steep, rows) == pytest.approx(expected)
    rng = np.random.default_rng(5)
    texts = [prepare_text(write_text(random.Random(i), 3 + i), 3) for i in range(9)]
    encoded = [EncodedText(text, draw_vectors(rng, len(text.spans), 60)) for text in texts]
    least = 0.35
    for target, places in zip(encoded, FirstStage(encoded, steep, PassageSettings(), least).find_all(encoded, 1)):
        for place, source in enumerate(encoded):
            if METHODS[AlignmentProfile].combine(steep, [measure_rest(target, source, 0.0)])[0] >= least:
                assert place in places


def test_blocks_of_sources_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    texts = [prepare_text(write_text(random.Random(i), 5), 3) for i in range(9)]
    encoded = [EncodedText(text, draw_vectors(rng, len(text.spans))) for text in texts]
    stage = FirstStage(encoded, PROFILE, PassageSettings(), 0.3)
    whole = list(stage.find_all(encoded, threads=1))
    monkeypatch.setattr("pan_scdg.align.reachable.BLOCK", 30)
    monkeypatch.setattr("pan_scdg.align.reachable.SOME", 2)
    assert list(stage.find_all(iter(encoded), threads=3)) == whole


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 99), st.sampled_from([-0.5, 0.2, 9.0]))
@settings(max_examples=60, deadline=None)
def test_the_sentences_that_decided(targets: int, sources: int, seed: int, least: float) -> None:
    rng = np.random.default_rng(seed)
    target, source = draw_vectors(rng, targets), draw_vectors(rng, sources)
    found = find_matches(target, source, least)
    assert found
    assert all(0 <= m.begin < m.end <= targets and 0 <= m.source_begin < m.source_end <= sources for m in found)
    assert all(before.end <= after.begin for before, after in zip(found, found[1:]))
    if least == 9.0 and targets > 1:  # only the best ones, whose value is that of the whole texts
        part = measure_literally(target, source, found[0].begin, found[0].source_begin)
        assert part == pytest.approx(measure_match(target, source), abs=1e-5)


def measure_literally(target: Floats, source: Floats, first: int, place: int) -> float:
    m = target @ source.T
    r = np.sort(m, axis=1)[:, -6:].mean(axis=1)
    s = np.sort(m, axis=0)[-6:].mean(axis=0)
    c = (m - 0.3 * (r[:, None] + s[None, :]))[first : first + 2, place : place + 4]
    return float(c.max(axis=1).mean())
