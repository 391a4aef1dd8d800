"""A device that fails once, twice, or for good, in each stage of a run; its process ends, and the run goes on."""

import gzip
import json
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.errors import Interrupted, UserError
from pan_scdg.jobs import processes
from pan_scdg.jobs.cluster import open_workers
from pan_scdg.models.devices import Devices, is_device_error
from pan_scdg.results.folder import read_job
from tests.jobs.conftest import PAIRS
from tests.jobs.device_faults import ECC_ERROR, Failing, LosesADevice, break_stage, raise_it
from tests.jobs.test_cluster import ByValue
from tests.jobs.test_retrieval import run_rows

Run = Callable[..., Any]


@pytest.fixture
def counter(tmp_path: Path) -> Path:
    return tmp_path / "counter"


def read_tries(counter: Path) -> tuple[int, list[str]]:
    """Return the number of processes that tried the task, and which of them computed with half the tokens."""
    tries = [line.split() for line in counter.read_text(encoding="utf-8").splitlines()]
    return len({number for number, _ in tries}), [halved for _, halved in tries]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(("failures", "halved"), [(1, ["False"] * 2), (2, ["False", "False", "True"])])
def test_a_task_is_repeated_in_a_new_process_and_then_with_half_the_tokens(
    device: str, failures: int, halved: list[str], counter: Path
) -> None:
    with open_workers(Failing(counter, failures), Devices(device, workers=1)) as workers:
        results = list(workers.map(range(6)))
    assert [square for square, _, _ in results] == [n * n for n in range(6)]
    assert read_tries(counter) == (failures + 1, halved)
    assert (results[0][1] == os.getpid()) == (device == "cpu"), "only a CPU computes in this process"
    assert results[3][2] == (failures > 1)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_device_that_fails_in_three_processes_is_lost(device: str, counter: Path) -> None:
    with open_workers(Failing(counter, 3), Devices(device, workers=1)) as workers:
        results = workers.map(range(6))
        assert [next(results)[0] for _ in range(3)] == [0, 1, 4]
        with pytest.raises(Interrupted, match=f"no device is left: {device}: {ECC_ERROR}"):
            next(results)
    counter.unlink()
    with open_workers(Failing(counter, 3), Devices(device, workers=1)) as workers:
        assert [square for square, _, _ in workers.map(range(6), lambda: False)] == [0, 1, 4]
        assert [square for square, _, _ in workers.map(range(4, 6), lambda: False)] == [16, 25], "it is tried again"
        assert workers.incidents == [f"lost {device}: {ECC_ERROR}"]


def test_errors_of_a_child_process_come_as_they_were_raised(counter: Path) -> None:
    with open_workers(raise_it, Devices("cuda", workers=1)) as workers:
        with pytest.raises(UserError, match=r"here:3: wrong\. Correct it\."):
            list(workers.map([UserError("wrong", "correct it", "here", 3)]))
        assert list(workers.map([None])) == [None]


def test_errors_of_devices() -> None:
    for text in (
        ECC_ERROR,
        "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling cublasGemmEx",
        "CUDA error: unknown",
    ):
        assert is_device_error(RuntimeError(text))
    for error in (RuntimeError("CUDA error: out of memory"), RuntimeError("shapes differ"), ValueError(ECC_ERROR)):
        assert not is_device_error(error)


@pytest.mark.long
@pytest.mark.skipif(find_spec("ray") is None, reason="needs ray")
def test_the_tasks_of_a_lost_device_go_to_the_other_one(tmp_path: Path) -> None:
    with open_workers(ByValue(LosesADevice(tmp_path / "first")), Devices("cpu", workers=2)) as workers:  # type: ignore[arg-type]
        results = list(workers.map(range(12)))
        assert [square for square, _ in results] == [n * n for n in range(12)]
        assert len({name for _, name in results[1:]}) == 1
        assert (workers.count, len(workers.incidents)) == (1, 1)
        (tmp_path / "first").write_text(results[-1][1], encoding="utf-8")
        with pytest.raises(Interrupted, match="no device is left"):
            list(workers.map(range(2, 4)))


STAGES = {"encode": "retrieval", "search": "retrieval", "rerank": "retrieval", "score": "pairs", "passages": "pairs"}


IN_THE_GATE = ("encode", "score")
"""A stage of each task; the others are in `make test-long`."""


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.long] * (name not in IN_THE_GATE)) for name in STAGES])
def stage(request: pytest.FixtureRequest, real_encoder: None) -> str:
    return str(request.param)


@pytest.fixture
def inputs(retrieval_input: Path, pairs_input: Path) -> dict[str, Path]:
    return {"retrieval": retrieval_input, "pairs": pairs_input}


@pytest.fixture
def profile(profile_with: Callable[..., Path]) -> Path:
    """The small profile with passages, which are found by words."""
    return profile_with({"passages": {}})


@pytest.fixture
def broken(stage: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Break a stage in this process; the function also breaks it in all others."""
    break_stage(stage, monkeypatch.setattr)

    def break_others() -> None:
        start = "import sys; sys.path[:] = {path!r}; from tests.jobs.device_faults import break_stage; "
        monkeypatch.setattr(
            processes, "START", f"{start}break_stage('{stage}', setattr); {processes.START.partition('; ')[2]}"
        )

    return break_others


def test_a_run_survives_a_device_error_in_each_stage(
    stage: str, broken: Any, inputs: dict[str, Path], profile: Path, run: Run, tmp_path: Path
) -> None:
    task = STAGES[stage]
    ended = run(inputs[task], tmp_path / "out", profile=profile)
    assert ended.code == 0, ended.err
    assert f"warning: {ECC_ERROR}: trying again in another process" in ended.err
    check_result(task, tmp_path / "out")
    job = read_job(tmp_path / "out")
    assert job is not None
    assert not job.incidents


@pytest.mark.long
def test_a_stage_that_always_fails_leaves_a_valid_result_by_the_deadline_and_else_what_is_computed(
    stage: str, broken: Any, inputs: dict[str, Path], profile: Path, run: Run, tmp_path: Path
) -> None:
    broken()
    task = STAGES[stage]
    ended = run(inputs[task], tmp_path / "out", "--deadline", 24, profile=profile)
    assert ended.code == 0, ended.err
    check_result(task, tmp_path / "out")
    job = read_job(tmp_path / "out")
    assert job is not None
    assert job.incidents[-1] == f"lost cpu: {ECC_ERROR}"
    stopped = run(inputs[task], tmp_path / "stopped", profile=profile)
    assert stopped.code == 3
    last = stopped.err.splitlines()[-1]
    kept = f"; {len(PAIRS)} of {len(PAIRS)} pairs are kept" if stage == "passages" else ""
    assert last == f"stopped: no device is left: cpu: {ECC_ERROR}{kept}; run the same command again to continue."


def check_result(task: str, folder: Path) -> None:
    """Check that a result has all queries or pairs."""
    if task == "pairs":
        assert len(list(folder.glob("*.xml"))) == len(PAIRS)
        lines = (folder / "decisions.jsonl").read_text(encoding="utf-8").splitlines()
        assert len([json.loads(line)["decision"] for line in lines]) == len(PAIRS)
    else:
        assert {row[0] for row in run_rows(folder)} == {"q01", "q02", "q03", "again"}
        with gzip.open(folder / "scores.jsonl.gz", "rt") as file:
            assert len(list(file)) == len(run_rows(folder))
