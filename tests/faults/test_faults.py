"""A sample of `tests/faults/__main__.py`: the commands whose runs are quick, each disturbed once in each way."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
def test_disturbed_commands_lose_nothing() -> None:
    quick = ("run, pairs", "merge")
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent), "--only", *quick], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"| {name} | SIGKILL | 1 |" in done.stdout for name in quick)
