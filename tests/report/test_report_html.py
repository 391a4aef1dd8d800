"""The page without a browser: texts are no markup, the policy fits, the size is bounded, passages are marked."""

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape
from pan_scdg.align.align import Evidence

from pan_scdg.records import Passage
from pan_scdg.report.html import BEGINNING, render_report, render_summary, write_report
from pan_scdg.report.records import Report, ReportPair, ReportText, TokenGains
from pan_scdg.report.texts import NEUTRAL
from pan_scdg.report.wording import describe_passage
from tests.report.reports import HOSTILE, LEFT, PASSAGES, RIGHT, make_small_report


class Page(HTMLParser):
    """Collects what an HTML parser sees: elements, scripts, and the text of articles with its marks."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.texts: dict[str, str] = {}
        self.marks: dict[str, list[tuple[str, str]]] = {}
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "input", "line", "rect"}:
            self._open.append((tag, dict(attrs)))
        if tag in self.raw:
            self.raw[tag].append("")
        if tag == "article":
            self.texts[str(dict(attrs)["id"])] = ""

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        names = [tag for tag, _ in self._open]
        if names and names[-1] in self.raw:
            self.raw[names[-1]][-1] += data
        if "article" in names and "p" in names:
            article = str(next(attrs for tag, attrs in self._open if tag == "article")["id"])
            self.texts[article] += data
            if names[-1] == "a":
                self.marks.setdefault(article, []).append((str(self._open[-1][1]["href"]), data))


def read_data(page: Page) -> list[dict[str, Any]]:
    """Return the data blocks: those of the pairs."""
    return [json.loads(text) for text in page.raw["script"] if text.startswith('{"texts"')]


def test_nothing_of_a_text_or_a_name_is_markup() -> None:
    page = render_report(make_small_report())
    assert HOSTILE not in page
    parsed = Page(page)
    names = {tag for tag, _ in parsed.tags}
    assert not names & {"img", "b", "iframe", "object", "link"}
    assert not [attrs for _, attrs in parsed.tags if any(name.startswith("on") or name == "style" for name in attrs)]
    assert len(parsed.raw["script"]) == page.count("<script") == page.count("</script")
    assert str(escape(HOSTILE)) in page


def test_the_policy_allows_this_script_and_this_style_alone() -> None:
    parsed = Page(render_report(make_small_report()))
    (policy,) = [a["content"] for _, a in parsed.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    running = [text for text in parsed.raw["script"] if not text.startswith("{")]
    hashes = [base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() for t in (*running, *parsed.raw["style"])]
    assert re.findall(r"'sha256-(.*?)'", policy) == hashes
    assert not {"unsafe", "http", "*"} & set(re.findall(r"unsafe|http|\*", policy))


def test_the_page_asks_for_nothing() -> None:
    page = render_report(make_small_report()).replace("src=x", "")
    assert not re.search(r"""(src|action|srcset|poster)=|url\(|@import|fetch\(|XMLHttp|WebSocket|import\(""", page)
    links = [attrs["href"] for _, attrs in Page(page).tags if "href" in attrs]
    assert links
    assert all(link is not None and link.startswith("#") for link in links)


def test_every_text_is_in_the_page_once_and_whole() -> None:
    report = make_small_report()
    texts = Page(render_report(report)).texts
    assert sorted(texts.values()) == sorted([LEFT, RIGHT.replace("\x00", "\ufffd"), "Another text. " * 9])


def test_every_passage_is_marked_on_both_sides_and_has_its_row() -> None:
    page = render_report(make_small_report())
    assert '<span class="g1"' in page
    assert f'<span class="g{NEUTRAL}"' not in page
    parsed = Page(page)
    (left,) = [key for key, text in parsed.texts.items() if text == LEFT]
    (right,) = [key for key, text in parsed.texts.items() if text.startswith("Before")]
    ids = {attrs.get("id") for _, attrs in parsed.tags}
    for number, passage in enumerate(PASSAGES, 1):
        row = f"#pair-1-{number}"
        assert row[1:] in ids
        assert "".join(text for href, text in parsed.marks[left] if href == row) == LEFT[passage.begin : passage.end]
    # the source side of the second passage overlaps that of the first, which owns what both have in common
    shown = {row: "".join(text for href, text in parsed.marks[right] if href == row) for row, _ in parsed.marks[right]}
    expected = [RIGHT[p.begin2 : p.end2].replace("\x00", "\ufffd") for p in PASSAGES]
    assert shown == {
        "#pair-1-1": expected[0],
        "#pair-1-2": expected[1][PASSAGES[0].end2 - PASSAGES[1].begin2 :],
        "#pair-1-3": expected[2],
    }
    targets = {attrs["href"] for tag, attrs in parsed.tags if tag == "a"}
    assert {href[1:] for href in targets if href} <= ids


def test_offsets_for_the_script_are_those_of_a_browser() -> None:
    data = read_data(Page(render_report(make_small_report())))[0]
    units = LEFT.encode("utf-16-le", "surrogatepass")
    for (begin, end, *_), passage in zip(data["passages"], PASSAGES, strict=True):
        assert units[2 * begin : 2 * end].decode("utf-16-le") == LEFT[passage.begin : passage.end]
    at, words = 0, []
    for skip, length, _ in zip(*[iter(data["gains"])] * 3, strict=True):
        words.append(units[2 * (at + skip) : 2 * (at + skip + length)].decode("utf-16-le"))
        at += skip + length
    assert "".join(words) == LEFT
    assert data["gains"][2::3] == [i - 50 for i in range(len(words))]


@pytest.mark.long
def test_a_page_of_a_thousand_pairs_is_not_larger_than_its_limit() -> None:
    words = 'Ein Käse & <noch> ein "Wort" aus dem Text, der lang genug ist. ' * 100
    texts = {f"text {i}.txt": ReportText(f"text {i}.txt", f"{i} {words}") for i in range(60)}
    passages = tuple(Evidence(Passage(b, 900, b, 900), 0.5, 0.5, 1.0, 0.1) for b in range(0, 5000, 1000))
    spans = tuple((i, i + 4) for i in range(0, len(words), 4))
    gains = TokenGains(spans, tuple(1.0 for _ in spans))
    pairs = tuple(
        ReportPair(a, b, 1 - i / 2000, "likely", passages, (), gains)
        for i, (a, b) in enumerate((a, b) for a in list(texts)[:30] for b in list(texts)[30:])
    )
    report = Report("Many", texts, texts, pairs, 0.2, passages_file="passages.jsonl")
    for largest in (2_500_000, 7_000_000):
        page = render_report(report, largest)
        assert len(page.encode()) <= largest
        details, with_gains = len(re.findall('<section class="pair"', page)), page.count('"gains":[')
        assert 10 < details < 900
        assert "their passages are in <code>passages.jsonl</code>" in page
        assert 0 < with_gains < details or largest < 7_000_000
    assert "their passages are in" not in render_report(replace(report, passages_file=""), 2_500_000)


def test_no_more_pairs_than_a_browser_can_bear_are_in_the_table() -> None:
    text = {"a": ReportText("a", "A text.")}
    page = render_report(Report("Many", text, text, (ReportPair("a", "a", 0.1, "no sign"),) * 2100, None))
    assert page.count("<tr data-number") == 2000
    assert "100 more pairs" in page
    assert "1,000 pairs without a link" in page


def test_an_empty_report_and_an_empty_text_have_a_page() -> None:
    assert "0 pairs were compared" in render_report(Report("None", {}, {}, (), None))
    empty = {"e": ReportText("e", "")}
    page = render_report(Report("Empty", empty, empty, (ReportPair("e", "e", None, "unclear"),), 0.5))
    assert "No passage was located." in page


def test_long_passages_are_shortened_in_the_table_only() -> None:
    words = {"a": ReportText("a", "lorem ipsum dolor " * 2000)}
    passage = Evidence(Passage(0, 36_000, 0, 36_000), 1.0, 1.0)
    page = render_report(Report("Long", words, words, (ReportPair("a", "a", 1.0, "likely", (passage,)),), 0.5))
    assert page.count("[30,000 characters are left out here]") == 2
    assert page.count("lorem") == 2000 + 666


def test_a_report_is_written_as_it_is_rendered(tmp_path: Path) -> None:
    write_report(make_small_report(), tmp_path / "report.html")
    written = (tmp_path / "report.html").read_bytes()
    assert written == render_report(make_small_report()).encode()
    assert written.startswith(BEGINNING.encode())


def test_a_notebook_shows_text_as_text() -> None:
    shown = render_summary(make_small_report())
    assert HOSTILE not in shown
    tags = {tag for tag, _ in Page(shown).tags}
    assert not tags & {"script", "style", "img", "a"}
    assert "likely" in shown


@pytest.mark.parametrize(
    ("passage", "says"),
    [
        (PASSAGES[0], "25 % of its 8 words are word for word those of the source; the source makes it 1.20 nats per "),
        (PASSAGES[0], "token easier to predict; its topic alone would account for 0.30."),
        (PASSAGES[1], "word similarity 0.50. The passage is part of a quotation and does not count."),
        (
            PASSAGES[2],
            "The passage is part of a list of references and counts: a verdict by alignment leaves out quotations of ",
        ),
        (PASSAGES[2], "It counts less: 5 of 9 share it."),
    ],
)
def test_each_passage_has_a_plain_sentence(passage: Evidence, says: str) -> None:
    assert says.rstrip() in html.unescape(render_report(make_small_report())).replace("\n", " ")


def test_a_gain_or_control_of_nothing_is_said_in_words() -> None:
    said = [describe_passage(PASSAGES[0]._replace(**changed), 8) for changed in ({"control": -0.2}, {"gain": 0.01})]
    assert said[0].endswith("easier to predict; its topic alone would account for none of that.")
    assert said[1].endswith("the source makes it no easier to predict (0.01 nats per token).")


def test_texts_among_each_other_are_no_sources() -> None:
    texts = {name: ReportText(name, f"The text of {name}. " * 20) for name in "ab"}
    passage = Evidence(Passage(0, 100, 0, 100), 0.9, 0.9)
    report = Report("Among", texts, texts, (ReportPair("a", "b", 0.9, "likely", (passage,)),), 0.5, among=True)
    page = Page(render_report(report))
    assert sorted(page.texts.values()) == [texts["a"].text, texts["b"].text]
    assert "Other text" in render_report(report)
    assert not re.search(r">\s*(Suspicious|Source)\s*<", render_report(report))
