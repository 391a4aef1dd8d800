"""Compute products of matrices with oneDNN on a CPU.

For products in float32 torch calls MKL, which leaves half the vector width of an AMD processor unused. With oneDNN the
whole command ``run`` is 1.4 times as fast there (13.7 instead of 19.4 s for the longest pair of the PAN 2025 sample, 43
instead of 68 s for 60 pairs: ``benchmarks/results/encoding.md``). Results differ in the last digits of float32.
"""

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

BLOCK_ROWS = 512
"""Rows that are multiplied at a time."""
ROW_MULTIPLE = 64
"""Fewer rows are filled up to a multiple of this: torch keeps 8 MB for every number of rows that it meets, and needs
several times as long for the first such product."""


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
            weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), BLOCK_ROWS)
            forward = partial(multiply, weight, layer.bias, layer.out_features)
            vars(layer)["forward"] = forward  # it precedes the method of the class
            layer.register_parameter("weight", None)


def multiply(weight: "Tensor", bias: "Tensor | None", width: int, inputs: "Tensor") -> "Tensor":
    """Return the products of rows ``[..., k]`` and a weight ``[width, k]``, also in oneDNN's layout: ``[..., width]``.

    The operator is the one that torch's compiler uses; it has no public name.
    """
    import torch

    rows = inputs.reshape(-1, inputs.shape[-1])
    products = rows.new_empty(len(rows), width)
    for start in range(0, len(rows), BLOCK_ROWS):
        block = rows[start : start + BLOCK_ROWS]
        count = len(block)
        if missing := -count % ROW_MULTIPLE:
            block = torch.nn.functional.pad(block, (0, 0, 0, missing))
        product = torch.ops.mkldnn._linear_pointwise(block, weight, bias, "none", [], "")
        products[start : start + BLOCK_ROWS] = product[:count]
    return products.view(*inputs.shape[:-1], width)
