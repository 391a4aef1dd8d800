"""Compute attention over packed sequences: one interface, three backends, and the merge of two sets of keys.

A softmax over two sets of keys is the mean of the softmaxes over each, weighted by the sums of their exponentials. So a
token that continues a shared prefix attends causally to its own sequence, entirely to the prefix, and the two results
are merged by their log-sum-exps: no mask, no copy of the prefix for each continuation, no padding. In a layer with a
sliding window each continuation is given a copy of what it sees of the prefix, at most the window.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.util import find_spec
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from pan_scdg.errors import UserError, get_first_line
from pan_scdg.logs import say
from pan_scdg.models.devices import FLASH_CAPABILITY, are_calls_halved, is_device_error, list_cpu_features

if TYPE_CHECKING:
    import torch


FLASH_WIDTH = 256
"""The widest head that FlashAttention-2 takes."""


WINDOW_QUERIES = 1024
"""Queries of a call with a mask."""


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
"""``(q, k, v, spans_q, spans_k, causal, scale, window=None)`` -> attention ``[n, heads, d]`` of each span of queries
over the span of keys with the same number, and the log-sum-exp of its scores, float32 ``[n, heads]``.

``q`` is ``[n, heads, d]``, ``k`` and ``v`` are ``[m, key heads, d]``; ``causal`` needs equal spans. With a
window, which is causal, a token attends to so many tokens, itself among them, and both spans end with the same one."""


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
    counts: Sequence[int] = ()
    """Number of sequences in each span of ``continued``."""
    layers: list[int] = field(default_factory=list)
    """Numbers of the layers that have used this attention; a layer with its own attention would be missing."""
    windows: list[int | None] = field(default_factory=list)
    """Their windows."""

    @property
    def is_plain(self) -> bool:
        """Return True for a single sequence, which needs no packed attention."""
        return len(self.own.lengths) == 1 and self.prefixes is None

    @cached_property
    def longest(self) -> int:
        """Return the largest number of tokens that a token attends to, or more."""
        return max(self.own.lengths) + (0 if self.prefixes is None else max(self.prefixes.lengths))

    def attend(
        self,
        layer: int,
        q: "torch.Tensor",
        k: "torch.Tensor",
        v: "torch.Tensor",
        scale: float,
        window: int | None = None,
        sinks: "torch.Tensor | None" = None,
    ) -> "torch.Tensor":
        """Return the attention of a row, ``[n, heads, d]``.

        Args:
            layer: number of the layer.
            q: queries, ``[n, heads, d]``.
            k: keys, ``[n, key heads, d]``.
            v: values, as ``k``.
            scale: factor of the scores.
            window: number of tokens that a token attends to, itself among them; None: all before it.
            sinks: a score of each head, ``[heads]``, that takes its share of the softmax and has no value.
        """
        import torch

        self.layers.append(layer)
        self.windows.append(window)
        end = 0 if self.prefixes is None else self.prefixes.total
        if self.keep is not None:
            # Copies: a view would keep the whole row in memory.
            self.keep.append((k[:end].clone(), v[:end].clone()))
        prefix = (k[:end], v[:end]) if self.kept is None else self.kept[layer]
        if window is not None and window < self.longest:
            out, lse = self._attend_window(q, k, v, prefix, scale, window)
        else:
            out, lse = self._attend_all(q, k, v, prefix, scale)
        if sinks is not None:
            out = out * torch.sigmoid(lse - sinks.float())[..., None].to(out.dtype)
        attended: torch.Tensor = out
        return attended

    def _attend_all(self, q: Any, k: Any, v: Any, prefix: tuple[Any, Any], scale: float) -> tuple[Any, Any]:
        import torch

        out, lse = self.backend(q, k, v, self.own, self.own, True, scale)
        if self.continued is not None and self.prefixes is not None:
            tail = len(q) - self.continued.total
            far, far_lse = self.backend(q[tail:], *prefix, self.continued, self.prefixes, False, scale)
            out[tail:] = merge_attention(out[tail:], lse[tail:], far, far_lse)
            lse[tail:] = torch.logaddexp(lse[tail:], far_lse)
        return out, lse

    def _attend_window(
        self, q: Any, k: Any, v: Any, prefix: tuple[Any, Any], scale: float, window: int
    ) -> tuple[Any, Any]:
        """Attend within a window, each continuation in a call of its own, after the end of its prefix."""
        import torch

        device, lengths = self.own.device, self.own.lengths
        first = len(lengths) - sum(self.counts)
        alone = Spans(lengths[:first], device)
        parts = []
        if first:
            parts.append(self.backend(*(x[: alone.total] for x in (q, k, v)), alone, alone, True, scale, window))
        prefix_bounds = [] if self.prefixes is None else pairwise(self.prefixes.bounds)
        ends = [bounds for bounds, count in zip(prefix_bounds, self.counts, strict=True) for _ in range(count)]
        for (start, end), (near, far) in zip(pairwise(self.own.bounds[first:]), ends, strict=True):
            near = max(near, far - window + 1)
            keys, values = (torch.cat([p[near:far], x[start:end]]) for p, x in zip(prefix, (k, v), strict=True))
            spans = Spans((end - start,), device), Spans((len(keys),), device)
            parts.append(self.backend(q[start:end], keys, values, *spans, True, scale, window))
        outs, sums = zip(*parts, strict=True)
        return torch.cat(outs), torch.cat(sums)


def merge_attention(
    near: "torch.Tensor", near_lse: "torch.Tensor", far: "torch.Tensor", far_lse: "torch.Tensor"
) -> "torch.Tensor":
    """Return attention over both sets of keys from those over each, ``[n, heads, d]``, and their log-sum-exps."""
    import torch

    weight = torch.sigmoid(far_lse - near_lse)[..., None]
    return torch.lerp(near.float(), far.float(), weight).to(near.dtype)


def attend_sdpa(
    q: "torch.Tensor",
    k: "torch.Tensor",
    v: "torch.Tensor",
    spans_q: Spans,
    spans_k: Spans,
    causal: bool,
    scale: float,
    window: int | None = None,
) -> "tuple[torch.Tensor, torch.Tensor]":
    """Return attention by the kernels of torch's scaled_dot_product_attention, one call per span, and log-sum-exps.

    Under a window there is a call, with a mask, for some queries and the keys that they see.
    """
    import torch

    one = _attend_on_cpu if q.device.type == "cpu" else _attend_on_gpu
    out, lse = torch.empty_like(q), torch.empty(q.shape[:2], dtype=torch.float32, device=q.device)
    for start, end, first, last in _list_calls(spans_q, spans_k, window):
        queries, keys, values = (x.transpose(0, 1)[None] for x in (q[start:end], k[first:last], v[first:last]))
        mask = None if window is None else _make_mask(queries, last - first, window)
        attended, sums = one(queries, keys, values, causal and mask is None, scale, mask)
        out[start:end] = attended[0].transpose(0, 1)
        lse[start:end] = sums[0, :, : end - start].T
    return out, lse


def _list_calls(spans_q: Spans, spans_k: Spans, window: int | None) -> Iterator[tuple[int, int, int, int]]:
    """Yield begin and end of queries, and of the keys that they see."""
    for (start, end), (first, last) in zip(pairwise(spans_q.bounds), pairwise(spans_k.bounds), strict=True):
        if window is None:
            yield start, end, first, last
            continue
        for begin in range(start, end, WINDOW_QUERIES):
            stop = min(begin + WINDOW_QUERIES, end)
            yield begin, stop, max(first, last - (end - begin) - window + 1), last - (end - stop)


def _make_mask(q: Any, keys: int, window: int) -> Any:
    """Return what is added to the scores ``[n, m]`` of the last tokens of a text: minus infinity beyond the window."""
    import torch

    count = q.shape[2]
    # kernels of a GPU read rows of a mask in pieces of 16 bytes
    mask = q.new_zeros(count, -(-keys // 16) * 16)[:, :keys]
    distances = torch.arange(keys - count, keys, device=q.device)[:, None] - torch.arange(keys, device=q.device)
    return mask.masked_fill_((distances < 0) | (distances >= window), -torch.inf).expand(1, q.shape[1], count, keys)


def _attend_on_cpu(q: Any, k: Any, v: Any, causal: bool, scale: float, mask: Any = None) -> tuple[Any, Any]:
    import torch

    # with AMX attention in bfloat16 takes a third of the time of float32, without it nearly twice
    if q.dtype != torch.bfloat16 or "amx_bf16" not in list_cpu_features():
        q, k, v, mask = q.float(), k.float(), v.float(), None if mask is None else mask.float()
    compute: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    out, sums = compute(q, k, v, 0.0, causal, attn_mask=mask, scale=scale)
    return out, sums


def _attend_on_gpu(q: Any, k: Any, v: Any, causal: bool, scale: float, mask: Any = None) -> tuple[Any, Any]:
    import torch

    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    if mask is not None or not _fits_flash(q):
        results = torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, mask, True, 0.0, causal, scale=scale)
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
    q: "torch.Tensor",
    k: "torch.Tensor",
    v: "torch.Tensor",
    spans_q: Spans,
    spans_k: Spans,
    causal: bool,
    scale: float,
    window: int | None = None,
) -> "tuple[torch.Tensor, torch.Tensor]":
    """Return attention by torch's varlen_attn, on GPUs in 16 bits, and log-sum-exps."""
    from torch.nn.attention.varlen import AuxRequest, varlen_attn

    spans = spans_q.on_device, spans_k.on_device, max(spans_q.lengths), max(spans_k.lengths)
    out, lse = varlen_attn(
        q,
        k,
        v,
        *spans,
        return_aux=AuxRequest(lse=True),
        scale=scale,
        window_size=_count_seen(causal, window),
        enable_gqa=True,
    )
    return out, _transpose_lse(lse, q)


def attend_flash(
    q: "torch.Tensor",
    k: "torch.Tensor",
    v: "torch.Tensor",
    spans_q: Spans,
    spans_k: Spans,
    causal: bool,
    scale: float,
    window: int | None = None,
) -> "tuple[torch.Tensor, torch.Tensor]":
    """Return attention by the package flash-attn, on GPUs in 16 bits, and log-sum-exps."""
    from flash_attn import flash_attn_varlen_func

    spans = spans_q.on_device, spans_k.on_device, max(spans_q.lengths), max(spans_k.lengths)
    seen = _count_seen(causal, window)
    out, lse, _ = flash_attn_varlen_func(
        q, k, v, *spans, softmax_scale=scale, causal=causal, window_size=seen, return_attn_probs=True
    )
    return out, _transpose_lse(lse, q)


def _count_seen(causal: bool, window: int | None) -> tuple[int, int]:
    """Return how many tokens before and after itself a token attends to; -1: all."""
    return -1 if window is None else window - 1, 0 if causal else -1


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


FLASH_3 = "flash_attention_3"
"""What an engine names the attention ``varlen`` after `use_flash_3`."""
FLASH_3_PACKAGE = "flash_attn_interface"
HOPPER = 9
"""The major compute capability of the GPUs that FlashAttention-3 is written for."""
MAX_KERNEL_DIFFERENCE = 0.03
"""Of means of values drawn with a deviation of 1, and of log-sum-exps, in 16 bits."""


def use_flash_3(dtype: "torch.dtype", device: str) -> bool:
    """Let varlen_attn compute by FlashAttention-3, if it is installed and gives the numbers of FlashAttention-2.

    torch then replaces its flash attention in the whole process. Where calls are halved, since the device failed, it is
    left out.
    """
    import torch
    from torch.nn import attention

    if not hasattr(attention, "activate_flash_attention_impl") or find_spec(FLASH_3_PACKAGE) is None:
        return False
    if are_calls_halved() or torch.cuda.get_device_capability(device)[0] != HOPPER:
        return False
    if attention.current_flash_attention_impl() is not None:
        return True
    expected = _attend_drawn(dtype, device)
    try:
        attention.activate_flash_attention_impl("FA3")
        results = zip(_attend_drawn(dtype, device), expected, strict=True)
        same = all(torch.allclose(a, b, rtol=0, atol=MAX_KERNEL_DIFFERENCE) for a, b in results)
        failure = None if same else "it gives other numbers than FlashAttention-2"
    except (ImportError, AttributeError, LookupError, TypeError, ValueError, RuntimeError) as e:
        if is_device_error(e):
            raise
        failure = get_first_line(e)
    if failure is None:
        return True
    if attention.current_flash_attention_impl() is not None:
        attention.restore_flash_attention_impl()
    say([f"note: FlashAttention-3 is installed and not used: {failure}"])
    return False


def _attend_drawn(dtype: "torch.dtype", device: str) -> "list[torch.Tensor]":
    """Return what varlen_attn gives for drawn numbers: causal, in a window, and over other keys."""
    import torch

    spans, others = Spans((3, 130, 300), device), Spans((200, 40, 7), device)
    drawn = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(spans.total, heads, 128, generator=drawn).to(device, dtype) for heads in (4, 2, 2))
    calls = [(spans, spans, True, None), (spans, spans, True, 50), (spans, others, False, None)]
    results = [
        attend_varlen(q, k[: keys.total], v[: keys.total], queries, keys, causal, 128**-0.5, window)
        for queries, keys, causal, window in calls
    ]
    return [tensor.float() for both in results for tensor in both]


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
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Any = None,
    **_: Any,
) -> tuple[Any, None]:
    """Return attention ``[1, n, heads, d]`` of queries ``[1, heads, n, d]``; transformers calls this function.

    Without ``scaling`` scores are divided by the root of the width, as in torch.

    Raises:
        ValueError: the model caps scores, which no backend here does.
    """
    if softcap is not None:
        raise ValueError("its attention caps scores")
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    scale = q.shape[-1] ** -0.5 if scaling is None else scaling
    return packing.attend(module.layer_idx, q, k, v, scale, sliding_window, s_aux)[None], None
