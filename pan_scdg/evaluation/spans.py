"""Interval arithmetic on passages: which of them overlap, and how many distinct characters they cover.

Costs depend on the number of passages only: an offset or a length of a billion is as cheap as one of ten.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
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


def overlap(a: Span, b: Span) -> bool:
    """Same suspicious document and touching characters there; the same on the source side if both name a source."""
    if a.suspicious != b.suspicious or not _meet(this_interval(a), this_interval(b)):
        return False
    if a.source is None or b.source is None:
        return True
    return a.source == b.source and _meet(source_interval(a), source_interval(b))


def _meet(a: Interval, b: Interval) -> bool:
    return b[1] > a[0] and b[0] < a[1]


def common(a: Interval, b: Interval) -> Interval:
    """The characters that both intervals hold; an empty interval at 0 where there are none."""
    start, end = max(a[0], b[0]), min(a[1], b[1])
    return (start, end) if start < end else (0, 0)


def distinct_characters(intervals: Iterable[Interval]) -> int:
    """Number of characters that at least one interval holds."""
    total, reached = 0, 0
    for start, end in sorted(intervals):
        start = max(start, reached)
        if end > start:
            total += end - start
            reached = end
    return total


def overlapping_pairs(left: Iterable[Span], right: Iterable[Span]) -> Iterator[tuple[Span, Span]]:
    """Every pair that overlaps. Candidates come from a sorted list, so that far-apart passages are never compared."""
    index: dict[str, list[Span]] = {}
    for span in right:
        index.setdefault(span.suspicious, []).append(span)
    starts: dict[str, list[int]] = {}
    longest: dict[str, int] = {}
    for name, spans in index.items():
        spans.sort(key=this_interval)
        starts[name] = [s.this_offset for s in spans]
        longest[name] = max(s.this_length for s in spans)
    for span in left:
        if span.suspicious not in index:
            continue
        first, last = this_interval(span)
        low = bisect_right(starts[span.suspicious], first - longest[span.suspicious])
        high = bisect_left(starts[span.suspicious], last)
        for other in index[span.suspicious][low:high]:
            if overlap(span, other):
                yield span, other
