"""Compute tasks on one device, or on several through Ray: a process for each, results in order."""

import os
import pickle
import re
import secrets
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from io import StringIO
from itertools import chain, islice
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar

from pan_scdg.commit import hash_code
from pan_scdg.errors import (
    DeviceError,
    Interrupted,
    LostDeviceError,
    UnusableDeviceError,
    UserError,
    escape_controls,
    get_first_line,
    need_packages,
)
from pan_scdg.jobs.processes import CONCURRENT_TASKS, ChildProcess, Process, TaskRunner
from pan_scdg.logs import say
from pan_scdg.models.devices import is_device_error
from pan_scdg.resources import count_cores
from pan_scdg.version import __version__

Part = TypeVar("Part")
Result = TypeVar("Result")

MAX_FAILURES = 3
"""Processes in which a task is tried on a device; the last one computes with half the tokens a call."""
MAX_RESTARTS = 3
"""Times that Ray repeats a task whose process ended."""
PREPARED_TASKS = 2
"""Tasks that are prepared before they are computed, in this process."""
RESULTS_PER_WORKER = 64
"""Tasks for each process that are unfinished, or finished and waiting for an earlier one."""
OBJECT_STORE_BYTES = 80 << 20
"""Close to Ray's minimum: tasks and results are small."""
MAX_FOLDER_LENGTH = 24
"""Characters (ASCII) of the parent of Ray's folder: its sockets have names of 80, and the system allows 107."""
SHARED_MEMORY = "/dev/shm"
"""Where Ray keeps results; a container may have it read-only."""
MIN_CORES = 2
"""With fewer, Ray's own processes do not start within the 30 s that Ray allows them."""
START_ATTEMPTS = 2
MAX_MESSAGE_LENGTH = 200
CONNECT_SECONDS = 10
WAIT_SECONDS = 1.0
START_SECONDS = 60
"""Seconds until a message says that a process has not started."""
PACKAGES = ("numpy", "torch", "transformers")
CODE_DIGITS = 12


@dataclass(frozen=True)
class Devices:
    """Device, number of processes and cluster that compute tasks."""

    device: str = "cpu"
    """"cpu" or "cuda"."""
    workers: int | None = None
    """Processes on each machine; None: one for each GPU, or one on CPUs."""
    address: str | None = None
    """Of a Ray cluster: "auto" (the one that this machine is part of) or HOST:PORT; None or "local": this machine."""

    @property
    def is_local(self) -> bool:
        """Return True if only this machine computes."""
        return self.address in (None, "local")

    def count_workers(self) -> int:
        """Return the number of processes on this machine.

        Raises:
            UserError: it has fewer GPUs.
        """
        if self.device == "cpu":
            return self.workers or 1
        gpus = _count_gpus()
        if self.is_local and (self.workers or 1) > max(gpus, 1):
            raise UserError(f"--workers is {self.workers}, but this machine has {gpus} GPUs", "lower --workers")
        return self.workers or max(gpus, 1)


@dataclass
class _Call:
    """A task that a process computes."""

    task: Any
    process: Process
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
        return len(calls) < RESULTS_PER_WORKER * self.count and unfinished < CONCURRENT_TASKS * self.count

    def _send(self, task: Any, calls: Iterable[_Call], failures: int = 0, process: Process | None = None) -> _Call:
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

    def _mend(self, process: Process, failures: int, error: Exception) -> None:
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
        if self._uses_ray:
            try:
                ray = self._stack.enter_context(_open_ray(self._devices))
                self._processes = [*_start_actors(ray, self._worker, self._devices)]
            except UserError as e:
                if not self._devices.is_local:
                    raise
                say([f"warning: {e.what}: computing on one device"])
                self._uses_ray = False
        if not self._processes and not self._computes_here:
            child = ChildProcess(self._devices.device, pickle.dumps(self._worker), _count_threads())
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


def open_same_models(kind: type[Any], arguments: tuple[Any, ...], models: dict[str, Any]) -> Any:
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


class _ActorProcess:
    """A `Process` that Ray started, perhaps on another machine; Ray starts one that ends by itself again.

    Args:
        ray: the module.
        name: of its machine.
        actor: Ray's handle.
    """

    def __init__(self, ray: Any, name: str, actor: Any) -> None:
        self._ray, self.name, self.actor, self.starts = ray, name, actor, 1

    def submit(self, task: Any, halved: bool) -> "Future[Any]":
        """See `Process`."""
        return self._translate(self.actor.compute.remote(task, halved))

    def restart(self) -> None:
        """See `Process`."""
        self.starts += 1
        self._ray.kill(self.actor, no_restart=False)

    def end(self) -> None:
        """See `Process`."""
        self._ray.kill(self.actor)

    def list_versions(self) -> "Future[dict[str, str]]":
        """Return the future versions of its packages."""
        return self._translate(self.actor.list_versions.remote())

    def _translate(self, call: Any) -> "Future[Any]":
        """Return the future result of a call, or the exception of the task as its process raised it."""
        result: Future[Any] = Future()

        def set_result(finished: "Future[Any]") -> None:
            error = finished.exception()
            if error is None:
                result.set_result(finished.result())
            else:
                result.set_exception(self._explain(error))

        call.future().add_done_callback(set_result)
        return result

    def _explain(self, error: BaseException) -> BaseException:
        if isinstance(error, self._ray.exceptions.RayTaskError):
            cause: BaseException = error.cause
            return cause
        if getattr(error, "actor_init_failed", False):  # the exception is the last line of its text
            what = f"a process cannot start: {escape_controls(str(error).strip().splitlines()[-1])}"
            return UserError(what, "install the same packages on all machines")
        return LostDeviceError(
            f"a process ended {MAX_RESTARTS + 1} times, or its machine was lost ({get_first_line(error)}); check "
            "whether memory was short (fewer workers need less)"
        )


class _Actor(TaskRunner):
    """The process of a device that Ray runs.

    Args:
        pickled: the worker.
        threads: of each product on a CPU.
    """

    def __init__(self, pickled: bytes, threads: int) -> None:
        os.environ["OMP_NUM_THREADS"] = str(threads)
        super().__init__(pickled)

    def list_versions(self) -> dict[str, str]:
        return list_versions()


def _start_actors(ray: Any, worker: Any, devices: Devices) -> list[_ActorProcess]:
    """Start a process for each device of a cluster, all of which must have the same packages.

    Raises:
        UserError: a machine has others, or none has a GPU.
    """
    pickled, processes = ray.cloudpickle.dumps(worker), list[_ActorProcess]()
    for node in [node for node in ray.nodes() if node["Alive"]]:
        if devices.device == "cpu":
            count = devices.workers or 1
        else:
            gpus = int(node["Resources"].get("GPU", 0))
            count = min(devices.workers or gpus, gpus)
        options = {
            "num_cpus": 0,
            "num_gpus": 0 if devices.device == "cpu" else 1,
            "max_restarts": -1,
            "max_task_retries": MAX_RESTARTS,
            "max_concurrency": CONCURRENT_TASKS,
            "scheduling_strategy": ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
                node["NodeID"], soft=False
            ),
        }
        name = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
        for _ in range(count):
            actor = ray.remote(_Actor).options(**options).remote(pickled, max(1, _count_threads() // count))
            processes.append(_ActorProcess(ray, name, actor))
    if not processes:
        raise UserError("no machine of the cluster has a GPU", "start Ray on a machine with a GPU, or use --device cpu")
    check_versions({process.name: process.list_versions() for process in processes})
    return processes


def check_versions(calls: "Mapping[str, Future[dict[str, str]]]") -> None:
    """Raise UserError if a machine has other versions of the packages that results depend on."""
    expected, deadline = list_versions(), time.monotonic() + START_SECONDS
    for name, call in calls.items():
        while not call.done():
            wait([call], WAIT_SECONDS)
            if time.monotonic() > deadline:
                say([f"waiting for a process on {name} to start; `ray status` shows who uses it"])
                deadline = float("inf")
        if isinstance(call.exception(), LostDeviceError):  # its tasks will go to the others
            continue
        for package, number in call.result().items():
            if number != expected[package]:
                what = f"{package} is {number} on {name} and {expected[package]} here"
                raise UserError(what, "install the same version there")


def list_versions() -> dict[str, str]:
    """Return the versions of the packages that results depend on, by name; of this one, also a hash of its code."""
    own = {"pan_scdg": __version__, "the code of pan_scdg": hash_code()[:CODE_DIGITS]}
    return own | {name: version(name) for name in PACKAGES}


def _count_gpus() -> int:
    import torch

    return torch.cuda.device_count()


def _count_threads() -> int:
    text = os.environ.get("OMP_NUM_THREADS", "")
    return int(text) if text.isdecimal() else count_cores()


@contextmanager
def _open_ray(devices: Devices) -> Iterator[Any]:
    """Yield the module ``ray``, started on this machine or connected to a cluster.

    Raises:
        UserError: Ray cannot be started, or the cluster does not exist.
    """
    with ExitStack() as stack:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if devices.is_local:
            check_machine()
            # only this machine reaches Ray, and of its users only those that have the token; Ray reads these once
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
            if "ray" not in sys.modules and os.environ.setdefault("RAY_AUTH_MODE", "token") == "token":
                os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        elif devices.address != "auto":
            _check_address(str(devices.address))
        stack.enter_context(redirect_stdout(_Messages()))
        import ray

        stack.callback(ray.shutdown)
        handler = signal.getsignal(signal.SIGTERM)
        try:
            for attempt in range(START_ATTEMPTS if devices.is_local else 1):
                try:
                    options = _list_options(devices, stack)
                    ray.init(log_to_driver=False, logging_level="critical", **options)
                    break
                except Exception as e:  # Ray has no common class of these errors
                    ray.shutdown()
                    if devices.is_local and attempt + 1 < START_ATTEMPTS:
                        continue
                    where = "on this machine" if devices.is_local else f"with the cluster {devices.address}"
                    what = f"Ray cannot be used {where}: {get_first_line(e).rstrip('.')}"
                    raise UserError(what, "run this on one of its machines: see ray status") from e
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, handler)  # Ray replaces it
        yield ray


def check_machine() -> None:
    """Raise UserError if Ray cannot start on this machine, which it would find out only after a minute."""
    what = None
    if not os.access(SHARED_MEMORY, os.W_OK):
        what = f"{SHARED_MEMORY} cannot be written"
    elif count_cores() < MIN_CORES:
        what = "this process has one core"
    if what is not None:
        raise UserError(f"Ray cannot be used on this machine: {what}", "compute on one device")


def _list_options(devices: Devices, stack: ExitStack) -> dict[str, Any]:
    """Return the options of ``ray.init``; the folder of a Ray on this machine is removed with the stack."""
    if not devices.is_local:
        return {"address": devices.address}
    folder = TemporaryDirectory(prefix="scdg-", dir=_choose_parent(), ignore_cleanup_errors=True)
    return {
        "address": "local",
        "include_dashboard": False,
        "_node_ip_address": "127.0.0.1",
        "num_cpus": 0,
        "num_gpus": 0 if devices.device == "cpu" else _count_gpus(),
        "object_store_memory": OBJECT_STORE_BYTES,
        # Ray opens its own folder to everybody, but not the one around it
        "_temp_dir": f"{stack.enter_context(folder)}/r",
    }


def _choose_parent() -> str:
    """Return the folder of temporary files, or /tmp if Ray's sockets cannot have it in their names."""
    parent = tempfile.gettempdir()
    return parent if parent.isascii() and len(parent) <= MAX_FOLDER_LENGTH else "/tmp"


class _Messages(StringIO):
    """Logs what Ray prints on standard output, such as that it repeats a task: the first line of each message."""

    def write(self, text: str) -> int:
        line = re.sub(r"\x1b\[\d*m", "", text).strip().partition("\n")[0]
        if line:
            say([f"Ray: {line[:MAX_MESSAGE_LENGTH]}"])
        return len(text)


def _check_address(address: str) -> None:
    """Raise UserError if nothing answers at HOST:PORT, for which Ray would wait for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError, ValueError) as e:
        raise UserError(f"no Ray cluster at {address}: {e}", "give HOST:PORT of ray start --head") from e
