"""The page in a real browser, opened from a file: what is shown and clicked is what was found."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.report_page import make_large_report
from pan_scdg.report.html import render_report, write_report
from pan_scdg.report.records import Report, TokenGains
from tests.report.pages import IN_SIGHT, MARKED, list_serious, open_page, wait_until
from tests.report.reports import HOSTILE, LEFT, PASSAGES, RIGHT, make_small_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LEVELS = "Array.from({ length: 8 }, (_, i) => CSS.highlights.get(`gain-${i}`)?.size ?? 0)"


def show_text(text: str) -> str:
    """Return a text as the page has it."""
    return text.replace("\0", "\ufffd")


def list_rows(page: "Page") -> list[str]:
    return page.locator(".pairs tbody tr:visible").evaluate_all("rows => rows.map((row) => row.dataset.number)")


def test_a_clicked_passage_is_the_recorded_one_on_both_sides(
    page: "Page", example_file: Path, example_report: Report
) -> None:
    for number, pair in enumerate(example_report.pairs, 1):
        open_page(page, example_file, f"#pair-{number}")
        texts = example_report.suspicious[pair.suspicious].text, example_report.sources[pair.source].text
        for side, text in enumerate(texts):
            assert page.locator(f'.pane[data-side="{side}"] .text').evaluate("e => e.textContent") == text
        for i, p in enumerate(pair.passages, 1):
            page.locator(f'.pane[data-side="0"] mark[data-label="{i}"] a').click(position={"x": 60, "y": 8})
            wait_until(page, IN_SIGHT, [1, i])
            chosen = page.locator(".pane mark.chosen").evaluate_all("marks => marks.map((m) => m.dataset.numbers)")
            assert set(chosen) == {str(i)}
            assert page.evaluate(MARKED, [0, i]) == texts[0][p.begin : p.end]
            assert page.evaluate(MARKED, [1, i]) == texts[1][p.begin2 : p.end2]
            assert f"passage {i} of {len(pair.passages)}" in page.locator(".place").inner_text()
    assert sum(len(pair.passages) for pair in example_report.pairs) >= 3


def test_hostile_names_and_texts_are_shown_as_text(page: "Page", hostile_file: Path) -> None:
    open_page(page, hostile_file)
    assert page.title() == f"Essays {HOSTILE}".replace("\u2028", "\u2028")
    assert page.locator("img, b").count() == 0
    assert f"anna {HOSTILE}.txt" in page.locator(".pairs tbody").evaluate("e => e.textContent")
    open_page(page, hostile_file, "#pair-1")
    assert page.locator('.pane[data-side="0"] .text').evaluate("e => e.textContent") == LEFT
    assert page.locator('.pane[data-side="1"] .text').evaluate("e => e.textContent") == show_text(RIGHT)
    for i, p in enumerate(PASSAGES, 1):
        assert page.evaluate(MARKED, [0, i]) == LEFT[p.begin : p.end]
        assert page.evaluate(MARKED, [1, i]) == show_text(RIGHT[p.begin2 : p.end2])
    assert page.locator("img, b").count() == 0


def test_the_wheel_moves_the_pane_under_the_mouse_alone(page: "Page", example_file: Path) -> None:
    open_page(page, example_file, "#pair-1")
    scroll = "[...document.querySelectorAll('.pane')].map((pane) => pane.scrollTop)"
    page.wait_for_timeout(100)
    before = page.evaluate(scroll)
    page.locator('.pane[data-side="1"]').hover()
    for _ in range(50):  # a page that is still laid out may scroll back once
        page.mouse.wheel(0, 200)
        page.wait_for_timeout(100)
        if page.evaluate(scroll)[1] != before[1]:
            break
    assert page.evaluate(scroll)[1] != before[1]
    assert page.evaluate(scroll)[0] == before[0]


def test_gains_are_coloured_without_an_element_per_token(page: "Page", example_file: Path) -> None:
    open_page(page, example_file, "#pair-1")
    elements = page.locator(".pane *").count()
    page.get_by_label("tokens").check()
    wait_until(page, f"({LEVELS}).reduce((a, b) => a + b) > 20")
    assert page.locator(".toolbar .legend li").count() == 9
    tokens = page.evaluate(LEVELS)
    page.keyboard.press("2")
    wait_until(page, f"JSON.stringify({LEVELS}) !== '{str(tokens).replace(' ', '')}'")
    assert page.locator(".pane *").count() == elements
    page.keyboard.press("1")
    assert sum(page.evaluate(LEVELS)) == 0
    assert page.locator(".toolbar .legend").is_hidden()


def test_the_gain_under_the_mouse_and_at_the_reading_mark_is_told(
    page: "Page", example_file: Path, example_report: Report
) -> None:
    open_page(page, example_file, "#pair-1")
    page.keyboard.press("3")
    page.locator('.pane[data-side="0"]').evaluate("pane => (pane.scrollTop = 0)")
    page.wait_for_timeout(100)
    page.locator('.pane[data-side="0"] .text p').first.hover(position={"x": 30, "y": 10})
    page.locator(".tooltip").wait_for()
    tooltip = page.locator(".tooltip").inner_text()
    assert re.fullmatch(r"“.+” [+−]\d\.\d\d nats", tooltip)
    page.locator('.pane[data-side="0"]').focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    pair = example_report.pairs[0]
    assert pair.gains is not None
    shown = [(span, gain) for span, gain in zip(*pair.gains) if span[0] < span[1]]
    (begin, end), gain = shown[1]
    word = example_report.suspicious[pair.suspicious].text[begin:end].strip()
    assert page.locator(".readout").inner_text() == f"“{word}” {gain:+.2f} nats".replace("-", "−")


def test_what_was_not_measured_is_told(page: "Page", tmp_path: Path) -> None:
    report = make_small_report()
    gains = report.pairs[0].gains
    assert gains is not None
    pair = replace(report.pairs[0], gains=TokenGains(gains.spans[:12], gains.gains[:12]))
    write_report(replace(report, pairs=(pair,)), tmp_path / "report.html")
    open_page(page, tmp_path / "report.html", "#pair-1")
    page.keyboard.press("3")
    last = page.locator('.pane[data-side="0"] .text p', has_text="Harbour Board")
    last.scroll_into_view_if_needed()
    last.hover(position={"x": 60, "y": 10})
    page.locator(".tooltip").wait_for()
    assert page.locator(".tooltip").inner_text() == "not measured"


def test_a_browser_without_highlights_gets_spans_of_what_is_in_sight(page: "Page", example_file: Path) -> None:
    page.add_init_script("delete window.Highlight")
    open_page(page, example_file, "#pair-1")
    text = page.locator('.pane[data-side="0"] .text').evaluate("e => e.textContent")
    page.keyboard.press("3")
    wait_until(page, "document.querySelectorAll('.pane span[class^=g]').length > 20")
    assert page.locator('.pane[data-side="0"] .text').evaluate("e => e.textContent") == text
    assert page.evaluate(MARKED, [0, 1])
    page.keyboard.press("1")
    assert page.locator(".pane .text span").count() == 0


def test_pairs_are_searched_filtered_and_sorted(page: "Page", example_file: Path, example_report: Report) -> None:
    open_page(page, example_file)
    assert list_rows(page) == ["1", "2"]
    page.get_by_label("Find").fill(example_report.pairs[1].suspicious)
    assert list_rows(page) == ["2"]
    page.get_by_label("Find").fill("")
    page.get_by_label("Show").select_option("no sign")
    judged = [str(i) for i, pair in enumerate(example_report.pairs, 1) if pair.judgement == "no sign"]
    assert list_rows(page) == judged
    page.get_by_label("Show").select_option("")
    names = sorted((pair.suspicious, str(i)) for i, pair in enumerate(example_report.pairs, 1))
    page.locator("th[data-key=suspicious] [role=button]").focus()
    page.keyboard.press("Enter")
    assert list_rows(page) == [number for _, number in names]
    page.keyboard.press("Enter")
    assert list_rows(page) == [number for _, number in reversed(names)]
    assert page.locator("th[data-key=suspicious]").get_attribute("aria-sort") == "descending"


def test_quotations_references_and_short_matches_can_be_left_out(page: "Page", hostile_file: Path) -> None:
    open_page(page, hostile_file, "#pair-1")
    labels = page.locator('.pane[data-side="0"] mark[data-label]')
    shown = lambda: labels.evaluate_all("marks => marks.map((m) => m.dataset.label)")  # noqa: E731
    assert shown() == ["1", "2", "3"]
    page.get_by_label("quotations").check()
    assert shown() == ["1", "3"]
    page.get_by_label("reference lists").check()
    assert shown() == ["1"]
    assert page.locator(".rows tbody:visible").count() == 1
    page.get_by_label("matches under").fill("50")
    assert shown() == []
    page.keyboard.press("Escape")
    page.locator("#title").click()
    assert page.locator("#left-out").inner_text().startswith("3 of 3 passages are left out")
    assert page.locator("tr[data-number='1'] .passages").inner_text() == "0"
    page.get_by_label("matches under").fill("0")
    page.get_by_label("reference lists").uncheck()
    assert page.locator("tr[data-number='1'] .passages").inner_text() == "2"


def test_marks_are_kept_in_a_saved_copy(page: "Page", hostile_file: Path, tmp_path: Path) -> None:
    open_page(page, hostile_file, "#pair-1")
    page.locator(".pair.open").get_by_label("Your mark of pair 1").select_option("confirmed")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save a copy").click()
    copy = tmp_path / "copy.html"
    download.value.save_as(copy)
    open_page(page, copy)
    assert page.locator("tr[data-number='1'] .review select").input_value() == "confirmed"
    page.get_by_label("Marked").select_option("confirmed")
    assert list_rows(page) == ["1"]
    open_page(page, copy, "#pair-1")
    for i, p in enumerate(PASSAGES, 1):
        assert page.evaluate(MARKED, [0, i]) == LEFT[p.begin : p.end]
    assert page.locator('.pane[data-side="0"] .text').evaluate("e => e.textContent") == LEFT
    # but for the mark, a copy is the page itself: a copy of a copy is the same
    with page.expect_download() as download:
        page.get_by_role("button", name="Save a copy").click()
    download.value.save_as(tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == copy.read_bytes()


def test_a_copy_without_names_has_none(
    page: "Page", example_file: Path, example_report: Report, tmp_path: Path
) -> None:
    open_page(page, example_file)
    page.get_by_label("hide names").check()
    assert "Text 1" in page.locator("tr[data-number='1'] .suspicious").inner_text()
    assert "was read twice" in page.locator(".warnings").first.inner_text()
    assert "skipped: 1 time" in page.locator(".warnings").first.inner_text()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save a copy").click()
    copy = tmp_path / "copy.html"
    download.value.save_as(copy)
    written = copy.read_text(encoding="utf-8")
    for name in (*example_report.suspicious, *example_report.sources, example_report.title, "anna.doc"):
        assert name not in written
    open_page(page, copy)
    assert page.get_by_label("hide names").is_disabled()
    page.get_by_label("hide names").check(force=True)
    page_title = page.title()
    assert page_title == "Report"


def test_keys_lead_through_the_page(page: "Page", example_file: Path) -> None:
    open_page(page, example_file, "#pair-1")
    place = page.locator(".place")
    assert place.inner_text().startswith("passage 1 of ")
    page.keyboard.press("n")
    assert place.inner_text().startswith("passage 2 of ")
    page.keyboard.press("p")
    page.keyboard.press("]")
    page.locator("#pair-2.open").wait_for()
    page.keyboard.press("[")
    page.locator("#pair-1.open").wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")
    page.keyboard.press("Escape")
    page.locator("#overview").wait_for()  # the address changes first, then the page
    assert page.url.endswith("#overview")
    page.get_by_label("Find").press_sequentially("n1")
    assert page.get_by_label("Find").input_value() == "n1"


@pytest.mark.parametrize("place", ["", "#pair-1"])
def test_at_200_percent_nothing_is_cut_off(place: str, page: "Page", example_file: Path) -> None:
    page.set_viewport_size({"width": 640, "height": 450})
    open_page(page, example_file, place)
    assert page.evaluate("document.documentElement.scrollWidth") <= 640


def test_a_telephone_shows_names_score_and_verdict(page: "Page", example_file: Path) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    open_page(page, example_file)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for name in (".suspicious", ".source", ".verdict"):
        box = page.locator(f".pairs tbody tr {name}").first.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 340
    open_page(page, example_file, "#pair-1")
    left, right = (cell.bounding_box() for cell in page.locator("#pair-1 .sides td[dir]").all()[:2])
    assert left is not None and right is not None  # noqa: PT018
    assert right["y"] >= left["y"] + left["height"]


def test_the_page_follows_a_dark_desktop(page: "Page", example_file: Path) -> None:
    colours = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        open_page(page, example_file)
        colours.append(page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor"))
    assert colours == ["rgb(255, 255, 255)", "rgb(22, 25, 29)"]


def test_without_script_texts_are_marked_and_linked(browser: "Browser", example_file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(example_file.as_uri())
    assert page.locator(".with-script").locator("visible=true").count() == 0
    page.locator("#pair-1-1 a.number").click()
    target = page.url.partition("#")[2]
    mark = page.locator(f'[id="{target}"]')
    assert mark.is_visible()
    mark.locator("a").click(position={"x": 5, "y": 5})
    assert page.url.endswith("#pair-1-1")
    context.close()


def test_a_hundred_thousand_tokens_a_side_can_be_read(page: "Page", tmp_path: Path) -> None:
    report = make_large_report(100_000)
    write_report(report, tmp_path / "long.html")
    open_page(page, tmp_path / "long.html", "#pair-1")
    page.keyboard.press("3")
    wait_until(page, f"({LEVELS}).reduce((a, b) => a + b) > 100")
    assert sum(page.evaluate(LEVELS)) < 20_000
    last = len(report.pairs[0].passages)
    page.locator(f"#pair-1-{last} a.number").click()
    for side in (0, 1):
        wait_until(page, IN_SIGHT, [side, last])
    assert page.evaluate("find('single word about the nets')")


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
@pytest.mark.parametrize("place", ["", "#pair-1"])
def test_axe_has_no_serious_finding(place: str, scheme: str, page: "Page", example_file: Path) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    open_page(page, example_file, place)
    if place:
        page.keyboard.press("3")
    assert list_serious(page) == []


def test_the_small_report_renders_the_same_twice() -> None:
    assert render_report(make_small_report()) == render_report(make_small_report())
