"""A run that is interrupted at any step continues, and ends byte-identical; tests/faults kills processes."""

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.jobs import pipeline
from pan_scdg.results.folder import ScoreFile
from tests.interrupts import interrupt_at

Run = Callable[..., Any]
Visible = Callable[[Path], dict[str, bytes]]


def count_calls(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, work: Callable[[], Any]) -> int:
    with monkeypatch.context() as patch:
        calls = interrupt_at(patch, owner, name, 0, False)
        assert work().code == 0
    return len(calls)


def test_interrupted_at_every_rename_ends_byte_identical(
    pairs_input: Path,
    finished: Callable[[Path], Path],
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    visible: Visible,
) -> None:
    reference, output = visible(finished(pairs_input)), tmp_path / "out"
    total = count_calls(monkeypatch, os, "replace", lambda: run(pairs_input, tmp_path / "whole", "--keep-gains"))
    assert total >= len(reference) + 2, "the job, the plan of the publication, every result"
    for n, after in [*((n, False) for n in range(1, total + 1)), (total, True)]:
        with monkeypatch.context() as patch:
            interrupt_at(patch, os, "replace", n, after)
            assert run(pairs_input, output, "--keep-gains", "--overwrite").code == 3
        assert visible(output).items() <= reference.items(), "whatever has its final name is complete"
        assert run(pairs_input, output, "--keep-gains").code == 0
        assert visible(output) == reference


def test_run_that_appends_one_batch_at_a_time_ends_byte_identical(
    source: Path,
    finished: Callable[[Path], Path],
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    visible: Visible,
) -> None:
    monkeypatch.setattr(pipeline, "BATCH_CHARACTERS", 1)  # every pair is a batch
    output, whole = tmp_path / "out", tmp_path / "whole"
    total = count_calls(monkeypatch, ScoreFile, "append", lambda: run(source, whole, "--keep-gains"))
    assert total > 3
    for _ in range(total - 1):
        with monkeypatch.context() as patch:
            interrupt_at(patch, ScoreFile, "append", 2, False)
            assert run(source, output, "--keep-gains").code == 3
        assert visible(output) == {}
    assert run(source, output, "--keep-gains").code == 0
    assert visible(output) == visible(whole)


@pytest.mark.long
@pytest.mark.skipif(find_spec("ray") is None, reason="needs ray")
def test_a_stopped_run_continues_with_another_number_of_workers(
    source: Path,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    records: Callable[[Path], Any],
    profile_with: Callable[..., Path],
) -> None:
    monkeypatch.setattr(pipeline, "BATCH_CHARACTERS", 1)
    output, whole = tmp_path / "out", tmp_path / "whole"
    # the other processes would take the real encoder of the dense route
    lexical = profile_with({"retrieval.routes": ["bm25-sentence"], "retrieval.fusion": "none"})
    assert run(source, whole, profile=lexical).code == 0
    with monkeypatch.context() as patch:
        interrupt_at(patch, ScoreFile, "append", 2, False)
        assert run(source, output, profile=lexical).code == 3
    assert run(source, output, "--workers", "2", profile=lexical).code == 0
    is_retrieval = (whole / "run.txt.gz").exists()
    file, score = ("scores.jsonl.gz", "final") if is_retrieval else ("decisions.jsonl", "score")
    first, second = ([line[score] for line in records(folder / file)] for folder in (whole, output))
    assert len(first) > 2
    assert second == pytest.approx(first, abs=1e-5)
