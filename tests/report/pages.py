"""What the tests of both pages do in a browser."""

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

MARKED = """([side, number]) => [...document.querySelectorAll(`.pane[data-side="${side}"] mark`)]
    .filter((mark) => mark.dataset.numbers.split(" ").includes(String(number)))
    .map((mark) => mark.textContent).join("")"""
IN_SIGHT = """([side, number]) => {
    const pane = document.querySelector(`.pane[data-side="${side}"]`), box = pane.getBoundingClientRect();
    return [...pane.querySelectorAll("mark")].some((mark) => mark.dataset.numbers.split(" ").includes(String(number))
        && [...mark.getClientRects()].some((r) => r.top >= box.top && r.top < box.bottom)); }"""


def open_page(page: "Page", path: Path, place: str = "") -> None:
    page.goto("about:blank")
    page.goto(f"{path.as_uri()}{place}")


def wait_until(page: "Page", expression: str, arg: object = None) -> None:
    """Wait for an expression; Playwright's own function evaluates a string in the page, which its policy forbids."""
    for _ in range(300):
        if page.evaluate(expression, arg):
            return
        page.wait_for_timeout(100)
    pytest.fail(f"never true: {expression}")


def click_passage(page: "Page", side: int, number: int) -> None:
    """Click the middle of a passage's first line: the middle of its box may lie in another passage."""
    link = page.locator(f'.pane[data-side="{side}"] mark a[data-number="{number}"]').first
    x, y = link.evaluate("""(link) => {
        link.scrollIntoView({ block: "center" });
        const line = link.getClientRects()[0];
        return [line.x + line.width / 2, line.y + line.height / 2]; }""")
    page.mouse.click(x, y)


def list_serious(page: "Page") -> list[tuple[str, list[object]]]:
    """Return what axe-core calls serious or critical: its rules, and the first elements that break them."""
    pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    page.evaluate((resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    serious = [v for v in found if v["impact"] in {"serious", "critical"}]
    return [(v["id"], [node["target"] for node in v["nodes"][:3]]) for v in serious]
