"""Compute attention over packed sequences: one interface, three backends, and the merge of two sets of keys.

A softmax over two sets of keys is the mean of the softmaxes over each, weighted by the sums of their exponentials. So a
token that continues a shared prefix attends causally to its own sequence, entirely to the prefix, and the two results
are merged by their log-sum-exps: no mask, no copy of the prefix for each continuation, no padding.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from pan_scdg.errors import UserError
from pan_scdg.models.devices import FLASH_CAPABILITY, list_cpu_features

if TYPE_CHECKING:
    import torch


FLASH_WIDTH = 256
"""The widest head that FlashAttention-2 takes."""


@dataclass(frozen=True)
class Spans:
    """Consecutive spans of a row of tokens, without gaps, the first at 0."""

    lengths: tuple[int, ...]
    device: str

    @property
    def total(self) -> int:
        """Return the number of tokens of all spans."""
        return sum(self.lengths)

    @cached_property
    def bounds(self) -> tuple[int, ...]:
        """Return 0 and the end of each span."""
        return tuple(accumulate(self.lengths, initial=0))

    @cached_property
    def on_device(self) -> "torch.Tensor":
        """Return ``bounds`` as an int32 tensor."""
        import torch

        return torch.tensor(self.bounds, dtype=torch.int32, device=self.device)


Backend = Callable[..., tuple["torch.Tensor", "torch.Tensor"]]
"""``(q, k, v, spans_q, spans_k, causal, scale)`` -> attention ``[n, heads, d]`` of each span of queries over the
span of keys with the same number, and the log-sum-exp of its scores, float32 ``[n, heads]``.

``q`` is ``[n, heads, d]``, ``k`` and ``v`` are ``[m, key heads, d]``; ``causal`` needs equal spans."""


@dataclass
class Packing:
    """The layout of one row of packed tokens: prefixes, then whole sequences, then continuations of prefixes.

    Every token attends to itself and the earlier tokens of its span; tokens of the ``i``-th span of ``continued`` (all
    continuations of one prefix, the last tokens of the row) also attend to the whole ``i``-th prefix.
    """

    backend: Backend
    own: Spans
    """All sequences of the row."""
    continued: Spans | None = None
    prefixes: Spans | None = None
    """Of the row's first tokens, or of ``kept``."""
    kept: "Sequence[tuple[torch.Tensor, torch.Tensor]] | None" = None
    """Keys and values of the prefixes by layer, from an earlier row; None: they are in this row."""
    keep: "list[tuple[torch.Tensor, torch.Tensor]] | None" = None
    """List to which keys and values of this row's prefixes are appended for later rows, layer by layer."""
    layers: list[int] = field(default_factory=list)
    """Numbers of the layers that have used this attention; a layer with its own attention would be missing."""

    @property
    def is_plain(self) -> bool:
        """Return True for a single sequence, which needs no packed attention."""
        return len(self.own.lengths) == 1 and self.prefixes is None

    def attend(
        self, layer: int, q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor", scale: float
    ) -> "torch.Tensor":
        """Return the attention of a row, ``[n, heads, d]``."""
        self.layers.append(layer)
        out, lse = self.backend(q, k, v, self.own, self.own, True, scale)
        if self.prefixes is None:
            return out
        end = self.prefixes.total
        if self.keep is not None:
            # Copies: a view would keep the whole row in memory.
            self.keep.append((k[:end].clone(), v[:end].clone()))
        if self.continued is None:
            return out
        keys, values = (k[:end], v[:end]) if self.kept is None else self.kept[layer]
        tail = len(q) - self.continued.total
        far, far_lse = self.backend(q[tail:], keys, values, self.continued, self.prefixes, False, scale)
        out[tail:] = merge_attention(out[tail:], lse[tail:], far, far_lse)
        return out


def merge_attention(
    near: "torch.Tensor", near_lse: "torch.Tensor", far: "torch.Tensor", far_lse: "torch.Tensor"
) -> "torch.Tensor":
    """Return attention over both sets of keys from those over each, ``[n, heads, d]``, and their log-sum-exps."""
    import torch

    weight = torch.sigmoid(far_lse - near_lse)[..., None]
    return torch.lerp(near.float(), far.float(), weight).to(near.dtype)


def attend_sdpa(
    q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor", spans_q: Spans, spans_k: Spans, causal: bool, scale: float
) -> "tuple[torch.Tensor, torch.Tensor]":
    """Return attention by the kernels of torch's scaled_dot_product_attention, one call per span, and log-sum-exps."""
    import torch

    one = _attend_on_cpu if q.device.type == "cpu" else _attend_on_gpu
    out, lse = torch.empty_like(q), torch.empty(q.shape[:2], dtype=torch.float32, device=q.device)
    for (start, end), (first, last) in zip(pairwise(spans_q.bounds), pairwise(spans_k.bounds), strict=True):
        queries, keys, values = (x.transpose(0, 1)[None] for x in (q[start:end], k[first:last], v[first:last]))
        attended, sums = one(queries, keys, values, causal, scale)
        out[start:end] = attended[0].transpose(0, 1)
        lse[start:end] = sums[0, :, : end - start].T
    return out, lse


def _attend_on_cpu(q: Any, k: Any, v: Any, causal: bool, scale: float) -> tuple[Any, Any]:
    import torch

    # with AMX attention in bfloat16 takes a third of the time of float32, without it nearly twice
    if q.dtype != torch.bfloat16 or "amx_bf16" not in list_cpu_features():
        q, k, v = q.float(), k.float(), v.float()
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, scale=scale)  # type: ignore[no-any-return]


def _attend_on_gpu(q: Any, k: Any, v: Any, causal: bool, scale: float) -> tuple[Any, Any]:
    import torch

    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    if not _fits_flash(q):
        results = torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.0, causal, scale=scale)
    else:
        results = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False, scale=scale)
    return results[0], results[1]


def _fits_flash(q: Any) -> bool:
    """Return True if torch's FlashAttention-2 accepts such queries: widths, types and GPUs are limited."""
    import torch

    width = q.shape[-1]
    if q.dtype == torch.float32 or width % 8 or width > FLASH_WIDTH:
        return False
    return torch.cuda.get_device_capability(q.device) >= FLASH_CAPABILITY


def attend_varlen(
    q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor", spans_q: Spans, spans_k: Spans, causal: bool, scale: float
) -> "tuple[torch.Tensor, torch.Tensor]":
    """Return attention by torch's varlen_attn, on GPUs in 16 bits, and log-sum-exps."""
    from torch.nn.attention.varlen import AuxRequest, varlen_attn

    window = (-1, 0) if causal else (-1, -1)
    spans = spans_q.on_device, spans_k.on_device, max(spans_q.lengths), max(spans_k.lengths)
    out, lse = varlen_attn(
        q, k, v, *spans, return_aux=AuxRequest(lse=True), scale=scale, window_size=window, enable_gqa=True
    )
    return out, _transpose_lse(lse, q)


def attend_flash(
    q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor", spans_q: Spans, spans_k: Spans, causal: bool, scale: float
) -> "tuple[torch.Tensor, torch.Tensor]":
    """Return attention by the package flash-attn, on GPUs in 16 bits, and log-sum-exps."""
    from flash_attn import flash_attn_varlen_func

    spans = spans_q.on_device, spans_k.on_device, max(spans_q.lengths), max(spans_k.lengths)
    out, lse, _ = flash_attn_varlen_func(q, k, v, *spans, softmax_scale=scale, causal=causal, return_attn_probs=True)
    return out, _transpose_lse(lse, q)


def _transpose_lse(lse: Any, q: Any) -> Any:
    """Return log-sum-exps ``[n, heads]``: kernels return ``[heads, n]``, although torch documents the reverse.

    With as many tokens as heads the shape is ambiguous; `reads_square` finds a kernel that returns the reverse.
    """
    tokens, heads = q.shape[:2]
    if lse.shape == (heads, tokens):
        return lse.T
    if lse.shape == (tokens, heads):
        return lse
    raise ValueError(f"log-sum-exps of shape {tuple(lse.shape)} for {tokens} tokens and {heads} heads")


def reads_square(backend: Backend, dtype: "torch.dtype", device: str) -> bool:
    """Return True if the kernel's log-sum-exp layout is correct when the token count equals the head count."""
    import torch

    heads, width = 4, 64
    drawn = torch.Generator().manual_seed(0)
    q, k = (torch.randn(heads + 1, heads, width, generator=drawn).to(device, dtype) for _ in range(2))
    few, all_ = Spans((heads,), device), Spans((heads + 1,), device)
    _, square = backend(q[:heads], k, k, few, all_, False, width**-0.5)
    _, more = backend(q, k, k, all_, all_, False, width**-0.5)
    return torch.allclose(square, more[:heads], atol=0.01)  # those of two drawn tokens differ by some 0.4


BACKENDS: dict[str, Backend] = {"sdpa": attend_sdpa, "varlen": attend_varlen, "flash_attention_2": attend_flash}


def find_backend(attention: str) -> Backend:
    """Return the backend of a profile's ``attention``.

    Raises:
        UserError: no backend has this name.
    """
    if attention not in BACKENDS:
        raise UserError(
            f"attention {attention!r} cannot score packed sequences",
            f"use one of {', '.join(BACKENDS)} in the profile, or the engine reference",
        )
    return BACKENDS[attention]


ATTENTION_NAME = "pan_scdg_packed"
"""Name of this attention in transformers."""


@cache
def register_attention() -> None:
    """Register the attention with transformers, which then makes no mask and passes ``packing`` on."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION_NAME, _attend_packed)


def _attend_packed(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    _mask: Any,
    *,
    packing: Packing,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Any = None,
    **_: Any,
) -> tuple[Any, None]:
    """Return attention ``[1, n, heads, d]`` of queries ``[1, heads, n, d]``; transformers calls this function.

    Without ``scaling`` scores are divided by the root of the width, as in torch.

    Raises:
        ValueError: the model caps scores or has attention sinks, which no backend here does.
    """
    if softcap is not None or s_aux is not None:
        raise ValueError("its attention caps scores or has sinks")
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    scale = q.shape[-1] ** -0.5 if scaling is None else scaling
    return packing.attend(module.layer_idx, q, k, v, scale)[None], None
