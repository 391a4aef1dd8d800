"""The constructed start copies before any training, and the helpers of the mixture do what they say."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from training.alter import alter, swap_clauses, synonym
from training.start import Shape, copying_model
from training.train import schedule

TABLE = {"quick": ["fast"], "walk": ["stroll"], "make": ["produce"]}


def test_start_copies_a_text_that_it_has_seen_and_a_random_model_does_not() -> None:
    torch.manual_seed(1)
    vocabulary, length = 600, 120
    counts = torch.ones(vocabulary, dtype=torch.long) * 50
    sample = torch.randint(2, vocabulary, (4, 200))
    model = copying_model(counts, sample, Shape()).eval()
    once = torch.randint(2, vocabulary, (1, length))
    ids = torch.cat([torch.zeros(1, 1, dtype=torch.long), once, once], dim=1)
    with torch.inference_mode():
        logp = model(ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
    first, second = -logp[:length].mean(), -logp[length + 2 :].mean()
    assert first > 5  # log(600) = 6.4
    assert second < first - 3


def test_synonym_keeps_ending_and_capital() -> None:
    rng = random.Random(0)
    assert synonym("Walked", TABLE, rng) == "Strolled"
    assert synonym("making", TABLE, rng) == "producing"
    assert synonym("table", TABLE, rng) == "table"


def test_swap_clauses_by_hand() -> None:
    sentence = "When the tide turned again, the boats came home empty."
    assert swap_clauses(sentence) == "The boats came home empty, when the tide turned again."
    assert swap_clauses("Short, one.") == "Short, one."


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 1000), st.floats(0, 1))
def test_alter_is_a_function_of_its_generator(seed: int, strength: float) -> None:
    text = "The quick fox went home. It would walk far. Then it was gone. Nobody saw it again."
    assert alter(text, strength, TABLE, random.Random(seed)) == alter(text, strength, TABLE, random.Random(seed))
    assert alter(text, 0.0, TABLE, random.Random(seed)) == text


@pytest.mark.parametrize(("step", "factor"), [(0, 1 / 40), (100, 1.0), (599, 1.0), (800, 0.515), (1000, 0.03)])
def test_schedule_by_hand(step: int, factor: float) -> None:
    assert schedule(step, 1000) == pytest.approx(factor)
