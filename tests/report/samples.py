"""A small report with hostile names and texts, what a parser sees of a page, and what the tests do in a browser."""

import html
import json
import re
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pan_scdg.records import MeasuredPassage, Reason, TokenGains
from pan_scdg.report.html import render_report, save_page
from pan_scdg.report.records import Excluded, Report, ReportText
from pan_scdg.results.records import DecidedPair, Decision, Finding
from tests.passages import make_passage

if TYPE_CHECKING:
    from playwright.sync_api import Page as BrowserPage

ROOT = Path(__file__).parents[2]
HOSTILE = "</script><img src=x onerror=\"document.title='hacked'\"><b>&amp;\u2028"
LEFT = (
    "An opening of its own.\r\n\r\nThe tide turned before noon 🙂 and the nets came up empty; nobody on the quay said "
    f'a word. {HOSTILE}\n\n"All of this is quoted from the harbour master, and he said it twice."\n\n'
    "## References\n\nHarbour Board: Annals of the quay, volume seven, page three hundred and nine.\n"
)
RIGHT = (
    "Before noon the tide turned. Nets were empty, and the quay was silent. \x00 The master said this twice. "
    "The Board published its annals in seven volumes."
)


def make_pair(
    suspicious: str,
    source: str,
    score: float | None,
    finding: Finding,
    passages: tuple[MeasuredPassage, ...] = (),
    reasons: tuple[Reason, ...] = (),
    gains: TokenGains | None = None,
    **numbers: float,
) -> DecidedPair:
    decision = Decision(suspicious, source, score, 0.5, finding == "likely", finding, reasons=reasons, numbers=numbers)
    return DecidedPair(decision, passages, gains)


def find_place(text: str, part: str) -> tuple[int, int]:
    """Return the offset and the length of a part of a text."""
    return text.index(part), len(part)


PASSAGES = (
    MeasuredPassage(
        make_passage(*find_place(LEFT, "The tide turned before noon 🙂 and the nets"), 0, 71), 0.7, 0.25, 1.2
    ),
    MeasuredPassage(
        make_passage(
            *find_place(LEFT, '"All of this is quoted'), *find_place(RIGHT, "quay was silent. \x00 The master")
        ),
        *(0.5, 0.0),
        within="quotation",
        counts=False,
    ),
    MeasuredPassage(
        make_passage(*find_place(LEFT, "Harbour Board: Annals"), *find_place(RIGHT, "The Board")),
        *(0.4, 1.0),
        within="references",
        reasons=(Reason("shared", {"texts": 5, "of": 9}),),
    ),
)


def split_tokens(text: str) -> tuple[tuple[int, int], ...]:
    """Return the places of words with the space before them, as a tokenizer would."""
    ends = [match.start() for match in re.finditer(" ", text)] + [len(text)]
    return tuple((begin, end) for begin, end in zip([0, *ends], ends) if begin < end)


def make_small_report() -> Report:
    """Return three pairs with hostile names and texts."""
    spans = split_tokens(LEFT)
    gains = TokenGains(spans, tuple(round(0.01 * i - 0.5, 2) for i in range(len(spans))))
    first, second = f"anna {HOSTILE}.txt", "ben.txt"
    pairs = (
        make_pair(first, second, 0.9, "likely", PASSAGES, (Reason(f"a note on {second}"),), gains),
        make_pair("carl.txt", second, 0.1, "no sign"),
        make_pair("carl.txt", first, None, "unclear"),
    )
    suspicious = {first: ReportText(first, LEFT), "carl.txt": ReportText("carl.txt", "Another text. " * 9, ("short",))}
    sources = {second: ReportText(second, RIGHT), first: ReportText(first, LEFT)}
    return Report(f"Essays {HOSTILE}", suspicious, sources, pairs, 0.5, {"profile": HOSTILE, "seed": 7}, (HOSTILE,))


QUESTION, QUOTATION = f"Why does the tide turn? {HOSTILE}", '"It turns because of the moon."'
GIVEN = f"The tide turns twice a day. {QUESTION} Nobody knows why. She wrote: {QUOTATION} That is all.\n\nThe end."


def make_report_of_given_text() -> Report:
    """Return a pair whose first passage contains the question that all were given, and whose second is a quotation."""
    first, last = GIVEN.index("The tide"), GIVEN.index(" She wrote")
    passages = (
        MeasuredPassage(make_passage(first, last, 0, 30), 0.8, 1.0),
        MeasuredPassage(
            make_passage(*find_place(GIVEN, QUOTATION), 30, 20), 1.0, 1.0, within="quotation", counts=False
        ),
    )
    begin, length = find_place(GIVEN, QUESTION)
    text = ReportText("dora", GIVEN * 3, (), (Excluded(begin, begin + length, "in the template"),))
    return Report(
        "Given",
        {"dora": text.exclude_quotations("alignment")},
        {"book": ReportText("book", RIGHT)},
        (make_pair("dora", "book", 0.9, "likely", passages),),
        0.5,
    )


def save_report(report: Report, path: Path) -> Path:
    save_page(render_report(report), path)
    return path


class Page(HTMLParser):
    """What an HTML parser sees: elements, scripts, rows of the table, data of the pairs, and texts with their marks."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = page
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.texts: dict[str, str] = {}
        """Of articles, by their ids."""
        self.marks: dict[str, list[tuple[str, str]]] = {}
        """Of articles: the links of marks and their text."""
        self.blocks: dict[str, list[str]] = {}
        """Of articles: their paragraphs, which together are the text."""
        self.rows: list[dict[str, str]] = []
        """Attributes of the rows of pairs, and the text of their cells."""
        self.ranked: list[dict[str, str]] = []
        """The same of the rows of texts."""
        self.shown = ""
        self._open: list[tuple[str, dict[str, str]]] = []
        self.feed(page)
        self.close()

    @property
    def details(self) -> dict[int, dict[str, Any]]:
        """The data of the pairs or queries that are shown in detail, by their numbers."""
        sections = [attrs["id"] for tag, attrs in self.tags if tag == "section" and attrs.get("class") == "pair"]
        data = [json.loads(text) for text in self.raw["script"] if text.startswith('{"texts"')]
        return {int(name.rpartition("-")[2]): one for name, one in zip(sections, data, strict=bool(data))}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.tags.append((tag, values))
        if tag not in {"meta", "input", "line", "rect"}:
            self._open.append((tag, values))
        if tag in self.raw:
            self.raw[tag].append("")
        if tag == "article":
            self.texts[values["id"]] = ""
            self.blocks[values["id"]] = []
        if tag == "p" and (article := self._find("article")):
            self.blocks[article["id"]].append("")
        if tag == "tr" and "data-number" in values:
            self.rows.append(values)
        if tag == "tr" and "data-rank" in values:
            self.ranked.append(values)

    def _find(self, tag: str) -> dict[str, str] | None:
        """Return the attributes of the innermost open element of a kind."""
        return next((attrs for name, attrs in reversed(self._open) if name == tag), None)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        names = [tag for tag, _ in self._open]
        if names and names[-1] in self.raw:
            self.raw[names[-1]][-1] += data
            return
        self.shown += data
        row, cell = self._find("tr"), self._find("td") or self._find("th") or {}
        if row and row.keys() & {"data-number", "data-rank"} and data.strip():
            name = cell.get("class", "decision").removeprefix("number ")
            row[name] = f"{row.get(name, '')} {data.strip()}".strip()
        if "article" in names and "p" in names:
            article = (self._find("article") or {})["id"]
            self.texts[article] += data
            self.blocks[article][-1] += data
            if names[-1] == "a":
                self.marks.setdefault(article, []).append((self._open[-1][1]["href"], data))

    def read_sentence(self, anchor: str) -> str:
        """Return what the row of a passage says of it."""
        row = self.source.partition(f'id="{anchor}"')[2].partition("</td></tr>")[0]
        return " ".join(html.unescape(re.sub("<.*?>", "", row.rpartition('colspan="2">')[2])).split())


MARKED = """([side, number]) => [...document.querySelectorAll(`.pane[data-side="${side}"] mark`)]
    .filter((mark) => mark.dataset.numbers.split(" ").includes(String(number)))
    .map((mark) => mark.textContent).join("")"""
IN_SIGHT = """([side, number]) => {
    const pane = document.querySelector(`.pane[data-side="${side}"]`), box = pane.getBoundingClientRect();
    return [...pane.querySelectorAll("mark")].some((mark) => mark.dataset.numbers.split(" ").includes(String(number))
        && [...mark.getClientRects()].some((r) => r.top >= box.top && r.top < box.bottom)); }"""


def open_page(page: "BrowserPage", path: Path, address: str = "") -> None:
    page.goto("about:blank")
    page.goto(f"{path.as_uri()}{address}")


def read_pane(page: "BrowserPage", side: int) -> str:
    text: str = page.locator(f'.pane[data-side="{side}"] .text').evaluate("e => e.textContent")
    return text


def wait_until(page: "BrowserPage", expression: str, arg: object = None) -> None:
    """Wait for an expression; Playwright's own function evaluates a string in the page, which its policy forbids."""
    for _ in range(300):
        if page.evaluate(expression, arg):
            return
        page.wait_for_timeout(100)
    pytest.fail(f"never true: {expression}")


def click_passage(page: "BrowserPage", side: int, number: int) -> None:
    """Click the middle of a passage's first line: the middle of its box may be in another passage."""
    link = page.locator(f'.pane[data-side="{side}"] mark a[data-number="{number}"]').first
    x, y = link.evaluate("""(link) => {
        link.scrollIntoView({ block: "center" });
        const line = link.getClientRects()[0];
        return [line.x + line.width / 2, line.y + line.height / 2]; }""")
    page.mouse.click(x, y)


def list_violations(page: "BrowserPage") -> list[tuple[str, list[object]]]:
    """Return what axe-core calls serious or critical: its rules, and the first elements that break them."""
    pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    page.evaluate((resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    violations = page.evaluate("axe.run()")["violations"]
    serious = [v for v in violations if v["impact"] in {"serious", "critical"}]
    return [(v["id"], [node["target"] for node in v["nodes"][:3]]) for v in serious]
