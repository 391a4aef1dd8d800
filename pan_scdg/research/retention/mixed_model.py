"""The random-intercept model of the retention study (paper, Mixed-Effects Model and Primary Hypotheses).

    G = b0 + b1 Y + b2 r + b3 Y r + u_pair + e

by maximum likelihood with the library statsmodels. L-BFGS comes first, as in the paper, and where it fails the next of
`OPTIMISERS` does. The paper takes L-BFGS's finite numbers, with warnings of a singular covariance; here that counts as
a failure too, because there the library's limit is that of an infinite variance of the intercepts, and not of none
(its issue 10239). If all fail, the likeliest of their finite fits is taken, and least squares without intercepts of
pairs where there is none. Which it was, and all that the library warns of, are part of the result. Of a boundary the
library warns whenever the variance of the intercepts is below 0.01, whatever the scale.
"""

import math
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.research.retention.contexts import LEVELS
from pan_scdg.research.retention.means import CONTENT, MeanTable

OPTIMISERS = ("lbfgs", "bfgs", "cg", "powell")
LEAST_SQUARES = "least squares"

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Coefficient:
    """A slope in nats per token and unit of retention; ``p`` of the Wald test."""

    estimate: float
    standard_error: float
    p: float
    sides: int
    """1: against slopes of 0 and below; 2: against 0."""


@dataclass(frozen=True)
class MixedFit:
    """The slopes, and how they were come by."""

    new: Coefficient
    """b2."""
    difference: Coefficient
    """b3, the primary hypothesis."""
    plagiarism: Coefficient
    """b2 + b3."""
    observations: int
    groups: int
    optimiser: str
    """One of `OPTIMISERS`, or `LEAST_SQUARES`."""
    warnings: tuple[str, ...]
    """Of the library, and why an optimiser failed; in the order in which they came, each once."""


def fit_mixed(table: MeanTable) -> MixedFit:
    """Fit the model to the means of all pairs.

    Raises:
        ValueError: there are fewer than two pairs.
    """
    pairs = len(table.pair_ids)
    if pairs < 2:
        raise ValueError("a random intercept needs at least two pairs")
    outcome, design = table.gains.ravel(), design_matrix(pairs)
    told: list[str] = []
    kept: list[_Fit] = []
    for optimiser in OPTIMISERS:
        fit = _fitted(outcome, design, optimiser, told)
        if fit is not None and fit.sound:
            return _described(fit, pairs, told)
        kept += [] if fit is None else [fit]
    return _described(max(kept, key=lambda fit: fit.likelihood, default=_least_squares(outcome, design)), pairs, told)


def design_matrix(pairs: int) -> Floats:
    """Columns 1, Y, r and Y r, ``[pairs * 2 * 5, 4]``, in the order of `MeanTable.gains`."""
    y, r = np.meshgrid([1.0, 0.0], LEVELS, indexing="ij")
    rows = np.stack([np.ones(y.size), y.ravel(), r.ravel(), (y * r).ravel()], axis=1)
    return np.tile(rows, (pairs, 1))


class _Fit(NamedTuple):
    """Coefficients ``[4]`` and their covariance ``[4, 4]``, finite."""

    optimiser: str
    coefficients: Floats
    covariance: Floats
    likelihood: float
    sound: bool
    """It converged, and not to a singular covariance."""


def _fitted(outcome: Floats, design: Floats, optimiser: str, told: list[str]) -> _Fit | None:
    """The fit by one optimiser, None where it is not finite; ``told`` gets its warnings and why it is not sound."""
    from statsmodels.regression.mixed_linear_model import MixedLM
    from statsmodels.tools.sm_exceptions import SingularMatrixWarning

    groups = np.arange(len(design)) // (len(CONTENT) * len(LEVELS))
    fit, reason = None, "numbers that are not finite"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = MixedLM(outcome, design, groups).fit(reml=False, method=optimiser)
            values = np.asarray(result.fe_params), np.asarray(result.cov_params())[:4, :4], float(result.llf)
            if all(np.isfinite(value).all() for value in values):
                singular = any(issubclass(w.category, SingularMatrixWarning) for w in caught)
                fit = _Fit(optimiser, *values, bool(result.converged) and not singular)
                reason = "a singular covariance" if singular else "no convergence"
        except (np.linalg.LinAlgError, ValueError, ZeroDivisionError) as e:
            reason = f"{type(e).__name__}: {e}"
    told += [f"{optimiser}: {w.category.__name__}: {w.message}" for w in caught]
    if fit is None or not fit.sound:
        told.append(f"{optimiser} failed: {reason}")
    return fit


def _least_squares(outcome: Floats, design: Floats) -> _Fit:
    from statsmodels.api import OLS

    result = OLS(outcome, design).fit()
    return _Fit(LEAST_SQUARES, np.asarray(result.params), np.asarray(result.cov_params()), -math.inf, False)


def _described(fit: _Fit, pairs: int, told: list[str]) -> MixedFit:
    def wald(weights: list[int], sides: int) -> Coefficient:
        value = float(np.dot(weights, fit.coefficients))
        error = math.sqrt(float(np.dot(weights, fit.covariance @ np.array(weights))))
        return Coefficient(value, error, _p(value, error, sides), sides)

    return MixedFit(
        new=wald([0, 0, 1, 0], sides=2),
        difference=wald([0, 0, 0, 1], sides=2),
        plagiarism=wald([0, 0, 1, 1], sides=1),
        observations=pairs * len(CONTENT) * len(LEVELS),
        groups=pairs,
        optimiser=fit.optimiser,
        warnings=tuple(dict.fromkeys(told)),
    )


def _p(value: float, error: float, sides: int) -> float:
    """The tail of the normal distribution, above the value for one side, beyond it for two."""
    from scipy.stats import norm

    z = value / error if error > 0 else math.copysign(math.inf, value) if value else 0.0
    return float(norm.sf(z) if sides == 1 else 2 * norm.sf(abs(z)))
