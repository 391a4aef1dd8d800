"""Token gains and what they add up to (paper, Eligible Tokens and Aggregation); all figures in nats."""

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from pan_scdg.scdg.arrays import Floats, TokenIds
from pan_scdg.scdg.sequences import AlignmentError, Passes


class Gains(NamedTuple):
    """Log-probabilities of the same target tokens without and with the source (float64, one per token)."""

    token_ids: TokenIds
    unconditional: Floats
    conditional: Floats

    @property
    def gains(self) -> Floats:
        """Signed gain of each token: never clipped, masked or made absolute."""
        difference: Floats = self.conditional - self.unconditional
        return difference


class GainStatistics(NamedTuple):
    """What is reported of one pair; ``top`` maps each q of the grid to the mean of the top q percent."""

    tokens: int
    mean: float
    median: float
    positive_rate: float
    total: float
    top: dict[float, float]


def gains_of(passes: Passes, unconditional: Floats, conditional: Floats) -> Gains:
    """Put the log-probabilities of both passes together.

    Raises:
        AlignmentError: the passes do not score identical target ids.
        ValueError: lengths differ, there is no token, or a log-probability is not finite.
    """
    token_ids = passes.unconditional.target_ids
    if not np.array_equal(token_ids, passes.conditional.target_ids):
        raise AlignmentError("the two passes score different target token ids")
    return checked(Gains(token_ids, np.asarray(unconditional, np.float64), np.asarray(conditional, np.float64)))


def checked(gains: Gains) -> Gains:
    """``gains`` itself.

    Raises:
        ValueError: its arrays differ in length, are empty, or hold a log-probability that is not finite.
    """
    lengths = {a.shape for a in gains}
    if len(lengths) != 1 or gains.token_ids.ndim != 1 or not len(gains.token_ids):
        raise ValueError(f"ids and log-probabilities must have one common length of 1 or more, not {sorted(lengths)}")
    if not (np.isfinite(gains.unconditional).all() and np.isfinite(gains.conditional).all()):
        raise ValueError("a log-probability is not finite")
    return gains


def join(parts: Iterable[Gains]) -> Gains:
    """The gains of consecutive segments as those of one target.

    Raises:
        ValueError: there is no part.
    """
    token_ids, unconditional, conditional = zip(*parts, strict=True)
    return Gains(np.concatenate(token_ids), np.concatenate(unconditional), np.concatenate(conditional))


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


def statistics(gains: Floats, grid: Iterable[float]) -> GainStatistics:
    """Mean, median, share of positive gains, sum, and Top-q for each q of ``grid``.

    Raises:
        ValueError: ``gains`` is empty or a q is not in (0, 100].
    """
    return GainStatistics(
        tokens=len(gains),
        mean=average(gains),
        median=float(np.median(gains)),
        positive_rate=float(np.mean(gains > 0)),
        total=float(np.sum(gains)),
        top={float(q): top_q_mean(gains, q) for q in grid},
    )
