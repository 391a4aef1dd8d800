"""Size and time of ``report.html``, and how soon a long pair can be read: ``python -m benchmarks.report_page``.

``report`` makes the page of a run on pairs of different texts of 1,500 words, half of them with copied paragraphs. Then
the page of one long pair with the gains of all its tokens is opened in headless Chromium (the package playwright and an
installed Chromium).
"""

import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks import corpus
from benchmarks.pairs import run_command, write_folder
from pan_scdg.records import MeasuredPassage, Passage, Span, TokenGains
from pan_scdg.report.html import render_report
from pan_scdg.report.records import Report, ReportText
from pan_scdg.results.records import DecidedPair, Decision

PROFILE = """name = "copies"
description = "aligns pairs with copied words"
[decide]
method = "containment"
threshold = 0.05
[containment]
[passages]
"""
WORDS = 1500
NO_MARK = "() => !document.querySelector('.pane mark')"


def make_pairs(count: int) -> list[tuple[str, str]]:
    """Return pairs of texts; every other target has two paragraphs of its source."""
    texts = [" ".join(corpus.make_document(number).split(" ")[:WORDS]) for number in range(2 * count)]
    pairs = []
    for number, (target, source) in enumerate(zip(texts[::2], texts[1::2])):
        copied = source.split("\n\n")[1:3] if number % 2 else []
        pairs.append(("\n\n".join([target, *copied]), source))
    return pairs


def make_large_report(tokens: int) -> Report:
    """Return a pair with so many words a side, gains of all of them, and fifty passages."""
    text = " ".join(corpus.make_document(number) for number in range(1 + tokens // 500))
    text = " ".join(text.split(" ")[:tokens])
    ends = np.cumsum([len(word) + 1 for word in text.split(" ")]).tolist()
    spans = tuple((begin, end - 1) for begin, end in zip([0, *ends], ends))
    gains = TokenGains(spans, tuple((i * 37 % 100) / 12 - 2 for i in range(len(spans))))
    places = range(0, len(text) - 2000, len(text) // 50)
    spans_of_passages = [Span(place, place + 2000) for place in places]
    passages = tuple(MeasuredPassage(Passage(span, span), 0.9, 0.5, 1.0) for span in spans_of_passages)
    texts = ({"long.txt": ReportText("long.txt", text)}, {"source.txt": ReportText("source.txt", text)})
    decision = Decision("long.txt", "source.txt", 0.9, 0.4, True, "likely")
    return Report("Long", *texts, (DecidedPair(decision, passages, gains),), 0.4)


def measure_browser(path: Path) -> list[tuple[str, float]]:
    """Return the seconds until a pair is open, its tokens are coloured, and both sides show its last passage."""
    from playwright.sync_api import sync_playwright

    count = path.read_text(encoding="utf-8").count('id="pair-1-')
    levels = "[...Array(8).keys()].reduce((sum, i) => sum + (CSS.highlights.get(`gain-${i}`)?.size ?? 0), 0)"
    last = f"""() => [...document.querySelectorAll(".pane")].every((pane) => {{
        const mark = pane.querySelector("mark.chosen"), box = pane.getBoundingClientRect();
        const top = mark.getBoundingClientRect().top;
        return mark.dataset.numbers.split(" ").includes("{count}") && top > box.top && top < box.bottom; }})"""
    steps: list[tuple[str, Callable[[Any], object], str]] = [
        ("open", lambda page: page.goto(f"{path.as_uri()}#pair-1"), "() => document.querySelector('mark.chosen')"),
        ("colour tokens", lambda page: page.keyboard.press("3"), f"() => {levels} > 100"),
        (
            "go to the last passage",
            lambda page: page.locator(f"#pair-1-{count} a.number").evaluate("e => e.click()"),
            last,
        ),
        ("leave out matches", lambda page: page.locator("[name=words]").fill("99999"), NO_MARK),
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), chromium_sandbox=False)
        page, times = browser.new_page(viewport={"width": 1280, "height": 900}), []
        for name, act, done in steps:
            began = time.perf_counter()
            act(page)
            page.wait_for_function(done)
            times.append((name, time.perf_counter() - began))
        browser.close()
    return times


@click.command(help=__doc__)
@click.option("--pairs", "count", default=1000, show_default=True)
@click.option("--tokens", default=100_000, show_default=True, help="of each text of the long pair")
def main(count: int, tokens: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "copies.toml").write_text(PROFILE, encoding="utf-8")
        write_folder(make_pairs(count), folder / "input")
        where = ("--input", folder / "input", "--output", folder / "result")
        run_command("run", *where, "--profile", folder / "copies.toml", "--device", "cpu")
        began = time.perf_counter()
        run_command("report", folder / "result", "--input", folder / "input")
        seconds, peak = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        path = folder / "result" / "report.html"
        page, size = path.read_text(encoding="utf-8"), path.stat().st_size / 1e6
        details = page.count('<section class="pair"')
        click.echo(f"{count} pairs: {seconds:.1f} s, {size:.1f} MB, {details} in detail, {peak:.0f} MiB")
        path = folder / "pair.html"
        path.write_text(render_report(make_large_report(tokens)), encoding="utf-8")
        click.echo(f"{tokens} tokens a side: {path.stat().st_size / 1e6:.1f} MB")
        for name, seconds in measure_browser(path):
            click.echo(f"  {name:24} {seconds:.2f} s")


if __name__ == "__main__":
    main()
