"""Tell the passages that many documents have in common, which count less."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from pan_scdg.jobs.check.pairs import Places
from pan_scdg.jobs.check.texts import Material
from pan_scdg.report.records import ReportPassage

LEAST_MANY = 5
"""So few documents are never many."""
SHARE_MANY = 0.25
"""Share of the documents of a side that makes a passage common."""
LEAST_OVERLAP = 0.5
"""Share of a passage that has to be in another one, so that both are the same."""

Interval = tuple[int, int]


class FoundPair(NamedTuple):
    """A pair that is shown, with its passages."""

    places: Places
    passages: tuple[ReportPassage, ...]


def note_common(pairs: Sequence[FoundPair], material: Material) -> list[tuple[ReportPassage, ...]]:
    """Return the passages of each pair, with a note on those that many documents share.

    A passage is common if many suspicious texts have passages from its place in the source, or if many sources have
    passages of its place in the suspicious text.
    """
    sides = ("texts", "texts") if material.among else ("sources", "suspicious texts")
    counts = len(material.sources), len(material.suspicious)
    places: defaultdict[tuple[str, int], list[tuple[int, Interval]]] = defaultdict(list)
    for (i, j), passages in pairs:
        for p in passages:
            places[sides[1], i].append((j, (p.begin, p.end)))
            places[sides[0], j].append((i, (p.begin2, p.end2)))
    noted = []
    for (i, j), passages in pairs:
        rows = []
        for p in passages:
            notes = (
                _explain(_count((p.begin2, p.end2), places[sides[0], j]), counts[1], sides[1]),
                _explain(_count((p.begin, p.end), places[sides[1], i]), counts[0], sides[0]),
            )
            rows.append(p._replace(note=notes[0] or notes[1]))
        noted.append(tuple(rows))
    return noted


def _count(place: Interval, others: Sequence[tuple[int, Interval]]) -> int:
    """Return how many documents have a passage at this place."""
    least = LEAST_OVERLAP * (place[1] - place[0])
    return len({who for who, (begin, end) in others if min(end, place[1]) - max(begin, place[0]) >= least})


def _explain(count: int, of: int, what: str) -> str:
    return f"{count} of {of} {what} share it" if count >= max(LEAST_MANY, SHARE_MANY * of) else ""
