"""Attention of packed rows beside a softmax in float32 that is written out; a part of ``benchmarks.gpu``.

Heads are those of a shape, queries, keys and values are drawn. ``packed`` is a row of prefixes, sequences alone and
continuations of the prefixes; ``long`` is one sequence. The error is that of the worst vector of a token and head.
"""

import time
from collections.abc import Iterator
from functools import partial
from itertools import accumulate, chain
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.gpu_rows import OUTCOME, VARIANTS, Part, Row, attempt, attention_limit, find_obstacle, judge, release
from benchmarks.scoring_models import SHAPES
from pan_scdg.lm.attention import Packing, Spans, find_backend

if TYPE_CHECKING:
    import torch

BLOCK = 1 << 28
"""Scores of the float32 softmax that exist at one time."""
REPEATS = 3


class Layout(NamedTuple):
    """Tokens of the stretches of a row, in their order."""

    name: str
    prefixes: tuple[int, ...]
    alone: tuple[int, ...]
    tails: tuple[tuple[int, ...], ...]
    """Of the continuations of each prefix."""

    @property
    def own(self) -> tuple[int, ...]:
        """Return all stretches, in order."""
        return (*self.prefixes, *self.alone, *chain(*self.tails))

    def sequences(self) -> Iterator[tuple[slice, slice | None]]:
        """Yield the place of each stretch, and the prefix that it continues."""
        ends = list(accumulate(self.own))
        places = [slice(end - length, end) for end, length in zip(ends, self.own, strict=True)]
        continued = [places[number] for number, group in enumerate(self.tails) for _ in group]
        before = len(places) - len(continued)
        yield from zip(places, [*[None] * before, *continued], strict=True)


def choose_layouts(shape: str) -> list[Layout]:
    """Return a packed row and a long sequence, small ones for the tiny shape."""
    if shape == "tiny":
        return [Layout("packed", (24, 9), (1, 30), ((12, 7), (5, 1))), Layout("long", (), (400,), ())]
    return [
        Layout("packed", (4096, 900), (1, 777, 2048), ((1500, 300, 1), (64, 650))),
        Layout("long", (), (32000,), ()),
    ]


def draw(layout: Layout, shape: str, dtype: str, device: str) -> "tuple[torch.Tensor, torch.Tensor, torch.Tensor]":
    """Return queries, keys and values of a row, ``[n, heads, d]``."""
    import torch

    torch.manual_seed(0)
    sizes = SHAPES[shape]
    q, k, v = (
        torch.randn(sum(layout.own), sizes[heads], sizes["head_dim"], device=device, dtype=getattr(torch, dtype))
        for heads in ("num_attention_heads", "num_key_value_heads", "num_key_value_heads")
    )
    return q, k, v


def attend(
    attention: str, layout: Layout, q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor", device: str
) -> "torch.Tensor":
    """Return the attention of a row as the default engine computes it, ``[n, heads, d]``."""
    packing = Packing(find_backend(attention), Spans(layout.own, device))
    if layout.prefixes:
        packing.prefixes = Spans(layout.prefixes, device)
        packing.continued = Spans(tuple(map(sum, layout.tails)), device)
    return packing.attend(0, q, k, v, q.shape[-1] ** -0.5)


def write_out(layout: Layout, q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor") -> "torch.Tensor":
    """Return the same in float32, from each token's keys."""
    import torch

    found = torch.empty(q.shape, device=q.device)
    for own, prefix in layout.sequences():
        keys, values = (x[own] if prefix is None else torch.cat([x[prefix], x[own]]) for x in (k, v))
        _fill(found[own], q[own], keys.float(), values.float())
    return found


def _fill(out: "torch.Tensor", q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor") -> None:
    """Put into ``out`` the attention of queries that end where the keys end, some at a time."""
    import torch

    places = torch.arange(len(k), device=q.device)
    step = max(1, BLOCK // (q.shape[1] * len(k)))
    for start in range(0, len(q), step):
        part = q[start : start + step].float().reshape(-1, k.shape[1], q.shape[1] // k.shape[1], q.shape[2])
        scores = torch.einsum("nkgd,mkd->kgnm", part, k) * q.shape[-1] ** -0.5
        last = places[len(k) - len(q) + start :][: len(part)]
        weights = scores.masked_fill_(places > last[:, None], -torch.inf).softmax(-1)
        out[start : start + step] = torch.einsum("kgnm,mkd->nkgd", weights, v).flatten(1, 2)


def find_error(found: "torch.Tensor", expected: "torch.Tensor") -> float:
    """Return the largest distance of a vector from the expected one, as a share of its length."""
    lengths = (found.float() - expected).norm(dim=-1) / expected.norm(dim=-1)
    return float(lengths.max()) if bool(lengths.isfinite().all()) else float("nan")


def measure_rows(shape: str, device: str) -> Iterator[Row]:
    """Yield a row for each layout and attention."""
    for layout in choose_layouts(shape):
        for attention, dtype in VARIANTS:
            cells = {"shape": shape, "row": layout.name, "attention": attention, "type": dtype}
            cells["tokens"] = f"{sum(layout.own):,}"
            obstacle = find_obstacle(attention, device)
            if obstacle is not None:
                yield {**cells, OUTCOME: f"not tried: {obstacle}"}
                continue
            yield attempt(cells, partial(_measure, attention, dtype, layout, shape, device))
            release(device)


def _measure(attention: str, dtype: str, layout: Layout, shape: str, device: str) -> Row:
    import torch

    with torch.inference_mode():
        q, k, v = draw(layout, shape, dtype, device)
        times = []
        for _ in range(REPEATS):
            began = time.perf_counter()
            found = attend(attention, layout, q, k, v, device)
            found[-1].cpu()  # waits until all is done
            times.append(time.perf_counter() - began)
        error = find_error(found, write_out(layout, q, k, v))
    return judge({"ms": f"{1000 * min(times):.3g}"}, error, attention_limit(dtype, sum(layout.own)))


PART = Part(("shape", "row", "attention", "type", "tokens", "ms", "error", "limit"), measure_rows)
