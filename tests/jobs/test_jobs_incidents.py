"""What may have moved last digits is told by every result that uses the numbers, whichever run computed them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.lm.engine import PackedEngine
from pan_scdg.store import Store

Run = Callable[..., Any]
SHORT = "memory was short: from here on at most 5 tokens a call"


@pytest.fixture
def memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call of each engine says that it had to compute in smaller calls."""
    real = PackedEngine.compute_log_probs

    def compute_log_probs(self: Any, items: Any) -> Any:
        if not self.splits:
            self.splits.append(5)
        return real(self, items)

    monkeypatch.setattr(PackedEngine, "compute_log_probs", compute_log_probs)


def told(output: Path) -> list[str]:
    found: list[str] = json.loads((output / ".pan_scdg.json").read_text(encoding="utf-8")).get("incidents", [])
    return found


def test_a_run_that_goes_on_tells_what_happened_before_it_was_stopped(
    source: Path, run: Run, memory_is_short: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        real, calls = Store.put, list[int]()

        def put(self: Store, items: Any) -> None:
            known = list(items)
            real(self, known)
            if any(b'"mean"' in value for _, value in known):
                calls.append(1)
            if calls:
                raise KeyboardInterrupt

        patch.setattr(Store, "put", put)
        assert run(source, tmp_path / "out").code == 3
    monkeypatch.undo()
    done = run(source, tmp_path / "out")
    assert done.code == 0
    assert told(tmp_path / "out") == [SHORT]
    assert f"warning: {SHORT}" in done.err


def test_a_state_remembers_and_a_clean_run_does_not_tell(
    source: Path, run: Run, memory_is_short: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    state = ("--state", tmp_path / "state")
    assert run(source, tmp_path / "first", *state).code == 0
    monkeypatch.undo()
    assert run(source, tmp_path / "second", *state).code == 0
    assert told(tmp_path / "first") == told(tmp_path / "second") == [SHORT]
    assert run(source, tmp_path / "clean").code == 0
    assert told(tmp_path / "clean") == []


def test_scores_that_are_computed_again_have_their_own_notes(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.put([("key", b"1"), *store.note("key", ["one", "two"])])
        store.put([("other", b"1"), *store.note("other", ["two", "three"])])
        assert store.read_notes(["key", "other", "none"]) == ["one", "two", "three"]
        store.put([("key", b"2"), *store.note("key", [])])
        assert store.read_notes(["key"]) == []
        assert store.note("none", []) == []
