"""How much of each passage the passages of another set cover, and how many of them it overlaps.

No list of overlapping pairs is made, so that memory is linear in the number of passages however they overlap; what
remains per passage is a few array operations over the passages and places near it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pan_scdg.evaluation.spans import source_interval, this_interval
from pan_scdg.records import Span

Array = np.ndarray[Any, Any]
EVERYWHERE = (-1, 1 << 62)
"""The source interval of a passage without a source, which meets every other."""


class Cover(NamedTuple):
    """What one set of passages shares with another; one number a passage, in the order of the first set."""

    hits: list[int]
    """Passages of the other set that it overlaps."""
    characters: list[int]
    """Its characters in both documents that those cover."""
    common: int
    """Distinct characters of all documents that overlapping passages of both sets hold."""


def cover(of: Sequence[Span], by: Sequence[Span]) -> Cover:
    """Compare the passages ``of`` with the passages ``by``; two of one suspicious document overlap if they
    share a character there, and share the source and a character of it if both name one."""
    found = Cover([0] * len(of), [0] * len(of), 0)
    this: dict[str, list[Array]] = {}
    source: dict[str, list[Array]] = {}
    for indices, others in _groups(of, by):
        group = [of[i] for i in indices]
        places, conditions = _intervals(group)
        other_places, other_conditions = _intervals(others)
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
    return found._replace(common=_count_distinct(this) + _count_distinct(source))


def _groups(of: Sequence[Span], by: Sequence[Span]) -> Iterator[tuple[list[int], list[Span]]]:
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


def _intervals(spans: Sequence[Span]) -> tuple[Array, Array]:
    """Return first and last places in the suspicious document and in the source, one row a passage."""
    this = np.array([this_interval(s) for s in spans], dtype=np.int64)
    source = [EVERYWHERE if s.source is None else source_interval(s) for s in spans]
    return this, np.array(source, dtype=np.int64)


def _count_meeting(of: Array, of_also: Array, by: Array, by_also: Array) -> list[int]:
    """Count for each row of ``of`` the rows of ``by`` that meet it there and in the other document."""
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
    and it meets if it ends behind the begin. So the furthest end is all that is kept for a place.

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
    return covered, _runs(cuts, shared)


def _runs(cuts: Array, held: Array) -> Array:
    """Return the intervals of the pieces between ``cuts`` that are held, adjacent ones as one."""
    changes = np.flatnonzero(np.diff(np.concatenate([[False], held, [False]]).astype(np.int8)))
    return cuts[changes].reshape(-1, 2)


def _count_distinct(documents: Mapping[str, Sequence[Array]]) -> int:
    """Count the distinct characters of all documents."""
    total = 0
    for parts in documents.values():
        intervals = np.concatenate(parts)
        intervals = intervals[np.argsort(intervals[:, 0], kind="stable")]
        reached = np.maximum.accumulate(intervals[:, 1])
        begins = np.maximum(intervals[1:, 0], reached[:-1])
        total += int(np.maximum(intervals[1:, 1] - begins, 0).sum()) + int((intervals[:1, 1] - intervals[:1, 0]).sum())
    return total
