"""The logistic fit against a literal Newton iteration, the objective's own gradient, and statsmodels."""

import math
import warnings

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.errors import UserError
from pan_scdg.methods.logistic import LogisticWeights, compute_probabilities, fit_logistic

Floats = npt.NDArray[np.float64]


def drawn(pairs: int, apart: float, seed: int = 0) -> tuple[Floats, Floats]:
    """Three features of different size, two of them related, and labels that they tell ``apart`` so well."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(pairs) < 0.32).astype(float)
    labels[:2] = 0, 1
    first = rng.normal(size=pairs) + apart * labels
    return np.column_stack([first, 100 * first + rng.normal(size=pairs), rng.random(pairs) - 7]), labels


def literal(features: Floats, labels: Floats) -> Floats:
    """The paper's solver as it is written: Newton-IRLS, zero start, 100 iterations, 1e-9; intercept first."""
    design = np.column_stack([np.ones(len(features)), standardised(features)])
    penalty = np.diag([0.0] + [1.0] * features.shape[1])
    w = np.zeros(design.shape[1])
    for _ in range(100):
        p = 1 / (1 + np.exp(-design @ w))
        hessian = design.T @ np.diag(p * (1 - p)) @ design + penalty
        step = np.linalg.solve(hessian, design.T @ (p - labels) + penalty @ w)
        w = w - step
        if np.abs(step).max() < 1e-9:
            return w
    raise AssertionError("no convergence")


def standardised(features: Floats) -> Floats:
    deviation = features.std(axis=0)
    deviation[deviation == 0] = 1
    return (features - features.mean(axis=0)) / deviation


def weights(fit: LogisticWeights) -> Floats:
    return np.array([fit.intercept, *fit.coefficients])


@pytest.mark.parametrize(("pairs", "apart"), [(4, 0), (40, 1), (40, 60), (1200, 0.3), (1200, 5)])
def test_the_optimum_of_the_papers_solver_is_reached_to_1e_8(pairs: int, apart: float) -> None:
    features, labels = drawn(pairs, apart)
    fit = fit_logistic(features, labels)
    np.testing.assert_allclose(weights(fit), literal(features, labels), rtol=0, atol=1e-8)
    np.testing.assert_allclose(fit.mean, features.mean(axis=0))
    np.testing.assert_allclose(fit.scale, features.std(axis=0, ddof=0))


@settings(max_examples=50, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(-3, 3), st.floats(-1e6, 1e6, allow_subnormal=False), st.booleans()),
        min_size=2,
        max_size=30,
    )
)
def test_the_objective_has_no_slope_at_the_fit(rows: list[tuple[int, float, bool]]) -> None:
    features = np.array([row[:2] for row in rows])
    labels = np.array([row[2] for row in rows], dtype=float)
    if len(set(labels)) < 2:
        labels[0] = 1 - labels[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = fit_logistic(features, labels)
    over = compute_probabilities(fit, features) - labels
    standard = (features - np.array(fit.mean)) / np.array(fit.scale)
    slope = [over.sum(), *(standard.T @ over + np.array(fit.coefficients))]
    assert np.abs(slope).max() < 1e-8


@pytest.mark.parametrize("columns", [[0, 1, 2], [2], [0, 2]])
def test_statsmodels_finds_the_same_penalised_optimum(columns: list[int]) -> None:
    """Its L2 penalty is the weighted sum of squares, without the half."""
    from statsmodels.api import Logit
    from statsmodels.base._penalized import PenalizedMixin
    from statsmodels.base._penalties import L2

    class Ridge(PenalizedMixin, Logit):  # type: ignore[misc]
        pass

    features, labels = drawn(400, 1)
    some = features[:, columns]
    design = np.column_stack([np.ones(len(some)), standardised(some)])
    ridge = Ridge(labels, design, penal=L2(weights=np.array([0.0] + [0.5] * len(columns))), pen_weight=1.0)
    found = ridge.fit(method="newton", tol=1e-12, disp=0)
    np.testing.assert_allclose(weights(fit_logistic(some, labels)), found.params, rtol=0, atol=1e-8)


def test_separated_classes_have_finite_weights() -> None:
    fit = fit_logistic([[0.0], [0.0], [1.0], [1.0]], [0, 0, 1, 1])
    assert fit.intercept == pytest.approx(0, abs=1e-8)
    assert 0 < fit.coefficients[0] < 5
    assert (compute_probabilities(fit, [[0.0], [0.5], [1.0]]) > [-1, 0.49, 0.5]).all()


def test_a_constant_feature_has_scale_one_and_no_influence() -> None:
    """The deviation of three times 0.1 is 1e-17 in floats."""
    fit = fit_logistic([[1.0, 0.1], [2.0, 0.1], [3.0, 0.1]], [0, 1, 1])
    assert (fit.mean[1], fit.scale[1]) == (0.1, 1.0)
    assert fit.coefficients[1] == pytest.approx(0, abs=1e-12)
    alone = fit_logistic([[1.0], [2.0], [3.0]], [0, 1, 1])
    np.testing.assert_allclose(weights(fit)[:2], weights(alone), atol=1e-8)


def test_only_constant_features_leave_the_share_of_positives() -> None:
    fit = fit_logistic(np.ones((4, 2)), [0, 0, 0, 1])
    assert fit.intercept == pytest.approx(math.log(1 / 3))
    assert compute_probabilities(fit, [[1.0, 1.0]])[0] == pytest.approx(0.25)


def test_probabilities_by_hand() -> None:
    fit = LogisticWeights(intercept=0.5, coefficients=(2.0, -1.0), mean=(1.0, 10.0), scale=(2.0, 5.0))
    assert compute_probabilities(fit, [[3.0, 15.0]])[0] == pytest.approx(1 / (1 + math.exp(-(0.5 + 2.0 - 1.0))))
    assert compute_probabilities(fit, [[-1e9, 0.0], [1e9, 0.0]]).tolist() == [0.0, 1.0]


def test_the_probability_of_a_pair_does_not_depend_on_the_others() -> None:
    features, labels = drawn(333, 1)
    fit = fit_logistic(features, labels)
    together = compute_probabilities(fit, features)
    assert together.tolist() == [compute_probabilities(fit, row[None])[0] for row in features]


@pytest.mark.parametrize(("labels", "missing"), [([1, 1], "negative"), ([0, 0], "positive")])
def test_a_missing_class_is_the_users_error(labels: list[int], missing: str) -> None:
    with pytest.raises(UserError, match=f"no {missing} pair"):
        fit_logistic([[1.0], [2.0]], labels)


def test_a_deviation_beyond_the_largest_float_is_an_error() -> None:
    with pytest.raises(ValueError, match="deviation"):
        fit_logistic([[1.7e308], [-1.7e308]], [0, 1])
