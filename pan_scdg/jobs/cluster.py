"""Compute tasks on one device in this process, or on several through Ray: a process for each, results in order."""

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
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from io import StringIO
from itertools import islice
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar

from pan_scdg import __version__
from pan_scdg.errors import Interrupted, UserError, escape_controls, get_first_line, need_packages
from pan_scdg.logs import say
from pan_scdg.resources import count_cores

Task = TypeVar("Task")
Result = TypeVar("Result")

MAX_RESTARTS = 3
"""Times that Ray restarts the process of a device, and repeats the task that it had."""
TASKS_PER_WORKER = 2
"""Unfinished tasks of a worker: one that is computed, and the next."""
PREPARED_TASKS = 2
"""Tasks that are prepared before they are computed, in this process."""
RESULTS_PER_WORKER = 64
"""Tasks for each worker that are unfinished, or finished and waiting for an earlier one."""
OBJECT_STORE_BYTES = 80 << 20
"""Close to Ray's minimum: tasks and results are small."""
MAX_FOLDER_LENGTH = 24
"""Characters (ASCII) of the parent of Ray's folder: its sockets have names of 80, and the system allows 107."""
SHARED_MEMORY = "/dev/shm"
"""Where Ray keeps results; a container may have it read-only."""
MAX_MESSAGE_LENGTH = 200
CONNECT_SECONDS = 10
WAIT_SECONDS = 1.0
"""During a wait of Ray no handler of a signal can end the run."""
START_SECONDS = 60
"""Seconds until a message says that a process has not started."""
PACKAGES = ("numpy", "torch", "transformers")


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


class Workers(Generic[Task, Result]):
    """Computes tasks in this process."""

    def __init__(self, worker: Callable[[Task], Result]) -> None:
        self._worker = worker
        self.count = 1
        """Number of processes that compute."""

    def map(self, tasks: Iterable[Task], is_late: Callable[[], bool] | None = None) -> Iterator[Result]:
        """Yield the result of each task, in the order of the tasks, which are taken as they are needed.

        Args:
            tasks: those of a worker that prepares are taken and prepared in a thread, `PREPARED_TASKS` ahead.
            is_late: returns True when no further task may begin; None: all tasks are computed.

        Raises:
            UserError: a task raised it, a process cannot start, or there is no such cluster.
            Interrupted: a process ended again and again, or a machine is lost.
        """
        worker: Any = self._worker
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


@contextmanager
def open_workers(worker: Callable[[Task], Result], devices: Devices) -> Iterator[Workers[Task, Result]]:
    """Open what computes tasks; its processes start at the first task, and end with the context.

    Args:
        worker: computes a task. Each process has its own, which finds and loads the models there: it must be picklable.
            One with the methods ``prepare(task)``, which uses no device, and ``compute(prepared)`` prepares the next
            task while the device computes.
        devices: a single one computes in this process.

    Raises:
        UserError: Ray is needed and not installed, or there are fewer GPUs than workers.
    """
    count = devices.count_workers() if devices.is_local else None
    if count is not None and count > 1 and devices.workers is None and find_spec("ray") is None:
        say([f"computing on one of {count} GPUs; to use all: pip install 'pan_scdg[cluster]'"])
        count = 1
    if count == 1:
        yield Workers(worker)
        return
    need_packages("cluster", "ray")
    with ExitStack() as stack:
        yield _RayWorkers(worker, devices, stack)


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


class _Actor:
    """The process of a device.

    Args:
        pickled: the worker, which may import torch and look for models, and so is unpickled by the first task.
        threads: of each product on a CPU.
    """

    def __init__(self, pickled: bytes, threads: int) -> None:
        os.environ["OMP_NUM_THREADS"] = str(threads)
        self._pickled = pickled
        self._worker: Any = None
        self._preparing, self._computing = threading.Lock(), threading.Lock()

    def list_versions(self) -> dict[str, str]:
        return list_versions()

    def compute(self, task: Any) -> Any:
        """Return the result of a task; Ray has two threads, one of which prepares while the other computes."""
        try:
            with self._preparing:
                if self._worker is None:
                    self._worker = pickle.loads(self._pickled)
                prepares = hasattr(self._worker, "prepare")
                prepared = self._worker.prepare(task) if prepares else task
            with self._computing:
                return self._worker.compute(prepared) if prepares else self._worker(prepared)
        except Exception as e:
            if _is_portable(e):
                raise
            raise RuntimeError(f"{type(e).__name__}: {e}") from None


class _RayWorkers(Workers[Task, Result]):
    """Computes tasks in actors of Ray, which are on the devices of one or more machines."""

    def __init__(self, worker: Callable[[Task], Result], devices: Devices, stack: ExitStack) -> None:
        super().__init__(worker)
        self._devices, self._stack = devices, stack
        self._ray: Any = None
        self._actors: list[Any] = []

    def map(self, tasks: Iterable[Task], is_late: Callable[[], bool] | None = None) -> Iterator[Result]:
        """See `Workers`; what has begun when it is late is finished."""
        remaining, calls, unfinished = iter(tasks), deque[Any](), dict[Any, Any]()
        while True:
            if is_late is None or not is_late():
                self._submit(remaining, calls, unfinished)
            if not calls:
                return
            if calls[0] not in unfinished:
                yield self._get(calls.popleft())
                continue
            for call in self._wait(list(unfinished)):
                del unfinished[call]

    def _submit(self, remaining: Iterator[Task], calls: deque[Any], unfinished: dict[Any, Any]) -> None:
        """Give the next tasks to the actors that have the fewest, up to `TASKS_PER_WORKER`.

        Args:
            remaining: the tasks.
            calls: Ray's references of the results, in the order of the tasks; new ones are appended.
            unfinished: those that are not finished, with their actors; new ones are added.
        """
        while len(calls) < RESULTS_PER_WORKER * self.count and len(unfinished) < TASKS_PER_WORKER * self.count:
            try:
                task = next(remaining)
            except StopIteration:
                return
            if self._ray is None:
                self._start()
            numbers = Counter(unfinished.values())
            actor = min(self._actors, key=lambda actor: numbers[actor])
            calls.append(actor.compute.remote(task))
            unfinished[calls[-1]] = actor

    def _wait(self, calls: list[Any]) -> list[Any]:
        """Return the calls that are finished, at least one unless `WAIT_SECONDS` have passed."""
        with _unwrap_signals():
            finished, _ = self._ray.wait(calls, num_returns=1, timeout=WAIT_SECONDS, fetch_local=False)
        return list(finished)

    def _get(self, call: Any) -> Any:
        """Return the result of a call, or raise the exception of the task as its process raised it."""
        errors = self._ray.exceptions
        try:
            with _unwrap_signals():
                return self._ray.get(call)
        except errors.RayTaskError as e:
            raise e.cause from e
        except errors.RayError as e:
            if getattr(e, "actor_init_failed", False):  # the exception is the last line of its text
                what = f"a process cannot start: {escape_controls(str(e).strip().splitlines()[-1])}"
                raise UserError(what, "install the same packages on all machines") from e
            reason = escape_controls(get_first_line(e)[:MAX_MESSAGE_LENGTH])
            raise Interrupted(
                f"a process ended {MAX_RESTARTS + 1} times, or its machine was lost ({reason}); check whether memory "
                "was short (fewer workers need less)"
            ) from e

    def _start(self) -> None:
        """Start the actors, and check that all have the same packages."""
        self._ray = self._stack.enter_context(_open_ray(self._devices))
        pickled = self._ray.cloudpickle.dumps(self._worker)
        names = []
        for node in [node for node in self._ray.nodes() if node["Alive"]]:
            if self._devices.device == "cpu":
                count = self._devices.workers or 1
            else:
                gpus = int(node["Resources"].get("GPU", 0))
                count = min(self._devices.workers or gpus, gpus)
            options = {
                "num_cpus": 0,
                "num_gpus": 0 if self._devices.device == "cpu" else 1,
                "max_restarts": MAX_RESTARTS,
                "max_task_retries": MAX_RESTARTS,
                "max_concurrency": TASKS_PER_WORKER,
                "scheduling_strategy": self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
                    node["NodeID"], soft=False
                ),
            }
            for _ in range(count):
                actor_class = self._ray.remote(_Actor).options(**options)
                threads = max(1, _count_threads() // count)
                self._actors.append(actor_class.remote(pickled, threads))
                names.append(f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})")
        if not self._actors:
            raise UserError(
                "no machine of the cluster has a GPU", "start Ray on a machine with a GPU, or use --device cpu"
            )
        self.count = len(self._actors)
        self._check_versions(names)

    def _check_versions(self, names: list[str]) -> None:
        calls = [actor.list_versions.remote() for actor in self._actors]
        expected, deadline = list_versions(), time.monotonic() + START_SECONDS
        for name, call in zip(names, calls, strict=True):
            while not self._wait([call]):
                if time.monotonic() > deadline:
                    say([f"waiting for a process on {name} to start; `ray status` shows who uses it"])
                    deadline = float("inf")
            for package, number in self._get(call).items():
                if number != expected[package]:
                    what = f"{package} is {number} on {name} and {expected[package]} here"
                    raise UserError(what, "install the same version there")


def _is_portable(error: Exception) -> bool:
    """Return True if another process can read an exception; Ray takes the other ones for the end of the process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return False
    return True


def list_versions() -> dict[str, str]:
    """Return the versions of the packages that results depend on, by name."""
    return {"pan_scdg": __version__, **{name: version(name) for name in PACKAGES}}


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
        options: dict[str, Any] = {"address": devices.address}
        if devices.is_local:
            # only this machine reaches Ray, and of its users only those that have the token; Ray reads these once
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
            if "ray" not in sys.modules and os.environ.setdefault("RAY_AUTH_MODE", "token") == "token":
                os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
            options = {"address": "local", "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
            options |= {"num_cpus": 0, "num_gpus": 0 if devices.device == "cpu" else _count_gpus()}
            parent = _choose_parent()
            folder = TemporaryDirectory(prefix="scdg-", dir=parent, ignore_cleanup_errors=True)
            # Ray opens its own folder to everybody, but not the one around it
            options |= {"object_store_memory": OBJECT_STORE_BYTES, "_temp_dir": f"{stack.enter_context(folder)}/r"}
            if not os.access(SHARED_MEMORY, os.W_OK):
                options["_plasma_directory"] = folder.name
        elif devices.address != "auto":
            _check_address(str(devices.address))
        stack.enter_context(redirect_stdout(_Messages()))
        import ray

        stack.callback(ray.shutdown)
        handler = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(log_to_driver=False, logging_level="critical", **options)
        except Exception as e:  # Ray has no common class of these errors
            remedy = "compute on one device" if devices.is_local else "run this on one of its machines: see ray status"
            where = "on this machine" if devices.is_local else f"with the cluster {devices.address}"
            what = f"Ray cannot be used {where}: {get_first_line(e).rstrip('.')}"
            raise UserError(what, remedy) from e
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, handler)  # Ray replaces it
        yield ray


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


@contextmanager
def _unwrap_signals() -> Iterator[None]:
    """Raise the exception of a signal's handler during a wait, which Ray turns into a SystemError."""
    try:
        yield
    except SystemError as e:
        raise (e.__cause__ or e) from None
