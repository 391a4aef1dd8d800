"""Compute the MLP of each layer in slices of a long row.

An MLP makes about four tensors of its inner width, three times as wide as the hidden states: half of the memory of a
row. A token's MLP reads that token alone, so that its rows are computed some at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

SLICE_TOKENS = 16_384
"""Enough rows for the full speed of a product."""
PARTS = {"gate_proj", "up_proj", "down_proj", "act_fn"}
"""The modules of an MLP that computes each token alone, in all families that transformers copied from Llama's. Experts
and their routers have other ones."""


def find_mlps(decoder: "nn.Module") -> "list[nn.Module]":
    """Return the MLPs of a decoder that can be computed in slices."""
    return [module for module in decoder.modules() if {name for name, _ in module.named_children()} == PARTS]


@contextmanager
def slice_mlps(mlps: "Sequence[nn.Module]") -> "Iterator[None]":
    """Compute MLPs in slices of `SLICE_TOKENS` inside the context."""
    for mlp in mlps:
        vars(mlp)["forward"] = _slice_forward(mlp.forward)  # it precedes the method of the class
    try:
        yield
    finally:
        for mlp in mlps:
            del vars(mlp)["forward"]


def _slice_forward(forward: "Callable[[Tensor], Tensor]") -> "Callable[[Tensor], Tensor]":
    """Return a function of hidden states ``[1, n, width]``."""
    import torch

    def compute(hidden: "Tensor") -> "Tensor":
        if hidden.shape[1] <= SLICE_TOKENS:
            return forward(hidden)
        return torch.cat([forward(part) for part in torch.split(hidden, SLICE_TOKENS, 1)], 1)

    return compute
