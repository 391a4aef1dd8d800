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
        page.emulate_media(media="print")
        page.set_viewport_size(PRINTED)
        page.wait_for_timeout(300)
        page.screenshot(path=DOCS / "report-print.png")
        page = browser.new_page(viewport=SIZE)
        page.goto((retrieval / "report.html").resolve().as_uri())
        page.wait_for_timeout(500)
        page.screenshot(path=DOCS / "report-query.png")
        browser.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
