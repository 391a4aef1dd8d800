"""Arrange a report for the page: rows of the table, and pairs in detail as far as the size allows."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count
from typing import Any, NamedTuple

from pan_scdg.align.equal_words import find_equal_words
from pan_scdg.records import MeasuredPassage, PartKind, Span
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
from pan_scdg.report.ranking import SuspiciousText, is_swapped, list_next, list_places, measure_share, rank_suspicious
from pan_scdg.report.records import Excluded, Report, subtract_spans
from pan_scdg.report.texts import Mark, Piece, TextView, clean_text, cut_block, measure_text
from pan_scdg.report.wording import describe_measures, describe_passage
from pan_scdg.results.records import DecidedPair
from pan_scdg.text.units import count_words

MAX_PAGE_BYTES = 20_000_000
MAX_DETAILS = 1_000
MAX_ROWS = 2_000
MAX_EXCERPT_CHARACTERS = 6_000
"""Characters of each side of a passage in the printed table; a longer one is shortened in the middle."""
PAGE_BYTES, ROW_BYTES, DETAIL_BYTES, PASSAGE_BYTES = 250_000, 1_200, 2_500, 1_600
"""Most bytes of the page itself, of a row, of a pair in detail and of a passage without its texts."""
TOKEN_BYTES = 10
"""Most bytes of a token's gain."""
EQUAL_BYTES = 60
"""Most bytes of the markup and the places of a stretch of equal words."""
WITHIN: dict[PartKind | None, int] = {None: 0, "quotation": 1, "references": 2, "formal": 3, "table": 4, "code": 5}
"""Numbers of the parts of a text for the script."""
GAINS_SHARE = 0.3
"""Share of the page that is kept for the gains of the best pairs."""


@dataclass(frozen=True, eq=False)
class Row:
    """A pair in the table."""

    number: int
    """Rank of the pair, from 1."""
    pair: DecidedPair
    left: TextView
    right: TextView

    @cached_property
    def words(self) -> list[int]:
        """Return the numbers of words of the passages in the suspicious text that were compared."""
        return [count_words(self.left.compared[slice(*p.target)]) for p in self.pair.passages]

    @cached_property
    def equal(self) -> list[tuple[list[Span], list[Span]]]:
        """Return by passage the stretches of equal words in both texts that were compared."""
        left, right = self.left.compared, self.right.compared
        stretches = []
        for p in self.pair.passages:
            own, other = find_equal_words(left[slice(*p.target)], right[slice(*p.source)])
            stretches.append(
                ([_shift(p.target.begin, span) for span in own], [_shift(p.source.begin, span) for span in other])
            )
        return stretches

    @property
    def share(self) -> float:
        """Return the share of the suspicious text's characters inside passages that count."""
        return measure_share(list_places(self.pair, self.left.excluded), len(self.left.text))

    def list_passages(self, within_class: bool) -> list[list[Any]]:
        """Return words, part and places of each passage, for the script.

        The part is a number of `WITHIN`. The places are begins and ends of what counts, in characters, one after the
        other: those in the suspicious text and, if texts were compared with each other, those in the other one.
        """
        data: list[list[Any]] = []
        for words, passage in zip(self.words, self.pair.passages):
            one = replace(self.pair, passages=(passage,))
            sides = [
                list_places(one, self.left.excluded),
                list_places(one, self.right.excluded, True) if within_class else [],
            ]
            data.append([words, WITHIN[passage.within], *(list(chain(*places)) for places in sides)])
        return data


@dataclass(frozen=True, eq=False)
class TextRow:
    """A suspicious text in the table."""

    rank: int
    number: int
    """Of the text on the page."""
    text: SuspiciousText
    length: int
    """In characters; 0 without a sign of reuse."""
    sources: tuple[tuple[int, bool, TextView], ...]
    """The number of each listed pair with a sign of reuse, whether this text is its source, and the other text."""

    @property
    def name(self) -> str:
        """Return the name as it is shown."""
        return clean_text(self.text.name)


EQUAL, EXCLUDED = 0, 1
"""Owners of the stretches of a side: equal words, and what does not count."""


class Side(NamedTuple):
    """The text of a passage: its beginning, the number of characters left out after it, and its end."""

    begin: list[Piece]
    """The owner is `EQUAL` or `EXCLUDED`, if any."""
    left_out: int
    end: list[Piece]


@dataclass(frozen=True, eq=False)
class PassageView:
    """The row of a passage of a pair or a query; its anchors need texts that `mark_texts` has marked."""

    number: int
    """Of the passage, from 1."""
    passage: MeasuredPassage
    left_text: TextView
    """The suspicious text or the query."""
    right_text: TextView
    """The source."""
    anchor: str
    sentence: str
    measures: str = ""
    """What was measured on it; empty if the sentence says it."""
    equal: tuple[Sequence[Span], Sequence[Span]] = ((), ())
    """Stretches of equal words in both texts."""
    rank: int | None = None
    """Of the source if there are several, whose number and name are then shown."""

    @property
    def label(self) -> int:
        """Return the number that is shown."""
        return self.number if self.rank is None else self.rank

    @property
    def style(self) -> str:
        """Return the class of its marks: one colour for passages, one for each source, grey for what does not count."""
        return f"c{0 if self.rank is None else (self.rank - 1) % 8}" if self.passage.counts else "out"

    @property
    def left(self) -> Side:
        """Return its text on the left."""
        return _make_side(self.left_text, self.passage.target, self.equal[0])

    @property
    def right(self) -> Side:
        """Return its text on the right."""
        return _make_side(self.right_text, self.passage.source, self.equal[1])

    @property
    def anchors(self) -> tuple[str, str]:
        """Return the anchors of its places in both texts."""
        p = self.passage
        return self.left_text.find_anchor(*p.target), self.right_text.find_anchor(*p.source)


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

    texts_ranked: tuple[TextRow, ...]
    rows: tuple[Row, ...]
    next_rows: tuple[Row, ...]
    """Pairs without a sign of reuse to look at next."""
    details: dict[int, Detail]
    """By number of the pair."""
    texts: tuple[TextView, ...]
    """Those of the pairs in detail."""
    histogram: Histogram | None
    matrix: Matrix | None


def arrange_page(report: Report, max_bytes: int = MAX_PAGE_BYTES) -> Page:
    """Return the content of a page of at most ``max_bytes``: details of the best pairs as long as they fit."""
    rows = tuple(_list_rows(report))
    ranked = tuple(_list_texts(report, rows))
    space = max_bytes - PAGE_BYTES - ROW_BYTES * (len(rows) + len(ranked))
    kept = min(sum(map(_measure_gains, rows)), int(GAINS_SHARE * space))
    chosen, left = _choose_details(rows, space - kept)
    with_gains = _choose_gains(chosen, left + kept)
    texts = tuple(dict.fromkeys(text for row in chosen for text in (row.left, row.right)))
    details = {row.number: _make_detail(row, row.number in with_gains) for row in chosen}
    mark_texts((passage for detail in details.values() for passage in detail.passages), texts)
    next_rows = tuple(rows[number - 1] for number in list_next(report) if number <= len(rows))
    signs = [(row.left, row.right, row.number) for row in rows if row.pair.finding != "no sign"]
    return Page(ranked, rows, next_rows, details, texts, make_histogram(report), make_matrix(signs))


def _list_texts(report: Report, rows: Sequence[Row]) -> Iterator[TextRow]:
    """Yield the suspicious texts of the table; those without a listed pair get numbers after all others."""
    views = {row.pair.suspicious: row.left for row in rows}
    if report.within_class:
        views |= {row.pair.source: row.right for row in rows if row.pair.source in report.suspicious}
    free = count(1 + max((view.number for row in rows for view in (row.left, row.right)), default=0))
    for rank, text in enumerate(rank_suspicious(report)[:MAX_ROWS], 1):
        view = views.get(text.name)
        signs = [rows[number - 1] for number in text.signs if number <= len(rows)]
        swapped = [is_swapped(row.pair, text.name) for row in signs]
        sources = tuple((row.number, is_own, row.left if is_own else row.right) for row, is_own in zip(signs, swapped))
        length = len(view.text) if view is not None and sources else 0
        yield TextRow(rank, next(free) if view is None else view.number, text, length, sources)


def _list_rows(report: Report) -> Iterator[Row]:
    """Yield the pairs of the table; a text that is both suspicious and a source is one text."""
    views: dict[tuple[str, str, tuple[Excluded, ...]], TextView] = {}
    for number, pair in enumerate(report.pairs[:MAX_ROWS], 1):
        sides = report.suspicious[pair.suspicious], report.sources[pair.source]
        for name, text, warnings, excluded in sides:
            if (name, text, excluded) not in views:
                views[name, text, excluded] = TextView(len(views) + 1, name, text, warnings, excluded)
        left, right = (views[side.name, side.text, side.excluded] for side in sides)
        yield Row(number, pair, left, right)


def _choose_details(rows: Iterable[Row], space: int) -> tuple[list[Row], int]:
    """Return the pairs that are shown in detail, and the bytes that are left: a pair that does not fit is left out."""
    chosen: list[Row] = []
    shown: set[TextView] = set()
    for row in rows:
        if len(chosen) == MAX_DETAILS:
            break
        texts = {row.left, row.right} - shown
        size = DETAIL_BYTES + sum(text.measure() for text in texts)
        size += sum(measure_passage(passage, row.left, row.right) for passage in row.pair.passages)
        if size <= space:
            size += EQUAL_BYTES * sum(len(side) for passage in row.equal for side in passage)
        if size <= space:
            chosen.append(row)
            shown |= texts
            space -= size
    return chosen, space


def _shift(begin: int, span: tuple[int, int]) -> Span:
    return Span(begin + span[0], begin + span[1])


def measure_passage(passage: MeasuredPassage, left: TextView, right: TextView) -> int:
    """Return the size of a passage's row in bytes, rounded up."""
    begin, begin2 = passage.target.begin, passage.source.begin
    shown = (
        left.text[begin : min(passage.target.end, begin + MAX_EXCERPT_CHARACTERS)],
        right.text[begin2 : min(passage.source.end, begin2 + MAX_EXCERPT_CHARACTERS)],
    )
    return PASSAGE_BYTES + sum(map(measure_text, shown))


def _measure_gains(row: Row) -> int:
    """Return the size of a pair's gains."""
    if row.pair.gains is None:
        return 0
    return TOKEN_BYTES * (len(row.pair.gains.gains) + len(row.left.sentences))


def _choose_gains(rows: Iterable[Row], space: int) -> set[int]:
    """Return the numbers of the pairs whose gains also fit."""
    chosen = set()
    for row in rows:
        size = _measure_gains(row)
        if 0 < size <= space:
            chosen.add(row.number)
            space -= size
    return chosen


def mark_texts(rows: Iterable[PassageView], texts: Iterable[TextView]) -> None:
    """Mark passages in their two texts; where some overlap, the first row is on top."""
    marks: dict[TextView, list[Mark]] = {text: [] for text in texts}
    for row in rows:
        p = row.passage
        marks[row.left_text].append(Mark(*p.target, row.anchor, p.counts))
        marks[row.right_text].append(Mark(*p.source, row.anchor, p.counts))
    for text, own_marks in marks.items():
        text.mark(own_marks)


def _make_detail(row: Row, with_gains: bool) -> Detail:
    pair, left, right = row.pair, row.left, row.right
    gains = pair.gains if with_gains else None
    passages = tuple(
        PassageView(i, passage, left, right, f"pair-{row.number}-{i}", *_describe(row, i - 1), row.equal[i - 1])
        for i, passage in enumerate(pair.passages, 1)
    )
    data: dict[str, Any] = {
        "texts": [left.number, right.number],
        "passages": [locate_passage(passage, left, right) for passage in pair.passages],
        "equal": [[_flatten(own, left), _flatten(other, right)] for own, other in row.equal],
        "uncounted": [i for i, passage in enumerate(pair.passages, 1) if not passage.counts],
    }
    return Detail(
        row,
        passages,
        tuple(map_passages(pair, len(left.text), len(right.text))),
        None if gains is None else draw_gains(gains, len(left.text)),
        pair.gains is not None and not with_gains,
        data if gains is None else {**data, **left.pack_gains(gains)},
    )


def locate_passage(passage: MeasuredPassage, left: TextView, right: TextView) -> list[int]:
    """Return begin and end of a passage in both texts, in UTF-16 units."""
    return [*map(left.to_units, passage.target), *map(right.to_units, passage.source)]


def _describe(row: Row, passage: int) -> tuple[str, str]:
    """Return the sentence about a passage of a pair, and what was measured on it."""
    shown, (own, _) = row.pair.passages[passage], row.equal[passage]
    equal = sum(count_words(row.left.compared[begin:end]) for begin, end in own)
    return describe_passage(shown, row.words[passage], equal), describe_measures(shown)


def _flatten(stretches: Iterable[Span], text: TextView) -> list[int]:
    """Return begins and ends in UTF-16 units."""
    return [text.to_units(place) for stretch in stretches for place in stretch]


def _make_side(view: TextView, passage: Span, equal: Sequence[Span]) -> Side:
    """Return the text of a passage, without its middle if it is long."""
    text, marked = view.text, (span for stretch in equal for span in subtract_spans(*stretch, view.excluded))
    stretches = sorted([*((*span, EQUAL) for span in marked), *((a, b, EXCLUDED) for a, b, _ in view.excluded)])
    (begin, end), half = passage, MAX_EXCERPT_CHARACTERS // 2
    if end - begin <= MAX_EXCERPT_CHARACTERS:
        return Side(list(cut_block(text, passage, stretches)), 0, [])
    parts = [list(cut_block(text, part, stretches)) for part in (Span(begin, begin + half), Span(end - half, end))]
    return Side(parts[0], end - begin - 2 * half, parts[1])


def dump_data(data: Any) -> str:
    """Return JSON that no HTML parser mistakes for markup."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
