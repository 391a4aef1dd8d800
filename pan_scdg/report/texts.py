"""Prepare texts for a page: characters that HTML changes, offsets of a browser, blocks, and marked pieces."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

_CHANGED = re.compile("[\0\ud800-\udfff]")
"""Characters that a browser drops or that no file can hold."""
_BREAK = re.compile(r"\n[ \t\r\f\v]*\n\s*")
LONG_BLOCK = 2_000
"""A block of more characters is cut at its next line break, because browsers skip invisible text in whole blocks."""
LONGEST_BLOCK = 4_000
"""A block without a line break is cut after a space after this many characters, otherwise after twice as many."""

Span = tuple[int, int]
Stretch = tuple[int, int, int]
"""Begin, end, and the index of the passage or the level of the gain that it belongs to."""


class Piece(NamedTuple):
    """A part of a block; marked if it belongs to a passage."""

    text: str
    owner: int
    """Index of the passage or level of the stretch, -1 without one."""
    start: int | None
    """Offset of the mark if this is its first piece: a mark may continue in the next block."""


def clean_text(text: str) -> str:
    """Return ``text`` with U+FFFD for NUL and for half surrogate pairs; no offset changes."""
    return _CHANGED.sub("\ufffd", text)


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
        while end - start > LONG_BLOCK and (cut := _find_cut(text, start, end)) < end:
            blocks.append((start, cut))
            start = cut
        if start < end:
            blocks.append((start, end))
    return blocks


def _find_cut(text: str, start: int, end: int) -> int:
    for separator, least, most in (("\n", LONG_BLOCK, LONGEST_BLOCK), (" ", LONGEST_BLOCK, 2 * LONGEST_BLOCK)):
        found = text.find(separator, start + least, min(end, start + most))
        if found >= 0:
            return found + 1
    return min(end, start + 2 * LONGEST_BLOCK)


def assign_owners(length: int, spans: Sequence[Span]) -> list[Stretch]:
    """Return the stretches of a text that lie in spans, with the index of the span, in order and without overlap.

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
            yield Piece(text[at:begin], -1, None)
        yield Piece(text[begin:until], owner, first if first == begin else None)
        at = until
    if at < end:
        yield Piece(text[at:end], -1, None)
