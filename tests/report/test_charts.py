"""The charts of a page, read from its SVG: histogram, gains along a text, map of passages, matrix."""

import re
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.records import MeasuredPassage, TokenGains
from pan_scdg.report.html import render_report
from pan_scdg.report.records import Report, ReportText
from pan_scdg.results.records import DecidedPair
from tests.passages import make_passage
from tests.report.samples import make_pair

PART = (
    r'<rect data-decision="(.*?)" x="(.*?)" y="(.*?)" width="(.*?)" height="(.*?)"><title>(\d+) .*?, from .*? to .*?</'
)
LEFT, RIGHT, TOP, BOTTOM = 44, 704, 20, 150
"""The edges of the histogram."""


def render(pairs: Iterable[DecidedPair], threshold: float | None = 0.5, length: int = 100, length2: int = 200) -> str:
    pairs = tuple(pairs)
    left = {name: ReportText(name, "x" * length) for name in {pair.suspicious for pair in pairs}}
    right = {name: ReportText(name, "x" * length2) for name in {pair.source for pair in pairs}}
    return render_report(Report("Charts", left, right, pairs, threshold))


def render_scores(scores: Iterable[float], threshold: float | None) -> str:
    return render(
        (make_pair("a", "b", s, "no sign" if threshold is None or s < threshold else "likely") for s in scores),
        threshold,
    )


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=2, max_size=50), st.floats(-3, 3))
def test_the_histogram_counts_every_score_on_its_side_of_the_threshold(scores: list[float], threshold: float) -> None:
    page = render_scores(scores, threshold)
    (at,) = (float(x) for x in re.findall(r'<line class="threshold" x1="(.*?)"', page))
    parts = [(finding, *map(float, numbers)) for finding, *numbers in re.findall(PART, page)]
    assert sum(pairs for *_, pairs in parts) == len(scores)
    wrong = sum(pairs for finding, x, *_, pairs in parts if (finding == "likely") != (x >= at))
    assert wrong <= sum(abs(score - threshold) < 1e-6 for score in scores)
    assert LEFT <= at <= RIGHT
    for _, x, y, width, height, _ in parts:
        assert LEFT <= x < x + width <= RIGHT + 1
        assert TOP - 0.1 <= y <= y + height <= BOTTOM + 0.1


@pytest.mark.parametrize(
    ("scores", "threshold", "drawn"),
    [([], 0.5, False), ([0.5], 0.5, False), ([0.5, 0.5], None, True), ([0.0, 5e-324], 0.0, True)],
)
def test_two_pairs_with_a_score_have_a_histogram(scores: list[float], threshold: float | None, drawn: bool) -> None:
    assert ("Histogram of the" in render_scores(scores, threshold)) == drawn


def read_areas(page: str) -> list[list[tuple[float, float]]]:
    """Return the corners of the areas under the gains along a text."""
    areas = re.findall(r'<polygon class="profile" points="(.*?)"/>', page)
    return [[tuple(map(float, corner.split(","))) for corner in area.split()] for area in areas]


def test_the_gains_along_a_text_are_the_means_of_its_parts_with_gaps_where_nothing_was_measured() -> None:
    assert read_areas(render([make_pair("a", "b", 1.0, "likely", gains=TokenGains((), ()))])) == []
    gains = TokenGains(tuple((i, i + 1) for i in range(320)), tuple(np.repeat([2.0, -2.0], 160).tolist()))
    page = render([make_pair("a", "b", 1.0, "likely", gains=gains)], length=320)
    (area,) = read_areas(page)
    assert [y for _, y in area[2:-2]] == [0.0] * 80 + [100.0] * 80
    assert '<text class="scale" x="102" y="14">2.0</text>' in page
    assert '<line class="axis" x1="0" x2="1000" y1="50.0" y2="50.0"/>' in page
    begins = [10 * i + 20 * (i > 50) for i in range(101)]  # a long token is no gap
    for spans, length, ends in (
        (tuple((i, i + 1) for i in (*range(10, 60), *range(100, 140))), 200, [(44, 300), (500, 700)]),
        (tuple(zip(begins, begins[1:])), begins[-1], [(0, 1000)]),
    ):
        gains = TokenGains(spans, (1.0,) * len(spans))
        areas = read_areas(render([make_pair("a", "b", 1.0, "likely", gains=gains)], length=length))
        assert [(area[0][0], area[-1][0]) for area in areas] == ends


def test_the_map_shows_shares_of_both_texts() -> None:
    passages = (MeasuredPassage(make_passage(10, 10, 100, 50), 1.0, 1.0),)
    page = render([make_pair("a", "b", 1.0, "likely", passages)])
    # of a width of 885: a tenth to two tenths of the one text, a half to three quarters of the other
    assert re.findall(r'class="ribbon" points="(.*?)"', page) == ["88.5,16 177.0,16 663.8,44 442.5,44"]


def read_matrix(pairs: Iterable[tuple[str, str]]) -> tuple[list[str], list[str], dict[tuple[str, str], str]] | None:
    """Return the names of rows and columns of the matrix, and the links of its cells."""
    page = render(make_pair(a, b, 1 - i / 1000, "likely") for i, (a, b) in enumerate(pairs))
    figure = page.partition('<figure class="matrix">')[2].partition("</figure>")[0]
    heads, *rows = re.findall("<tr>(.*?)</tr>", figure, re.S)
    columns = re.findall("<bdi.*?>(.*?)</bdi>", heads)
    cells = {}
    for row in rows:
        (name,) = re.findall("<bdi.*?>(.*?)</bdi>", row)
        for column, cell in zip(columns, re.findall("<td(.*?)</td>", row, re.S), strict=True):
            if link := re.search('href="(.*?)"', cell):
                cells[name, column] = link[1]
    return [re.findall("<bdi.*?>(.*?)</bdi>", row)[0] for row in rows], columns, cells


def test_the_matrix_has_the_best_texts_first() -> None:
    assert "matrix" not in render([make_pair("a", "b", 1.0, "likely")]).partition("<body>")[2]
    assert read_matrix([("e", "f"), ("a", "f"), ("e", "g")]) == (
        ["e", "a"],
        ["f", "g"],
        {("e", "f"): "#pair-1", ("a", "f"): "#pair-2", ("e", "g"): "#pair-3"},
    )
    page = render(make_pair(f"a{i}", f"b{i}", 1.0, "likely") for i in range(100))
    assert "(the best 40 and\n    40 texts; the table has all)" in page
