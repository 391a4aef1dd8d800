"""Commands refuse models, locks and cached hashes that would run code, read other files or block forever."""

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pan_scdg.cli import run_command

PROFILE = Path(__file__).parents[1] / "profiles" / "small.toml"
TEXT = "The samples held salt. Nobody on the quay said a word about it, and the river forgot its bed.\n"


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    """End a test that blocks on a pipe."""

    def ring(*_: object) -> None:
        raise TimeoutError("a command hangs")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(300)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def edit(path: Path, **fields: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def put(path: Path, text: str) -> None:
    path.write_text(text)


@pytest.fixture
def model(tiny_folder: Callable[[str], Path], tmp_path: Path) -> Path:
    """Return a copy of a language model, for a test to change."""
    return Path(shutil.copytree(tiny_folder("qwen2"), tmp_path / "model"))


@pytest.fixture
def on_model(model: Path, tmp_path: Path) -> Callable[[str], int]:
    """Return a function that verifies the model or scores with it and returns the exit code."""
    files = [tmp_path / "s.txt", tmp_path / "r.txt"]
    for path in files:
        path.write_text(TEXT)

    def call(name: str) -> int:
        arguments = {"models verify": [], "score": [*map(str, files), "--device", "cpu"]}[name]
        return run_command([*name.split(), *arguments, "--profile", str(PROFILE), "--model", str(model)])

    return call


@pytest.mark.parametrize("name", ["models verify", "score"])
@pytest.mark.parametrize(
    "file", ["config.json", "tokenizer_config.json", "tokenizer.json", "model.safetensors", "generation_config.json"]
)
def test_a_pipe_in_the_place_of_a_models_file(
    file: str, name: str, model: Path, on_model: Callable[[str], int], capsys: pytest.CaptureFixture[str]
) -> None:
    (model / file).unlink()
    os.mkfifo(model / file)
    assert on_model(name) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "has no config.json" in said if file == "config.json" else f"{model / file}: not a regular file; " in said


@pytest.mark.parametrize("name", ["models verify", "score"])
@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"version": "1.0"}', b"\0\xff", b'{"model": {"type": "BPE", "vocab": {']
)
def test_a_damaged_tokenizer_is_called_so(
    damage: bytes, name: str, model: Path, on_model: Callable[[str], int], capsys: pytest.CaptureFixture[str]
) -> None:
    (model / "tokenizer.json").write_bytes(damage)
    assert on_model(name) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {model}/tokenizer.json: not a tokenizer: ")
    assert (said.count("\n"), "protobuf" in said) == (1, False)


@pytest.mark.parametrize(
    ("file", "fields"),
    [
        ("config.json", {"auto_map": {"AutoModelForCausalLM": "custom.Model"}}),
        ("config.json", {"vision_config": {"auto_map": {"AutoModel": "custom.Model"}}}),
        ("config.json", {"transformers_weights": "../outside.safetensors"}),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["custom.Tokenizer", None]}}),
        ("config.json", {"attn_implementation": "someone/kernel"}),
    ],
)
def test_a_language_model_that_asks_for_code_or_for_files_elsewhere(
    file: str,
    fields: dict[str, object],
    model: Path,
    on_model: Callable[[str], int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    edit(model / file, **fields)
    assert on_model("score") == 2
    assert capsys.readouterr().err.startswith(
        f"error: {model / file}: the checkpoint asks to run code of its own or to read"
    )


def test_weights_that_lie_outside_of_the_folder(
    model: Path, on_model: Callable[[str], int], capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(model / "model.safetensors", model.parent / "outside.safetensors")
    (model / "model.safetensors").rename(model / "part.safetensors")
    put(model / "model.safetensors.index.json", json.dumps({"weight_map": {"w": "../outside.safetensors"}}))
    assert on_model("score") == 2
    assert (
        "model.safetensors.index.json: names '../outside.safetensors', which is not a safetensors file"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'{"models": []}',
        b'{"models": {"m": {"repository": "r", "revision": "v", "files": {"../../x": "' + b"0" * 64 + b'"}}}}',
        b'{"models": {}, "more": 1}',
        None,
    ],
)
def test_a_hostile_lock(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PAN_SCDG_MODEL_CACHE", str(tmp_path))
    lock = tmp_path / "models.lock.json"
    os.mkfifo(lock) if content is None else lock.write_bytes(content)
    assert run_command(["models", "list"]) == 2
    said = capsys.readouterr().err
    assert (said.startswith(f"error: {lock}: "), said.count("\n")) == (True, 1)


def test_remembered_digests_that_are_a_pipe_or_a_link(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, state = tmp_path / "input", tmp_path / "state"
    for folder in (data / "susp", data / "src", state):
        folder.mkdir(parents=True)
    for path in (data / "susp" / "s.txt", data / "src" / "r.txt"):
        path.write_text(TEXT)
    put(data / "pairs", "s.txt r.txt\n")
    where = ["--input", data, "--output", tmp_path / "out", "--state", state, "--model", model, "--profile", PROFILE]
    arguments = ["run", *map(str, where), "--device", "cpu", "--no-metadata"]
    os.mkfifo(state / "weights.json")
    assert run_command(arguments) == 2
    assert capsys.readouterr().err.startswith(f"error: {state / 'weights.json'}: not a regular file; remove it")
    (state / "weights.json").unlink()
    put(tmp_path / "precious", "{}")
    (state / "weights.json").symlink_to(tmp_path / "precious")
    assert run_command(arguments) == 2
    assert (tmp_path / "precious").read_text() == "{}"
    (state / "weights.json").unlink()
    put(state / "weights.json", "[" * 100_000)  # nothing in it is needed
    assert run_command(arguments) == 0
