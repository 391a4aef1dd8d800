"""A text on the page: its blocks and marks, the offsets of a browser, and the levels of its gains."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from pan_scdg.records import Span, TokenGains
from pan_scdg.report.records import Excluded, hide_excluded, subtract_spans
from pan_scdg.text.sentences import find_sentence_spans

_CHANGED = re.compile("[\0\ud800-\udfff]")
"""Characters that a browser drops or that no file can contain."""
_BREAK = re.compile(r"\n[ \t\r\f\v]*\n\s*")
_ITEM = re.compile(r"\s*(?:[-•*–▪◦>]|\(?\d{1,3}[.)]|\[\d{1,3}\])\s")
FULL_LINE_QUANTILE = 0.9
"""The width of a PDF's lines is that of this quantile of them."""
MIN_FILLED_SHARE, MIN_ENDING_SHARE = 0.85, 0.96
"""Least share of the width up to which a line with the next one's first word is filled; the same at a full stop."""
MIN_WIDTH = 40
"""Lines that are all shorter are not joined, such as those of poems."""
LINE_CUT_CHARACTERS = 2_000
"""A block of more characters is cut at its next line break, because browsers skip invisible text in whole blocks."""
SPACE_CUT_CHARACTERS = 4_000
"""A block without a line break is cut at the next space after this many characters, or at twice as many."""
BLOCK_BYTES = 80
"""Most bytes of a block's markup and of the marks in it."""
EXCLUDED_BYTES = 250
"""Most bytes of the markup of an excluded stretch, and of the mark that it may cut in two."""
LEVEL_EDGES: dict[str, tuple[float, ...]] = {
    "token": (-1.5, -0.5, 0.5, 1, 2, 3, 5),
    "sentence": (-0.5, -0.15, 0.15, 0.4, 0.8, 1.4, 2.2),
}
"""Least gain of each level but the first, in nats."""
NEUTRAL_LEVEL = 2
"""The level around 0, without a colour."""

Stretch = tuple[int, int, int]
"""Begin, end, and the index of the passage or the level of the gain that it belongs to."""


class Piece(NamedTuple):
    """A part of a block; marked if it belongs to a passage."""

    text: str
    owner: int | None
    """Index of the passage or level of the stretch, None without one."""
    start: int | None
    """Offset of the mark if this is its first piece: a mark may continue in the next block."""


class Mark(NamedTuple):
    """A passage or an excluded stretch of a text."""

    begin: int
    end: int
    anchor: str
    """Of the passage's row in the page; empty for an excluded stretch."""
    counts: bool = True
    reason: str = ""
    """Why an excluded stretch does not count."""


class TextView:
    """A text as the page shows it; `mark` completes it.

    Args:
        number: by which the page knows the text, from 1.
        name: as it is shown.
        text: the text itself.
        warnings: about the text.
        excluded: what does not count, in order and without overlap.
    """

    def __init__(
        self,
        number: int,
        name: str,
        text: str,
        warnings: tuple[str, ...] = (),
        excluded: tuple[Excluded, ...] = (),
    ) -> None:
        self.number, self.name, self.warnings, self.excluded = number, clean_text(name), warnings, excluded
        self.compared = hide_excluded(clean_text(text), excluded)
        """The text with blanks for what was not compared."""
        self.text = join_lines(clean_text(text)) if name.lower().endswith(".pdf") else clean_text(text)
        """The text as it is shown, with the same offsets."""
        self.to_units = make_offset_map(self.text)
        self.blocks = split_blocks(self.text)
        self.marks: list[Mark] = []
        self.stretches: list[Stretch] = []
        """Marked stretches and the index of their mark, in order and without overlap."""

    @cached_property
    def sentences(self) -> list[Span]:
        """Return the sentences: see `find_sentence_spans`."""
        return [Span(*span) for span in find_sentence_spans(self.compared)]

    def measure(self) -> int:
        """Return the size of the text on the page in bytes, rounded up."""
        return measure_text(self.text) + BLOCK_BYTES * len(self.blocks) + EXCLUDED_BYTES * len(self.excluded)

    def mark(self, marks: list[Mark]) -> None:
        """Mark passages and what is excluded from those that count; of passages, the first one owns its characters."""
        counted = [
            mark._replace(begin=begin, end=end)
            for mark in marks
            if mark.counts
            for begin, end in subtract_spans(mark.begin, mark.end, self.excluded)
        ]
        others = [mark for mark in marks if not mark.counts]
        excluded = [Mark(begin, end, "", False, reason) for begin, end, reason in self.excluded]
        self.marks = [*counted, *others, *excluded]
        self.stretches = assign_owners(len(self.text), [Span(*mark[:2]) for mark in self.marks])

    def cut(self) -> Iterator[Iterator[Piece]]:
        """Yield the pieces of each block."""
        begins, ends = [begin for begin, _, _ in self.stretches], [end for _, end, _ in self.stretches]
        for begin, end in self.blocks:
            inside = self.stretches[bisect_right(ends, begin) : bisect_left(begins, end)]
            yield cut_block(self.text, Span(begin, end), inside)

    def find_anchor(self, begin: int, end: int) -> str:
        """Return the anchor of the mark in which a place begins, or of the text if it has no mark or is empty."""
        starts = [first for first, last, _ in self.stretches if first <= begin < last and begin < end]
        return "-".join(map(str, ("text", self.number, *starts)))

    def pack_gains(self, gains: TokenGains) -> dict[str, Any]:
        """Return tokens as distance from the previous one, length and gain in hundredths of a nat; ends of sentences.

        Offsets and lengths are in UTF-16 units.
        """
        packed: list[int] = []
        last = 0
        for (begin, end), gain in zip(gains.spans, gains.gains, strict=True):
            if begin < end:
                first, after = self.to_units(begin), self.to_units(end)
                packed += (first - last, after - first, round(100 * gain))
                last = after
        return {"gains": packed, "sentences": [self.to_units(end) for _, end in self.sentences]}


def describe_levels(unit: str) -> list[str]:
    """Return the legend: the range of each level, in nats."""
    edges = LEVEL_EDGES[unit]
    low = [f"< −{-edge:g}" for edge in edges[:NEUTRAL_LEVEL]]
    return [*low, "about 0", *(f"≥ {edge:g}" for edge in edges[NEUTRAL_LEVEL:])]


def clean_text(text: str) -> str:
    """Return ``text`` with U+FFFD for NUL and for half surrogate pairs; no offset changes."""
    return _CHANGED.sub("\ufffd", text)


def join_lines(text: str) -> str:
    """Return the text of a PDF with spaces for the line breaks inside paragraphs; no offset changes.

    A line is inside a paragraph if the next one's first word would not have fitted in, unless that begins an item.
    """
    lines = text.split("\n")
    lengths = sorted(len(line) for line in lines if line.strip())
    width = lengths[int(FULL_LINE_QUANTILE * len(lengths))] if lengths else 0
    parts = lines[:1]
    for line, following in pairwise(lines):
        words = following.split(maxsplit=1)
        least = MIN_ENDING_SHARE if line.rstrip().endswith((".", "!", "?", ":")) else MIN_FILLED_SHARE
        is_full = bool(words) and len(line) + 1 + len(words[0]) >= max(MIN_WIDTH, least * width)
        joint = "\u200b" if line.endswith(("-", "\u00ad", "\u2010")) else " "
        parts += [joint if is_full and line.strip() and not _ITEM.match(following) else "\n", following]
    return "".join(parts)


def measure_text(text: str) -> int:
    """Return the size of a text in a page in bytes, at most."""
    return len(text.encode()) + 4 * sum(text.count(character) for character in "&<>\"'\r")


def make_offset_map(text: str) -> Callable[[int], int]:
    """Return the function from an offset in characters to one in UTF-16 units, in which browsers count."""
    if not text or max(text) <= "\uffff":
        return int
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    units = np.concatenate(([0], np.cumsum(1 + (points > 0xFFFF))))
    return lambda offset: int(units[offset])


def split_blocks(text: str) -> list[Span]:
    """Return the blocks of a text: contiguous spans, each with the white space after it; together all of the text."""
    cuts = [0, *(match.end() for match in _BREAK.finditer(text)), len(text)]
    blocks: list[Span] = []
    for start, end in zip(cuts, cuts[1:]):
        while end - start > LINE_CUT_CHARACTERS and (cut := _find_cut(text, start, end)) < end:
            blocks.append(Span(start, cut))
            start = cut
        if start < end:
            blocks.append(Span(start, end))
    return blocks


def _find_cut(text: str, start: int, end: int) -> int:
    for separator, least, most in (
        ("\n", LINE_CUT_CHARACTERS, SPACE_CUT_CHARACTERS),
        (" ", SPACE_CUT_CHARACTERS, 2 * SPACE_CUT_CHARACTERS),
    ):
        place = text.find(separator, start + least, min(end, start + most))
        if place >= 0:
            return place + 1
    return min(end, start + 2 * SPACE_CUT_CHARACTERS)


def assign_owners(length: int, spans: Sequence[Span]) -> list[Stretch]:
    """Return the stretches of a text inside spans, with the index of the span, in order and without overlap.

    Where spans overlap, the first one owns the characters.
    """
    owner = np.full(length + 1, -1, np.int64)
    for i in reversed(range(len(spans))):
        owner[spans[i][0] : spans[i][1]] = i
    owner[length] = -1
    cuts = [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist(), length]
    return [(start, end, int(owner[start])) for start, end in zip(cuts, cuts[1:]) if start < end and owner[start] >= 0]


def cut_block(text: str, block: Span, stretches: Sequence[Stretch]) -> Iterator[Piece]:
    """Yield the pieces of a block, cut by stretches in order and without overlap."""
    at, end = block
    for first, last, owner in stretches:
        begin, until = max(first, at), min(last, end)
        if begin >= until:
            continue
        if at < begin:
            yield Piece(text[at:begin], None, None)
        yield Piece(text[begin:until], owner, first if first == begin else None)
        at = until
    if at < end:
        yield Piece(text[at:end], None, None)
