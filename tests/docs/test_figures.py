"""Figures in README and docs are those of the results files that they name, rounded."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
NUMBER = re.compile(r"(?<![\w.-])\d[\d,]*(?:\.\d+)?|(?<![\w.])\.\d+")
NAMED = re.compile(r"`(?:benchmarks/results/)?([\w.-]+\.md)`")
README_SOURCES = ("verdicts.md", "passages.md", "readme-figures.md", "retrieval-match.md")


def list_rows(path: Path, heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, without its head."""
    text = path.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert table, heading
    return [[cell.strip() for cell in line.strip("|\n ").split("|")] for line in table[0].splitlines()[2:]]


def list_numbers(text: str) -> list[str]:
    return [number.replace(",", "") for number in NUMBER.findall(text)]


def is_rounded(shown: str, measured: str) -> bool:
    """Return True if a number is the other one with fewer digits, or that in percent."""
    digits = len(shown.partition(".")[2])
    return any(abs(float(measured) * factor - float(shown)) <= 0.5000001 * 10**-digits for factor in (1, 100))


def find_line(figure: str, names: tuple[str, ...]) -> str | None:
    """Return a line of these files that has all numbers of a figure."""
    shown = list_numbers(figure)
    for name in names:
        for line in (RESULTS / name).read_text(encoding="utf-8").splitlines():
            measured = list_numbers(line)
            if all(any(is_rounded(number, other) for other in measured) for number in shown):
                return line
    return None


README_FIGURES = [
    (cell, README_SOURCES)
    for row in list_rows(ROOT / "README.md", "What the bundled default can and cannot do")
    for cell in row[2:]
    if list_numbers(cell)
]
DOCS_FIGURES = [
    (part, tuple(NAMED.findall(row[2])))
    for row in list_rows(ROOT / "docs" / "reproduce.md", "What was run and what was not")
    if "benchmarks/results" in row[2]
    for part in re.split(r"; |, (?=\D)", row[1])
    if list_numbers(part)
]


@pytest.mark.parametrize(("figure", "sources"), [*README_FIGURES, *DOCS_FIGURES])
def test_a_figure_stands_in_a_line_of_a_results_file(figure: str, sources: tuple[str, ...]) -> None:
    figure = re.sub(r"\(.*", "", figure)
    assert find_line(figure, sources), f"{figure!r} is in no line of {', '.join(sources)}"


def test_other_figures_are_found_out() -> None:
    assert len(README_FIGURES) > 5
    assert len(DOCS_FIGURES) > 10
    assert find_line("0.97 [0.97, 0.98]", README_SOURCES)
    assert find_line("0.971 [0.123, 0.98]", README_SOURCES) is None
