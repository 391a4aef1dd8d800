"""The norm that a GPU computes by one kernel, compared with that of transformers and with float64."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pan_scdg.lm.logprobs import compute_target_log_probs
from pan_scdg.models.load import get_decoder_and_head, load_model
from pan_scdg.models.norms import NORMS, use_fused_norms
from pan_scdg.scdg.sequences import ScoringInput
from pan_scdg.settings import ModelSettings
from tests.tolerances import log_prob_tolerance

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.mark.parametrize("width", [128, 4096])
def test_one_kernel_rounds_no_worse_than_transformers(width: int) -> None:
    """Weights of .1 to 10, and some dimensions with values hundreds of times as large, as trained models have."""
    from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

    torch.manual_seed(0)
    norm = Qwen3RMSNorm(width, 1e-6).to(torch.bfloat16).requires_grad_(False)
    norm.weight.copy_(torch.exp(torch.randn(width) * 0.8))
    hidden = (torch.randn(256, width) * torch.exp(torch.randn(width))).to(torch.bfloat16)
    hidden[:, :3] *= 300
    wide = hidden.double()
    expected = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6) * norm.weight.double()

    def measure() -> tuple[float, float]:
        apart = (norm(hidden).double() - expected).abs() / expected.abs()
        return float(apart.max()), float(apart.mean())

    largest, mean = measure()
    use_fused_norms(norm)
    fused_largest, fused_mean = measure()
    assert fused_largest <= largest <= 2.0**-7, "two roundings to eight bits"
    assert fused_largest <= 2.0**-8, "one rounding"
    assert fused_mean < mean


@pytest.mark.parametrize("architecture", ["qwen3", "qwen2", "llama", "mistral3"])
def test_a_model_gives_the_same_numbers(architecture: str, tiny_folder: Callable[[str], Path]) -> None:
    lm = load_model(tiny_folder(architecture), ModelSettings(name="tiny", dtype="float32"), "cpu")
    norms = [layer for layer in get_decoder_and_head(lm.model)[0].modules() if type(layer).__name__.endswith("RMSNorm")]
    assert norms
    for norm in norms:
        assert type(norm).__name__ in NORMS
        norm.weight.copy_(torch.exp(torch.randn(norm.weight.shape)))
    item = ScoringInput(np.arange(1, 30), np.arange(20, 60))
    expected: Any = compute_target_log_probs(lm, item)
    use_fused_norms(lm.model)
    assert all("forward" in vars(norm) for norm in norms)
    log_probs = compute_target_log_probs(lm, item)
    np.testing.assert_allclose(log_probs, expected, atol=2 * log_prob_tolerance(lm.model, item.length))
