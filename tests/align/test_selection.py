"""The selection of pairs loses none: what it leaves out cannot reach the limit."""

import random
from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.align import selection
from pan_scdg.align.matches import measure_nearest_own, measure_vectors
from pan_scdg.align.passages import Alignment
from pan_scdg.align.seeds import Comparison
from pan_scdg.align.selection import select_pairs
from pan_scdg.align.vectors import EncodedText
from pan_scdg.methods.alignment import AlignmentSettings, align_sentences, bound_score
from pan_scdg.text.units import prepare_text

compute_score = AlignmentSettings(model="none").compute_score
bound = partial(bound_score, AlignmentSettings(model="none"))
VOCABULARY = "the of and tide river harbour boat net salt quay morning rope storm mast sail gull cod lamp pier"
WORDS = VOCABULARY.split()


def draw_vectors(rng: np.random.Generator, count: int, dimensions: int) -> npt.NDArray[np.float32]:
    vectors = rng.normal(size=(count, dimensions)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def write_text(rng: random.Random, sentences: int, words: Sequence[str] = WORDS, quoted: float = 0.0) -> str:
    written = (" ".join(rng.choices(words, k=rng.randint(4, 9))).capitalize() + "." for _ in range(sentences))
    return " ".join(f'"{sentence}"' if rng.random() < quoted else sentence for sentence in written)


def make_texts(count: int, seed: int) -> list[EncodedText]:
    chance, rng = random.Random(seed), np.random.default_rng(seed)
    words = [word + end for word in WORDS for end in ("", "land", "house", "stone")]
    drawn = (write_text(chance, chance.randint(0, 9), chance.sample(words, 12), 0.2) for _ in range(count))
    prepared = map(prepare_text, drawn)
    return [EncodedText(text, draw_vectors(rng, len(text.spans), 60)) for text in prepared]


def score(target: EncodedText, source: EncodedText, alignment: Alignment) -> float:
    measured = map(alignment.measure, alignment.passages)
    values = {
        **measure_vectors(target.counted_vectors, measure_nearest_own(target.counted_vectors), source.vectors),
        "alignment": align_sentences(target, source, alignment).find_best().score,
        "similarity": max((passage.similarity for passage in measured if passage.counts), default=0.0),
        "copied": float(alignment.count_copied_words()),
        "words": float(len(target.prepared.forms)),
    }
    return compute_score(values)


@pytest.mark.parametrize("least", [0.2, 0.35, 0.5])
def test_what_is_left_out_cannot_reach_the_limit(least: float) -> None:
    texts = make_texts(24, seed=3)
    assert sum(not text.prepared.counted.all() for text in texts) > 3
    selected = select_pairs(iter(texts), iter(texts), bound, least)
    assert selected == sorted(set(selected))
    left_out = shared = 0
    for i, target in enumerate(texts):
        for j, source in enumerate(texts):
            alignment = Alignment(target.prepared, source.prepared)
            if (i, j) not in selected:
                left_out += 1
                assert score(target, source, alignment) < least
            elif alignment.seeds or alignment.runs:
                shared += 1
    assert left_out > 50
    assert shared > 20


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_only_shared_words_raise_the_bound(targets: int, sources: int, seed: int) -> None:
    """With vectors that are all alike, a pair is selected for its seeds and runs alone."""
    rng = random.Random(seed)
    texts = [prepare_text(write_text(rng, count)) for count in (targets, sources)]
    target, source = (EncodedText(text, np.zeros((len(text.spans), 2), np.float32)) for text in texts)
    has_seed = bool(Comparison(*texts).find_seeds(min_dice=0.0) or Alignment(*texts).runs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "ROUNDING_MARGIN", 1e-6)
        assert bool(select_pairs([target], [source], bound, 4.0)) == has_seed


def test_without_a_limit_all_pairs_are_selected_and_without_texts_none() -> None:
    texts = make_texts(3, seed=1)
    everything = [(i, j) for i in range(3) for j in range(3)]
    assert select_pairs(texts, texts, bound, float("-inf")) == everything
    assert select_pairs(texts, [], bound, 0.1) == select_pairs([], texts, bound, 0.1) == []
