"""Loading of checkpoints, intact and damaged."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.errors import UserError
from pan_scdg.models import devices
from pan_scdg.models import load as models
from pan_scdg.models.fingerprint import fingerprint_weights
from pan_scdg.models.load import load_model, load_tokenizer
from pan_scdg.profile import ModelSettings

torch = pytest.importorskip("torch")

FP32 = ModelSettings(name="tiny", dtype="float32")
EAGER = ModelSettings(name="tiny", dtype="float32", attention="eager")  # the only one of Gemma 2 in transformers 5


@pytest.fixture
def copied(tiny_folder: Callable[[str], Path], tmp_path: Path) -> Path:
    """Return a Qwen3 checkpoint that a test may damage."""
    return Path(shutil.copytree(tiny_folder("qwen3"), tmp_path / "model"))


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("architecture", ["qwen3", "qwen2", "llama", "mistral3"])
def test_a_loaded_model_is_frozen_and_known_by_its_fingerprint(
    tiny_folder: Callable[[str], Path], architecture: str
) -> None:
    lm = load_model(tiny_folder(architecture), FP32, "cpu")
    assert (lm.name, lm.device, lm.positions) == ("tiny", "cpu", 2048)
    assert lm.fingerprint == fingerprint_weights(tiny_folder(architecture))
    assert not lm.model.training
    assert not any(p.requires_grad for p in lm.model.parameters())
    assert lm.model.dtype == torch.float32


def test_mistral3_is_loaded_as_what_its_config_says(tiny_folder: Callable[[str], Path]) -> None:
    assert type(load_model(tiny_folder("mistral3"), FP32, "cpu").model).__name__ == "Mistral3ForConditionalGeneration"


def test_dtype_and_attention_are_those_of_the_profile(tiny_folder: Callable[[str], Path]) -> None:
    settings = ModelSettings(name="tiny", dtype="float16", attention="eager")
    model = load_model(tiny_folder("llama"), settings, "cpu").model
    assert model.dtype == torch.float16
    assert model.config._attn_implementation == "eager"


def test_tokenizer_alone_needs_no_weights_in_memory(tiny_folder: Callable[[str], Path]) -> None:
    tokenizer = load_tokenizer(tiny_folder("qwen3"), FP32)
    assert tokenizer.encode("salt", add_special_tokens=True)[0] == tokenizer.bos_token_id == 0
    assert load_tokenizer(tiny_folder("qwen3-no-bos"), FP32).bos_token_id is None


def test_long_texts_are_neither_cut_nor_warned_about(
    tiny_folder: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    tokenizer = load_tokenizer(tiny_folder("qwen3"), FP32)
    assert len(tokenizer.encode("\n" * 40_000, add_special_tokens=True)) == 40_001
    assert "sequence length" not in caplog.text


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="model folder does not exist"):
        load_model(tmp_path / "none", FP32, "cpu")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_missing_file(copied: Path, name: str) -> None:
    (copied / name).unlink()
    with pytest.raises(UserError, match=r"lacks this file|no weights in safetensors"):
        load_model(copied, FP32, "cpu")


def test_weights_in_another_format_are_not_read(copied: Path) -> None:
    (copied / "model.safetensors").rename(copied / "pytorch_model.bin")
    with pytest.raises(UserError, match="no weights in safetensors"):
        load_model(copied, FP32, "cpu")


@pytest.mark.parametrize("content", ["{", "[]", '"x"'])
def test_damaged_config(copied: Path, content: str) -> None:
    (copied / "config.json").write_text(content)
    with pytest.raises(UserError, match="JSON"):
        load_model(copied, FP32, "cpu")


def test_damaged_weights(copied: Path) -> None:
    (copied / "model.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(UserError, match="the model cannot be loaded"):
        load_model(copied, FP32, "cpu")


@pytest.mark.parametrize("step", ["_load_weights", "_check_logits"])
def test_too_little_memory_is_not_the_checkpoints_fault(
    copied: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*_: Any) -> Any:
        raise torch.AcceleratorError("CUDA error: out of memory\nCUDA kernel errors might be reported later")

    monkeypatch.setattr(models, step, short)
    with pytest.raises(UserError, match="model does not fit in the free memory of cpu; check whether another process"):
        load_model(copied, FP32, "cpu")


def test_incomplete_weights_are_not_made_up(copied: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(copied / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, copied / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"1 weights are missing, model\.norm\.weight first"):
        load_model(copied, FP32, "cpu")


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_code_of_the_checkpoint_is_refused(copied: Path, name: str) -> None:
    edit(copied / name, auto_map={"AutoModelForCausalLM": "evil.Model"})
    with pytest.raises(UserError, match="code of its own"):
        load_model(copied, FP32, "cpu")


def test_unknown_model_type(copied: Path) -> None:
    edit(copied / "config.json", model_type="never-heard-of", architectures=["NeverHeardOf"])
    with pytest.raises(UserError, match="cannot be loaded"):
        load_model(copied, FP32, "cpu")


def test_adapter_is_refused(copied: Path) -> None:
    (copied / "adapter_config.json").write_text("{}")
    with pytest.raises(UserError, match="adapter"):
        load_model(copied, FP32, "cpu")


def test_missing_kind_of_tokenizer_is_not_replaced_silently(copied: Path) -> None:
    slow = ModelSettings(name="tiny", dtype="float32", tokenizer="slow")
    with pytest.raises(UserError, match="slow tokenizer|tokenizer cannot be loaded"):
        load_model(copied, slow, "cpu")


def test_tokenizer_larger_than_the_model(copied: Path) -> None:
    tokenizer: Any = load_tokenizer(copied, FP32)
    tokenizer.add_tokens([f"<extra{i}>" for i in range(20)])
    tokenizer.save_pretrained(copied)
    with pytest.raises(UserError, match="files of one checkpoint"):
        load_model(copied, FP32, "cpu")


def test_soft_capped_logits_are_refused(tmp_path: Path, tiny_tokenizer: Callable[..., Any]) -> None:
    save_gemma(tmp_path, tiny_tokenizer(), final_logit_softcapping=30.0)
    with pytest.raises(UserError, match=r"altered after the output head \(final_logit_softcapping\)"):
        load_model(tmp_path, EAGER, "cpu")


def test_the_same_model_without_capping_is_accepted(tmp_path: Path, tiny_tokenizer: Callable[..., Any]) -> None:
    save_gemma(tmp_path, tiny_tokenizer(), final_logit_softcapping=None)
    assert load_model(tmp_path, EAGER, "cpu").positions == 512


def test_alteration_under_another_name_is_noticed(
    tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    plain = transformers.Qwen3ForCausalLM.forward

    def scaled(*args: Any, **kwargs: Any) -> Any:
        output = plain(*args, **kwargs)
        output.logits = output.logits * 0.5
        return output

    monkeypatch.setattr(transformers.Qwen3ForCausalLM, "forward", scaled)
    with pytest.raises(UserError, match=r"altered after the output head \(Qwen3ForCausalLM\)"):
        load_model(tiny_folder("qwen3"), FP32, "cpu")


def save_gemma(folder: Path, tokenizer: Any, final_logit_softcapping: float | None) -> None:
    import transformers

    sizes = {"vocab_size": 400, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "head_dim": 8}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 512}
    config = transformers.Gemma2Config(**sizes, **heads, final_logit_softcapping=final_logit_softcapping)
    transformers.Gemma2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_missing_gpu(copied: Path) -> None:
    with pytest.raises(UserError, match="no GPU was found"):
        load_model(copied, FP32, "cuda")


def test_gpu_number_beyond_the_last(copied: Path) -> None:
    with pytest.raises(UserError, match="the GPU cuda:99 was not found"):
        load_model(copied, FP32, "cuda:99")


def test_unknown_device(copied: Path) -> None:
    with pytest.raises(UserError, match="unknown device"):
        load_model(copied, FP32, "tpu")


def test_flash_attention_on_a_cpu(copied: Path) -> None:
    with pytest.raises(UserError, match=r"flash_attention_2 needs a GPU; set attention = \"sdpa\""):
        load_model(copied, ModelSettings(name="tiny", dtype="float16", attention="flash_attention_2"), "cpu")


@pytest.fixture
def _gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that computes in every type."""
    monkeypatch.setattr(devices, "check_device_exists", lambda _: None)
    monkeypatch.setattr(devices, "can_compute", lambda *_: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))


@pytest.mark.usefixtures("_gpu")
def test_flash_attention_without_its_package_or_in_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    settings = ModelSettings(name="tiny", attention="flash_attention_2")
    with pytest.raises(UserError, match="needs the package flash-attn"):
        devices.check_device(settings, "cuda")
    with pytest.raises(UserError, match="float32"):
        devices.check_device(settings.model_copy(update={"dtype": "float32"}), "cuda")
    devices.check_device(settings.model_copy(update={"attention": "varlen"}), "cuda")


@pytest.mark.usefixtures("_gpu")
@pytest.mark.parametrize("attention", ["flash_attention_2", "varlen"])
def test_flash_attention_on_a_gpu_that_is_too_old(attention: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Tesla T4")
    settings = ModelSettings.model_validate({"name": "tiny", "attention": attention, "dtype": "float16"})
    with pytest.raises(UserError, match=f'{attention} needs a GPU of the Ampere .* T4 .*; set attention = "sdpa"'):
        devices.check_device(settings, "cuda")


def test_bfloat16_where_torch_attends_in_other_types_only(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = torch.nn.functional.scaled_dot_product_attention

    def attend(query: torch.Tensor, *args: torch.Tensor) -> torch.Tensor:
        if query.dtype == torch.bfloat16:
            raise RuntimeError("pack_vnni2 is only supported when avx512 is supported")
        return real(query, *args)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", attend)
    with pytest.raises(UserError, match=r'cpu cannot compute in bfloat16; set dtype = "float32".*ATEN_CPU_CAPABILITY'):
        load_model(copied, ModelSettings(name="tiny", dtype="bfloat16"), "cpu")
    settings = ModelSettings(name="tiny", dtype="bfloat16", dtype_without_bf16="float32")
    assert devices.choose_dtype(settings, "cpu").dtype == "float32"


def test_dtype_that_the_device_cannot_do(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pan_scdg.models.devices.can_compute", lambda dtype, device: dtype != "float16")
    with pytest.raises(UserError, match="cpu cannot compute in float16"):
        load_model(copied, ModelSettings(name="tiny", dtype="float16"), "cpu")
