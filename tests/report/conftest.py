"""A headless Chromium, and pages in it: of two example pairs that were scored, and of hostile texts."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pan_scdg import Scorer
from pan_scdg.report.records import Report
from tests.report.samples import ROOT, make_small_report, save_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAIRS = (("110", "110", None), ("113", "111", 2000))
"""Numbers of suspicious texts and sources, and how many characters are kept; the second pair is a negative."""


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("Chromium is not installed")
    # Chromium's own sandbox does not start for root, in whose containers these tests may run.
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, chromium_sandbox=os.getuid() != 0)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def example_report(browser: "Browser") -> Report:
    """Return the report of two example pairs; nothing is scored without a browser."""
    folder = ROOT / "examples" / "pan25-pairs" / "test"
    reports = []
    with Scorer("offline", device="cpu") as scorer:
        for a, b, kept in PAIRS:
            files = folder / "susp" / f"suspicious-document00{a}.txt", folder / "src" / f"source-document00{b}.txt"
            target, source = (file.read_text(encoding="utf-8")[:kept] for file in files)
            reports.append(scorer.score(target, source).to_report((files[0].name, files[1].name)))
    return replace(
        reports[0],
        title="Two example pairs",
        suspicious={name: text for report in reports for name, text in report.suspicious.items()},
        sources={name: text for report in reports for name, text in report.sources.items()},
        pairs=tuple(sorted((report.pairs[0] for report in reports), key=lambda pair: -(pair.score or 0))),
        warnings=(
            "suspicious-document00110.txt was read twice",
            "decided negative: 1 time, first at class/anna.doc",
            "Skipped 2 unsupported files: anna.doc, berta.doc. Save .doc, .pages and .rtf files as .docx or PDF.",
            "Not read: vogel.pdf. This PDF is a scan. Run OCR first.",
        ),
    )


@pytest.fixture(scope="session")
def example_file(example_report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_report(example_report, tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="session")
def hostile_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_report(make_small_report(), tmp_path_factory.mktemp("hostile") / "report.html")


@pytest.fixture
def page(browser: "Browser") -> "Iterator[Page]":
    """Yield a page that may ask for nothing but files, and must not report an error."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    page = context.new_page()
    faults: list[str] = []
    page.on("request", lambda r: faults.append(r.url) if not r.url.startswith(("file:", "blob:")) else None)
    page.on("console", lambda message: faults.append(message.text) if message.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: dialog.accept())
    yield page
    context.close()
    assert faults == []
