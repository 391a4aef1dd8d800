"""Size and time of ``report.html``, and how soon a long pair can be read: ``python -m benchmarks.report_page``.

The page of ``run --report`` is made of the verdicts about 1,000 pairs of different texts of 1,500 words, of which the
best have gains, with all that the command does after the scoring. Pages of one pair each, with texts of 170,000
characters and of 100,000 tokens, are opened in headless Chromium (the packages playwright and, of Debian, chromium).
With ``--page FILE`` only the first pair of an existing page is opened.
"""

import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pan_scdg.jobs.pairs.report import make_run_report
from pan_scdg.align.align import Evidence
from pan_scdg.align.finder import Locator, PassageFinder
from pan_scdg.profile import PassageSettings
from pan_scdg.records import DocumentPair, Passage, TextFile
from pan_scdg.report.html import write_report
from pan_scdg.report.records import Report, ReportPair, ReportText, TokenGains
from pan_scdg.scoring.pair_method import Verdict

SENTENCES = (
    "The tide turned before noon, and nobody on the quay said a single word about the nets.",
    "Of 612 volunteers, 77 had typed for another project & knew its <forms> by heart.",
    "“Measured twice,” the keeper wrote, “the samples held 17.5 and 18.2 grams of salt per litre.”",
    "Whoever reads the journals of the lighthouse learns that storms were the smaller trouble.",
)
WITH_GAINS = 100
THRESHOLD = 0.5
PLACES = (500, 2500, 6000)
NO_MARK = "() => !document.querySelector('.pane mark')"


def write_text(seed: int, words: int) -> str:
    """Return a text of ``words`` words in paragraphs of seven sentences; another one for each seed."""
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
    """Return a pair with ``tokens`` words a side and fifty passages."""
    text = write_text(1, tokens)
    passages = tuple(
        Evidence(Passage(a, 2000, a, 2000), 0.9, 0.5, 1.0, 0.2) for a in range(0, len(text) - 2000, len(text) // 50)
    )
    pair = ReportPair("long.txt", "source.txt", 0.9, "likely", passages, (), find_words(text))
    texts = ({"long.txt": ReportText("long.txt", text)}, {"source.txt": ReportText("source.txt", text)})
    return Report("Long", *texts, (pair,), 0.4)


def write_pairs(folder: Path, number: int, words: int) -> list[Verdict]:
    """Write ``number`` pairs, each of two texts of its own; return the verdicts, best first.

    The first half is positive with three passages each. Those just below the threshold are unclear: their passages are
    searched for when the page is made.
    """
    located = []
    for i in range(number):
        files = []
        for name, seed in ((f"essay-{i:04}", i), (f"source-{i:04}", -i - 1)):
            (folder / f"{name}.txt").write_text(write_text(seed, words), encoding="utf-8")
            files.append(TextFile(name, f"{name}.txt", folder / f"{name}.txt"))
        pair, positive = DocumentPair(files[0], files[1]), 2 * i < number
        record = {"score": 1 - i / number, "threshold": THRESHOLD, "decision": positive, "baseline": "alignment"}
        found = [Evidence(Passage(p, 700, p + 100, 700), 0.8, 0.4, 1.0, 0.2) for p in PLACES] if positive else []
        located.append(Verdict(pair, record, tuple(evidence.passage for evidence in found), found))
    return located


def make_page(located: list[Verdict], path: Path) -> None:
    """Write the page as ``run --report`` does after the scoring."""
    best = (item.pair for item in located[:WITH_GAINS])
    gains = {pair: find_words(pair.suspicious.path.read_text(encoding="utf-8")) for pair in best}
    locator = Locator(PassageFinder(PassageSettings(), "cpu"))
    write_report(make_run_report(located, {}, THRESHOLD, {"profile": "benchmark"}, locator, gains), path)


def measure_browser(path: Path, gains: bool = True) -> list[tuple[str, float]]:
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
    if not gains:
        del steps[1]
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


def show_times(path: Path, gains: bool = True) -> None:
    """Print the size of a page, and what a browser takes."""
    click.echo(f"  {path.stat().st_size / 1e6:.1f} MB")
    for name, seconds in measure_browser(path, gains):
        click.echo(f"  {name:24} {seconds:.2f} s")


@click.command(help=__doc__)
@click.option("--pairs", default=1000, show_default=True)
@click.option("--tokens", default=(29_100, 100_000), multiple=True, show_default=True)
@click.option("--page", "given", type=click.Path(exists=True, path_type=Path))
def main(pairs: int, tokens: tuple[int, ...], given: Path | None) -> None:
    if given is not None:
        show_times(given, gains=False)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        located = write_pairs(Path(folder), pairs, 1500)
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        make_page(located, path)
        seconds, grown = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        page, size = path.read_text(encoding="utf-8"), path.stat().st_size / 1e6
        click.echo(f"{pairs} pairs: {seconds:.1f} s, {size:.1f} MB, {grown / 1024:.0f} MiB more memory")
        details, gains = page.count('<section class="pair"'), page.count('"gains":[')
        click.echo(f"in detail: {details}, with gains: {gains}")
        for number in tokens:
            report = make_large_report(number)
            write_report(report, path)
            characters = len(report.suspicious["long.txt"].text)
            click.echo(f"{number} tokens, {characters} characters a side:")
            show_times(path)


if __name__ == "__main__":
    main()
