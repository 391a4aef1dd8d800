"""The threshold search of the official baseline, restated as a loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.methods.cosine import choose_official_threshold
from pan_scdg.errors import UserError

SCORES = st.lists(st.floats(-0.2, 1.2) | st.sampled_from([0.0, 0.5, 1.0, 72 / 99]), min_size=1, max_size=15)


@given(SCORES, SCORES)
@settings(max_examples=50, deadline=None)
def test_the_first_best_of_a_hundred_candidates(positives: list[float], negatives: list[float]) -> None:
    best, expected = -1.0, None
    for t in np.linspace(0, 1, 100):
        both = np.mean(np.array(positives) >= t) + np.mean(np.array(negatives) < t)
        if both > best:
            best, expected = both, t
    labels = [True] * len(positives) + [False] * len(negatives)
    assert choose_official_threshold(positives + negatives, labels) == expected


@pytest.mark.parametrize(("step", "published"), [(72, 0.727), (69, 0.697), (59, 0.596)])
def test_the_published_values_are_candidates(step: int, published: float) -> None:
    assert round(float(np.linspace(0, 1, 100)[step]), 3) == published


def test_several_best_thresholds_give_the_lowest() -> None:
    assert choose_official_threshold([0.9, 0.8, 0.1, 0.2], [1, 1, 0, 0]) == pytest.approx(20 / 99)


@pytest.mark.parametrize("labels", [[True, True], [False, False]])
def test_one_class_alone_is_refused(labels: list[bool]) -> None:
    with pytest.raises(UserError, match="no (positive|negative) pair"):
        choose_official_threshold([0.1, 0.2], labels)
