"""Estimate the growth of gains with retained evidence: curves, slopes resampled by pair, and a mixed model.

These are the paper's Pair-Level Bootstrap Confidence Intervals, Cluster-Bootstrap Slope Results, and Mixed-Effects
Model and Primary Hypotheses. All results are in nats per token, slopes per unit of retention. Where the paper leaves it
open: one set of 1,000 draws of pairs from ``default_rng(42)`` serves every level, content and slope, and the linear
slope model is least squares with an intercept for each content. Every pair has the same levels, so that its fit to a
resample is the mean over the drawn pairs of the slopes of each.

The mixed model ``G = b0 + b1 Y + b2 r + b3 Y r + u_pair + e`` is fitted by maximum likelihood with statsmodels, first
by L-BFGS as in the paper, then by the next of `OPTIMISERS`. The paper accepts finite numbers of L-BFGS with warnings of
a singular covariance. Here they count as a failure, because there the library's limit is that of an infinite variance
of the intercepts (its issue 10239). If all fail, the likeliest finite fit is taken, else least squares without
intercepts of pairs. The optimiser and all warnings are part of the result; of a boundary the library warns whenever the
variance of the intercepts is below 0.01, whatever the scale.
"""

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pan_scdg.evaluation.report import Estimate
from pan_scdg.evaluation.resampling import RESAMPLES, SEED, Floats, draw_resamples, find_interval
from studies.retention.contexts import LEVELS
from studies.retention.scoring import CONTENT

if TYPE_CHECKING:
    from pandas import DataFrame

OPTIMISERS = ("lbfgs", "bfgs", "cg", "powell")
LEAST_SQUARES = "least squares"


@dataclass(frozen=True)
class Point:
    """A point of the figure: mean of the bootstrap means and their 2.5th and 97.5th percentiles."""

    content: str
    retention: float
    pairs: int
    gain: Estimate


class Slopes(NamedTuple):
    """Bootstrap means and percentile intervals of the slopes."""

    plagiarism: Estimate
    new: Estimate
    difference: Estimate
    """Slope of plagiarism-labelled content minus slope of new content."""
    plagiarism_positive: float
    """Share of resamples in which the slope of plagiarism-labelled content is above 0."""


@dataclass(frozen=True)
class Coefficient:
    """A slope with the ``p`` of its Wald test."""

    estimate: float
    standard_error: float
    p: float
    sides: int
    """1: against slopes of 0 and below; 2: against 0."""


@dataclass(frozen=True)
class MixedFit:
    """The slopes of the mixed model, and how they were fitted."""

    new: Coefficient
    """b2."""
    difference: Coefficient
    """b3, the primary hypothesis."""
    plagiarism: Coefficient
    """b2 + b3."""
    optimiser: str
    """One of `OPTIMISERS`, or `LEAST_SQUARES`."""
    warnings: tuple[str, ...]
    """Warnings of the library and reasons of failures, in their order, each once."""


class RetentionResults(NamedTuple):
    """The results of one language model."""

    points: tuple[Point, ...]
    mixed: MixedFit
    slopes: Slopes


def estimate_retention(means: "DataFrame") -> RetentionResults:
    """Return the results of the rows of every context, as `scoring.average_contexts` gives them."""
    gains = average_seeds(means)
    return RetentionResults(estimate_curves(gains), fit_mixed(gains), resample_slopes(gains))


def average_seeds(means: "DataFrame") -> Floats:
    """Return the mean gains of each pair, averaged over its seeds (paper, Pair-Level Bootstrap Confidence Intervals).

    Returns:
        Nats per token, ``[pairs, contents, levels]``: pairs in the order in which they occur first, the others in that
        of `scoring.CONTENT` and `contexts.LEVELS`.
    """
    import pandas

    keys = ["pair_id", "content", "retention", "seed"]
    pair_ids, seeds = (list(dict.fromkeys(means[name])) for name in ("pair_id", "seed"))
    cells = pandas.MultiIndex.from_product([pair_ids, CONTENT.values(), LEVELS, seeds], names=keys)
    values = means.set_index(keys)["mean_gain"].loc[cells].to_numpy(np.float64)
    shape = (len(pair_ids), len(CONTENT), len(LEVELS), len(seeds))
    return np.asarray(values.reshape(shape).mean(axis=-1), dtype=np.float64)


def draw_weights(pairs: int) -> Floats:
    """Return the share of each pair in each resample of as many pairs, ``[RESAMPLES, pairs]``."""
    return np.concatenate(list(draw_resamples(pairs, RESAMPLES, SEED))) / pairs


def estimate_curves(gains: Floats) -> tuple[Point, ...]:
    """Return a point for each content and retention of `average_seeds`, in its order."""
    means = np.einsum("bp,pcl->bcl", draw_weights(len(gains)), gains)
    return tuple(
        Point(content, level, len(gains), _summarise(means[:, c, number]))
        for c, content in enumerate(CONTENT.values())
        for number, level in enumerate(LEVELS)
    )


def resample_slopes(gains: Floats) -> Slopes:
    """Return the slopes of the resampled pairs."""
    centred = np.array(LEVELS) - np.mean(LEVELS)
    of_pairs = gains @ centred / (centred @ centred)
    plagiarism, new = (draw_weights(len(gains)) @ of_pairs).T
    difference = _summarise(plagiarism - new)
    return Slopes(_summarise(plagiarism), _summarise(new), difference, float(np.mean(plagiarism > 0)))


def _summarise(values: Floats) -> Estimate:
    return Estimate(float(values.mean()), *find_interval(values))


def fit_mixed(gains: Floats) -> MixedFit:
    """Fit the mixed model to the means of all pairs, of which there are at least two."""
    outcome, design = gains.ravel(), make_design(len(gains))
    messages: list[str] = []
    kept: list[_Fit] = []
    for optimiser in OPTIMISERS:
        fit = _try_fit(outcome, design, optimiser, messages)
        if fit is not None and fit.sound:
            return _describe(fit, messages)
        kept += [] if fit is None else [fit]
    best = max(kept, key=lambda fit: fit.likelihood, default=_fit_least_squares(outcome, design))
    return _describe(best, messages)


def make_design(pairs: int) -> Floats:
    """Return the columns 1, Y, r and Y r, ``[pairs * 2 * 5, 4]``, in the order of `average_seeds`."""
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


def _try_fit(outcome: Floats, design: Floats, optimiser: str, messages: list[str]) -> _Fit | None:
    """Return the fit by one optimiser, None if it is not finite; add warnings and failures to ``messages``."""
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
    messages += [f"{optimiser}: {w.category.__name__}: {w.message}" for w in caught]
    if fit is None or not fit.sound:
        messages.append(f"{optimiser} failed: {reason}")
    return fit


def _fit_least_squares(outcome: Floats, design: Floats) -> _Fit:
    from statsmodels.api import OLS

    result = OLS(outcome, design).fit()
    return _Fit(LEAST_SQUARES, np.asarray(result.params), np.asarray(result.cov_params()), -math.inf, False)


def _describe(fit: _Fit, messages: list[str]) -> MixedFit:
    def test_slope(weights: list[int], sides: int) -> Coefficient:
        value = float(np.dot(weights, fit.coefficients))
        error = math.sqrt(float(np.dot(weights, fit.covariance @ np.array(weights))))
        return Coefficient(value, error, _compute_p(value, error, sides), sides)

    return MixedFit(
        new=test_slope([0, 0, 1, 0], sides=2),
        difference=test_slope([0, 0, 0, 1], sides=2),
        plagiarism=test_slope([0, 0, 1, 1], sides=1),
        optimiser=fit.optimiser,
        warnings=tuple(dict.fromkeys(messages)),
    )


def _compute_p(value: float, error: float, sides: int) -> float:
    """Return the tail of the normal distribution above the value for one side, beyond it for two."""
    from scipy.stats import norm

    z = value / error if error > 0 else math.copysign(math.inf, value) if value else 0.0
    return float(norm.sf(z) if sides == 1 else 2 * norm.sf(abs(z)))
