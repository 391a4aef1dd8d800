"""The page's charts: the histogram of scores, the matrix of pairs, the gain along a text, and its passages."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pan_scdg.records import TokenGains
from pan_scdg.report.ranking import has_points, scale_score
from pan_scdg.report.records import FINDING_ORDER, Report
from pan_scdg.report.texts import TextView
from pan_scdg.results.records import DecidedPair, Finding

CHART_WIDTH = 1000
"""In the units of the chart; the page stretches it."""
HISTOGRAM_BINS = 30
MIN_SCORE_RANGE = 1e-6
"""Scores that differ by less are drawn as equal ones: scores are written with six decimals."""
MAX_MATRIX_TEXTS = 40
"""Rows, and columns, of the matrix."""
MAX_PROFILE_POINTS = 160
PROFILE_HEIGHT = 100
MAX_GAP_POINTS = 2
"""Points without a token, such as inside a long one, that a gain profile bridges."""


class Part(NamedTuple):
    """The pairs of a bar with one decision; place and height in shares of the chart's height."""

    finding: Finding
    pairs: int
    bottom: float
    height: float


class Bar(NamedTuple):
    """A bar of the histogram, in shares of the chart's width from the left."""

    left: float
    width: float
    low: float
    high: float
    parts: tuple[Part, ...]
    """From the bottom: likely, unclear, no sign."""


class Tick(NamedTuple):
    """A mark on an axis, and its place as a share of the axis."""

    at: float
    label: str


class Histogram(NamedTuple):
    """Numbers of pairs by points or score; their axis is logarithmic."""

    bars: tuple[Bar, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    threshold: float | None


class Band(NamedTuple):
    """A passage in the map of a pair: begin and end on both texts, in units of the chart's width."""

    begin: float
    end: float
    begin2: float
    end2: float


def make_histogram(report: Report) -> Histogram | None:
    """Return the histogram of points, or of scores without points; None for fewer than two pairs.

    A bin ends at the threshold.
    """
    scored = [(pair.score, pair.finding) for pair in report.pairs if pair.score is not None]
    if len(scored) < 2:
        return None
    threshold = report.threshold
    values = [score for score, _ in scored]
    if has_points(threshold):
        values, threshold = [scale_score(score, threshold) for score in values], 50.0
    low, high = _find_range([*values, *([] if threshold is None else [threshold])])
    width = (high - low) / HISTOGRAM_BINS
    # shift the bins so that one begins at the threshold: no bar counts both kinds of pairs
    start = low if threshold is None else threshold - math.ceil((threshold - low) / width - 1e-9) * width
    number = math.ceil((high - start) / width - 1e-9) + 1
    edges = (start + width * np.arange(number + 1)).tolist()
    places = np.clip(np.searchsorted(edges, np.asarray(values) + 1e-9 * width, "right") - 1, 0, number - 1).tolist()
    counts = Counter((place, finding) for place, (_, finding) in zip(places, scored))
    most = max(Counter(places).values())
    top = math.log10(1 + most)
    left, whole = edges[0], edges[-1] - edges[0]
    bars = [
        Bar((edges[i] - left) / whole, width / whole, edges[i], edges[i + 1], tuple(_stack_parts(counts, i, top)))
        for i in sorted(set(places))
    ]
    across = [Tick((value - left) / whole, f"{value:g}") for value in _choose_ticks(left, edges[-1])]
    numbers = (1, 2, 5) if most < 10 else (1, 10, 100, 1_000, 10_000)
    up = [Tick(math.log10(1 + n) / top, f"{n:,}") for n in numbers if n <= most]
    return Histogram(tuple(bars), tuple(across), tuple(up), None if threshold is None else (threshold - left) / whole)


def _stack_parts(counts: Mapping[tuple[int, Finding], int], place: int, top: float) -> Iterator[Part]:
    """Yield the parts of a bar: the top of each is at the number of pairs up to it."""
    total, bottom = 0, 0.0
    for finding in FINDING_ORDER:
        if pairs := counts.get((place, finding), 0):
            total += pairs
            height = math.log10(1 + total) / top
            yield Part(finding, pairs, bottom, height - bottom)
            bottom = height


def _find_range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high - low > MIN_SCORE_RANGE else (low - 0.5, high + 0.5)


def _choose_ticks(low: float, high: float) -> list[float]:
    """Return about six round numbers in a range."""
    rough = (high - low) / 6
    step = 10 ** math.floor(math.log10(rough))
    step *= next(factor for factor in (1, 2, 5, 10) if factor * step >= rough)
    first = math.ceil(low / step)
    return [round(i * step, 10) for i in range(first, math.floor(high / step) + 1)]


def map_passages(pair: DecidedPair, length: int, source_length: int) -> list[Band]:
    """Return the chart of a pair's passages in its texts, of these lengths in characters."""
    here, there = CHART_WIDTH / max(1, length), CHART_WIDTH / max(1, source_length)
    return [
        Band(*(round(place, 1) for place in (*(here * at for at in p.target), *(there * at for at in p.source))))
        for p in pair.passages
    ]


class Area(NamedTuple):
    """The mean gain along a part of a text whose tokens were measured."""

    points: str
    """For a polygon, in a chart of `CHART_WIDTH` by `PROFILE_HEIGHT`."""
    begin: int
    end: int


class GainProfile(NamedTuple):
    """The mean gain along a text as areas, with gaps where nothing was measured; their baseline is a gain of 0."""

    areas: tuple[Area, ...]
    zero: float
    low: float
    high: float


def draw_gains(gains: TokenGains, length: int) -> GainProfile | None:
    """Return the mean gain of the tokens in each of `MAX_PROFILE_POINTS` parts of a text; None without tokens.

    Args:
        gains: of the tokens of the text.
        length: of the text in characters.
    """
    if not gains.gains or not length:
        return None
    centres = np.asarray(gains.spans, np.float64).reshape(-1, 2).mean(axis=1)
    steps = min(MAX_PROFILE_POINTS, len(gains.gains))
    places = np.clip((centres * steps / length).astype(np.int64), 0, steps - 1)
    counts = np.bincount(places, minlength=steps)
    sums = np.bincount(places, np.asarray(gains.gains), minlength=steps)
    measured = np.flatnonzero(counts)
    means = sums[measured] / counts[measured]
    high, low = max(0.5, float(means.max())), min(0.0, float(means.min()))
    scale = PROFILE_HEIGHT / (high - low)
    zero = high * scale
    gaps = np.flatnonzero(np.diff(measured) > MAX_GAP_POINTS + 1) + 1
    parts = zip(np.split(measured, gaps), np.split(zero - scale * means, gaps))
    areas = tuple(_draw_area(part.tolist(), tops.tolist(), zero, CHART_WIDTH / steps) for part, tops in parts)
    return GainProfile(areas, round(zero, 1), low, high)


def _draw_area(places: Sequence[int], tops: Sequence[float], zero: float, width: float) -> Area:
    begin, end = round(places[0] * width), round((places[-1] + 1) * width)
    middles = (f"{(place + 0.5) * width:.0f},{top:.0f}" for place, top in zip(places, tops))
    closing = f"{end},{tops[-1]:.0f}", f"{end},{zero:.0f}"
    return Area(" ".join([f"{begin},{zero:.0f}", f"{begin},{tops[0]:.0f}", *middles, *closing]), begin, end)


class Matrix(NamedTuple):
    """The pairs with a sign of reuse; texts of the best pairs come first."""

    rows: tuple[TextView, ...]
    columns: tuple[TextView, ...]
    cells: dict[tuple[TextView, TextView], int]
    """Numbers of the pairs."""
    is_complete: bool


def make_matrix(pairs: Sequence[tuple[TextView, TextView, int]]) -> Matrix | None:
    """Return the matrix of these pairs; None if there are fewer than two.

    Args:
        pairs: suspicious text, source and number of the pairs with a sign of reuse, best first.
    """
    if len(pairs) < 2:
        return None
    rows = list(dict.fromkeys(row for row, _, _ in pairs))
    columns = list(dict.fromkeys(column for _, column, _ in pairs))
    cells = {(row, column): number for row, column, number in pairs}
    return Matrix(
        tuple(rows[:MAX_MATRIX_TEXTS]),
        tuple(columns[:MAX_MATRIX_TEXTS]),
        cells,
        max(len(rows), len(columns)) <= MAX_MATRIX_TEXTS,
    )
