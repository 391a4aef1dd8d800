"""Compute plagdet, recall, precision and granularity as the official evaluator of the text alignment task does.

With ``S`` the set of distinct truth passages and ``R`` the set of distinct detections (Potthast et al., COLING 2010):

- macro recall is the mean over ``S`` of the share of a passage's characters (both documents) that its overlapping
  detections cover; macro precision is the same with ``S`` and ``R`` exchanged;
- micro recall and precision relate the distinct characters of all intersections to those of ``S`` and of ``R``;
- granularity is the mean number of overlapping detections over the truth passages that have any, 1 without any;
- plagdet is F1 divided by ``log2(1 + granularity)``.

Two cases differ on purpose, because the official program breaks on them: a negative offset or length (it counts
wrongly or stops) and a length of 0 in all sides of a passage (it divides by zero) are errors when `spans` reads them.
A length of 0 on one of two sides is compared as the official program does.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from math import log2
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pan_scdg.evaluation.resampling import Floats
from pan_scdg.records import Feature, Span

Array = np.ndarray[Any, Any]
Group = TypeVar("Group", bound=Hashable)
SUMS = ("recall", "cases", "precision", "reports", "hits", "found", "common", "case_characters", "report_characters")
"""The numbers of `sum_groups`."""


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


def compute_plagdet(truth: Iterable[Feature], detections: Iterable[Feature]) -> Plagdet:
    """Compare detections with the truth; equal passages count once.

    Offsets and lengths are those that `read_features` allows: not negative, at most `MAX_OFFSET`, and some characters.
    """
    cases, reports = sort_features(truth), sort_features(detections)
    recalled, precise = measure_coverage(cases, reports), measure_coverage(reports, cases)
    macro = _compute_macro(cases, reports, recalled), _compute_macro(reports, cases, precise)
    micro = _compute_micro(cases, reports, recalled.common)
    hits = [n for n in recalled.hits if n]
    granularity = sum(hits) / len(hits) if hits else 1.0
    return Plagdet(_combine(*micro, granularity), *micro, _combine(*macro, granularity), *macro, granularity)


def sum_groups(
    truth: Iterable[Feature],
    detections: Iterable[Feature],
    groups: Sequence[Group],
    find_group: Callable[[Feature], Group],
) -> Floats:
    """Return the numbers of `SUMS` of each group, such as a suspicious document, ``[groups, 9]``.

    Sums over all suspicious documents give all measures. ``recall`` and ``precision`` are sums of shares over truth
    passages and detections; ``found`` is the number of truth passages that a detection overlaps, and ``hits`` the
    number of those detections. Passages of other groups are left out.
    """
    numbers = {group: row for row, group in enumerate(groups)}
    sides: list[list[list[Feature]]] = [[[] for _ in groups] for _ in range(2)]
    for side, features in zip(sides, (truth, detections)):
        for feature in sort_features(features):
            if (row := numbers.get(find_group(feature))) is not None:
                side[row].append(feature)
    sums = np.zeros((len(groups), len(SUMS)))
    for values, cases, reports in zip(sums, *sides):
        if cases or reports:
            recalled, precise = measure_coverage(cases, reports), measure_coverage(reports, cases)
            values[:] = (
                *(_sum_shares(cases, recalled), len(cases), _sum_shares(reports, precise), len(reports)),
                *(sum(recalled.hits), np.count_nonzero(recalled.hits), recalled.common),
                *(_count_characters(cases), _count_characters(reports)),
            )
    return sums


def measure_sums(sums: Floats) -> dict[str, Floats]:
    """Return the measures of `Plagdet` and its ``plagdet_score`` from sums of `sum_groups`, ``[..., 9]``.

    They are those of `compute_plagdet`, except that a source of several suspicious documents counts once for each in
    the micro measures.
    """
    columns = dict(zip(SUMS, np.moveaxis(np.asarray(sums, dtype=np.float64), -1, 0), strict=True))
    cases, reports = columns["cases"], columns["reports"]
    both, neither = (cases > 0) & (reports > 0), (cases == 0) & (reports == 0)

    def divide(numerator: str, denominator: str) -> Floats:
        return np.where(both, columns[numerator] / np.maximum(columns[denominator], 1), neither)

    granularity = np.where(columns["found"] > 0, columns["hits"] / np.maximum(columns["found"], 1), 1.0)
    values: dict[str, Floats] = {}
    for kind, recall, precision in (
        ("micro", divide("common", "case_characters"), divide("common", "report_characters")),
        ("macro", divide("recall", "cases"), divide("precision", "reports")),
    ):
        total = recall + precision
        f1 = np.where(total > 0, 2 * recall * precision / np.where(total > 0, total, 1), 0)
        values |= {f"{kind}_plagdet": f1 / np.log2(1 + granularity)}
        values |= {f"{kind}_recall": recall, f"{kind}_precision": precision}
    return {**values, "granularity": granularity, "plagdet_score": np.mean(list(values.values()), axis=0)}


def sort_features(spans: Iterable[Feature]) -> list[Feature]:
    """Return distinct passages in a fixed order, so that sums do not depend on the order of files."""
    return sorted(set(spans), key=lambda f: (f[:2], f.source is not None, f.source or "", f.source_span))


def _compute_macro(spans: Sequence[Feature], others: Sequence[Feature], covered: Cover) -> float:
    """Return the mean share of the characters of each passage that overlapping passages of ``others`` cover."""
    if not spans or not others:
        return float(not spans and not others)
    return _sum_shares(spans, covered) / len(spans)


def _sum_shares(spans: Sequence[Feature], covered: Cover) -> float:
    lengths = (span.target.length + span.source_span.length for span in spans)
    return sum(n / length for n, length in zip(covered.characters, lengths, strict=True))


def _compute_micro(cases: Sequence[Feature], reports: Sequence[Feature], correct: int) -> tuple[float, float]:
    if not cases or not reports:
        return (float(not cases and not reports),) * 2
    return correct / _count_characters(cases), correct / _count_characters(reports)


def _count_characters(spans: Iterable[Feature]) -> int:
    """Return the number of distinct characters; a document counts as suspicious one and as source separately."""
    documents: dict[tuple[str, str | None], list[Span]] = {}
    for span in spans:
        documents.setdefault(("suspicious", span.suspicious), []).append(span.target)
        documents.setdefault(("source", span.source), []).append(span.source_span)
    return sum(_count_places(_unite(np.array(intervals, dtype=np.int64))) for intervals in documents.values())


def _combine(recall: float, precision: float, granularity: float) -> float:
    if recall + precision == 0:
        return 0.0
    return 2 * recall * precision / (recall + precision) / log2(1 + granularity)


def measure_coverage(spans: Sequence[Feature], others: Sequence[Feature]) -> Cover:
    """Compare passages with those of ``others``.

    Two passages of one suspicious document overlap if they share a character there and, if both name a source, the
    source and a character of it. One passage is compared at a time, so that no list of all overlapping pairs is made.
    """
    by_suspicious: dict[str, list[Feature]] = {}
    for other in others:
        by_suspicious.setdefault(other.suspicious, []).append(other)
    numbers = {name: i for i, name in enumerate(dict.fromkeys([None, *(other.source for other in others)]))}
    columns = {suspicious: _build_columns(group, numbers) for suspicious, group in by_suspicious.items()}
    hits, characters = [0] * len(spans), [0] * len(spans)
    common: dict[tuple[str, str], Array] = {}
    for i, span in enumerate(spans):
        if span.suspicious not in columns:
            continue
        this, source, names = columns[span.suspicious]
        overlap = _meet(this, span.target)
        sides = [(("suspicious", span.suspicious), this, span.target)]
        if span.source is not None:
            same = names == numbers.get(span.source, -1)
            overlap &= (names == numbers[None]) | (same & _meet(source, span.source_span))
            sides.append((("source", span.source), source, span.source_span))
        hits[i] = int(np.count_nonzero(overlap))
        for document, places, interval in sides:
            shared = _unite(np.clip(places[overlap], *interval))
            characters[i] += _count_places(shared)
            common[document] = _unite(np.concatenate([common.get(document, shared[:0]), shared]))
    return Cover(hits, characters, sum(map(_count_places, common.values())))


def _build_columns(spans: Sequence[Feature], numbers: Mapping[str | None, int]) -> tuple[Array, Array, Array]:
    """Return the intervals in the suspicious document and in the source, ``[n, 2]``, and the numbers of the sources.

    A passage without a source has no characters there.
    """
    this = np.array([span.target for span in spans], dtype=np.int64)
    source = np.array([span.source_span for span in spans], dtype=np.int64)
    return this, source, np.array([numbers[span.source] for span in spans])


def _meet(places: Array, interval: Span) -> Array:
    """Return True for each place, ``[n]``, that has a character in an interval."""
    return (places[:, 1] > interval[0]) & (places[:, 0] < interval[1])


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
