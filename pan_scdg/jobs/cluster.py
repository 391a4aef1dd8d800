"""Compute tasks on one device, or on several: a process for each, results in order."""

import pickle
import socket
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pan_scdg.errors import (
    MAX_MESSAGE_LENGTH,
    DeviceError,
    Interrupted,
    LostDeviceError,
    UnusableDeviceError,
    UserError,
    escape_controls,
    get_first_line,
    need_packages,
)
from pan_scdg.logs import say
from pan_scdg.models.devices import Devices, is_device_error
from pan_scdg.records import Identities

if TYPE_CHECKING:
    from pan_scdg.jobs.processes import Process

Part = TypeVar("Part")
Result = TypeVar("Result")

MAX_FAILURES = 3
"""Processes in which a task is tried on a device; the last one computes with half the tokens a call."""
PREPARED_TASKS = 2
"""Tasks that are prepared before they are computed, in this process."""
RESULTS_PER_WORKER = 64
"""Tasks for each process that are unfinished, or finished and waiting for an earlier one."""
WAIT_SECONDS = 1.0


@dataclass
class _Call:
    """A task that a process computes."""

    task: Any
    process: "Process"
    future: "Future[Any]"
    starts: int
    """Starts of the process when the task was sent."""
    failures: int = 0
    """Times that the device failed at this task."""

    def find_failure(self, others: bool) -> Exception | None:
        """Return the error if the device failed; with others, one that cannot be used is none of the user's faults."""
        error = self.future.exception() if self.future.done() else None
        failed = isinstance(error, DeviceError) or (
            isinstance(error, UnusableDeviceError) and (self.failures > 0 or others)
        )
        return error if failed and isinstance(error, Exception) else None


class Workers(Generic[Part, Result]):
    """Computes tasks in this process, in a process of its own for a GPU, or in several; see `open_workers`.

    A device error ends the process that has it. Its task is repeated in a new process, then in another one with half
    the tokens a call. After that the device is lost, and its tasks go to the others.
    """

    def __init__(self, worker: Callable[[Part], Result], devices: Devices, uses_ray: bool, stack: ExitStack) -> None:
        self._worker, self._devices, self._stack = worker, devices, stack
        self._uses_ray, self._computes_here = uses_ray, devices.device == "cpu"
        self._processes: list[Process] = []
        self.incidents: list[str] = []
        """The devices that were lost."""

    @property
    def count(self) -> int:
        """Return the number of processes that compute."""
        return len(self._processes) or 1

    def map(self, tasks: Iterable[Part], is_late: Callable[[], bool] | None = None) -> Iterator[Result]:
        """Yield the result of each task, in the order of the tasks, which are taken as they are needed.

        Args:
            tasks: those of a worker that prepares are taken and prepared in a thread, `PREPARED_TASKS` ahead.
            is_late: returns True when no further task may begin; None: all tasks are computed. With it, results end
                early if all devices are lost, too.

        Raises:
            UserError: a task raised it, a process cannot start, or there is no such cluster.
            Interrupted: all devices are lost.
        """
        remaining = iter(tasks)
        first = [] if is_late is not None and is_late() else list(islice(remaining, 1))
        if not first:
            return
        if not self._processes and (self._uses_ray or not self._computes_here):
            self._open_processes()
        remaining, failures = chain(first, remaining), 0
        if not self._processes:
            remaining, failures = yield from self._compute_here(remaining, is_late)
        try:
            yield from self._compute_in_processes(remaining, is_late, failures)
        except LostDeviceError as e:
            if is_late is None:
                raise Interrupted(f"no device is left: {e}") from e
            say([f"warning: no device is left: {e}; the results are written with what is computed"])

    def _compute_here(
        self, tasks: Iterator[Part], is_late: Callable[[], bool] | None
    ) -> Generator[Result, None, tuple[Iterator[Part], int]]:
        """Yield results; return the tasks that are left after a device error, and the number of these errors."""
        worker: Any = self._worker
        taken = deque[Part]()

        def take() -> Iterator[Part]:
            for task in tasks:
                taken.append(task)
                yield task

        try:
            for result in compute_ahead(worker, take(), is_late):
                taken.popleft()
                yield result
        except Exception as e:
            if not is_device_error(e):
                raise
            say([f"warning: {get_first_line(e)}: trying again in another process"])
        else:
            return iter(()), 0
        self._computes_here = False
        self._open_processes()
        return chain(taken, tasks), 1

    def _compute_in_processes(
        self, remaining: Iterator[Part], is_late: Callable[[], bool] | None, failures: int
    ) -> Iterator[Result]:
        """Yield results; what has begun when it is late is finished.

        Args:
            remaining: the tasks.
            is_late: see `map`.
            failures: of a device at the first task.

        Raises:
            LostDeviceError: no device is left.
        """
        calls = deque[_Call]()
        while True:
            if is_late is None or not is_late():
                while self._can_take(calls) and (task := list(islice(remaining, 1))):
                    calls.append(self._send(task[0], calls, failures))
                    failures = 0
            if not calls:
                return
            if not calls[0].future.done():
                pending = [call.future for call in calls if not call.future.done()]
                wait(pending, WAIT_SECONDS, FIRST_COMPLETED)
            while calls and calls[0].future.done() and not calls[0].find_failure(len(self._processes) > 1):
                yield calls.popleft().future.result()
            self._repeat_failed(calls)

    def _can_take(self, calls: Sequence[_Call]) -> bool:
        unfinished = sum(not call.future.done() for call in calls)
        capacity = sum(process.capacity for process in self._processes)
        return len(calls) < RESULTS_PER_WORKER * self.count and unfinished < capacity

    def _send(self, task: Any, calls: Iterable[_Call], failures: int = 0, process: "Process | None" = None) -> _Call:
        """Give a task to a process, if none is named to the one that has the fewest."""
        if not self._processes:
            self._open_processes()
        if process is None:
            numbers = Counter(id(call.process) for call in calls if not call.future.done())
            process = min(self._processes, key=lambda one: numbers[id(one)])
        return _Call(task, process, process.submit(task, failures > 1), process.starts, failures)

    def _repeat_failed(self, calls: deque[_Call]) -> None:
        """Start the processes whose device failed again, and send them the tasks that they had.

        Raises:
            LostDeviceError: no device is left.
        """
        several = len(self._processes) > 1
        for call in calls:
            error = call.find_failure(several)
            if error is not None and call.process in self._processes and call.process.starts == call.starts:
                call.failures += 1
                self._mend(call.process, call.failures, error)
        for number, call in enumerate(calls):
            if call.find_failure(several):
                kept = call.process in self._processes
                failures, process = (call.failures, call.process) if kept else (0, None)
                calls[number] = self._send(call.task, calls, failures, process)

    def _mend(self, process: "Process", failures: int, error: Exception) -> None:
        """Start a process again, unless its device failed too often at a task; then it is lost."""
        what = f"{process.name}: {escape_controls(get_first_line(error)[:MAX_MESSAGE_LENGTH])}"
        if failures < MAX_FAILURES and not isinstance(error, LostDeviceError | UnusableDeviceError):
            half = " with half the tokens" if failures > 1 else ""
            say([f"warning: {what}: trying again in another process{half}"])
            process.restart()
            return
        self._processes.remove(process)
        process.end()
        self.incidents.append(f"lost {what}")
        if not self._processes:
            raise LostDeviceError(what) from error
        say([f"warning: {what}: computing on the other devices"])

    def _open_processes(self) -> None:
        """Start a process for each device; one alone if Ray cannot start them on this machine.

        Raises:
            UserError: there is no such cluster, or its machines have other packages.
        """
        from pan_scdg.jobs.processes import ChildProcess, open_ray, start_actors

        if self._uses_ray:
            try:
                ray = self._stack.enter_context(open_ray(self._devices))
                self._processes = [*start_actors(ray, self._worker, self._devices)]
            except UserError as e:
                if not self._devices.is_local:
                    raise
                say([f"warning: {e.what}: computing on one device"])
                self._uses_ray = False
        if not self._processes and not self._computes_here:
            child = ChildProcess(self._devices.device, pickle.dumps(self._worker))
            self._stack.callback(child.end)
            self._processes = [child]


@contextmanager
def open_workers(worker: Callable[[Part], Result], devices: Devices) -> Iterator[Workers[Part, Result]]:
    """Open what computes tasks; its processes start at the first task, and end with the context.

    Args:
        worker: computes a task. Each process has its own, which finds and loads the models there: it must be picklable.
            One with the methods ``prepare(task)``, which uses no device, and ``compute(prepared)`` prepares the next
            task while the device computes.
        devices: a single CPU computes in this process, which never uses a GPU.

    Raises:
        UserError: Ray is needed and not installed, or there are fewer GPUs than workers.
    """
    count = devices.count_workers() if devices.is_local else None
    if count is not None and count > 1 and devices.workers is None and find_spec("ray") is None:
        say([f"computing on one of {count} GPUs; to use all: pip install 'pan_scdg[cluster]'"])
        count = 1
    if count != 1:
        need_packages("cluster", "ray")
    with ExitStack() as stack:
        yield Workers(worker, devices, count != 1, stack)


def compute_ahead(worker: Any, tasks: Iterable[Any], is_late: Callable[[], bool] | None = None) -> Iterator[Any]:
    """Yield the results of tasks in this process; where the worker prepares, the next ones are prepared in a thread."""
    if not hasattr(worker, "prepare"):
        for task in tasks:
            if is_late is not None and is_late():
                return
            yield worker(task)
        return

    remaining = iter(tasks)

    def prepare_next() -> list[Any]:
        return [worker.prepare(task) for task in islice(remaining, 1)]

    with ThreadPoolExecutor(1) as thread:
        ahead = deque(thread.submit(prepare_next) for _ in range(PREPARED_TASKS))
        while (prepared := ahead.popleft().result()) and not (is_late is not None and is_late()):
            ahead.append(thread.submit(prepare_next))
            yield worker.compute(prepared[0])


def open_same_models(kind: type[Any], arguments: tuple[Any, ...], models: Identities) -> Any:
    """Return the worker of a job, opened in another process, perhaps on another machine.

    Args:
        kind: its class.
        arguments: of the class.
        models: what its method ``identify`` returned in the process that takes the results.

    Raises:
        UserError: the models here are others, or compute in another type.
    """
    opened = kind(*arguments)
    if different := sorted(name for name, one in opened.identify().items() if one != models[name]):
        what = f"{socket.gethostname()} has another {different[0].replace('_', ' ')}, or computes in another type"
        raise UserError(what, "install the same model on all machines")
    return opened
