"""Arrange a report for the page: rows of the table, and pairs in detail as far as the size allows."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pan_scdg.passages.units import count_words
from pan_scdg.report.charts import (
    Band,
    GainProfile,
    Histogram,
    Matrix,
    draw_gains,
    make_histogram,
    make_matrix,
    map_passages,
)
from pan_scdg.report.grades import GradedText, grade_part, grade_sentences, pack_gains
from pan_scdg.report.records import Report, ReportPair
from pan_scdg.report.text_view import Mark, Name, TextView, TextViews
from pan_scdg.report.texts import Span, Stretch, measure_text
from pan_scdg.report.wording import describe_passage

LARGEST = 20_000_000
"""Bytes of a page."""
MOST_DETAILS = 1_000
MOST_ROWS = 2_000
EXCERPT = 6_000
"""Characters of each side of a passage in the table that is printed; longer ones are shortened in the middle."""
PAGE, ROW, DETAIL, PASSAGE = 250_000, 1_200, 2_500, 1_600
"""Bytes, generously: of the page itself, of a row, of a pair in detail and of a passage without its texts."""
GAIN = 10
"""Bytes of a token's gain, generously."""
SENTENCE = 40
"""Bytes of the markup of a coloured sentence, and of its place."""
GAINS_SHARE = 0.3
"""Of the size, kept for the gains of the best pairs."""


@dataclass(frozen=True, eq=False)
class Row:
    """A pair in the table."""

    number: int
    """Rank of the pair, from 1."""
    pair: ReportPair
    left: TextView
    right: TextView

    @cached_property
    def words(self) -> list[int]:
        """Return the numbers of words of the passages in the suspicious text."""
        return [count_words(self.left.text[p.begin : p.end]) for p in self.pair.passages]

    @property
    def covered(self) -> int:
        """Return the number of the suspicious text's characters that lie in passages."""
        inside = np.zeros(len(self.left.text), bool)
        for passage in self.pair.passages:
            inside[passage.begin : passage.end] = True
        return int(inside.sum())

    @property
    def share(self) -> float:
        """Return the share of the suspicious text that lies in passages."""
        return self.covered / max(1, len(self.left.text))

    @property
    def lengths(self) -> str:
        """Return each passage's characters and words, and whether it is a quotation and in a list of references."""
        shown = zip(self.pair.passages, self.words)
        fields = ((p.end - p.begin, n, int(p.within == "quotation"), int(p.within == "references")) for p, n in shown)
        return " ".join(",".join(map(str, of_passage)) for of_passage in fields)


class Side(NamedTuple):
    """The text of a passage: its beginning, the number of characters left out after it, and its end."""

    begin: list[GradedText]
    left_out: int
    end: list[GradedText]


@dataclass(frozen=True)
class PassageView:
    """A passage of a pair or a query in detail."""

    number: int
    label: int
    """The number that is shown: that of the passage, or of the source that it comes from."""
    sentence: str
    left: Side
    right: Side
    anchor: str
    """Of its row; the others are those of its places in both texts."""
    left_anchor: str
    right_anchor: str
    source: Name | None = None
    """The text on the right if that is not the same for all passages."""

    @property
    def colour(self) -> int:
        """Return the colour of its marks, 0 to 7."""
        return (self.label - 1) % 8


@dataclass(frozen=True, eq=False)
class Detail:
    """A pair in detail."""

    row: Row
    passages: tuple[PassageView, ...]
    bands: tuple[Band, ...]
    profile: GainProfile | None
    gains_left_out: bool
    data: dict[str, Any]
    """The data for the script; offsets are in UTF-16 units."""


@dataclass(frozen=True)
class Page:
    """The data of a page, prepared for the template."""

    rows: tuple[Row, ...]
    details: dict[int, Detail]
    """By number of the pair."""
    texts: tuple[TextView, ...]
    """Those of the pairs in detail."""
    histogram: Histogram | None
    matrix: Matrix | None


def arrange_page(report: Report, largest: int = LARGEST) -> Page:
    """Return the content of a page of at most ``largest`` bytes: details of the best pairs as long as they fit."""
    views = TextViews(report)
    rows = tuple(Row(i, pair, *views.find(pair)) for i, pair in enumerate(report.pairs[:MOST_ROWS], 1))
    space = largest - PAGE - ROW * len(rows)
    kept = min(sum(map(_measure_gains, rows)), int(GAINS_SHARE * space))
    chosen, left = _choose_details(rows, space - kept)
    with_gains = _choose_gains(chosen, left + kept)
    texts = _mark_texts(chosen)
    details = {row.number: _make_detail(row, row.number in with_gains) for row in chosen}
    scores = [pair.score for pair in report.pairs if pair.score is not None]
    signs = [(row.left.name, row.right.name, row.number) for row in rows if row.pair.judgement != "no sign"]
    return Page(rows, details, texts, make_histogram(scores, report.threshold), make_matrix(signs))


def _choose_details(rows: Iterable[Row], space: int) -> tuple[list[Row], int]:
    """Return the pairs that are shown in detail, and the bytes that are left: a pair that does not fit is left out."""
    chosen: list[Row] = []
    shown: set[TextView] = set()
    for row in rows:
        texts = {row.left, row.right} - shown
        size = DETAIL + sum(text.measure() for text in texts)
        for p in row.pair.passages:
            size += measure_side(row.left.text, p.begin, p.end) + measure_side(row.right.text, p.begin2, p.end2)
        if size <= space and len(chosen) < MOST_DETAILS:
            chosen.append(row)
            shown |= texts
            space -= size
    return chosen, space


def measure_side(text: str, begin: int, end: int) -> int:
    """Return the size of one side of a passage in its row in bytes, rounded up."""
    return PASSAGE // 2 + measure_text(text[begin : min(end, begin + EXCERPT)])


def _measure_gains(row: Row) -> int:
    """Return the size of a pair's gains: those of the tokens, and the colours of sentences in its passages."""
    if row.pair.gains is None:
        return 0
    return GAIN * len(row.pair.gains.gains) + SENTENCE * len(row.left.sentences)


def _choose_gains(rows: Iterable[Row], space: int) -> set[int]:
    """Return the numbers of the pairs whose gains also fit."""
    chosen = set()
    for row in rows:
        size = _measure_gains(row)
        if 0 < size <= space:
            chosen.add(row.number)
            space -= size
    return chosen


def _mark_texts(rows: Sequence[Row]) -> tuple[TextView, ...]:
    """Mark the passages of these pairs in their texts, those of the best pair first; return the texts."""
    marks: dict[TextView, list[Mark]] = {}
    for row in rows:
        left, right = marks.setdefault(row.left, []), marks.setdefault(row.right, [])
        for i, passage in enumerate(row.pair.passages, 1):
            left.append(Mark(passage.begin, passage.end, name_anchor(row.number, i)))
            right.append(Mark(passage.begin2, passage.end2, name_anchor(row.number, i)))
    for view, found in marks.items():
        view.mark(found)
    return tuple(marks)


def name_anchor(pair: int, passage: int) -> str:
    """Return the anchor of a passage's row."""
    return f"pair-{pair}-{passage}"


def _make_detail(row: Row, with_gains: bool) -> Detail:
    pair, left, right = row.pair, row.left, row.right
    gains = pair.gains if with_gains else None
    sentences = [] if gains is None else grade_sentences(gains, left)
    return Detail(
        row,
        tuple(_make_passage(row, i, sentences) for i in range(len(pair.passages))),
        tuple(map_passages(pair, len(left.text), len(right.text))),
        None if gains is None else draw_gains(gains, len(left.text)),
        pair.gains is not None and not with_gains,
        {
            "texts": [left.name.number, right.name.number],
            "passages": [
                [*map(left.to_units, (p.begin, p.end)), *map(right.to_units, (p.begin2, p.end2))] for p in pair.passages
            ],
            **({} if gains is None else pack_gains(gains, left)),
        },
    )


def _make_passage(row: Row, i: int, sentences: Sequence[Stretch]) -> PassageView:
    passage = row.pair.passages[i]
    return PassageView(
        i + 1,
        i + 1,
        describe_passage(passage, row.words[i]),
        make_side(row.left.text, (passage.begin, passage.end), sentences),
        make_side(row.right.text, (passage.begin2, passage.end2)),
        name_anchor(row.number, i + 1),
        row.left.find_anchor(passage.begin),
        row.right.find_anchor(passage.begin2),
    )


def make_side(text: str, passage: Span, sentences: Sequence[Stretch] = ()) -> Side:
    """Return the text of a passage, without its middle if it is long."""
    (begin, end), half = passage, EXCERPT // 2
    if end - begin <= EXCERPT:
        return Side(grade_part(text, passage, sentences), 0, [])
    parts = [grade_part(text, part, sentences) for part in ((begin, begin + half), (end - half, end))]
    return Side(parts[0], end - begin - 2 * half, parts[1])


def dump_data(data: Any) -> str:
    """Return JSON that no HTML parser mistakes for markup."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
