"""A result belongs to the code that computed it: other code neither takes it for its own nor continues it."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pan_scdg import commit

CONSTANT = "BATCH_CHARACTERS = 50_000"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package, whose files are hashed as if they were read first."""
    copy = tmp_path / "copy" / "pan_scdg"
    shutil.copytree(commit.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "profiles", "report"))
    monkeypatch.setattr(commit, "PACKAGE", copy)
    monkeypatch.setattr(commit, "_hash_files", commit._hash_files.__wrapped__)
    return copy


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize("is_complete", [True, False])
def test_other_code_refuses_a_result_and_the_same_code_keeps_it(
    package: Path,
    pairs_input: Path,
    run: Callable[..., Any],
    tmp_path: Path,
    is_complete: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = tmp_path / "out"
    if is_complete:
        assert run(pairs_input, output).code == 0
        (package / "COMMIT").write_text("another commit, same files")
        again = run(pairs_input, output)
        assert (again.code, "already complete" in again.err) == (0, True)
    else:
        with monkeypatch.context() as stopped:
            stopped.setattr("pan_scdg.jobs.pairs.write_decisions", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            assert run(pairs_input, output).code == 3
    change(package / "jobs" / "pipeline.py", CONSTANT, "BATCH_CHARACTERS = 60_000")
    refused = run(pairs_input, output)
    kind = "a result" if is_complete else "an unfinished result"
    assert refused.code == 2
    assert f"contains {kind} from another run: different code. Choose another --output, or --overwrite" in refused.err
    assert run(pairs_input, output, "--overwrite").code == 0
    assert "already complete" in run(pairs_input, output).err


def test_the_hash_is_of_all_that_computes_and_of_the_file_of_an_own_method(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in commit.COMPUTING:
        assert (package / name).exists(), name
    module = ModuleType("own_method")
    module.__file__ = str(tmp_path / "own_method.py")
    monkeypatch.setitem(sys.modules, "own_method", module)
    own = type("OwnSettings", (), {"__module__": "own_method"})
    hashes = [commit.hash_code()]
    (tmp_path / "own_method.py").write_text("return 0.5")
    hashes.append(commit.hash_code(own))
    (tmp_path / "own_method.py").write_text("return 0.6")
    hashes.append(commit.hash_code(own))
    change(package / "text" / "languages.toml", "[", "# a comment\n[")
    hashes.append(commit.hash_code())
    assert len(set(hashes)) == len(hashes)
    (package / "cli" / "demo.py").unlink()
    assert commit.hash_code() == hashes[-1]
