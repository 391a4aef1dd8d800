"""``models verify``: what it prints of a checkpoint, and what it refuses."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pan_scdg.cli import exit_code_of
from pan_scdg.lm.fingerprint import METADATA, weights_fingerprint

PROFILE = Path(__file__).parent / "profiles" / "small.toml"


@pytest.fixture
def model(tiny_folder: Callable[[str], Path], tmp_path: Path) -> Path:
    """A checkpoint that a test may damage."""
    return Path(shutil.copytree(tiny_folder("qwen3"), tmp_path / "model"))


@pytest.fixture
def recorded(model: Path, tmp_path: Path) -> Path:
    """A profile with probes and with the fingerprint of every file of ``model``."""
    from pan_scdg.lm.models import load_tokenizer
    from pan_scdg.profile import ModelSettings

    tokenizer = load_tokenizer(model, ModelSettings(name="tiny", dtype="float32"))
    ids = tokenizer.encode("salt", add_special_tokens=False)
    files = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(model.iterdir())}
    tables = ["[model.probes]", f'"salt" = {ids}', "[model.fingerprint]"]
    tables += [f'"{name}" = "{digest}"' for name, digest in files.items()]
    text = PROFILE.read_text().replace("[pairs]", "\n".join([*tables, "", "[pairs]"]), 1)
    path = tmp_path / "recorded.toml"
    path.write_text(text)
    return path


def verify(profile: Path, model: Path, *more: str) -> int:
    return exit_code_of(["models", "verify", "--profile", str(profile), "--model", str(model), *more])


def test_a_checkpoint_that_fits(recorded: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(recorded, model) == 0
    shown = capsys.readouterr()
    facts = dict(re.split(r" +", line, maxsplit=1) for line in shown.out.splitlines() if not line.startswith("sha256"))
    assert facts["architecture"] == "Qwen3ForCausalLM"
    assert facts["positions"] == "2048"
    assert facts["inputs"] == "pairs.limit 512, retrieval.context 512"
    assert facts["tokenizer"].startswith("fast, ")
    assert facts["probes"] == "1 as expected"
    assert facts["recorded"] == f"{len(list(model.iterdir()))} files as recorded"
    assert facts["weights"] == weights_fingerprint(model)
    hashes = [line.split()[1:] for line in shown.out.splitlines() if line.startswith("sha256")]
    present = [name for name in METADATA if (model / name).exists()]
    assert hashes == [[hashlib.sha256((model / name).read_bytes()).hexdigest(), name] for name in present]
    assert len(present) == 3


def test_json_holds_the_same(recorded: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(recorded, model, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["model"], facts["positions"], facts["faults"]) == ("tiny", 2048, [])
    assert facts["metadata"]["config.json"] == hashlib.sha256((model / "config.json").read_bytes()).hexdigest()


def test_every_fault_is_a_line_that_names_its_file(
    recorded: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 256}))
    weights = (model / "model.safetensors").read_bytes()
    (model / "model.safetensors").write_bytes(weights[:-4])
    assert verify(recorded, model, "--json") == 2
    shown = capsys.readouterr()
    faults = shown.err.splitlines()
    assert faults == json.loads(shown.out)["faults"]
    expected = [
        f"{model / 'config.json'}: pairs.limit is 512 tokens",
        f"{model / 'model.safetensors'}: cannot be read as safetensors",
        f"{model / 'config.json'}: SHA-256 is",
        f"{model / 'model.safetensors'}: SHA-256 is",
    ]
    assert [fault[: len(start)] for fault, start in zip(faults, expected, strict=True)] == expected


def test_another_tokenizer_is_a_fault(recorded: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded.write_text(re.sub(r'"salt" = \[(\d+)', r'"salt" = [9, \1', recorded.read_text()))
    assert verify(recorded, model) == 2
    shown = capsys.readouterr()
    assert f"{model}: the tokenizer gives 'salt' the ids" in shown.err
    assert re.search(r"^probes +does not fit$", shown.out, re.M)


def test_what_cannot_be_looked_at_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(PROFILE, tmp_path / "none") == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert "does not exist" in shown.err


def test_a_profile_without_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["models", "verify", "--profile", "pan26-bm25-full"]) == 2
    assert "has no [model] table" in capsys.readouterr().err
