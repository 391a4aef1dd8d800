"""Models whose packed rows would give other numbers are refused, whatever they are called."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pan_scdg.errors import UserError
from pan_scdg.lm import attention
from pan_scdg.lm import packing as packable
from pan_scdg.lm.engine import PackedEngine, ReferenceEngine
from pan_scdg.models.load import LanguageModel, load_model
from pan_scdg.scdg.sequences import ScoringInput
from pan_scdg.settings import ModelSettings
from tests.tolerances import skip_unless_computed

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SIZE = {
    "vocab_size": 60,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.3,
    "pad_token_id": 2,
}
JAMBA = {
    "use_mamba_kernels": False,
    "num_experts": 1,
    "mamba_dt_rank": 4,
    "attn_layer_offset": 1,
    "attn_layer_period": 2,
}
GEMMA = {"head_dim": 8, "layer_types": ["full_attention"] * 2, "max_position_embeddings": 99, "sliding_window": 99}
GEMMA |= {"attn_logit_softcapping": 0.1}


def loaded(folder: Path, dtype: str = "float32") -> LanguageModel:
    return load_model(folder, ModelSettings(name="tiny", dtype=dtype), "cpu")  # type: ignore[arg-type]


def packed(lm: LanguageModel) -> PackedEngine:
    return PackedEngine(lm, "sdpa", 100, 100)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("Jamba", JAMBA),  # recurrent layers, and an attention of its own
        ("DiffLlama", {}),  # an attention of its own
        ("StableLm", {}),  # with transformers 4 it does not hand arguments through
        ("Gemma2", GEMMA),  # caps scores
    ],
)
def test_a_model_gives_the_same_numbers_or_is_refused(name: str, changes: dict[str, Any]) -> None:
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SIZE | changes)
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    lm, rng = LanguageModel(None, model, "cpu", name, ""), np.random.default_rng(0)  # type: ignore[arg-type]
    items = [ScoringInput(rng.integers(60, size=9), rng.integers(60, size=9)) for _ in range(3)]
    try:
        found = packed(lm).compute_log_probs(items)
    except UserError as e:
        assert "cannot be packed. Use the engine reference" in str(e)  # noqa: PT017 - the other outcome is as good
        return
    for values, others in zip(found, ReferenceEngine(lm, 100).compute_log_probs(items), strict=True):
        assert np.abs(values - others).mean() <= packable.TOLERANCE["float32"]


def test_a_layer_that_carries_one_input_into_the_next_is_noticed(tiny_folder: Callable[[str], Path]) -> None:
    lm = loaded(tiny_folder("qwen3"))
    layer = lm.model.get_decoder().layers[1]
    layer.register_forward_hook(lambda _module, _given, out: out + 0.2 * out.cumsum(1))
    with pytest.raises(UserError, match=r"tiny differs by .* nats a token when packed and cannot be packed. Use the"):
        packed(lm)


def test_a_layer_that_attends_elsewhere_is_noticed(tiny_folder: Callable[[str], Path]) -> None:
    lm = loaded(tiny_folder("qwen3"))
    layer = lm.model.get_decoder().layers[1].self_attn
    layer.forward = lambda hidden_states, **_: (torch.zeros_like(hidden_states), None)
    with pytest.raises(UserError, match="tiny uses packed attention in 1 of its 2 layers and cannot be packed"):
        packed(lm)


def test_a_window_that_attention_is_not_told_is_noticed(
    tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pan_scdg.lm.engine.list_windows", lambda _: [None, 8])
    with pytest.raises(UserError, match="tiny does not tell its attention the sliding windows and cannot be packed"):
        packed(loaded(tiny_folder("qwen3")))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_kernel_that_returns_tokens_by_heads_is_noticed(
    tiny_folder: Callable[[str], Path], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As torch documents varlen_attn: only as many tokens as heads are then read wrong, too few for the numbers."""
    skip_unless_computed(dtype)
    lm, compute = loaded(tiny_folder("qwen3"), dtype), attention.attend_sdpa

    def attend(q: Any, *rest: Any) -> tuple[Any, Any]:
        out, tokens_by_heads = compute(q, *rest)
        return out, attention._transpose_lse(tokens_by_heads, q)

    monkeypatch.setitem(attention.BACKENDS, "sdpa", attend)
    lengths = packable.SHORT._replace(shared=(5, 7))
    monkeypatch.setattr(PackedEngine.check, "__defaults__", (lengths,))  # none of them as many as the four heads
    with pytest.raises(UserError, match="is given log-sum-exps in another order by attention 'sdpa'"):
        packed(lm)


@pytest.mark.parametrize("architecture", ["qwen3", "qwen2", "llama", "mistral3"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_what_can_be_packed_is_far_within_the_tolerance(
    tiny_folder: Callable[[str], Path], architecture: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_unless_computed(dtype)
    lm = loaded(tiny_folder(architecture), dtype)
    monkeypatch.setattr(packable, "TOLERANCE", {name: value / 5 for name, value in packable.TOLERANCE.items()})
    engine = packed(lm)
    assert (engine.tokens, engine.splits) == (0, [])
