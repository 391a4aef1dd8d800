"""The window that a language model looks at: the docstring restated with loops over all runs of sentences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.passages import window
from pan_scdg.passages.units import PreparedText
from pan_scdg.passages.window import choose_window


def make_text(lengths: list[int]) -> PreparedText:
    """A text whose sentences have these numbers of words; a word has one character, a gap separates sentences."""
    ends = np.cumsum(lengths)
    units = np.stack([ends - lengths, ends], axis=1)
    gaps = np.arange(len(lengths))[:, None]
    words = np.concatenate([np.arange(a, b) + i for i, (a, b) in enumerate(units.tolist())])
    return PreparedText(("x",) * int(ends[-1]), np.stack([words, words + 1], axis=1), units, units + gaps)


def list_runs(lengths: list[int], least: int) -> list[tuple[int, int]]:
    found = []
    for begin in range(len(lengths)):
        for end in range(begin + 1, len(lengths) + 1):
            if sum(lengths[begin:end]) >= least:
                found.append((begin, end))
                break
    return found or [(0, len(lengths))]


LENGTHS = st.lists(st.integers(1, 4), min_size=1, max_size=9)


@given(LENGTHS, LENGTHS, st.integers(0, 999), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_the_window_is_the_best_of_all_runs(one: list[int], other: list[int], seed: int, block: int) -> None:
    rng = np.random.default_rng(seed)
    target, source = (rng.standard_normal((len(x), 8)).astype(np.float32) for x in (one, other))
    cosines = target.astype(np.float64) @ source.astype(np.float64).T
    nearest = cosines.max(axis=1)
    begin, end = max(
        list_runs(one, 5),
        key=lambda r: sum(nearest[i] * one[i] for i in range(*r)) / sum(one[slice(*r)]),
    )
    first, last = max(
        list_runs(other, 7),
        key=lambda r: np.mean([max(cosines[i, j] for j in range(*r)) for i in range(begin, end)]),
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("TARGET_WORDS", 5), ("SOURCE_WORDS", 7), ("BLOCK", block)):
            patch.setattr(window, name, value)
        found = choose_window(make_text(one), make_text(other), target, source)
    assert found is not None
    expected = [
        (int(text.spans[a, 0]), int(text.spans[b - 1, 1]))
        for text, a, b in ((make_text(one), begin, end), (make_text(other), first, last))
    ]
    assert list(found) == expected


def test_a_text_without_sentences_has_no_window() -> None:
    text = make_text([3])
    assert choose_window(text, text, np.zeros((0, 0), np.float32), np.ones((1, 1), np.float32)) is None
