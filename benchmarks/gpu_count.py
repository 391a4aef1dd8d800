"""Count what a GPU computes for a task, on tensors without numbers, and model its time: no GPU is needed.

Operations of products and of attention, and the bytes that all other operations read and write, are counted call by
call at the full shapes of the paper's models. The time is modelled: each kind of work takes an assumed share of what
NVIDIA publishes. The norm is counted as transformers writes it and as one kernel.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

import click
import numpy as np
import torch
import transformers
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import masking_utils

from benchmarks.gpu import BUDGET, MISTRAL, SHAPES
from benchmarks.pairs import format_rows
from pan_scdg.lm import attention, engine
from pan_scdg.lm.engine import PackedEngine
from pan_scdg.lm.logprobs import gather_log_softmax
from pan_scdg.models.load import LanguageModel
from pan_scdg.models.norms import NORMS, use_fused_norms
from pan_scdg.scdg.sequences import ScoringInput


class Card(NamedTuple):
    """The rates and the memory of a GPU, by NVIDIA's data sheets."""

    peak: float
    """Dense operations in bfloat16 a second."""
    bandwidth: float
    """Bytes of memory a second."""
    attention: float
    """Share of the peak that FlashAttention-2 is assumed to reach; it was written for the generation of the A100."""


CARDS = {
    "H200 (141 GB)": Card(989e12, 4.8e12, 0.38),
    "H100 (80 GB)": Card(989e12, 3.35e12, 0.38),
    "A100 (80 GB)": Card(312e12, 2.04e12, 0.6),
    "A100 (40 GB)": Card(312e12, 1.555e12, 0.6),
    "L40S (48 GB)": Card(362e12, 0.864e12, 0.6),
    "RTX 4090 (24 GB)": Card(165e12, 1.008e12, 0.6),
}
"""H100, H200 and A100 are SXM modules."""
SHARES = {"products": 0.70, "bytes": 0.85}
"""Assumed: what is reported of cuBLAS in bfloat16 on an H100, and of plain copies."""
FORMS = {
    "transformers": (False, CARDS["H100 (80 GB)"].attention),
    "one kernel": (True, CARDS["H100 (80 GB)"].attention),
    "one kernel, and FlashAttention-3": (True, 0.65),
}
"""Whether norms are computed by one kernel, and the share of the peak that attention is assumed to reach."""
TASKS = {"query of 4,700 tokens alone": (1, 4_700, 1), "source of 8,000 with two queries": (8_000, 4_700, 2)}
"""Tokens of the context and of each target, and number of targets."""
DOCUMENTS = (32, 1_600)
"""Texts and tokens of a batch of the encoder."""
ROWS_ONLY = ("embedding", "gather")
"""Operations that read a few rows of a large tensor."""
CORPUS, QUERIES, CANDIDATES = 86_822, 200, 1_000
"""Of PAN 2026."""
CHUNKS = 8
"""Texts of a document that an index encodes."""
PAIRS, PAPERS, PAPER_TOKENS = 7_976, 13_500, 18_900
"""Of PAN 2025; 9,000 words of 2.1 tokens."""
MODELS: dict[str, dict[str, Any]] = {
    "Qwen3-8B": SHAPES["qwen3-8b"],
    "Qwen3-4B": SHAPES["qwen3-8b"] | {"hidden_size": 2560, "intermediate_size": 9728, "tie_word_embeddings": True},
    "Qwen3-1.7B": SHAPES["qwen3-0.6b"] | {"hidden_size": 2048, "intermediate_size": 6144},
    "Qwen3-0.6B": SHAPES["qwen3-0.6b"],
}
BGE_M3 = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16}


class Count(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the work that is done inside of it: operations by kind, and bytes by part of the model."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.work: Counter[str] = Counter()
        self.part = "other elementwise"

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket is torch.ops.aten.linear:
            self.work["products"] += 2 * out.numel() * args[0].shape[-1]
            return out
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        storages = {t.untyped_storage()._cdata for t in tensors}
        made = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor)]
        new = [t for t in made if t.untyped_storage()._cdata not in storages]
        if "attn" in str(func) or "attention" in str(func) or not (new or func._schema.is_mutable):
            return out  # attention is counted by its spans, and a view costs nothing
        few = func.overloadpacket.__name__ in ROWS_ONLY
        self.work[self.part] += sum(t.nbytes for t in ([*new, *new] if few else [*tensors, *(new or made)]))
        self.work["kernels"] += 1
        return out

    def attend(self, spans: Iterator[tuple[int, int]], causal: bool, heads: int, width: int) -> None:
        """Add the attention of spans of queries to spans of keys."""
        pairs = sum(n * m for n, m in spans) * (0.5 if causal else 1)
        self.work["attention"] += round(4 * heads * width * pairs)

    @contextmanager
    def within(self, part: str) -> Iterator[None]:
        """Count bytes to a part of the model."""
        before, self.part = self.part, part
        yield
        self.part = before


@contextmanager
def fake_gpu(count: Count) -> Iterator[None]:
    """Give torch a GPU on which nothing is computed, and count its attention."""
    plain, backend = torch.ops.aten._scaled_dot_product_flash_attention, attention.BACKENDS["varlen"]

    def attend_plain(q: Any, k: Any, v: Any, attn_mask: Any = None, *_: Any, **options: Any) -> Any:
        if attn_mask is not None:
            raise ValueError("the language model's own attention has a mask")
        causal = options["is_causal"]
        count.attend(iter([(q.shape[2], q.shape[2])] * len(q)), causal, q.shape[1], q.shape[3])
        return plain(q, k, v, 0.0, causal, False, scale=options.get("scale"))[0]

    def attend_packed(q: Any, k: Any, v: Any, spans_q: Any, spans_k: Any, causal: bool, scale: float) -> Any:
        count.attend(zip(spans_q.lengths, spans_k.lengths), causal, *q.shape[1:])
        return backend(q, k, v, spans_q, spans_k, causal, scale)

    def score_counted(logits: Any, ids: Any) -> Any:
        with count.within("softmax of the head"):
            return gather_log_softmax(logits, ids)

    with ExitStack() as stack:
        for patched in (
            patch.object(torch.cuda, "get_device_capability", lambda *_: (9, 0)),
            patch.object(FakeTensor, "numpy", lambda self: np.full(tuple(self.shape), -1, np.float32)),
            patch.object(masking_utils, "_ignore_causal_mask_sdpa", lambda *_, **__: True),
            patch.object(torch.nn.functional, "scaled_dot_product_attention", attend_plain),
            patch.object(engine, "reads_square", lambda *_: True),
            patch.object(engine, "gather_log_softmax", score_counted),
            patch.dict(attention.BACKENDS, {"varlen": attend_packed}),
        ):
            stack.enter_context(patched)
        stack.enter_context(FakeTensorMode())
        yield


def make_model(sizes: dict[str, Any], config_of: Any, model_of: Any, fused: bool, count: Count, layers: int) -> Any:
    """Return layers of a model in bfloat16 without numbers, whose norms are counted as a part of their own."""
    with torch.device("cuda"):
        config = config_of(**{**sizes, "num_hidden_layers": layers}, max_position_embeddings=1 << 17, use_cache=False)
        model = model_of.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa").eval()
    if fused:
        use_fused_norms(model)
    for layer in model.modules():
        if type(layer).__name__ in NORMS:
            forward = layer.forward

            def counted(*inputs: Any, forward: Callable[..., Any] = forward) -> Any:
                with count.within("norm"):
                    return forward(*inputs)

            vars(layer)["forward"] = counted
    return model.requires_grad_(False)


def score_task(
    task: tuple[int, int, int], fused: bool, layers: int, sizes: dict[str, Any] = MODELS["Qwen3-8B"]
) -> tuple[int, Counter[str]]:
    """Return the tokens and the work of a task of the language model with so many layers."""
    count = Count()
    with fake_gpu(count):
        qwen = partial(transformers.Qwen3Config, use_sliding_window=False)
        model = make_model(sizes, qwen, transformers.AutoModelForCausalLM, fused, count, layers)
        packed = PackedEngine(LanguageModel(None, model, "cuda", "", ""), "varlen", BUDGET)  # type: ignore[arg-type]
        count.work.clear()
        context, target, targets = task
        item = ScoringInput(np.zeros(context, np.int64), np.zeros(target, np.int64))
        with count:
            packed.compute_log_probs([item] * targets)
    return packed.tokens, count.work


def encode_batch(fused: bool, layers: int, shape: tuple[int, int] = DOCUMENTS) -> tuple[int, Counter[str]]:
    """Return the tokens and the work of a batch of Linq-Embed-Mistral with so many layers."""
    count = Count()
    with fake_gpu(count):
        model = make_model(MISTRAL, transformers.MistralConfig, transformers.AutoModel, fused, count, layers)
        ids = torch.zeros(shape, dtype=torch.int64, device="cuda")
        with count, torch.inference_mode():
            model(input_ids=ids, attention_mask=torch.ones_like(ids))
    return math.prod(shape), count.work


def encode_with_bge_m3(layers: int) -> tuple[int, Counter[str]]:
    """Return the tokens and the work of a batch of the layers of BGE-M3."""
    count = Count()
    with fake_gpu(count):
        model = make_model(BGE_M3, transformers.XLMRobertaConfig, transformers.AutoModel, False, count, layers)
        hidden = torch.zeros(*DOCUMENTS, BGE_M3["hidden_size"], dtype=torch.bfloat16, device="cuda")
        with count, torch.inference_mode():
            model.encoder(hidden)
    return math.prod(DOCUMENTS), count.work


def extrapolate(measure: Callable[[int], tuple[int, Counter[str]]], layers: int) -> tuple[int, Counter[str]]:
    """Return the work of a whole model, from that of one layer and of two, since all layers are alike."""
    (tokens, one), (_, two) = measure(1), measure(2)
    return tokens, Counter({kind: one[kind] + (layers - 1) * (two[kind] - one[kind]) for kind in two})


def count_seconds(work: Counter[str], card: Card) -> float:
    """Return the modelled time of counted work."""
    moved = sum(work[part] for part in ("norm", "other elementwise", "softmax of the head"))
    seconds = work["products"] / SHARES["products"] + work["attention"] / card.attention
    return seconds / card.peak + moved / (card.bandwidth * SHARES["bytes"])


def list_rows() -> Iterator[list[str]]:
    """Yield a row for each task and form of norm and attention."""
    shapes = {
        **dict.fromkeys(TASKS, SHAPES["qwen3-8b"]["num_hidden_layers"]),
        "encoder": MISTRAL["num_hidden_layers"],
    }
    for name, layers in shapes.items():
        for form, (fused, reached) in FORMS.items():
            task = partial(score_task, TASKS[name], fused) if name in TASKS else partial(encode_batch, fused)
            tokens, work = extrapolate(task, layers)
            cells = [name if name in TASKS else "batch of 32 documents of 1,600", form]
            cells += [f"{work[kind] / 1e12:,.0f}" for kind in ("products", "attention")]
            cells += [f"{work[part] / 1e9:,.0f}" for part in ("norm", "other elementwise", "softmax of the head")]
            for card in (CARDS["H100 (80 GB)"], CARDS["H200 (141 GB)"]):
                seconds = count_seconds(work, card._replace(attention=reached))
                share = (work["products"] + work["attention"]) / seconds / card.peak
                cells += [f"{tokens / seconds:,.0f}", f"{share:.0%}"]
            yield cells


def count_scores(name: str, tasks: Iterable[tuple[float, tuple[int, int, int]]]) -> Counter[str]:
    """Return the work of numbers of tasks of a language model."""
    sizes, total = MODELS[name], Counter[str]()
    for number, task in tasks:
        compute = partial(score_task, task, True, sizes=sizes)
        total += multiply(extrapolate(compute, sizes["num_hidden_layers"])[1], number)
    return total


def list_candidates(scored: int) -> list[tuple[float, tuple[int, int, int]]]:
    """Return the tasks of so many candidates a query, each document a candidate of a query as likely as any other.

    Sources have 8,000 tokens and queries 4,700.
    """
    sources = CORPUS * (1 - (1 - scored / CORPUS) ** QUERIES)
    few, more = divmod(scored * QUERIES / sources, 1)
    tasks = [(sources * (1 - more), (8_000, 4_700, int(few))), (sources * more, (8_000, 4_700, int(few) + 1))]
    return [(QUERIES, (1, 4_700, 1)), *tasks]


def multiply(work: Counter[str], number: float) -> Counter[str]:
    """Return the work of a number of tasks."""
    return Counter({kind: round(number * value) for kind, value in work.items()})


def list_hours() -> Iterator[list[str]]:
    """Yield a row of hours on each card for each kind of profile."""
    layers = MISTRAL["num_hidden_layers"]
    batches = CORPUS * CHUNKS / DOCUMENTS[0]
    linq = multiply(extrapolate(partial(encode_batch, True), layers)[1], batches)
    bge = multiply(extrapolate(encode_with_bge_m3, BGE_M3["num_hidden_layers"])[1], batches)
    papers = multiply(
        extrapolate(partial(encode_batch, True, shape=(4, 4_096)), layers)[1], PAPERS * PAPER_TOKENS / (4 * 4_096)
    )
    rows = {"PAN 2025, Linq-Embed-Mistral": papers}
    for name in MODELS:
        half = PAPER_TOKENS if name == "Qwen3-8B" else 16_384  # the smaller models read 32,768 tokens
        rows[f"PAN 2025, {name}"] = count_scores(name, [(PAIRS, (half, half, 1)), (PAIRS, (1, half, 1))])
    rows |= {"PAN 2026, index with Linq-Embed-Mistral": linq, "PAN 2026, index with BGE-M3": bge}
    for name, scored in [("Qwen3-8B", 200), *((name, CANDIDATES) for name in MODELS)]:
        rows[f"PAN 2026, {name}, {scored:,} candidates"] = count_scores(name, list_candidates(scored))
    alone = [(QUERIES, (1, 4_700, 1)), (QUERIES * CANDIDATES, (8_000, 4_700, 1))]
    rows["PAN 2026, Qwen3-8B, 1,000 candidates, no source shared"] = count_scores("Qwen3-8B", alone)
    for name, work in rows.items():
        operations = (work["products"] + work["attention"]) / 1e18
        yield [name, f"{operations:.1f}", *(f"{count_seconds(work, card) / 3600:.1f}" for card in CARDS.values())]


@click.command(help=__doc__)
def main() -> None:
    head = [
        "task",
        "norm",
        "products, TFLOP",
        "attention, TFLOP",
        "norm, GB",
        "other elementwise, GB",
        "softmax of the head, GB",
    ]
    head += [cell for card in ("H100", "H200") for cell in (f"tokens/s {card}", f"share of peak {card}")]
    click.echo(format_rows(head, list(list_rows())))
    click.echo("\n" + format_rows(["work", "EFLOP", *(f"hours, {card}" for card in CARDS)], list(list_hours())))


if __name__ == "__main__":
    main()
