"""Start Ray on this machine, or connect to its cluster, once there are tasks for several devices."""

import importlib
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg import __version__
from pan_scdg.errors import UserError, escape_controls, need_packages

OBJECTS = 80 << 20
"""Bytes of Ray's object store on this machine, close to Ray's minimum: tasks and results are small."""
LONGEST = 40
"""Characters of the folder of Ray's files: its sockets lie 64 deeper, and the system allows 107."""
SHARED_MEMORY = Path("/dev/shm")
PACKAGES = ("numpy", "torch", "transformers")
SECONDS = 10
"""Seconds that a cluster may take to answer."""
LOOPBACK = "127.0.0.1"
ONLY_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Without this, Ray replaces 127.0.0.1 by the address of a network, and listens on all of them."""


class Node(NamedTuple):
    """A machine of the cluster that is alive."""

    node_id: str
    name: str
    gpus: int
    here: bool
    """This process runs on it."""


class Cluster:
    """Several devices, reached through Ray, which is started or connected when it is first needed.

    Args:
        address: "local": this machine; "auto": the cluster that this machine is part of; or its HOST:PORT. None: this
            machine, if it has several devices to use.
        actors: number of processes on each machine; None: one for each GPU, or one if the device is a CPU.
    """

    def __init__(self, address: str | None = None, actors: int | None = None) -> None:
        self.address, self.actors = address, actors
        self._open = ExitStack()
        self._ray: Any = None

    @property
    def is_local(self) -> bool:
        """Return True if only this machine computes."""
        return self.address in (None, "local")

    def list_devices(self, device: str) -> list[str]:
        """Return the device of each process on this machine: ``actors`` GPUs, or all of them, for "cuda".

        Raises:
            UserError: this machine has fewer GPUs.
        """
        if device != "cuda":
            return [device] * (self.actors or 1)
        count = _count_gpus()
        if self.is_local and self.actors is not None and self.actors > count:
            raise UserError(f"--workers is {self.actors}, but this machine has {count} GPUs", "lower --workers")
        used = min(self.actors or count, count)
        return [f"cuda:{number}" for number in range(used)] if used > 1 else [device]

    def name_devices(self, node: Node, device: str) -> list[str]:
        """Return a readable name for each process of a machine that is alive."""
        if self.is_local:
            return self.list_devices(device)
        count = (self.actors or 1) if device != "cuda" else min(self.actors or node.gpus, node.gpus)
        return [node.name if count == 1 else f"{node.name} {device}:{number}" for number in range(count)]

    def needs_ray(self, device: str) -> bool:
        """Return True unless one device in this process is all there is.

        Raises:
            UserError: Ray is needed and not installed.
        """
        needed = not self.is_local or len(self.list_devices(device)) > 1
        if needed:
            need_packages("cluster", "ray")
        return needed

    def count_threads(self) -> int:
        """Return the threads of each process on a CPU: together they take those that this process would."""
        import torch

        return max(1, torch.get_num_threads() // (self.actors or 1))

    def connect(self) -> Any:
        """Return the module ``ray``, started or connected.

        Raises:
            UserError: Ray is not installed, cannot be started, or the cluster does not exist.
        """
        if self._ray is None:
            need_packages("cluster", "ray")
            with ExitStack() as stack:
                self._ray = stack.enter_context(self._start())
                self._open = stack.pop_all()
        return self._ray

    def list_nodes(self) -> list[Node]:
        """Return the machines that are alive."""
        here = self._ray.get_runtime_context().get_node_id()
        return [
            Node(
                node["NodeID"],
                escape_controls(f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"),
                int(node["Resources"].get("GPU", 0)),
                node["NodeID"] == here,
            )
            for node in self._ray.nodes()
            if node["Alive"]
        ]

    def close(self) -> None:
        """Stop the Ray processes of this process, or leave the cluster."""
        self._ray = None
        self._open.close()

    @contextmanager
    def _start(self) -> Iterator[Any]:
        with ExitStack() as stack:
            if self.is_local:
                # all GPUs, since actors on CPUs may be the first, and Ray starts once
                options = _make_local_options(stack.enter_context(make_folder()), _count_gpus())
                where = "this machine"
                # other users of this machine reach its loopback, too
                token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
                stack.enter_context(_set_variables({**ONLY_LOOPBACK, **token}))
            else:
                options, where = {"address": self.address}, f"the cluster {self.address}"
                _check_address(self.address or "")
            stack.enter_context(_set_variables({"RAY_USAGE_STATS_ENABLED": "0"}))
            before = signal.getsignal(signal.SIGTERM)
            known = sys.modules.get("ray")
            ray = importlib.import_module("ray")
            if known is not None:
                _read_variables(ray)
            # What goes wrong is an exception, in one line; Ray prints much of it on standard output, too, and
            # has no option for that.
            logging.getLogger("ray").setLevel(logging.CRITICAL)
            ray._private.worker.listen_error_messages = lambda *_: None
            try:
                ray.init(log_to_driver=False, configure_logging=False, **options)
            except (ConnectionError, OSError, RuntimeError, ValueError, ray.exceptions.RayError) as e:
                ray.shutdown()
                reason = (str(e).strip().splitlines() or [type(e).__name__])[0]
                remedy = "give TMPDIR space" if self.is_local else "run this on one of its machines: see ray status"
                raise UserError(f"Ray cannot be used on {where}: {reason}", remedy) from e
            finally:
                _restore_handler(signal.SIGTERM, before)
            stack.callback(ray.shutdown)
            if self.is_local and (address := ray.util.get_node_ip_address()) != LOOPBACK:
                raise RuntimeError(f"Ray listens on {address}: it was imported before {__name__}")
            yield ray


def _check_address(address: str) -> None:
    """Raise UserError if nothing answers at HOST:PORT, for which Ray would wait for minutes."""
    host, _, port = address.rpartition(":")
    try:
        if host:
            socket.create_connection((host, int(port)), SECONDS).close()
    except (OSError, OverflowError) as e:
        raise UserError(f"no Ray cluster at {address}: {e}", "give HOST:PORT of ray start --head") from e


def _count_gpus() -> int:
    import torch

    return torch.cuda.device_count()


def _make_local_options(folder: Path, gpus: int) -> dict[str, Any]:
    """Return the arguments of ``ray.init`` for processes on this machine that only it can reach."""
    options = {"address": "local", "include_dashboard": False, "_node_ip_address": LOOPBACK, "_temp_dir": str(folder)}
    options |= {"num_cpus": 0, "num_gpus": gpus, "object_store_memory": OBJECTS}
    if not SHARED_MEMORY.is_dir() or shutil.disk_usage(SHARED_MEMORY).free < OBJECTS:  # a container has 64 MB
        options["_plasma_directory"] = str(folder)
    return options


def list_versions() -> dict[str, str]:
    """Return the versions of the packages that results depend on, by name."""
    return {"pan_scdg": __version__, **{name: version(name) for name in PACKAGES}}


def check_versions(expected: dict[str, str]) -> None:
    """Raise UserError if another machine has other versions than ``expected``, its own."""
    for name, found in list_versions().items():
        if found != expected[name]:
            raise UserError(f"{name} is {found} there and {expected[name]} here", "install the same version there")


@contextmanager
def make_folder() -> Iterator[Path]:
    """Create a folder for Ray's files in TMPDIR, or where its name is short enough, and remove it.

    Raises:
        UserError: the path does not exist.
    """
    places = (tempfile.gettempdir(), "/tmp", "/var/tmp", str(SHARED_MEMORY))
    for place in places:
        if len(place) + len("/scdg-12345678/r") <= LONGEST and os.access(place, os.W_OK | os.X_OK):
            break
    else:
        raise UserError(f"Ray needs a folder of at most {LONGEST} characters for its files", "set TMPDIR to one")
    folder = Path(tempfile.mkdtemp(prefix="scdg-", dir=place))
    try:
        yield folder / "r"  # which Ray opens to everybody
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _set_variables(variables: dict[str, str]) -> Iterator[None]:
    """Set variables that Ray and its processes read, until the body ends; those of the user take precedence."""
    unset = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(unset)
    try:
        yield
    finally:
        for name in unset:
            os.environ.pop(name, None)


def _read_variables(ray: Any) -> None:
    """Make Ray, which reads its variables when it is imported, read them as they are now."""
    constants = ray._private.ray_constants
    default = not constants.IS_WINDOWS_OR_OSX
    constants.ENABLE_RAY_CLUSTER = constants.env_bool(constants.ENABLE_RAY_CLUSTERS_ENV_VAR, default)
    ray._raylet.Config.initialize("")
    ray._raylet.AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def unwrap_signals() -> Iterator[None]:
    """Raise the exception of a signal's handler during a wait, which Ray turns into a SystemError."""
    try:
        yield
    except SystemError as e:
        if e.__cause__ is None:
            raise
        raise e.__cause__ from None


def _restore_handler(number: signal.Signals, handler: Any) -> None:
    """Restore the handler of a signal that Ray has replaced."""
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(number, handler)
