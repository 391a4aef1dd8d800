"""The script of a Slurm job, with stand-ins for Slurm, Ray and the command."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "slurm" / "ray.sh"
SRUN = 'while [[ $1 == -* ]]; do shift; done; ${WAIT:+eval "$WAIT"}; "$@"; exit "${SRUN:-$?}"'
RAY = 'echo "ray $1 $2 $3 $4 $5 $6"; ${FAILS:+exit}; while [[ $1 != -- ]]; do shift; done; shift; exec "$@"'
Start = Callable[..., "subprocess.Popen[str]"]
QUEUED = "scontrol requeue 77\n"


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """``start(body of pan-scdg, *arguments, variable=...)``: the process of the script."""

    def call(body: str, *arguments: str, **variables: str) -> "subprocess.Popen[str]":
        texts = {"pan-scdg": body, "scontrol": 'echo "scontrol $*"', "srun": SRUN, "ray": RAY}
        for name, text in texts.items():
            (tmp_path / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
            (tmp_path / name).chmod(0o755)
        job = {"SLURM_JOB_ID": "77", "SLURM_JOB_NUM_NODES": "4", "HEAD": "node1"}
        environment = {**os.environ, **job, "PATH": f"{tmp_path}:{os.environ['PATH']}", **variables}
        command, pipe = [str(SCRIPT), "out", *arguments], subprocess.PIPE
        return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)

    return call


@pytest.mark.parametrize(("node", "code", "queued"), [("0", 0, ""), ("0", 2, ""), ("0", 3, QUEUED), ("1", 0, "")])
def test_only_a_run_that_can_go_on_is_queued_again(node: str, code: int, queued: str, start: Start) -> None:
    process = start(f'echo "$* ${{#RAY_AUTH_TOKEN}}"; exit {code}', "--input", "in put", SLURM_PROCID=node)
    output, errors = process.communicate(timeout=300)
    first = "--include-dashboard=false" if node == "0" else "--"
    began = f"ray symmetric-run --address node1:20077 --min-nodes 4 {first}\n"
    assert output == f"{began}run --input in put --output out --cluster auto 64\n{queued}", errors
    assert process.returncode == code


@pytest.mark.parametrize(("code", "queued"), [(0, ""), (2, ""), (3, QUEUED)])
def test_the_code_of_a_lost_node_is_not_that_of_the_run(code: int, queued: str, start: Start) -> None:
    process = start(f"exit {code}", SRUN="137", SLURM_PROCID="0")
    output, errors = process.communicate(timeout=300)
    assert (process.returncode, output.partition("\n")[2], errors) == (code, queued, "")


def test_a_job_in_which_ray_does_not_start_fails(start: Start) -> None:
    process = start("echo ran", SLURM_PROCID="0", FAILS="1")
    output, errors = process.communicate(timeout=300)
    assert (process.returncode, "ran" in output.split()) == (1, False)
    assert errors.startswith("error: Ray did not start")


@pytest.mark.parametrize("moment", ["before the run", "at once", "after storing"])
def test_the_signal_before_the_time_limit_queues_the_job_again(moment: str, start: Start, tmp_path: Path) -> None:
    sleep = f"touch {tmp_path}/started; exec sleep 60"
    stores = f"trap 'kill $!; sleep 0.3; exit 3' TERM; touch {tmp_path}/started; sleep 60 & wait"
    variables = {"WAIT": sleep} if moment == "before the run" else {}
    process = start(stores if moment == "after storing" else sleep, SLURM_PROCID="0", **variables)
    while not (tmp_path / "started").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=300)
    assert output.endswith(QUEUED)
    assert process.returncode == 3
