"""A killed run, or one whose disk is full, loses nothing: see `tests/faults/disturb.py`."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

MOMENTS = int(os.environ.get("MOMENTS", "2"))
"""Of a kill, and sizes of a full disk, for each job; `make faults` has 20."""


def test_the_same_command_ends_a_disturbed_run(tmp_path: Path, tiny_folder: Callable[[str], Path]) -> None:
    script = Path(__file__).with_name("disturb.py")
    command = [sys.executable, str(script), str(tmp_path), str(tiny_folder("qwen2")), str(MOMENTS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == []
