"""Inputs that a thread makes while the model computes: the same, in the same order, and no thread is left."""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from pan_scdg.errors import UserError
from pan_scdg.lm.ahead import AHEAD, make_ahead
from pan_scdg.lm.logprobs import LogProbs
from pan_scdg.profile import ModelSettings
from pan_scdg.scdg.sequences import ScoringInput, Tokenizer
from pan_scdg.scoring.model import ScoringModel

NO_TOKENIZER = cast(Tokenizer, None)
"""The works of these tests need none."""


@dataclass(frozen=True)
class Numbered:
    """Inputs that tell the number of their work; the thread that made them is noted."""

    number: int
    threads: list[threading.Thread] = field(default_factory=list)

    def make_inputs(self, tokenizer: Tokenizer) -> list[ScoringInput]:
        self.threads.append(threading.current_thread())
        if self.number < 0:
            raise UserError("a text is gone", "restore it", "there")
        return [ScoringInput(np.array([0]), np.arange(self.number + 1))]


class Fake:
    """A model that says of each target token its id."""

    def __init__(self) -> None:
        self.tokens, self.splits = 0, list[int]()
        self.threads: list[threading.Thread] = []
        self.fails_at = 0

    def compute_log_probs(self, items: Sequence[ScoringInput]) -> list[LogProbs]:
        self.threads.append(threading.current_thread())
        if len(self.threads) == self.fails_at:
            raise UserError("too large", "take a smaller one")
        return [item.target_ids.astype(np.float32) for item in items]


@pytest.fixture(autouse=True)
def assert_nothing_left() -> Iterator[None]:
    threads, interval = threading.enumerate(), sys.getswitchinterval()
    yield
    assert threading.enumerate() == threads
    assert sys.getswitchinterval() == interval


@pytest.fixture
def engine() -> Fake:
    return Fake()


@pytest.fixture
def model(engine: Fake, tiny_folder: Callable[[str], Path]) -> ScoringModel:
    model = ScoringModel(ModelSettings(name="tiny", dtype="float32"), "cpu", folder=tiny_folder("qwen2"))
    cast(Any, model)._engine = engine
    return model


def test_a_thread_makes_the_inputs_and_the_caller_computes(model: ScoringModel, engine: Fake) -> None:
    works = [Numbered(number) for number in range(9)]
    found = list(model.map(works))
    assert [[values.log_probs.tolist() for values in of] for of in found] == [[list(range(n + 1))] for n in range(9)]
    assert set(engine.threads) == {threading.current_thread()}
    assert [len(work.threads) for work in works] == [1] * 9
    assert threading.current_thread() not in {thread for work in works for thread in work.threads}


def test_the_thread_ends_if_the_model_fails_or_the_caller_has_enough(model: ScoringModel, engine: Fake) -> None:
    found = model.map(map(Numbered, count()))
    assert next(found)[0].log_probs.tolist() == [0]
    cast(Any, found).close()
    engine.fails_at = 3
    with pytest.raises(UserError, match="too large"):
        list(model.map(map(Numbered, count())))


def test_a_map_within_a_map_keeps_both_orders(model: ScoringModel) -> None:
    outer = [
        [len(of.log_probs), *(len(inner[0].log_probs) for inner in model.map(map(Numbered, range(3))))]
        for (of,) in model.map(map(Numbered, range(4)))
    ]
    assert outer == [[number + 1, 1, 2, 3] for number in range(4)]


def test_works_are_taken_only_a_little_ahead_and_by_the_caller() -> None:
    asked = list[threading.Thread]()

    def list_works() -> Iterator[Numbered]:
        for number in count():
            asked.append(threading.current_thread())
            yield Numbered(number)

    ahead = make_ahead(list_works(), NO_TOKENIZER)
    for number in range(5):
        assert len(next(ahead).items[0].target_ids) == number + 1
        assert asked == [threading.current_thread()] * (number + 1 + AHEAD)
    ahead.close()


def test_an_error_comes_when_it_is_the_turn_of_its_work() -> None:
    ahead = make_ahead(map(Numbered, (0, 1, -1, 3)), NO_TOKENIZER)
    assert [len(next(ahead).items[0].target_ids) for _ in range(2)] == [1, 2]
    with pytest.raises(UserError, match="a text is gone"):
        next(ahead)


def test_an_error_of_the_caller_ends_the_thread() -> None:
    def list_works() -> Iterator[Numbered]:
        yield Numbered(0)
        raise UserError("the corpus is damaged", "correct it", "there")

    with pytest.raises(UserError, match="the corpus is damaged"):
        next(make_ahead(list_works(), NO_TOKENIZER))


def test_no_works_are_no_inputs() -> None:
    assert list(make_ahead([], NO_TOKENIZER)) == []
