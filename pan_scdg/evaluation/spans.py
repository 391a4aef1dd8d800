"""Passages as intervals of two documents, and how many distinct characters intervals cover.

Costs depend on the number of passages only: an offset or a length of a billion is as cheap as one of ten.
"""

from collections.abc import Iterable

from pan_scdg.records import Span

Interval = tuple[int, int]
"""First character and the character behind the last one."""


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
