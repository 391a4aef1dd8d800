"""Measure the speed and memory of a model on inputs of the job for about ten seconds."""

import resource
import sys
import time
from collections.abc import Sequence
from itertools import accumulate, cycle
from typing import NamedTuple

from pan_scdg.lm.packing import count_row_tokens, plan_rows
from pan_scdg.scdg.sequences import ScoringInput
from pan_scdg.scoring.model import ScoringModel

SECONDS = 10.0
"""Time limit of the probe; tasks that would exceed it are shortened."""
ENOUGH = 2.0
"""Seconds for which a small sample is repeated."""
WARM_UP = 256
"""Tokens of the first, uncounted calls, which initialise kernels and buffers."""

Work = Sequence[ScoringInput]


class Speed(NamedTuple):
    """The result of a probe."""

    tokens_per_second: float
    """A prefix that several inputs share counts once."""
    seconds: float
    """Duration of the whole probe."""
    weights: int
    """Size of the model in bytes."""
    peak: int
    """Bytes: the peak allocation of a GPU, otherwise the peak memory of this process."""
    largest_call: int
    """Tokens of the largest call of the probe."""


def probe(model: ScoringModel, largest: Work, works: Sequence[Work]) -> Speed:
    """Score some tasks to measure speed, and the largest to measure memory; results are discarded.

    Args:
        model: computes in this process, on one device; its weights are loaded first.
        largest: the task that needs the most memory.
        works: a representative sample, not empty, to measure the speed on.
    """
    _reset_peak(model.device)
    began, rate = time.monotonic(), 0.0
    for _ in range(2):
        rate = _measure(model, _shorten([works[0][0]], WARM_UP))[0]
    tokens = spent = largest_call = 0.0
    order = [(largest, False), *((work, True) for work in works)]
    for number, (work, counts) in enumerate(cycle(order)):
        passed, again = time.monotonic() - began, number >= len(order)
        if spent and (passed > SECONDS or (again and passed > ENOUGH)):
            break
        if again and not counts:
            continue
        # a task that would exceed the time limit at the measured speed is shortened
        fitting = _shorten(work, int(rate * max(1.0, SECONDS - passed)))
        speed, took = _measure(model, fitting)
        rate = max(rate, speed)
        largest_call = max(largest_call, _find_largest_call(fitting, model))
        if counts:
            tokens, spent = tokens + speed * took, spent + took
    weights = [*model.loaded.model.parameters(), *model.loaded.model.buffers()]
    size = sum(tensor.numel() * tensor.element_size() for tensor in weights)
    return Speed(tokens / spent, time.monotonic() - began, size, _read_peak(model.device), int(largest_call))


def _measure(model: ScoringModel, work: Work) -> tuple[float, float]:
    """Return the tokens per second of one task and its duration in seconds."""
    before, began = model.engine.tokens, time.monotonic()
    model.engine.compute_log_probs(work)  # results are copied to the host, so the time includes the device
    took = max(time.monotonic() - began, 1e-6)
    return (model.engine.tokens - before) / took, took


def _shorten(work: Work, tokens: int) -> Work:
    """Return the first inputs of a task with at most ``tokens`` tokens, or a part of the first input."""
    ends = accumulate(item.length for item in work)
    kept = [item for item, end in zip(work, ends, strict=True) if end <= tokens]
    half, first = max(1, tokens // 2), work[0]
    return kept or [ScoringInput(first.context_ids[:half], first.target_ids[:half])]


def _find_largest_call(work: Work, model: ScoringModel) -> int:
    if not model.packs:
        return max(item.length for item in work)
    return max(count_row_tokens(row, work) for chain in plan_rows(work, model.batch_tokens) for row in chain)


def _reset_peak(device: str) -> None:
    """Reset the peak memory of a GPU; that of a process cannot be reset."""
    if device != "cpu":
        import torch

        torch.cuda.reset_peak_memory_stats(device)


def _read_peak(device: str) -> int:
    if device == "cpu":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << (0 if sys.platform == "darwin" else 10)
    import torch

    return int(torch.cuda.max_memory_allocated(device))
