import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.scdg import gains as module
from pan_scdg.scdg.gains import (
    Gains,
    average,
    checked,
    gains_of,
    join,
    kept_tokens,
    statistics,
    top_q_mean,
    window_bounded,
    window_mean,
    window_median,
)
from pan_scdg.scdg.sequences import AlignmentError, Passes, ScoringInput

SIGNED = np.array([0.5, -4.0, 3.0, 0.0, 1.0, -0.5, 2.0, -1.0, 0.25, 0.75])
finite = st.floats(-50, 50)


def passes(one: list[int], other: list[int]) -> Passes:
    start = np.array([0])
    return Passes(ScoringInput(start, np.array(one)), ScoringInput(start, np.array(other)))


def test_gain_is_conditional_minus_unconditional_and_signed() -> None:
    gains = gains_of(passes([7, 8], [7, 8]), np.float32([-2.0, -1.0]), np.float32([-0.5, -3.0]))
    assert gains.gains.tolist() == [1.5, -2.0]
    assert gains.gains.dtype == np.float64


def test_different_target_ids_are_an_error() -> None:
    with pytest.raises(AlignmentError, match="different target"):
        gains_of(passes([7, 8], [7, 9]), np.zeros(2), np.zeros(2))
    with pytest.raises(AlignmentError, match="different target"):
        gains_of(passes([7, 8], [7]), np.zeros(2), np.zeros(2))


@pytest.mark.parametrize("values", [[-1.0], [-1.0, math.nan], [-1.0, -math.inf]])
def test_missing_or_infinite_log_probabilities_are_an_error(values: list[float]) -> None:
    with pytest.raises(ValueError, match=r"one common length|not finite"):
        gains_of(passes([7, 8], [7, 8]), np.zeros(2), np.array(values))


def test_no_token_is_an_error() -> None:
    with pytest.raises(ValueError, match="length"):
        checked(Gains(np.array([]), np.array([]), np.array([])))


def test_segments_join_in_order() -> None:
    one = Gains(np.array([1, 2]), np.array([-1.0, -2.0]), np.array([-3.0, -4.0]))
    two = Gains(np.array([3]), np.array([-5.0]), np.array([-6.0]))
    assert [a.tolist() for a in join([one, two])[:3]] == [[1, 2, 3], [-1, -2, -5], [-3, -4, -6]]


@pytest.mark.parametrize(
    ("q", "expected"),
    [(1, 3.0), (10, 3.0), (11, 2.5), (20, 2.5), (30, 2.0), (50, 1.45), (100, 0.2)],
)
def test_top_q_by_hand(q: float, expected: float) -> None:
    """Sorted: 3, 2, 1, 0.75, 0.5, 0.25, 0, -0.5, -1, -4; k = 1, 1, 2, 2, 3, 5, 10."""
    assert top_q_mean(SIGNED, q) == pytest.approx(expected, abs=1e-15)


def test_largest_are_the_largest_signed_ones() -> None:
    assert top_q_mean(np.array([-9.0, -3.0, -5.0]), 1) == -3.0


@pytest.mark.parametrize(
    ("n", "q", "k"),
    [(1, 1, 1), (100, 2, 2), (101, 2, 3), (150, 2, 3), (10, 0.1, 1), (3000, 1.1, 33), (3001, 1.1, 34), (7, 100, 7)],
)
def test_number_of_kept_tokens(n: int, q: float, k: int) -> None:
    assert kept_tokens(n, q) == k


def test_plain_floating_point_would_keep_one_token_too_many() -> None:
    assert math.ceil(3000 * 1.1 / 100) == 34


@settings(max_examples=50, deadline=None)
@given(n=st.integers(1, 10**6), tenths=st.integers(1, 1000))
def test_kept_tokens_in_whole_numbers(n: int, tenths: int) -> None:
    k = kept_tokens(n, tenths / 10)
    assert k >= 1
    assert k * 1000 >= n * tenths
    assert k == 1 or (k - 1) * 1000 < n * tenths


@settings(max_examples=50, deadline=None)
@given(values=st.lists(finite, min_size=1, max_size=60), q=st.sampled_from([1, 2, 5, 10, 20, 30, 50, 100]))
def test_top_q_is_the_mean_of_the_sorted_head(values: list[float], q: int) -> None:
    k = max(1, -(-len(values) * q // 100))
    expected = math.fsum(sorted(values, reverse=True)[:k]) / k
    assert top_q_mean(np.array(values), q) == pytest.approx(expected, abs=1e-9)
    assert top_q_mean(np.array(values), q) >= average(np.array(values)) - 1e-9


@settings(max_examples=50, deadline=None)
@given(values=st.lists(finite, min_size=1, max_size=60))
def test_average_is_top_hundred_percent(values: list[float]) -> None:
    assert top_q_mean(np.array(values), 100) == average(np.array(values))


@settings(max_examples=50, deadline=None)
@given(pairs=st.lists(st.tuples(finite, finite), min_size=1, max_size=60))
def test_gains_add_up_to_the_difference_of_code_lengths(pairs: list[tuple[float, float]]) -> None:
    before, behind = (np.array(x) for x in zip(*pairs))
    gains = Gains(np.arange(len(pairs)), before, behind)
    l_0, l_s = -math.fsum(before), -math.fsum(behind)
    assert gains.gains.sum() == pytest.approx(l_0 - l_s, abs=1e-9)


def test_statistics_by_hand() -> None:
    found = statistics(SIGNED, (10, 50), (1, 3, 99), (2,))
    assert (found.tokens, found.median, found.positive_rate, found.total) == (10, 0.375, 0.6, 2.0)
    assert found.mean == pytest.approx(0.2)
    assert found.top == {10.0: 3.0, 50.0: 1.45}
    assert found.window == {1: 3.0, 3: 4 / 3, 99: 0.2}
    assert found.window_median == {2: 1.5}
    assert found.code_length is None
    assert found.positive_mean == 7.5 / 6
    assert found.deviation == pytest.approx(math.sqrt(math.fsum((g - 0.2) ** 2 for g in SIGNED) / 10))


def test_no_positive_gain_has_the_mean_zero() -> None:
    found = statistics(np.array([-1.0, 0.0, -3.0]), (2,))
    assert (found.positive_mean, found.positive_rate) == (0.0, 0.0)
    assert statistics(np.array([4.0]), (2,)).deviation == 0.0


@pytest.mark.parametrize("q", [0, -1, 100.1, math.nan])
def test_q_outside_its_range_is_an_error(q: float) -> None:
    with pytest.raises(ValueError, match="q must be"):
        top_q_mean(SIGNED, q)


def test_no_gains_are_an_error() -> None:
    with pytest.raises(ValueError, match="no gains"):
        top_q_mean(np.array([]), 2)


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
        gains_of(passes([7, 8], [7, 8]), np.zeros(2), np.zeros(2), None, baseline)  # type: ignore[arg-type]


@pytest.mark.parametrize("control", [[-1.0], [-1.0, math.nan], [-1.0, -math.inf]])
def test_missing_or_infinite_controls_are_an_error(control: list[float]) -> None:
    with pytest.raises(ValueError, match=r"one common length|not finite"):
        gains_of(passes([7, 8], [7, 8]), np.zeros(2), np.zeros(2), np.array(control))


def test_a_control_of_another_target_is_an_error() -> None:
    three = Passes(*passes([7, 8], [7, 8]), ScoringInput(np.array([0]), np.array([7, 9])))
    with pytest.raises(AlignmentError, match="different target"):
        gains_of(three, np.zeros(2), np.zeros(2), np.zeros(2))


def test_controls_join_too_and_never_with_parts_that_have_none() -> None:
    part = Gains(np.array([1]), np.array([-1.0]), np.array([-2.0]), np.array([-3.0]), "both")
    joined = join([part, part._replace(control=np.array([-4.0]))])
    assert joined.control is not None
    assert joined.control.tolist() == [-3, -4]
    assert joined.baseline == "both"
    for other in (part._replace(baseline="shuffled-source"), part._replace(control=None)):
        with pytest.raises(ValueError, match="one baseline"):
            join([part, other])


gains_list = st.lists(finite, min_size=1, max_size=60)


@settings(max_examples=100, deadline=None)
@given(values=gains_list, w=st.integers(1, 70))
def test_window_mean_is_the_best_of_all_windows(values: list[float], w: int) -> None:
    width = min(w, len(values))
    means = [math.fsum(values[i : i + width]) / width for i in range(len(values) - width + 1)]
    assert window_mean(np.array(values), w) == pytest.approx(max(means), abs=1e-11)
    assert any(window_mean(np.array(values), w) == mean for mean in means), "the mean of one of them, to the last bit"


@settings(max_examples=100, deadline=None)
@given(values=gains_list, w=st.integers(1, 70), block=st.integers(1, 200))
def test_window_median_is_the_best_of_all_windows(values: list[float], w: int, block: int) -> None:
    width = min(w, len(values))
    best = -math.inf
    for i in range(len(values) - width + 1):
        ranked = sorted(values[i : i + width])
        best = max(best, (ranked[(width - 1) // 2] + ranked[width // 2]) / 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        assert window_median(np.array(values), w) == best


def test_windows_by_hand() -> None:
    """SIGNED: .5 -4 3 0 1 -.5 2 -1 .25 .75; three in a row: best sum 3 + 0 + 1, best median of 1 -.5 2."""
    assert window_mean(SIGNED, 3) == 4 / 3
    assert window_median(SIGNED, 3) == 1.0
    assert window_mean(SIGNED, 10) == window_mean(SIGNED, 11) == pytest.approx(average(SIGNED))
    assert window_median(SIGNED, 11) == np.median(SIGNED)
    assert window_bounded(SIGNED, 3) == 1.0, "3 counts as 2"
    assert window_bounded(SIGNED, 11) == pytest.approx((0.5 - 2 + 2 + 0 + 1 - 0.5 + 2 - 1 + 0.25 + 0.75) / 10)


@settings(max_examples=100, deadline=None)
@given(values=gains_list, w=st.integers(1, 70))
def test_window_bounded_is_the_window_mean_of_gains_between_its_bounds(values: list[float], w: int) -> None:
    assert window_bounded(np.array(values), w) == window_mean(np.array([min(2.0, max(-2.0, g)) for g in values]), w)


def test_running_sums_keep_their_error_bound() -> None:
    values = np.random.Generator(np.random.PCG64(1)).normal(0, 3, 40_000)
    values[:2000] += 1000  # large sums in front of what is looked for
    exact = max(math.fsum(values[i : i + 64]) for i in range(0, 40_000 - 63)) / 64
    bound = 4 * len(values) * 2.0**-53 * float(np.abs(values).sum()) / 64
    assert exact - bound <= window_mean(values, 64) <= exact


@pytest.mark.parametrize("window", [window_mean, window_median, window_bounded])
def test_windows_need_gains_and_a_width(window: Callable[[np.ndarray, int], float]) -> None:
    with pytest.raises(ValueError, match="no gains"):
        window(np.array([]), 2)
    with pytest.raises(ValueError, match="at least 1"):
        window(SIGNED, 0)
