"""Plagdet, recall, precision and granularity, equal to the official evaluator of the text alignment task.

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

from collections.abc import Iterable, Sequence
from math import log2
from typing import NamedTuple

from pan_scdg.errors import UserError
from pan_scdg.evaluation.coverage import Cover, cover
from pan_scdg.evaluation.span_files import read_spans
from pan_scdg.evaluation.spans import Interval, distinct_characters, source_interval, this_interval
from pan_scdg.records import Span

__all__ = ["Plagdet", "Span", "plagdet", "read_spans"]

FURTHEST = 10**15
"""Largest offset and length: no document is longer, and their sums fit in 64 bits."""


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
        """The task page's score: the mean of the six values other than granularity."""
        return sum(self[:6]) / 6


def plagdet(truth: Iterable[Span], detections: Iterable[Span]) -> Plagdet:
    """Compare detections with the truth; equal passages count once.

    Raises:
        UserError: a passage has a negative offset or length, or no character at all.
    """
    cases, found = sorted_spans(truth), sorted_spans(detections)
    recalled, precise = cover(cases, found), cover(found, cases)
    macro = _macro(cases, found, recalled), _macro(found, cases, precise)
    micro = _micro(cases, found, recalled.common)
    granularity = _granularity(recalled.hits)
    return Plagdet(_combined(*micro, granularity), *micro, _combined(*macro, granularity), *macro, granularity)


def sorted_spans(spans: Iterable[Span]) -> list[Span]:
    """Distinct passages in a fixed order, so that sums do not depend on the order of files."""
    distinct = set(spans)
    for span in distinct:
        _check(span)
    return sorted(distinct, key=lambda s: (s[:3], s.source is not None, s.source or "", s[4:]))


def _check(span: Span) -> None:
    source = (span.source_offset, span.source_length)
    if span.source is None and source != (0, 0):
        raise ValueError("a passage without a source has source offset and length 0")
    if min(span.this_offset, span.this_length, *source) < 0:
        raise UserError(f"passage with a negative offset or length: {_words(span)}", "correct the passage")
    if max(span[1:3] + span[4:]) > FURTHEST:
        raise UserError(f"passage beyond the {FURTHEST}th character: {_words(span)}", "correct the passage")
    if span.this_length + span.source_length == 0:
        raise UserError(f"passage without any character: {_words(span)}", "leave it out or give its length")


def _words(span: Span) -> str:
    this = f"{span.suspicious} {span.this_offset}+{span.this_length}"
    return this if span.source is None else f"{this} from {span.source} {span.source_offset}+{span.source_length}"


def _macro(of: Sequence[Span], by: Sequence[Span], covered: Cover) -> float:
    """Return the mean share of the characters of each passage in ``of`` that overlapping passages of ``by`` cover."""
    if not of or not by:
        return float(not of and not by)
    shares = (n / (a.this_length + a.source_length) for a, n in zip(of, covered.characters, strict=True))
    return sum(shares) / len(of)


def _micro(cases: Sequence[Span], found: Sequence[Span], correct: int) -> tuple[float, float]:
    if not cases or not found:
        return (float(not cases and not found),) * 2
    return correct / _characters(cases), correct / _characters(found)


def _characters(spans: Iterable[Span]) -> int:
    """Distinct characters of all documents; a document counts once as suspicious one and once as source."""
    documents: dict[tuple[str, str | None], list[Interval]] = {}
    for span in spans:
        documents.setdefault(("suspicious", span.suspicious), []).append(this_interval(span))
        documents.setdefault(("source", span.source), []).append(source_interval(span))
    return sum(distinct_characters(intervals) for intervals in documents.values())


def _granularity(hits: Iterable[int]) -> float:
    detected = [n for n in hits if n]
    return sum(detected) / len(detected) if detected else 1.0


def _combined(recall: float, precision: float, granularity: float) -> float:
    if recall + precision == 0:
        return 0.0
    return 2 * recall * precision / (recall + precision) / log2(1 + granularity)
