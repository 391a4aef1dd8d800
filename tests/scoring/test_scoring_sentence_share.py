"""The share of a text that each document explains, restated with loops."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from pan_scdg.scoring.sentence_match import share_sentences


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, float]:
    shape = draw(st.tuples(st.integers(1, 5), st.integers(0, 6)))
    cosines = draw(arrays.arrays(np.float32, shape, elements=st.floats(-1, 1, width=32)))
    words = draw(arrays.arrays(np.int64, shape[1], elements=st.integers(0, 50)))
    return cosines, words, draw(st.sampled_from([0.02, 0.05, 1.0]))


@given(cases())
def test_words_are_divided_by_a_softmax(case: tuple[np.ndarray, np.ndarray, float]) -> None:
    cosines, words, temperature = case
    shares = [0.0] * len(cosines)
    for sentence, count in enumerate(words.tolist()):
        powers = [math.exp(float(value) / temperature) for value in cosines[:, sentence]]
        for document, power in enumerate(powers):
            shares[document] += count * power / sum(powers) / max(1, int(words.sum()))
    found = share_sentences(cosines, words, temperature)
    assert found.sum() == pytest.approx(1)
    assert found == pytest.approx(shares if words.sum() else [1 / len(cosines)] * len(cosines), abs=1e-9)


@pytest.mark.parametrize("shape", [(0, 2), (2, 3), (2,)])
def test_shapes_that_do_not_fit_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        share_sentences(np.zeros(shape), np.ones(2, np.int64), 0.05)
