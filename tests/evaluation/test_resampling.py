"""Randomisation tests against all swaps written out and scipy; Holm's correction against statsmodels."""

from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import permutation_test

from pan_scdg.evaluation.resampling import Floats, compute_p_values, correct_p_values, run_randomisation_test


@settings(max_examples=30, deadline=None)
@given(differences=st.lists(st.integers(-4, 4), min_size=2, max_size=8))
def test_few_queries_are_tried_in_every_way(differences: list[int]) -> None:
    observed = abs(sum(differences))
    sums = [abs(sum(s * d for s, d in zip(signs, differences))) for signs in product((1, -1), repeat=len(differences))]
    expected = sum(s >= observed for s in sums) / len(sums)
    assert run_randomisation_test(differences) == pytest.approx(expected)


def test_random_swaps_come_near_the_exact_value() -> None:
    differences = np.random.default_rng(1).normal(0.4, 1, size=16)
    signs = np.array(list(product((1, -1), repeat=16)))
    exact = np.mean(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-12)
    assert run_randomisation_test(differences) == pytest.approx(exact, abs=0.015)


def test_what_never_differs_has_p_one_and_what_always_does_the_least_there_is() -> None:
    """Twice the smaller tail, which holds the observed swap alone."""
    assert run_randomisation_test(np.zeros(40)) == 1.0
    assert run_randomisation_test(np.full(40, 0.1)) == 2 / 10000


def test_the_seed_decides() -> None:
    differences = np.random.default_rng(1).normal(0.2, 1, size=40)
    assert run_randomisation_test(differences, seed=7) == run_randomisation_test(differences, seed=7)
    assert run_randomisation_test(differences, seed=7) == run_randomisation_test(-differences, seed=7)
    assert len({run_randomisation_test(differences, seed=seed) for seed in range(5)}) > 1


def compute_f1(sums: Floats) -> dict[str, Floats]:
    hits, misses, wrong = np.asarray(sums).T
    return {"f1": 2 * hits / (2 * hits + misses + wrong), "hits": hits}


@pytest.mark.parametrize("items", [2, 5, 8])
def test_p_values_of_all_exchanges_are_those_of_scipy(items: int) -> None:
    rng = np.random.default_rng(items)
    first, other = (rng.integers(1, 4, size=(items, 3)).astype(float) for _ in range(2))
    rows = np.concatenate([first, other])
    p_values = compute_p_values(first, other, compute_f1)
    for name in ("f1", "hits"):

        def subtract(one: npt.NDArray[np.int64], two: npt.NDArray[np.int64], name: str = name) -> float:
            return float(compute_f1(rows[one].sum(axis=0))[name] - compute_f1(rows[two].sum(axis=0))[name])

        numbers = (np.arange(items), items + np.arange(items))
        assert p_values[name] == pytest.approx(permutation_test(numbers, subtract, permutation_type="samples").pvalue)


def test_p_values_of_random_exchanges() -> None:
    rng = np.random.default_rng(0)
    first, other = rng.normal(0, 1, size=(2, 40, 1))
    p_values = compute_p_values(first, other, lambda sums: {"mean": sums[:, 0] / 40, "none": sums[:, 0] * np.nan})
    assert p_values["mean"] == pytest.approx(run_randomisation_test((other - first)[:, 0]), abs=0.02)
    assert np.isnan(p_values["none"])


def test_corrected_p_values_are_those_of_statsmodels() -> None:
    multitest = pytest.importorskip("statsmodels.stats.multitest", reason="the extra studies is not installed")
    p_values = [0.03, 0.5, 0.001, 0.03, 1.0]
    expected = list(multitest.multipletests(p_values, method="holm")[1])
    assert correct_p_values(p_values) == pytest.approx(expected)
    with_nan = correct_p_values([float("nan"), *p_values])
    assert np.isnan(with_nan[0])
    assert with_nan[1:] == pytest.approx(expected)
