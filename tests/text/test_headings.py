"""Lines that are no sentences, and lines that look so."""

from pathlib import Path

import numpy as np
import pytest

from pan_scdg.records import Span
from pan_scdg.text.headings import find_headings
from pan_scdg.text.units import prepare_text, read_words

ESSAYS = Path(__file__).parents[2] / "examples" / "essays" / "sources"
PROSE = """The owner sold both grinding stones to a museum and turned the upper floor into rooms for workers. When the
flood of 1947 broke the weir, nobody repaired it, and the pond behind it slowly became a meadow."""
WRAPPED = """The owner sold both stones to a museum and
Turned the upper floor into rooms for workers
The flood of 1947 broke the weir of the mill
And nobody repaired it, so that the pond
became a meadow."""


def list_headings(text: str) -> list[str]:
    spans = find_headings(text, read_words(text).words[:, 0], np.zeros((0, 2), np.int64))
    return [text[begin:end] for begin, end in spans]


@pytest.mark.parametrize(
    "lines",
    [
        "1 Introduction and Overview",
        "2.1. Present situation:",
        "## What has changed?",
        "**Historical background**",
        "Historical background\n---------------------",
        "Abstract",
        "HISTORICAL BACKGROUND\r",
        "Name: Jane Doe\nDate: 4 May\nCourse: History",
        "Anna Schmidt\nJean-Luc Petit\nMaria da Silva\nWei Zhang",
        "A history of the old mill by\nthe river and its people",
        "Figure 3. Visitors of the mill in every year from its opening to the flood, with all of its guests",
        "Wheat 12 14 19\nBarley 3 4\n1931 1947",
        "- Bread\n- Flour of rye",
        "Inledning och bakgrund",
        "一、历史背景",
        "12",
    ],
)
def test_lines_that_are_no_sentences(lines: str) -> None:
    headings = [line for line in lines.split("\n") if any(map(str.isalnum, line))]
    for text in (f"{lines}\n\n{PROSE}", f"{PROSE}\n\n{lines}\n\n{PROSE}", f"{PROSE}\n\n{lines}"):
        assert list_headings(text) == headings
        assert prepare_text(text).forms == read_words(text.replace(lines, "")).forms


def test_a_heading_needs_no_blank_line() -> None:
    assert list_headings(f"{PROSE}\nPresent situation\n{PROSE}") == ["Present situation"]
    assert list_headings(f"Introduction\n{WRAPPED}\n{PROSE}") == ["Introduction"]


@pytest.mark.parametrize(
    "text",
    [
        PROSE,
        WRAPPED,
        "\n\n".join(PROSE.split()),
        "\n".join([*PROSE.split(), "The", "Mill"]),
        "\n".join(line.rstrip(".") for line in PROSE.split(". ")),
        "the mill is closed now\n\nwhy\n\nno customers left\n\nThe railway took them",
        "Two roads diverged in a yellow wood,\nAnd sorry I could not travel both\nAnd be one traveler, long I stood\n"
        "And looked down one as far as I could\nTo where it bent in the undergrowth;",
        "The mill closed for three reasons:\n- the railway took its best customers away in 1931\n- the weir broke",
        "The flood broke the weir",
        "旧磨坊于一九三一年关闭，因为铁路带走了最好的顾客。\n\n主人把两块磨石卖给了博物馆。",
        "โรงสีเก่าริมแม่น้ำปิดตัวลงเพราะทางรถไฟสายใหม่แย่งลูกค้าไปหมด",
    ],
)
def test_text_that_looks_like_headings(text: str) -> None:
    assert list_headings(text) == []


@pytest.mark.parametrize("headings", ["{}. Part of {}", "# {} Chapter on the {}", "Name: {} {}"])
def test_headings_change_no_sentence(headings: str) -> None:
    plain = [f"{part} Why?" for part in (ESSAYS / "roman-roads.txt").read_text().split("\n\n")[1:]]
    headed = "\n\n".join(f"{headings.format(number, 'roads')}\n\n{part}" for number, part in enumerate(plain, 1))
    first, second = prepare_text(headed), prepare_text("\n\n".join(plain))
    assert first.forms == second.forms
    units = [[" ".join(one.text[a:b].split()) for a, b in one.spans.tolist()] for one in (first, second)]
    assert units[0] == units[1]


def test_numbered_headings_are_headings_however_little_text_they_have() -> None:
    headings = [f"{number} Owners of the Mill" for number in range(1, 6)]
    sentence = "the owner of the mill sold both stones."
    above = ("\n".join(headings), "\n\n".join(headings))
    for text in (*(f"{one}\n\n{sentence}" for one in above), "\n\n".join(f"{one}\n{sentence}" for one in headings)):
        prepared = prepare_text(text)
        assert set(prepared.forms) == set(read_words(sentence).forms)
        assert {prepared.text[begin:end] for begin, end in prepared.spans.tolist()} == {sentence}
    assert len(prepare_text("\n".join(headings)).forms) == len(read_words("\n".join(headings)).forms)
    own = "1. One Wheel\n2. Two Stones\n3. Three Floors"
    assert (
        prepare_text(f"{headings[0]}\n\n{PROSE}\n\n{own}\n\n{headings[1]}\n\n{PROSE}").forms
        == 2 * read_words(PROSE).forms
    )


@pytest.mark.parametrize("mark", [". ", " "])
def test_a_numbered_list_is_text(mark: str) -> None:
    items = "\n".join(
        f"{number}{mark}The {thing} closed the mill by the river in 1931"
        for number, thing in enumerate(("railway", "flood", "owner"), 1)
    )
    text = f"{PROSE}\n\nIt closed for these reasons.\n{items}\nSo it was sold.\n\n{PROSE}"
    assert prepare_text(text).forms == read_words(text).forms


@pytest.mark.parametrize("between", ["\n\n{}\n\n", "\n{}\n", "\n\n{0}\n{0}\n\n"])
def test_places_are_those_without_headings(between: str) -> None:
    first, second = (
        PROSE.split(". ")[0] + ".",
        "“When the flood broke,” said the owner of the mill, “nobody repaired it.”",
    )
    headed, plain = f"{first}{between.format('2 Present situation')}{second}", f"{first}\n\n{second}"
    prepared, other = prepare_text(headed), prepare_text(plain)
    assert (prepared.text, prepared.spans.tolist()) == (plain, other.spans.tolist())
    for span, text in zip(prepared.spans.tolist(), (first, second)):
        assert headed[slice(*prepared.restore(Span(*span)))] == text
    assert prepared.restore(Span(0, len(plain))) == (0, len(headed))
    (quotations,) = (part.spans for part in prepared.parts if part.kind == "quotation")
    assert [plain[begin:end] for begin, end in quotations.tolist()] == [
        "“When the flood broke,”",
        "“nobody repaired it.”",
    ]


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        (
            "She wrote: “The pond became a meadow.\n\nPresent situation\n\nNobody repaired it.”",
            ["She wrote: “The pond became a meadow.", "Nobody repaired it.”"],
        ),
        ("“Present situation\n\nNobody repaired it.”", ["Nobody repaired it.”"]),
    ],
)
def test_a_quotation_goes_on_behind_a_heading(text: str, quoted: list[str]) -> None:
    prepared = prepare_text(f"{PROSE}\n\n{text}\n\n{PROSE}")
    assert [prepared.text[begin:end] for begin, end in prepared.spans[~prepared.counted].tolist()] == quoted
