"""Every command of the README runs, in the order in which a reader types them, with one state for all."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pan_scdg.profile import load_profile

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- needs: [^\n]+ -->\n)?```sh\n(.*?)```", re.S)


def commands(marked: bool) -> list[str]:
    """The commands of the README's shell blocks that say (or do not say) that they need something."""
    blocks = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    return [line for needs, body in blocks if bool(needs) == marked for line in body.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like a clone, in which commands may write."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("entrypoint.py", "pan_scdg", "examples", "benchmarks", "model_cache"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def run(command: str, clone: Path) -> subprocess.CompletedProcess[str]:
    words = shlex.split(command, comments=True)
    assert words[0] == "python", f"a README command that no test runs: {command}"
    environment = {**os.environ, "PAN_SCDG_STATE": str(clone / "state"), "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, *words[1:]], cwd=clone, env=environment, capture_output=True, text=True, timeout=900
    )


@pytest.mark.parametrize("command", commands(marked=False))
def test_command_of_the_readme(command: str, clone: Path) -> None:
    done = run(command, clone)
    assert done.returncode == 0, done.stderr[-2000:]


def test_marked_commands_are_the_two_of_make_and_those_on_own_files() -> None:
    assert [c.split("  ")[0].split(" --")[0] for c in commands(marked=True)] == [
        "make demo",
        "make test",
        "python entrypoint.py prepare",
        "python entrypoint.py run",
        "python entrypoint.py models fetch terrier",
        "python entrypoint.py models fetch Qwen3-0.6B-Base",
        "docker build -t pan_scdg .",
        "docker run",
        "python entrypoint.py tira dry-run pan25-offline",
        "python entrypoint.py tira submit pan25-offline",
        "python -m benchmarks.development.build",
        "python -m benchmarks.development.calibration",
        "python entrypoint.py calibrate",
        "python -m benchmarks.offline_quality",
    ]


def test_calibrate_writes_a_profile_that_decides_and_knows_its_range(clone: Path) -> None:
    profile = load_profile(str(clone / "my-offline.toml"))
    pairs, offline = profile.need_pairs(), load_profile("offline").need_pairs()
    known = pairs.calibration
    assert (profile.name, pairs.aggregation, pairs.control) == ("my-offline", offline.aggregation, offline.control)
    assert known is not None
    assert known.range is not None
    assert known.digest != (offline.calibration and offline.calibration.digest)
    assert (known.pairs, known.positives, known.negative_pairs, len(known.negatives)) == (24, 12, 12, 12)
    # at most 5 % of 12 negatives is none
    assert pairs.threshold is not None
    assert pairs.threshold > max(known.negatives) - 1e-4


def test_demo_reports_both_jobs_and_explains_a_verdict(clone: Path) -> None:
    done = run("python entrypoint.py demo", clone)
    assert done.returncode == 0, done.stderr[-2000:]
    for word in ("pairs (test half)", "source retrieval", "nDCG@10", "run.txt.gz", "One verdict explained"):
        assert word in done.stdout
    files = re.findall(r": (demo-output/\S+)", done.stdout)
    assert len(files) == 3
    assert all((clone / f).exists() or "*" in f for f in files)
