"""Token gains: log-probabilities of a target with and without the source, in nats (paper, Token Gains)."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from pan_scdg.profile import Control
from pan_scdg.scdg.aggregation import Aggregate, Floats, GainStatistics, compute_statistics
from pan_scdg.scdg.sequences import AlignmentError, TokenIds


class Gains(NamedTuple):
    """Log-probabilities of the same target tokens without and with the source (float64, ``[n]``)."""

    token_ids: TokenIds
    unconditional: Floats
    conditional: Floats
    control: Floats | None = None
    """Log-probabilities given the shuffled source (`scdg.control`), if there is a control."""
    baseline: Control = "none"

    @property
    def gains(self) -> Floats:
        """Return ``g_t = log p(p_t | S, p_<t) - b_t``, signed: never clipped, masked or made absolute."""
        difference: Floats = self.conditional - compute_baseline(self.unconditional, self.control, self.baseline)
        return difference

    def summarise(self, aggregates: Iterable[Aggregate]) -> GainStatistics:
        """Return the statistics of the gains with the score of each of the ``aggregates``."""
        return compute_statistics(self.gains, aggregates, -float(np.sum(self.unconditional)))


def compute_baseline(unconditional: Floats, control: Floats | None, baseline: Control) -> Floats:
    """Return ``b_t``, the value that the conditional log-probability of each token is compared with, ``[n]`` nats.

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
        raise ValueError(f"baseline {baseline} needs log-probabilities given the shuffled source")
    if baseline == "shuffled-source":
        return control
    both: Floats = (unconditional + control) / 2
    return both


def combine_passes(
    targets: Iterable[TokenIds],
    unconditional: Floats,
    conditional: Floats,
    control: Floats | None = None,
    baseline: Control = "none",
) -> Gains:
    """Return the gains from the log-probabilities of passes that scored these ``targets`` (ids, ``[n]``).

    Raises:
        AlignmentError: the passes do not score identical target ids.
        ValueError: see `check_gains`.
    """
    token_ids, *others = targets
    if any(not np.array_equal(token_ids, other) for other in others):
        raise AlignmentError("the passes score different target token ids")
    alone, given = np.asarray(unconditional, np.float64), np.asarray(conditional, np.float64)
    shuffled = None if control is None else np.asarray(control, np.float64)
    return check_gains(Gains(token_ids, alone, given, shuffled, baseline))


def check_gains(gains: Gains) -> Gains:
    """Return ``gains`` unchanged if they are valid.

    Raises:
        ValueError: its arrays differ in length, are empty, or contain a log-probability that is not finite; or the
            control that the baseline needs is missing.
    """
    values = [a for a in (gains.unconditional, gains.conditional, gains.control) if a is not None]
    lengths = {a.shape for a in (gains.token_ids, *values)}
    if len(lengths) != 1 or gains.token_ids.ndim != 1 or not len(gains.token_ids):
        raise ValueError(f"ids and log-probabilities must have one common length of 1 or more, not {sorted(lengths)}")
    if not all(np.isfinite(a).all() for a in values):
        raise ValueError("a log-probability is not finite")
    compute_baseline(gains.unconditional, gains.control, gains.baseline)
    return gains


def join_segments(parts: Iterable[Gains]) -> Gains:
    """Return the gains of consecutive segments as those of one target.

    Raises:
        ValueError: there are no parts, or they differ in their baseline or in having a control.
    """
    token_ids, unconditional, conditional, control, baseline = zip(*parts, strict=True)
    if len(set(baseline)) > 1 or len({c is None for c in control}) > 1:
        raise ValueError("segments of one target need the same baseline, and all or none of them a control")
    joined = None if control[0] is None else np.concatenate(control)
    return Gains(
        np.concatenate(token_ids), np.concatenate(unconditional), np.concatenate(conditional), joined, baseline[0]
    )
