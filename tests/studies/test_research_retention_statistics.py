"""Curves, resampled slopes and the mixed model on gains whose slopes are known, each against a literal restatement."""

import warnings

import numpy as np
import pandas
import pytest
from scipy import optimize, stats

from studies.retention.contexts import LEVELS, make_contexts
from studies.retention.scoring import average_gains
from studies.retention.statistics import (
    LEAST_SQUARES,
    OPTIMISERS,
    average_seeds,
    draw_weights,
    estimate_curves,
    estimate_retention,
    fit_mixed,
    make_design,
    resample_slopes,
)
from tests.studies.retention_texts import some_case, some_pool


def some_gains(
    pairs: int, slopes: tuple[float, float] = (0.16, 0.01), intercepts: float = 0.1, noise: float = 0.02, seed: int = 0
) -> np.ndarray:
    """Gains with these slopes of plagiarism-labelled and new content, in the mean of many pairs."""
    rng = np.random.default_rng(seed)
    of_pairs = np.array(slopes)[:, None] * np.array(LEVELS)
    return rng.normal(0, intercepts, (pairs, 1, 1)) + of_pairs + rng.normal(0, noise, (pairs, 2, 5))


def rows_of(table: np.ndarray, seeds: int = 5) -> pandas.DataFrame:
    """Rows whose means over the seeds are the gains of the table."""
    shifts = np.arange(seeds) - (seeds - 1) / 2
    rows = [
        (f"p{p:03d}", level, seed, content, 7, float(table[p, c, number] + shifts[seed]))
        for p in range(len(table))
        for number, level in enumerate(LEVELS)
        for seed in range(seeds)
        for c, content in enumerate(("plagiarism", "new"))
    ]
    return pandas.DataFrame(rows, columns=COLUMNS)


COLUMNS = ("pair_id", "retention", "seed", "content", "tokens", "mean_gain")
CONTEXT = make_contexts([some_case()], some_pool(), [3])[1]


def test_means_are_over_the_tokens_of_each_content() -> None:
    gains, labels = np.array([1.0, 2.0, 4.0, 8.0, 16.0]), np.array([1, 0, -1, 1, 0], dtype=np.int8)
    assert list(average_gains(CONTEXT, gains, labels)) == [
        dict(zip(COLUMNS, ("s1-r1", 0.25, 3, "plagiarism", 2, 4.5))),
        dict(zip(COLUMNS, ("s1-r1", 0.25, 3, "new", 2, 9.0))),
    ]


def test_rows_at_the_papers_size_and_their_average_over_seeds() -> None:
    table = some_gains(300)
    rows = rows_of(table)
    assert len(rows) == 15_000
    found = average_seeds(rows)
    np.testing.assert_allclose(found, table, atol=1e-12)


def test_resamples_are_those_of_one_generator() -> None:
    rng = np.random.default_rng(42)
    drawn = [rng.choice(300, size=300, replace=True) for _ in range(1000)]
    expected = np.stack([np.bincount(sample, minlength=300) for sample in drawn]) / 300
    assert np.array_equal(draw_weights(300), expected)


def test_points_are_means_of_bootstrap_means() -> None:
    table = some_gains(40)
    points = estimate_curves(table)
    assert [(p.content, p.retention, p.pairs) for p in points[4:6]] == [("plagiarism", 1.0, 40), ("new", 0.0, 40)]
    values = table[:, 0, 4]
    rng = np.random.default_rng(42)
    means = [rng.choice(values, size=40, replace=True).mean() for _ in range(1000)]
    expected = [np.mean(means), np.percentile(means, 2.5), np.percentile(means, 97.5)]
    np.testing.assert_allclose(points[4].gain, expected, atol=1e-12)


def test_slopes_are_those_of_a_least_squares_refit_of_every_resample() -> None:
    table = some_gains(25, noise=0.1)
    found = resample_slopes(table)
    rng, refits = np.random.default_rng(42), []
    for _ in range(1000):
        sample = table[rng.choice(25, size=25, replace=True)]
        refits.append(np.linalg.lstsq(make_design(25), sample.ravel(), rcond=None)[0])
    _, _, new, difference = np.array(refits).T
    for estimate, values in ((found.plagiarism, new + difference), (found.new, new), (found.difference, difference)):
        np.testing.assert_allclose(estimate, [values.mean(), *np.percentile(values, [2.5, 97.5])], atol=1e-10)
    assert found.plagiarism_positive == np.mean(new + difference > 0)


def test_known_slopes_are_found_and_none_where_there_is_none() -> None:
    planted = estimate_retention(rows_of(some_gains(60)))
    assert planted.slopes.plagiarism.low < 0.16 < planted.slopes.plagiarism.high
    assert planted.slopes.new.low < 0.01 < planted.slopes.new.high
    assert planted.slopes.plagiarism_positive == 1.0
    assert planted.mixed.difference.p < 1e-4
    nothing = estimate_retention(rows_of(some_gains(60, slopes=(0.0, 0.0), seed=3)))
    for estimate in (nothing.slopes.plagiarism, nothing.slopes.new, nothing.slopes.difference):
        assert estimate.low < 0 < estimate.high
    assert min(nothing.mixed.difference.p, nothing.mixed.new.p, nothing.mixed.plagiarism.p) > 0.01


def negative_likelihood(parameters: np.ndarray, table: np.ndarray) -> float:
    """Of the random-intercept model: normal with the covariance of a pair written out."""
    *beta, log_between, log_within = parameters
    pairs, design = len(table), make_design(1)
    covariance = np.exp(log_between) * np.ones((10, 10)) + np.exp(log_within) * np.eye(10)
    residuals = table.reshape(pairs, 10) - design @ np.array(beta)
    return -float(stats.multivariate_normal(np.zeros(10), covariance).logpdf(residuals).sum())


def test_the_mixed_model_is_at_the_maximum_of_the_likelihood() -> None:
    table = some_gains(30, intercepts=0.3, noise=0.2)
    fit = fit_mixed(table)
    start = np.array([0.0, 0.0, 0.0, 0.0, np.log(0.1), np.log(0.05)])
    best = optimize.minimize(negative_likelihood, start, args=(table,), method="BFGS", options={"gtol": 1e-6})
    np.testing.assert_allclose([fit.new.estimate, fit.difference.estimate], best.x[2:4], atol=1e-5)
    assert fit.plagiarism.estimate == pytest.approx(best.x[2] + best.x[3], abs=1e-5)
    # at the maximum the covariance of the coefficients is that of generalised least squares
    within, between = np.exp(best.x[5]), np.exp(best.x[4])
    design, covariance = make_design(1), between * np.ones((10, 10)) + within * np.eye(10)
    expected = np.linalg.inv(30 * design.T @ np.linalg.solve(covariance, design))
    for found, weights in ((fit.new, [0, 0, 1, 0]), (fit.difference, [0, 0, 0, 1]), (fit.plagiarism, [0, 0, 1, 1])):
        assert found.standard_error == pytest.approx(np.sqrt(weights @ expected @ weights), rel=1e-3)
        z = found.estimate / found.standard_error
        p = 1 - stats.norm.cdf(z) if found is fit.plagiarism else 2 * (1 - stats.norm.cdf(abs(z)))
        assert found.p == pytest.approx(p, abs=1e-9)
    assert (fit.plagiarism.sides, fit.new.sides) == (1, 2)
    assert (fit.optimiser, fit.warnings) == ("lbfgs", ())


def within_pairs(table: np.ndarray, pooled: bool) -> np.ndarray:
    """Standard errors of b1 to b3 in closed form: all pairs have one design."""
    pairs, design = len(table), make_design(1)[:, 1:]
    values = table.reshape(pairs, 10)
    centred, design = values - values.mean(1, keepdims=True), design - design.mean(0)
    slopes = np.linalg.lstsq(np.tile(design, (pairs, 1)), centred.ravel(), rcond=None)[0]
    squares = ((centred - design @ slopes) ** 2).sum()
    between = 10 * ((values.mean(1) - values.mean()) ** 2).sum()
    variance = (squares + between) / (10 * pairs) if pooled else squares / (9 * pairs)
    return np.sqrt(variance * np.diag(np.linalg.inv(pairs * design.T @ design)))


@pytest.mark.long
@pytest.mark.parametrize(("pairs", "intercepts", "pooled"), [(300, 0.02, False), (300, 0.0, True), (23, 0.0, True)])
def test_a_covariance_that_looks_singular_costs_a_warning_and_no_accuracy(
    pairs: int, intercepts: float, pooled: bool
) -> None:
    table = some_gains(pairs, intercepts=intercepts, noise=0.05, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = fit_mixed(table)
    assert any("ConvergenceWarning" in line for line in fit.warnings)
    _, new, difference = within_pairs(table, pooled)
    assert fit.new.standard_error == pytest.approx(new, rel=2e-3)
    assert fit.difference.standard_error == pytest.approx(difference, rel=2e-3)
    slope = np.polyfit(LEVELS, table[:, 1].mean(0), 1)[0]
    assert fit.new.estimate == pytest.approx(slope, abs=1e-9)


def test_an_optimiser_that_fails_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    from statsmodels.regression.mixed_linear_model import MixedLM

    real, tried = MixedLM.fit, []

    def failing(self: object, reml: bool, method: str) -> object:
        tried.append(method)
        if len(tried) < 3:
            raise np.linalg.LinAlgError("Singular matrix")
        return real(self, reml=reml, method=method)

    monkeypatch.setattr(MixedLM, "fit", failing)
    fit = fit_mixed(some_gains(12))
    assert (fit.optimiser, tried) == ("cg", ["lbfgs", "bfgs", "cg"])
    assert fit.warnings[:2] == (
        "lbfgs failed: LinAlgError: Singular matrix",
        "bfgs failed: LinAlgError: Singular matrix",
    )


def test_least_squares_is_the_last_resort_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from statsmodels.regression.mixed_linear_model import MixedLM

    def failing(self: object, reml: bool, method: str) -> object:
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr(MixedLM, "fit", failing)
    table = some_gains(12)
    fit = fit_mixed(table)
    assert fit.optimiser == LEAST_SQUARES
    assert fit.warnings == tuple(f"{name} failed: LinAlgError: Singular matrix" for name in OPTIMISERS)
    slopes = np.linalg.lstsq(make_design(12), table.ravel(), rcond=None)[0]
    np.testing.assert_allclose([fit.new.estimate, fit.difference.estimate], slopes[2:])


def test_gains_without_any_noise_are_fitted_all_the_same() -> None:
    fit = fit_mixed(np.zeros((3, 2, 5)) + np.array(LEVELS))
    assert fit.plagiarism.estimate == pytest.approx(1.0)
    assert len([line for line in fit.warnings if " failed: " in line]) == len(OPTIMISERS)
