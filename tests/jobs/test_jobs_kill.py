"""A run that is interrupted at any step goes on from there and ends byte-identical; tests/faults kills processes."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.models.encoder import Encoder
from pan_scdg.retrieval import candidates
from pan_scdg.store import Store

Run = Callable[..., Any]
Visible = Callable[[Path], dict[str, bytes]]


@pytest.fixture
def one_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load the encoder once, not in each of many runs in this process."""
    real, loaded = candidates.load_encoder, dict[Path, Any]()

    def load(folder: Path, *settings: Any) -> Any:
        if folder not in loaded:
            loaded[folder] = real(folder, *settings)
        return loaded[folder]

    monkeypatch.setattr(candidates, "load_encoder", load)
    monkeypatch.setattr(Encoder, "release", lambda _: None)


def assert_nothing_incomplete(output: Path, reference: dict[str, bytes], visible: Visible) -> None:
    found = visible(output) if output.is_dir() else {}
    assert found.items() <= reference.items(), "whatever has its final name is complete"


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
    pairs_input: Path,
    finished: Callable[[Path], Path],
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    visible: Visible,
) -> None:
    reference, output = visible(finished(pairs_input)), tmp_path / "out"
    total = calls_of(monkeypatch, os, "replace", lambda: run(pairs_input, tmp_path / "whole", "--keep-gains"))
    assert total >= len(reference) + 3, "job, manifest, every result, mark"
    for n, after in [*((n, False) for n in range(1, total + 1)), (total, True)]:
        with monkeypatch.context() as patch:
            interrupt_at(patch, os, "replace", n, after)
            assert run(pairs_input, output, "--keep-gains", "--overwrite").code == 3
        assert_nothing_incomplete(output, reference, visible)
        assert run(pairs_input, output, "--keep-gains").code == 0
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
