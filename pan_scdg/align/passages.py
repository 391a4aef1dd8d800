"""Make passages of what two texts share.

Long runs of equal words are passages with exact ends. Similar sentences are the seeds of all other passages: seeds that
are near one another in both texts make a cluster, and a cluster is a passage if its two sides are similar as a whole. A
cluster whose source side is several times as long as its target side is a summary, for which larger gaps are allowed.

Lengths are in characters of the shorter side, gaps in units without a seed. The constants were chosen on PAN 2013
pairs: benchmarks/results/passages.md and constants.md.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, takewhile, zip_longest
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.align.seeds import Comparison, Seed, VerbatimMatch, find_runs, join_runs
from pan_scdg.records import MeasuredPassage, Passage, Span
from pan_scdg.text.parts import (
    MAX_QUOTATION_WORDS,
    MIN_SHARE_INSIDE,
    classify_passage,
    mark_counted,
    measure_overlaps,
)
from pan_scdg.text.quotations import MAX_EXCLUDED_SHARE
from pan_scdg.text.units import Integers, PreparedText, Words, prepare_text, read_words

MIN_LENGTH = 120
"""Least length of a passage."""

RUN_GAP = 150
"""Largest gap between two runs of one verbatim passage, in characters."""
MIN_VERBATIM_LENGTH = 200
"""Characters in runs that make a verbatim passage by themselves."""
MIN_RUN_SHARE = 0.8
"""Least share of a verbatim passage inside runs."""
MIN_COPIED_SHARE = 0.6
"""Share of a passage inside runs from which it ends where they end, and is no patchwork or summary."""
JOIN_GAP = 500
"""Most characters between two passages of one place, in both texts: not all that was rewritten matches."""
MIN_COPY_WORDS = 16
"""Words in runs of a verbatim passage beside others, however short it is."""
MAX_LINE_WORDS = 24
"""Words of a line that unrelated texts may share."""
MIN_UNITS_OUTSIDE = 3
"""Similar units outside a verbatim passage that make it a part of a larger passage."""

GAP = 4
"""Largest gap in a cluster."""
SEED_WORTH, GAP_PENALTY = 0.25, 0.1
"""See `trim_cluster`."""
MIN_COSINE = 0.34
"""Least cosine of the two sides of a passage of `FULL_LENGTH` or more."""
FULL_LENGTH = 300
SHORT_COSINE = 0.3
"""Added to `MIN_COSINE` for a passage without length; between that and `FULL_LENGTH` in proportion."""
LONG_TEXT_COSINE = 0.1
"""Added to `SHORT_COSINE` times the logarithm of the pairs of units beyond `USUAL_PAIRS`."""
USUAL_PAIRS = 2000
"""Pairs of units beyond which short passages have to be more similar; the median of the PAN 2013 pairs is 1,192."""

SUMMARY_GAP = 24
MIN_SUMMARY_RATIO = 3.0
"""Least ratio of the source side's length to the target's in a summary."""
MAX_PASSAGE_SHARE = 0.75
"""A passage without large gaps that covers this share of the target side of a summary takes its place."""

MAX_GROWTH = 2
"""Units by which a counterpart grows at a time: one that adds nothing may be between two that do."""
COSINE_DECIMALS = 6
"""Precision of the cosines of counterparts; the last digits of a sum depend on the processor."""


class Cluster(NamedTuple):
    """Seeds of one passage, and the ranges of units that they span."""

    seeds: tuple[Seed, ...]
    target: range
    source: range


class Alignment:
    """The alignment of a target and a source by their words; its passages are in characters of the prepared texts."""

    def __init__(self, target: PreparedText, source: PreparedText) -> None:
        self.runs = find_runs(target, source)
        self.target, self.source = leave_out_quotations(target, source, self.runs), source
        self.comparison = Comparison(target, source)
        self.seeds = self.comparison.find_seeds()

    @cached_property
    def passages(self) -> list[Passage]:
        """Return the passages that share words, in the order of the target; none overlap in it."""
        verbatim = pick_verbatim_runs(self.runs)
        clusters = drop_overlapping_clusters(
            [trim_cluster(cluster) for cluster in find_clusters(self.comparison, self.seeds, GAP)]
        )
        passages = self._combine(verbatim, clusters)
        if not verbatim:
            summaries = self._find_summaries()
            target, source = sum(p.target.length for p in summaries), sum(p.source.length for p in summaries)
            longest = max((p.target.length for p in passages), default=0)
            if summaries and source >= MIN_SUMMARY_RATIO * target and longest < MAX_PASSAGE_SHARE * target:
                return summaries
        return passages

    def list_measured(self, paragraphs: Sequence[Passage] = ()) -> list[MeasuredPassage]:
        """Return all passages with what was measured on them, in the order of the target; no two overlap in it.

        Args:
            paragraphs: passages found otherwise; they replace those by words that overlap them.
        """
        others = [p for p in self.passages if not any(p.target.overlaps(one.target) for one in paragraphs)]
        return [self.measure(passage) for passage in sorted([*paragraphs, *others])]

    def measure(self, passage: Passage) -> MeasuredPassage:
        """Return a passage with what is measured on it."""
        target, source = _select_words(self.target, passage.target), _select_words(self.source, passage.source)
        covered = sum(
            len(_select_words(self.target, _clip(run.target, passage.target)))
            for run in self.runs
            if run.target.overlaps(passage.target) and run.source.overlaps(passage.source)
        )
        similarity = self.comparison.compare_words(
            self.target.forms[target.start : target.stop], self.source.forms[source.start : source.stop]
        )
        within, counts = classify_passage(self.target.parts, *passage.target)
        return MeasuredPassage(passage, similarity, covered / max(1, len(target)), within=within, counts=counts)

    def split_patchwork(
        self, measured: MeasuredPassage, is_related: npt.NDArray[np.bool_] | None = None
    ) -> list[MeasuredPassage]:
        """Return the copied stretches of a passage that is mostly text between them; else the passage itself.

        Text between them is units that neither are copied nor have a seed, such as those from other sources.

        Args:
            measured: the passage.
            is_related: True for units of the target that may be written from the source, ``[u]``.
        """
        target, source = measured.target, measured.source
        inside = [run for run in self.runs if run.target.overlaps(target) and run.source.overlaps(source)]
        if not inside or _measure_copied(inside, target) >= MIN_COPIED_SHARE * target.length:
            return [measured]
        units = range(*np.searchsorted(self.target.spans.mean(axis=1), target).tolist())
        seeded = {s.target for s in self.seeds if Span(*self.source.spans[s.source].tolist()).overlaps(source)}
        for unit in units:
            span = Span(*self.target.spans[unit].tolist())
            is_like = unit in seeded or (is_related is not None and is_related[unit])
            if is_like and _measure_copied(inside, span) < MIN_RUN_SHARE * span.length:
                return [measured]
        return [self.measure(_make_passage(run)) for run in join_runs(inside, RUN_GAP)]

    def add_copies(self, passages: Sequence[MeasuredPassage]) -> list[MeasuredPassage]:
        """Return passages of a pair with its shorter verbatim ones that overlap none."""
        copies = [_make_passage(run) for run, words in self._list_copies() if words >= MIN_COPY_WORDS]
        others = [self.measure(p) for p in copies if not any(p.target.overlaps(one.target) for one in passages)]
        return sorted([*passages, *others])

    def join_neighbours(
        self, passages: Sequence[MeasuredPassage], is_related: npt.NDArray[np.bool_]
    ) -> list[MeasuredPassage]:
        """Return passages with those joined that follow each other in both texts, at most `JOIN_GAP` apart.

        They are one place that was taken over if most sentences between them, if any, are like the source. In the
        source, where two rewritten sentences may come from one, they may overlap by as much.

        Args:
            passages: passages in the order of the target, without overlaps.
            is_related: True for units of the target that may be written from the source, ``[u]``.
        """
        middles = self.target.spans.mean(axis=1)
        joined: list[MeasuredPassage] = []
        for measured in passages:
            last = joined[-1] if joined else measured
            gap, source_gap = measured.target.begin - last.target.end, measured.source.begin - last.source.end
            between = is_related[slice(*np.searchsorted(middles, (last.target.end, measured.target.begin)))]
            is_next = gap >= 0 and measured.source.begin >= last.source.begin
            is_near = max(gap, abs(source_gap)) <= JOIN_GAP and 2 * between.sum() >= len(between)
            if last.counts and measured.counts and is_next and is_near:
                own = Span(last.target.begin, measured.target.end)
                other = Span(last.source.begin, max(last.source.end, measured.source.end))
                joined[-1] = last._replace(passage=Passage(own, other))
            else:
                joined.append(measured)
        whole = {one.passage for one in passages}
        return [
            one if one.passage in whole else self.measure(one.passage)._replace(within=None, counts=True)
            for one in joined
        ]

    def restore(self, passages: Iterable[MeasuredPassage]) -> list[MeasuredPassage]:
        """Return passages in characters of the whole texts, with their headings."""
        sides = ((one, self.target.restore(one.target), self.source.restore(one.source)) for one in passages)
        return [one._replace(passage=one.passage._replace(target=own, source=other)) for one, own, other in sides]

    def count_copied_words(self) -> int:
        """Return the words of the longest stretch of the target that counts and is nearly all runs of equal words."""
        return max((words for _, words in self._list_counted_copies()), default=0)

    def find_shared_line(self) -> npt.NDArray[np.bool_] | None:
        """Return True for the units of the target that two texts may have in common by chance, ``[u]``.

        That is one short stretch of equal words, such as an address or a proverb. None: there is none, or more is
        copied, such as two sentences.
        """
        copies = self._list_counted_copies()
        if len(copies) != 1:
            return None
        ((run, words),) = copies
        if not self.is_line(words):
            return None
        spans = self.target.spans
        shared = np.minimum(spans[:, 1], run.target.end) - np.maximum(spans[:, 0], run.target.begin)
        line = np.asarray(shared >= MIN_SHARE_INSIDE * np.diff(spans, axis=1).ravel(), np.bool_)
        return line if line.sum() <= 1 else None

    def is_line(self, words: int) -> bool:
        """Return True if two texts may have so many words in common by chance, which are little of both."""
        return words <= min(MAX_LINE_WORDS, MAX_EXCLUDED_SHARE * min(len(self.target.forms), len(self.source.forms)))

    def _list_counted_copies(self) -> list[tuple[VerbatimMatch, int]]:
        parts = [part for part in self.target.parts if part.kind != "code" or not self.target.is_program]
        return [(run, words) for run, words in self._list_copies() if classify_passage(parts, *run.target)[1]]

    def _list_copies(self) -> Iterator[tuple[VerbatimMatch, int]]:
        """Yield the stretches that are nearly all runs of equal words, each with the words in these."""
        for joined in join_runs(self.runs, RUN_GAP):
            if joined.matched >= MIN_RUN_SHARE * joined.target.length:
                inside = [run for run in self.runs if _clip(run.target, joined.target) == run.target]
                yield joined, sum(len(_select_words(self.target, run.target)) for run in inside)

    def _find_summaries(self) -> list[Passage]:
        clusters = drop_overlapping_clusters(find_clusters(self.comparison, self.seeds, SUMMARY_GAP))
        return [_make_passage(self._span_cluster(cluster)) for cluster in clusters]

    def _combine(self, verbatim: Sequence[VerbatimMatch], clusters: Sequence[Cluster]) -> list[Passage]:
        """Join similar and verbatim passages; one that is similar only where it is verbatim adds nothing."""
        spans = set(verbatim)
        for cluster in clusters:
            whole = self._span_cluster(cluster)
            inside = [run for run in verbatim if _intersect(run, whole)]
            if inside:
                if self._reaches_beyond(cluster, verbatim):
                    spans.difference_update(inside)
                    spans.add(_enclose([whole, *inside]))
            elif (exact := self._find_exact_ends(whole)) is not None:
                spans.add(exact)
            elif self.comparison.compare_ranges(cluster.target, cluster.source) >= self._choose_min_cosine(whole):
                spans.add(whole)
        long = (span for span in spans if _measure_shorter(span) >= MIN_LENGTH)
        longest_first = sorted(long, key=lambda span: (-span.target.length, span))
        return [_make_passage(span) for span in sorted(drop_overlapping_runs(longest_first))]

    def _span_cluster(self, cluster: Cluster) -> VerbatimMatch:
        target, source = self.target.spans, self.source.spans
        own = Span(int(target[cluster.target.start, 0]), int(target[cluster.target.stop - 1, 1]))
        other = Span(int(source[cluster.source.start, 0]), int(source[cluster.source.stop - 1, 1]))
        return VerbatimMatch(own, other, own.length)

    def _reaches_beyond(self, cluster: Cluster, verbatim: Sequence[VerbatimMatch]) -> bool:
        """Return True if the cluster has similar units outside of the verbatim passages, too."""
        similar = {seed.target for seed in cluster.seeds}
        return sum(not self._is_inside(unit, verbatim) for unit in similar) >= MIN_UNITS_OUTSIDE

    def _is_inside(self, unit: int, runs: Sequence[VerbatimMatch]) -> bool:
        span = Span(*self.target.spans[unit].tolist())
        return any(_clip(run.target, span).length >= MIN_SHARE_INSIDE * span.length for run in runs)

    def _find_exact_ends(self, whole: VerbatimMatch) -> VerbatimMatch | None:
        """Return the hull of the runs in a passage if they are most of it, else None."""
        inside = [run for run in self.runs if _intersect(run, whole)]
        is_copied = _measure_copied(inside, whole.target) >= MIN_COPIED_SHARE * whole.target.length
        return _enclose(inside) if inside and is_copied else None

    def _choose_min_cosine(self, span: VerbatimMatch) -> float:
        """Return the least similarity of the sides of a passage.

        Short passages are more often similar by chance, above all in long texts, which have many of them.
        """
        missing = max(0.0, 1 - _measure_shorter(span) / FULL_LENGTH)
        excess = max(1.0, len(self.target.units) * len(self.source.units) / USUAL_PAIRS)
        return MIN_COSINE + (SHORT_COSINE + LONG_TEXT_COSINE * math.log(excess)) * missing


def leave_out_quotations(target: PreparedText, source: PreparedText, runs: Sequence[VerbatimMatch]) -> PreparedText:
    """Return a target in which no quotation counts that is one of the source, too, however many it has.

    Independent reports of one event quote the same words. A quotation is the same if `MIN_SHARE_INSIDE` of it are in
    runs, whose other side is in quotations.
    """
    if not runs:
        return target
    quotations, others = (next(part for part in side.parts if part.kind == "quotation") for side in (target, source))
    places = np.array([run.source for run in runs], np.int64).reshape(-1, 2)
    inside = measure_overlaps(others.spans, places) >= MIN_SHARE_INSIDE * np.diff(places, axis=1).ravel()
    quoted = np.array([run.target for run, is_inside in zip(runs, inside) if is_inside], np.int64).reshape(-1, 2)
    sizes = np.diff(quotations.spans, axis=1).ravel()
    words = np.diff(np.searchsorted(target.words[:, 0], quotations.spans), axis=1).ravel()
    is_common = (measure_overlaps(quoted, quotations.spans) >= MIN_SHARE_INSIDE * sizes) & (
        words <= MAX_QUOTATION_WORDS
    )
    if not is_common.any():
        return target
    excluded = np.unique(np.concatenate([quotations.excluded, quotations.spans[is_common]]), axis=0)
    parts = tuple(part._replace(excluded=excluded) if part is quotations else part for part in target.parts)
    return target._replace(parts=parts, counted=target.counted & mark_counted(parts, target.spans))


def _measure_copied(runs: Iterable[VerbatimMatch], target: Span) -> int:
    """Return the characters of a span of the target that are inside runs."""
    return sum(max(0, _clip(run.target, target).length) for run in runs)


def find_clusters(comparison: Comparison, seeds: Sequence[Seed], gap: int) -> list[Cluster]:
    """Return the clusters whose two sides are similar as a whole."""
    clusters = group_seeds(seeds, gap)
    return [one for one in clusters if comparison.compare_ranges(one.target, one.source) >= MIN_COSINE]


def group_seeds(seeds: Sequence[Seed], gap: int) -> list[Cluster]:
    """Group seeds so that two neighbours have at most ``gap`` units without a seed between them, in both texts.

    Groups are split in one text and in the other in turn until both agree.
    """
    waiting = [(tuple(seeds), 0, False)] if seeds else []
    clusters: list[Cluster] = []
    while waiting:
        group, side, is_whole = waiting.pop()
        ordered = sorted(group, key=lambda seed: (seed[side], seed))
        cuts = [i for i in range(1, len(ordered)) if ordered[i][side] - ordered[i - 1][side] > gap + 1]
        if cuts:
            parts = [tuple(ordered[a:b]) for a, b in zip([0, *cuts], [*cuts, len(ordered)])]
            waiting += [(part, 1 - side, False) for part in parts]
        elif is_whole:
            clusters.append(_make_cluster(group))
        else:
            waiting.append((group, 1 - side, True))
    return sorted(clusters)


def _make_cluster(seeds: Sequence[Seed]) -> Cluster:
    target, source = [seed.target for seed in seeds], [seed.source for seed in seeds]
    return Cluster(tuple(sorted(seeds)), range(min(target), max(target) + 1), range(min(source), max(source) + 1))


def trim_cluster(cluster: Cluster) -> Cluster:
    """Drop seeds at the ends that do not make up for the units without seeds between them and the rest.

    The value of a unit is the cosine of its best seed less `SEED_WORTH`, or minus `GAP_PENALTY` without a seed. The
    stretch with the largest sum is kept, in the target, the source, and the target again.
    """
    for side in (0, 1, 0):
        units = (cluster.target, cluster.source)[side]
        values = [-GAP_PENALTY] * len(units)
        for seed in cluster.seeds:
            place = (seed.target, seed.source)[side] - units.start
            values[place] = max(values[place], seed.cosine - SEED_WORTH)
        first, last = find_best_stretch(values)
        cluster = _make_cluster([seed for seed in cluster.seeds if first <= seed[side] - units.start < last])
    return cluster


def find_best_stretch(values: Sequence[float]) -> tuple[int, int]:
    """Return the bounds of the stretch with the largest sum, the first and shortest of equal ones."""
    sums = [0.0, *accumulate(values)]
    low, best, bounds = 0, float("-inf"), (0, 1)
    for end in range(1, len(sums)):
        if sums[end] - sums[low] > best:
            best, bounds = sums[end] - sums[low], (low, end)
        if sums[end] < sums[low]:
            low = end
    return bounds


def drop_overlapping_clusters(clusters: Sequence[Cluster]) -> list[Cluster]:
    """Return the clusters without those that overlap a better one in the target.

    Of two that overlap, the one with the larger cosine in the shared part is kept.
    """
    kept: list[Cluster] = []
    for cluster in sorted(clusters, key=lambda c: (c.target.start, c.target.stop, c.source.start)):
        while kept and kept[-1].target.stop > cluster.target.start:
            common = range(cluster.target.start, min(kept[-1].target.stop, cluster.target.stop))
            if _find_best_cosine(kept[-1], common) >= _find_best_cosine(cluster, common):
                break
            kept.pop()
        else:
            kept.append(cluster)
    return kept


def _find_best_cosine(cluster: Cluster, units: range) -> float:
    return max((seed.cosine for seed in cluster.seeds if seed.target in units), default=0.0)


def pick_verbatim_runs(runs: Iterable[VerbatimMatch]) -> list[VerbatimMatch]:
    """Return the runs, joined, that are passages by themselves, longest first; none overlap in the target."""
    dense = [
        run
        for run in join_runs(runs, RUN_GAP)
        if run.matched >= max(MIN_VERBATIM_LENGTH, MIN_RUN_SHARE * run.target.length)
    ]
    return drop_overlapping_runs(sorted(dense, key=lambda run: (-run.matched, run)))


def drop_overlapping_runs(runs: Iterable[VerbatimMatch]) -> list[VerbatimMatch]:
    """Return the runs, in their order, without those that overlap an earlier one in the target."""
    kept: list[VerbatimMatch] = []
    for run in runs:
        if not any(run.target.overlaps(other.target) for other in kept):
            kept.append(run)
    return kept


def _intersect(run: VerbatimMatch, other: VerbatimMatch) -> bool:
    """Return True if two stretches have a character in common in both texts."""
    return run.target.overlaps(other.target) and run.source.overlaps(other.source)


def _clip(span: Span, bounds: Span) -> Span:
    """Return the part of a span within another one; its length is negative if both are apart."""
    return Span(max(span.begin, bounds.begin), min(span.end, bounds.end))


def _select_words(text: PreparedText | Words, span: Span) -> range:
    """Return the words that are wholly between two characters."""
    first = int(np.searchsorted(text.words[:, 0], span.begin))
    return range(first, max(first, int(np.searchsorted(text.words[:, 1], span.end, "right"))))


def _enclose(runs: Sequence[VerbatimMatch]) -> VerbatimMatch:
    targets, sources, matched = zip(*runs, strict=True)
    own, other = (Span(min(span.begin for span in side), max(span.end for span in side)) for side in (targets, sources))
    return VerbatimMatch(own, other, sum(matched))


def _measure_shorter(run: VerbatimMatch) -> int:
    return min(run.target.length, run.source.length)


def _make_passage(run: VerbatimMatch) -> Passage:
    return Passage(run.target, run.source)


def extend_copies(passages: Iterable[MeasuredPassage], target: str, source: str) -> list[MeasuredPassage]:
    """Return passages in the order of the target, those that are copied with the equal words before and after them.

    These are mostly headings: they prove nothing, but whoever copies a text copies them with it. What was measured
    stays that of the shorter passage.
    """
    first, second = read_words(target), read_words(source)
    extended: list[MeasuredPassage] = []
    low, ordered = 0, sorted(passages)
    for measured, following in zip_longest(ordered, ordered[1:]):
        own, other = _select_words(first, measured.target), _select_words(second, measured.source)
        high = len(first.forms) if following is None else _select_words(first, following.target).start
        if measured.verbatim >= MIN_COPIED_SHARE and own and other:
            before = _count_common(reversed(first.forms[low : own.start]), reversed(second.forms[: other.start]))
            after = _count_common(first.forms[own.stop : high], second.forms[other.stop :])
            own, other = (range(words.start - before, words.stop + after) for words in (own, other))
            measured = measured._replace(
                passage=Passage(
                    _cover(measured.target, first.words[own.start : own.stop]),
                    _cover(measured.source, second.words[other.start : other.stop]),
                )
            )
        low = max(low, own.stop)
        extended.append(measured)
    return extended


def _count_common(first: Iterable[str], second: Iterable[str]) -> int:
    """Return the number of equal words at the beginning of both."""
    return sum(1 for _ in takewhile(lambda words: words[0] == words[1], zip(first, second)))


def _cover(span: Span, words: Integers) -> Span:
    """Return a span, wider if words reach beyond it."""
    return Span(min(span.begin, int(words[0, 0])), max(span.end, int(words[-1, 1])))


def find_counterparts(
    target: str, source: str, spans: Sequence[tuple[int, int]], min_words: int
) -> list[MeasuredPassage | None]:
    """Return each span of a target with the stretch of the source that it is most like.

    The stretch begins with the unit of the source whose TF-ISF vector has the largest cosine with the span, and grows
    at both ends as long as the cosine does. None: no cosine is above 0, for lack of common words.

    Args:
        target: the suspicious document.
        source: the source.
        spans: characters of the target, each made of whole units.
        min_words: least number of words of a unit in both texts (`prepare_text`): a title alone would often be the
            most similar one.
    """
    first, second = (prepare_text(text, min_words, keep_headings=True) for text in (target, source))
    if not len(first.units) or not len(second.units):
        return [None] * len(spans)
    alignment = Alignment(first, second)
    return [_find_counterpart(alignment, *span) for span in spans]


def _find_counterpart(alignment: Alignment, begin: int, end: int) -> MeasuredPassage | None:
    units = range(*np.searchsorted(alignment.target.spans[:, 0], (begin, end)).tolist())
    cosines = alignment.comparison.compare_units(units).round(COSINE_DECIMALS)
    if cosines.max() <= 0:
        return None
    stretch = _grow_stretch(alignment, units, int(cosines.argmax()))
    spans = alignment.source.spans
    source = Span(int(spans[stretch.start, 0]), int(spans[stretch.stop - 1, 1]))
    return alignment.measure(Passage(Span(begin, end), source))


def _grow_stretch(alignment: Alignment, units: range, first: int) -> range:
    """Return the units of the source around the first one whose cosine no small growth makes larger."""
    last = len(alignment.source.units)
    stretch, best = range(first, first + 1), 0.0
    steps = [(a, b) for a in range(MAX_GROWTH + 1) for b in range(MAX_GROWTH + 1)]
    while True:
        wider = [range(max(0, stretch.start - a), min(last, stretch.stop + b)) for a, b in steps]
        cosines = [round(alignment.comparison.compare_ranges(units, other), COSINE_DECIMALS) for other in wider]
        if max(cosines) <= best:
            return stretch
        best = max(cosines)
        stretch = wider[cosines.index(best)]
