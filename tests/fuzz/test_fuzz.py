"""Every reader, fed with changed valid files: see `tests/fuzz/__main__.py`, which runs here in its short form."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FUZZ = Path(__file__).parent
LENIENT = {"clusters", "texts", "weights-known"}
"""Two read any text, and the last makes again what is damaged."""
FEW = 64
"""Inputs of which a target may refuse none; slow targets get fewer than others."""


def fuzz(folder: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, result by target, and what was told."""
    command = [sys.executable, str(FUZZ), "--json", str(folder / "result.json"), "--kept", str(folder / "kept")]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads((folder / "result.json").read_text()), done.stdout


def test_only_user_errors_leave_a_reader(tmp_path: Path, subtests: pytest.Subtests) -> None:
    code, results, told = fuzz(tmp_path, "--inputs", "96")
    for name, result in results.items():
        with subtests.test(name):
            assert not result["findings"], told
            assert result["read"]
            assert result["refused"] or name in LENIENT or result["inputs"] < FEW
            assert result["read"] + result["refused"] == result["inputs"]
    assert code == 0


def test_the_harness_finds_what_is_planted(tmp_path: Path) -> None:
    code, results, told = fuzz(
        tmp_path, "--planted", "--inputs", "64", "--case-seconds", "0.2", "--memory", str(1 << 29)
    )
    assert code == 1
    found = {name: list(result["findings"]) for name, result in results.items()}
    assert found == {
        "sound": [],
        "faulty": ["KeyError in ?"],
        "slow": ["process ended by SIGALRM"],
        "busy": ["process ended by SIGPROF"],
        "greedy": ["MemoryError in ?"],
        "dying": ["process ended by SIGABRT"],
        "unprintable": ["ValueError in ?"],
    }
    assert "planted.py" in told
    assert (tmp_path / "kept" / "slow" / "process-ended-by-SIGALRM" / "a.txt").is_file()
    assert "two" not in next((tmp_path / "kept" / "faulty").iterdir()).joinpath("a.txt").read_text()


def test_the_same_seed_gives_the_same_inputs(tmp_path: Path) -> None:
    runs = [fuzz(tmp_path, "--only", "qrels", "truth", "--inputs", "96", "--seed", "7")[1] for _ in range(2)]
    assert runs[0] == runs[1]
