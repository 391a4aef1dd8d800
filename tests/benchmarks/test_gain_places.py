"""Characters of the truth meet the tokens that hold them, and running means are those of a loop."""

import numpy as np
import pytest
from benchmarks.gain_places import Case, mark_reused, measure, smooth
from pan_scdg.pair_result import Token

from pan_scdg.records import Passage


def token(start: int, end: int, gain: float) -> Token:
    return Token(0, "", start, end, 0.0, 0.0, None, gain)


def test_a_running_mean_is_that_of_the_gains_that_there_are() -> None:
    gains = np.random.default_rng(1).normal(size=11)
    for width in (1, 4, 5, 30):
        first = [max(0, t - width // 2) for t in range(11)]
        literal = [gains[a : t - width // 2 + width].mean() for t, a in enumerate(first)]
        np.testing.assert_allclose(smooth(gains, width), literal)


def test_characters_are_counted_on_either_side() -> None:
    case = Case("kind", "abcdefghij", "", (Passage(2, 3, 0, 3), Passage(4, 2, 0, 2)))
    tokens = (token(0, 3, 1.0), token(3, 6, 3.0), token(6, 6, 9.0), token(6, 10, 2.0))
    inside, outside = mark_reused(tokens, case)
    assert inside.tolist() == [1, 3, 0, 0]
    assert outside.tolist() == [2, 0, 0, 4]
    found = measure(tokens, case)
    assert found is not None
    # of 4 reused and 6 new characters: 3 are above all new ones, one is level with 2 and below 4
    assert found[0] == pytest.approx((3 * 6 + 0.5 * 2) / 24)


def test_a_target_without_new_text_has_no_value() -> None:
    assert measure((token(0, 4, 1.0),), Case("kind", "abcd", "", (Passage(0, 4, 0, 4),))) is None
