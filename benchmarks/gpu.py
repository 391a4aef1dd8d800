"""Both engines, attention, output head and dense search on a GPU: ``make gpu``, or ``python -m benchmarks.gpu``.

Models of the shapes of Qwen3-0.6B and Qwen3-8B have weights drawn on the device in bfloat16, and token ids and vectors
are drawn, too: figures speak of arithmetic, speed and memory, never of quality. ``--model`` takes a real model for the
part ``overlap``. A part adds a table to the page as soon as it is done. A row that fails, or whose error is beyond its
limit, says FAILED; the others go on, and the exit code is 1. ``--device cpu --shape tiny`` tries the benchmark itself.

Limits follow from the arithmetic. A rounding in a type with ``p`` bits is off by at most ``2**-p`` of the value, and a
float32 sum of ``n`` terms by some ``sqrt(n) * 2**-24`` of their norm. Attention rounds weights, two partial results and
their mean: 4 roundings. A network rounds in every layer, independently: the limit is twice the root of their number.
"""

import datetime
import gc
import importlib.metadata
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click
import numpy as np
import numpy.typing as npt

from benchmarks import corpus
from benchmarks.pairs import ROOT, format_rows
from pan_scdg.lm.attention import Packing, Spans, find_backend
from pan_scdg.lm.engine import Engine, PackedEngine, ReferenceEngine
from pan_scdg.lm.logprobs import gather_log_softmax
from pan_scdg.models.devices import check_device_exists, describe_device, find_driver
from pan_scdg.models.encoder import permit_kernels
from pan_scdg.models.find import find_model
from pan_scdg.models.fingerprint import fingerprint_weights
from pan_scdg.models.load import LanguageModel, get_decoder_and_head, load_model
from pan_scdg.models.norms import use_fused_norms
from pan_scdg.scdg.sequences import ScoringInput, Tokenizer, encode_text
from pan_scdg.settings import ModelSettings

if TYPE_CHECKING:
    import torch

PAGE = ROOT / "benchmarks" / "results" / "gpu.md"
QWEN = {"head_dim": 128, "num_key_value_heads": 8, "vocab_size": 151936}
SHAPES: dict[str, dict[str, Any]] = {
    # the sizes that Qwen3-8B and Qwen3-0.6B are published with
    "qwen3-8b": QWEN
    | {"num_hidden_layers": 36, "hidden_size": 4096, "num_attention_heads": 32, "intermediate_size": 12288}
    | {"tie_word_embeddings": False},
    "qwen3-0.6b": QWEN
    | {"num_hidden_layers": 28, "hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 3072}
    | {"tie_word_embeddings": True},
    # small enough for tests
    "tiny": {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48}
    | {"head_dim": 16, "num_key_value_heads": 2, "vocab_size": 300, "tie_word_embeddings": True},
}
SPREAD = 0.02
"""Standard deviation of the random matrices, as published for Qwen3."""
PEAK_TFLOPS = {"H100": 989.0, "H200": 989.0, "A100": 312.0}
"""Dense 16-bit tensor arithmetic by NVIDIA's data sheets."""
ROUNDING = {"float32": 2.0**-24, "bfloat16": 2.0**-8}
VARIANTS = (("sdpa", "float32"), ("sdpa", "bfloat16"), ("varlen", "bfloat16"), ("flash_attention_2", "bfloat16"))
REFERENCE = "reference"
PLAIN = "the model's own"
"""Attention of an input that is computed alone, for which cuDNN may plan anew at each length."""
BUDGET, HEAD_ROWS = 16384, 1024
REPEATS = 3
GIB = 1 << 30
OUTCOME, FAILED = "outcome", "FAILED"
FIRST = "first time at a new length"
LONG_ROWS = {
    True: {"kept prefix of 40": (40, 8, 3, 1), "row of 100": (80, 10, 2, BUDGET)},
    False: {
        "kept prefix of 27,000": (27_000, 5_000, 3, 32_768),
        "row of 32,000": (31_000, 500, 2, 1 << 18),
        "row of 128,000": (127_000, 500, 2, 1 << 18),
    },
}
"""For the tiny shape, and for others: tokens of a context and of each target that shares it, number of targets, and
tokens of a call. Two targets of one context are packed, whatever their length."""
MISTRAL = {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32}
MISTRAL |= {"num_key_value_heads": 8, "vocab_size": 32000}
"""The shape of Linq-Embed-Mistral."""
TINY_MISTRAL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
TINY_MISTRAL |= {"num_key_value_heads": 2, "vocab_size": 300}
TableRow = dict[str, str]
Floats = npt.NDArray[np.float32]


class Bench(NamedTuple):
    """Settings of all parts: shape of the model, device, and the name of a real model instead."""

    shape: str
    device: str
    model: str | None = None

    @property
    def sizes(self) -> dict[str, Any]:
        """Return the sizes of the shape."""
        return SHAPES[self.shape]

    @property
    def is_tiny(self) -> bool:
        """Return True for the shape of tests."""
        return self.shape == "tiny"


def compute_limit(dtype: str, tokens: int, layers: int = 0) -> float:
    """Return the largest error of attention as a share of a vector's length, or of log-probabilities after layers."""
    attention = 4 * (ROUNDING[dtype] + 8 * math.sqrt(tokens) * ROUNDING["float32"])
    return attention * (2 * math.sqrt(layers) if layers else 1)


def judge(error: float, limit: float) -> TableRow:
    """Return the cells of an error; one that is no number is beyond its limit."""
    outcome = "ok" if error <= limit else f"{FAILED}: beyond the limit"
    return {"error": f"{error:.2g}", "limit": f"{limit:.2g}", OUTCOME: outcome}


def describe_failure(error: Exception) -> str:
    """Return an exception as one line of a table."""
    first = (str(error).strip().splitlines() or [""])[0].replace("|", "/")
    return f"{FAILED}: {type(error).__name__}: {first}"[:300]


def attempt(cells: TableRow, measure: Callable[[], TableRow], obstacle: str | None = None) -> TableRow:
    """Return ``cells`` with what ``measure`` adds, or with the reason why it did not."""
    if obstacle:
        return {**cells, OUTCOME: f"not tried: {obstacle}"}
    try:
        return {**cells, **measure()}
    except Exception as e:  # of a kernel, a driver or a library: the others are still worth measuring
        return {**cells, OUTCOME: describe_failure(e)}


def find_obstacle(attention: str, device: str) -> str | None:
    """Return what an attention needs that is absent here, or None."""
    if attention in ("sdpa", PLAIN, REFERENCE):
        return None
    if device == "cpu":
        return "needs a GPU"
    if attention == "flash_attention_2" and find_spec("flash_attn") is None:
        return "flash-attn is not installed"
    return None


def release(device: str) -> None:
    """Give a GPU's memory back that nothing uses any more."""
    gc.collect()
    if device != "cpu":
        import torch

        torch.cuda.empty_cache()


def measure_memory(device: str, action: Callable[[], object]) -> float:
    """Return the GiB that an action takes at most: of the GPU, or of this process beyond its earlier peak."""
    if device == "cpu":
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        action()
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / (1 << 20)
    import torch

    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    action()
    return float(torch.cuda.max_memory_allocated(device) - before) / GIB


def measure_seconds(action: "Callable[[], torch.Tensor]", repeats: int = REPEATS) -> float:
    """Return the least seconds; the last number is read, which waits until all is computed."""
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        action().flatten()[-1].item()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


class Layout(NamedTuple):
    """Tokens of the stretches of a row: prefixes, sequences alone, and the continuations of each prefix."""

    name: str
    prefixes: tuple[int, ...]
    alone: tuple[int, ...]
    tails: tuple[tuple[int, ...], ...]

    @property
    def own(self) -> tuple[int, ...]:
        """Return all stretches, in order."""
        return (*self.prefixes, *self.alone, *chain(*self.tails))


LAYOUTS = {
    True: (Layout("packed", (24, 9), (1, 30), ((12, 7), (5, 1))), Layout("long", (), (400,), ())),
    False: (
        Layout("packed", (4096, 900), (1, 777, 2048), ((1500, 300, 1), (64, 650))),
        Layout("long", (), (32000,), ()),
        Layout("long", (), (131072,), ()),
    ),
}
"""For the tiny shape, and for others."""


def measure_attention(bench: Bench) -> Iterator[TableRow]:
    """Yield a row for each attention of a packed row and of long sequences, beside a softmax in float32."""
    for layout in LAYOUTS[bench.is_tiny]:
        alone = [] if layout.prefixes else [(PLAIN, "bfloat16")]
        for attention, dtype in (*VARIANTS, *alone):
            if dtype == "float32" and sum(layout.own) > BUDGET:
                continue  # would take minutes, and no profile computes long rows in float32
            cells = {"shape": bench.shape, "row": layout.name, "attention": attention, "type": dtype}
            cells["tokens"] = f"{sum(layout.own):,}"
            measure = partial(_measure_attention, bench, layout, attention, dtype)
            yield attempt(cells, measure, find_obstacle(attention, bench.device))
            release(bench.device)


def _measure_attention(bench: Bench, layout: Layout, attention: str, dtype: str) -> TableRow:
    import torch

    torch.manual_seed(0)
    heads = [bench.sizes[f"num_{name}_heads"] for name in ("attention", "key_value", "key_value")]
    options: Any = {"device": bench.device, "dtype": getattr(torch, dtype)}
    q, k, v = (torch.randn(sum(layout.own), n, bench.sizes["head_dim"], **options) for n in heads)
    compute = partial(attend, layout, attention, q, k, v)
    with torch.inference_mode():
        short = Layout("short", (), (64,), ())
        measure_seconds(lambda: attend(short, attention, q[:64], k[:64], v[:64]), 1)  # loads the kernel
        first = measure_seconds(compute, 1)
        seconds, expected = measure_seconds(compute), attend_plainly(layout, q, k, v)
        apart = (compute().float() - expected).norm(dim=-1) / expected.norm(dim=-1)
    times = {FIRST: f"{1000 * first:.3g} ms", "ms": f"{1000 * seconds:.3g}"}
    return {**times, **judge(float(apart.max()), compute_limit(dtype, sum(layout.own)))}


def attend(layout: Layout, attention: str, q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor") -> "torch.Tensor":
    """Return the attention of a row by a backend of the package, or as transformers computes one sequence."""
    import torch

    scale, device = q.shape[-1] ** -0.5, q.device.type
    if attention == PLAIN:
        queries, keys, values = (x.transpose(0, 1)[None] for x in (q, k, v))
        compute = torch.nn.functional.scaled_dot_product_attention
        return compute(queries, keys, values, is_causal=True, scale=scale, enable_gqa=True)[0].transpose(0, 1)
    packing = Packing(find_backend(attention), Spans(layout.own, device))
    if layout.prefixes:
        packing.prefixes = Spans(layout.prefixes, device)
        packing.continued = Spans(tuple(map(sum, layout.tails)), device)
    return packing.attend(0, q, k, v, scale)


def attend_plainly(layout: Layout, q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor") -> "torch.Tensor":
    """Return the attention of a row in float32, each query over its own keys and those of its prefix."""
    import torch

    ends = np.cumsum(layout.own).tolist()
    spans = [slice(end - length, end) for end, length in zip(ends, layout.own, strict=True)]
    continued = [spans[number] for number, group in enumerate(layout.tails) for _ in group]
    prefixes: list[slice | None] = [*[None] * (len(spans) - len(continued)), *continued]
    result = torch.empty(q.shape, device=q.device)
    for span, prefix in zip(spans, prefixes, strict=True):
        keys, values = ((x[span] if prefix is None else torch.cat([x[prefix], x[span]])).float() for x in (k, v))
        queries, places = q[span].float(), torch.arange(len(keys), device=q.device)
        step = max(1, (1 << 28) // (q.shape[1] * len(keys)))
        for start in range(0, len(queries), step):
            part = queries[start : start + step].reshape(-1, k.shape[1], q.shape[1] // k.shape[1], q.shape[2])
            scores = torch.einsum("nkgd,mkd->kgnm", part, keys) * q.shape[-1] ** -0.5
            last = places[len(keys) - len(queries) + start :][: len(part)]
            weights = scores.masked_fill_(places > last[:, None], -torch.inf).softmax(-1)
            result[span][start : start + step] = torch.einsum("kgnm,mkd->nkgd", weights, values).flatten(1, 2)
    return result


def chunk_head(hidden: "torch.Tensor", weight: "torch.Tensor", ids: "torch.Tensor") -> "torch.Tensor":
    """Return the log-probability of a token at each position, as both engines compute it."""
    import torch
    from torch.nn.functional import linear

    parts = zip(torch.split(hidden, HEAD_ROWS), torch.split(ids, HEAD_ROWS), strict=True)
    return torch.cat([gather_log_softmax(linear(part, weight), chosen) for part, chosen in parts])


def use_liger(hidden: "torch.Tensor", weight: "torch.Tensor", ids: "torch.Tensor") -> "torch.Tensor":
    """Return the same by Liger's fused loss."""
    from liger_kernel.transformers.functional import liger_fused_linear_cross_entropy

    return cast("torch.Tensor", -liger_fused_linear_cross_entropy(hidden, weight, ids, reduction="none"))


def use_cut(hidden: "torch.Tensor", weight: "torch.Tensor", ids: "torch.Tensor") -> "torch.Tensor":
    """Return the same by cut-cross-entropy."""
    from cut_cross_entropy import linear_cross_entropy

    return cast("torch.Tensor", -linear_cross_entropy(hidden, weight, ids, reduction="none"))


HEADS = {"chunked": chunk_head, "liger_kernel": use_liger, "cut_cross_entropy": use_cut}
"""By the module that each needs; the first one needs torch alone."""


def measure_head(bench: Bench) -> Iterator[TableRow]:
    """Yield a row for each way to compute the output layer; errors are nats from float32 logits of the same numbers."""
    for dtype in ("float32", "bfloat16"):
        for name in HEADS:
            obstacle = None if name == "chunked" or find_spec(name) else f"{name} is not installed"
            if name != "chunked" and bench.device == "cpu":
                obstacle = "needs a GPU"
            cells = {"shape": bench.shape, "type": dtype, "head": name}
            yield attempt(cells, partial(_measure_head, bench, dtype, name), obstacle)
            release(bench.device)


def _measure_head(bench: Bench, dtype: str, name: str) -> TableRow:
    import torch

    torch.manual_seed(0)
    width, vocabulary = bench.sizes["hidden_size"], bench.sizes["vocab_size"]
    positions = 96 if bench.is_tiny else 2048 if bench.device == "cpu" else 8192
    options: Any = {"device": bench.device, "dtype": getattr(torch, dtype)}
    hidden = torch.randn(positions, width, **options) * (4 / (SPREAD * width**0.5))  # logits spread by 4
    weight = torch.randn(vocabulary, width, **options) * SPREAD
    ids = torch.randint(vocabulary, (positions,), device=bench.device)
    compute = partial(HEADS[name], hidden, weight, ids)
    with torch.inference_mode():
        truth = chunk_head(hidden.float(), weight.float(), ids)
        error = float((compute().double() - truth.double()).abs().max())
        seconds, taken = measure_seconds(compute), measure_memory(bench.device, compute)
    limit = max(1e-3, 64 * ROUNDING[dtype])  # two roundings of a logit of eight standard deviations
    cells = {"positions": f"{positions:,}", "ms": f"{1000 * seconds:.3g}", "GiB beside": f"{taken:.3g}"}
    return {**cells, **judge(error, limit)}


class NoTokenizer:
    """A tokenizer that is never asked for text."""

    def __len__(self) -> int:
        """Return 0: no token is outside the model's vocabulary."""
        return 0

    bos_token_id = 0
    eos_token_id: int | None = None
    pad_token_id: int | None = None


def make_model(bench: Bench) -> LanguageModel:
    """Return a frozen Qwen3 of a shape, its weights drawn on the device in bfloat16, or the real model."""
    import torch
    import transformers

    if bench.model is not None:
        dtype = "float32" if bench.device == "cpu" else "bfloat16"
        settings = ModelSettings.model_validate({"name": bench.model, "dtype": dtype})
        return load_model(find_model(bench.model).folder, settings, bench.device)
    config_of: Any = transformers.Qwen3Config  # transformers' own functions have no types
    model_of: Any = transformers.AutoModelForCausalLM.from_config
    fixed = {"max_position_embeddings": 131072, "rope_theta": 1e6, "initializer_range": SPREAD}
    torch.manual_seed(0)
    with torch.device(bench.device):
        model = model_of(config_of(**bench.sizes, **fixed, use_sliding_window=False), dtype=torch.bfloat16)
    frozen = model.eval().requires_grad_(False)
    if bench.device != "cpu":  # as `load_model` does
        use_fused_norms(frozen)
    return LanguageModel(cast(Tokenizer, NoTokenizer()), frozen, bench.device, bench.shape, "random")


def make_engine(attention: str, lm: LanguageModel, budget: int = BUDGET) -> Engine:
    """Return the default engine with an attention, or the reference engine."""
    return ReferenceEngine(lm, HEAD_ROWS) if attention == REFERENCE else PackedEngine(lm, attention, budget, HEAD_ROWS)


def score(engine: Engine, items: Sequence[ScoringInput]) -> tuple[Floats, float]:
    """Return the log-probabilities of all targets, and the seconds; a short input before is not timed."""
    engine.compute_log_probs([ScoringInput(items[0].context_ids[:256], items[0].target_ids[:256])])
    began = time.perf_counter()
    return np.concatenate(engine.compute_log_probs(items)), time.perf_counter() - began


def compare(values: Floats, truth: Floats, limit: float) -> TableRow:
    """Return the differences of log-probabilities, judged by their root mean square in units of the spread."""
    apart = np.abs(values.astype(np.float64) - truth)
    cells = {"mean nats": f"{apart.mean():.2g}", "largest nats": f"{apart.max():.2g}"}
    return {**cells, **judge(float(np.sqrt(np.square(apart).mean()) / truth.std()), limit)}


def draw_ids(lm: LanguageModel, lengths: Sequence[int], rng: np.random.Generator) -> list[npt.NDArray[np.int64]]:
    """Return sequences of tokens: random ones, or those of the generated corpus if the model is a real one."""
    if isinstance(lm.tokenizer, NoTokenizer):
        return [rng.integers(lm.model.config.vocab_size, size=length) for length in lengths]
    number, ids = 0, cast("npt.NDArray[np.int64]", np.zeros(0, np.int64))
    while len(ids) < sum(lengths):
        ids = np.concatenate([ids, encode_text(lm.tokenizer, corpus.make_document(number))])
        number += 1
    return np.split(ids[: sum(lengths)], np.cumsum(lengths)[:-1])


def draw_inputs(
    lm: LanguageModel, sources: int, targets: int, lists: int, tokens: tuple[int, int]
) -> list[ScoringInput]:
    """Return targets alone, then after sources; each source is in the list of so many targets. Lengths vary by half."""
    rng = np.random.default_rng(0)
    counts = zip(tokens, (sources, targets), strict=True)
    drawn = draw_ids(lm, [int(mean * rng.uniform(0.5, 1.5)) for mean, count in counts for _ in range(count)], rng)
    after = [(s, (s * lists + i) % targets) for s in range(sources) for i in range(lists)]
    alone = [ScoringInput(np.zeros(1, np.int64), target) for target in drawn[sources:]]
    return [*alone, *(ScoringInput(drawn[s], drawn[sources + t]) for s, t in after)]


def measure_packed(bench: Bench) -> Iterator[TableRow]:
    """Yield a row for each engine and type, compared with the reference engine in float32 from the same weights."""
    lm = make_model(bench)
    items = draw_inputs(lm, 2, 3, 3, (40, 12)) if bench.is_tiny else draw_inputs(lm, 6, 4, 4, (3000, 700))
    low = [(REFERENCE, "bfloat16"), *(variant for variant in VARIANTS if variant[1] == "bfloat16")]
    runs: dict[tuple[str, str], tuple[Floats, float]] = {}

    def run(attention: str, dtype: str) -> TableRow:
        runs[attention, dtype] = score(make_engine(attention, lm), items)
        return {"s": f"{runs[attention, dtype][1]:.3g}", OUTCOME: "ok"}

    rows = []
    for attention, dtype in (*low, ("sdpa", "float32"), (REFERENCE, "float32")):
        if dtype == "float32":
            lm.model.float()  # the same numbers in a wider type
        cells = {"shape": bench.shape, "engine, attention": attention, "type": dtype}
        rows.append(attempt(cells, partial(run, attention, dtype), find_obstacle(attention, bench.device)))
        release(bench.device)
    truth = runs.get((REFERENCE, "float32"))
    for row in rows:
        key = row["engine, attention"], row["type"]
        limit = compute_limit(key[1], max(item.length for item in items), bench.sizes["num_hidden_layers"])
        yield {**row, **(compare(runs[key][0], truth[0], limit) if key in runs and truth else {})}


def measure_long(bench: Bench) -> Iterator[TableRow]:
    """Yield a row for each long packed row and attention, compared with the reference engine in the same type."""
    lm, rng = make_model(bench), np.random.default_rng(0)
    layers = lm.model.config.get_text_config().num_hidden_layers
    for name, (context_length, target_length, targets, budget) in LONG_ROWS[bench.is_tiny].items():
        context, *drawn = draw_ids(lm, [context_length, *[target_length] * targets], rng)
        items = [ScoringInput(context, target) for target in drawn]
        limit = 2 * compute_limit("bfloat16", context_length + target_length, layers)  # both sides are rounded
        truth: list[Floats] = []
        for attention in (REFERENCE, "sdpa", "varlen", "flash_attention_2"):
            cells = {"shape": bench.shape, "row": name, "engine, attention": attention}
            measure = partial(_measure_long, bench, lm, attention, budget, items, truth, limit)
            yield attempt(cells, measure, find_obstacle(attention, bench.device))
            release(bench.device)


def _measure_long(
    bench: Bench,
    lm: LanguageModel,
    attention: str,
    budget: int,
    items: list[ScoringInput],
    truth: list[Floats],
    limit: float,
) -> TableRow:
    engine = make_engine(attention, lm, budget)
    values, first = score(engine, items)
    if attention == REFERENCE:
        truth.append(values)
    again: list[float] = []
    taken = measure_memory(bench.device, lambda: again.append(score(engine, items)[1]))
    cells = {FIRST: f"{first:.3g} s", "s": f"{again[0]:.3g}", "GiB beside": f"{taken:.3g}"}
    return {**cells, **(compare(values, truth[0], limit) if truth else {OUTCOME: f"{FAILED}: nothing to compare with"})}


def measure_encode(bench: Bench) -> Iterator[TableRow]:
    """Yield a row of an encoder of Mistral's shape for equally long texts, and for a padded batch, which has a mask."""
    import torch
    import transformers

    shape, texts, tokens = (TINY_MISTRAL, 4, 60) if bench.is_tiny else (MISTRAL, 32, 1600)
    model_of: Any = transformers.AutoModel.from_config  # transformers' own functions have no types
    config_of: Any = transformers.MistralConfig
    torch.manual_seed(0)
    with torch.device(bench.device):
        model = model_of(config_of(**shape, use_cache=False), dtype=torch.bfloat16).eval().requires_grad_(False)
    if bench.device != "cpu":  # as `load_encoder` does
        use_fused_norms(model)
    for least in (tokens, tokens * 2 // 3):  # a sixth of padding is the most that a run's batch has
        for kernels, device in (("as in a run", bench.device), ("cuDNN's too", "cpu")):
            cells = {"width": f"{shape['hidden_size']:,}", "texts": str(texts), "tokens": f"{least:,} to {tokens:,}"}
            lengths = np.linspace(least, tokens, texts).astype(np.int64)
            measure = partial(_measure_encode, bench.device, model, lengths, permit_kernels(device))
            yield attempt({**cells, "kernels": kernels}, measure)
            release(bench.device)


def _measure_encode(
    device: str, model: Any, lengths: npt.NDArray[np.int64], kernels: AbstractContextManager[object]
) -> TableRow:
    import torch

    ids = torch.randint(model.config.vocab_size, (len(lengths), int(lengths.max())), device=device)
    ends = torch.from_numpy(lengths).to(device)

    def encode(ids: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        mask = (torch.arange(ids.shape[1], device=device) < ends[:, None]).long()
        hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
        return torch.nn.functional.normalize(hidden[torch.arange(len(ids)), ends - 1].float(), dim=-1)

    compute = partial(encode, ids, ends)
    with torch.inference_mode(), kernels:
        measure_seconds(lambda: encode(ids[:2, :16], ends[:2].clamp(max=16)), 1)  # loads the kernels
        first, seconds = measure_seconds(compute, 1), measure_seconds(compute)
        taken = measure_memory(device, compute)
        alone = torch.cat([encode(ids[i : i + 1, :end], ends[i : i + 1]) for i, end in enumerate(lengths.tolist())])
        error = float((compute() - alone).norm(dim=-1).max())
    cells = {FIRST: f"{first:.3g} s", "s": f"{seconds:.3g}", "tokens/s": f"{lengths.sum() / seconds:,.0f}"}
    limit = 2 * compute_limit("bfloat16", ids.shape[1], model.config.num_hidden_layers)  # both sides are rounded
    return {**cells, "GiB beside": f"{taken:.3g}", **judge(error, limit)}


def measure_norm(bench: Bench) -> Iterator[TableRow]:
    """Yield a row for each form of the norm, over the width of the model and over that of a head."""
    for width in (bench.sizes["hidden_size"], bench.sizes["head_dim"]):
        for name in ("transformers", "one kernel"):
            cells = {"shape": bench.shape, "width": f"{width:,}", "norm": name}
            yield attempt(cells, partial(_measure_norm, bench, width, name == "one kernel"))
            release(bench.device)


def _measure_norm(bench: Bench, width: int, fused: bool) -> TableRow:
    import torch
    from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

    torch.manual_seed(0)
    vectors = 64 if bench.is_tiny else BUDGET * bench.sizes["hidden_size"] // width
    norm = Qwen3RMSNorm(width, 1e-6).to(bench.device, torch.bfloat16).requires_grad_(False)
    norm.weight.copy_(torch.exp(torch.randn(width) * 0.8))
    hidden = torch.randn(vectors, width, device=bench.device, dtype=torch.bfloat16)
    if fused:
        use_fused_norms(norm)
    with torch.inference_mode():
        norm(hidden)
        seconds = measure_seconds(lambda: norm(hidden))
        wide = hidden[:4096].double()
        expected = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6) * norm.weight.double()
        apart = float(((norm(hidden[:4096]).double() - expected).abs() / expected.abs()).max())
    moved = 2 * hidden.numel() * hidden.element_size() / seconds / 1e9
    return {"ms": f"{1000 * seconds:.3g}", "GB/s": f"{moved:,.0f}", **judge(apart, 2 * ROUNDING["bfloat16"])}


def measure_load(bench: Bench) -> Iterator[TableRow]:
    """Yield a row of writing a checkpoint in shards, and of loading it as a run does."""
    yield attempt({"shape": bench.shape}, partial(_measure_load, bench))


def _measure_load(bench: Bench) -> TableRow:
    lm = make_model(bench)
    expected = float(lm.model.get_output_embeddings().weight.float().sum())
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        lm.model.save_pretrained(folder, max_shard_size="20KB" if bench.is_tiny else "4GB")
        written = time.perf_counter() - began
        sizes = [path.stat().st_size for path in Path(folder).glob("*.safetensors")]
        lm = replace(lm, model=None)
        release(bench.device)
        settings, began = ModelSettings(name=bench.shape, dtype="bfloat16"), time.perf_counter()
        fingerprint = fingerprint_weights(Path(folder))
        hashed, began = time.perf_counter() - began, time.perf_counter()
        loaded = load_model(Path(folder), settings, bench.device, fingerprint=fingerprint, tokenizer=lm.tokenizer)
        seconds = time.perf_counter() - began
    same = float(loaded.model.get_output_embeddings().weight.float().sum()) == expected
    outcome = "ok: the same weights" if same else f"{FAILED}: other weights"
    cells = {"GiB": f"{sum(sizes) / GIB:.1f}", "shards": str(len(sizes)), "write, s": f"{written:.3g}"}
    return {**cells, "fingerprint, s": f"{hashed:.3g}", "load, s": f"{seconds:.3g}", OUTCOME: outcome}


def measure_overlap(bench: Bench) -> Iterator[TableRow]:
    """Yield a row for each number of lists that a source is in: speed beside the reference engine, and MFU."""
    lm = make_model(bench)
    tokens = (40, 12) if bench.is_tiny else (300, 100) if bench.device == "cpu" else (3000, 1000)
    attention = "sdpa" if find_obstacle("varlen", bench.device) else "varlen"
    for lists in (1, 2) if bench.is_tiny else (1, 2, 4, 7, 16):
        items = draw_inputs(lm, max(1, 64 // lists), 16, lists, tokens)
        cells = {"model": lm.name, "attention": attention, "lists a source": str(lists)}
        yield attempt(cells, partial(_measure_overlap, bench, lm, attention, items))
        release(bench.device)


def _measure_overlap(bench: Bench, lm: LanguageModel, attention: str, items: list[ScoringInput]) -> TableRow:
    engine, other = make_engine(attention, lm), make_engine(REFERENCE, lm)
    repeats = REPEATS if bench.device == "cpu" else 1  # other work on a processor disturbs single runs by a quarter
    runs = [(score(engine, items), score(other, items)) for _ in range(repeats)]
    (values, _), (truth, _) = runs[0]
    seconds, reference = (min(run[side][1] for run in runs) for side in (0, 1))
    lengths = [item.length for item in items]
    layers, dtype = lm.model.config.get_text_config().num_hidden_layers, str(lm.model.dtype).removeprefix("torch.")
    cells = {"tokens/s": f"{sum(lengths) / seconds:,.0f}", "ratio": f"{reference / seconds:.3g}"}
    name = "" if bench.device == "cpu" else describe_device(bench.device)
    for known, peak in PEAK_TFLOPS.items():
        if known in name:
            cells["MFU"] = f"{count_operations(lm, engine.tokens, items) / seconds / peak / 1e12:.3g}"
    # both sides are rounded
    return {**cells, **compare(values, truth, 2 * compute_limit(dtype, max(lengths), layers))}


def count_operations(lm: LanguageModel, tokens: int, items: Sequence[ScoringInput]) -> float:
    """Return the multiplications and additions of the weights for the tokens that were computed, attention left out."""
    decoder, head = get_decoder_and_head(lm.model)
    matrices = sum(p.numel() for p in decoder.parameters() if p.ndim == 2)
    matrices -= decoder.get_input_embeddings().weight.numel()
    return float(2 * matrices * tokens + 2 * head.weight.numel() * sum(len(item.target_ids) for item in items))


def measure_dense(bench: Bench) -> Iterator[TableRow]:
    """Yield a row of the dense search for 10,000 query vectors, the first of them compared with the CPU's."""
    width, count, units = (32, 3000, 20) if bench.is_tiny else (bench.sizes["hidden_size"], 600_000, 10_000)
    cells = {"width": f"{width:,}", "vectors": f"{count:,}", "query vectors": f"{units:,}"}
    yield attempt(cells, partial(_measure_dense, bench.device, width, count, units))


def _measure_dense(device: str, width: int, count: int, units: int) -> TableRow:
    from benchmarks import dense

    queries = dense.draw_queries(units, width)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.f16"
        dense.write_vectors(count, queries, path)
        dense.search(queries[:4], path, device)
        began = time.perf_counter()
        result = dense.search(queries, path, device)
        seconds = time.perf_counter() - began
        expected = dense.search(queries[:1000], path)
    different = sum(a != b for a, b in zip(result, expected))
    return {"s": f"{seconds:.3g}", OUTCOME: f"{FAILED}: {different} differ" if different else "ok: identical"}


def measure_preflight(bench: Bench) -> Iterator[TableRow]:
    """Yield a row for each check of the command that tries a machine, with the bundled models."""
    with tempfile.TemporaryDirectory() as folder:
        done = run_command(["preflight", "--output", "log", "--profile", "offline"], folder, bench.device)
    lines = (done.stdout.strip() or done.stderr.strip() or "no message").replace("|", "/").splitlines()
    for line in lines[:-1]:
        outcome, _, rest = line.partition(" ")
        check, _, text = rest.strip().partition(": ")
        yield {"check": check, "result": text, OUTCOME: "ok" if outcome == "ok" else FAILED}
    yield {"check": "all", "result": lines[-1], OUTCOME: FAILED if done.returncode else "ok"}


def measure_runs(bench: Bench) -> Iterator[TableRow]:
    """Yield a row for each whole command, from files to a result."""
    pairs, queries = (str(ROOT / "examples" / name) for name in ("pan25-pairs/test", "pan26-retrieval"))
    commands = {
        "demo": ["demo"],
        "pairs by gains": ["run", "--input", pairs, "--output", "pairs", "--profile", "scdg-mini"],
        "retrieval": ["run", "--input", queries, "--output", "queries", "--limit", "3"],
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, words in commands.items():
            yield attempt({"command": name}, partial(_run, words, folder, bench.device))


def _run(words: list[str], folder: str, device: str) -> TableRow:
    began = time.perf_counter()
    done = run_command(words, folder, device)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
    return {"s": f"{time.perf_counter() - began:.1f}", OUTCOME: "ok"}


def run_command(words: list[str], folder: str, device: str) -> "subprocess.CompletedProcess[str]":
    """Run a command of the package in a folder, on a device."""
    line = [sys.executable, str(ROOT / "entrypoint.py"), *words, "--device", device]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)


PARTS: dict[str, Callable[[Bench], Iterator[TableRow]]] = {
    "preflight": measure_preflight,
    "attention": measure_attention,
    "packed": measure_packed,
    "norm": measure_norm,
    "overlap": measure_overlap,
    "encode": measure_encode,
    "long": measure_long,
    "load": measure_load,
    "dense": measure_dense,
    "head": measure_head,
    "runs": measure_runs,
}
"""In the order of what they are worth to the first who runs a submission: benchmarks/README.md."""
LARGEST_SHAPE_ONLY = ("preflight", "long", "encode", "load", "overlap", "dense", "runs")


def measure_part(name: str, shapes: Sequence[str], device: str, model: str | None) -> list[TableRow]:
    """Return the rows of a part for all shapes; where a shape fails as a whole, a row says so."""
    rows: list[TableRow] = []
    for shape in shapes[-1:] if name in LARGEST_SHAPE_ONLY else shapes:
        try:
            rows += PARTS[name](Bench(shape, device, model))
        except Exception as e:  # no memory for the model of a shape, say
            rows.append({"shape": shape, OUTCOME: describe_failure(e)})
        release(device)
    return rows


def describe_run(device: str, command: str, commit: str) -> str:
    """Return the head of a section: date, device, commit, versions, driver, command."""
    import torch

    name = "CPU" if device == "cpu" else describe_device(device)
    facts = [f"{package} {_find_version(package)}" for package in ("torch", "transformers", "flash-attn", "numpy")]
    threads, cuda = torch.get_num_threads(), torch.version.cuda
    facts.append(f"{threads} threads" if device == "cpu" else f"CUDA {cuda}, driver {find_driver()}")
    return f"\n## {datetime.date.today()}: {name}, commit {commit}\n\n{', '.join(facts)}.\n\n    {command}\n"


def read_commit() -> str:
    """Return the commit of this checkout."""
    words = ["git", "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):  # the image has no git
        return "unknown"


def _find_version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


@click.command(help=__doc__)
@click.option("--part", "parts", multiple=True, type=click.Choice(list(PARTS)), help="default: all")
@click.option("--device", default="cuda", show_default=True)
@click.option("--shape", "shapes", multiple=True, type=click.Choice(list(SHAPES)), help="default: both of Qwen3")
@click.option("--model", help="Name of a real model, for the part overlap.")
@click.option("--page", type=click.Path(dir_okay=False, path_type=Path), help="default on a GPU: the results file")
@click.option("--commit", help="for a copy without its repository; default: what git says")
def main(
    parts: tuple[str, ...],
    device: str,
    shapes: tuple[str, ...],
    model: str | None,
    page: Path | None,
    commit: str | None,
) -> None:
    import torch

    check_device_exists(device, computes=True)
    torch.set_float32_matmul_precision("highest")
    page = page or (None if device == "cpu" else PAGE)
    words = [f"--part {name}" for name in parts] + [f"--shape {name}" for name in shapes]
    command = " ".join(["python -m benchmarks.gpu", f"--device {device}", *words])
    text, failed = describe_run(device, command, commit or read_commit()), 0
    for name in parts or PARTS:
        began = time.perf_counter()
        rows = measure_part(name, shapes or ("qwen3-0.6b", "qwen3-8b"), device, model)
        columns = [*dict.fromkeys(column for row in rows for column in row if column != OUTCOME), OUTCOME]
        text += f"\n### {name}, {time.perf_counter() - began:.0f} s\n\n"
        text += f"{format_rows(columns, [[row.get(c, '') for c in columns] for row in rows])}\n"
        failed += sum(row[OUTCOME].startswith(FAILED) for row in rows)
        click.echo(text, nl=False)
        if page is not None:
            with page.open("a", encoding="utf-8") as file:
                file.write(text)
        text = ""
    if failed:
        click.echo(f"{failed} rows failed", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
