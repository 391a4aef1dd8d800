"""Runs on several machines, of which some die, are cut off, are slow or come late: the bytes of one process.

The machines are network namespaces with a Ray node each (`network.py`); what one computes reaches the others through
its cable only. Where namespaces are not allowed, or if MACHINES=addresses, they are loopback addresses.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))

from network import LOST_AFTER, PORT, Machine, Network, make_network, may_use_namespaces

pytestmark = pytest.mark.long
if find_spec("ray") is None:
    pytest.skip("needs ray", allow_module_level=True)

ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, ROOT / "entrypoint.py")
CHARACTERS = 3000
"""Kept of each text: enough that a run takes many times the five seconds between two versions of the status."""
SECONDS, POLL = 600, 1.5
"""Longest wait, and between two looks: `status` takes half a second of a core that the machines share."""


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with make_network(namespaces=os.environ.get("MACHINES") != "addresses" and may_use_namespaces()) as network:
        yield network


@pytest.fixture(scope="module")
def head(network: Network) -> Iterator[Machine]:
    """The machine with Ray's head, on which the commands run."""
    head = network.add()
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:  # sockets need short names
        head.start_ray(head, Path(folder), **LOST_AFTER)
        yield head
        head.leave()


@pytest.fixture
def add(network: Network, head: Machine) -> Iterator[Callable[[], Machine]]:
    """Returns a function that returns a new machine with a Ray node."""
    added = list[Machine]()

    def add() -> Machine:
        added.append(network.add())
        added[-1].start_ray(head, Path())
        return added[-1]

    yield add
    for machine in added:
        machine.leave()


class Job:
    """A run of the program on all machines, and what `status` has told of it."""

    def __init__(self, head: Machine, pairs: Path, output: Path) -> None:
        where = ("--cluster", f"{head.address}:{PORT}", "--device", "cpu")
        self._command = (*PROGRAM, "run", "--input", pairs, "--profile", "scdg-mini", "--output", output, *where)
        self._head, self._output = head, output
        self.seen: dict[str, Any] = {}
        self.start()

    def start(self) -> None:
        """Start it, or start it again."""
        self.process = self._head.start(*self._command)

    def look(self) -> dict[str, Any]:
        """Return what `status` tells now, and keep it."""
        told = subprocess.run([*PROGRAM, "status", self._output, "--json"], capture_output=True, text=True, check=False)
        if told.returncode == 0 and "batches" in (found := json.loads(told.stdout)):
            self.seen = found
        return self.seen

    def has_done(self, machine: Machine) -> int:
        """Return how many batches a machine has computed, as far as `status` told."""
        counts: dict[str, int] = self.seen.get("batches", {})
        return sum(count for name, count in counts.items() if f"({machine.address})" in name)

    def until(self, reached: Callable[[], bool]) -> None:
        """Wait until something is true of `seen`, while the run goes on."""
        for _ in range(int(SECONDS / POLL)):
            self.look()
            if reached():
                return
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(POLL)
        raise TimeoutError(self.seen)

    def finish(self) -> None:
        """Wait for the end."""
        while self.process.poll() is None:
            self.look()
            time.sleep(POLL)
        _, errors = self.process.communicate()
        assert self.process.returncode == 0, errors


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every source of the examples beside every document, so that each machine has many batches."""
    folder = tmp_path_factory.mktemp("pairs")
    examples = ROOT / "examples/pan25-pairs/test"
    for path in (*examples.glob("susp/*.txt"), *examples.glob("src/*.txt")):
        (folder / path.parent.name).mkdir(exist_ok=True)
        (folder / path.parent.name / path.name).write_text(path.read_text(encoding="utf-8")[:CHARACTERS], "utf-8")
    documents = [sorted(path.name for path in (examples / name).iterdir()) for name in ("susp", "src")]
    lines = [f"{susp} {src}\n" for susp, src in product(*documents)]
    (folder / "pairs").write_text("".join(lines))
    return folder


@pytest.fixture(scope="module")
def expected(pairs: Path, head: Machine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of one process."""
    output = tmp_path_factory.mktemp("one") / "out"
    run = head.start(*PROGRAM, "run", "--input", pairs, "--profile", "scdg-mini", "--output", output, "--device", "cpu")
    _, errors = run.communicate()
    assert run.returncode == 0, errors
    return read_files(output)


@pytest.fixture
def job(head: Machine, pairs: Path, tmp_path: Path) -> Iterator[Job]:
    job = Job(head, pairs, tmp_path / "out")
    yield job
    print(json.dumps(job.seen))  # for the record: pytest -s
    job.process.kill()


def read_files(output: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in output.iterdir() if path.is_file() and path.name[0] != "."}


def test_a_machine_dies_and_another_comes_late(
    job: Job, add: Callable[[], Machine], expected: dict[str, bytes], tmp_path: Path
) -> None:
    victim, other = add(), add()
    job.until(lambda: min(job.has_done(victim), job.has_done(other)) > 0)
    assert victim.signal(signal.SIGKILL)
    late = add()
    job.finish()
    assert read_files(tmp_path / "out") == expected
    assert (job.seen["nodes_lost"], job.seen["nodes"], job.seen["processes_ended"]) == (1, 3, 1)
    assert job.seen["batches_retried"] >= 1
    assert job.has_done(late) >= 1


def test_the_driver_is_killed_and_started_again(
    job: Job, add: Callable[[], Machine], expected: dict[str, bytes], tmp_path: Path
) -> None:
    machines = [add(), add()]
    job.until(lambda: min(map(job.has_done, machines)) > 0 and job.seen["done"] > 0)
    whole = job.seen["total"]
    job.process.kill()
    job.process.communicate()
    assert not (tmp_path / "out/decisions.jsonl").exists()
    job.start()
    job.finish()
    assert read_files(tmp_path / "out") == expected
    assert job.seen["total"] < whole, "what was stored is computed again"


def test_a_machine_is_cut_off_for_thirty_seconds(
    job: Job, add: Callable[[], Machine], expected: dict[str, bytes], tmp_path: Path
) -> None:
    machines = [add(), add()]
    job.until(lambda: min(map(job.has_done, machines)) > 0)
    machines[0].plug(on=False)
    timer = threading.Timer(30, machines[0].plug, kwargs={"on": True})
    timer.start()
    job.finish()
    timer.join()
    assert read_files(tmp_path / "out") == expected
    assert (job.seen["nodes_lost"], job.seen["nodes"]) == (1, 2)
    assert job.seen["batches_retried"] >= 1


def test_a_slow_machine_gets_less_to_do(
    job: Job, add: Callable[[], Machine], expected: dict[str, bytes], tmp_path: Path
) -> None:
    slow, other = add(), add()
    job.until(lambda: min(job.has_done(slow), job.has_done(other)) > 0)
    ends = threading.Event()

    def slow_down() -> None:
        while not ends.wait(0.1):
            slow.signal(signal.SIGSTOP, named="ray::")
            ends.wait(0.9)
            slow.signal(signal.SIGCONT, named="ray::")

    thread = threading.Thread(target=slow_down)
    thread.start()
    job.finish()
    ends.set()
    thread.join()
    assert read_files(tmp_path / "out") == expected
    assert 0 < job.has_done(slow) < job.has_done(other)
