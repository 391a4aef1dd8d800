"""How the official PAN 2025 baseline finds the threshold of a cosine (paper, Hyperparameter Selection)."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserError

VALUES = 100
"""Candidates, uniformly on [0, 1], both ends included; the published 0.727, 0.697 and 0.596 are 72, 69 and 59 / 99."""


class OfficialChoice(NamedTuple):
    """A threshold, and what it does on the pairs that it was chosen on."""

    threshold: float
    sensitivity: float
    """Share of the positive pairs that score at least as much."""
    specificity: float
    """Share of the negative pairs that score less."""


def official_threshold(scores: npt.ArrayLike, labels: npt.ArrayLike) -> OfficialChoice:
    """The candidate with the largest sensitivity + specificity, of several the lowest, as in the official program.

    There the scores are those of paragraph pairs, here of document pairs.

    Args:
        scores: shape ``[pairs]``.
        labels: True where the pair is one of reuse, ``[pairs]``.

    Raises:
        UserError: all pairs have the same label.
        ValueError: lengths differ, or a score is not finite.
    """
    values, truth = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=bool)
    if values.ndim != 1 or values.shape != truth.shape or not np.isfinite(values).all():
        raise ValueError(f"needs one finite score for each of the labels, not shapes {values.shape}, {truth.shape}")
    if truth.all() or not truth.any():
        missing = "negative" if len(truth) and truth.all() else "positive"
        raise UserError(f"there is no {missing} pair to calibrate on", "give pairs with and without reuse")
    candidates = np.linspace(0, 1, VALUES)
    above = np.array([np.mean(values[truth] >= t) for t in candidates])
    below = np.array([np.mean(values[~truth] < t) for t in candidates])
    at = int(np.argmax(above + below))
    return OfficialChoice(float(candidates[at]), float(above[at]), float(below[at]))
