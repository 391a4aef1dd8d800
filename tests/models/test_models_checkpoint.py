"""Checks of a checkpoint folder before anything heavy is loaded."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.errors import UserError
from pan_scdg.models import devices
from pan_scdg.models.config import ModelConfig, check_library, read_config
from pan_scdg.models.devices import check_device, choose_dtype
from pan_scdg.models.fingerprint import check_recorded
from pan_scdg.models.load import load_model, load_tokenizer
from pan_scdg.models.weights import INDEX, check_weights
from pan_scdg.profile import ModelSettings

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

OLD = int(transformers.__version__.partition(".")[0]) < 5
SMALL = ModelSettings(name="tiny", dtype_without_bf16="float16")


@pytest.fixture
def copied(tiny_folder: Callable[[str], Path], tmp_path: Path) -> Path:
    """Return a Llama checkpoint that a test may damage."""
    return Path(shutil.copytree(tiny_folder("llama"), tmp_path / "model"))


@pytest.fixture
def shards(copied: Path) -> Path:
    """Return the same weights in two files with an index, as large checkpoints are published."""
    from safetensors.torch import load_file, save_file

    weights = load_file(copied / "model.safetensors")
    (copied / "model.safetensors").unlink()
    half = len(weights) // 2
    placed = {name: f"model-{1 + (i >= half)}.safetensors" for i, name in enumerate(weights)}
    for file in sorted(set(placed.values())):
        save_file({n: w for n, w in weights.items() if placed[n] == file}, copied / file, metadata={"format": "pt"})
    (copied / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": placed}))
    return copied


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_whole_checkpoints_are_counted_and_load(shards: Path, tiny_folder: Callable[[str], Path]) -> None:
    assert check_weights(tiny_folder("llama")) == 1
    assert check_weights(shards) == 2
    assert load_model(shards, ModelSettings(name="tiny", dtype="float32"), "cpu").positions == 2048


def test_a_missing_shard_is_named(shards: Path) -> None:
    (shards / "model-2.safetensors").unlink()
    with pytest.raises(UserError, match=r"model-2\.safetensors: the index names this file and it is missing"):
        check_weights(shards)


def test_a_shard_that_was_cut_off_is_named(shards: Path) -> None:
    path = shards / "model-1.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"model-1\.safetensors: cannot be read as safetensors"):
        check_weights(shards)


def test_a_shard_of_another_checkpoint_is_named(shards: Path) -> None:
    shutil.copy(shards / "model-2.safetensors", shards / "model-1.safetensors")
    with pytest.raises(UserError, match=r"model-1\.safetensors: lacks .+, which the index places here"):
        check_weights(shards)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("{}", "has no weight_map"),
        ('{"weight_map": ["x"]}', "has no weight_map"),
        ('{"weight_map": {"a": 5}}', "names no file for a"),
        ('{"weight_map": {"a": ["x"]}}', "names no file for a"),
        ('{"weight_map": {"a": "../b.safetensors"}}', "not a safetensors file in the same folder"),
        ('["x"]', "does not hold a JSON object"),
    ],
)
def test_a_damaged_index(shards: Path, content: str, what: str) -> None:
    (shards / INDEX).write_text(content)
    with pytest.raises(UserError, match=what):
        check_weights(shards)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", ["[" * 100_000, '{"a":' * 100_000])
def test_a_file_of_brackets_is_named(copied: Path, name: str, content: str) -> None:
    (copied / name).write_text(content)
    with pytest.raises(UserError, match=rf"{name.replace('.', '[.]')}: cannot be read as JSON"):
        read_config(copied)


@pytest.mark.parametrize("value", [["ministral3"], {"a": 1}, 5])
def test_a_model_type_that_is_no_name(copied: Path, value: Any) -> None:
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(config | {"model_type": value}))
    with pytest.raises(UserError, match=r"config\.json: model_type: Input should be a valid string"):
        read_config(copied)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("config.json", "rope_scaling", "x"),
        ("config.json", "quantization_config", 5),
        ("config.json", "text_config", ["x"]),
        ("config.json", "pad_token_id", 1.5),
        ("tokenizer_config.json", "added_tokens_decoder", ["x"]),
    ],
)
def test_fields_of_another_type_are_the_checkpoints_fault(copied: Path, name: str, field: str, value: Any) -> None:
    path = copied / name
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with pytest.raises(UserError, match=f"^{copied}.*(check|replace|complete|convert)"):
        load_model(copied, ModelSettings(name="tiny", dtype="float32"), "cpu")


def test_recorded_metadata_is_checked_with_every_tokenizer(copied: Path) -> None:
    recorded = {name: sha(copied / name) for name in ("config.json", "tokenizer.json")}
    settings = ModelSettings(name="tiny", dtype="float32", fingerprint=recorded)
    load_tokenizer(copied, settings)
    (copied / "tokenizer.json").write_text((copied / "tokenizer.json").read_text() + " ")
    with pytest.raises(UserError, match=rf"tokenizer\.json: SHA-256 is {sha(copied / 'tokenizer.json')}, but the pro"):
        load_tokenizer(copied, settings)
    (copied / "tokenizer.json").unlink()
    with pytest.raises(UserError, match="is missing, but the profile records it"):
        check_recorded(copied, settings)


def test_recorded_weights_are_read_only_when_asked_for(copied: Path) -> None:
    settings = ModelSettings(name="tiny", fingerprint={"model.safetensors": "0" * 64})
    check_recorded(copied, settings)
    with pytest.raises(UserError, match=r"model\.safetensors: SHA-256 is"):
        check_recorded(copied, settings, weights=True)


@pytest.mark.parametrize("name", ["../config.json", "", "a/b"])
def test_fingerprints_are_of_files_of_the_folder(name: str) -> None:
    with pytest.raises(ValueError, match="fingerprint"):
        ModelSettings(name="tiny", fingerprint={name: "0" * 64})


@pytest.mark.skipif(not OLD, reason="transformers 5 knows rope_parameters")
def test_a_config_that_transformers_5_wrote_is_refused_by_4(copied: Path) -> None:
    config = json.loads((copied / "config.json").read_text())
    config["rope_parameters"] = {"rope_theta": 1000000.0, "rope_type": "default"}
    with pytest.raises(UserError, match=r"config\.json: rope_parameters is a field of transformers 5"):
        check_library(ModelConfig(config, copied / "config.json"))
    with pytest.raises(UserError, match="rope_parameters"):
        check_library(ModelConfig({"text_config": config}))


@pytest.mark.parametrize(
    ("settings", "has_bf16", "dtype"),
    [
        (SMALL, True, "bfloat16"),
        (SMALL, False, "float16"),
        (ModelSettings(name="tiny"), False, "bfloat16"),
        (ModelSettings(name="tiny", dtype="float32"), False, "float32"),
    ],
)
def test_another_dtype_only_where_the_profile_permits_it(
    settings: ModelSettings, has_bf16: bool, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "can_compute", lambda dtype, _: dtype != "bfloat16" or has_bf16)
    found = choose_dtype(settings, "cpu")
    assert found.dtype == dtype
    assert (found == settings) == (settings.dtype == dtype)
    if found.dtype == "bfloat16" and not has_bf16:
        with pytest.raises(UserError, match="cpu cannot compute in bfloat16"):
            check_device(found, "cpu")
    else:
        check_device(found, "cpu")


def test_the_dtype_is_settled_once_and_never_behind_the_back(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading never changes the settings: without `choose_dtype` the result is an error, not another dtype."""
    monkeypatch.setattr(devices, "can_compute", lambda dtype, _: dtype != "bfloat16")
    with pytest.raises(UserError, match="cpu cannot compute in bfloat16"):
        load_model(copied, SMALL, "cpu")
    assert str(load_model(copied, choose_dtype(SMALL, "cpu"), "cpu").model.dtype) == "torch.float16"


def test_settling_on_a_device_that_is_not_there() -> None:
    with pytest.raises(UserError, match="the GPU cuda:99 was not found"):
        choose_dtype(SMALL, "cuda:99")


@pytest.mark.parametrize("fields", [{"dtype": "float32"}, {"attention": "flash_attention_2"}, {"attention": "varlen"}])
def test_a_replacement_for_bf16_must_make_sense(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="dtype_without_bf16"):
        ModelSettings(name="tiny", dtype_without_bf16="float16", **fields)
