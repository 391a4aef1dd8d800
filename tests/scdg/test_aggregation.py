"""Aggregations by hand and against their definitions, and the registry that names them."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pydantic import ValidationError

from pan_scdg.methods.gains import GainSettings
from pan_scdg.scdg import aggregation as module
from pan_scdg.scdg.aggregation import (
    AGGREGATIONS,
    Aggregate,
    average,
    average_top_q,
    compute_shares,
    compute_statistics,
    count_kept_tokens,
    find_bounded_window_mean,
    find_window_mean,
    find_window_median,
    list_stored,
)
from pan_scdg.settings import DenseSettings, RetrievalSettings

SIGNED = np.array([0.5, -4.0, 3.0, 0.0, 1.0, -0.5, 2.0, -1.0, 0.25, 0.75])
WANTED = [Aggregate("top", 10), Aggregate("top", 50), *(Aggregate("window", w) for w in (1, 3, 99))]
WANTED.append(Aggregate("window-median", 2))
finite = st.floats(-50, 50)


@pytest.mark.parametrize(
    ("aggregate", "name", "field", "expected"),
    [
        (Aggregate("top", 10), "top-10%", "top_10", average_top_q(SIGNED, 10)),
        (Aggregate("top", 100.0), "average", "top_100", average_top_q(SIGNED, 100)),
        (Aggregate("top", 2.5), "top-2.5%", "top_2.5", average_top_q(SIGNED, 2.5)),
        (Aggregate("window", 3), "window-3", "window_3", find_window_mean(SIGNED, 3)),
        (Aggregate("window", 3.0), "window-3", "window_3", find_window_mean(SIGNED, 3)),
        (Aggregate("window-median", 4), "window-median-4", "window_median_4", find_window_median(SIGNED, 4)),
        (
            Aggregate("window-bounded", 4),
            "window-bounded-4",
            "window_bounded_4",
            find_window_mean(SIGNED.clip(-2, 2), 4),
        ),
        (Aggregate("window", 1234567), "window-1234567", "window_1234567", find_window_mean(SIGNED, 10)),
    ],
)
def test_name_and_score(aggregate: Aggregate, name: str, field: str, expected: float) -> None:
    assert (aggregate.name, aggregate.field) == (name, field)
    assert aggregate.compute(SIGNED) == expected
    assert compute_statistics(SIGNED, [aggregate], 0.0).scores == {aggregate: expected}


def test_stored_aggregates_are_those_of_the_registry_and_the_wanted_ones() -> None:
    own = Aggregate("window-median", 7.0)
    pairs = list_stored("pairs", [own, Aggregate("share", 3)])
    assert {a.kind for a in pairs} == {kind for kind, entry in AGGREGATIONS.items() if entry.is_stored}
    assert {a.parameter for a in pairs if a.kind == "window-median"} == {7.0, *AGGREGATIONS["window-median"].stored}
    assert {a.kind for a in list_stored("pairs")} == {"top", "window", "window-bounded"}, "medians cost too much"
    assert [a.kind for a in list_stored("candidates", [own])] == ["top"] * 8 + ["window-median"]
    assert set(list_stored("candidates")) < set(pairs)


def test_aggregation_of_a_profile() -> None:
    assert GainSettings(limit=512).aggregate == Aggregate("top", 100.0), "not chosen: the average"
    assert GainSettings(limit=512, q=5.0).aggregate == Aggregate("top", 5.0)
    assert GainSettings(limit=512, aggregation="window").aggregate == Aggregate("top", 100.0)
    assert GainSettings(limit=512, aggregation="window", w=96).aggregate == Aggregate("window", 96)
    dense = DenseSettings(model="e")
    assert RetrievalSettings(dense=dense).aggregate == Aggregate("top", 2.0)
    for kind in ("window-median", "share"):
        assert RetrievalSettings(dense=dense, aggregation=kind, w=64).aggregate == Aggregate(kind, 64)


@pytest.mark.parametrize("name", ["share", "none", "window_median"])
def test_a_profile_for_pairs_has_an_aggregation_of_the_registry_that_is_not_joint(name: str) -> None:
    with pytest.raises(ValidationError, match=r"belongs in|not an aggregation"):
        GainSettings(limit=512, aggregation=name)


@pytest.mark.parametrize(
    ("q", "expected"),
    [(1, 3.0), (10, 3.0), (11, 2.5), (20, 2.5), (30, 2.0), (50, 1.45), (100, 0.2)],
)
def test_top_q_by_hand(q: float, expected: float) -> None:
    """Sorted: 3, 2, 1, 0.75, 0.5, 0.25, 0, -0.5, -1, -4; k = 1, 1, 2, 2, 3, 5, 10."""
    assert average_top_q(SIGNED, q) == pytest.approx(expected, abs=1e-15)
    assert average_top_q(np.array([-9.0, -3.0, -5.0]), 1) == -3.0, "signed"


@pytest.mark.parametrize(
    ("n", "q", "k"),
    [(1, 1, 1), (100, 2, 2), (101, 2, 3), (150, 2, 3), (10, 0.1, 1), (3000, 1.1, 33), (3001, 1.1, 34), (7, 100, 7)],
)
def test_number_of_kept_tokens(n: int, q: float, k: int) -> None:
    """In floating point 3000 * 1.1 / 100 is above 33."""
    assert count_kept_tokens(n, q) == k


@settings(max_examples=50, deadline=None)
@given(n=st.integers(1, 10**6), tenths=st.integers(1, 1000))
def test_kept_tokens_in_whole_numbers(n: int, tenths: int) -> None:
    k = count_kept_tokens(n, tenths / 10)
    assert k >= 1
    assert k * 1000 >= n * tenths
    assert k == 1 or (k - 1) * 1000 < n * tenths


@settings(max_examples=50, deadline=None)
@given(values=st.lists(finite, min_size=1, max_size=60), q=st.sampled_from([1, 2, 5, 10, 20, 30, 50, 100]))
def test_top_q_is_the_mean_of_the_sorted_head(values: list[float], q: int) -> None:
    k = max(1, -(-len(values) * q // 100))
    expected = math.fsum(sorted(values, reverse=True)[:k]) / k
    assert average_top_q(np.array(values), q) == pytest.approx(expected, abs=1e-9)
    assert average_top_q(np.array(values), q) >= average(np.array(values)) - 1e-9


@settings(max_examples=50, deadline=None)
@given(values=st.lists(finite, min_size=1, max_size=60))
def test_average_is_top_hundred_percent(values: list[float]) -> None:
    assert average_top_q(np.array(values), 100) == average(np.array(values))


def test_statistics_by_hand() -> None:
    found = compute_statistics(SIGNED, WANTED, 5.0)
    assert (found.tokens, found.median, found.positive_gain_rate, found.total) == (10, 0.375, 0.6, 2.0)
    assert found.mean == pytest.approx(0.2)
    assert found.scores == dict(zip(WANTED, (3.0, 1.45, 3.0, 4 / 3, 0.2, 1.5), strict=True))
    assert found.code_length == 5.0
    assert found.positive_mean == 7.5 / 6
    assert found.deviation == pytest.approx(math.sqrt(math.fsum((g - 0.2) ** 2 for g in SIGNED) / 10))
    negative = compute_statistics(np.array([-1.0, 0.0, -3.0]), (), 0.0)
    assert (negative.positive_mean, negative.positive_gain_rate) == (0.0, 0.0)


@pytest.mark.parametrize("q", [0, -1, 100.1, math.nan])
def test_q_outside_its_range_is_an_error(q: float) -> None:
    with pytest.raises(ValueError, match="q must be"):
        average_top_q(SIGNED, q)
    with pytest.raises(ValueError, match="no gains"):
        average_top_q(np.array([]), 2)


gains_list = st.lists(finite, min_size=1, max_size=60)


@settings(max_examples=100, deadline=None)
@given(values=gains_list, w=st.integers(1, 70))
def test_window_mean_is_the_best_of_all_windows(values: list[float], w: int) -> None:
    width = min(w, len(values))
    means = [math.fsum(values[i : i + width]) / width for i in range(len(values) - width + 1)]
    assert find_window_mean(np.array(values), w) == pytest.approx(max(means), abs=1e-11)
    assert any(find_window_mean(np.array(values), w) == mean for mean in means), (
        "the mean of one of them, to the last bit"
    )


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
        assert find_window_median(np.array(values), w) == best


def test_windows_by_hand() -> None:
    """SIGNED: .5 -4 3 0 1 -.5 2 -1 .25 .75; three in a row: best sum 3 + 0 + 1, best median of 1 -.5 2."""
    assert find_window_mean(SIGNED, 3) == 4 / 3
    assert find_window_median(SIGNED, 3) == 1.0
    assert find_window_mean(SIGNED, 10) == find_window_mean(SIGNED, 11) == pytest.approx(average(SIGNED))
    assert find_window_median(SIGNED, 11) == np.median(SIGNED)
    assert find_bounded_window_mean(SIGNED, 3) == 1.0, "3 counts as 2"
    assert find_bounded_window_mean(SIGNED, 11) == pytest.approx((0.5 - 2 + 2 + 0 + 1 - 0.5 + 2 - 1 + 0.25 + 0.75) / 10)


@settings(max_examples=100, deadline=None)
@given(values=gains_list, w=st.integers(1, 70))
def test_window_bounded_is_the_window_mean_of_gains_between_its_bounds(values: list[float], w: int) -> None:
    assert find_bounded_window_mean(np.array(values), w) == find_window_mean(
        np.array([min(2.0, max(-2.0, g)) for g in values]), w
    )


def test_running_sums_keep_their_error_bound() -> None:
    values = np.random.Generator(np.random.PCG64(1)).normal(0, 3, 40_000)
    values[:2000] += 1000  # large sums in front of what is looked for
    exact = max(math.fsum(values[i : i + 64]) for i in range(0, 40_000 - 63)) / 64
    bound = 4 * len(values) * 2.0**-53 * float(np.abs(values).sum()) / 64
    assert exact - bound <= find_window_mean(values, 64) <= exact


@pytest.mark.parametrize("window", [find_window_mean, find_window_median, find_bounded_window_mean])
def test_windows_need_gains_and_a_width(window: Callable[[np.ndarray, int], float]) -> None:
    with pytest.raises(ValueError, match="no gains"):
        window(np.array([]), 2)
    with pytest.raises(ValueError, match="at least 1"):
        window(SIGNED, 0)


def literal(gains: np.ndarray, w: int) -> list[float]:
    candidates, n = gains.shape
    shares = [0.0] * candidates
    for t in range(n):
        near = [i for i in range(t - w // 2, t + (w - 1) // 2 + 1) if 0 <= i < n]
        around = [sum(gains[c, i] for i in near) for c in range(candidates)]
        winners = [c for c in range(candidates) if around[c] == max(around)]
        for c in winners:
            shares[c] += 1 / len(winners) / n
    return shares


# whole numbers, so that sums in another order are the same and ties are real
MATRICES = hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=12), elements=st.integers(-3, 3))


@settings(max_examples=200, deadline=None)
@given(MATRICES, st.integers(1, 15))
def test_shares_are_what_the_definition_says(gains: np.ndarray, w: int) -> None:
    shares = compute_shares(gains, w)
    assert shares == pytest.approx(literal(gains, w))
    assert shares.sum() == pytest.approx(1)
    assert (shares >= 0).all()


def test_each_source_gets_its_part_of_a_target_from_two() -> None:
    gains = np.zeros((3, 100))
    gains[0, :60], gains[1, 60:] = 0.5, 0.5
    gains[2, ::30] = 4.0  # a few rare words of the topic
    assert compute_shares(gains, 1)[2] > 0
    shares = compute_shares(gains, 20)
    assert np.argsort(-shares).tolist() == [0, 1, 2]


def test_what_all_candidates_gain_alike_changes_nothing() -> None:
    generator = np.random.default_rng(3)
    gains, topic = generator.integers(-5, 5, (4, 50)).astype(float), generator.integers(0, 5, 50).astype(float)
    assert compute_shares(gains + topic, 8).tolist() == compute_shares(gains, 8).tolist()


@pytest.mark.parametrize(
    ("gains", "w"), [(np.zeros((0, 3)), 1), (np.zeros((3, 0)), 1), (np.zeros(3), 1), (np.zeros((2, 3)), 0)]
)
def test_nothing_to_share_is_an_error(gains: np.ndarray, w: int) -> None:
    with pytest.raises(ValueError, match="needs gains"):
        compute_shares(gains, w)
    with pytest.raises(ValueError, match="not finite"):
        compute_shares(np.array([[np.nan, 1.0]]), 2)
