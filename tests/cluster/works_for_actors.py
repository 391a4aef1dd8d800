"""Orders and tasks for the tests of actors; a module by itself, since an actor imports them by name."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from pan_scdg.cluster.actor import OutOfMemory, Place
from pan_scdg.errors import UserError, UserErrors
from pan_scdg.scdg.sequences import ScoringInput, Tokenizer


@dataclass(frozen=True)
class Ids:
    """Inputs of random ids, some with the same context."""

    seed: int

    def make_inputs(self, tokenizer: Tokenizer) -> list[ScoringInput]:
        rng = np.random.default_rng(self.seed)
        shared, own = rng.integers(60, size=20), rng.integers(60, size=5)
        return [ScoringInput(c, rng.integers(60, size=int(rng.integers(1, 30)))) for c in (shared, own, shared)]


@dataclass(frozen=True)
class Plain:
    """A task that returns its number; the base of tasks that do more."""

    number: int

    def run(self) -> tuple[int, int]:
        return self.number, os.getpid()


@dataclass(frozen=True)
class Fatal(Plain):
    """Kills its process, or is out of memory, for the first so many times, which are counted in a file."""

    times: int
    counter: Path
    memory: bool = False

    def run(self) -> tuple[int, int]:
        with self.counter.open("a+") as file:
            file.write("x")
        if self.counter.stat().st_size <= self.times:
            if self.memory:
                raise OutOfMemory
            os.kill(os.getpid(), signal.SIGKILL)
        return super().run()


@dataclass(frozen=True)
class Slow(Plain):
    """Takes as long as a file is missing, and says that it waits."""

    gate: Path

    def run(self) -> tuple[int, int]:
        self.gate.with_name(f"waits{self.number}").touch()
        until(self.gate.exists)
        return super().run()


@dataclass(frozen=True)
class Faulty(Plain):
    """Raises as many errors of the user as its number, or another."""

    def run(self) -> tuple[int, int]:
        found = [UserError("a token\nis odd", "correct it", "there", line) for line in range(self.number)]
        if len(found) > 1:
            raise UserErrors(found)
        raise found[0] if found else KeyError("of no use")


@dataclass(frozen=True)
class Run:
    """Orders to run tasks; loading takes a file, in which it is written, and may fail or kill the first."""

    told: Path | None = None
    error: UserError | None = None
    imports: str = "os"

    def prepare(self) -> None:
        import_module(self.imports)

    def load(self, place: Place) -> Callable[[Any], Any]:
        if self.error is not None:
            raise self.error
        if self.told is not None:
            self._tell()
        return lambda work: work.run()

    def _tell(self) -> None:
        assert self.told is not None
        with self.told.open("a+") as told:
            print("begins", file=told, flush=True)
            told.seek(0)
            if told.read().count("begins") == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.3)
            print("ends", file=told, flush=True)


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    for _ in range(int(seconds / 0.01)):
        if true():
            return
        time.sleep(0.01)
    raise TimeoutError
