"""The default engine beside the reference: ``python -m benchmarks.scoring [--task retrieval|pairs]``.

Both score the same inputs in one process on the same threads, group by group in turn; what comes first is not timed.
``retrieval``: every source is in several queries' lists (--overlap N gives the number of documents that makes N lists
a source, several times a row for each). ``pairs``: short pairs that have nothing in common. --scale 1,2,4,8 adds what
the default engine takes for these multiples of the pairs, --long N the memory of one pair of N tokens. --shape measures
an architecture with random weights, for instance on a GPU

    python -m benchmarks.scoring --device cuda --shape qwen3-8b --attention varlen --long 32768
    --queries 16 --candidates 4 --overlap 2 --overlap 4 --overlap 7 --overlap 16

`ratio` is that of the times. `token_ratio`, that of the tokens which go through the model, is what it would be if each
took the same time, and `share` how much of it is reached; `flop_ratio`, that of the operations, also weighs the keys
that a token sees and the output head, which reuse does not save. `cpu_ratio` is that of processor times.

The last line is one JSON object. Its figures are those of the row with the smallest share; `rows` has all of them.
Differences are in nats; Top-2 % is what a candidate is scored by, and its rank correlation is the mean over queries.
Peak memory is the whole process's on a CPU, and on a GPU the default engine's beside the weights.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import click
import numpy as np

from benchmarks.device_memory import Memory
from benchmarks.scoring_inputs import Lengths, Unit, candidate_lists, long_unit, pair_units, retrieval_units
from benchmarks.scoring_measure import GIB, Side, compared, in_turn, long_memory
from benchmarks.scoring_models import SHAPES, peak_flops, shaped
from pan_scdg.lm.attention import BACKENDS
from pan_scdg.lm.engine import PackedEngine, ReferenceEngine
from pan_scdg.models.find import find_model
from pan_scdg.models.load import LanguageModel, load_model
from pan_scdg.profile import ModelSettings, load_profile

COLUMNS = {
    "overlap": "lists a source",
    "pairs": "pairs",
    "ratio": "ratio",
    "token_ratio": "by tokens",
    "flop_ratio": "by operations",
    "share": "share",
    "cpu_ratio": "by CPU time",
    "tokens_per_second": "tokens/s",
    "pairs_per_second": "pairs/s",
    "max_gain_difference": "max difference",
    "peak_memory_gib": "GiB",
    "mfu": "MFU",
}


class Task(NamedTuple):
    """Kind, number and lengths of the inputs to score."""

    kind: str
    lengths: Lengths
    queries: int
    candidates: int
    pairs: int
    seed: int

    def units(self, lm: LanguageModel, budget: int, documents: int, factor: int = 1) -> list[Unit]:
        """The inputs, or ``factor`` times as many queries and documents, or pairs."""
        if self.kind == "pairs":
            return list(pair_units(lm.tokenizer, self.pairs * factor, self.lengths, budget, self.seed))
        rng = np.random.default_rng(self.seed)
        lists = candidate_lists(self.queries * factor, self.candidates, documents * factor, rng)
        return list(retrieval_units(lm.tokenizer, lists, self.lengths, budget, self.seed))


def model_of(settings: ModelSettings, shape: str | None, device: str) -> LanguageModel:
    """The profile's model, or one of that shape."""
    if shape is not None:
        return shaped(shape, settings, device)
    return load_model(find_model(settings.name).folder, settings, device)


def engines(lm: LanguageModel, settings: ModelSettings) -> tuple[Side, Side]:
    """The default engine and the reference, with clocks at zero."""
    memory = Memory(lm.device)
    packed = PackedEngine(lm, settings.attention, settings.pack_tokens, settings.head_rows)
    return Side(packed, memory), Side(ReferenceEngine(lm, settings.head_rows), memory)


def warm(sides: Sequence[Side], units: Sequence[Unit]) -> None:
    """Score the first and the last unit, an unconditional and a conditional one, and forget it."""
    for side in sides:
        for unit in (units[0], units[-1]):
            side.score(unit)
        side.clear()


def scaled(lm: LanguageModel, settings: ModelSettings, task: Task, documents: int, factor: int) -> dict[str, Any]:
    """Return the time of the default engine for ``factor`` times the pairs."""
    units = task.units(lm, settings.pack_tokens, documents, factor)
    packed, _ = engines(lm, settings)
    warm([packed], units)
    for unit in units:
        packed.score(unit)
    pairs = len(packed.gains())
    return {"factor": factor, "pairs": pairs, "seconds": packed.seconds, "ms_per_pair": 1000 * packed.seconds / pairs}


def print_table(rows: Sequence[dict[str, Any]], columns: dict[str, str]) -> None:
    """A line for each row, with those columns that it has."""
    shown = {key: title for key, title in columns.items() if key in rows[0]}
    click.echo("".join(f"{title:>16}" for title in shown.values()))
    for row in rows:
        click.echo("".join(f"{row[key]:>16,}" if isinstance(row[key], int) else f"{row[key]:>16,.4g}" for key in shown))


def documents_of(overlaps: Sequence[float], documents: int, task: Task) -> list[int]:
    """Return the number of documents of each row.

    Raises:
        UsageError: they are fewer than the candidates of a query.
    """
    found = [round(task.queries * task.candidates / overlap) for overlap in overlaps] or [documents]
    if task.kind == "retrieval" and min(found) < task.candidates:
        raise click.UsageError(
            f"{task.candidates} candidates a query of {min(found)} documents: more queries are needed"
        )
    return found if task.kind == "retrieval" else [0]


def _numbers(_context: click.Context, _option: click.Parameter, text: str | None) -> list[int]:
    try:
        found = [int(part) for part in (text or "").split(",") if part]
    except ValueError as e:
        raise click.BadParameter(f"{text} is not a list of whole numbers") from e
    if any(number < 1 for number in found):
        raise click.BadParameter("numbers are 1 or more")
    return found


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def place(device: str) -> dict[str, Any]:
    """Device, threads and versions."""
    import torch
    import transformers

    name = "cpu" if device == "cpu" else torch.cuda.get_device_name(device)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    return {"device": name, "threads": torch.get_num_threads(), **versions}


@click.command(help=__doc__)
@click.option("--task", "kind", default="retrieval", show_default=True, type=click.Choice(["retrieval", "pairs"]))
@click.option("--profile", default="scdg-mini", show_default=True, help="whose model and settings")
@click.option("--shape", type=click.Choice(list(SHAPES)), help="random weights in place of the profile's model")
@click.option("--device", default="cpu", show_default=True)
@click.option("--queries", default=20, show_default=True, type=click.IntRange(1))
@click.option("--candidates", default=100, show_default=True, type=click.IntRange(1), help="of each query")
@click.option("--documents", default=300, show_default=True, type=click.IntRange(1))
@click.option("--overlap", "overlaps", multiple=True, type=click.FloatRange(1), help="lists a source, for --documents")
@click.option("--pairs", default=256, show_default=True, type=click.IntRange(1), help="of the task pairs")
@click.option("--source-tokens", type=click.IntRange(1), help="default: 300 on a CPU, 9,000 on a GPU, pairs 100")
@click.option("--target-tokens", type=click.IntRange(1), help="default: 100 on a CPU, 3,000 on a GPU, pairs 60")
@click.option("--spread", default=0.5, show_default=True, type=click.FloatRange(0, 1), help="of lengths, up and down")
@click.option("--scale", callback=_numbers, help="for instance 1,2,4,8")
@click.option("--long", "long_tokens", type=click.IntRange(16), help="tokens")
@click.option("--dtype", type=click.Choice(["float32", "bfloat16", "float16"]), help="default: the profile's")
@click.option("--attention", type=click.Choice(list(BACKENDS)), help="default: the profile's")
@click.option("--pack-tokens", type=click.IntRange(1), help="default: the profile's")
@click.option("--threads", type=click.IntRange(1))
@click.option("--peak-tflops", type=click.FloatRange(0, min_open=True), help="of the GPU; known for A100, H100, H200")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
def main(
    kind: str,
    profile: str,
    shape: str | None,
    device: str,
    queries: int,
    candidates: int,
    documents: int,
    overlaps: tuple[float, ...],
    pairs: int,
    source_tokens: int | None,
    target_tokens: int | None,
    spread: float,
    scale: list[int],
    long_tokens: int | None,
    dtype: str | None,
    attention: str | None,
    pack_tokens: int | None,
    threads: int | None,
    peak_tflops: float | None,
    seed: int,
) -> None:
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    source, target = (100, 60) if kind == "pairs" else (300, 100) if device == "cpu" else (9000, 3000)
    task = Task(
        kind, Lengths(source_tokens or source, target_tokens or target, spread), queries, candidates, pairs, seed
    )
    sizes = documents_of(overlaps, documents, task)
    chosen = {"dtype": dtype, "attention": attention, "pack_tokens": pack_tokens}
    settings = load_profile(profile).need_model()
    settings = settings.model_copy(update={key: value for key, value in chosen.items() if value is not None})
    peak = peak_flops(device, peak_tflops)
    lm = model_of(settings, shape, device)
    # First of all: a process's peak is never forgotten.
    packed, _ = engines(lm, settings)
    long = None if long_tokens is None else long_memory(packed, long_unit(lm.tokenizer, long_tokens, seed)) / GIB
    rows = []
    for size in sizes:
        units = task.units(lm, settings.pack_tokens, size)
        packed, reference = engines(lm, settings)
        warm([packed, reference], units)
        in_turn([packed, reference], units)
        overlap = {} if kind == "pairs" else {"documents": size, "overlap": queries * candidates / size}
        rows.append({**overlap, **compared(packed, reference, lm, units, peak)})
    print_table(rows, COLUMNS)
    result = {**min(rows, key=lambda row: row["share"]), "rows": rows}
    if scale:
        result["scale"] = [scaled(lm, settings, task, sizes[0], factor) for factor in scale]
        print_table(result["scale"], {"factor": "times", "pairs": "pairs", "seconds": "s", "ms_per_pair": "ms a pair"})
    if long is not None:
        click.echo(f"one pair of {long_tokens:,} tokens: {long:.2f} GiB")
        result.update({"long_tokens": long_tokens, "long_memory_gib": long})
    result |= {"task": kind, "model": lm.name, "source_tokens": task.lengths.source, "spread": spread}
    result |= {"target_tokens": task.lengths.target, **settings.model_dump(include=set(chosen)), **place(device)}
    if kind == "retrieval":
        result |= {"queries": queries, "candidates": candidates}
    click.echo(json.dumps(_rounded(result)))


if __name__ == "__main__":
    main()
