"""The documentation as data: its pages in reading order, and their marked code blocks."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
BLOCK = re.compile(r"(?:<!-- (run|needs: [^\n]+) -->\n)?```(sh|python)\n(.*?)```", re.S)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


class Command(NamedTuple):
    """A line of a shell block, without its comment."""

    text: str
    needs: str
    """Empty for a command that runs anywhere."""
    long: bool
    """It is a shell command of docs/: the gate only parses it."""


class Block(NamedTuple):
    """A code block."""

    marker: str
    language: str
    body: str


def list_pages() -> list[Path]:
    """Return the README, then the pages of docs/ in the order in which its list links to them."""
    listed = README.read_text(encoding="utf-8").partition("\n## Documentation\n")[2].partition("\n## ")[0]
    return [README, *dict.fromkeys(ROOT / link for link in LINK.findall(listed) if link.startswith("docs/"))]


def find_blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page that are marked ``sh`` or ``python``."""
    return [Block(*found) for found in BLOCK.findall(page.read_text(encoding="utf-8"))]


def find_commands() -> list[Command]:
    """Return the lines of all shell blocks in reading order; a Python block that runs is one command, its text."""
    found = []
    for path, block in ((page, block) for page in list_pages() for block in find_blocks(page)):
        needs = block.marker.removeprefix("needs: ") if block.marker.startswith("needs: ") else ""
        long = path != README
        if block.language == "python":
            found.append(Command(block.body, needs, long=False))
        else:
            lines = (line.partition(" #")[0].strip() for line in block.body.splitlines())
            found += [Command(line, needs, long) for line in lines if line and not line.startswith("#")]
    return found


def find_anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, made as GitHub makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
