"""The page on paper: what is printed, in aligned rows, and nothing cut off."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pan_scdg.align.align import Evidence

from pan_scdg.records import Passage
from pan_scdg.report.html import write_report
from pan_scdg.report.records import Report, ReportPair, ReportText
from tests.report.pages import list_serious, open_page
from tests.report.reports import make_small_report

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_print_has_the_passages_in_aligned_rows(page: "Page", example_file: Path) -> None:
    open_page(page, example_file, "#pair-1")
    page.emulate_media(media="print")
    assert page.locator(".panes, .tools, #overview").locator("visible=true").count() == 0
    for row in page.locator(".pair.open .sides").all():
        tops = row.locator("td[dir]").evaluate_all("cells => cells.map((cell) => cell.getBoundingClientRect().top)")
        assert tops[0] == tops[1]
    one = page.pdf(prefer_css_page_size=True)
    open_page(page, example_file)
    every = page.pdf(prefer_css_page_size=True)
    pages = [len(re.findall(rb"/Type\s*/Page\b", pdf)) for pdf in (one, every)]
    assert pages[0] >= 1
    assert pages[1] > pages[0]


def test_what_the_overview_does_not_list_is_not_printed(page: "Page", tmp_path: Path) -> None:
    report = make_small_report()
    second = replace(
        report.pairs[0], suspicious="carl.txt", passages=(Evidence(Passage(0, 20, 0, 20), 0.9, 0.9),), gains=None
    )
    write_report(replace(report, pairs=(report.pairs[0], second)), tmp_path / "report.html")
    open_page(page, tmp_path / "report.html")
    page.get_by_label("Find").fill("carl")
    page.emulate_media(media="print")
    assert page.locator(".pair:visible").evaluate_all("pairs => pairs.map((pair) => pair.id)") == ["pair-2"]
    page.emulate_media(media="screen")
    page.get_by_label("Find").fill("")
    page.emulate_media(media="print")
    assert page.locator(".pair:visible").count() == 2


def test_a_large_matrix_is_not_cut_off_on_paper(page: "Page", tmp_path: Path) -> None:
    texts = {
        name: ReportText(name, f"The text of {name}. " * 20) for name in (f"a long name {i}.txt" for i in range(80))
    }
    names = list(texts)
    pairs = tuple(ReportPair(a, b, 0.9, "likely") for a, b in zip(names[:40], names[40:]))
    write_report(Report("Many", texts, texts, pairs, 0.5), tmp_path / "report.html")
    page.set_viewport_size({"width": 688, "height": 900})  # the width of A4 between the margins of the page
    page.emulate_media(media="print")
    open_page(page, tmp_path / "report.html")
    assert page.locator(".matrix .scroll").evaluate("e => getComputedStyle(e).overflow") == "visible"
    assert page.locator(".matrix table").evaluate("e => e.getBoundingClientRect().right") <= 688


def test_axe_has_no_serious_finding_on_paper(page: "Page", example_file: Path) -> None:
    page.emulate_media(media="print")
    open_page(page, example_file)
    assert list_serious(page) == []
