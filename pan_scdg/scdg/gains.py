"""Token gains and what they add up to (paper, Eligible Tokens and Aggregation); all figures in nats."""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple, Protocol

import numpy as np

from pan_scdg.profile import Control
from pan_scdg.scdg.arrays import Floats, TokenIds
from pan_scdg.scdg.sequences import AlignmentError

_BLOCK = 2**20
BOUND = 2.0
"""A token counts at most so many nats in `window_bounded`."""


class Gains(NamedTuple):
    """Log-probabilities of the same target tokens without and with the source (float64, one per token).

    ``control`` holds them behind the shuffled source (`scdg.control`), where that pass was made, and ``baseline`` says
    what the gain is a gain over.
    """

    token_ids: TokenIds
    unconditional: Floats
    conditional: Floats
    control: Floats | None = None
    baseline: Control = "none"

    @property
    def gains(self) -> Floats:
        """``g_t = log p(p_t | S, p_<t) - b_t``, signed: never clipped, masked or made absolute; see `baseline_of`."""
        difference: Floats = self.conditional - baseline_of(self.unconditional, self.control, self.baseline)
        return difference


def baseline_of(unconditional: Floats, control: Floats | None, baseline: Control) -> Floats:
    """``b_t``, what the conditional log-probability of each token is held against, ``[n]`` nats.

    - ``none``: ``log p(p_t | p_<t)`` (the paper).
    - ``shuffled-source``: ``log p(p_t | shuffled S, p_<t)``; the gains add up to ``L_shuffled - L_S``.
    - ``both``: the mean of these two, ``(log p(p_t | p_<t) + log p(p_t | shuffled S, p_<t)) / 2``. The gain is then the
      mean of the paper's and of the controlled one; the gains add up to ``(L_0 + L_shuffled) / 2 - L_S``.

    Raises:
        ValueError: ``baseline`` is not ``none`` and there are no ``control`` log-probabilities.
    """
    if baseline == "none":
        return unconditional
    if control is None:
        raise ValueError(f"baseline {baseline} needs log-probabilities behind the shuffled source")
    if baseline == "shuffled-source":
        return control
    both: Floats = (unconditional + control) / 2
    return both


class GainStatistics(NamedTuple):
    """What is reported of one pair.

    ``top`` maps each q of the grid to the mean of the top q percent; ``window``, ``window_median`` and
    ``window_bounded`` each number of tokens w to the largest mean, median and bounded mean over w consecutive tokens.
    ``code_length`` is ``L0``, the nats that the target takes without the source; statistics of mere gains have none.
    ``positive_mean`` is the mean of the gains above 0, 0 where there are none, and ``deviation`` the standard deviation
    of all (ddof 0); None in what was stored before there were such.
    """

    tokens: int
    mean: float
    median: float
    positive_rate: float
    total: float
    top: dict[float, float]
    window: dict[int, float]
    window_median: dict[int, float]
    window_bounded: dict[int, float]
    code_length: float | None = None
    positive_mean: float | None = None
    deviation: float | None = None


class Targets(Protocol):
    """Anything that has target ids: an input, or what was made of it."""

    @property
    def target_ids(self) -> TokenIds:
        """Ids that are scored, ``[n]``."""
        ...


def gains_of(
    passes: Iterable[Targets],
    unconditional: Floats,
    conditional: Floats,
    control: Floats | None = None,
    baseline: Control = "none",
) -> Gains:
    """Put the log-probabilities of the passes together; the first of ``passes`` is the unconditional one.

    Raises:
        AlignmentError: the passes do not score identical target ids.
        ValueError: see `checked`.
    """
    token_ids, *others = (item.target_ids for item in passes)
    if any(not np.array_equal(token_ids, other) for other in others):
        raise AlignmentError("the passes score different target token ids")
    alone, given = np.asarray(unconditional, np.float64), np.asarray(conditional, np.float64)
    shuffled = None if control is None else np.asarray(control, np.float64)
    return checked(Gains(token_ids, alone, given, shuffled, baseline))


def checked(gains: Gains) -> Gains:
    """``gains`` itself.

    Raises:
        ValueError: its arrays differ in length, are empty, or hold a log-probability that is not finite; or a control
            is missing that the baseline needs.
    """
    values = [a for a in (gains.unconditional, gains.conditional, gains.control) if a is not None]
    lengths = {a.shape for a in (gains.token_ids, *values)}
    if len(lengths) != 1 or gains.token_ids.ndim != 1 or not len(gains.token_ids):
        raise ValueError(f"ids and log-probabilities must have one common length of 1 or more, not {sorted(lengths)}")
    if not all(np.isfinite(a).all() for a in values):
        raise ValueError("a log-probability is not finite")
    baseline_of(gains.unconditional, gains.control, gains.baseline)
    return gains


def join(parts: Iterable[Gains]) -> Gains:
    """The gains of consecutive segments as those of one target.

    Raises:
        ValueError: there is no part, or some have a control or another baseline and some do not.
    """
    token_ids, unconditional, conditional, control, baseline = zip(*parts, strict=True)
    if len(set(baseline)) > 1 or len({c is None for c in control}) > 1:
        raise ValueError("segments of one target need one baseline, and a control each or none at all")
    joined = None if control[0] is None else np.concatenate(control)
    return Gains(
        np.concatenate(token_ids), np.concatenate(unconditional), np.concatenate(conditional), joined, baseline[0]
    )


def average(gains: Floats) -> float:
    """Arithmetic mean of the signed gains, in nats per token (paper, Eq. average-scdg).

    Raises:
        ValueError: ``gains`` is empty.
    """
    if not len(gains):
        raise ValueError("there are no gains to average")
    return float(np.mean(gains))


def kept_tokens(n: int, q: float) -> int:
    """``max(1, ceil(n*q/100))``, the number of gains that Top-q keeps of ``n`` (paper, Eq. topq-k).

    ``n*q/100`` in floating point can land just above a whole number (3000 * 1.1 / 100 gives 33.00000000000001), and
    ceil would then keep one token too many. So q is taken as the decimal that a profile shows, its shortest
    representation, and the quotient is formed in whole numbers.
    """
    exact = Fraction(repr(float(q)))
    return max(1, -(-n * exact.numerator // (100 * exact.denominator)))


def top_q_mean(gains: Floats, q: float) -> float:
    """Mean of the largest ``q`` percent of the signed gains, in nats per token.

    Keeps ``k = max(1, ceil(n*q/100))`` of the ``n`` gains (paper, Eq. topq-k).

    Raises:
        ValueError: ``gains`` is empty or ``q`` is not in (0, 100].
    """
    if not 0 < q <= 100:
        raise ValueError(f"q must be above 0 and at most 100, not {q}")
    n = len(gains)
    k = kept_tokens(n, q)
    if k >= n:
        return average(gains)
    # The order that partition leaves depends on the processor, and so would the last bit of the sum: sort what is kept.
    return float(np.mean(np.sort(np.partition(gains, n - k)[n - k :])))


def window_mean(gains: Floats, w: int) -> float:
    """Largest mean over ``w`` consecutive gains, of all of them when there are fewer; in nats per token.

    ``max_i (1/w) sum_{t=i}^{i+w-1} g_t`` over every start i: a passage that was reused shows even where it is a small
    part of the target. The window is found with running sums in float64, added one after the other on every machine;
    they err by at most ``n * 2**-53 * sum|g|``, so that the window's mean is at most ``4n * 2**-53 * sum|g| / w``
    below the largest. The mean of that window itself is formed by ``math.fsum`` and correctly rounded.

    Raises:
        ValueError: ``gains`` is empty or ``w`` is below 1.
    """
    width = _window_width(gains, w)
    sums = np.concatenate([[0.0], np.cumsum(gains, dtype=np.float64)])
    start = int(np.argmax(sums[width:] - sums[:-width]))
    return math.fsum(gains[start : start + width].tolist()) / width


def window_bounded(gains: Floats, w: int) -> float:
    """Largest mean over ``w`` consecutive gains of which each counts at most `BOUND` nats, either way.

    ``max_i (1/w) sum_{t=i}^{i+w-1} min(B, max(-B, g_t))``, found and summed as in `window_mean`. Two texts that were
    written independently on one topic share a few names and terms with gains of many nats; what was written from a
    source gains a little on most tokens. The gains themselves stay as they are.

    Raises:
        ValueError: ``gains`` is empty or ``w`` is below 1.
    """
    return window_mean(np.clip(gains, -BOUND, BOUND), w)


def window_median(gains: Floats, w: int) -> float:
    """Largest median over ``w`` consecutive gains, of all of them when there are fewer; in nats per token.

    Every start counts. Few tokens with large gains, such as a shared name, do not move it.

    Raises:
        ValueError: ``gains`` is empty or ``w`` is below 1.
    """
    width = _window_width(gains, w)
    windows = np.lib.stride_tricks.sliding_window_view(gains, width)
    # A median copies what it looks at: so many windows at a time that a copy stays below 8 MB.
    rows = max(1, _BLOCK // width)
    return max(float(np.median(windows[i : i + rows], axis=1).max()) for i in range(0, len(windows), rows))


def _window_width(gains: Floats, w: int) -> int:
    if w < 1:
        raise ValueError(f"w must be at least 1, not {w}")
    if not len(gains):
        raise ValueError("there are no gains to look at")
    return min(w, len(gains))


def statistics(
    gains: Floats,
    grid: Iterable[float],
    windows: Iterable[int] = (),
    medians: Iterable[int] = (),
    bounded: Iterable[int] = (),
) -> GainStatistics:
    """Mean, median, deviation, sum, share and mean of positive gains, Top-q for each q of ``grid``, and best windows.

    Raises:
        ValueError: ``gains`` is empty, a q is not in (0, 100] or a width is below 1.
    """
    positive = gains[gains > 0]
    return GainStatistics(
        tokens=len(gains),
        mean=average(gains),
        median=float(np.median(gains)),
        positive_rate=float(np.mean(gains > 0)),
        total=float(np.sum(gains)),
        top={float(q): top_q_mean(gains, q) for q in grid},
        window={int(w): window_mean(gains, w) for w in windows},
        window_median={int(w): window_median(gains, w) for w in medians},
        window_bounded={int(w): window_bounded(gains, w) for w in bounded},
        positive_mean=average(positive) if len(positive) else 0.0,
        deviation=float(np.std(gains)),
    )
