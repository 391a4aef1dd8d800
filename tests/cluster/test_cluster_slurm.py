"""The script for a Slurm job of several nodes, with Ray itself: two network namespaces, and a stand-in for srun."""

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from network import RAY, Machine, make_network, may_use_namespaces

pytestmark = pytest.mark.long
if find_spec("ray") is None:
    pytest.skip("needs ray", allow_module_level=True)

ROOT = Path(__file__).parents[2]
SRUN = """#!/usr/bin/env bash
# Starts a command on both machines; `ray stop` sees the processes of its own only.
while [[ $1 == -* ]]; do shift; done
mine='mkdir -p /tmp/ray; mount -t tmpfs none /tmp/ray; exec "$@"'
apart=(unshare --pid --fork --mount-proc --kill-child bash -c "$mine" mine)
SLURM_PROCID=1 nsenter --net=/run/netns/$OTHER "${apart[@]}" "$@" >"$LOGS/other" 2>&1 &
SLURM_PROCID=0 "${apart[@]}" "$@" >"$LOGS/first" 2>&1
code=$?
wait
exit "$code"
"""


@pytest.fixture
def machines() -> Iterator[list[Machine]]:
    """Two machines that find their address as most do: by the route to everywhere."""
    if not may_use_namespaces():
        pytest.skip("needs network namespaces")
    with make_network(namespaces=True) as network:
        both = [network.add(), network.add()]
        for machine in both:
            assert machine.start("ip", "route", "add", "default", "dev", "eth0").wait() == 0
        yield both


def test_a_job_of_two_nodes_runs_to_its_end(machines: list[Machine], tmp_path: Path) -> None:
    programs = {"srun": SRUN, "pan-scdg": f'#!/bin/sh\nexec {sys.executable} {ROOT}/entrypoint.py "$@"\n'}
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    variables = {
        "PATH": f"{tmp_path}:{RAY.parent}:{os.environ['PATH']}",
        "LOGS": str(tmp_path),
        "OTHER": machines[1].name,
        "HEAD": machines[0].address,
        "SLURM_JOB_ID": "77",
        "SLURM_JOB_NUM_NODES": "2",
    }
    pairs = ("--input", ROOT / "examples/pan25-pairs/test", "--profile", "scdg-mini", "--device", "cpu", "--limit", "6")
    job = machines[0].start(ROOT / "examples/slurm/ray.sh", tmp_path / "out", *pairs, **variables)
    _, errors = job.communicate(timeout=600)
    logs = [(tmp_path / name).read_text() for name in ("first", "other")]
    assert job.returncode == 0, (errors, *logs)
    assert len((tmp_path / "out/decisions.jsonl").read_text().splitlines()) == 6
    assert "Ray runtime started" in logs[1]
