"""Source windows: split, ranked by shared terms and chosen within a budget, against a restatement."""

import re
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.scdg.windows import SourceWindows, extract_terms, split_windows
from pan_scdg.settings import WindowSettings


def words_as_ids(text: str) -> list[int]:
    """One token a word: w7 is 7."""
    return [int(w[1:]) for w in text.split()]


def letters(text: str) -> list[int]:
    return [ord(c) for c in text]


def numbered(n: int) -> str:
    return " ".join(f"w{i}" for i in range(n))


class Encoding:
    """A tokenizer that only encodes."""

    def __init__(self, encode: Callable[[str], list[int]]) -> None:
        self._encode = encode

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return self._encode(text)


def make_windows(source: str, encode: Callable[[str], list[int]], settings: WindowSettings) -> SourceWindows:
    return SourceWindows(Encoding(encode), source, settings)  # type: ignore[arg-type]


def build_prefix(
    source: str, query: set[str], budget: int, encode: Callable[[str], list[int]], settings: WindowSettings
) -> np.ndarray:
    return make_windows(source, encode, settings).build_prefix(query, budget)


def terms(*numbers: int) -> set[str]:
    return {f"w{i}" for i in numbers}


def test_terms_are_distinct_lower_case_words() -> None:
    assert extract_terms("The the THE; Straße 3.5 a_b Éa") == {"the", "straße", "3", "5", "a_b", "éa"}


def test_split_by_hand() -> None:
    small = WindowSettings(words=4, stride=3, considered=64)
    assert split_windows(" a b\n\nc  d e\tf g ", small) == ["a b\n\nc  d", "d e\tf g"]
    assert split_windows("a b c d", small) == ["a b c d"]
    assert split_windows("a b c d e", small) == ["a b c d", "d e"]
    assert split_windows("a b", small) == ["a b"]
    assert split_windows(" \n ", small) == []
    assert split_windows(numbered(100), WindowSettings(words=2, stride=2, considered=3)) == ["w0 w1", "w2 w3", "w4 w5"]
    assert split_windows(numbered(9), WindowSettings(words=2, stride=4)) == ["w0 w1", "w4 w5", "w8"]


def test_best_windows_in_source_order() -> None:
    """Windows 0-3, 3-6, 6-9 with 2, 1 and 3 shared terms; the middle one overlaps both others."""
    small = WindowSettings(words=4, stride=3)
    prefix = build_prefix(numbered(10), terms(0, 1, 4, 7, 8, 9), 8, words_as_ids, small)
    assert prefix.tolist() == [*range(4), *range(6, 10)]


def test_a_window_beyond_the_rest_of_the_budget_is_skipped_for_a_smaller_one() -> None:
    """Best is the first (13 letters); the second is too long for the rest of 4, the third is not."""
    small = WindowSettings(words=2, stride=2)
    prefix = build_prefix("red blueberry green yellows a b", {"red", "blueberry", "green"}, 17, letters, small)
    assert bytes(prefix.tolist()) == b"red blueberrya b"


def test_best_window_is_cut_where_none_fits() -> None:
    small = WindowSettings(words=3, stride=3)
    assert build_prefix(numbered(9), terms(4), 2, words_as_ids, small).tolist() == [3, 4]


def test_odd_sources_and_budgets() -> None:
    assert build_prefix(" " * 9, set(), 4, letters, WindowSettings()).tolist() == [32] * 4
    empty = build_prefix("", {"a"}, 4, letters, WindowSettings())
    assert (empty.dtype, len(empty)) == (np.int64, 0)
    with pytest.raises(ValueError, match="budget"):
        build_prefix("a", set(), 0, letters, WindowSettings())


def test_every_text_is_tokenised_once_and_windows_only_where_needed() -> None:
    asked: list[str] = []

    def encode(text: str) -> list[int]:
        asked.append(text)
        return words_as_ids(text)

    source = make_windows(numbered(40), encode, WindowSettings(words=4, stride=4))
    for _ in range(3):
        assert source.build_prefix(terms(9, 21), 8).tolist() == [8, 9, 10, 11, 20, 21, 22, 23]
    assert asked == [numbered(40), "w8 w9 w10 w11", "w20 w21 w22 w23"]


def brute_force(source: str, query: set[str], budget: int, s: WindowSettings) -> list[int]:
    """The rule restated with sets of word positions."""
    words = source.split()
    if len(letters(source)) <= budget:
        return letters(source)
    starts = [i * s.stride for i in range(s.considered)]
    starts = [b for b in starts if b < len(words) and (b == 0 or b - s.stride + s.words < len(words))]
    ranges = {b: range(b, min(b + s.words, len(words))) for b in starts}
    spans = [m.span() for m in re.finditer(r"\S+", source)]
    texts = {b: source[spans[r[0]][0] : spans[r[-1]][1]] for b, r in ranges.items()}
    shared = {b: len(set(re.findall(r"\w+", texts[b].lower())) & query) for b in starts}
    order = sorted(starts, key=lambda b: (-shared[b], b))
    used: set[int] = set()
    chosen: list[int] = []
    rest = budget
    for b in order:
        if not used & set(ranges[b]) and len(texts[b]) <= rest:
            chosen.append(b)
            used |= set(ranges[b])
            rest -= len(texts[b])
    if not chosen:
        return letters(texts[order[0]])[:budget]
    return [i for b in sorted(chosen) for i in letters(texts[b])]


word_text = st.lists(st.sampled_from(["a", "b", "cc", "DD", "e,e", "fff"]), min_size=1, max_size=30)


@settings(max_examples=50, deadline=None)
@given(
    words=word_text,
    joint=st.sampled_from([" ", "\n", " \n\n "]),
    query=st.sets(st.sampled_from(["a", "b", "cc", "dd", "e", "fff"])),
    budget=st.integers(1, 40),
    size=st.integers(1, 6),
    stride=st.integers(1, 8),
    considered=st.integers(1, 12),
)
def test_rule_restated(
    words: list[str], joint: str, query: set[str], budget: int, size: int, stride: int, considered: int
) -> None:
    source, small = joint.join(words), WindowSettings(words=size, stride=stride, considered=considered)
    prefix = build_prefix(source, query, budget, letters, small)
    assert prefix.tolist() == brute_force(source, query, budget, small)
    assert len(prefix) <= budget


@settings(max_examples=50, deadline=None)
@given(words=word_text, budget=st.integers(1, 30), size=st.integers(1, 6), stride=st.integers(1, 8))
def test_chosen_windows_are_disjoint_in_order_and_original_text(
    words: list[str], budget: int, size: int, stride: int
) -> None:
    source = " ".join(words)
    windows = make_windows(source, letters, WindowSettings(words=size, stride=stride))
    chosen = windows.choose_windows({"a", "cc"}, budget)
    assert all(later.start - earlier.start >= size for earlier, later in pairwise(chosen))
    assert all(w.text in source for w in chosen)
    assert len(chosen) == 1 or sum(len(w.text) for w in chosen) <= budget
