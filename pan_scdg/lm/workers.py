"""Several workers of one host: a process and a whole model for each device, fed from one queue of works.

What a work gives does not depend on which worker computes it, how many there are, or whether one died of it before;
only a device that had too little memory before (`Workers.splits`) may give other last digits.
"""

import heapq
import pickle
import signal
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

from pan_scdg.errors import UserError
from pan_scdg.lm.engine import EngineName
from pan_scdg.lm.worker import GO, Failure, Finished, Key, Message, Orders, Ready, Started, Values, Work, serve
from pan_scdg.profile import ModelSettings

AHEAD = 2
"""Works that a worker has at one time: one under way, and one so that it need not wait for the next."""
HELD = 64
"""Works for each worker that may be unfinished or wait for an earlier one; bounds the memory of results."""
DEATHS = 3
"""So many workers may die of one work, or of loading the model on one device, before that is an error."""
PATIENCE = 5.0
"""Seconds in which a worker that closed its pipe should have ended by itself."""


@dataclass(eq=False)
class _Task:
    key: Key
    work: bytes
    deaths: int = 0
    outcome: Values | Exception | None = None
    dropped: bool = False


@dataclass(eq=False)
class _Worker:
    slot: int
    device: str
    process: SpawnProcess
    pipe: Connection
    told: bool = False
    """To load the model."""
    ready: bool = False
    tasks: dict[Key, _Task] = field(default_factory=dict)
    current: Key | None = None


class Workers:
    """Processes that compute works; a context manager.

    A worker starts when there is work for it, and loads tokenizer and model itself, one worker after the other, so that
    the host's memory holds what loading takes for one at a time. One that dies is replaced and its works done again.

    Args:
        folder: the checkpoint.
        settings: the profile's, as `devices.choose_dtype` returns them.
        engine: see `engine_of`.
        devices: one for each worker: "cuda:0", "cuda:1", ..., or "cpu" any number of times.
        fingerprint: the checkpoint's, which so many gigabytes need not be read for again.

    Raises:
        ValueError: no device.
    """

    def __init__(
        self,
        folder: Path,
        settings: ModelSettings,
        engine: EngineName,
        devices: Sequence[str],
        fingerprint: str,
    ) -> None:
        import torch

        if not devices:
            raise ValueError("no devices")
        # All workers together take the threads that this process would.
        threads = max(1, torch.get_num_threads() // len(devices))
        self._orders = [Orders(folder, settings, engine, device, fingerprint, threads) for device in devices]
        self._workers: list[_Worker] = []
        self._pending: list[tuple[Key, _Task]] = []
        self._idle_deaths: Counter[int] = Counter()
        self._maps, self._numbers = count(), count()
        self._closed = False
        self.tokens = 0
        """Tokens that went through the models so far, without those of works that a death cut off."""
        self.splits: list[dict[str, int]] = []
        """See `Engine`; of all workers."""
        self.deaths: list[str] = []
        """Which workers died and of what."""

    def map(self, works: Iterable[Work]) -> Iterator[Values]:
        """What each work gives, in the order of the works.

        The works are asked for as they are needed: for each worker at most ``AHEAD`` are unfinished. The next map may
        begin before this one is exhausted, even while this one asks for a work; the newest goes first.

        Raises:
            UserError: raised by a work or by loading the model, or workers died ``DEATHS`` times of the same.
            RuntimeError: another exception in a worker; its traceback is the text of the ``__cause__``.
            ValueError: the workers are closed.
        """
        number = next(self._maps)
        source, mine = iter(works), deque[_Task]()
        try:
            while True:
                self._receive(0)
                self._ask(source, mine, number)
                if not mine:
                    return
                outcome = mine[0].outcome
                if outcome is None:
                    self._receive(None)
                    continue
                mine.popleft()
                if isinstance(outcome, Exception):
                    raise outcome
                yield outcome
        finally:
            self._drop(mine)

    def close(self) -> None:
        """End all workers, whatever they are doing."""
        self._closed = True
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            _end(worker)
        self._workers, self._pending = [], []

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, source: Iterator[Work], mine: deque[_Task], number: int) -> None:
        """Take works from the source as long as few are unfinished."""
        workers = len(self._orders)
        while len(mine) < HELD * workers and sum(task.outcome is None for task in mine) < AHEAD * workers:
            work = next(source, None)
            if work is None:
                return
            # The caller waits for the newest map, and only then goes on with those before.
            key = (-number, next(self._numbers))
            mine.append(_Task(key, pickle.dumps(work, protocol=pickle.HIGHEST_PROTOCOL)))
            heapq.heappush(self._pending, (key, mine[-1]))
            self._hand_out()

    def _drop(self, tasks: Iterable[_Task]) -> None:
        """Nobody waits for these any more."""
        for task in tasks:
            task.dropped = True
        self._pending = [(key, task) for key, task in self._pending if not task.dropped]
        heapq.heapify(self._pending)

    def _hand_out(self) -> None:
        """Start workers if there is work for more of them, and send them what is pending."""
        self._check_open()
        unfinished = len(self._pending) + sum(len(worker.tasks) for worker in self._workers)
        while len(self._workers) < min(len(self._orders), unfinished):
            self._start()
        if all(worker.ready or not worker.told for worker in self._workers):
            self._let_one_load()
        while self._pending:
            free = [worker for worker in self._workers if worker.ready and len(worker.tasks) < AHEAD]
            worker = min(free, key=lambda worker: len(worker.tasks), default=None)
            # A second work for the same worker must not be the first one of a worker that is still loading.
            loading = sum(not other.ready for other in self._workers)
            if worker is None or (worker.tasks and len(self._pending) <= loading):
                return
            key, task = heapq.heappop(self._pending)
            worker.tasks[key] = task
            _send(worker, (key, task.work))

    def _let_one_load(self) -> None:
        """Tell the first worker that has not loaded. One that dies meanwhile is no longer among the workers."""
        worker = next((worker for worker in self._workers if not worker.told), None)
        if worker is not None:
            worker.told = True
            _send(worker, GO)

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("the workers are closed")

    def _start(self) -> None:
        taken = {worker.slot for worker in self._workers}
        slot = next(slot for slot in range(len(self._orders)) if slot not in taken)
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(self._orders[slot], theirs), daemon=True)
        with _held_back(signal.SIGINT):
            process.start()
            self._workers.append(_Worker(slot, self._orders[slot].device, process, ours))
        theirs.close()

    def _receive(self, timeout: float | None) -> None:
        """Take in what the workers sent, or wait for the first to send something, and hand out more."""
        self._check_open()
        heard = wait([worker.pipe for worker in self._workers], timeout)
        for worker in [worker for worker in self._workers if worker.pipe in heard]:
            try:
                message: Message = worker.pipe.recv()
            except (EOFError, OSError):
                self._bury(worker)
            else:
                self._take(worker, message)
        self._hand_out()

    def _take(self, worker: _Worker, message: Message) -> None:
        if isinstance(message, Failure):
            self.close()
            raise message.error()
        if isinstance(message, Ready):
            worker.ready = True
        elif isinstance(message, Started):
            worker.current = message.key
        else:
            self._finish(worker, message)

    def _finish(self, worker: _Worker, message: Finished) -> None:
        task = worker.tasks.pop(message.key)
        outcome = message.outcome
        task.work, task.outcome = b"", outcome.error() if isinstance(outcome, Failure) else outcome
        worker.current = None
        self._idle_deaths[worker.slot] = 0
        self.tokens += message.tokens
        self.splits += message.splits

    def _bury(self, worker: _Worker) -> None:
        """Give the works of a dead worker back; the one that was under way is held responsible."""
        self._workers.remove(worker)
        reason = _end(worker)
        self.deaths.append(f"worker on {worker.device}: {reason}")
        if worker.current is None:
            self._idle_deaths[worker.slot] += 1
            if self._idle_deaths[worker.slot] == DEATHS:
                self.close()
                raise _deadly(f"{DEATHS} workers in a row died on {worker.device} before they did anything", reason)
        else:
            task = worker.tasks[worker.current]
            task.deaths += 1
            if task.deaths == DEATHS:
                task.outcome = _deadly(f"{DEATHS} workers died of the same piece of work", reason)
        for key, task in worker.tasks.items():
            if task.outcome is None and not task.dropped:
                heapq.heappush(self._pending, (key, task))


def _send(worker: _Worker, what: tuple[Key, bytes]) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # it died, which the next `_receive` sees
        worker.pipe.send(what)


def _end(worker: _Worker) -> str:
    """Wait for the end of a worker, which was told or seems to be dead, and say what it was."""
    worker.pipe.close()
    worker.process.join(PATIENCE)
    worker.process.kill()
    worker.process.join()
    code = worker.process.exitcode or 0
    worker.process.close()
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _deadly(what: str, reason: str) -> UserError:
    remedy = "see whether the host's memory ran out (SIGKILL); fewer devices, or a smaller context or limit, need less"
    return UserError(f"{what}, the last of {reason}", remedy)


@contextmanager
def _held_back(number: signal.Signals) -> Iterator[None]:
    """Keep a signal waiting; a process started meanwhile never sees it, not even before it can ignore it."""
    resource_tracker.ensure_running()  # the first start does this, and lets all signals through afterwards
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
