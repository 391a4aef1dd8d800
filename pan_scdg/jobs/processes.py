"""Processes that compute tasks, each on its own device; one whose device fails can be ended and started again.

That of a single device is a child of this process. Ray starts several, on this machine or on those of a cluster.
"""

import os
import pickle
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from importlib.metadata import version
from io import StringIO
from itertools import count
from tempfile import TemporaryDirectory
from typing import IO, Any, Protocol

from pan_scdg.commit import hash_code
from pan_scdg.errors import (
    MAX_MESSAGE_LENGTH,
    DeviceError,
    LostDeviceError,
    UserError,
    escape_controls,
    get_first_line,
)
from pan_scdg.logs import say, show_logs, shows_notes
from pan_scdg.models.devices import (
    Devices,
    are_calls_halved,
    count_gpus,
    halve_calls,
    is_device_error,
)
from pan_scdg.progress import count_tokens, forward_tokens
from pan_scdg.resources import count_cores
from pan_scdg.version import __version__

CONCURRENT_TASKS = 2
MAX_RESTARTS = 3
"""Times that Ray repeats a task whose process ended."""
OBJECT_STORE_BYTES = 80 << 20
"""Close to Ray's minimum: tasks and results are small."""
MAX_FOLDER_LENGTH = 24
"""Characters (ASCII) of the parent of Ray's folder: its sockets have names of 80, and the system allows 107."""
SHARED_MEMORY = "/dev/shm"
"""Where Ray keeps results; a container may have it read-only."""
MIN_CORES = 2
"""With fewer, Ray's own processes do not start within the 30 s that Ray allows them."""
START_ATTEMPTS = 2
CONNECT_SECONDS = 10
POLL_SECONDS = 1.0
START_SECONDS = 60
"""Seconds until a message says that a process has not started."""
PACKAGES = ("numpy", "torch", "transformers")
CODE_DIGITS = 12
END_SECONDS = 30
"""Time that the system has to end a process whose driver may hang."""
START = "import sys; sys.path[:] = {path!r}; from pan_scdg.jobs.processes import main; main()"


class Process(Protocol):
    """A process that computes tasks on its own device."""

    name: str
    starts: int
    """How often it was started."""
    capacity: int
    """Tasks that it has at a time: one is prepared while the other one is computed."""

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
    """

    capacity = CONCURRENT_TASKS

    def __init__(self, name: str, pickled: bytes) -> None:
        self.name, self.starts = name, 0
        self._pickled = pickled
        self._start()

    def _start(self) -> None:
        self.starts += 1
        environment = {**os.environ, "OMP_NUM_THREADS": str(_count_threads())}
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


class _ActorProcess:
    """A `Process` that Ray started, perhaps on another machine; Ray starts one that ends by itself again.

    Args:
        ray: the module.
        name: of its machine.
        actor: Ray's handle.
    """

    capacity = CONCURRENT_TASKS

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


def start_actors(ray: Any, worker: Any, devices: Devices) -> list[_ActorProcess]:
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
            wait([call], POLL_SECONDS)
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


def _count_threads() -> int:
    text = os.environ.get("OMP_NUM_THREADS", "")
    return int(text) if text.isdecimal() else count_cores()


@contextmanager
def open_ray(devices: Devices) -> Iterator[Any]:
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
        "num_gpus": 0 if devices.device == "cpu" else count_gpus(),
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
