"""The equal words of two passages that a report marks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pan_scdg.align.equal_words import find_equal_words


@pytest.mark.parametrize(
    ("target", "source", "marked", "marked_source"),
    [
        (
            "In 1862 the Board chose paraffin; the cost was a third.",
            "Paraffin, at a third of it, came with the Board by 1862.",
            ["1862", "Board", "paraffin", "third"],
            ["Paraffin", "third", "Board", "1862"],
        ),
        (
            "He sold his goats on the quay",
            "Goats were sold on the quay",
            ["sold", "goats", "quay"],
            ["Goats", "sold", "quay"],
        ),
        ("and sold goats on the quay at noon", "She sold goats on the quay", *[["sold goats on the quay"]] * 2),
        ("Collecting the tolls", "A toll was collected", ["Collecting", "tolls"], ["toll", "collected"]),
        ("The Bоard of Tra\u00adde", "TRADE AND BOARD", ["Bоard", "Tra\u00adde"], ["TRADE", "BOARD"]),
        ("It was not there, and he was with her", "With her it was not there", [], []),
        ("Er hat die Brücke über den Fluß nie gesehen", "Über die Brücke", ["Brücke"], ["Brücke"]),
        ("他说水在中午退了。", "水在中午退了，他走了", ["水在中午退了"], ["水在中午退了"]),
        ("Nothing in common", "", [], []),
        ("7 of 12", "12 or 7", ["7", "12"], ["12", "7"]),
    ],
    ids=["names", "three-words", "run", "stems", "folded", "function-words", "German", "Chinese", "empty", "numbers"],
)
def test_equal_words(target: str, source: str, marked: list[str], marked_source: list[str]) -> None:
    stretches = find_equal_words(target, source)
    assert [target[a:b] for a, b in stretches[0]] == marked
    assert [source[a:b] for a, b in stretches[1]] == marked_source


TEXTS = st.lists(st.sampled_from(["goat", "Goats", "the", "the", "quay", "12", "語", "-\n", "\ud800", "\u00ad", "."]))


@given(TEXTS.map(" ".join), TEXTS.map("".join))
def test_stretches_are_in_order_and_apart(target: str, source: str) -> None:
    for text, stretches in zip((target, source), find_equal_words(target, source)):
        places = [place for stretch in stretches for place in stretch]
        assert places == sorted(places)
        assert all(0 <= begin < end <= len(text) for begin, end in stretches)
