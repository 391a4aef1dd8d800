"""Make the inputs of the next tasks while the model computes: it gets token ids and never waits for a tokenizer."""

import sys
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from pan_scdg.cluster.actor import SWITCH
from pan_scdg.lm.works import Work
from pan_scdg.scdg.sequences import ScoringInput, Tokenizer

AHEAD = 2
"""Tasks whose inputs are being made, or wait, beside the one that is computed; bounds the memory of their ids."""

Started = TypeVar("Started")


@dataclass(frozen=True)
class TokenisedInputs:
    """A task of inputs that are tokenised already."""

    items: Sequence[ScoringInput]

    def make_inputs(self, tokenizer: Tokenizer) -> list[ScoringInput]:
        """Return the inputs."""
        return list(self.items)


def make_ahead(works: Iterable[Work], tokenizer: Tokenizer) -> Generator[TokenisedInputs, None, None]:
    """Yield the inputs of each task, in the order of the tasks.

    A thread makes the inputs of the next ``AHEAD`` tasks meanwhile. The tasks themselves are taken in the thread of the
    caller, so that what makes them may use the store. If the caller stops early, the thread ends with what it is doing.

    Raises:
        Exception: that of a task, when its turn comes.
    """
    thread = ThreadPoolExecutor(1, "inputs")
    with _switch_often():
        try:
            for made in take_ahead((thread.submit(work.make_inputs, tokenizer) for work in works), AHEAD):
                yield TokenisedInputs(made.result())
        finally:
            thread.shutdown(cancel_futures=True)


def take_ahead(started: Iterable[Started], ahead: int) -> Iterator[Started]:
    """Yield the results that an iterator starts, in order, each after the next ``ahead`` have been started."""
    waiting = deque[Started]()
    for item in started:
        waiting.append(item)
        if len(waiting) > ahead:
            yield waiting.popleft()
    yield from waiting


@contextmanager
def _switch_often() -> Iterator[None]:
    former = sys.getswitchinterval()
    sys.setswitchinterval(min(former, SWITCH))
    try:
        yield
    finally:
        sys.setswitchinterval(former)
