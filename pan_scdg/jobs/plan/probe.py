"""Measure the speed and memory of a model on inputs of the job for about ten seconds."""

import resource
import sys
import time
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from pan_scdg.jobs.plan.count import Work
from pan_scdg.scdg.sequences import ScoringInput
from pan_scdg.scoring.model import ScoringModel

SECONDS = 10.0
"""Time limit of the probe; tasks that would exceed it are shortened."""
WARM_UP = 256
"""Tokens of the first, uncounted calls, which initialise kernels and buffers."""


class Speed(NamedTuple):
    """The result of a probe."""

    tokens_per_second: float
    """A prefix that several inputs share counts once."""
    weights: int
    """Size of the model in bytes."""
    peak: int
    """Bytes: the peak allocation of a GPU, otherwise the peak memory of this process."""


def probe(model: ScoringModel, works: Sequence[Work]) -> Speed:
    """Score tasks to measure speed and memory, the first of which needs the most; results are discarded.

    The model computes in this process, on one device; its weights are loaded first.
    """
    _reset_peak(model.device)
    began, tokens, spent = time.monotonic(), 0.0, 0.0
    for _ in range(2):
        counted, seconds = _measure(model, _shorten([works[0][0]], WARM_UP))
    rate = counted / seconds
    for work in works:
        left = SECONDS - (time.monotonic() - began)
        if spent and left < 0:
            break
        # a task that would exceed the time limit at the measured speed is shortened
        counted, seconds = _measure(model, _shorten(work, int(rate * max(1.0, left))))
        tokens, spent = tokens + counted, spent + seconds
        rate = tokens / spent
    weights = [*model.loaded.model.parameters(), *model.loaded.model.buffers()]
    size = sum(tensor.numel() * tensor.element_size() for tensor in weights)
    return Speed(rate, size, _read_peak(model.device))


def _measure(model: ScoringModel, work: Work) -> tuple[int, float]:
    """Return the tokens of one task and its duration in seconds."""
    before, began = model.engine.tokens, time.monotonic()
    model.engine.compute_log_probs(work)  # results are copied to the host, so the time includes the device
    return model.engine.tokens - before, max(time.monotonic() - began, 1e-6)


def _shorten(work: Work, tokens: int) -> Work:
    """Return the first inputs of a task with at most ``tokens`` tokens, or a part of the first input."""
    ends = accumulate(item.length for item in work)
    kept = [item for item, end in zip(work, ends, strict=True) if end <= tokens]
    half, first = max(1, tokens // 2), work[0]
    return kept or [ScoringInput(first.context_ids[:half], first.target_ids[:half])]


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
