"""A run that is killed at any moment goes on from there and ends byte-identical."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.models.encoder import Encoder
from pan_scdg.retrieval import candidates
from pan_scdg.store import Store

ROOT = Path(__file__).parents[2]
SMALL = Path(__file__).parents[1] / "profiles" / "small.toml"
KILLS = 3
ATTEMPTS = 12

Run = Callable[..., Any]
Visible = Callable[[Path], dict[str, bytes]]


@pytest.fixture
def one_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load the encoder once, not in each of many runs in this process."""
    real, loaded = candidates.open_encoder, dict[str, Any]()

    def find(settings: Any, device: str) -> Any:
        if settings.model not in loaded:
            loaded[settings.model] = real(settings, device)
        return loaded[settings.model]

    monkeypatch.setattr(candidates, "open_encoder", find)
    monkeypatch.setattr(Encoder, "release", lambda _: None)


def start(source: Path, output: Path, model: Path, *more: str) -> subprocess.Popen[bytes]:
    paths = ["--input", source, "--output", output, "--profile", SMALL, "--model", model]
    command = [sys.executable, "entrypoint.py", "run", *map(str, paths), "--device", "cpu", "--keep-gains", *more]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=nowhere, stderr=nowhere)


def ended_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether the process ended by itself, successfully; otherwise it is killed."""
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()  # 0 if the run ended in the moment before the signal reached it
    assert code in {0, -signal.SIGKILL}
    return code == 0


def assert_nothing_incomplete(output: Path, reference: dict[str, bytes], visible: Visible) -> None:
    found = visible(output) if output.is_dir() else {}
    assert found.items() <= reference.items(), "whatever has its final name is complete"


def test_killed_at_random_moments_ends_byte_identical(
    source: Path, tiny_folder: Callable[[str], Path], tmp_path: Path, visible: Visible
) -> None:
    model, output = tiny_folder("qwen2"), tmp_path / "out"
    began = time.monotonic()
    assert start(source, tmp_path / "reference", model).wait() == 0
    duration = time.monotonic() - began
    reference = visible(tmp_path / "reference")
    moments, kills = random.Random(20260731), 0
    more: list[str] = []
    for _ in range(ATTEMPTS):
        if ended_within(start(source, output, model, *more), moments.uniform(0, duration)):
            assert visible(output) == reference
            more = ["--overwrite"]  # from the beginning, until it has been killed often enough
        else:
            kills += 1
            assert_nothing_incomplete(output, reference, visible)
        if kills == KILLS:
            break
    assert kills == KILLS
    assert start(source, output, model, *more).wait() == 0
    assert visible(output) == reference


def interrupt_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, n: int, after: bool) -> list[int]:
    """Let the ``n``-th call of ``owner.name`` end the run, before or after its effect; counts the calls."""
    calls: list[int] = []
    real = getattr(owner, name)

    def counted(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == n and not after:
            raise KeyboardInterrupt
        result = real(*arguments, **named)
        if len(calls) == n and after:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(owner, name, counted)
    return calls


def calls_of(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, work: Callable[[], Any]) -> int:
    with monkeypatch.context() as patch:
        calls = interrupt_at(patch, owner, name, 0, False)
        assert work().code == 0
    return len(calls)


def test_interrupted_at_every_rename_ends_byte_identical(
    source: Path,
    finished: Callable[[Path], Path],
    one_encoder: None,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    visible: Visible,
) -> None:
    reference, output = visible(finished(source)), tmp_path / "out"
    total = calls_of(monkeypatch, os, "replace", lambda: run(source, tmp_path / "whole", "--keep-gains"))
    assert total >= len(reference) + 3, "job, manifest, every result, mark"
    for n, after in [*((n, False) for n in range(1, total + 1)), (total, True)]:
        with monkeypatch.context() as patch:
            interrupt_at(patch, os, "replace", n, after)
            assert run(source, output, "--keep-gains", "--overwrite").code == 3
        assert_nothing_incomplete(output, reference, visible)
        assert run(source, output, "--keep-gains").code == 0
        assert visible(output) == reference


def test_run_that_stores_one_group_at_a_time_ends_byte_identical(
    source: Path,
    finished: Callable[[Path], Path],
    one_encoder: None,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    visible: Visible,
) -> None:
    output, attempts, code = tmp_path / "out", 0, 3
    total = calls_of(monkeypatch, Store, "put", lambda: run(source, tmp_path / "whole", "--keep-gains"))
    while code == 3 and attempts < total:
        assert not output.is_dir() or visible(output) == {}
        with monkeypatch.context() as patch:
            interrupt_at(patch, Store, "put", 2, False)
            code = run(source, output, "--keep-gains").code
        attempts += 1
    # each attempt goes one group further; two queries with one text share a group unless they are met in one attempt
    assert code == 0
    assert total - 1 <= attempts
    assert visible(output) == visible(finished(source))
