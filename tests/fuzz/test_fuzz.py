"""Every reader of foreign input, fed with a few changed files: `make fuzz` does the same for longer."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.__main__ import fuzz
from tests.fuzz.mutations import LINES
from tests.fuzz.targets import TARGETS, Target

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.fuzz", "--inputs", "96"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_only_user_errors_leave_a_reader(target: Target, results: dict[str, Any]) -> None:
    result = results[target.name]
    assert result["findings"] == {}
    assert result["read"]
    assert result["refused"] or not target.refuses
    assert result["read"] + result["refused"] == result["inputs"]


@pytest.mark.parametrize(("fault", "finding"), [(KeyError("x"), "KeyError in "), (None, "")])
def test_the_harness_finds_what_is_planted(fault: Exception | None, finding: str, tmp_path: Path) -> None:
    def read(folder: Path) -> None:
        path = folder / "a.txt"
        if fault is not None and path.is_file() and not path.is_symlink() and b"two" not in path.read_bytes():
            raise fault

    result = fuzz(Target("planted", read, {"a.txt": (LINES, "one two three\n")}), 64, 0, tmp_path / "kept")
    assert [where.startswith(finding) for where in result["findings"]] == ([True] if fault else [])
    assert (tmp_path / "kept" / "planted" / "1" / "a.txt").exists() == (fault is not None)
