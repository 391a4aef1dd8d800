"""The rows of texts, their shares, points, and what to look at next."""

from dataclasses import replace

import pytest

from pan_scdg.align.passages import Evidence
from pan_scdg.records import Passage
from pan_scdg.report.ranking import list_next, measure_points, rank_texts
from pan_scdg.report.records import Excluded, Report, ReportPair, ReportText


def make_report(pairs: tuple[ReportPair, ...], *, among: bool = False) -> Report:
    texts = {name: ReportText(name, "0123456789" * 10) for name in "abcd"}
    return Report("Texts", texts, texts, pairs, 0.5, among=among)


def make_passage(begin: int, end: int, begin2: int = 0, *, counts: bool = True) -> Evidence:
    return Evidence(Passage(begin, end - begin, begin2, end - begin), 1.0, 1.0, counts=counts)


PAIRS = (
    ReportPair(
        "b", "c", 1.5, "likely", (make_passage(0, 40), make_passage(30, 60), make_passage(90, 99, counts=False))
    ),
    ReportPair("b", "d", 0.7, "likely", (make_passage(50, 70, 10), make_passage(80, 100, 20))),
    ReportPair("a", "c", 0.45, "unclear"),
    ReportPair("a", "d", 0.4, "no sign"),
    ReportPair("b", "a", 0.1, "no sign"),
)


def test_a_text_has_the_worst_decision_of_its_pairs_and_the_union_of_their_passages() -> None:
    rows = [(t.name, t.decision, t.share, [p.source for p in t.signs]) for t in rank_texts(make_report(PAIRS))]
    assert rows[:2] == [("b", "likely", 0.9, ["c", "d"]), ("a", "unclear", 0.0, ["c"])]
    assert rows[2:] == [("c", "no sign", 0.0, []), ("d", "no sign", 0.0, [])]


def test_of_texts_compared_with_one_another_both_have_a_row() -> None:
    rows = {
        t.name: (t.decision, t.share, [p.source for p in t.signs]) for t in rank_texts(make_report(PAIRS, among=True))
    }
    assert rows["d"] == ("likely", 0.3, ["b"])
    assert rows["c"] == ("likely", 0.4, ["b", "a"])


def test_what_all_were_given_is_no_part_of_the_share() -> None:
    report = make_report(PAIRS)
    given = {name: text._replace(excluded=(Excluded(0, 50, "given"),)) for name, text in report.suspicious.items()}
    assert rank_texts(replace(report, suspicious=given))[0].share == 0.4


def test_a_text_that_is_too_short_says_nothing_about_the_others() -> None:
    pairs = (ReportPair("a", "b", 0.9, "unclear", too_short=("b",)), ReportPair("a", "c", 0.1, "no sign"))
    rows = [(t.name, t.decision, t.best, t.signs) for t in rank_texts(make_report(pairs, among=True))]
    assert rows == [
        ("b", "unclear", 1, ()),
        ("a", "no sign", 2, ()),
        ("c", "no sign", 2, ()),
        ("d", "no sign", None, ()),
    ]


@pytest.mark.parametrize(
    ("score", "threshold", "points"),
    [(0.66, 0.66, 50), (0.6599999, 0.66, 49), (1.32, 0.66, 66), (-0.2, 0.66, 0), (0, 0.66, 0), (1e9, 0.66, 99)],
)
def test_the_threshold_is_at_50_points(score: float, threshold: float, points: int) -> None:
    assert measure_points(score, threshold) == points


def test_without_a_threshold_above_zero_there_are_no_points() -> None:
    assert {measure_points(0.5, None), measure_points(0.5, 0.0), measure_points(None, 0.5)} == {None}


def test_the_best_pairs_without_a_sign_and_half_of_the_points_come_next() -> None:
    assert list_next(make_report(PAIRS)) == [4]
    assert len(list_next(make_report((PAIRS[3],) * 9))) == 5
