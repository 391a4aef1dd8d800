"""Shares of a target among candidates, against the definition spelt out token by token."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pan_scdg.scdg.attribution import attribution_shares


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
    shares = attribution_shares(gains, w)
    assert shares == pytest.approx(literal(gains, w))
    assert shares.sum() == pytest.approx(1)
    assert (shares >= 0).all()


def test_each_source_gets_its_part_of_a_target_from_two() -> None:
    gains = np.zeros((3, 100))
    gains[0, :60], gains[1, 60:] = 0.5, 0.5
    gains[2, ::30] = 4.0  # a few rare words of the topic
    assert attribution_shares(gains, 1)[2] > 0
    shares = attribution_shares(gains, 20)
    assert np.argsort(-shares).tolist() == [0, 1, 2]


def test_what_all_candidates_gain_alike_changes_nothing() -> None:
    generator = np.random.default_rng(3)
    gains, topic = generator.integers(-5, 5, (4, 50)).astype(float), generator.integers(0, 5, 50).astype(float)
    assert attribution_shares(gains + topic, 8).tolist() == attribution_shares(gains, 8).tolist()


@pytest.mark.parametrize(
    ("gains", "w"), [(np.zeros((0, 3)), 1), (np.zeros((3, 0)), 1), (np.zeros(3), 1), (np.zeros((2, 3)), 0)]
)
def test_nothing_to_share_is_an_error(gains: np.ndarray, w: int) -> None:
    with pytest.raises(ValueError, match="needs gains"):
        attribution_shares(gains, w)
    with pytest.raises(ValueError, match="not finite"):
        attribution_shares(np.array([[np.nan, 1.0]]), 2)
