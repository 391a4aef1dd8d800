"""Find the lines of a text that are no sentences: headings, captions, labels, names of fields, lists of names.

Many texts have the same ones, such as the headings that a teacher gave, so they are no evidence of reuse. Such a line
is short, has no end mark, and stands alone: wrapped text, verses and unpunctuated prose are text.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.records import Span
from pan_scdg.text.languages import compile_words
from pan_scdg.text.lines import MAX_ITEM_WORDS, MAX_LABEL_WORDS, MIN_LINES, MIN_PROSE_LENGTH
from pan_scdg.text.sentences import MARKDOWN, find_section_name

Integers = npt.NDArray[np.int64]

MAX_MARKED_WORDS = 25
"""Words of a heading or a caption that is marked as one."""
MAX_OPEN_SHARE = 0.8
"""Largest share of a text's words in such lines and in short paragraphs without an end mark; above it, as in a chat or
a poem, they are its text."""

_END_MARKS = ".!?…。！？．।॥؟۔։።။។"
_INNER_MARKS = ",;，；、،؛"
_CLOSERS = " \t\r*_`\"'”’»“‘«›‹)]}）」』#|\\"
_OPENERS = re.compile(r"[\s*_>|\"'“”„«»‘’(\[{-]*")
_NUMBER = re.compile(r"[\s>*_#]*(\d{1,2})([.)]?)\s+([^\W\d_])")
_ITEM = re.compile(r"[\s>]*[-*+•–▪◦·] ")
_CAPTION = r"(?i)\W*{}\b\.? ?\d"
_INNER_END = re.compile(r"[^\W\d_A-Z]{4}[.!?…][\"')\]”’»]*\s+[^\W\d_a-z]|[。！？]")


class _Line(NamedTuple):
    """A line of a paragraph."""

    begin: int
    end: int
    words: int
    text: str

    @property
    def is_marked(self) -> bool:
        """Return True for a heading of Markdown, a caption with its number, and the usual name of a section."""
        is_marked = MARKDOWN.match(self.text) or compile_words("captions", _CAPTION).match(self.text)
        return self.words <= MAX_MARKED_WORDS and bool(is_marked or (self.is_label and find_section_name(self.text)))

    @property
    def last_mark(self) -> str:
        """Return the last character without closing marks; "" if there is no other."""
        return self.text.rstrip(_CLOSERS)[-1:]

    @property
    def ends_sentence(self) -> bool:
        """Return True for a line with an end mark at its end."""
        return self.last_mark != "" and self.last_mark in _END_MARKS

    @property
    def begins_within(self) -> bool:
        """Return True for a line that begins with a small letter."""
        return _OPENERS.sub("", self.text, count=1)[:1].islower()

    @property
    def is_label(self) -> bool:
        """Return True for a short line that neither ends a sentence nor breaks one off."""
        if self.words > (MAX_ITEM_WORDS if _ITEM.match(self.text) else MAX_LABEL_WORDS):
            return False
        if not any(map(str.isalpha, self.text)):
            return True
        return not (
            self.ends_sentence
            or self.begins_within
            or (self.last_mark and self.last_mark in _INNER_MARKS)
            or _INNER_END.search(self.text)
        )


def find_numbered(text: str, words: Integers) -> list[Span]:
    """Return the headings whose numbers follow one another, in order; none if they are more than `MAX_OPEN_SHARE`.

    They are headings whatever stands below them, if all are as short as an item of a list.

    Args:
        text: the text.
        words: first character of each of its words, ``[w]``.
    """
    lines = _list_lines(text, words)
    numbered = [lines[place] for place in sorted(_find_numbered(lines))]
    is_list = sum(line.words for line in numbered) > MAX_OPEN_SHARE * len(words)
    return [] if is_list else [Span(line.begin, line.end) for line in numbered]


def find_headings(text: str, words: Integers, listings: Integers) -> list[Span]:
    """Return the lines that are no sentences, in order; time is linear in the length of the text.

    Args:
        text: the text.
        words: first character of each of its words, ``[w]``.
        listings: start and exclusive end of its program code, ``[n, 2]``, where a heading stands alone.
    """
    headings: list[_Line] = []
    open_words = 0
    for paragraph in _list_paragraphs(text, words):
        own = list(_select_headings(paragraph))
        if np.searchsorted(listings.ravel(), paragraph[0].begin, "right") % 2:
            headings += own if len(paragraph) == 1 and not paragraph[0].is_marked else []
            continue
        headings += own
        size = sum(line.words for line in paragraph)
        is_open = size <= MAX_MARKED_WORDS and not paragraph[-1].ends_sentence
        open_words += size if is_open else sum(line.words for line in own)
    if open_words > MAX_OPEN_SHARE * len(words):
        return []
    return [Span(line.begin, line.end) for line in headings]


def _list_lines(text: str, words: Integers) -> list[_Line]:
    matches = list(re.finditer(r"^.*$", text, re.MULTILINE))
    counts = np.diff(np.searchsorted(words, [match.span() for match in matches]), axis=1).ravel()
    return [_Line(*match.span(), count, match[0]) for match, count in zip(matches, counts.tolist())]


def _list_paragraphs(text: str, words: Integers) -> Iterator[list[_Line]]:
    """Yield the lines of each paragraph; a line without words ends one, and a marked line is one of its own."""
    lines = _list_lines(text, words)
    for kind, group in groupby(lines, key=lambda line: (line.words > 0, line.is_marked)):
        if kind == (True, False):
            yield list(group)
        elif kind[0]:
            yield from ([line] for line in group)


def _find_numbered(lines: Sequence[_Line]) -> Iterator[int]:
    """Yield the places of lines that begin with 1, 2, 3 and so on, where a paragraph or sentence may.

    A list with a longer line is text.
    """
    open_runs: defaultdict[tuple[str, int], list[list[int]]] = defaultdict(list)
    runs: list[list[int]] = []
    begins = True
    for place, line in enumerate(lines):
        match = _NUMBER.match(line.text) if begins and line.is_label else None
        if match is not None and not match[3].islower():
            mark, number = match[2], int(match[1])
            if number == 1:
                runs.append([])
            if waiting := runs[-1:] if number == 1 else open_runs[mark, number]:
                run = waiting.pop()
                run.append(place)
                open_runs[mark, number + 1].append(run)
        begins = match is not None or not line.words or line.ends_sentence
    for one in runs:
        if len(one) >= MIN_LINES and max(lines[place].words for place in one) <= MAX_ITEM_WORDS:
            yield from one


def _select_headings(paragraph: Sequence[_Line]) -> Iterator[_Line]:
    """Yield the lines of a paragraph that are no sentences."""
    if _is_wrapped_heading(paragraph):
        yield from paragraph
        return
    first = 0
    for is_label, group in groupby(paragraph, key=lambda line: line.is_label):
        last = first + len(labels := list(group))
        begins = first == 0 or paragraph[first - 1].ends_sentence
        # at the end of a paragraph of short lines they are its last ones
        ends = last == len(paragraph) and (first == 0 or len(paragraph[first - 1].text) >= MIN_PROSE_LENGTH)
        if is_label and begins and (ends or (last < len(paragraph) and _precedes(labels, paragraph[last]))):
            yield from labels
        first = last


def _is_wrapped_heading(paragraph: Sequence[_Line]) -> bool:
    """Return True for a marked heading, and for a few lines that are a label together."""
    if len(paragraph) == 1:
        return paragraph[0].is_marked or paragraph[0].is_label
    whole = _Line(0, 0, sum(line.words for line in paragraph), " ".join(line.text for line in paragraph))
    return whole.is_label and not any(line.ends_sentence for line in paragraph)


def _precedes(labels: Sequence[_Line], following: _Line) -> bool:
    """Return True for headings above the first line of a paragraph that is too long to be wrapped with them."""
    first_word = _OPENERS.sub("", following.text, count=1).partition(" ")[0]
    fits = len(labels[-1].text) + 1 + len(first_word) < len(following.text)
    return fits and len(following.text) >= MIN_PROSE_LENGTH and not following.begins_within
