"""Two texts by the vectors of their sentences: the numbers are those of their definitions."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity

from pan_scdg.align import matches
from pan_scdg.align.matches import (
    MIN_VALUE,
    NO_MATCH,
    SEED_WEIGHT,
    SOURCE_GAP,
    TARGET_GAP,
    TEMPERATURE,
    SentenceAlignment,
    find_summary,
    measure_nearest_own,
    measure_vectors,
)
from pan_scdg.align.seeds import Seed

Floats = npt.NDArray[np.float32]


def restate_values(target: Floats, source: Floats, seeds: Sequence[Seed] = ()) -> Floats:
    """Return the values of all pairs of sentences, by scikit-learn's cosines and the softmax written out."""
    cosines = cosine_similarity(target, source).astype(np.float64)
    e = np.exp(cosines / TEMPERATURE)
    softmax = np.sqrt(e / e.sum(axis=1, keepdims=True) * (e / e.sum(axis=0, keepdims=True)))
    values = softmax - MIN_VALUE
    for seed in seeds:
        values[seed.target, seed.source] += SEED_WEIGHT * seed.cosine
    return np.asarray(values)


def restate_best(values: Floats) -> float:
    """Return the score of the best local alignment, by the recursion of Smith and Waterman."""
    best, scores = 0.0, np.zeros((values.shape[0] + 1, values.shape[1] + 1))
    for i, j in np.ndindex(values.shape):
        extended = scores[i, j] + values[i, j]
        gaps = scores[i, j + 1] - TARGET_GAP, scores[i + 1, j] - SOURCE_GAP
        scores[i + 1, j + 1] = max(0.0, extended, *gaps)
        best = max(best, scores[i + 1, j + 1])
    return best


def restate_score(values: Floats) -> float:
    """Return the score of the best alignment from the first pair of sentences to the last, both included."""
    score = np.full(values.shape, -np.inf)
    for i, j in np.ndindex(values.shape):
        before = [score[a, b] - TARGET_GAP * (i - a - 1) - SOURCE_GAP * (j - b - 1) for a in range(i) for b in range(j)]
        score[i, j] = values[i, j] + max(before, default=0.0 if (i, j) == (0, 0) else -np.inf)
    return float(score[-1, -1])


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 99), st.integers(1, 4))
@settings(max_examples=80, deadline=None)
def test_the_best_alignment_is_that_of_smith_and_waterman(targets: int, sources: int, seed: int, batch: int) -> None:
    rng = np.random.default_rng(seed)
    target, source = draw_vectors(rng, targets), draw_vectors(rng, sources)
    seeds = [Seed(i, int(rng.integers(sources)), float(rng.uniform())) for i in range(0, targets, 2)]
    values = restate_values(target, source, seeds)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matches, "BATCH_SENTENCES", batch)
        alignment = SentenceAlignment(target, source, seeds)
        match = alignment.find_best()
        assert alignment.find_best_score() == match.score
    assert match.score == pytest.approx(restate_best(values), abs=1e-5)
    if match.score:  # the places are those of the score
        part = values[match.begin : match.end, match.source_begin : match.source_end]
        assert match.score == pytest.approx(restate_score(part), abs=1e-5)


@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (0, 0)])
def test_a_text_without_sentences_has_no_alignment(sizes: tuple[int, int]) -> None:
    texts = [np.eye(3, dtype=np.float32)[:size] if size else np.zeros((0, 0), np.float32) for size in sizes]
    assert SentenceAlignment(*texts).find_best() == NO_MATCH
    assert SentenceAlignment(*texts).find_best_score() == 0
    assert SentenceAlignment(*texts).find_all(0.0, [(0, len(texts[0]))]) == []


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 99), st.sampled_from([0.0, 0.5, 9.0]))
@settings(max_examples=60, deadline=None)
def test_all_alignments_of_two_places_down_to_a_score(targets: int, sources: int, seed: int, least: float) -> None:
    rng = np.random.default_rng(seed)
    target, source = draw_vectors(rng, targets), draw_vectors(rng, sources)
    alignment, values = SentenceAlignment(target, source), restate_values(target, source)
    middle = int(rng.integers(0, targets + 1))
    found = alignment.find_all(least, [(0, middle), (middle, targets)])
    assert all(before.end <= after.begin for before, after in zip(found, found[1:]))
    for begin, end in ((0, middle), (middle, targets)):
        inside = [match for match in found if begin <= match.begin < end]
        assert all(match.end <= end and match.score >= least for match in inside)
        assert alignment.find_best(begin, end) in [*inside, NO_MATCH] or restate_best(values[begin:end]) < least + 1e-5
        # nothing between them reaches the score
        cuts = [begin, *(bound for match in inside for bound in (match.begin, match.end)), end]
        for first, last in zip(cuts[::2], cuts[1::2]):
            assert restate_best(values[first:last]) <= max(least, 0.0) + 1e-5


def test_sentences_that_follow_in_order_count_and_those_on_the_topic_do_not() -> None:
    rng = np.random.default_rng(0)
    own, others = draw_vectors(rng, 8, 40), draw_vectors(rng, 8, 40)
    in_order = SentenceAlignment(own, own).find_best()
    assert in_order[:4] == (0, 8, 0, 8)
    assert in_order.score > 3 * SentenceAlignment(own, own[::-1].copy()).find_best().score
    assert SentenceAlignment(own, others).find_best().score < 0.2 * in_order.score
    topic = np.tile(own[:1], (8, 1))  # each sentence is near to all
    assert SentenceAlignment(topic, topic).find_best().score < 0.35 * in_order.score


def draw_vectors(rng: np.random.Generator, count: int, dimensions: int = 5) -> Floats:
    vectors = rng.normal(size=(count, dimensions)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_a_summary_is_the_stretch_of_the_largest_sum(targets: int, sources: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    target, source = (rng.normal(size=(count, 3)).astype(np.float32) for count in (targets, sources))
    target, source = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (target, source))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matches, "BATCH_SENTENCES", 4)
        found = find_summary(target, source)
    cosines = cosine_similarity(target, source) if targets and sources else np.zeros((targets, 1))
    values = cosines.max(axis=1, initial=-1) - 0.4
    best = max((values[i:j].sum() for i in range(targets) for j in range(i + 1, targets + 1)), default=0)
    assert (found is None) == (best <= 0)
    if found:
        sentences, places = found
        assert values[sentences].sum() == pytest.approx(best, abs=1e-5)
        taken = [cosines[i].argmax() for i in sentences if values[i] >= 0]
        assert (places.start, places.stop) == (min(taken), max(taken) + 1)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_numbers_of_vectors(targets: int, sources: int, seed: int) -> None:
    """Each restated by its definition, with scikit-learn's cosines and all subsets."""
    rng = np.random.default_rng(seed)
    target, source = draw_vectors(rng, targets, 3), draw_vectors(rng, sources, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matches, "BATCH_SENTENCES", 4)
        own = measure_nearest_own(target)
        values = measure_vectors(target, own, source)
    assert (values["sentences"], values["candidates"]) == (targets, targets * sources)
    if not targets or not sources:
        assert values["margin"] == values["contrast"] == values["density"] == values["corresponding"] == 0
        assert values["in_order"] == values["nearest"] == 0
        assert values["topic"] == pytest.approx(0.4)
        return
    within = cosine_similarity(target) - 2 * np.eye(targets)
    assert own == pytest.approx(np.maximum(within.max(axis=1), 0), abs=1e-5)
    cosines = cosine_similarity(target, source)
    nearest, places = cosines.max(axis=1), cosines.argmax(axis=1)
    is_mutual = cosines.argmax(axis=0)[places] == range(targets)
    matched = places[is_mutual & (nearest >= 0.6)].tolist()
    chains = (chosen for size in range(len(matched) + 1) for chosen in combinations(matched, size))
    assert values["corresponding"] == len(matched)
    assert values["in_order"] == max(len(chosen) for chosen in chains if list(chosen) == sorted(chosen))
    margins = np.where(is_mutual, np.maximum(nearest - own, 0), 0)
    stretches = [slice(i, i + 3) for i in range(max(1, targets - 2))]
    assert values["margin"] == pytest.approx(max(margins[one].mean() for one in stretches), abs=1e-5)
    contrast = max(nearest[one].mean() for one in stretches) - nearest.mean()
    assert values["contrast"] == pytest.approx(contrast, abs=1e-5)
    assert values["topic"] == pytest.approx(np.mean([*nearest[~is_mutual & (nearest < 0.65)], 0.4, 0.4, 0.4]), abs=1e-5)
    assert values["nearest"] == pytest.approx(cosines.max(), abs=1e-5)
    follows = [is_mutual[n] and is_mutual[n + 1] and 0 <= places[n + 1] - places[n] <= 3 for n in range(targets - 1)]
    assert values["density"] == pytest.approx(max(sum(follows[i : i + 7]) for i in range(targets)) / 7)


def test_a_sentence_that_is_written_from_the_source_twice_is_no_topic() -> None:
    source = np.eye(4, dtype=np.float32)[:3]
    target = np.concatenate([source, 0.7 * source + np.sqrt(0.51) * np.eye(4, dtype=np.float32)[3]])
    values = [
        measure_vectors(text, measure_nearest_own(text), source)["topic"] for text in (source, target, target / 2)
    ]
    assert values == pytest.approx([0.4, 0.4, (3 * 0.35 + 3 * 0.4) / 6])


def test_a_topic_in_common_has_no_margin() -> None:
    """A sentence that is as near to its own text as to the source says nothing; one that only the source has does."""
    topic, other = np.eye(2, dtype=np.float32)
    alike, different = np.stack([topic] * 6), np.stack([topic, other])
    values = [measure_vectors(text, measure_nearest_own(text), text)["margin"] for text in (alike, different)]
    assert values == [0.0, 1.0]
