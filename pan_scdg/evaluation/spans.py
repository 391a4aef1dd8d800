"""Passages as intervals of two documents, and how many distinct characters intervals cover.

Costs depend on the number of passages only: an offset or a length of a billion is as cheap as one of ten.
"""

from collections.abc import Iterable
from typing import NamedTuple

Interval = tuple[int, int]
"""First character and the character behind the last one."""


class Span(NamedTuple):
    """A reused passage: where in the suspicious document, and where in the source.

    Offsets and lengths are in characters. ``source`` is None for a passage without source attributes; its source
    offset and length are then 0.
    """

    suspicious: str
    this_offset: int
    this_length: int
    source: str | None
    source_offset: int
    source_length: int


def this_interval(span: Span) -> Interval:
    """The characters of the suspicious document."""
    return span.this_offset, span.this_offset + span.this_length


def source_interval(span: Span) -> Interval:
    """The characters of the source document."""
    return span.source_offset, span.source_offset + span.source_length


def distinct_characters(intervals: Iterable[Interval]) -> int:
    """Number of characters that at least one interval holds."""
    total, reached = 0, 0
    for start, end in sorted(intervals):
        start = max(start, reached)
        if end > start:
            total += end - start
            reached = end
    return total
