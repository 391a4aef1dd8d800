"""Aggregate the gains of a target to one score (paper, Eligible Tokens and Aggregation).

`AGGREGATIONS` is the only place that names them: profiles, stored statistics and results follow from its entries. To
add an aggregation, write its function and add an entry. All scores are in nats per token, except shares.
"""

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
"""Numbers of any float type, ``[n]``."""
MAX_CLIPPED_GAIN = 2.0
"""Largest contribution of one token to `find_bounded_window_mean`, in nats."""
_BLOCK = 2**20


def average(gains: Floats) -> float:
    """Return the arithmetic mean of the signed gains (paper, Eq. average-scdg).

    Raises:
        ValueError: ``gains`` is empty.
    """
    if not len(gains):
        raise ValueError("there are no gains to average")
    return float(np.mean(gains))


def count_kept_tokens(n: int, q: float) -> int:
    """Return ``max(1, ceil(n*q/100))``, the number of gains that Top-q keeps of ``n`` (paper, Eq. topq-k).

    In floating point ``n*q/100`` can exceed a whole number slightly (3000 * 1.1 / 100 gives 33.00000000000001), and
    ceil would keep one token too many. Hence ``q`` is taken as its shortest decimal representation, the one a profile
    shows, and the quotient is exact.
    """
    exact = Fraction(repr(float(q)))
    return max(1, -(-n * exact.numerator // (100 * exact.denominator)))


def average_top_q(gains: Floats, q: float) -> float:
    """Return the mean of the largest ``q`` percent of the signed gains.

    Keeps ``k = max(1, ceil(n*q/100))`` of the ``n`` gains (paper, Eq. topq-k).

    Raises:
        ValueError: ``gains`` is empty or ``q`` is not in (0, 100].
    """
    if not 0 < q <= 100:
        raise ValueError(f"q must be above 0 and at most 100, not {q}")
    n = len(gains)
    k = count_kept_tokens(n, q)
    if k >= n:
        return average(gains)
    # The order that partition leaves depends on the processor, and so would the last bit of the sum: sort what is kept.
    return float(np.mean(np.sort(np.partition(gains, n - k)[n - k :])))


def find_window_mean(gains: Floats, w: int) -> float:
    """Return the largest mean over ``w`` consecutive gains, or over all gains if there are fewer.

    ``max_i (1/w) sum_{t=i}^{i+w-1} g_t`` over every start i: a reused passage shows even if it is a small part of the
    target. The window is found with running sums in float64, added in the same order on every machine; their error is
    at most ``n * 2**-53 * sum|g|``, so the window's mean is at most ``4n * 2**-53 * sum|g| / w`` below the largest. The
    mean of that window is computed by ``math.fsum`` and correctly rounded.

    Raises:
        ValueError: ``gains`` is empty or ``w`` is below 1.
    """
    width = _limit_width(gains, w)
    sums = np.concatenate([[0.0], np.cumsum(gains, dtype=np.float64)])
    start = int(np.argmax(sums[width:] - sums[:-width]))
    return math.fsum(gains[start : start + width].tolist()) / width


def find_bounded_window_mean(gains: Floats, w: int) -> float:
    """Return the largest mean over ``w`` consecutive gains, each clipped to `MAX_CLIPPED_GAIN` nats in both directions.

    ``max_i (1/w) sum_{t=i}^{i+w-1} min(B, max(-B, g_t))``, found and summed as in `find_window_mean`. Two texts written
    independently on one topic share a few names and terms with gains of many nats; a text written from a source gains
    a little on most tokens. The gains themselves are not changed.

    Raises:
        ValueError: ``gains`` is empty or ``w`` is below 1.
    """
    return find_window_mean(np.clip(gains, -MAX_CLIPPED_GAIN, MAX_CLIPPED_GAIN), w)


def find_window_median(gains: Floats, w: int) -> float:
    """Return the largest median over ``w`` consecutive gains, or over all gains if there are fewer.

    Every start counts. A few tokens with large gains, such as a shared name, do not change it.

    Raises:
        ValueError: ``gains`` is empty or ``w`` is below 1.
    """
    width = _limit_width(gains, w)
    windows = np.lib.stride_tricks.sliding_window_view(gains, width)
    # A median copies its input: limit the windows taken at once, so that a copy stays below 8 MB.
    rows = max(1, _BLOCK // width)
    return max(float(np.median(windows[i : i + rows], axis=1).max()) for i in range(0, len(windows), rows))


def _limit_width(gains: Floats, w: int) -> int:
    if w < 1:
        raise ValueError(f"w must be at least 1, not {w}")
    if not len(gains):
        raise ValueError("there are no gains to aggregate")
    return min(w, len(gains))


def compute_shares(gains: Floats, w: int) -> Floats:
    r"""Return the share of the target that each candidate explains best, ``[candidates]``; the shares add up to 1.

    ``share(S) = (1/n) * sum_t [S = argmax_{S'} m_t(S')]`` with ``m_t(S) = sum of g_i(S) over |i - t| <= w/2``, the gain
    of the ``w`` tokens around each token (fewer at the ends of the target, for all candidates; an even ``w`` has
    its surplus token in front). Equal candidates share a token equally. Not in the paper: an average over a query that
    was written from several sources dilutes the gain of each, so here candidates compete for every token.

    Args:
        gains: ``[candidates, n]`` gains in nats of the same target given each candidate.
        w: Width in tokens.

    Raises:
        ValueError: there is no candidate or no token, a gain is not finite, or ``w`` is below 1.
    """
    values = np.asarray(gains, dtype=np.float64)
    if values.ndim != 2 or not values.size or w < 1:
        raise ValueError(f"needs gains [candidates, tokens] and a width of 1 or more, not {values.shape} and {w}")
    if not np.isfinite(values).all():
        raise ValueError("a gain is not finite")
    n = values.shape[1]
    # Every window is summed by itself, not as a difference of running totals: equal windows give equal sums.
    padded = np.pad(values, ((0, 0), (w // 2, (w - 1) // 2)))
    around = np.zeros_like(values)
    for offset in range(w):
        around += padded[:, offset : offset + n]
    best = around == around.max(axis=0)
    shares: Floats = (best / best.sum(axis=0)).mean(axis=1)
    return shares


class Aggregation(NamedTuple):
    """One way to aggregate gains."""

    parameter: Literal["q", "w"] | None
    """Name of its parameter in a profile: ``q`` in percent of the gains, or ``w`` in consecutive tokens; None: none."""
    compute: Callable[[Floats, Any], Any]
    """The score from gains ``[n]`` and the parameter; if joint, the scores ``[candidates]`` from the gains of all."""
    stored: tuple[float, ...] = ()
    """Parameters whose scores are stored with every document pair, so that another q or w needs no new pass."""
    stored_of_candidates: tuple[float, ...] = ()
    """The same for every candidate of a query, of which there are many more."""
    costly: bool = False
    """Takes a thousand times as long as the others: stored only if the aggregation of a profile asks for it."""
    joint: bool = False
    """Compares all candidates of a query, so that it is not computed from the gains of one alone."""
    statistics: tuple[str, ...] = ()
    """Fields of `GainStatistics` that it is made of, and nothing else: one of them is the score, several are the
    features of a logistic model. For pairs; ``compute`` has no meaning then."""

    @property
    def is_stored(self) -> bool:
        """Return True if its scores are stored beside the other statistics of one target."""
        return not self.joint and not self.statistics


def _refuse(gains: Floats, parameter: Any) -> float:
    raise ValueError("this aggregation is made of stored statistics, not of gains")


PERCENTAGES = (1, 2, 5, 10, 20, 30, 50, 100)
WIDTHS = (32, 64, 96, 128, 192, 256, 384)
AGGREGATIONS = {
    "top": Aggregation("q", average_top_q, PERCENTAGES, PERCENTAGES),
    "window": Aggregation("w", find_window_mean, WIDTHS),
    "window-median": Aggregation("w", find_window_median, WIDTHS, costly=True),
    "window-bounded": Aggregation("w", find_bounded_window_mean, WIDTHS),
    "share": Aggregation("w", compute_shares, joint=True),
    "mean": Aggregation(None, _refuse, statistics=("mean",)),
    "positive-rate": Aggregation(None, _refuse, statistics=("positive_gain_rate",)),
    "gain-logistic": Aggregation(None, _refuse, statistics=("mean", "median", "positive_gain_rate")),
}
"""Aggregations by the name that profiles use; the paper's is ``top``, whose q = 100 is its Average."""


class Aggregate(NamedTuple):
    """An aggregation with its parameter."""

    kind: str
    parameter: float

    @property
    def entry(self) -> Aggregation:
        """Return the aggregation's entry in `AGGREGATIONS`."""
        return AGGREGATIONS[self.kind]

    @property
    def name(self) -> str:
        """Return the name in results: ``average``, ``top-2%``, ``window-128``, ``window-median-192``."""
        if self.entry.parameter is None:
            return self.kind
        if self.entry.parameter == "q":
            return "average" if self.parameter == 100 else f"{self.kind}-{self.parameter:g}%"
        return f"{self.kind}-{int(self.parameter)}"

    @property
    def field(self) -> str:
        """Return the name as a field of a record: ``top_2``, ``window_median_192``."""
        if self.entry.parameter is None:
            return self.kind.replace("-", "_")
        number = f"{self.parameter:g}" if self.entry.parameter == "q" else f"{int(self.parameter)}"
        return f"{self.kind.replace('-', '_')}_{number}"

    def compute(self, gains: Floats) -> Any:
        """Return the result of `Aggregation.compute` for this parameter."""
        return self.entry.compute(gains, self.parameter if self.entry.parameter == "q" else int(self.parameter))


def list_stored(job: Literal["pairs", "candidates"], more: Iterable[Aggregate] = ()) -> tuple[Aggregate, ...]:
    """Return the aggregates whose scores are stored, with ``more`` that are wanted; by entry, then by parameter.

    Costly ones are left out unless one of their kind is wanted.
    """
    wanted = {aggregate for aggregate in more if aggregate.entry.is_stored}
    asked, kinds = {aggregate.kind for aggregate in wanted}, list(AGGREGATIONS)
    for kind, entry in AGGREGATIONS.items():
        if kind in asked or not entry.costly:
            wanted |= {Aggregate(kind, p) for p in (entry.stored if job == "pairs" else entry.stored_of_candidates)}
    return tuple(sorted(wanted, key=lambda aggregate: (kinds.index(aggregate.kind), aggregate.parameter)))


class GainStatistics(NamedTuple):
    """The statistics that are stored and reported for the gains of one target."""

    tokens: int
    mean: float
    median: float
    positive_gain_rate: float
    """Share of gains above 0."""
    total: float
    scores: dict[Aggregate, float]
    code_length: float
    """``L0``, the code length of the target without the source, in nats."""
    positive_mean: float
    """Mean of the gains above 0, or 0 without such gains."""
    deviation: float
    """Standard deviation of the gains (ddof 0)."""


def compute_statistics(gains: Floats, aggregates: Iterable[Aggregate], code_length: float) -> GainStatistics:
    """Return the statistics of ``gains`` with the score of each of the ``aggregates``, none of which is joint.

    Raises:
        ValueError: ``gains`` is empty, a q is not in (0, 100] or a width is below 1.
    """
    positive = gains[gains > 0]
    return GainStatistics(
        tokens=len(gains),
        mean=average(gains),
        median=float(np.median(gains)),
        positive_gain_rate=float(np.mean(gains > 0)),
        total=float(np.sum(gains)),
        scores={aggregate: aggregate.compute(gains) for aggregate in aggregates},
        code_length=code_length,
        positive_mean=average(positive) if len(positive) else 0.0,
        deviation=float(np.std(gains)),
    )
