"""Compute plagdet, recall, precision and granularity as the official evaluator of the text alignment task does.

With ``S`` the set of distinct truth passages and ``R`` the set of distinct detections (Potthast et al., COLING 2010):

- macro recall is the mean over ``S`` of the share of a passage's characters (both documents) that its overlapping
  detections cover; macro precision is the same with ``S`` and ``R`` exchanged;
- micro recall and precision relate the distinct characters of all intersections to those of ``S`` and of ``R``;
- granularity is the mean number of overlapping detections over the truth passages that have any, 1 without any;
- plagdet is F1 divided by ``log2(1 + granularity)``.

Two cases differ on purpose, because the official program breaks on them: a negative offset or length (it counts
wrongly or stops) and a length of 0 in all sides of a passage (it divides by zero) are errors here. A length of 0 on
one of two sides is compared as the official program does.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import log2
from typing import Any, NamedTuple

import numpy as np

from pan_scdg.errors import UserError
from pan_scdg.evaluation.spans import Interval
from pan_scdg.records import Span

FURTHEST = 10**15
"""Largest offset and length: no document is longer, and their sums fit in 64 bits."""


Array = np.ndarray[Any, Any]
EVERYWHERE = (-1, 1 << 62)
"""The source interval of a passage without a source, which meets every other."""


class Cover(NamedTuple):
    """The overlap of one set of passages with another: one number per passage, in the order of the first set."""

    hits: list[int]
    """Number of passages of the other set that it overlaps."""
    characters: list[int]
    """Its characters in both documents that those cover."""
    common: int
    """Distinct characters of all documents that overlapping passages of both sets hold."""


class Plagdet(NamedTuple):
    """The seven values of the official evaluator, each from 0 to 1 but granularity, which is at least 1."""

    micro_plagdet: float
    micro_recall: float
    micro_precision: float
    macro_plagdet: float
    macro_recall: float
    macro_precision: float
    granularity: float

    @property
    def score(self) -> float:
        """Return the score of the task page: the mean of the six values other than granularity."""
        return sum(self[:6]) / 6


def compute_plagdet(truth: Iterable[Span], detections: Iterable[Span]) -> Plagdet:
    """Compare detections with the truth; equal passages count once.

    Raises:
        UserError: a passage has a negative offset or length, or no character at all.
    """
    cases, found = sort_spans(truth), sort_spans(detections)
    recalled, precise = measure_coverage(cases, found), measure_coverage(found, cases)
    macro = _compute_macro(cases, found, recalled), _compute_macro(found, cases, precise)
    micro = _compute_micro(cases, found, recalled.common)
    granularity = _compute_granularity(recalled.hits)
    return Plagdet(_combine(*micro, granularity), *micro, _combine(*macro, granularity), *macro, granularity)


def sort_spans(spans: Iterable[Span]) -> list[Span]:
    """Return distinct passages in a fixed order, so that sums do not depend on the order of files."""
    distinct = set(spans)
    for span in distinct:
        _check_span(span)
    return sorted(distinct, key=lambda s: (s[:3], s.source is not None, s.source or "", s[4:]))


def _check_span(span: Span) -> None:
    source = (span.source_offset, span.source_length)
    if span.source is None and source != (0, 0):
        raise ValueError("a passage without a source has source offset and length 0")
    if min(span.this_offset, span.this_length, *source) < 0:
        raise UserError(f"passage with a negative offset or length: {_describe_span(span)}", "correct the passage")
    if max(span[1:3] + span[4:]) > FURTHEST:
        raise UserError(f"passage beyond the {FURTHEST}th character: {_describe_span(span)}", "correct the passage")
    if span.this_length + span.source_length == 0:
        raise UserError(f"passage without any character: {_describe_span(span)}", "leave it out or give its length")


def _describe_span(span: Span) -> str:
    this = f"{span.suspicious} {span.this_offset}+{span.this_length}"
    return this if span.source is None else f"{this} from {span.source} {span.source_offset}+{span.source_length}"


def _compute_macro(of: Sequence[Span], by: Sequence[Span], covered: Cover) -> float:
    """Return the mean share of the characters of each passage in ``of`` that overlapping passages of ``by`` cover."""
    if not of or not by:
        return float(not of and not by)
    shares = (n / (a.this_length + a.source_length) for a, n in zip(of, covered.characters, strict=True))
    return sum(shares) / len(of)


def _compute_micro(cases: Sequence[Span], found: Sequence[Span], correct: int) -> tuple[float, float]:
    if not cases or not found:
        return (float(not cases and not found),) * 2
    return correct / _count_characters(cases), correct / _count_characters(found)


def _count_characters(spans: Iterable[Span]) -> int:
    """Return the number of distinct characters; a document counts as suspicious one and as source separately."""
    documents: dict[tuple[str, str | None], list[Interval]] = {}
    for span in spans:
        documents.setdefault(("suspicious", span.suspicious), []).append(span.this_interval)
        documents.setdefault(("source", span.source), []).append(span.source_interval)
    return sum(_count_places(_unite(np.array(intervals, dtype=np.int64))) for intervals in documents.values())


def _compute_granularity(hits: Iterable[int]) -> float:
    detected = [n for n in hits if n]
    return sum(detected) / len(detected) if detected else 1.0


def _combine(recall: float, precision: float, granularity: float) -> float:
    if recall + precision == 0:
        return 0.0
    return 2 * recall * precision / (recall + precision) / log2(1 + granularity)


def measure_coverage(of: Sequence[Span], by: Sequence[Span]) -> Cover:
    """Compare the passages ``of`` with the passages ``by``.

    Two passages of one suspicious document overlap if they share a character there and, if both name a source, the
    source and a character of it.
    """
    found = Cover([0] * len(of), [0] * len(of), 0)
    shared: dict[tuple[str, str], Array] = {}

    def add(i: int, document: tuple[str, str], common: Array) -> None:
        pieces = _unite(common)
        found.characters[i] += _count_places(pieces)
        # united at once, since passages that hold all others would make a list of pairs
        shared[document] = _unite(np.concatenate([shared.get(document, pieces[:0]), pieces]))

    for indices, others in _group_spans(of, by):
        this = np.array([b.this_interval for b in others], dtype=np.int64)
        source = np.array([EVERYWHERE if b.source is None else b.source_interval for b in others], dtype=np.int64)
        named = np.array([b.source is not None for b in others], dtype=bool)
        for i in indices:
            a = of[i]
            meets = _meet(this, a.this_interval)
            if a.source is not None:
                meets &= _meet(source, a.source_interval)
                add(i, ("source", a.source), np.clip(source[meets & named], *a.source_interval))
            add(i, ("suspicious", a.suspicious), np.clip(this[meets], *a.this_interval))
            found.hits[i] = int(np.count_nonzero(meets))
    return found._replace(common=sum(map(_count_places, shared.values())))


def _group_spans(of: Sequence[Span], by: Sequence[Span]) -> Iterator[tuple[list[int], list[Span]]]:
    """Yield the passages of one suspicious document and source, by index, and all others that may overlap them."""
    groups: dict[tuple[str, str | None], list[int]] = {}
    for i, span in enumerate(of):
        groups.setdefault((span.suspicious, span.source), []).append(i)
    others: dict[str, dict[str | None, list[Span]]] = {}
    for span in by:
        others.setdefault(span.suspicious, {}).setdefault(span.source, []).append(span)
    for (suspicious, source), indices in groups.items():
        sources = others.get(suspicious, {})
        names = sources if source is None else dict.fromkeys((source, None))
        if found := [span for name in names for span in sources.get(name, [])]:
            yield indices, found


def _meet(intervals: Array, other: Interval) -> Array:
    """Return True for each interval that has a place in common with another one."""
    return (intervals[:, 0] < other[1]) & (intervals[:, 1] > other[0])


def _unite(intervals: Array) -> Array:
    """Return the places of all intervals as disjoint intervals in their order, ``[n, 2]``."""
    if not len(intervals):
        return intervals
    intervals = intervals[np.argsort(intervals[:, 0], kind="stable")]
    reached = np.maximum.accumulate(intervals[:, 1])
    apart = intervals[1:, 0] > reached[:-1]
    return np.column_stack([intervals[np.append(True, apart), 0], reached[np.append(apart, True)]])


def _count_places(intervals: Array) -> int:
    return int((intervals[:, 1] - intervals[:, 0]).sum())
