"""Words that two texts have in common in the same order: runs with exact ends."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pan_scdg.align.units import PreparedText

MOST_PLACES = 16
"""Places of the source at which a run is tried: a phrase that comes more often is no evidence of its place."""


class Run(NamedTuple):
    """A stretch of both texts, in characters: the first one, and the one after the last."""

    start: int
    end: int
    source_start: int
    source_end: int
    matched: int
    """Characters of the target inside of runs."""


def find_runs(target: PreparedText, source: PreparedText, least_words: int) -> list[Run]:
    """Return the longest common runs of at least ``least_words`` words, in the order of the target, without overlap.

    Of equally long runs, the one that begins soonest after the previous run is taken.
    """
    if set(list_grams(source, least_words)).isdisjoint(list_grams(target, least_words)):
        return []  # nearly always so for unrelated texts, and found out ten times as fast
    places: dict[tuple[str, ...], list[int]] = {}
    for j in range(len(source.forms) - least_words + 1):
        found = places.setdefault(source.forms[j : j + least_words], [])
        if len(found) < MOST_PLACES:
            found.append(j)
    runs: list[Run] = []
    i = expected = 0
    while i <= len(target.forms) - least_words:
        starts = places.get(target.forms[i : i + least_words])
        if starts is None:
            i += 1
            continue
        j = max(starts, key=lambda j: (_measure_run(target.forms, i, source.forms, j), -abs(j - expected)))
        length = _measure_run(target.forms, i, source.forms, j)
        first, last = int(target.words[i, 0]), int(target.words[i + length - 1, 1])
        runs.append(Run(first, last, int(source.words[j, 0]), int(source.words[j + length - 1, 1]), last - first))
        i += length
        expected = j + length
    return runs


def list_grams(text: PreparedText, words: int) -> Iterator[tuple[str, ...]]:
    """Yield all runs of ``words`` words."""
    return zip(*(text.forms[i:] for i in range(words)))


def _measure_run(target: Sequence[str], i: int, source: Sequence[str], j: int) -> int:
    """Return the number of words that are equal from these places on."""
    length, most = 0, min(len(target) - i, len(source) - j)
    while length < most and target[i + length] == source[j + length]:
        length += 1
    return length


def join_runs(runs: Iterable[Run], most_between: int) -> list[Run]:
    """Join runs that follow one another in both texts with at most ``most_between`` characters between them."""
    joined: list[Run] = []
    for run in sorted(runs):
        last = joined[-1] if joined else None
        if last is None or not (
            0 <= run.start - last.end <= most_between and 0 <= run.source_start - last.source_end <= most_between
        ):
            joined.append(run)
        else:
            joined[-1] = last._replace(end=run.end, source_end=run.source_end, matched=last.matched + run.matched)
    return joined


def pick_long_runs(runs: Iterable[Run], least: int, density: float) -> list[Run]:
    """Return runs with at least ``least`` matched characters and this share of them; longest first, none overlaps."""
    dense = [run for run in runs if run.matched >= max(least, density * (run.end - run.start))]
    return drop_overlapping(sorted(dense, key=lambda run: (-run.matched, run)))


def drop_overlapping(runs: Iterable[Run]) -> list[Run]:
    """Return the runs, in their order, without those that overlap an earlier one in the target."""
    kept: list[Run] = []
    for run in runs:
        if not any(run.start < other.end and other.start < run.end for other in kept):
            kept.append(run)
    return kept
