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
    detected = [n for n in recalled.hits if n]
    granularity = sum(detected) / len(detected) if detected else 1.0
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
    this: dict[str, list[Array]] = {}
    source: dict[str, list[Array]] = {}
    for indices, others in _group_spans(of, by):
        group = [of[i] for i in indices]
        places, conditions = _build_intervals(group)
        other_places, other_conditions = _build_intervals(others)
        hits = _count_meeting(places, conditions, other_places, other_conditions)
        covered, shared = _measure(places, conditions, other_places, other_conditions)
        this.setdefault(group[0].suspicious, []).append(shared)
        if (name := group[0].source) is not None:
            named = np.array([b.source is not None for b in others], dtype=bool)
            more, shared = _measure(conditions, places, other_conditions[named], other_places[named])
            source.setdefault(name, []).append(shared)
            covered += more
        for i, hit, characters in zip(indices, hits, covered.tolist(), strict=True):
            found.hits[i], found.characters[i] = hit, characters
    documents = [*this.values(), *source.values()]
    return found._replace(common=sum(_count_places(_unite(np.concatenate(parts))) for parts in documents))


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


def _build_intervals(spans: Sequence[Span]) -> tuple[Array, Array]:
    """Return first and last places in the suspicious document and in the source, one row per passage."""
    this = np.array([s.this_interval for s in spans], dtype=np.int64)
    source = [EVERYWHERE if s.source is None else s.source_interval for s in spans]
    return this, np.array(source, dtype=np.int64)


def _count_meeting(of: Array, of_also: Array, by: Array, by_also: Array) -> list[int]:
    """Count for each row of ``of`` the rows of ``by`` that meet it in this and in the other document."""
    order = np.argsort(by[:, 0], kind="stable")
    by, by_also = by[order], by_also[order]
    low = np.searchsorted(by[:, 0], of[:, 0] - (by[:, 1] - by[:, 0]).max(), "left")
    high = np.searchsorted(by[:, 0], of[:, 1], "left")
    counts = []
    for place, also, first, last in zip(of, of_also, low, high, strict=True):
        near, near_also = by[first:last], by_also[first:last]
        meets = (near[:, 1] > place[0]) & (near_also[:, 1] > also[0]) & (near_also[:, 0] < also[1])
        counts.append(int(np.count_nonzero(meets)))
    return counts


def _measure(of: Array, of_also: Array, by: Array, by_also: Array) -> tuple[Array, Array]:
    """Measure how many places of each row of ``of`` those rows of ``by`` hold that meet it in the other document.

    Rows are visited by where they end in the other document: by then every row of ``by`` that begins before is known,
    and it meets the row if it ends after the row begins. So only the furthest end is kept for a place.

    Returns:
        The numbers, and the distinct places of all as intervals, one a row.
    """
    cuts, places = np.unique(np.concatenate([of, by]), return_inverse=True)
    places = places.reshape(-1, 2)
    of_places, by_places = places[: len(of)], places[len(of) :]
    widths = np.diff(cuts)
    furthest = np.full(len(widths), -1, dtype=np.int64)
    shared = np.zeros(len(widths), dtype=bool)
    covered = np.zeros(len(of), dtype=np.int64)
    waiting = iter(np.argsort(by_also[:, 0], kind="stable").tolist())
    j = next(waiting, None)
    for i in np.argsort(of_also[:, 1], kind="stable").tolist():
        while j is not None and by_also[j, 0] < of_also[i, 1]:
            span = slice(*by_places[j])
            np.maximum(furthest[span], by_also[j, 1], out=furthest[span])
            j = next(waiting, None)
        span = slice(*of_places[i])
        held = furthest[span] > of_also[i, 0]
        covered[i] = widths[span][held].sum()
        shared[span] |= held
    return covered, _join_pieces(cuts, shared)


def _join_pieces(cuts: Array, held: Array) -> Array:
    """Return the intervals of the pieces between ``cuts`` that are held, adjacent ones as one."""
    changes = np.flatnonzero(np.diff(np.concatenate([[False], held, [False]]).astype(np.int8)))
    return cuts[changes].reshape(-1, 2)


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
