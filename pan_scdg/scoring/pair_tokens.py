"""Tokenise document pairs, in several processes if there is much text, and keep the tokens until they are scored.

A tokenizer that is written in Python takes a fifth of the time that a GPU then takes for the same tokens.
"""

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache, lru_cache, partial
from multiprocessing import connection, get_context, parent_process, resource_tracker
from pathlib import Path
from shutil import disk_usage
from tempfile import TemporaryFile, gettempdir
from threading import Thread
from typing import IO, Any, NamedTuple

import numpy as np

from pan_scdg.errors import UserError
from pan_scdg.models.config import ModelConfig
from pan_scdg.models.load import load_tokenizer
from pan_scdg.profile import ModelSettings
from pan_scdg.records import DocumentPair
from pan_scdg.resources import count_cores
from pan_scdg.scdg.sequences import Passes, ScoringInput, Tokenizer, build_pair_passes, build_pair_unconditional
from pan_scdg.scoring.model import ScoringModel

LEAST = 32 << 20
"""Bytes of text for which several processes are started, which takes some seconds for each."""
MOST = 16
"""Largest number of processes, of some 200 MB each."""
SPOOLED, FREE = 1 << 30, 4
"""Most tokens of a spool, of 4 bytes each, and the part of the free disk that they take at most: one of ``FREE``.
Further pairs are tokenised again when they are scored. PAN 2025 has some 3e8 tokens."""
TARGETS = 64
"""Targets whose tokens are remembered: a target has many sources, which often follow each other."""

Result = Callable[[], Passes]
"""Returns the inputs of a pair as a whole; raises AlignmentError if the tokenizer cannot align it."""


def make_builder(tokenizer: Tokenizer) -> Callable[[str, str], Passes]:
    """Return a function that returns the inputs of a source and a target as a whole; see `build_pair_passes`."""
    encode_target = lru_cache(maxsize=TARGETS)(partial(build_pair_unconditional, tokenizer))
    return lambda source, target: build_pair_passes(tokenizer, source, target, encode_target(target))


class PairTokens(AbstractContextManager["PairTokens"]):
    """Makes the inputs of pairs in as many processes as save time; a context manager."""

    def __init__(self, model: ScoringModel, pairs: Iterable[DocumentPair]) -> None:
        processes = min(MOST, count_cores())
        self._build_here = make_builder(model.tokenizer)
        self._pool: ProcessPoolExecutor | None = None
        if processes > 1 and _count_bytes(pairs) >= LEAST:
            orders = (model.folder, model.settings, model.config)
            self._pool = ProcessPoolExecutor(processes, get_context("spawn"), _start_process, orders)
        self.ahead = 0 if self._pool is None else 2 * processes
        """Pairs that should be started before the result of the first is asked for."""

    def start(self, source: str, target: str) -> Result:
        """Start a pair and return a function that gives its result."""
        if self._pool is None:
            return partial(self._build_here, source, target)
        with _hold_back(signal.SIGINT):
            return self._pool.submit(_build, source, target).result

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """End the processes after their current tasks.

        Raises:
            UserError: one has ended before.
        """
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        if isinstance(error, BrokenExecutor):
            raise UserError(
                "a process that tokenises texts ended before it was done",
                "check whether the host ran out of memory, and run the same command again",
            ) from error


def _count_bytes(pairs: Iterable[DocumentPair]) -> int:
    """Return the bytes of the texts; a file that is missing is named when it is read."""
    files = [file for pair in pairs for file in (pair.suspicious, pair.source)]
    known = sum(len(file.text) for file in files if file.text is not None)
    return known + sum(file.path.stat().st_size for file in files if file.text is None and file.path.is_file())


_orders: list[tuple[Path, ModelSettings, ModelConfig]] = []
"""Folder, settings and config of the model, in a process that was started to tokenise."""


def _start_process(*orders: Any) -> None:
    _follow_parent()
    # transformers would load torch for nothing: 700 MB and 8 s of each process
    os.environ.update({"USE_TORCH": "0", "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1"})
    _orders.append(orders)


@cache
def _load_builder() -> Callable[[str, str], Passes]:
    return make_builder(load_tokenizer(*_orders[0]))


def _build(source: str, target: str) -> Passes:
    return _load_builder()(source, target)


def _follow_parent() -> None:
    """Ignore Ctrl-C in this process, and end it when its parent ends; called first in a process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent decides what it means
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
    os._exit(0)


@contextmanager
def _hold_back(number: signal.Signals) -> Iterator[None]:
    """Block a signal; a process started meanwhile never sees it, not even before it can ignore it."""
    resource_tracker.ensure_running()  # the first start does this, and unblocks all signals afterwards
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class KeptPair(NamedTuple):
    """The place of a pair's tokens in a spool."""

    file: IO[bytes]
    offset: int
    """In bytes."""
    context: int
    """Number of tokens in front of the target."""
    target: int

    def read(self) -> Passes:
        """Return both inputs of the pair."""
        self.file.seek(self.offset)
        ids = np.frombuffer(self.file.read(4 * (1 + self.context + self.target)), np.int32)
        # copies, since targets are kept without their sources
        first, context, target = (part.astype(np.int64) for part in np.split(ids, [1, 1 + self.context]))
        return Passes(ScoringInput(first, target), ScoringInput(context, target))


class TokenSpool:
    """A temporary file of the tokens of checked pairs until they are scored, so that each is tokenised once.

    It exists as long as a pair of it is known.
    """

    def __init__(self, most: int = SPOOLED) -> None:
        free = disk_usage(gettempdir()).free // (4 * FREE)
        self._file, self._end, self._left = TemporaryFile(prefix="pan_scdg-tokens-"), 0, min(most, free)  # noqa: SIM115

    def keep(self, passes: Passes) -> KeptPair | None:
        """Write the inputs of a pair and return their place; None if the spool is full."""
        item = passes.conditional
        if item.length + 1 > self._left:
            return None
        ids = np.concatenate([passes.unconditional.context_ids, item.context_ids, item.target_ids])
        if len(passes.unconditional.context_ids) != 1 or ids.max() > np.iinfo(np.int32).max:
            raise ValueError("a pair has one token of context without its source, and ids of 32 bits")
        kept = KeptPair(self._file, self._end, len(item.context_ids), len(item.target_ids))
        self._file.seek(self._end)
        self._file.write(ids.astype(np.int32).tobytes())
        self._end += 4 * len(ids)
        self._left -= len(ids)
        return kept
