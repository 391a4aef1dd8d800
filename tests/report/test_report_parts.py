"""Blocks, marked stretches, offsets and charts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pan_scdg.align.align import Evidence

from pan_scdg.records import Passage
from pan_scdg.report.charts import draw_gains, make_histogram, make_matrix, map_passages
from pan_scdg.report.records import ReportPair, TokenGains
from pan_scdg.report.texts import (
    EDGES,
    LONGEST_BLOCK,
    TextView,
    assign_owners,
    clean_text,
    cut_block,
    describe_levels,
    make_offset_map,
    split_blocks,
)

TEXTS = st.text(st.sampled_from("ab \n\r\t🙂\0\ud800"), max_size=60)


@given(TEXTS.map(lambda text: text * 300))
def test_blocks_are_the_whole_text_and_none_is_long(text: str) -> None:
    blocks = split_blocks(text)
    assert "".join(text[a:b] for a, b in blocks) == text
    assert all((a < b and b - a <= 2 * LONGEST_BLOCK + 1) or not text[a:b].strip() for a, b in blocks)


@given(TEXTS)
def test_offsets_count_as_utf_16_does(text: str) -> None:
    shown = clean_text(text)
    assert len(shown) == len(text)
    to_units = make_offset_map(shown)
    assert [to_units(i) for i in range(len(shown) + 1)] == [
        len(shown[:i].encode("utf-16-le")) // 2 for i in range(len(shown) + 1)
    ]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted).map(tuple), max_size=5))
def test_a_character_belongs_to_the_first_passage_that_holds_it(spans: list[tuple[int, int]]) -> None:
    stretches = assign_owners(30, spans)
    owners = [next((i for i, (a, b) in enumerate(spans) if a <= at < b), None) for at in range(30)]
    found: list[int | None] = [None] * 30
    for begin, end, owner in stretches:
        assert found[begin:end] == [None] * (end - begin)
        found[begin:end] = [owner] * (end - begin)
    assert found == owners
    text = "".join(chr(97 + i % 26) for i in range(30))
    pieces = [piece for block in ((0, 7), (7, 30)) for piece in cut_block(text, block, stretches)]
    assert "".join(piece.text for piece in pieces) == text
    assert [piece.owner for piece in pieces for _ in piece.text] == owners
    assert [piece.start for piece in pieces if piece.start is not None] == [begin for begin, _, _ in stretches]


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=50), st.floats(-3, 3))
def test_the_histogram_counts_every_score_on_its_side_of_the_threshold(scores: list[float], threshold: float) -> None:
    histogram = make_histogram(scores, threshold)
    assert histogram is not None
    assert sum(bar.pairs for bar in histogram.bars) == len(scores)
    above = sum(bar.pairs for bar in histogram.bars if bar.above)
    assert abs(above - sum(score >= threshold for score in scores)) <= sum(abs(s - threshold) < 1e-6 for s in scores)
    assert all(bar.left >= -1e-6 and bar.left + bar.width <= 1 + 1e-6 and 0 < bar.height <= 1 for bar in histogram.bars)
    assert histogram.threshold is not None
    assert -1e-6 <= histogram.threshold <= 1 + 1e-6


def test_one_score_has_no_histogram() -> None:
    assert make_histogram([0.5], 0.3) is None
    assert make_histogram([0.5, 0.5], None) is not None
    assert make_histogram([0.0, 5e-324], 0.0) is not None


def test_the_gain_profile_is_the_mean_of_each_part() -> None:
    gains = TokenGains(tuple((i, i + 1) for i in range(320)), tuple(np.repeat([2.0, -2.0], 160).tolist()))
    profile = draw_gains(gains, 320)
    assert profile is not None
    assert (profile.low, profile.high, profile.zero) == (-2.0, 2.0, 50.0)
    (area,) = profile.areas
    heights = [float(point.split(",")[1]) for point in area.points.split()[2:-2]]
    assert heights == [0.0] * 80 + [100.0] * 80
    assert draw_gains(TokenGains((), ()), 10) is None


def test_the_gain_profile_has_gaps_where_nothing_was_measured() -> None:
    places = [*range(10, 60), *range(100, 140)]
    profile = draw_gains(TokenGains(tuple((i, i + 1) for i in places), (1.0,) * len(places)), 200)
    assert profile is not None
    assert [(area.begin, area.end) for area in profile.areas] == [(44, 300), (500, 700)]
    # a long token leaves points without a token of their own, which are no gap
    begins = [10 * i + 20 * (i > 50) for i in range(101)]
    wide = draw_gains(TokenGains(tuple(zip(begins, begins[1:])), (1.0,) * 100), begins[-1])
    assert wide is not None
    assert [(area.begin, area.end) for area in wide.areas] == [(0, 1000)]


@given(TEXTS, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 6), st.floats(-3, 3)), max_size=9))
def test_sentences_are_coloured_by_the_mean_of_their_tokens(text: str, places: list[tuple[int, int, float]]) -> None:
    view = TextView(1, "a", text)
    spans = tuple((min(a, len(text)), min(a + n, len(text))) for a, n, _ in places)
    graded = view.grade_sentences(TokenGains(spans, tuple(gain for *_, gain in places)))
    for begin, end, level in graded:
        (place,) = [(a, b) for a, b in view.sentences if a <= begin <= end <= b]
        inside = [gain for (a, b), (*_, gain) in zip(spans, places) if place[0] <= a < place[1] and a < b]
        edges = EDGES["sentence"]
        assert all(sum(inside) / len(inside) >= edge - 1e-9 for edge in edges[:level])
        assert all(sum(inside) / len(inside) < edge + 1e-9 for edge in edges[level:])
    assert "".join(piece.text for piece in cut_block(view.text, (0, len(text)), graded)) == view.text


def test_the_legend_has_a_label_for_each_level() -> None:
    assert describe_levels("token") == ["< −1.5", "< −0.5", "about 0", "≥ 0.5", "≥ 1", "≥ 2", "≥ 3", "≥ 5"]


def test_the_map_shows_shares_of_both_texts() -> None:
    pair = ReportPair("a", "b", 1.0, "likely", (Evidence(Passage(10, 10, 100, 50), 1.0, 1.0),))
    assert [tuple(band) for band in map_passages(pair, 100, 200)] == [(100.0, 200.0, 500.0, 750.0)]


def test_the_matrix_has_the_best_texts_first() -> None:
    names = [TextView(i, str(i), "") for i in range(100)]
    assert make_matrix([(names[0], names[1], 1)]) is None
    matrix = make_matrix([(names[5], names[6], 1), (names[0], names[6], 2), (names[5], names[7], 4)])
    assert matrix is not None
    assert (matrix.rows, matrix.columns) == ((names[5], names[0]), (names[6], names[7]))
    assert matrix.cells == {(names[5], names[6]): 1, (names[0], names[6]): 2, (names[5], names[7]): 4}
    assert matrix.is_complete
    many = make_matrix([(name, name, i) for i, name in enumerate(names, 1)])
    assert many is not None
    assert (len(many.rows), many.is_complete) == (40, False)
