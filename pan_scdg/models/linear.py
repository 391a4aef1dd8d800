"""Compute products of matrices with oneDNN on a CPU.

For products in float32 torch calls MKL, which leaves half the vector width of an AMD processor unused. With oneDNN the
whole command ``run`` is 1.4 times as fast there (13.7 instead of 19.4 s for the longest pair of the PAN 2025 sample, 43
instead of 68 s for 60 pairs: ``benchmarks/results/encoding.md``). Results differ in the last digits of float32.
"""

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

MAX_CPU_TOKENS = 2048
"""Tokens, the rows of products, that are computed together on a CPU: what layers compute of more leaves the caches, and
its memory is taken from the system and given back each time."""
ROW_MULTIPLE = 64
"""Rows are filled up to a multiple of this: torch prepares a product for every number of rows that it meets."""


def has_onednn() -> bool:
    """Return True if torch has oneDNN and the processor is one of the x86 family."""
    import torch

    built: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return built and "AVX" in torch.backends.cpu.get_cpu_capability()


def use_onednn(model: "nn.Module") -> None:
    """Compute the layers in float32 with oneDNN, where torch has it.

    Their weights are kept in the layout of oneDNN only, so that the model can no longer be moved to another device.
    """
    import torch

    if not has_onednn():
        return
    for layer in model.modules():
        if type(layer) is torch.nn.Linear and layer.weight.dtype == torch.float32:
            weight = reorder(layer.weight.detach())
            forward = partial(multiply, weight, layer.bias, layer.out_features)
            vars(layer)["forward"] = forward  # it precedes the method of the class
            layer.register_parameter("weight", None)


def reorder(weight: "Tensor") -> "Tensor":
    """Return a weight ``[width, k]`` in oneDNN's layout."""
    import torch

    reordered: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, MAX_CPU_TOKENS)
    return reordered


def multiply(weight: "Tensor", bias: "Tensor | None", width: int, inputs: "Tensor") -> "Tensor":
    """Return the products of rows ``[..., k]`` and a weight ``[width, k]``, also in oneDNN's layout: ``[..., width]``.

    The operator is the one that torch's compiler uses; it has no public name.
    """
    import torch

    rows = inputs.reshape(-1, inputs.shape[-1])
    count = len(rows)
    if missing := -count % ROW_MULTIPLE:
        rows = torch.nn.functional.pad(rows, (0, 0, 0, missing))
    products: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return products[:count].view(*inputs.shape[:-1], width)
