"""Align two texts: find the passages of a target that correspond to passages of a source.

Long verbatim runs are passages with exact ends. Similar sentences are the seeds of all other passages; nearby seeds are
grouped, and a group is a passage if its two sides are similar as a whole. A group whose source side is several times as
long as its target side is a summary, for which larger gaps are allowed.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pan_scdg.align.clusters import (
    Cluster,
    drop_overlaps,
    find_clusters,
    trim_cluster,
)
from pan_scdg.align.quotations import Kind, classify_passage
from pan_scdg.align.similarity import Comparison
from pan_scdg.align.units import PreparedText, prepare_text
from pan_scdg.align.verbatim import Run, drop_overlapping, find_runs, join_runs, pick_long_runs
from pan_scdg.profile import PassageSettings
from pan_scdg.records import Passage

DENSE_RUN = 0.8
"""Share of a verbatim passage that lies inside of runs."""
VERBATIM_SHARE = 0.6
"""A passage with so much of it inside of runs ends where they end."""
CONTIGUOUS = 0.75
"""Share of the target side of a summary; where one contiguous passage covers as much, there is no summary."""
MANY = 2000
"""Pairs of units beyond which short passages have to be more similar; the median of the PAN 2013 pairs is 1,192."""
NEAR = 40
"""Characters of such a run that may lie outside the passage."""
INSIDE_RUN = 0.3
"""A unit belongs to a verbatim passage that contains at least this share of it."""
LEAST_OUTSIDE = 3
SHARE_OUTSIDE = 0.5
"""A verbatim passage is part of a larger one with at least this number and this share of similar units outside it."""


class Evidence(NamedTuple):
    """A passage, and the similarity of its two sides."""

    passage: Passage
    similarity: float
    """Cosine of the TF-ISF vectors of both sides, 0 to 1."""
    verbatim: float
    """Share of the target's words that lie in verbatim runs from the source side, 0 to 1."""
    gain: float | None = None
    """Gain of the passage from the source side, in nats per token (`scoring.verification`); None: not measured."""
    control: float | None = None
    """The gain with the words of the source side in another order: the part that its topic alone explains."""
    within: Kind | None = None
    """The kind of part that contains most of the target's side, if any."""
    counts: bool = True
    """True if a verdict by alignment takes it for evidence of reuse: see `quotations`."""
    note: str = ""
    """The reason why a report counts it less, such as being shared by many documents; empty if it counts in full."""

    @property
    def begin(self) -> int:
        """Return the first character in the target."""
        return self.passage.this_offset

    @property
    def end(self) -> int:
        """Return the character after the last in the target."""
        return self.passage.this_offset + self.passage.this_length

    @property
    def begin2(self) -> int:
        """Return the first character in the source."""
        return self.passage.source_offset

    @property
    def end2(self) -> int:
        """Return the character after the last in the source."""
        return self.passage.source_offset + self.passage.source_length

    def to_json(self) -> dict[str, int | float | str | None]:
        """Return the fields of a line of ``passages.jsonl``."""
        places = {"begin": self.begin, "end": self.end, "begin2": self.begin2, "end2": self.end2}
        return {**places, **{name: value for name, value in self._asdict().items() if name not in ("passage", "note")}}


def overlaps(passage: Passage, other: Passage) -> bool:
    """Return True if two passages have a character of the target in common."""
    return (
        passage.this_offset < other.this_offset + other.this_length
        and other.this_offset < passage.this_offset + passage.this_length
    )


class Alignment:
    """Two prepared texts, for alignment by their words."""

    def __init__(self, target: PreparedText, source: PreparedText, settings: PassageSettings) -> None:
        self.settings, self.target, self.source = settings, target, source
        self.runs = find_runs(self.target, self.source, settings.run_words)
        self.comparison = Comparison(self.target, self.source)
        self.seeds = self.comparison.find_seeds(settings.seed_cosine, settings.seed_dice)

    @cached_property
    def passages(self) -> list[Passage]:
        """Return the passages of `find_passages`, found once."""
        return self.find_passages()

    def find_passages(self) -> list[Passage]:
        """Return the passages that have words in common, in the order of the target; none overlap in it."""
        settings = self.settings
        verbatim = pick_long_runs(join_runs(self.runs, settings.run_gap), settings.run_length, DENSE_RUN)
        found = self._find_groups(settings.gap, settings.least_gap)
        clusters = drop_overlaps([trim_cluster(c, settings.seed_worth, settings.gap_penalty) for c in found])
        contiguous = self._combine(verbatim, clusters)
        if not verbatim:
            summaries = self._find_summaries()
            target, source = sum(p.this_length for p in summaries), sum(p.source_length for p in summaries)
            longest = max((p.this_length for p in contiguous), default=0)
            if summaries and source >= settings.summary_ratio * target and longest < CONTIGUOUS * target:
                return summaries
        return contiguous

    def find_evidence(self, paragraphs: Sequence[Passage] = ()) -> list[Evidence]:
        """Return the passages with their evidence, in the order of the target; no two overlap in it.

        ``paragraphs`` are passages, too, and what was found by its words gives way to one that it overlaps.
        """
        found = [p for p in self.passages if not any(overlaps(p, paragraph) for paragraph in paragraphs)]
        return [self.measure(passage) for passage in sorted([*paragraphs, *found])]

    def measure(self, passage: Passage) -> Evidence:
        """Return a passage with its evidence."""
        end, source_end = passage.this_offset + passage.this_length, passage.source_offset + passage.source_length
        target = _select_words(self.target, passage.this_offset, end)
        source = _select_words(self.source, passage.source_offset, source_end)
        side = Run(passage.this_offset, end, passage.source_offset, source_end, 0)
        covered = sum(
            len(_select_words(self.target, max(run.start, side.start), min(run.end, side.end)))
            for run in self.runs
            if _meet(run, side)
        )
        similarity = self.comparison.compare_words(
            self.target.forms[target.start : target.stop], self.source.forms[source.start : source.stop]
        )
        within, counts = classify_passage(self.target.parts, passage.this_offset, end)
        return Evidence(passage, similarity, covered / max(1, len(target)), within=within, counts=counts)

    def _find_groups(self, gap: int, least_gap: int) -> list[Cluster]:
        return find_clusters(self.comparison, self.seeds, gap, least_gap, self.settings.cosine)

    def _find_summaries(self) -> list[Passage]:
        """Return the passages with large gaps whose shorter side has at least ``summary_length`` characters."""
        clusters = drop_overlaps(self._find_groups(self.settings.summary_gap, self.settings.least_gap))
        runs = [self._span_cluster(cluster) for cluster in clusters]
        least = self.settings.summary_length
        return [_make_passage(run) for run in runs if _measure_shorter(run) >= least]

    def _combine(self, verbatim: Sequence[Run], clusters: Sequence[Cluster]) -> list[Passage]:
        """Join similar and verbatim passages; one that is similar only where it is verbatim adds nothing."""
        passages = set(verbatim)
        for cluster in clusters:
            whole = self._span_cluster(cluster)
            inside = [run for run in verbatim if _meet(run, whole)]
            if inside:
                if self._reaches_beyond(cluster, verbatim):
                    passages.difference_update(inside)
                    passages.add(_enclose([whole, *inside]))
            elif (exact := self._find_exact_ends(whole)) is not None:
                passages.add(exact)
            elif self.comparison.compare_ranges(cluster.target, cluster.source) >= self._choose_least_cosine(whole):
                passages.add(whole)
        long = (run for run in passages if _measure_shorter(run) >= self.settings.length)
        longest_first = sorted(long, key=lambda run: (run.start - run.end, run))
        return [_make_passage(run) for run in sorted(drop_overlapping(longest_first))]

    def _span_cluster(self, cluster: Cluster) -> Run:
        target, source = self.target.spans, self.source.spans
        start, end = int(target[cluster.target.start, 0]), int(target[cluster.target.stop - 1, 1])
        return Run(
            start, end, int(source[cluster.source.start, 0]), int(source[cluster.source.stop - 1, 1]), end - start
        )

    def _reaches_beyond(self, cluster: Cluster, verbatim: Sequence[Run]) -> bool:
        """Return True if the cluster is dense outside of the verbatim passages, too."""
        outside = [unit for unit in cluster.target if not self._lies_inside(unit, verbatim)]
        similar = {seed.target for seed in cluster.seeds} & set(outside)
        return len(similar) >= max(LEAST_OUTSIDE, SHARE_OUTSIDE * len(outside))

    def _lies_inside(self, unit: int, runs: Sequence[Run]) -> bool:
        start, end = self.target.spans[unit].tolist()
        return any(min(end, run.end) - max(start, run.start) >= INSIDE_RUN * (end - start) for run in runs)

    def _find_exact_ends(self, whole: Run) -> Run | None:
        """Return the hull of the runs in a passage if they are most of it, else None."""
        wide = Run(whole.start - NEAR, whole.end + NEAR, whole.source_start - NEAR, whole.source_end + NEAR, 0)
        inside = [run for run in self.runs if _meet(run, wide)]
        matched = sum(max(0, min(run.end, whole.end) - max(run.start, whole.start)) for run in inside)
        return _enclose(inside) if inside and matched >= VERBATIM_SHARE * (whole.end - whole.start) else None

    def _choose_least_cosine(self, run: Run) -> float:
        """Return the least similarity of the sides of a passage.

        Short passages are more often similar by chance, above all in long texts, which have many of them.
        """
        missing = max(0.0, 1 - _measure_shorter(run) / self.settings.full_length)
        compared = len(self.target.units) * len(self.source.units)
        beyond = math.log(max(1.0, compared / MANY))
        return self.settings.cosine + (self.settings.short_cosine + self.settings.many_cosine * beyond) * missing


def align_words(target: str, source: str, settings: PassageSettings) -> Alignment:
    """Return the alignment of two texts by their words."""
    first, second = (prepare_text(text, settings.unit_words) for text in (target, source))
    return Alignment(first, second, settings)


def _meet(run: Run, other: Run) -> bool:
    """Return True if two passages have a character in common in both texts."""
    meets = run.start < other.end and other.start < run.end
    return meets and run.source_start < other.source_end and other.source_start < run.source_end


def _select_words(text: PreparedText, start: int, end: int) -> range:
    """Return the words that lie wholly between two characters."""
    first = int(np.searchsorted(text.words[:, 0], start))
    return range(first, max(first, int(np.searchsorted(text.words[:, 1], end, "right"))))


def _enclose(runs: Sequence[Run]) -> Run:
    return Run(
        min(run.start for run in runs),
        max(run.end for run in runs),
        min(run.source_start for run in runs),
        max(run.source_end for run in runs),
        sum(run.matched for run in runs),
    )


def _measure_shorter(run: Run) -> int:
    return min(run.end - run.start, run.source_end - run.source_start)


def _make_passage(run: Run) -> Passage:
    return Passage(run.start, run.end - run.start, run.source_start, run.source_end - run.source_start)
