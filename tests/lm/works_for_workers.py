"""Works for `test_lm_workers`; a module by itself, since a worker imports them by name."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.scdg.sequences import ScoringInput, Tokenizer


@dataclass(frozen=True)
class Ids:
    """Inputs of random ids, some with the same context."""

    seed: int

    def inputs(self, tokenizer: Tokenizer) -> list[ScoringInput]:
        rng = np.random.default_rng(self.seed)
        shared, own = rng.integers(60, size=20), rng.integers(60, size=5)
        return [ScoringInput(c, rng.integers(60, size=int(rng.integers(1, 30)))) for c in (shared, own, shared)]


@dataclass(frozen=True)
class Fatal(Ids):
    """Kills its process for the first so many times, which are counted in a file."""

    times: int
    counter: Path

    def inputs(self, tokenizer: Tokenizer) -> list[ScoringInput]:
        with self.counter.open("a+") as file:
            file.write("x")
        if self.counter.stat().st_size <= self.times:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().inputs(tokenizer)


@dataclass(frozen=True)
class Slow(Ids):
    """Takes as long as a file is missing."""

    gate: Path

    def inputs(self, tokenizer: Tokenizer) -> list[ScoringInput]:
        until(self.gate.exists)
        return super().inputs(tokenizer)


@dataclass(frozen=True)
class Faulty:
    """Raises one or several errors of the user, or another."""

    errors: int

    def inputs(self, tokenizer: Tokenizer) -> list[ScoringInput]:
        found = [UserError("a token\nis odd", "correct it", "there", line) for line in range(self.errors)]
        if len(found) > 1:
            raise UserErrors(found)
        raise found[0] if found else KeyError("of no use")


@dataclass(frozen=True)
class Endless:
    def inputs(self, tokenizer: Tokenizer) -> list[ScoringInput]:
        print("under way", flush=True)
        time.sleep(3600)
        return []


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    for _ in range(int(seconds / 0.01)):
        if true():
            return
        time.sleep(0.01)
    raise TimeoutError


def die(*_: object) -> None:
    """In the place of a worker: one that does not live to see its first work."""
    os.kill(os.getpid(), signal.SIGKILL)
