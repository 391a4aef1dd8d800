"""Both engines by the number of candidate lists that a source is in; a part of ``benchmarks.gpu``.

Queries and candidates as in ``benchmarks.scoring``, of which this is a short form with a model of random weights in
bfloat16. Besides speed: the share of a 16-bit GPU's peak that is reached (MFU, of the operations that are needed at
least), and the share of the time in which the device computes nothing, by torch's profiler on a part of the inputs.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from benchmarks.device_memory import Memory
from benchmarks.gpu_engines import BUDGET, REFERENCE, compare, make_engine, make_model
from benchmarks.gpu_rows import OUTCOME, Part, Row, attempt, find_obstacle, model_limit, release
from benchmarks.scoring_models import SHAPES, peak_flops
from pan_scdg.models.load import LanguageModel

if TYPE_CHECKING:
    from benchmarks.scoring_inputs import Unit
    from benchmarks.scoring_measure import Side

PROFILED = 4
"""Units of the last sources, which are profiled."""
GOAL, GOAL_OVERLAP = 0.5, 2
"""The MFU that is wanted on an H200 where a source is in that many lists or more."""


class Sizes(NamedTuple):
    """Queries, candidates of each, mean tokens of a source and a query, and the numbers of lists a source."""

    queries: int
    candidates: int
    source_tokens: int
    target_tokens: int
    overlaps: tuple[int, ...]


TINY, FULL = Sizes(4, 2, 40, 12, (1, 2)), Sizes(16, 4, 3000, 1000, (1, 2, 4, 7, 16))
SPREAD = 0.5
"""Lengths vary by that share, up and down."""


def measure_rows(shape: str, device: str) -> Iterator[Row]:
    """Yield a row for each number of lists, with the fastest attention that the device has."""
    lm, sizes = make_model(shape, device), TINY if shape == "tiny" else FULL
    attention = "sdpa" if find_obstacle("varlen", device) else "varlen"
    for overlap in sizes.overlaps:
        cells = {"shape": shape, "attention": attention, "lists a source": str(overlap)}
        yield attempt(cells, partial(_measure, lm, attention, sizes, overlap, shape))
        release(device)


def _measure(lm: LanguageModel, attention: str, sizes: Sizes, overlap: int, shape: str) -> Row:
    from benchmarks.scoring_inputs import Lengths, candidate_lists, retrieval_units
    from benchmarks.scoring_measure import Side, compared, in_turn  # load pydantic

    documents = round(sizes.queries * sizes.candidates / overlap)
    lists = candidate_lists(sizes.queries, sizes.candidates, documents, np.random.default_rng(0))
    lengths = Lengths(sizes.source_tokens, sizes.target_tokens, SPREAD)
    units = list(retrieval_units(lm.tokenizer, lists, lengths, BUDGET))
    memory = Memory(lm.device)
    packed, reference = (Side(make_engine(name, lm), memory) for name in (attention, REFERENCE))
    for side in (packed, reference):
        side.score(units[-1])  # not timed
        side.clear()
    in_turn([packed, reference], units)
    figures = compared(packed, reference, lm, units, find_peak(lm.device))
    row = {
        "pairs": str(figures["pairs"]),
        "tokens/s": f"{figures['tokens_per_second']:,.0f}",
        "reference": f"{figures['reference_tokens_per_second']:,.0f}",
        "ratio": f"{figures['ratio']:.3g}",
        "by tokens": f"{figures['token_ratio']:.3g}",
        "idle": f"{measure_idle(packed, units[-PROFILED:], lm.device):.3g}",
    }
    limit = 2 * model_limit("bfloat16", max(item.length for unit in units for item in unit.items), _layers(shape))
    names = sorted(reference.found, key=str)
    found, truth = (np.concatenate([side.found[name] for name in names]) for side in (packed, reference))
    return {**row, **_judge_mfu({**row, **compare(found, truth, limit)}, figures.get("mfu"), overlap)}


def _judge_mfu(row: Row, mfu: float | None, overlap: int) -> Row:
    if mfu is None:
        return row
    short = overlap >= GOAL_OVERLAP and mfu < GOAL and row[OUTCOME] == "ok"
    return {**row, "MFU": f"{mfu:.3g}", **({OUTCOME: f"ok, below the goal of {GOAL:.0%} MFU"} if short else {})}


def find_peak(device: str) -> float | None:
    """Return the operations a second that a GPU does at most; None where that is not known."""
    try:
        return peak_flops(device, None)
    except ValueError:
        return None


def measure_idle(side: "Side", units: "Sequence[Unit]", device: str) -> float:
    """Return the share of the time for units in which a device runs no kernel, or a processor no operator of torch."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    on_cpu = device == "cpu"
    before = side.seconds
    with profile(activities=[ProfilerActivity.CPU if on_cpu else ProfilerActivity.CUDA]) as found:
        for unit in units:
            side.score(unit)
        if not on_cpu:
            torch.cuda.synchronize()
    name = "self_cpu_time_total" if on_cpu else "self_device_time_total"
    busy = sum(float(getattr(event, name)) for event in found.key_averages()) / 1e6
    return max(0.0, 1 - busy / (side.seconds - before))


def _layers(shape: str) -> int:
    return int(SHAPES[shape]["num_hidden_layers"])


PART = Part(
    (
        *("shape", "attention", "lists a source", "pairs", "tokens/s", "reference", "ratio", "by tokens"),
        *("MFU", "idle", "mean nats", "largest nats", "error", "limit"),
    ),
    measure_rows,
    every_shape=False,
)
