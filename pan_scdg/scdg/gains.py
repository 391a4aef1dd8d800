"""Token gains: log-probabilities of a target with and without the source, in nats (paper, Token Gains)."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from pan_scdg.scdg.aggregation import Aggregate, Floats, GainStatistics, compute_statistics
from pan_scdg.scdg.sequences import TokenIds, TokenMismatchError


class Gains(NamedTuple):
    """Log-probabilities of the same target tokens without and with the source (float64, ``[n]``)."""

    token_ids: TokenIds
    unconditional: Floats
    conditional: Floats

    @property
    def gains(self) -> Floats:
        """Return ``g_t = log p(p_t | S, p_<t) - log p(p_t | p_<t)``, signed: never clipped, masked or absolute."""
        difference: Floats = self.conditional - self.unconditional
        return difference

    def summarise(self, aggregates: Iterable[Aggregate]) -> GainStatistics:
        """Return the statistics of the gains with the score of each of the ``aggregates``."""
        return compute_statistics(self.gains, aggregates, -float(np.sum(self.unconditional)))


def combine_passes(targets: tuple[TokenIds, TokenIds], unconditional: Floats, conditional: Floats) -> Gains:
    """Return the gains from the log-probabilities of two passes that scored these ``targets`` (ids, ``[n]`` each).

    Raises:
        AlignmentError: the passes do not score identical target ids.
        ValueError: arrays differ in length, are empty, or contain a log-probability that is not finite.
    """
    token_ids, others = targets
    if not np.array_equal(token_ids, others):
        raise TokenMismatchError("the passes score different target token ids")
    alone, given = np.asarray(unconditional, np.float64), np.asarray(conditional, np.float64)
    lengths = {token_ids.shape, alone.shape, given.shape}
    if len(lengths) != 1 or token_ids.ndim != 1 or not len(token_ids):
        raise ValueError(f"ids and log-probabilities must have one common length of 1 or more, not {sorted(lengths)}")
    if not (np.isfinite(alone).all() and np.isfinite(given).all()):
        raise ValueError("a log-probability is not finite")
    return Gains(token_ids, alone, given)


def join_segments(parts: Iterable[Gains]) -> Gains:
    """Return the gains of consecutive segments as those of one target.

    Raises:
        ValueError: there are no parts.
    """
    token_ids, unconditional, conditional = zip(*parts, strict=True)
    return Gains(np.concatenate(token_ids), np.concatenate(unconditional), np.concatenate(conditional))
