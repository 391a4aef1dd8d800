"""The page of pairs in a real browser, opened from a file, and on paper: what is shown and clicked is the report."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pan_scdg.records import MeasuredPassage, TokenGains
from pan_scdg.report.records import Report, ReportText
from pan_scdg.results.records import DecidedPair
from tests.passages import make_passage
from tests.report.samples import (
    GIVEN,
    HOSTILE,
    IN_SIGHT,
    LEFT,
    MARKED,
    PASSAGES,
    QUOTATION,
    RIGHT,
    list_violations,
    make_pair,
    make_report_of_given_text,
    make_small_report,
    open_page,
    read_pane,
    save_report,
    split_tokens,
    wait_until,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

LEVELS = "Array.from({ length: 8 }, (_, i) => CSS.highlights.get(`gain-${i}`)?.size ?? 0)"


def list_rows(page: "Page") -> list[str]:
    return page.locator(".pairs tbody tr:visible").evaluate_all("rows => rows.map((row) => row.dataset.number)")


def list_texts(page: "Page") -> list[list[str]]:
    rows = page.locator(".texts tbody tr:visible")
    return [text.split() for text in rows.all_inner_texts()]


def click_first_line(page: "Page", link: "Locator") -> None:
    """Click the text of a link that may begin within a line and go on over paragraphs."""
    link.scroll_into_view_if_needed()
    page.mouse.click(*link.evaluate("e => { const r = e.getClientRects()[0]; return [r.x + r.width / 2, r.y + 4]; }"))


def test_a_clicked_passage_is_the_recorded_one_on_both_sides(
    page: "Page", example_file: Path, example_report: Report
) -> None:
    for number, pair in enumerate(example_report.pairs, 1):
        open_page(page, example_file, f"#pair-{number}")
        texts = example_report.suspicious[pair.suspicious].text, example_report.sources[pair.source].text
        for side, text in enumerate(texts):
            assert read_pane(page, side) == text
        for i, p in enumerate(pair.passages, 1):
            click_first_line(page, page.locator(f'.pane[data-side="0"] mark[data-label="{i}"] a'))
            wait_until(page, IN_SIGHT, [1, i])
            chosen = page.locator(".pane mark.chosen").evaluate_all("marks => marks.map((m) => m.dataset.numbers)")
            assert set(chosen) == {str(i)}
            assert page.evaluate(MARKED, [0, i]) == texts[0][slice(*p.target)]
            assert page.evaluate(MARKED, [1, i]) == texts[1][slice(*p.source)]
            assert f"passage {i} of {len(pair.passages)}" in page.locator(".place").inner_text()
    assert sum(len(pair.passages) for pair in example_report.pairs) >= 3


def test_hostile_names_and_texts_are_shown_as_text(page: "Page", hostile_file: Path) -> None:
    open_page(page, hostile_file)
    assert page.title() == f"Essays {HOSTILE}"
    assert page.locator("img, b").count() == 0
    assert f"anna {HOSTILE}.txt" in page.locator(".pairs tbody").evaluate("e => e.textContent")
    open_page(page, hostile_file, "#pair-1")
    assert read_pane(page, 0) == LEFT
    assert read_pane(page, 1) == RIGHT.replace("\0", "\ufffd")
    for i, p in enumerate(PASSAGES, 1):
        assert page.evaluate(MARKED, [0, i]) == LEFT[slice(*p.target)]
        assert page.evaluate(MARKED, [1, i]) == RIGHT[slice(*p.source)].replace("\0", "\ufffd")
    assert page.locator("img, b").count() == 0


def test_what_does_not_count_is_grey(page: "Page", tmp_path: Path) -> None:
    open_page(page, save_report(make_report_of_given_text(), tmp_path / "report.html"), "#pair-1")
    assert page.evaluate(MARKED, [0, 1]) == "The tide turns twice a day.  Nobody knows why."
    assert page.evaluate(MARKED, [0, 2]) == QUOTATION
    colours = [
        page.locator(f'.pane[data-side="0"] {part}').first.evaluate("e => getComputedStyle(e).backgroundColor")
        for part in ("span.out", "mark.out", "mark.c0")
    ]
    assert colours[0] == colours[1] != colours[2]
    assert read_pane(page, 0) == GIVEN * 3


def test_equal_words_are_marked_on_both_sides(page: "Page", hostile_file: Path) -> None:
    open_page(page, hostile_file, "#pair-1")
    marked = page.locator(".pane mark.chosen .equal")
    assert marked.all_inner_texts() == ["tide turned", "noon", "nets", "noon", "tide turned. Nets"]
    page.keyboard.press("3")
    assert marked.first.evaluate("e => getComputedStyle(e).backgroundColor") == "rgba(0, 0, 0, 0)"


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
    open_page(page, save_report(replace(report, pairs=(pair,)), tmp_path / "report.html"), "#pair-1")
    page.keyboard.press("3")
    last = page.locator('.pane[data-side="0"] .text p', has_text="Harbour Board")
    last.scroll_into_view_if_needed()
    last.hover(position={"x": 60, "y": 10})
    page.locator(".tooltip").wait_for()
    assert page.locator(".tooltip").inner_text() == "not measured"


def test_a_browser_without_highlights_gets_spans_of_what_is_in_sight(page: "Page", example_file: Path) -> None:
    page.add_init_script("delete window.Highlight")
    open_page(page, example_file, "#pair-1")
    text = read_pane(page, 0)
    page.keyboard.press("3")
    wait_until(page, "document.querySelectorAll('.pane span[class^=g]').length > 20")
    assert read_pane(page, 0) == text
    assert page.evaluate(MARKED, [0, 1])
    page.keyboard.press("1")
    assert page.locator(".pane .text span[class^=g]").count() == 0


def test_pairs_are_searched_filtered_and_sorted(page: "Page", example_file: Path, example_report: Report) -> None:
    open_page(page, example_file)
    assert [pair.finding for pair in example_report.pairs] == ["likely", "no sign"]
    assert list_rows(page) == ["1"]
    page.get_by_label("Show").select_option("")
    assert list_rows(page) == ["1", "2"]
    page.get_by_label("Find").fill(example_report.pairs[1].suspicious)
    assert list_rows(page) == ["2"]
    page.get_by_label("Find").fill("")
    page.get_by_label("Show").select_option("no sign")
    without = [str(i) for i, pair in enumerate(example_report.pairs, 1) if pair.finding == "no sign"]
    assert list_rows(page) == without
    page.get_by_label("Show").select_option("")
    names = sorted((pair.suspicious, str(i)) for i, pair in enumerate(example_report.pairs, 1))
    page.locator("th[data-key=suspicious] [role=button]").focus()
    page.keyboard.press("Enter")
    assert list_rows(page) == [number for _, number in names]
    page.keyboard.press("Enter")
    assert list_rows(page) == [number for _, number in reversed(names)]
    assert page.locator("th[data-key=suspicious]").get_attribute("aria-sort") == "descending"


def make_report_of_three() -> Report:
    texts = {name: ReportText(name, "0123456789" * 10) for name in ("a.txt", "b.txt", "c.txt")}
    spans = ((0, 40), (30, 60)), ((50, 70),)
    passages = [tuple(MeasuredPassage(make_passage(a, b - a, a, b - a), 1.0, 1.0) for a, b in pair) for pair in spans]
    pairs = (
        make_pair("b.txt", "a.txt", 0.9, "likely", passages[0]),
        make_pair("b.txt", "c.txt", 0.6, "likely", passages[1]),
        make_pair("a.txt", "c.txt", 0.1, "no sign"),
    )
    return Report("Three", texts, texts, pairs, 0.5, within_class=True)


def list_shares(page: "Page", table: str) -> list[str]:
    return page.locator(f".{table} tbody .share").all_text_contents()


def test_a_text_is_a_row_with_its_sources_points_and_a_share_that_follow_marks(page: "Page", tmp_path: Path) -> None:
    open_page(page, save_report(make_report_of_three(), tmp_path / "report.html"))
    before = [
        ["1", "a.txt", "●", "likely", "64", "60", "%", "b.txt"],
        ["2", "b.txt", "●", "likely", "64", "70", "%", "a.txt", "c.txt"],
        ["3", "c.txt", "●", "likely", "54", "20", "%", "b.txt"],
    ]
    assert list_texts(page) == before
    page.get_by_label("Your mark of pair 1").select_option("dismissed")
    assert list_shares(page, "texts") == ["0 %", "20 %", "20 %"]
    assert page.locator(".texts tbody .score").all_text_contents() == ["–", "54", "54"]
    decisions = page.locator(".texts tbody .decision").evaluate_all("es => es.map((e) => e.dataset.decision)")
    assert decisions == ["no sign", "likely", "likely"]
    page.get_by_label("Your mark of pair 1").select_option("")
    assert list_texts(page) == before
    page.get_by_label("Your mark of pair 1").select_option("dismissed")
    page.get_by_label("Find").fill("a.txt")
    assert [row[1] for row in list_texts(page)] == ["a.txt", "b.txt"]
    page.locator(".texts th[data-key=share] [role=button]").click()
    assert [row[1] for row in list_texts(page)] == ["b.txt", "a.txt"]


def test_a_dismissed_passage_does_not_count_and_is_kept_in_a_copy(page: "Page", tmp_path: Path) -> None:
    open_page(page, save_report(make_report_of_three(), tmp_path / "report.html"), "#pair-1")
    rows = page.locator(".pair.open .rows tbody")
    rows.nth(0).get_by_label("dismiss").check()
    assert list_shares(page, "pairs") == ["30 %", "20 %", "0 %"]
    assert page.locator('.pane[data-side="0"] mark').count() == 1
    rows.nth(1).get_by_label("dismiss").check()
    assert page.locator("tr[data-number='1'] .review select").input_value() == "dismissed"
    with page.expect_download() as download:
        page.get_by_role("button", name="Save a copy").click()
    download.value.save_as(tmp_path / "copy.html")
    open_page(page, tmp_path / "copy.html", "#pair-1")
    assert list_shares(page, "texts") == ["0 %", "20 %", "20 %"]
    rows.nth(0).get_by_label("dismiss").uncheck()
    assert list_shares(page, "pairs") == ["40 %", "20 %", "0 %"]
    assert page.locator("tr[data-number='1'] .review select").input_value() == ""


def test_a_passage_of_many_is_dismissed_in_all_pairs(page: "Page", tmp_path: Path) -> None:
    texts = {name: ReportText(name, "0123456789" * 10) for name in ("a.txt", "b.txt", "c.txt")}
    both = tuple(MeasuredPassage(make_passage(a, 30, a, 30), 1.0, 1.0) for a in (0, 50))
    pairs = tuple(make_pair(*names, 0.9, "likely", both) for names in (("a.txt", "b.txt"), ("c.txt", "b.txt")))
    report = Report("Three", texts, texts, pairs, 0.5, within_class=True)
    open_page(page, save_report(report, tmp_path / "report.html"), "#pair-1")
    page.locator(".pair.open .rows tbody").nth(1).get_by_role("button", name="dismiss in all pairs").click()
    assert list_shares(page, "texts") == ["30 %"] * 3
    assert page.locator("#left-out").text_content().startswith("2 of 4 passages are left out")


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
        assert page.evaluate(MARKED, [0, i]) == LEFT[slice(*p.target)]
    assert read_pane(page, 0) == LEFT
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
    lines = page.locator(".warnings").first.inner_text().split("\n")
    assert lines[1:] == ["decided negative: 1 time", "Skipped 2 unsupported files.", "A file was not read."]
    with page.expect_download() as download:
        page.get_by_role("button", name="Save a copy").click()
    copy = tmp_path / "copy.html"
    download.value.save_as(copy)
    written = copy.read_text(encoding="utf-8")
    names = *example_report.suspicious, *example_report.sources, "anna.doc", "berta", "vogel"
    for name in (*names, example_report.title):
        assert name not in written
    open_page(page, copy)
    assert page.get_by_label("hide names").is_disabled()
    page.get_by_label("hide names").check(force=True)
    page_title = page.title()
    assert page_title == "Report"


def test_keys_lead_through_the_page(page: "Page", example_file: Path) -> None:
    open_page(page, example_file)
    page.get_by_label("Show").select_option("")
    page.locator(".pairs tr[data-number='1'] a").click()
    place = page.locator(".place")
    assert place.inner_text().startswith("passage 1 of ")
    page.keyboard.press("n")
    assert place.inner_text().startswith("passage 2 of ")
    page.keyboard.press("p")
    page.keyboard.press("]")
    page.locator("#pair-2.open").wait_for()
    page.keyboard.press("[")
    page.locator("#pair-1.open").wait_for()
    page.get_by_label("matches under").select_text()
    page.locator('.pane[data-side="0"] mark a[data-number="2"]').first.press("Enter")
    assert place.inner_text().startswith("passage 2 of ")
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")
    page.keyboard.press("Escape")
    page.locator("#overview").wait_for()  # the address changes first, then the page
    assert page.url.endswith("#overview")
    page.get_by_label("Find").press_sequentially("n1")
    assert page.get_by_label("Find").input_value() == "n1"


@pytest.mark.parametrize("address", ["", "#pair-1"])
def test_at_200_percent_nothing_is_cut_off(address: str, page: "Page", example_file: Path) -> None:
    page.set_viewport_size({"width": 640, "height": 450})
    open_page(page, example_file, address)
    assert page.evaluate("document.documentElement.scrollWidth") <= 640


def test_a_telephone_shows_names_score_and_decision(page: "Page", example_file: Path) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    open_page(page, example_file)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for name in (".suspicious", ".source", ".decision"):
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
        page.emulate_media(color_scheme=scheme)
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
    click_first_line(page, mark.locator("a"))
    page.wait_for_url(re.compile("#pair-1-1$"))
    context.close()


def test_a_hundred_thousand_tokens_a_side_can_be_read(page: "Page", tmp_path: Path) -> None:
    paragraphs = ["The tide turned before noon, and nobody on the quay said a single word about the nets. " * 6] * 1000
    text = "\n\n".join(paragraphs)
    spans, starts = split_tokens(text), range(0, len(text), len(text) // 25)
    gains = TokenGains(spans, tuple((i * 37 % 80) / 10 - 2 for i in range(len(spans))))
    passages = tuple(MeasuredPassage(make_passage(start, 500, start, 500), 1.0, 1.0) for start in starts[:-1])
    names = {"a": ReportText("a", text)}, {"b": ReportText("b", text)}
    report = Report("Long", *names, (make_pair("a", "b", 1.0, "likely", passages, gains=gains),), 0.5)
    open_page(page, save_report(report, tmp_path / "long.html"), "#pair-1")
    page.keyboard.press("3")
    wait_until(page, f"({LEVELS}).reduce((a, b) => a + b) > 100")
    assert sum(page.evaluate(LEVELS)) < 20_000
    page.locator(f"#pair-1-{len(passages)} a.number").click()
    for side in (0, 1):
        wait_until(page, IN_SIGHT, [side, len(passages)])
    assert page.evaluate("find('single word about the nets')")


@pytest.mark.parametrize("media", ["light", "print", pytest.param("dark", marks=pytest.mark.long)])
@pytest.mark.parametrize("address", ["", "#pair-1"])
def test_axe_has_no_serious_violation(address: str, media: Any, page: "Page", example_file: Path) -> None:
    page.emulate_media(**({"media": "print"} if media == "print" else {"color_scheme": media}))
    open_page(page, example_file, address)
    if address and media != "print":
        page.keyboard.press("3")
    assert list_violations(page) == []


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


def test_each_text_that_the_overview_shows_has_a_sheet_on_paper(page: "Page", tmp_path: Path) -> None:
    report = make_small_report()
    passage = MeasuredPassage(make_passage(0, 20, 0, 20), 0.9, 0.9)
    record = replace(report.pairs[0].record, suspicious="carl.txt")
    pairs = (report.pairs[0], DecidedPair(record, (passage,)))
    open_page(page, save_report(replace(report, pairs=pairs), tmp_path / "report.html"))
    page.emulate_media(media="print")

    def read_sheets() -> dict[str, str]:
        """Return the text of each sheet by its name."""
        page.evaluate("dispatchEvent(new Event('afterprint')), dispatchEvent(new Event('beforeprint'))")
        sheets = page.locator(".sheet:visible").all()
        return {s.locator("h2").text_content() or "": s.locator(".text").text_content() or "" for s in sheets}

    assert read_sheets() == {f"anna {HOSTILE}.txt": LEFT, "carl.txt": "Another text. " * 9}
    anna = page.locator(".sheet").first
    labels = anna.locator(".text mark[data-label]").evaluate_all("marks => marks.map((m) => m.dataset.label)")
    assert labels == ["1", "2", "3"]
    assert anna.locator(".rows .about").nth(2).inner_text().startswith("3\tben.txt: ")
    assert "64, share" in anna.locator(".sources").inner_text()
    page.get_by_label("quotations").evaluate("box => box.click()")
    read_sheets()
    assert anna.locator(".text mark[data-label]").count() == anna.locator(".rows .about").count() == 2
    page.evaluate("document.querySelector('.review select').value = 'dismissed'")
    page.locator(".review select").first.dispatch_event("change")
    assert list(read_sheets()) == ["carl.txt"]
    assert page.locator("#overview").is_visible()
    page.evaluate("document.querySelector('[name=name]').value = 'Cárl'")
    assert list(read_sheets()) == ["carl.txt"]
    assert not page.locator("#overview").is_visible(), "it names others"
    page.evaluate("document.querySelector('[name=name]').value = 'ben'")
    assert not read_sheets(), "a source"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator(".sheet").count() == 0


def test_of_a_large_report_the_table_begins_on_the_first_screen_and_the_matrix_fits_on_paper(
    page: "Page", tmp_path: Path
) -> None:
    texts = {
        name: ReportText(name, f"The text of {name}. " * 20) for name in (f"a long name {i}.txt" for i in range(80))
    }
    names = list(texts)
    pairs = tuple(make_pair(a, b, 0.9, "likely") for a, b in zip(names[:40], names[40:]))
    warnings = tuple(f"not read: {i}.pdf" for i in range(40))
    path = save_report(Report("Many", texts, texts, pairs, 0.5, warnings=warnings), tmp_path / "report.html")
    open_page(page, path)
    assert page.locator(".texts tbody tr").nth(5).evaluate("e => e.getBoundingClientRect().bottom") <= 800
    page.set_viewport_size({"width": 688, "height": 900})  # the width of A4 between the margins of the page
    page.emulate_media(media="print")
    open_page(page, path)
    assert page.locator(".matrix .scroll").evaluate("e => getComputedStyle(e).overflow") == "visible"
    assert page.locator(".matrix table").evaluate("e => e.getBoundingClientRect().right") <= 688
