"""The rows of texts on the page, their shares, points, and what to look at next."""

import re
from dataclasses import replace

import pytest

from pan_scdg.records import MeasuredPassage, Reason
from pan_scdg.report.html import render_report
from pan_scdg.report.records import Excluded, Report, ReportText, rank_pair
from pan_scdg.report.wording import describe_reasons
from pan_scdg.results.records import DecidedPair
from tests.passages import make_passage
from tests.report.samples import Page, make_pair


def make_report(pairs: tuple[DecidedPair, ...], *, within_class: bool = False) -> Report:
    texts = {name: ReportText(name, "0123456789" * 10) for name in "abcd"}
    return Report("Texts", texts, texts, pairs, 0.5, within_class=within_class)


def make_evidence(begin: int, end: int, begin2: int = 0, *, counts: bool = True) -> MeasuredPassage:
    return MeasuredPassage(make_passage(begin, end - begin, begin2, end - begin), 1.0, 1.0, counts=counts)


PAIRS = (
    make_pair(
        "b", "c", 1.5, "likely", (make_evidence(0, 40), make_evidence(30, 60), make_evidence(90, 99, counts=False))
    ),
    make_pair("b", "d", 0.7, "likely", (make_evidence(50, 70, 10), make_evidence(80, 100, 20))),
    make_pair("a", "c", 0.45, "unclear"),
    make_pair("a", "d", 0.4, "no sign"),
    make_pair("b", "a", 0.1, "no sign"),
)


def read_texts(report: Report) -> list[tuple[str, ...]]:
    """Return name, decision, score, share and sources of each row of texts."""
    rows = Page(render_report(report)).ranked
    return [tuple(row.get(key, "") for key in ("name", "decision", "score", "share", "sources")) for row in rows]


def test_a_text_has_the_worst_decision_of_its_pairs_and_the_union_of_their_passages() -> None:
    assert read_texts(make_report(PAIRS)) == [
        ("b", "● likely", "75", "90 %", "c d"),
        ("a", "◐ unclear", "47", "0 %", "c"),
        ("c", "○ no sign", "–", "0 %", ""),
        ("d", "○ no sign", "–", "0 %", ""),
    ]


def test_of_texts_compared_with_one_another_both_have_a_row() -> None:
    rows = {name: rest for name, *rest in read_texts(make_report(PAIRS, within_class=True))}
    assert rows["d"] == ["● likely", "58", "30 %", "b"]
    assert rows["c"] == ["● likely", "75", "40 %", "b a"]


def test_what_all_were_given_is_no_part_of_the_share() -> None:
    report = make_report(PAIRS)
    given = {name: text._replace(excluded=(Excluded(0, 50, "given"),)) for name, text in report.suspicious.items()}
    assert read_texts(replace(report, suspicious=given))[0][3] == "40 %"


def test_a_text_that_is_too_short_says_nothing_about_the_others() -> None:
    pairs = (
        make_pair("a", "b", 0.9, "unclear", reasons=(Reason("few_words", {"side": "source", "words": 3}),)),
        make_pair("a", "c", 0.1, "no sign"),
    )
    assert read_texts(make_report(pairs, within_class=True)) == [
        ("b", "◐ unclear", "64", "0 %", ""),
        ("a", "○ no sign", "16", "0 %", ""),
        ("c", "○ no sign", "16", "0 %", ""),
        ("d", "○ no sign", "–", "0 %", ""),
    ]


@pytest.mark.parametrize(("codes", "short_texts"), [((), ("s",)), (("just_below",), ())])
def test_a_score_that_is_a_sign_by_itself_counts_for_both_texts(
    codes: tuple[str, ...], short_texts: tuple[str, ...]
) -> None:
    reasons = (Reason("few_words", {"side": "source", "words": 10}), *map(Reason, codes))
    pair = make_pair("t", "s", 0.4, "unclear", reasons=reasons)
    assert pair.short_texts == short_texts
    assert describe_reasons(pair.record)[0] == "s has 10 words: too short to tell"


def test_pairs_and_texts_are_sorted_by_points_with_the_finding_beside() -> None:
    usual = Reason("usual_score", {"highest": 0.34})
    unclear, likely = make_pair("a", "b", 0.57, "unclear", reasons=(usual,)), make_pair("a", "c", 0.55, "likely")
    assert sorted([likely, unclear], key=rank_pair) == [unclear, likely]
    page = render_report(make_report((unclear, likely)))
    assert [row["data-decision"] for row in Page(page).rows] == ["unclear", "likely"]
    assert "53 points; other pairs of these texts reach 40" in page.partition('<h2 id="pairs">')[2]
    assert read_texts(make_report((unclear, likely)))[0] == ("a", "● likely", "52", "0 %", "b c")


@pytest.mark.parametrize(
    ("score", "threshold", "points"),
    [
        *((0.66, 0.66, "50"), (0.6599999, 0.66, "49"), (1.32, 0.66, "66"), (-0.2, 0.66, "0"), (0, 0.66, "0")),
        *((1e9, 0.66, "99"), (0.5, None, "0.500"), (0.5, 0.0, "0.500"), (None, 0.5, "–")),
    ],
)
def test_the_threshold_is_at_50_points_and_without_one_above_zero_there_are_none(
    score: float | None, threshold: float | None, points: str
) -> None:
    report = replace(make_report((make_pair("a", "b", score, "unclear"),)), threshold=threshold)
    assert Page(render_report(report)).rows[0]["score"] == points


def list_next(report: Report) -> list[str]:
    """Return the pairs that the page names for a second look."""
    section = render_report(report).partition('<section class="next"')[2].partition("</section>")[0]
    return [" ".join(re.sub("<.*?>", "", item).split()) for item in re.findall("<li>(.*?)</li>", section)]


def test_the_best_pairs_without_a_sign_and_half_of_the_points_come_next() -> None:
    assert list_next(make_report(PAIRS)) == ["a and d: 44 points"]
    assert len(list_next(make_report((PAIRS[3],) * 9))) == 5
