"""``--shard auto``, ``merge --missing`` and the scripts of examples/slurm."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
SCRIPTS = Path(__file__).parents[2] / "examples" / "slurm"
ARRAY = ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_COUNT")


@pytest.fixture
def array(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``array(id, min, max, count)``: the variables of a job of a Slurm array."""

    def set_variables(*values: int) -> None:
        for name, value in zip(ARRAY, values, strict=True):
            monkeypatch.setenv(name, str(value))

    for name in ARRAY:
        monkeypatch.delenv(name, raising=False)
    return set_variables


def test_auto_is_the_shard_of_an_array_and_missing_ones_are_named(
    pairs_input: Path, run: Run, cli: Run, array: Callable[..., None], tmp_path: Path
) -> None:
    folders = [tmp_path / f"shard-{number}" for number in (1, 2, 3)]

    def list_missing() -> tuple[int, str, str]:
        done = cli("merge", "--missing", *folders)
        return done.code, done.out, done.err

    assert list_missing()[0] == 2
    array(2, 1, 3, 3)
    assert "shard 2/3 of" in run(pairs_input, folders[1], "--scores-only", "--shard", "auto").err
    assert list_missing() == (1, "1,3\n", "1 of 3 shards are finished\n")
    for number in (1, 3):  # submitted again: --array=1,3
        array(number, 1, 3, 2)
        assert run(pairs_input, folders[number - 1], "--scores-only", "--shard", "auto/3").code == 0
    assert list_missing() == (0, "", "3 of 3 shards are finished\n")
    other = run(pairs_input, folders[0], "--scores-only", "--shard", "1/2", "--overwrite")
    assert other.code == 0
    assert "merge the shards of one job" in list_missing()[2]


@pytest.mark.parametrize(
    ("values", "value", "says"),
    [
        ((), "auto", "auto needs SLURM_ARRAY_TASK_ID"),
        ((3, 3, 7, 2), "auto", "needs an array 1-N, and this one has 2 jobs from 3 to 7; for a part"),
        ((0, 0, 7, 8), "auto", "this one has 8 jobs from 0 to 7"),
        ((9, 1, 9, 9), "auto/8", "'auto/8' is not I/N"),
        ((1, 1, 2, 2), "auto/x", "'auto/x' is not I/N"),
    ],
)
def test_what_is_no_array_of_shards_is_refused(
    values: tuple[int, ...],
    value: str,
    says: str,
    pairs_input: Path,
    run: Run,
    array: Callable[..., None],
    tmp_path: Path,
) -> None:
    if values:
        array(*values)
    done = run(pairs_input, tmp_path / "out", "--shard", value)
    assert (done.code, says in done.err) == (2, True), done.err


def test_merge_needs_input_and_output_unless_it_lists(cli: Run, tmp_path: Path) -> None:
    assert "Missing option '--input'" in cli("merge", tmp_path).err


SKIP_OPTIONS = 'while [[ $1 == -* ]]; do shift; done; ${WAIT:+eval "$WAIT"}; "$@"; exit "${SRUN:-$?}"'
RAY = 'echo "ray $1 $2 $3 $4 $5 $6"; ${FAILS:+exit}; while [[ $1 != -- ]]; do shift; done; shift; exec "$@"'


@pytest.fixture
def cluster(tmp_path: Path) -> Callable[..., "subprocess.Popen[str]"]:
    """``cluster(script, body of pan-scdg, *arguments)``: the process of a script with stand-ins for the programs."""

    def start(script: str, body: str, *arguments: str) -> "subprocess.Popen[str]":
        programs = tmp_path / "bin"
        programs.mkdir(exist_ok=True)
        texts = {"pan-scdg": body, "scontrol": 'echo "scontrol $*"', "srun": SKIP_OPTIONS, "ray": RAY}
        for name, text in texts.items():
            (programs / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
            (programs / name).chmod(0o755)
        slurm = {"SLURM_ARRAY_JOB_ID": "77", "SLURM_ARRAY_TASK_ID": "2", "PATH": f"{programs}:{os.environ['PATH']}"}
        slurm |= {"SLURM_JOB_ID": "77", "SLURM_JOB_NUM_NODES": "4", "HEAD": "node1"}
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([SCRIPTS / script, *arguments], env={**os.environ, **slurm}, **pipes)

    return start


@pytest.mark.parametrize(("code", "queued"), [(0, ""), (2, ""), (3, "scontrol requeue 77_2\n")])
def test_a_stopped_shard_is_queued_again_and_no_other(code: int, queued: str, cluster: Any) -> None:
    process = cluster("shard.sh", f'echo "$*"; exit {code}', "out/run", "--input", "in", "--profile", "p")
    out, _ = process.communicate(timeout=300)
    assert out == f"run --input in --profile p --output out/run/shard-2 --shard auto\n{queued}"
    assert process.returncode == code


@pytest.mark.parametrize(
    "body",
    ["trap 'kill $!; sleep 0.3; exit 3' TERM; touch STARTED; sleep 60 & wait", "touch STARTED; exec sleep 60"],
    ids=["handled", "too early to be handled"],
)
def test_the_signal_before_the_time_limit_reaches_the_run(body: str, cluster: Any, tmp_path: Path) -> None:
    process = cluster("shard.sh", body.replace("STARTED", f"{tmp_path}/started"), "out")
    while not (tmp_path / "started").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=300)[0] == "scontrol requeue 77_2\n"
    assert process.returncode == 3


def test_merge_waits_for_missing_shards(cluster: Any) -> None:
    process = cluster("merge.sh", 'echo "called $*" >&2; echo 3,7; exit 1', "out/run", "--input", "in")
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (1, "")
    assert "called merge --missing out/run/shard-*" in err
    assert "sbatch --array=3,7 examples/slurm/shard.sh out/run" in err
    process = cluster("merge.sh", 'echo "called $*" >&2', "out/run", "--input", "in")
    assert "called merge --input in --output out/run/merged out/run/shard-*" in process.communicate(timeout=300)[1]


@pytest.mark.parametrize(("code", "queued", "node"), [(0, "", 1), (3, "scontrol requeue 77\n", 0)])
def test_a_run_on_several_nodes_is_queued_again_if_it_stopped(
    code: int, queued: str, node: int, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_PROCID", str(node))
    process = cluster("ray.sh", f'echo "$* ${{#RAY_AUTH_TOKEN}}"; exit {code}', "out", "--input", "in put")
    out, err = process.communicate(timeout=300)
    first = "--" if node else "--include-dashboard=false"
    began = f"ray symmetric-run --address node1:20077 --min-nodes 4 {first}\n"
    assert out == f"{began}run --input in put --output out --cluster auto 64\n{queued}", err
    assert process.returncode == code


def test_a_job_in_which_ray_does_not_start_fails(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("FAILS", "1")
    process = cluster("ray.sh", "echo ran", "out")
    out, err = process.communicate(timeout=300)
    assert (process.returncode, "ran" in out.split()) == (1, False)
    assert err.startswith("error: Ray did not start")


@pytest.mark.parametrize(("code", "queued"), [(0, ""), (2, ""), (3, "scontrol requeue 77\n")])
def test_the_code_of_a_lost_node_is_not_that_of_the_run(
    code: int, queued: str, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SRUN", "137")
    process = cluster("ray.sh", f"exit {code}", "out")
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out.partition("\n")[2], err) == (code, queued, "")


def test_a_signal_before_the_run_begins_queues_the_job_again(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAIT", f"touch {tmp_path}/started; exec sleep 60")
    process = cluster("ray.sh", "echo ran", "out")
    while not (tmp_path / "started").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=30) == ("scontrol requeue 77\n", "")
    assert process.returncode == 3


def test_a_run_that_the_signal_ends_before_it_can_store_is_queued_again(cluster: Any, tmp_path: Path) -> None:
    process = cluster("ray.sh", f"touch {tmp_path}/started; exec sleep 60", "out")
    while not (tmp_path / "started").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=30)[0].endswith("scontrol requeue 77\n")
    assert process.returncode == 3


def test_the_signal_before_the_time_limit_reaches_the_run_on_several_nodes(cluster: Any, tmp_path: Path) -> None:
    body = f"trap 'kill $!; sleep 0.3; exit 3' TERM; touch {tmp_path}/started; sleep 60 & wait"
    process = cluster("ray.sh", body, "out")
    while not (tmp_path / "started").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=300)[0].endswith("scontrol requeue 77\n")
    assert process.returncode == 3
