"""Segments of over-long pairs: where they are cut, and that both passes score every token once."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.scdg.segments import build_segment_passes, cut_segments
from pan_scdg.settings import SegmentSettings, WindowSettings

TARGET = "One. Two two. Three!  Four four four four. Five"
SPANS = [(0, 4), (5, 13), (14, 20), (22, 42), (43, 47)]


def letters(text: str) -> list[int]:
    return [ord(c) for c in text]


def texts(parts: list[np.ndarray]) -> list[str]:
    return ["".join(map(chr, p)) for p in parts]


def split_target(target: str, spans: list[tuple[int, int]], most: int) -> list[np.ndarray]:
    return [segment.token_ids for segment in cut_segments(Letters(), target, spans, most)]


@pytest.mark.parametrize(
    ("target", "spans", "most", "segments"),
    [
        (TARGET, SPANS, 22, ["One. Two two. Three!", "  Four four four four.", " Five"]),
        (TARGET, SPANS, 13, ["One. Two two.", " Three!", "  Four four f", "our four.", " Five"]),
        ("abcdefgh. ij", [(0, 9), (10, 12)], 7, ["abcdefg", "h. ij"]),
        (" ab ", [], 3, [" ab", " "]),
        ("", [], 3, []),
        ("Ab. Cd.", [(0, 3), (3, 7)], 4, ["Ab.", " Cd."]),
    ],
)
def test_cuts_lie_between_spans_except_in_one_that_is_too_long(
    target: str, spans: list[tuple[int, int]], most: int, segments: list[str]
) -> None:
    assert texts(split_target(target, spans, most)) == segments


@pytest.mark.parametrize("spans", [[(0, 4), (3, 6)], [(2, 1)], [(0, 99)], [(-1, 3)], [(3, 6), (0, 2)]])
def test_spans_out_of_order_or_outside_are_an_error(spans: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="span"):
        split_target("abcdefgh", spans, 4)


def test_segments_need_room() -> None:
    with pytest.raises(ValueError, match="most"):
        split_target("abc", [], 0)


class Letters:
    bos_token_id = 1
    eos_token_id = None
    pad_token_id = None

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return [1] * add_special_tokens + letters(text)

    def decode(self, token_ids: list[int]) -> str:
        return "".join(map(chr, token_ids))


def plan(target: int, context: int, source: int, words: int = 2) -> SegmentSettings:
    windows = WindowSettings(words=words, stride=words, considered=1000)
    return SegmentSettings(target_tokens=target, context_tokens=context, source_tokens=source, windows=windows)


def test_segment_inputs_by_hand() -> None:
    source = "grey cat red fox big dog"
    passes = list(build_segment_passes(Letters(), source, "a fox. my dog.", [(0, 6), (7, 14)], plan(8, 3, 9)))
    shown = [["".join(map(chr, x.context_ids)) for x in p] for p in passes]
    assert shown == [["\x01", "\x01red fox\n\n"], ["\x01ox.", "\x01big dog\n\nox."]]
    assert texts([p.conditional.target_ids for p in passes]) == ["a fox.", " my dog."]


def test_pieces_of_a_cut_span_choose_windows_for_their_own_text() -> None:
    passes = list(build_segment_passes(Letters(), "aaa bbb ccc ddd", "bbb ddd", [], plan(4, 0, 3, words=1)))
    assert ["".join(map(chr, p.conditional.context_ids[1:-2])) for p in passes] == ["bbb", "ddd"]


@settings(max_examples=50, deadline=None)
@given(
    target=st.text(min_size=1, max_size=60),
    source=st.text(max_size=80),
    cuts=st.lists(st.integers(0, 60), max_size=12),
    most=st.integers(1, 20),
    context=st.integers(0, 25),
    budget=st.integers(1, 20),
)
def test_every_target_token_is_scored_once_behind_equal_context(
    tiny_tokenizer: Callable[..., Any],
    target: str,
    source: str,
    cuts: list[int],
    most: int,
    context: int,
    budget: int,
) -> None:
    tokenizer = tiny_tokenizer()
    ends = sorted({min(c, len(target)) for c in cuts})
    spans = list(zip([0, *ends], [*ends, len(target)]))
    passes = list(build_segment_passes(tokenizer, source, target, spans, plan(most, context, budget)))

    def encode(text: str) -> list[int]:
        return tokenizer.encode(text, add_special_tokens=False)

    whole = [i for start, end in spans for i in encode(target[start:end])]
    assert [int(i) for p in passes for i in p.conditional.target_ids] == whole
    done = 0
    for p in passes:
        before = whole[max(0, done - context) : done]
        assert p.unconditional.target_ids.tolist() == p.conditional.target_ids.tolist()
        assert p.unconditional.context_ids.tolist() == [0, *before]
        prefix_and_before = p.conditional.context_ids.tolist()
        assert prefix_and_before[0] == 0
        tail = [*encode("\n\n"), *before]
        assert prefix_and_before[-len(tail) :] == tail
        assert len(prefix_and_before) - 1 - len(tail) <= budget
        assert 1 <= len(p.conditional.target_ids) <= most
        done += len(p.conditional.target_ids)
