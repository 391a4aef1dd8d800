"""Size and time of ``report.html``, and how soon a long pair can be read: ``python -m benchmarks.report_page``.

A page of 1,000 pairs of different texts of 1,500 words is made, of which the best have gains, and a page of one pair
with 100,000 tokens a side, which headless Chromium opens (the packages playwright and, of Debian, chromium).
"""

import resource
import shutil
import tempfile
import time
from pathlib import Path

import click

from pan_scdg.report.html import render_report, write_report
from pan_scdg.report.records import Report, ReportPair, ReportPassage, ReportText, TokenGains

SENTENCES = (
    "The tide turned before noon, and nobody on the quay said a single word about the nets.",
    "Of 612 volunteers, 77 had typed for another project & knew its <forms> by heart.",
    "“Measured twice,” the keeper wrote, “the samples held 17.5 and 18.2 grams of salt per litre.”",
    "Whoever reads the journals of the lighthouse learns that storms were the smaller trouble.",
)
WITH_GAINS = 100
NO_MARK = "() => !document.querySelector('.pane mark')"


def write_text(seed: int, words: int) -> str:
    """Return a text of so many words in paragraphs of seven sentences; another one for each seed."""
    parts: list[str] = []
    while sum(map(len, parts)) < 6 * words:
        number = len(parts)
        parts.append(f"{SENTENCES[(number * 3 + seed) % 4]} ({seed}/{number})" + ("\n\n" if number % 7 == 6 else ""))
    return " ".join(" ".join(parts).split(" ")[:words])


def find_words(text: str) -> TokenGains:
    """Return the words of a text as tokens with gains of all levels."""
    spans, at = [], 0
    for word in text.split(" "):
        spans.append((at, at + len(word)))
        at += len(word) + 1
    return TokenGains(tuple(spans), tuple((i * 37 % 100) / 12 - 2 for i in range(len(spans))))


def make_large_report(tokens: int) -> Report:
    """Return a pair with so many words a side and fifty passages."""
    text = write_text(1, tokens)
    passages = tuple(
        ReportPassage(a, a + 2000, a, a + 2000, 0.9, 0.5, 1.0, 0.2) for a in range(0, len(text) - 2000, len(text) // 50)
    )
    pair = ReportPair("long.txt", "source.txt", 0.9, "likely", passages, (), find_words(text))
    texts = ({"long.txt": ReportText("long.txt", text)}, {"source.txt": ReportText("source.txt", text)})
    return Report("Long", *texts, (pair,), 0.4)


def make_many_pairs(number: int, words: int) -> Report:
    """Return so many pairs, each of two texts of its own, with three passages each."""
    suspicious, sources, pairs = {}, {}, []
    for i in range(number):
        a, b = f"essay-{i:04}.txt", f"source-{i:04}.txt"
        suspicious[a], sources[b] = ReportText(a, write_text(i, words)), ReportText(b, write_text(-i - 1, words))
        passages = tuple(ReportPassage(p, p + 700, p + 100, p + 800, 0.8, 0.4, 1.0, 0.2) for p in (500, 2500, 6000))
        gains = find_words(suspicious[a].text) if i < WITH_GAINS else None
        pairs.append(ReportPair(a, b, 1 - i / number, "likely" if 2 * i < number else "no sign", passages, (), gains))
    return Report("Many", suspicious, sources, tuple(pairs), 0.5)


def measure_browser(path: Path) -> list[tuple[str, float]]:
    """Return the seconds until a pair is open, its tokens are coloured, and both sides show its last passage."""
    from playwright.sync_api import sync_playwright

    levels = "[...Array(8).keys()].reduce((sum, i) => sum + (CSS.highlights.get(`gain-${i}`)?.size ?? 0), 0)"
    last = """() => [...document.querySelectorAll(".pane")].every((pane) => {
        const mark = pane.querySelector("mark.chosen"), top = mark.getBoundingClientRect().top;
        return mark.dataset.numbers === "50" && Math.abs(top - pane.getBoundingClientRect().top - 60) < 9; })"""
    steps = [
        ("open", lambda page: page.goto(f"{path.as_uri()}#pair-1"), "() => document.querySelector('mark.chosen')"),
        ("colour tokens", lambda page: page.keyboard.press("3"), f"() => {levels} > 100"),
        ("go to the last passage", lambda page: page.locator("#pair-1-50 a.number").evaluate("e => e.click()"), last),
        ("leave out matches", lambda page: page.locator("[name=words]").fill("999"), NO_MARK),
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), chromium_sandbox=False)
        page, found = browser.new_page(viewport={"width": 1280, "height": 900}), []
        for name, act, done in steps:
            began = time.perf_counter()
            act(page)
            page.wait_for_function(done)
            found.append((name, time.perf_counter() - began))
        browser.close()
    return found


@click.command(help=__doc__)
@click.option("--pairs", default=1000, show_default=True)
@click.option("--tokens", default=100_000, show_default=True)
def main(pairs: int, tokens: int) -> None:
    report = make_many_pairs(pairs, 1500)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    page = render_report(report)
    seconds, grown = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    details = page.count('<section class="pair"')
    click.echo(f"{pairs} pairs: {seconds:.1f} s, {len(page.encode()) / 1e6:.1f} MB, {grown / 1024:.0f} MiB more memory")
    gains = page.count('"gains":[')
    click.echo(f"in detail: {details}, with gains: {gains}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        write_report(make_large_report(tokens), path)
        click.echo(f"one pair of {tokens} tokens a side: {path.stat().st_size / 1e6:.1f} MB")
        for name, seconds in measure_browser(path):
            click.echo(f"  {name:24} {seconds:.2f} s")


if __name__ == "__main__":
    main()
