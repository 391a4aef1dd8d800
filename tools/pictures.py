"""Make the pictures of docs/ from pages of reports: ``python -m tools.pictures CHECK RETRIEVAL``.

Needs Chromium and the package playwright. CHECK is the output of ``check`` on the essays, RETRIEVAL that of ``run
--report`` on the example of source retrieval.
"""

import shutil
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
SIZE = {"width": 1280, "height": 800}
PRINTED = {"width": 784, "height": 1014}


def main(check: Path, retrieval: Path) -> None:
    """Open both pages in Chromium, and replace the four pictures."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)
        page.goto((check / "report.html").resolve().as_uri())
        page.screenshot(path=DOCS / "report-overview.png")
        page.goto(f"{(check / 'report.html').resolve().as_uri()}#pair-1")
        page.wait_for_timeout(500)
        page.screenshot(path=DOCS / "report-pair.png")
        page.goto((check / "report.html").resolve().as_uri())
        page.emulate_media(media="print")
        page.set_viewport_size(PRINTED)
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.evaluate("document.body.style.margin = '24px'")
        sheet = page.locator(".sheet").first.bounding_box()
        clip = {**sheet, "x": 0, "y": sheet["y"] - 24, "width": PRINTED["width"], "height": sheet["height"] + 48}
        page.screenshot(path=DOCS / "report-print.png", full_page=True, clip=clip)
        page = browser.new_page(viewport=SIZE)
        page.goto(f"{(retrieval / 'report.html').resolve().as_uri()}#query-1")
        page.wait_for_timeout(500)
        page.screenshot(path=DOCS / "report-query.png")
        browser.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
