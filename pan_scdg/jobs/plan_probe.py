"""The speed of a model on inputs of the job itself, within some seconds, and the memory that it takes."""

import resource
import sys
import time
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from pan_scdg.lm.engine import Engine
from pan_scdg.lm.packing import plan, row_tokens
from pan_scdg.scdg.sequences import ScoringInput
from pan_scdg.scoring.model import ScoringModel

SECONDS = 10.0
"""The probe begins nothing after so long, and nothing that would take longer."""
ENOUGH = 2.0
"""Seconds for which works are repeated when there are few."""
WARM_UP = 256
"""Tokens of the first call, which finds kernels and buffers and is not counted."""

Work = Sequence[ScoringInput]


class Speed(NamedTuple):
    """What a probe found."""

    tokens_per_second: float
    """By what the engine counts: a prefix that several inputs share is one."""
    seconds: float
    """Of the whole probe."""
    weights: int
    """Bytes of the model."""
    peak: int
    """Bytes: of a GPU what was allocated at most, otherwise the largest size of this process."""
    largest_call: int
    """Most tokens of a call of the probe."""


def probe(model: ScoringModel, largest: Work, works: Sequence[Work]) -> Speed:
    """Score some works, and the largest for its memory, and forget the results. The weights are loaded before.

    Args:
        model: in this process, on one device.
        largest: the work that takes most memory, or so much of it as takes as much.
        works: a fair sample; the speed is that on these.

    Raises:
        ValueError: there are no works.
    """
    if not works:
        raise ValueError("nothing to probe")
    engine = model.engine
    _forget_peak(model.device)
    began, rate = time.monotonic(), 0.0
    for _ in range(2):  # the first call finds kernels and buffers
        rate = _rate(engine, _cut([works[0][0]], WARM_UP))[0]
    fair = [(work, True) for work in works]
    tokens = spent = largest_call = 0.0
    for number, (work, counts) in enumerate([*fair[:2], (largest, False), *fair[2:], *_again(fair)]):
        passed = time.monotonic() - began
        if number and (passed > SECONDS or (number > len(fair) and passed > ENOUGH)):
            break
        # what the speed known so far does not permit in the time that is left is shortened
        fitting = _cut(work, int(rate * max(1.0, SECONDS - passed)))
        speed, took = _rate(engine, fitting)
        rate = max(rate, speed)
        largest_call = max(largest_call, _largest_call(fitting, model))
        if counts:
            tokens, spent = tokens + speed * took, spent + took
    weights = [*model.loaded.model.parameters(), *model.loaded.model.buffers()]
    size = sum(tensor.numel() * tensor.element_size() for tensor in weights)
    return Speed(tokens / spent, time.monotonic() - began, size, _peak(model.device), int(largest_call))


def _again(works: list[tuple[Work, bool]]) -> list[tuple[Work, bool]]:
    """Few works are done several times, so that the clock has something to measure."""
    return works * max(1, 64 // len(works))


def _rate(engine: Engine, work: Work) -> tuple[float, float]:
    """Tokens per second of one work, and its seconds."""
    before, began = engine.tokens, time.monotonic()
    engine.log_probs(work)  # its results come to the host, so the clock waits for the device
    took = max(time.monotonic() - began, 1e-6)
    return (engine.tokens - before) / took, took


def _cut(work: Work, tokens: int) -> Work:
    """The first inputs of a work that have at most ``tokens`` tokens, or a part of the first one."""
    ends = accumulate(item.length for item in work)
    kept = [item for item, end in zip(work, ends, strict=True) if end <= tokens]
    half, first = max(1, tokens // 2), work[0]
    return kept or [ScoringInput(first.context_ids[:half], first.target_ids[:half])]


def _largest_call(work: Work, model: ScoringModel) -> int:
    if not model.packs:
        return max(item.length for item in work)
    return max(row_tokens(row, work) for chain in plan(work, model.batch_tokens) for row in chain)


def _forget_peak(device: str) -> None:
    """Forget what an encoder took before; the peak of a process cannot be forgotten."""
    if device != "cpu":
        import torch

        torch.cuda.reset_peak_memory_stats(device)


def _peak(device: str) -> int:
    if device == "cpu":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << (0 if sys.platform == "darwin" else 10)
    import torch

    return int(torch.cuda.max_memory_allocated(device))
