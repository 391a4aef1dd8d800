"""Architectures with random weights for ``benchmarks.scoring``, and the arithmetic that scoring takes at least.

Speed depends on shapes and not on the values of weights, so a checkpoint's speed can be measured without it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pan_scdg.lm.packing import count_own_tokens, group_contexts
from pan_scdg.models.devices import check_device
from pan_scdg.models.load import LanguageModel, get_decoder_and_head
from pan_scdg.scdg.sequences import ScoringInput, Tokenizer

if TYPE_CHECKING:
    from pan_scdg.profile import ModelSettings

SHAPES: dict[str, dict[str, Any]] = {
    # the sizes that Qwen3-8B and Qwen3-0.6B are published with
    "qwen3-8b": {
        "num_hidden_layers": 36,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 12288,
        "vocab_size": 151936,
        "tie_word_embeddings": False,
    },
    "qwen3-0.6b": {
        "num_hidden_layers": 28,
        "hidden_size": 1024,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 3072,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
    },
    # small enough for tests
    "tiny": {
        "num_hidden_layers": 2,
        "hidden_size": 32,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size": 48,
        "vocab_size": 300,
        "tie_word_embeddings": True,
    },
}
POSITIONS, ROPE_THETA = 131072, 1e6
"""As the leaderboard's profile extends the positions, which are 32,768 as published."""
SPREAD = 0.02
"""Standard deviation of the random matrices; transformers' default, as published for Qwen3."""
PEAK_TFLOPS = {"H100": 989.0, "H200": 989.0, "A100": 312.0}
"""Dense 16-bit tensor arithmetic by NVIDIA's data sheets, for what a device's name contains."""


class Bytes:
    """A tokenizer whose ids are UTF-8 bytes; the last of 256 stands in front."""

    bos_token_id = 255
    eos_token_id: int | None = None
    pad_token_id: int | None = None

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """The bytes of ``text``, after the beginning-of-sequence token if asked for."""
        return [self.bos_token_id] * add_special_tokens + list(text.encode())

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these bytes."""
        return bytes(i for i in ids if i != self.bos_token_id).decode(errors="replace")


def shaped(shape: str, settings: "ModelSettings", device: str) -> LanguageModel:
    """A Qwen3 of that shape with random weights, made on the device in the settings' dtype.

    Raises:
        UserError: the device cannot do the settings' dtype or attention.
    """
    check_device(settings, device)
    attention = "sdpa" if settings.attention == "varlen" else settings.attention
    return random_model(shape, settings.dtype, device, attention)


def random_model(shape: str, dtype: str, device: str, attention: str = "sdpa") -> LanguageModel:
    """Return a frozen Qwen3 of that shape, its weights drawn on the device in ``dtype``.

    Rotary frequencies are computed, in float32 whatever ``dtype`` is, and norms are ones.
    """
    import torch
    import transformers

    # transformers' own functions have no types
    config_of: Any = transformers.Qwen3Config
    model_of: Any = transformers.AutoModelForCausalLM.from_config
    fixed = {"max_position_embeddings": POSITIONS, "rope_theta": ROPE_THETA, "initializer_range": SPREAD}
    config = config_of(**SHAPES[shape], **fixed, use_sliding_window=False)
    torch.manual_seed(0)
    with torch.device(device):
        model = model_of(config, dtype=getattr(torch, dtype), attn_implementation=attention)
    return LanguageModel(cast(Tokenizer, Bytes()), model.eval().requires_grad_(False), device, shape, "random")


def check_weights(lm: LanguageModel) -> None:
    """Raise ValueError unless every parameter of a `random_model` was drawn and its rotary frequencies are Qwen3's."""
    import torch

    for name, weight in lm.model.named_parameters():
        # A sample is enough: memory that was never written holds zeros, earlier values, or infinities.
        sample = weight.flatten()[:: max(1, weight.numel() >> 20)].float()
        drawn = bool((sample == 1).all()) if weight.ndim == 1 else 0.9 * SPREAD < float(sample.std()) < 1.1 * SPREAD
        if not drawn:
            raise ValueError(f"{name} was not initialised")
    width = lm.model.config.head_dim
    expected = ROPE_THETA ** -(torch.arange(0, width, 2, device=lm.device, dtype=torch.float64) / width)
    found = get_decoder_and_head(lm.model)[0].rotary_emb.inv_freq
    if found.dtype != torch.float32 or not torch.allclose(found.double(), expected, rtol=1e-5, atol=0):
        raise ValueError("the rotary frequencies are not those of Qwen3")


def flops(lm: LanguageModel, items: Sequence[ScoringInput], reuse: bool) -> int:
    """Floating-point operations that the inputs take at least, a multiplication with its addition being two.

    Every weight of a matrix once a token, every visible key twice (score and sum) for each head and layer, and the
    output head once a target.

    Args:
        lm: the model.
        items: what is scored together.
        reuse: a context that several have in common is computed once, and a last token, which predicts nothing, never.
    """
    text = lm.model.config.get_text_config()
    decoder, head = get_decoder_and_head(lm.model)
    embeddings = decoder.get_input_embeddings().weight.numel()
    weights = sum(p.numel() for p in decoder.parameters() if p.ndim == 2) - embeddings
    heads = text.num_attention_heads
    width = heads * (getattr(text, "head_dim", None) or text.hidden_size // heads)
    tokens, seen = _with_reuse(items) if reuse else _alone(items)
    targets = sum(len(item.target_ids) for item in items)
    attention = 4 * width * text.num_hidden_layers * seen
    return int(2 * weights * tokens + attention + 2 * head.weight.numel() * targets)


def _alone(items: Sequence[ScoringInput]) -> tuple[int, int]:
    """Tokens, and keys seen by all of them."""
    return sum(item.length for item in items), sum(_causal(item.length) for item in items)


def _with_reuse(items: Sequence[ScoringInput]) -> tuple[int, int]:
    tokens = seen = 0
    for part in group_contexts(items):
        own = np.array([count_own_tokens(items[member], part.prefix) for member in part.members], dtype=np.int64)
        tokens += part.prefix + int(own.sum())
        seen += _causal(part.prefix) + sum(part.prefix * n + _causal(n) for n in own.tolist())
    return tokens, seen


def _causal(tokens: int) -> int:
    return tokens * (tokens + 1) // 2


def peak_flops(device: str, given_tflops: float | None) -> float | None:
    """The most operations a second that a GPU does; None for a CPU.

    Raises:
        ValueError: the GPU is not known and no figure was given.
    """
    if device == "cpu":
        return None
    if given_tflops is not None:
        return given_tflops * 1e12
    import torch

    name = torch.cuda.get_device_name(device)
    for known, tflops in PEAK_TFLOPS.items():
        if known in name:
            return tflops * 1e12
    raise ValueError(f"the peak arithmetic of {name} is not known: give --peak-tflops")
