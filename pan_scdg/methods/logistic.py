"""Logistic models of a pair's numbers, fitted by scikit-learn (paper, Hyperparameter Selection).

The paper's own solver minimises a strictly convex function, so that any solver that converges finds its optimum. Of
scikit-learn's, ``newton-cholesky`` is the paper's method, Newton-IRLS from zero. It stops by the gradient of the mean
loss, which at 1e-9 can leave the coefficients more than 1e-8 from the optimum; at 1e-12 they are within 1e-8 of a
literal Newton iteration on every case that the tests try.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from pan_scdg.errors import UserError
from pan_scdg.evaluation.resampling import Floats
from pan_scdg.scdg.thresholds import require_both_classes
from pan_scdg.settings import Table

ITERATIONS = 100
TOLERANCE = 1e-12
"""Tolerance; the paper has 1e-9 without naming the quantity."""


class LogisticWeights(Table):
    """A fitted logistic model of standardised features: ``sigmoid(intercept + coefficients . (x - mean) / scale)``."""

    intercept: float
    coefficients: tuple[float, ...] = Field(min_length=1)
    mean: tuple[float, ...]
    scale: tuple[Annotated[float, Field(gt=0)], ...]

    @model_validator(mode="after")
    def _has_one_of_each(self) -> "LogisticWeights":
        if not len(self.coefficients) == len(self.mean) == len(self.scale):
            raise ValueError("coefficients, mean and scale must have the same length")
        return self

    def compute_probability(self, features: Sequence[float]) -> float:
        """Return the probability of reuse of a pair."""
        return float(compute_probabilities(self, [list(features)])[0])


def fit_logistic(features: npt.ArrayLike, labels: npt.ArrayLike) -> LogisticWeights:
    """Return the minimum of summed log-loss + ``|coefficients|^2 / 2``, intercept free, on standardised features.

    No weights, no seed. Deviations have ddof 0; that of a feature with one value is replaced by 1, which leaves it
    without influence. The penalty keeps the coefficients finite where the classes can be separated.

    Args:
        features: shape ``[pairs, features]``.
        labels: 0 or 1 (or bool), shape ``[pairs]``.

    Raises:
        UserError: all pairs have the same label, or 100 iterations are not enough.
        ValueError: the deviation of a feature is not finite.
    """
    values, truth = np.asarray(features, dtype=np.float64), np.asarray(labels, dtype=np.bool_)
    require_both_classes(truth, "fit a logistic model on")
    mean, scale = _compute_moments(values)
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1.0, solver="newton-cholesky", tol=TOLERANCE, max_iter=ITERATIONS)
    model.fit((values - mean) / scale, truth)
    if model.n_iter_[0] >= ITERATIONS:
        raise UserError(f"the logistic model has no optimum after {ITERATIONS} iterations", "check its features")
    coefficients = tuple(model.coef_[0].tolist())
    return LogisticWeights(
        intercept=float(model.intercept_[0]),
        coefficients=coefficients,
        mean=tuple(mean.tolist()),
        scale=tuple(scale.tolist()),
    )


def compute_probabilities(fit: LogisticWeights, features: npt.ArrayLike) -> Floats:
    """Return the probability of reuse of each pair, ``[pairs]``."""
    from scipy.special import expit

    standard = (np.asarray(features, dtype=np.float64) - np.array(fit.mean)) / np.array(fit.scale)
    # a sum over columns, not a matrix product, so that a probability does not depend on the other pairs
    logits = fit.intercept + (standard * np.array(fit.coefficients)).sum(axis=1)
    return np.asarray(expit(logits), dtype=np.float64)


def _compute_moments(values: Floats) -> tuple[Floats, Floats]:
    """Return mean and deviation of each feature; of a constant one exactly its value and 1."""
    constant = values.min(axis=0) == values.max(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, scale = values.mean(axis=0), values.std(axis=0)
    if not (np.isfinite(mean).all() and np.isfinite(scale).all()):
        raise ValueError("the deviation of a feature is not finite")
    # a deviation can also vanish below the smallest float
    return np.where(constant, values[0], mean), np.where(constant | (scale == 0), 1.0, scale)
