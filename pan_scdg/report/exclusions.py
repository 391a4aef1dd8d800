"""What a reader may leave out: quotations, reference lists and short matches."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from pan_scdg.report.texts import Span
from pan_scdg.retrieval.sentences import find_section_name, strip_marks

_QUOTATION = re.compile(
    r"“[^“”]{1,4000}”|„[^“”„]{1,4000}[“”]|«[^«»]{1,4000}»"
    r'|"(?:[^"\n]|\n(?![ \t]*\n)){1,4000}"'
    r"|^[ \t]*>.*(?:\n[ \t]*>.*)*",
    re.MULTILINE,
)
_LIST_NAMES = {
    "references",
    "reference list",
    "bibliography",
    "works cited",
    "literature",
    "literature cited",
    "sources",
}
_LINE = re.compile(r"[^\n]+")
_WORD = re.compile(r"\w+")
MOSTLY = 0.5
"""A passage with at least this share of its characters in quotations is a quotation."""


class Nature(NamedTuple):
    """Properties of a passage by which a reader may leave it out."""

    words: int
    quoted: bool
    listed: bool
    """It lies in a list of references."""


class Exclusions:
    """The quotations and reference lists of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._quotations = [match.span() for match in _QUOTATION.finditer(text)]
        self._lists = find_reference_lists(text)

    def classify(self, begin: int, end: int) -> Nature:
        """Return the properties of the passage from ``begin`` to ``end``."""
        least = MOSTLY * max(1, end - begin)
        words = len(_WORD.findall(self._text, begin, end))
        return Nature(
            words,
            _measure_overlap(begin, end, self._quotations) >= least,
            _measure_overlap(begin, end, self._lists) >= least,
        )


def find_reference_lists(text: str) -> list[Span]:
    """Return the lists of references: from their heading to the next heading with a usual name, or the end."""
    found: list[Span] = []
    start: int | None = None
    for line in _LINE.finditer(text):
        if len(line[0]) > 80:
            continue
        opens = strip_marks(line[0]).rstrip(".:").casefold() in _LIST_NAMES
        if start is not None and (opens or line[0].startswith("#") or find_section_name(line[0])):
            found.append((start, line.start()))
            start = None
        if opens:
            start = line.start()
    if start is not None:
        found.append((start, len(text)))
    return found


def _measure_overlap(begin: int, end: int, spans: Sequence[Span]) -> int:
    """Return how many characters of a passage lie in spans, which are in order and do not overlap."""
    found = 0
    for first, last in islice(spans, bisect_right(spans, begin, key=lambda span: span[1]), None):
        if first >= end:
            break
        found += min(end, last) - max(begin, first)
    return found
