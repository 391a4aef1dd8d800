"""Machines of a cluster on one: each in a network namespace of its own, joined by a bridge, which needs root.

Where that is not allowed, a machine is what listens on a loopback address of its own, and it is cut off by SIGSTOP.
"""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from marked import list_marked

RAY = Path(sys.executable).with_name("ray")
PORT = 6379
OBJECTS = 80 << 20
EVERYWHERE = {
    "OMP_NUM_THREADS": "1",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_raylet_start_wait_time_s": "300",  # half a minute is short on a busy machine
}
LOST_AFTER = {"RAY_health_check_period_ms": "1000", "RAY_health_check_timeout_ms": "2000"}
"""For Ray's head: a machine is lost after about ten seconds without an answer, not half a minute."""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def may_use_namespaces() -> bool:
    """Return True if network namespaces can be made and joined here."""
    name = f"scdg-try-{os.getpid()}"
    try:
        ip("netns", "add", name)
    except (OSError, subprocess.CalledProcessError):
        return False
    try:
        ip("-n", name, "link", "add", "bridge0", "type", "bridge")
    except subprocess.CalledProcessError:
        return False
    finally:
        ip("netns", "del", name)
    return True


class Machine:
    """A namespace with an address, its processes, and its cable."""

    def __init__(self, network: str, number: int) -> None:
        self.address, self.name, self._cable = f"10.77.0.{number}", f"{network}-{number}", f"cable{number}"
        ip("netns", "add", self.name)
        ip("-n", self.name, "link", "set", "lo", "up")
        ip("-n", network, "link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        ip("-n", network, "link", "set", self._cable, "master", "bridge0", "up")
        ip("-n", self.name, "address", "add", f"{self.address}/24", "dev", "eth0")
        ip("-n", self.name, "link", "set", "eth0", "up")
        self._network = network

    def start(self, *command: str | Path, **variables: str) -> subprocess.Popen[str]:
        """Start a command on this machine."""
        return self._start("ip", "netns", "exec", self.name, *command, **variables)

    def _start(self, *command: str | Path, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*map(str, command)],
            env={**os.environ, **EVERYWHERE, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def start_ray(self, head: "Machine", folder: Path, **variables: str) -> None:
        """Start Ray's processes of this machine, as `ray start` does on a real one, and wait for them."""
        where = ["--head", "--port", str(PORT), "--temp-dir", str(folder), "--include-dashboard=false"]
        if head is not self:
            where = ["--address", f"{head.address}:{PORT}"]
        limits = ["--num-cpus", "0", "--object-store-memory", str(OBJECTS)]
        ray = self.start(RAY, "start", "--node-ip-address", self.address, *limits, *where, **variables)
        output, errors = ray.communicate(timeout=120)
        assert ray.returncode == 0, output + errors

    def list_processes(self, named: str = "") -> list[int]:
        """Return the processes of this machine whose command line contains a text."""
        return [pid for pid in self._list_all() if named in _read_command(pid)]

    def _list_all(self) -> list[int]:
        found = subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, text=True, check=True)
        return [int(pid) for pid in found.stdout.split()]

    def signal(self, number: int, named: str = "") -> int:
        """Send a signal to the processes of this machine, and return how many there were."""
        pids = self.list_processes(named)
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        return len(pids)

    def plug(self, *, on: bool) -> None:
        """Put the cable in, or pull it."""
        ip("-n", self._network, "link", "set", self._cable, "up" if on else "down")

    def leave(self) -> None:
        """Stop Ray's processes of this machine in order, so that the head does not count it as lost later."""
        self.plug(on=True)
        self.signal(signal.SIGCONT)
        if self.signal(signal.SIGTERM, named="raylet"):
            for _ in range(100):
                if not self.list_processes("raylet/raylet"):
                    break
                time.sleep(0.1)
        self.signal(signal.SIGKILL)

    def remove(self) -> None:
        """End everything that runs here."""
        while self.signal(9):
            pass
        ip("netns", "del", self.name)


class Address(Machine):
    """A machine without a namespace: a loopback address, and the processes that have inherited its mark."""

    def __init__(self, network: str, number: int) -> None:
        self.address, self._mark = f"127.77.0.{number}", f"{network}-{number}."

    def start(self, *command: str | Path, **variables: str) -> subprocess.Popen[str]:
        """Start a command on this machine."""
        return self._start(*command, MARK=self._mark, RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="1", **variables)

    def _list_all(self) -> list[int]:
        return list_marked(f"MARK={self._mark}")

    def plug(self, *, on: bool) -> None:
        """Let all processes go on, or stop them."""
        self.signal(signal.SIGCONT if on else signal.SIGSTOP)

    def remove(self) -> None:
        """End everything that runs here."""
        while self.signal(9):
            pass


def _read_command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


class Network:
    """Machines that reach one another, and nothing else."""

    def __init__(self, name: str, kind: type[Machine]) -> None:
        self._name, self._kind = name, kind
        self._machines: list[Machine] = []

    def add(self) -> Machine:
        """Return a new machine."""
        self._machines.append(self._kind(self._name, len(self._machines) + 1))
        return self._machines[-1]

    def close(self) -> None:
        """Remove all machines."""
        for machine in self._machines:
            machine.remove()


@contextmanager
def make_network(*, namespaces: bool) -> Iterator[Network]:
    """Create a network without machines, and remove it with all that runs in it."""
    name = f"scdg{os.getpid()}"
    with join_machines(name) if namespaces else nullcontext():
        network = Network(name, Machine if namespaces else Address)
        try:
            yield network
        finally:
            network.close()


@contextmanager
def join_machines(name: str) -> Iterator[None]:
    """Create a namespace with a bridge, and remove it."""
    ip("netns", "add", name)
    try:
        ip("-n", name, "link", "add", "bridge0", "type", "bridge")
        ip("-n", name, "link", "set", "bridge0", "up")
        yield
    finally:
        ip("netns", "del", name)
