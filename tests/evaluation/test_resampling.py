"""The randomisation test against all swaps written out."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.evaluation.resampling import run_randomisation_test


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
