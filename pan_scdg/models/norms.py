"""Compute RMSNorm on a GPU by one kernel.

transformers writes it as seven operations on a tensor in float32, which take about half of the time of all elementwise
work of an 8B model (``benchmarks/results/gpu.md``). torch has one kernel, which rounds to the type of the inputs once
instead of twice.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

NORMS = ("Qwen2RMSNorm", "Qwen3RMSNorm", "LlamaRMSNorm", "MistralRMSNorm", "Ministral3RMSNorm")
"""Classes of transformers that compute ``weight * x / sqrt(mean(x ** 2) + eps)``; others add to the weight, or more."""


def use_fused_norms(model: "nn.Module") -> None:
    """Compute the norms of a model with torch's kernel."""
    layer: Any
    for layer in model.modules():
        if type(layer).__name__ in NORMS:
            # it precedes the method of the class
            vars(layer)["forward"] = partial(normalise, layer.weight, layer.variance_epsilon)


def normalise(weight: "Tensor", epsilon: float, hidden_states: "Tensor") -> "Tensor":
    """Return the norm of vectors ``[..., n]`` times ``weight``, ``[n]``."""
    import torch

    return torch.nn.functional.rms_norm(hidden_states, weight.shape, weight, epsilon)
