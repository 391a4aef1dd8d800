"""A text of the page: its blocks, and which passage each of its characters belongs to."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from pan_scdg.report.records import Report, ReportPair, ReportText
from pan_scdg.report.texts import (
    Piece,
    Span,
    Stretch,
    assign_owners,
    clean_text,
    cut_block,
    make_offset_map,
    measure_text,
    split_blocks,
)
from pan_scdg.retrieval.sentences import find_sentence_spans

BLOCK = 80
"""Bytes of a block's markup and of the marks in it, generously."""


class Name(NamedTuple):
    """The name of a text as it is shown, and the number by which the page knows the text."""

    number: int
    shown: str


class Mark(NamedTuple):
    """A passage in a text, and the anchor of its row in the page."""

    begin: int
    end: int
    anchor: str


@dataclass(eq=False)
class TextView:
    """A text as the page shows it; `mark` completes it."""

    name: Name
    text: str
    warnings: tuple[str, ...]
    marks: list[Mark] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)
    """Marked stretches and the index of their mark, in order and without overlap."""

    def __post_init__(self) -> None:
        self.to_units = make_offset_map(self.text)
        self.blocks: list[Span] = split_blocks(self.text)

    @cached_property
    def sentences(self) -> list[Span]:
        """Return the sentences: see `find_sentence_spans`."""
        return find_sentence_spans(self.text)

    def measure(self) -> int:
        """Return the size of the text on the page in bytes, rounded up."""
        return measure_text(self.text) + BLOCK * len(self.blocks)

    def mark(self, marks: list[Mark]) -> None:
        """Mark passages; where some overlap, the first one owns the characters."""
        self.marks = marks
        self.stretches = assign_owners(len(self.text), [(begin, end) for begin, end, _ in marks])

    def cut(self) -> Iterator[Iterator[Piece]]:
        """Yield the pieces of each block."""
        begins, ends = [begin for begin, _, _ in self.stretches], [end for _, end, _ in self.stretches]
        for begin, end in self.blocks:
            inside = self.stretches[bisect_right(ends, begin) : bisect_left(begins, end)]
            yield cut_block(self.text, (begin, end), inside)

    def find_anchor(self, offset: int) -> str:
        """Return the anchor of the mark in which a character lies, or of the text outside of marks."""
        starts = [start for start, end, _ in self.stretches if start <= offset < end]
        return "-".join(map(str, ("text", self.name.number, *starts)))


class TextViews:
    """The texts of a report; one that is both suspicious and a source is one text."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._views: dict[tuple[str, str], TextView] = {}

    def find(self, pair: ReportPair) -> tuple[TextView, TextView]:
        """Return both texts of a pair."""
        return self._open(self._report.suspicious[pair.suspicious]), self._open(self._report.sources[pair.source])

    def _open(self, text: ReportText) -> TextView:
        key = (text.name, text.text)
        if key not in self._views:
            name = Name(len(self._views) + 1, clean_text(text.name))
            self._views[key] = TextView(name, clean_text(text.text), text.warnings)
        return self._views[key]
