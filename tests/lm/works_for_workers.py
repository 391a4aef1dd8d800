"""Works for `test_lm_workers`; a module by itself, since a worker imports them by name."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.lm import workers
from pan_scdg.models import load as models
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
class Fatal(Ids):
    """Kills its process for the first so many times, which are counted in a file."""

    times: int
    counter: Path

    def make_inputs(self, tokenizer: Tokenizer) -> list[ScoringInput]:
        with self.counter.open("a+") as file:
            file.write("x")
        if self.counter.stat().st_size <= self.times:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().make_inputs(tokenizer)


@dataclass(frozen=True)
class Slow(Ids):
    """Takes as long as a file is missing."""

    gate: Path

    def make_inputs(self, tokenizer: Tokenizer) -> list[ScoringInput]:
        until(self.gate.exists)
        return super().make_inputs(tokenizer)


@dataclass(frozen=True)
class Faulty:
    """Raises one or several errors of the user, or another."""

    errors: int

    def make_inputs(self, tokenizer: Tokenizer) -> list[ScoringInput]:
        found = [UserError("a token\nis odd", "correct it", "there", line) for line in range(self.errors)]
        if len(found) > 1:
            raise UserErrors(found)
        raise found[0] if found else KeyError("of no use")


@dataclass(frozen=True)
class Endless:
    def make_inputs(self, tokenizer: Tokenizer) -> list[ScoringInput]:
        print("under way", flush=True)
        time.sleep(3600)
        return []


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    for _ in range(int(seconds / 0.01)):
        if true():
            return
        time.sleep(0.01)
    raise TimeoutError


def start_and_tell(orders: workers.Orders) -> None:
    """In the place of `workers._start_worker`, which it calls: files in the checkpoint's folder say who loads when.

    As many as the file ``fatal`` is long die of loading; one that reads the weights for a fingerprint cannot load.
    """
    real, folder = workers.load_model, orders.folder

    def load(*args: Any, **more: Any) -> Any:
        with (folder / "told").open("a+") as told:
            print("begins", file=told, flush=True)
            told.seek(0)
            begun = told.read().count("begins")
            if begun <= (fatal := (folder / "fatal").stat().st_size):
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.3)
            lm = real(*args, **more)
            print("ends", lm.fingerprint, file=told, flush=True)
        (folder / f"loaded{begun - fatal}").touch()
        return lm

    vars(workers)["load_model"], vars(models)["weights_fingerprint"] = load, None
    workers._start_worker(orders)
