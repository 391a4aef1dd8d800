"""Compute tasks in another process of this machine, which can be ended and started again when its device fails."""

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import IO, Any, Protocol

from pan_scdg.errors import DeviceError, get_first_line
from pan_scdg.logs import show_logs, shows_notes
from pan_scdg.progress import count_tokens, forward_tokens

CONCURRENT_TASKS = 2
"""Tasks that a process has at a time: one is prepared while the other one is computed."""
END_SECONDS = 30
"""Time that the system has to end a process whose driver may hang."""
START = "import sys; sys.path[:] = {path!r}; from pan_scdg.jobs.processes import main; main()"


class Process(Protocol):
    """A process that computes tasks on its own device."""

    name: str
    starts: int
    """How often it was started."""

    def submit(self, task: Any, halved: bool) -> "Future[Any]":
        """Return the future result of a task; with ``halved`` computed in calls of half the tokens.

        It has a `DeviceError` if the device or the process failed.
        """
        ...

    def restart(self) -> None:
        """End the process and start it again."""
        ...

    def end(self) -> None:
        """End the process for good."""
        ...


class TaskRunner:
    """Computes tasks in the process of a device.

    Args:
        pickled: the worker, which may import torch and look for models, and so is unpickled by the first task.
    """

    def __init__(self, pickled: bytes) -> None:
        self._pickled = pickled
        self._worker: Any = None
        self._preparing, self._computing = threading.Lock(), threading.Lock()

    def compute(self, task: Any, halved: bool = False) -> Any:
        """Return the result of a task; one of two threads prepares while the other one computes."""
        from pan_scdg.models.devices import are_calls_halved, halve_calls, is_device_error

        try:
            with self._preparing:
                if halved and not are_calls_halved():
                    with self._computing:
                        halve_calls()
                        self._worker = None
                if self._worker is None:
                    self._worker = pickle.loads(self._pickled)
                worker, prepares = self._worker, hasattr(self._worker, "prepare")
                prepared = worker.prepare(task) if prepares else task
            with self._computing:
                return worker.compute(prepared) if prepares else worker(prepared)
        except Exception as e:
            if is_device_error(e):
                raise DeviceError(get_first_line(e)) from None
            if _is_portable(e):
                raise
            raise RuntimeError(f"{type(e).__name__}: {e}") from None


class ChildProcess:
    """A `Process` that is a child of this one.

    Args:
        name: of its device.
        pickled: the worker.
        threads: of each product on a CPU.
    """

    def __init__(self, name: str, pickled: bytes, threads: int) -> None:
        self.name, self.starts = name, 0
        self._pickled, self._threads = pickled, threads
        self._start()

    def _start(self) -> None:
        self.starts += 1
        environment = {**os.environ, "OMP_NUM_THREADS": str(self._threads)}
        command = [sys.executable, "-c", START.format(path=sys.path)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment)
        self._answers = _Answers(self._process)
        self._answers.send((self._pickled, not shows_notes()))

    def submit(self, task: Any, halved: bool) -> "Future[Any]":
        """See `Process`."""
        return self._answers.ask(task, halved)

    def restart(self) -> None:
        """See `Process`."""
        self.end()
        self._start()

    def end(self) -> None:
        """See `Process`."""
        self._process.kill()
        self._answers.wait()


class _Answers:
    """The answers of a process that have not come yet."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("the process has no pipes")
        self._process, self._requests, self._results = process, process.stdin, process.stdout
        self._futures: dict[int, Future[Any]] = {}
        self._numbers, self._lock, self._has_ended = count(), threading.Lock(), False
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()

    def send(self, message: Any) -> None:
        """Send an object; the thread that receives notices a process that has ended."""
        with suppress(OSError):
            pickle.dump(message, self._requests)
            self._requests.flush()

    def ask(self, task: Any, halved: bool) -> "Future[Any]":
        """Send a task; return its future result."""
        future: Future[Any] = Future()
        with self._lock:
            if self._has_ended:
                future.set_exception(self._describe_end())
                return future
            number = next(self._numbers)
            self._futures[number] = future
        self.send((number, task, halved))
        return future

    def wait(self) -> None:
        """Wait until the process has ended and every future has its result."""
        self._thread.join(END_SECONDS)

    def _receive(self) -> None:
        with suppress(Exception):  # the pipe has ended, or cannot be read
            while True:
                number, succeeded, value = pickle.load(self._results)
                if number is None:
                    count_tokens(value)
                    continue
                with self._lock:
                    future = self._futures.pop(number)
                (future.set_result if succeeded else future.set_exception)(value)
        error = self._describe_end()
        with self._lock:
            self._has_ended = True
            futures = list(self._futures.values())
        for future in futures:
            future.set_exception(error)
        for pipe in (self._requests, self._results):
            with suppress(OSError):
                pipe.close()

    def _describe_end(self) -> DeviceError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)
        code = self._process.returncode
        how = f"by signal {-code}" if code is not None and code < 0 else f"with code {code}"
        return DeviceError(f"its process ended {how}")


def main() -> None:
    """Compute the tasks that the parent process sends, until it ends or closes the pipe."""
    requests, results = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no result
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal interrupts both processes; the parent ends this one
    with suppress(EOFError):
        pickled, quiet = pickle.load(requests)
        show_logs(quiet)
        _answer_requests(TaskRunner(pickled).compute, requests, results)
    os._exit(0)


def _answer_requests(compute: Callable[[Any, bool], Any], requests: IO[bytes], results: IO[bytes]) -> None:
    """Compute tasks in threads and send their results, and the tokens of each call, until the requests end."""
    lock, pool = threading.Lock(), ThreadPoolExecutor(CONCURRENT_TASKS)

    def send(message: bytes) -> None:
        with lock:
            results.write(message)
            results.flush()

    def answer(number: int, task: Any, halved: bool) -> None:
        try:
            message = pickle.dumps((number, True, compute(task, halved)))
        except BaseException as e:  # without an answer the other process would wait for ever
            message = pickle.dumps((number, False, e if isinstance(e, Exception) else RuntimeError(repr(e))))
        send(message)

    forward_tokens(lambda tokens: send(pickle.dumps((None, True, tokens))))
    while True:
        pool.submit(answer, *pickle.load(requests))


def _is_portable(error: Exception) -> bool:
    """Return True if another process can read an exception; Ray takes the other ones for the end of the process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return False
    return True
