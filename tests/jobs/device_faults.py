"""Device errors for processes that have no device; their modules are few, since each new process imports them."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pan_scdg.models.devices import are_calls_halved

ECC_ERROR = "CUDA error: uncorrectable ECC error encountered"


class Failing:
    """Squares numbers; the device fails at 3 in the first processes that try it."""

    def __init__(self, counter: Path, failures: int) -> None:
        self.counter, self.failures = counter, failures

    def __call__(self, number: int) -> tuple[int, int, bool]:
        if number == 3:
            with self.counter.open("a") as file:
                file.write(f"{os.getpid()} {are_calls_halved()}\n")
            if len(self.counter.read_text(encoding="utf-8").splitlines()) <= self.failures:
                raise RuntimeError(ECC_ERROR)
        return number * number, os.getpid(), are_calls_halved()


class LosesADevice:
    """Squares numbers; the device of the process that computes first fails from then on."""

    def __init__(self, first: Path) -> None:
        self.first = first

    def __call__(self, number: int) -> tuple[int, str]:
        import ray

        name = str(ray.get_runtime_context().get_actor_id())
        with suppress(FileExistsError), self.first.open("x", encoding="utf-8") as file:
            file.write(name)
        if self.first.read_text(encoding="utf-8") == name and number > 0:
            raise RuntimeError(ECC_ERROR)
        return number * number, name


def raise_it(error: Exception | None) -> None:
    if error is not None:
        raise error


def break_stage(stage: str, patch: Callable[[Any, str, Any], None]) -> None:
    """Let a device error end each task of a stage.

    Args:
        stage: "encode", "search", "rerank", "score" or "passages".
        patch: sets an attribute of a class.
    """
    from pan_scdg.jobs.rerank import CandidateScorer
    from pan_scdg.jobs.retrieval import RetrievalWorker
    from pan_scdg.jobs.worker import PairWorker
    from pan_scdg.models.encoder import Encoder

    places: dict[str, tuple[Any, str]] = {
        "encode": (Encoder, "compute"),
        "search": (RetrievalWorker, "_search"),
        "rerank": (CandidateScorer, "compute"),
        "score": (PairWorker, "score"),
        "passages": (PairWorker, "find_passages"),
    }

    def fail(*_: Any) -> Any:
        raise RuntimeError(f"{ECC_ERROR}\nCUDA kernel errors might be asynchronously reported")

    patch(*places[stage], fail)
