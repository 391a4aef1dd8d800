"""Gains: the same tokens in both passes, signed, and their sum is the difference of code lengths."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.scdg.gains import Gains, combine_passes, join_segments
from pan_scdg.scdg.sequences import TokenIds, TokenMismatchError

finite = st.floats(-50, 50)


def targets(ids: list[int], others: list[int]) -> tuple[TokenIds, TokenIds]:
    return np.array(ids), np.array(others)


def test_gain_is_conditional_minus_unconditional_and_signed() -> None:
    gains = combine_passes(targets([7, 8], [7, 8]), np.float32([-2.0, -1.0]), np.float32([-0.5, -3.0]))
    assert gains.gains.tolist() == [1.5, -2.0]
    assert gains.gains.dtype == np.float64


def test_different_target_ids_are_an_error() -> None:
    with pytest.raises(TokenMismatchError, match="different target"):
        combine_passes(targets([7, 8], [7, 9]), np.zeros(2), np.zeros(2))
    with pytest.raises(TokenMismatchError, match="different target"):
        combine_passes(targets([7, 8], [7]), np.zeros(2), np.zeros(2))


@pytest.mark.parametrize("values", [[-1.0], [-1.0, math.nan], [-1.0, -math.inf]])
def test_missing_or_infinite_log_probabilities_are_an_error(values: list[float]) -> None:
    with pytest.raises(ValueError, match=r"one common length|not finite"):
        combine_passes(targets([7, 8], [7, 8]), np.zeros(2), np.array(values))


def test_no_token_is_an_error() -> None:
    with pytest.raises(ValueError, match="length"):
        combine_passes(targets([], []), np.array([]), np.array([]))
    with pytest.raises(ValueError, match="not enough values"):
        join_segments([])


def test_segments_join_in_order() -> None:
    one = Gains(np.array([1, 2]), np.array([-1.0, -2.0]), np.array([-3.0, -4.0]))
    two = Gains(np.array([3]), np.array([-5.0]), np.array([-6.0]))
    assert [a.tolist() for a in join_segments([one, two])[:3]] == [[1, 2, 3], [-1, -2, -5], [-3, -4, -6]]


@settings(max_examples=50, deadline=None)
@given(pairs=st.lists(st.tuples(finite, finite), min_size=1, max_size=60))
def test_gains_add_up_to_the_difference_of_code_lengths(pairs: list[tuple[float, float]]) -> None:
    before, behind = (np.array(x) for x in zip(*pairs))
    gains = Gains(np.arange(len(pairs)), before, behind)
    l_0, l_s = -math.fsum(before), -math.fsum(behind)
    assert gains.gains.sum() == pytest.approx(l_0 - l_s, abs=1e-9)
