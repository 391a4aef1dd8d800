import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.scdg.gains import Gains, check_gains, combine_passes, join_segments
from pan_scdg.scdg.sequences import AlignmentError, TokenIds

finite = st.floats(-50, 50)


def targets(*ids: list[int]) -> list[TokenIds]:
    return [np.array(found) for found in ids]


def test_gain_is_conditional_minus_unconditional_and_signed() -> None:
    gains = combine_passes(targets([7, 8], [7, 8]), np.float32([-2.0, -1.0]), np.float32([-0.5, -3.0]))
    assert gains.gains.tolist() == [1.5, -2.0]
    assert gains.gains.dtype == np.float64


def test_different_target_ids_are_an_error() -> None:
    with pytest.raises(AlignmentError, match="different target"):
        combine_passes(targets([7, 8], [7, 9]), np.zeros(2), np.zeros(2))
    with pytest.raises(AlignmentError, match="different target"):
        combine_passes(targets([7, 8], [7]), np.zeros(2), np.zeros(2))


@pytest.mark.parametrize("values", [[-1.0], [-1.0, math.nan], [-1.0, -math.inf]])
def test_missing_or_infinite_log_probabilities_are_an_error(values: list[float]) -> None:
    with pytest.raises(ValueError, match=r"one common length|not finite"):
        combine_passes(targets([7, 8], [7, 8]), np.zeros(2), np.array(values))


def test_no_token_is_an_error() -> None:
    with pytest.raises(ValueError, match="length"):
        check_gains(Gains(np.array([]), np.array([]), np.array([])))


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


def three_codes(length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draws = np.random.Generator(np.random.PCG64(7)).normal(-4, 2, (3, length))
    unconditional, conditional, control = np.minimum(draws, -0.001)
    return unconditional, conditional, control


def test_gains_over_the_shuffled_source_add_up_to_the_difference_of_code_lengths() -> None:
    unconditional, conditional, control = three_codes(50)
    gains = Gains(np.arange(50), unconditional, conditional, control, "shuffled-source")
    l_shuffled, l_s = -math.fsum(control), -math.fsum(conditional)
    assert gains.gains.sum() == pytest.approx(l_shuffled - l_s, abs=1e-9)


def test_both_is_the_mean_of_the_two_gains_and_adds_up_to_code_lengths() -> None:
    unconditional, conditional, control = three_codes(50)
    gains = Gains(np.arange(50), unconditional, conditional, control, "both").gains
    for t in range(50):
        assert gains[t] == pytest.approx(
            ((conditional[t] - unconditional[t]) + (conditional[t] - control[t])) / 2, abs=1e-12
        )
    l_0, l_shuffled, l_s = (-math.fsum(x) for x in (unconditional, control, conditional))
    assert gains.sum() == pytest.approx((l_0 + l_shuffled) / 2 - l_s, abs=1e-9)


def test_the_paper_s_gain_knows_no_control() -> None:
    unconditional, conditional, control = three_codes(9)
    plain = Gains(np.arange(9), unconditional, conditional)
    assert np.array_equal(plain.gains, conditional - unconditional)
    assert np.array_equal(plain._replace(control=control).gains, plain.gains)


@pytest.mark.parametrize("baseline", ["shuffled-source", "both"])
def test_a_baseline_needs_its_control(baseline: str) -> None:
    with pytest.raises(ValueError, match="shuffled source"):
        combine_passes(targets([7, 8], [7, 8]), np.zeros(2), np.zeros(2), None, baseline)  # type: ignore[arg-type]


@pytest.mark.parametrize("control", [[-1.0], [-1.0, math.nan], [-1.0, -math.inf]])
def test_missing_or_infinite_controls_are_an_error(control: list[float]) -> None:
    with pytest.raises(ValueError, match=r"one common length|not finite"):
        combine_passes(targets([7, 8], [7, 8]), np.zeros(2), np.zeros(2), np.array(control))


def test_a_control_of_another_target_is_an_error() -> None:
    with pytest.raises(AlignmentError, match="different target"):
        combine_passes(targets([7, 8], [7, 8], [7, 9]), np.zeros(2), np.zeros(2), np.zeros(2))


def test_controls_join_too_and_never_with_parts_that_have_none() -> None:
    part = Gains(np.array([1]), np.array([-1.0]), np.array([-2.0]), np.array([-3.0]), "both")
    joined = join_segments([part, part._replace(control=np.array([-4.0]))])
    assert joined.control is not None
    assert joined.control.tolist() == [-3, -4]
    assert joined.baseline == "both"
    for other in (part._replace(baseline="shuffled-source"), part._replace(control=None)):
        with pytest.raises(ValueError, match="same baseline"):
            join_segments([part, other])
