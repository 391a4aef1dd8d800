"""Compute in worker processes: one process with its own model for each device of this host.

The result of a work does not depend on which worker computes it, how many workers there are, or whether one died of it
before; last digits may differ only on a device that ran out of memory (`Workers.splits`).
"""

import fcntl
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple, Protocol

from pan_scdg.errors import UserError
from pan_scdg.lm.engine import Engine, EngineName, make_engine
from pan_scdg.lm.logprobs import LogProbs
from pan_scdg.lm.processes import follow_parent, hold_back
from pan_scdg.models.load import LanguageModel, load_model
from pan_scdg.profile import ModelSettings
from pan_scdg.scdg.sequences import ScoringInput, TokenIds, Tokenizer

AHEAD = 2
"""Works that a worker has at one time: one being computed, and the next."""
HELD = 64
"""Works for each worker that are unfinished or wait for an earlier one; bounds the memory of results."""
DEATHS = 3
"""Workers that may die of one work before that is an error."""


class Work(Protocol):
    """Inputs that are computed together; can be pickled."""

    def make_inputs(self, tokenizer: Tokenizer) -> list[ScoringInput]:
        """Return the inputs to be scored, in a fixed order."""
        ...


class Scored(NamedTuple):
    """The target ids of one input, ``[n]``, and their log-probabilities in nats, ``[n]``."""

    target_ids: TokenIds
    log_probs: LogProbs


Values = list[Scored]
"""The result of a work: one entry per input."""


def score_work(work: Work, tokenizer: Tokenizer, engine: Engine) -> Values:
    """Return the log-probabilities of the inputs of a work."""
    items = work.make_inputs(tokenizer)
    return [Scored(i.target_ids, v) for i, v in zip(items, engine.compute_log_probs(items), strict=True)]


class Orders(NamedTuple):
    """The arguments of a worker's start; see `load_model` and `make_engine`."""

    folder: Path
    settings: ModelSettings
    engine: EngineName
    device: str
    fingerprint: str
    threads: int
    lock: str
    """A file that a worker locks while it loads the model."""


class _Result(NamedTuple):
    values: Values
    tokens: int
    splits: list[dict[str, int]]


@dataclass
class _Worker:
    """The state of a worker's own process; its model is loaded for the first work."""

    orders: Orders
    model: tuple[LanguageModel, Engine] | None = None


_this: _Worker | None = None


def _start_worker(orders: Orders) -> None:
    """Do what takes seconds and little memory, so that workers do it in parallel: import torch and set signals."""
    follow_parent()
    import torch
    from transformers.utils import logging

    global _this
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    torch.set_num_threads(orders.threads)
    _this = _Worker(orders)


def _compute(work: Work) -> _Result:
    """Return the result of a work in a worker's process."""
    if _this is None:
        raise RuntimeError("this process was not started as a worker")
    if _this.model is None:
        _this.model = _load(_this.orders)
    lm, engine = _this.model
    tokens, splits = engine.tokens, len(engine.splits)
    values = score_work(work, lm.tokenizer, engine)
    return _Result(values, engine.tokens - tokens, engine.splits[splits:])


def _load(orders: Orders) -> tuple[LanguageModel, Engine]:
    """Load the model, one worker after the other, so that the host needs the memory for loading only once."""
    with open(orders.lock) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lm = load_model(orders.folder, orders.settings, orders.device, fingerprint=orders.fingerprint)
    return lm, make_engine(orders.engine, lm, orders.settings)


@dataclass(eq=False)
class _Task:
    work: Work
    future: "Future[_Result]" = field(default_factory=Future)
    deaths: int = 0


class _Slot:
    """A device and its worker: a pool of one process, started for the first work and again after a death."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self.tasks: deque[_Task] = deque()
        """Submitted ones in order; the first that is not done is being computed."""
        self._pool: ProcessPoolExecutor | None = None
        self._process: BaseProcess | None = None

    def submit(self, task: _Task) -> None:
        """Submit a task to the worker; raise BrokenExecutor if it is dead."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, get_context("spawn"), _start_worker, (self.orders,))
        with hold_back(signal.SIGINT):
            task.future = self._pool.submit(_compute, task.work)
        self._process = next(iter((self._pool._processes or {}).values()), self._process)
        self.tasks.append(task)

    def list_unfinished(self) -> list[_Task]:
        """Return the tasks that have no result, those that a death cut off among them."""
        while self.tasks and self.tasks[0].future.done() and not _is_cut_off(self.tasks[0].future):
            self.tasks.popleft()
        return [task for task in self.tasks if not task.future.done() or _is_cut_off(task.future)]

    def end(self) -> str:
        """Kill the worker, if it lives, and return how it ended."""
        if self._process is None or self._pool is None:
            return "not started"
        self._process.kill()
        self._pool.shutdown()
        self._process.join()
        code, self._pool, self._process = self._process.exitcode or 0, None, None
        return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _is_cut_off(future: "Future[_Result]") -> bool:
    return future.done() and isinstance(future.exception(), BrokenExecutor)


class Workers:
    """Processes that compute works; a context manager.

    A worker starts when there is work for it. One that dies is replaced, and its works are computed again.

    Args:
        folder: the checkpoint.
        settings: the profile's, as `devices.choose_dtype` returns them.
        engine: see `make_engine`.
        devices: one for each worker: "cuda:0", "cuda:1", ..., or "cpu" any number of times.
        fingerprint: the checkpoint's, so that no worker reads its gigabytes for it.

    Raises:
        ValueError: no device.
    """

    def __init__(
        self, folder: Path, settings: ModelSettings, engine: EngineName, devices: Sequence[str], fingerprint: str
    ) -> None:
        import torch

        if not devices:
            raise ValueError("no devices")
        # All workers together take the threads that this process would.
        threads = max(1, torch.get_num_threads() // len(devices))
        self._lock = NamedTemporaryFile(prefix="pan-scdg-")  # noqa: SIM115 - closed by `close`
        orders = (Orders(folder, settings, engine, d, fingerprint, threads, self._lock.name) for d in devices)
        self._slots = [_Slot(order) for order in orders]
        self._closed = False
        self.tokens = 0
        """Number of tokens that the models computed for the results so far."""
        self.splits: list[dict[str, int]] = []
        """See `Engine`; of all workers."""
        self.deaths: list[str] = []
        """One line for each worker that died."""

    def map(self, works: Iterable[Work]) -> Iterator[Values]:
        """Yield the result of each work, in the order of the works.

        Works are taken as they are needed: for each worker at most ``AHEAD`` are unfinished. Another map may begin
        before this one is exhausted, even while this one takes a work.

        Raises:
            UserError: raised by a work or by loading the model, or ``DEATHS`` workers died of the same work.
            ValueError: the workers are closed.
        """
        source, window = iter(works), deque[_Task]()
        while True:
            self._fill(source, window)
            if not window:
                return
            if not window[0].future.done():
                wait([task.future for task in window if not task.future.done()], return_when=FIRST_COMPLETED)
                self._replace_dead()
            elif _is_cut_off(window[0].future):
                self._replace_dead()
            else:
                yield self._account(window.popleft().future.result())

    def close(self) -> None:
        """End all workers, whatever they are doing."""
        self._closed = True
        for slot in self._slots:
            slot.end()
        self._lock.close()

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fill(self, source: Iterator[Work], window: deque[_Task]) -> None:
        """Submit works until ``AHEAD`` per worker are unfinished."""
        count = len(self._slots)
        while len(window) < HELD * count and sum(not task.future.done() for task in window) < AHEAD * count:
            self._check_open()
            work = next(source, None)
            if work is None:
                return
            window.append(_Task(work))
            self._submit(window[-1])

    def _submit(self, task: _Task) -> None:
        """Submit a task to the worker that has the fewest."""
        self._check_open()
        slot = min(self._slots, key=lambda slot: len(slot.list_unfinished()))
        try:
            slot.submit(task)
        except BrokenExecutor:
            self._replace(slot)
            self._submit(task)

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("the workers are closed")

    def _replace_dead(self) -> None:
        self._check_open()
        for slot in self._slots:
            if any(_is_cut_off(task.future) for task in slot.tasks):
                self._replace(slot)

    def _replace(self, slot: _Slot) -> None:
        """Note a death, count it against the work that was being computed, and submit all unfinished works again."""
        reason, lost = slot.end(), slot.list_unfinished()
        slot.tasks.clear()
        self.deaths.append(f"worker on {slot.orders.device}: {reason}")
        for number, task in enumerate(lost):
            task.deaths += number == 0
            if task.deaths == DEATHS:
                task.future = Future()
                task.future.set_exception(_describe_deaths(reason))
            else:
                self._submit(task)

    def _account(self, result: _Result) -> Values:
        self.tokens += result.tokens
        self.splits += result.splits
        return result.values


def _describe_deaths(reason: str) -> UserError:
    return UserError(
        f"{DEATHS} workers died while computing the same batch, the last with {reason}",
        "check whether the host ran out of memory (SIGKILL); fewer devices, or a smaller context or limit, need less",
    )
