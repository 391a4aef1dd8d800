"""Eight chunks of whole sentences: what they cover, how even they are, and what cannot be divided."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studies.retention.contexts import divide
from pan_scdg.retrieval.sentences import find_sentence_spans

SENTENCES = st.lists(
    st.integers(4, 200).map(lambda n: ("Mist " + "o" * n)[:n].strip() + "k."), min_size=8, max_size=40
).map(" ".join)


def chunks_of(text: str) -> list[str]:
    return [text[chunk.offset : chunk.offset + chunk.length] for chunk in divide(text)]


def ends_of(text: str) -> list[int]:
    return [chunk.offset + chunk.length for chunk in divide(text)]


@settings(max_examples=80, deadline=None)
@given(SENTENCES.filter(lambda text: len(text) >= 320))
def test_chunks_are_whole_sentences_and_nothing_is_lost(text: str) -> None:
    chunks = chunks_of(text)
    assert len(chunks) == 8
    assert " ".join(chunks) == text
    ends = {end for _, end in find_sentence_spans(text)}
    assert set(ends_of(text)) <= ends
    assert all(chunk == chunk.strip() and chunk for chunk in chunks)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(35, 60), min_size=8, max_size=11))
def test_each_cut_is_the_nearest_that_leaves_a_sentence_for_every_chunk(sizes: list[int]) -> None:
    text = " ".join(f"A{'b' * (size - 2)}." for size in sizes)
    ends = [end for _, end in find_sentence_spans(text)]
    expected, last = [], -1
    for k in range(1, 8):
        allowed = [i for i in range(len(ends)) if last < i and len(ends) - 1 - i >= 8 - k]
        last = min(allowed, key=lambda i: (abs(ends[i] - k * len(text) / 8), i))
        expected.append(ends[last])
    if len(text) >= 320:
        assert ends_of(text)[:-1] == expected


def test_equal_sentences_give_equal_chunks() -> None:
    text = " ".join(f"The {number}th gate opened late." for number in itertools.islice(itertools.count(1000), 24))
    assert {chunk.count("gate") for chunk in chunks_of(text)} == {3}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("A short one. " * 24, "source span shorter than 8 chunks of 40 characters"),
        ("word " * 200, "source span of fewer than 8 sentences"),
        ("", "source span shorter"),
    ],
)
def test_what_cannot_be_divided_says_why(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        divide(text)
    assert len(divide("A sentence that has enough of characters in it. " * 8)) == 8
