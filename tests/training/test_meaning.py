"""Vectors of meaning: counts and information against their definitions, and words of like use come out alike."""

import math
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from training import meaning as m
from training.start import MEANING, Shape, copying_model
from training.tokenizer import train_tokenizer


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=2, max_size=40), st.integers(1, 3), st.integers(3, 50))
def test_cooccurrences_are_sums_of_inverse_distances(ids: list[int], reach: int, block: int) -> None:
    expected: Counter[tuple[int, int]] = Counter()
    for i in range(len(ids)):
        for j in range(i + 1, min(len(ids), i + reach + 1)):
            expected[ids[i], ids[j]] += 1 / (j - i)
            expected[ids[j], 5 + ids[i]] += 1 / (j - i)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(m, "BLOCK", block)
        counted = m.cooccurrences(np.array(ids, dtype=np.uint16), 5, reach).toarray()
    wanted = np.zeros((5, 10))
    for cell, value in expected.items():
        wanted[cell] = value
    np.testing.assert_allclose(counted, wanted, rtol=1e-5)


def test_positive_information_is_its_definition() -> None:
    counts = np.random.default_rng(3).integers(0, 6, size=(7, 9)).astype(float)
    counts[:, 0] += 1
    rows, columns, total = counts.sum(axis=1), counts.sum(axis=0) ** 0.75, counts.sum()
    got = m.positive_information(sparse.csr_matrix(counts)).toarray()
    for i in range(7):
        for j in range(9):
            joint, alone, context = counts[i, j] / total, rows[i] / total, columns[j] / columns.sum()
            assert got[i, j] == pytest.approx(max(0.0, math.log(joint / (alone * context))) if joint else 0.0)


def test_components_give_back_the_similarities_of_the_matrix() -> None:
    matrix = np.random.default_rng(0).random((12, 20))
    u, s, _ = np.linalg.svd(matrix, full_matrices=False)
    got = m.leading_components(sparse.csr_matrix(matrix), 5)
    wanted = u[:, 1:6] * np.sqrt(s[1:6])
    np.testing.assert_allclose(got @ got.T, wanted @ wanted.T, atol=1e-5)


def test_retrofitting_ends_where_each_row_is_the_mean_of_its_past_and_its_synonyms() -> None:
    vectors = np.eye(4, dtype=np.float32)
    moved = m.retrofitted(vectors, {0: {1}, 1: {0, 2}}, rounds=60)
    np.testing.assert_allclose(moved[0], (vectors[0] + moved[1]) / 2, atol=1e-6)
    np.testing.assert_allclose(moved[1], (vectors[1] + (moved[0] + moved[2]) / 2) / 2, atol=1e-6)
    np.testing.assert_array_equal(moved[2:], vectors[2:])


@pytest.fixture(scope="module")
def world() -> tuple[Any, list[int]]:
    """Sentences in which `boat` and `ship` stand in the same places, `bread` in others."""
    rng, sentences = random.Random(0), []
    for _ in range(1500):
        vessel, sea = rng.choice(["boat", "ship"]), rng.choice(["harbour", "coast", "storm"])
        sentences.append(f" The {vessel} left the {sea} with the tide .")
        sentences.append(f" We ate {rng.choice(['bread', 'cake'])} with {rng.choice(['butter', 'jam', 'honey'])} .")
    text = "".join(sentences)
    tokenizer = train_tokenizer([text, " vessel"] * 3, 400)
    return tokenizer, tokenizer.encode(text, add_special_tokens=False)


def token(tokenizer: Any, word: str) -> int:
    (number,) = tokenizer.encode(f" {word}", add_special_tokens=False)
    return int(number)


def test_words_that_stand_in_the_same_places_are_alike(world: tuple[Any, list[int]]) -> None:
    tokenizer, ids = world
    vectors = m.meaning_vectors(np.array(ids, dtype=np.uint16), tokenizer, len(tokenizer), {}, 6)
    boat, ship, bread = (vectors[token(tokenizer, w)] for w in ("boat", "ship", "bread"))
    assert boat @ ship > 0.9
    assert boat @ bread < 0.3
    again = m.meaning_vectors(np.array(ids, dtype=np.uint16), tokenizer, len(tokenizer), {}, 6)
    np.testing.assert_array_equal(vectors, again)


def test_synonyms_are_found_for_whole_words_only(world: tuple[Any, list[int]]) -> None:
    tokenizer, _ = world
    found = m.synonym_tokens(tokenizer, len(tokenizer), {"boat": ["ship", "unheardof"], "unheardof": ["boat"]})
    assert found == {token(tokenizer, "boat"): {token(tokenizer, "ship")}}


@pytest.mark.long
def test_a_start_with_meaning_expects_a_synonym_where_it_saw_the_word() -> None:
    torch.manual_seed(1)
    vocabulary, length = 6000, 120  # with fewer, every token is frequent, and frequent tokens mean little
    counts, sample = torch.full((vocabulary,), 50), torch.randint(2, vocabulary, (1, 200))
    meaning = torch.nn.functional.normalize(torch.randn(vocabulary, MEANING), dim=1)
    meaning[1::2] = 0.9 * meaning[::2] + 0.1 * meaning[1::2]  # token 2k + 1 means nearly what token 2k means
    once = torch.randint(1, vocabulary // 2, (1, length)) * 2
    ids = torch.cat([torch.zeros(1, 1, dtype=torch.long), once, once + 1], dim=1)

    def loss_of_synonyms(model: torch.nn.Module) -> float:
        with torch.inference_mode():
            logp = model(ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
        return -float(logp[length + 2 :].mean())

    torch.manual_seed(2)
    with_meaning = loss_of_synonyms(copying_model(counts, sample, Shape(), meaning).eval())
    torch.manual_seed(2)
    without = loss_of_synonyms(copying_model(counts, sample, Shape()).eval())
    assert with_meaning < without - 1
