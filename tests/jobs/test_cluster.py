"""Workers on one device and on several: order, laziness, errors, processes that end, signals."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from pan_scdg.errors import Interrupted, UserError, UserErrors
from pan_scdg.jobs import cluster, processes
from pan_scdg.jobs.cluster import PREPARED_TASKS, RESULTS_PER_WORKER, Workers, open_workers
from pan_scdg.models import devices
from pan_scdg.models.devices import Devices
from pan_scdg.resources import count_cores

ROOT = Path(__file__).parents[2]
needs_ray = pytest.mark.skipif(
    find_spec("ray") is None or count_cores() < processes.MIN_CORES, reason="needs ray and two cores"
)
TWO = Devices("cpu", workers=2)
Task = tuple[Callable[..., Any], Any]


def call(task: Task) -> Any:
    """Call the function of a task."""
    return task[0](task[1])


class ByValue:
    """Pickles a function of this module, which another process cannot import, with its code."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, task: Task) -> Any:
        return self.function(task)

    def __reduce__(self) -> tuple[Any, ...]:
        from ray import cloudpickle

        cloudpickle.register_pickle_by_value(sys.modules[__name__])
        return cloudpickle.loads, (cloudpickle.dumps(self.function),)


def square(number: int) -> int:
    time.sleep(0.02 if number % 3 else 0)  # later tasks may end before earlier ones
    return number * number


def find_process(_: object) -> tuple[int, str | None]:
    time.sleep(0.05)
    return os.getpid(), os.environ.get("OMP_NUM_THREADS")


def die_once(counter: Path) -> str:
    return die(counter, times=1)


def die(counter: Path, times: int = 99) -> str:
    with counter.open("a+") as file:
        file.write("x")
    if counter.stat().st_size <= times:
        os._exit(1)
    return "computed"


def fail(number: int) -> None:
    errors = [UserError("a token\nis odd", "correct it", "there", line) for line in range(number)]
    raise UserErrors(errors) if number > 1 else errors[0] if errors else KeyError("of no use")


class DecodeError(Exception):
    """Cannot be made again from its arguments."""

    def __init__(self, what: str, place: int) -> None:
        super().__init__(what)


def fail_oddly(what: str) -> None:
    raise DecodeError(what, 1)


def sleep(started: Path) -> None:
    started.touch()
    time.sleep(60)
    started.with_name("ended").touch()


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers[Task, Any]]:
    """Two processes for all tests, since they take seconds to start; the temporary folder is not of ASCII."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("dïr")))
        with open_workers(ByValue(call), TWO) as both:
            list(both.map([(square, 1)]))
            patch.undo()
            yield both


def test_one_device_computes_in_this_process_without_ray() -> None:
    before = set(sys.modules)
    with open_workers(call, Devices("cpu")) as one:
        assert [pid for pid, _ in one.map([(find_process, 0)] * 3)] == [os.getpid()] * 3
    assert "ray" not in set(sys.modules) - before
    assert one.count == 1


def test_several_gpus_without_ray_compute_on_one_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(devices, "count_gpus", lambda: 4)
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    with open_workers(call, Devices("cuda")) as one:
        ((number, _),) = one.map([(find_process, 0)])
    assert number != os.getpid(), "this process does not use the GPU"
    assert "one of 4 GPUs" in capsys.readouterr().err


class Preparing:
    """Prepares numbers in one thread and squares them in another; fails at 40 and 50."""

    def __init__(self) -> None:
        self.threads: dict[str, set[str]] = {"prepare": set(), "compute": set()}

    def prepare(self, number: int) -> str:
        self.threads["prepare"].add(threading.current_thread().name)
        if number == 50:
            raise UserError("cannot be prepared", "leave it out")
        return str(number)

    def compute(self, text: str) -> int:
        self.threads["compute"].add(threading.current_thread().name)
        if text == "40":
            raise UserError("cannot be computed", "leave it out")
        return int(text) ** 2

    def __call__(self, number: int) -> int:
        return self.compute(self.prepare(number))


def test_the_next_tasks_are_prepared_in_another_thread() -> None:
    taken, worker = list[int](), Preparing()

    def take(numbers: Iterable[int]) -> Iterator[int]:
        for number in numbers:
            taken.append(number)
            yield number

    with open_workers(worker, Devices("cpu")) as one:
        assert list(one.map(take(range(30)))) == [n * n for n in range(30)]
        assert len(worker.threads["prepare"]) == 1
        assert worker.threads["prepare"].isdisjoint(worker.threads["compute"])
        for first, what in ((38, "computed"), (48, "prepared")):
            results = one.map(range(first, 60))
            assert [next(results), next(results)] == [first**2, (first + 1) ** 2]
            with pytest.raises(UserError, match=f"cannot be {what}"):
                next(results)
        taken.clear()
        results = one.map(take(range(10)))
        next(results)
        results.close()
        assert len(taken) <= 1 + PREPARED_TASKS
        assert list(one.map([])) == []


@pytest.mark.parametrize("worker", [square, Preparing()])
def test_no_task_begins_when_it_is_late(worker: Callable[[int], int]) -> None:
    done = list[int]()
    with open_workers(worker, Devices("cpu")) as one:
        for result in one.map(range(10), lambda: len(done) == 3):
            done.append(result)
    assert done == [0, 1, 4]


@needs_ray
def test_two_workers_give_the_results_of_one_in_order(workers: Workers[Task, Any]) -> None:
    assert list(workers.map([])) == []
    assert list(workers.map((square, n) for n in range(200))) == [n * n for n in range(200)]
    assert workers.count == 2
    counts = dict(workers.map((find_process, n) for n in range(20)))
    assert len(counts) == 2
    assert os.getpid() not in counts
    assert len(set(counts.values())) == 1


@pytest.mark.skipif(find_spec("ray") is None, reason="needs ray")
@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [("SHARED_MEMORY", "/not/there", "/not/there cannot be written"), ("MIN_CORES", 999, "this process has one core")],
)
def test_a_machine_on_which_ray_cannot_start_computes_in_this_process(
    name: str, value: object, reason: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processes, name, value)
    with open_workers(call, TWO) as workers:
        numbers = {process for process, _ in workers.map((find_process, n) for n in range(3))}
    assert numbers == {os.getpid()}
    (line,) = capsys.readouterr().err.splitlines()
    assert f"Ray cannot be used on this machine: {reason}" in line


@needs_ray
def test_tasks_are_taken_as_they_are_needed(workers: Workers[Task, Any]) -> None:
    taken = []
    results = workers.map((square, taken.append(n) or n) for n in range(1000))  # type: ignore[func-returns-value]
    assert taken == []
    assert next(results) == 0
    assert len(taken) <= 2 * RESULTS_PER_WORKER
    inner = workers.map([(square, 4)])
    assert (next(inner), next(results)) == (16, 1), "two maps at once"


@needs_ray
def test_errors_come_at_their_turn_as_they_were_raised(workers: Workers[Task, Any]) -> None:
    results = workers.map([(square, 5), (fail, 1), (fail, 2)])
    assert next(results) == 25
    with pytest.raises(UserError) as caught:
        next(results)
    assert type(caught.value) is UserError
    assert str(caught.value) == "there:0: a token\\nis odd. Correct it."
    with pytest.raises(UserErrors) as several:
        list(workers.map([(fail, 2)]))
    assert str(several.value).count("\n") == 1
    with pytest.raises(KeyError, match="of no use"):
        list(workers.map([(fail, 0)]))
    with pytest.raises(RuntimeError, match="DecodeError: odd"):
        list(workers.map([(fail_oddly, "odd")]))


@needs_ray
def test_the_task_of_a_process_that_dies_is_computed_again(workers: Workers[Task, Any], tmp_path: Path) -> None:
    tasks: list[Task] = [(square, 1), (die_once, tmp_path / "counter"), *((square, n) for n in range(2, 20))]
    assert list(workers.map(tasks)) == [1, "computed", *(n * n for n in range(2, 20))]
    assert (tmp_path / "counter").read_text() == "xx"


@needs_ray
@pytest.mark.parametrize("name", ["pan_scdg", "the code of pan_scdg", "torch"])
def test_other_versions_are_an_error(workers: Workers[Task, Any], monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert list(workers.map([(square, 2)])) == [4]
    other = {**processes.list_versions(), name: "9"}
    monkeypatch.setattr(processes, "list_versions", lambda: other)
    with pytest.raises(UserError, match=rf"{name} is .* on node2 and 9 here. Install the same"):
        processes.check_versions({"node2": workers._processes[0].list_versions()})  # type: ignore[attr-defined]


def list_ray_processes() -> list[str]:
    """Return the numbers of the processes that have this process's token."""
    numbers = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.environ["RAY_AUTH_TOKEN"].encode() in (folder / "environ").read_bytes():
                numbers.append(folder.name)
    return numbers


@needs_ray
@pytest.mark.skipif(which("ss") is None, reason="needs the command ss")
def test_only_this_machine_reaches_ray(workers: Workers[Task, Any]) -> None:
    import ray

    assert list(workers.map([(square, 2)])) == [4]
    assert {node["NodeManagerAddress"] for node in ray.nodes()} == {"127.0.0.1"}
    sockets = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    numbers = list_ray_processes()
    own = [line.split()[3] for line in sockets.splitlines() if any(f"pid={number}," in line for number in numbers)]
    assert len(own) > 2
    assert {address.rpartition(":")[0] for address in own} <= {"127.0.0.1", "[::ffff:127.0.0.1]"}


def test_a_task_that_ends_every_process_and_a_cluster_that_does_not_exist_are_one_line(tmp_path: Path) -> None:
    with (
        pytest.raises(UserError, match="no Ray cluster at 127.0.0.1:1: .*. Give HOST:PORT"),
        open_workers(call, Devices(address="127.0.0.1:1")) as none,
    ):
        list(none.map([(square, 1)]))


@needs_ray
@pytest.mark.long
@pytest.mark.parametrize(("number", "message"), [(signal.SIGTERM, ""), (signal.SIGINT, ""), (0, "4 times")])
def test_signals_and_a_task_that_ends_every_process_stop_the_run(number: int, message: str, tmp_path: Path) -> None:
    command = [sys.executable, __file__, str(tmp_path), "sleep" if number else "die"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        if number:
            while not (tmp_path / "started").exists():
                assert process.poll() is None
                time.sleep(0.1)
            process.send_signal(number)
        output, errors = process.communicate(timeout=300)
    assert (process.returncode, output) == (3, ""), errors
    assert message in errors.splitlines()[-1]
    assert not (tmp_path / "ended").exists(), "a run that is stopped does not wait for its tasks"


def run_tasks(folder: Path, task: str) -> int:
    """Compute a task that takes a minute, or ends its process, as the command line would."""

    def stop(*_: object) -> None:
        raise Interrupted("stopped")

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        with open_workers(call, TWO) as both:
            tasks: dict[str, Task] = {"die": (die, folder / "counter"), "sleep": (sleep, folder / "started")}
            list(both.map([tasks[task]]))
    except Interrupted as e:
        print(e, file=sys.stderr)
        return 3
    return 0


def test_processes_for_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "count_gpus", lambda: 4)
    assert [Devices("cpu", n).count_workers() for n in (None, 1, 3)] == [1, 1, 3]
    assert [Devices("cuda", n).count_workers() for n in (None, 1, 3)] == [4, 1, 3]
    assert (Devices("cuda", 8, "auto").is_local, Devices("cuda", 4, "local").is_local) == (False, True)
    with pytest.raises(UserError, match="--workers is 5, but this machine has 4 GPUs"):
        Devices("cuda", 5).count_workers()


if __name__ == "__main__":
    sys.exit(run_tasks(Path(sys.argv[1]), sys.argv[2]))
