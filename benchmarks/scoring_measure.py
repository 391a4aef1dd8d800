"""Both engines in turn on the same units, and what their results and times say; used by ``benchmarks.scoring``."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.device_memory import Memory
from benchmarks.scoring_inputs import Name, Unit
from benchmarks.scoring_models import flops
from pan_scdg.lm.engine import Engine
from pan_scdg.lm.logprobs import LogProbs
from pan_scdg.models.load import LanguageModel
from pan_scdg.scdg.aggregation import average_top_q

GIB = 1 << 30
TOP_Q = 2
"""Percent of the gains that a candidate is scored by here; the paper's value for PAN 2026."""


@dataclass
class Side:
    """One engine and what it has done since its clocks were at zero."""

    engine: Engine
    memory: Memory
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    tokens: int = 0
    peak: int = 0
    found: dict[Name, LogProbs] = field(default_factory=dict)

    def score(self, unit: Unit) -> None:
        """Score a unit with the clock running; results are on the host when it stops."""
        self.memory.reset()
        before, began, busy = self.engine.tokens, time.perf_counter(), time.process_time()
        values = self.engine.compute_log_probs(unit.items)
        self.seconds += time.perf_counter() - began
        self.cpu_seconds += time.process_time() - busy
        self.tokens += self.engine.tokens - before
        self.peak = max(self.peak, self.memory.peak)
        self.found.update(zip(unit.names, values, strict=True))

    def clear(self) -> None:
        """Set the clocks to zero and forget all results."""
        self.seconds, self.cpu_seconds, self.tokens, self.peak, self.found = 0.0, 0.0, 0, 0, {}

    def gains(self) -> dict[tuple[int, int], npt.NDArray[np.float64]]:
        """The gains of each pair of a target and a source, ``[n]`` nats."""
        return {
            (target, source): values.astype(np.float64) - self.found[target, None]
            for (target, source), values in self.found.items()
            if source is not None
        }


def in_turn(sides: Sequence[Side], units: Iterable[Unit]) -> None:
    """Every engine scores each unit before the next one's turn; who is first changes with each unit."""
    for number, unit in enumerate(units):
        for side in sides if number % 2 else reversed(sides):
            side.score(unit)


def compared(
    packed: Side, reference: Side, lm: LanguageModel, units: Sequence[Unit], peak: float | None
) -> dict[str, Any]:
    """The figures of both sides after ``units``; ``peak`` is the GPU's in operations a second."""
    ratio = reference.seconds / packed.seconds
    token_ratio = reference.tokens / packed.tokens
    pairs = sum(source is not None for _, source in packed.found)
    least, literal = (sum(flops(lm, unit.items, reuse) for unit in units) for reuse in (True, False))
    figures: dict[str, Any] = {
        "pairs": pairs,
        "ratio": ratio,
        "token_ratio": token_ratio,
        "flop_ratio": literal / least,
        "share": ratio / token_ratio,
        "tokens_per_second": packed.tokens / packed.seconds,
        "reference_tokens_per_second": reference.tokens / reference.seconds,
        "pairs_per_second": pairs / packed.seconds,
        "seconds": packed.seconds,
        "reference_seconds": reference.seconds,
        "peak_memory_gib": packed.peak / GIB,
        "splits": len(packed.engine.splits),
        **differences(packed, reference),
    }
    if lm.device == "cpu":
        # Other jobs on the machine lengthen the wall clock's seconds and these hardly.
        figures["cpu_ratio"] = reference.cpu_seconds / packed.cpu_seconds
    if peak is not None:
        figures["mfu"] = least / packed.seconds / peak
        figures["reference_mfu"] = literal / reference.seconds / peak
        figures["reference_peak_memory_gib"] = reference.peak / GIB
    return figures


def differences(packed: Side, reference: Side) -> dict[str, float | None]:
    """Return the differences of the engines' gains and Top-2 % in nats, and if candidates are in the same order."""
    ours, theirs = packed.gains(), reference.gains()
    apart = np.concatenate([np.abs(ours[name] - theirs[name]) for name in theirs])
    scores = {name: (average_top_q(ours[name], TOP_Q), average_top_q(theirs[name], TOP_Q)) for name in theirs}
    return {
        "max_gain_difference": float(apart.max()),
        "mean_gain_difference": float(apart.mean()),
        "top2_difference": max(abs(a - b) for a, b in scores.values()),
        "rank_correlation": _mean_spearman(list(_lists(scores))),
    }


def _lists(scores: dict[tuple[int, int], tuple[float, float]]) -> Iterator[list[tuple[float, float]]]:
    """The scores of each target's candidates; pairs, where no target has two sources, are one list."""
    lists: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for (target, _), both in scores.items():
        lists[target].append(both)
    if all(len(found) == 1 for found in lists.values()):
        yield list(scores.values())
    else:
        yield from lists.values()


def _mean_spearman(lists: Sequence[Sequence[tuple[float, float]]]) -> float | None:
    """Spearman's rank correlation, the mean over the lists of two or more; None without such a list."""
    found = [
        np.corrcoef(np.array(scores).argsort(0, kind="stable").argsort(0, kind="stable").T)[0, 1]
        for scores in lists
        if len(scores) > 1
    ]
    return float(np.mean(found)) if found else None


def long_memory(side: Side, unit: Unit) -> int:
    """Bytes beside the weights that a unit takes; on a CPU the process's growth, or more where it was larger before."""
    before = side.memory.resident
    side.score(unit)
    return max(0, side.peak - before)  # the two are not read at the same moment
