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


def has_all(line: str, shown: list[str]) -> bool:
    return all(any(is_rounded(number, other) for other in list_numbers(line)) for number in shown)


def find_line(figure: str, names: tuple[str, ...]) -> str | None:
    """Return a line of these files that has all numbers of a figure."""
    shown = list_numbers(figure)
    for name in names:
        for line in (RESULTS / name).read_text(encoding="utf-8").splitlines():
            if has_all(line, shown):
                return line
    return None


SECTION = "Accuracy and limits"
README_FIGURES = [
    (cell, README_SOURCES) for row in list_rows(ROOT / "README.md", SECTION) for cell in row[2:] if list_numbers(cell)
]
DOCS_FIGURES = [
    (part, tuple(NAMED.findall(row[2])))
    for row in list_rows(ROOT / "docs" / "reproduce.md", "Status of each claim")
    if "benchmarks/results" in row[2]
    for part in re.split(r"; |, (?=\D)", row[1])
    if list_numbers(part)
]


PROSE = [
    ("rewritten ones (0.96)", "verdicts.md", "passage-inside"),
    ("most summaries (0.79)", "verdicts.md", "summary-inside"),
    ("8 % (12 of 152) are called reuse", "verdicts.md", "same-question"),
    ("(AUROC 0.92 [0.89, 0.95] on 288 of these pairs)", "readme-figures.md", "AUROC"),
]
"""What the README says below its table, and the row of a results file that has its numbers."""
FOUND, LEAST = ("altered-inside", "verbatim-inside", "pan13, random", "pan13, translation"), "(AUROC 0.98 or more)"
"""Copied, altered, reordered and translated passages."""
OWN_DATA = [
    ("all called reuse (150 of 150)", "a notice"),
    ("Of the 150 pairs, 3 with the same quotation", "a quotation with its author"),
    ("10 with the same list", "a list of eight references"),
    ("3 with neither", "nothing"),
    ("0.035 (4 of 114)", "8"),
    ("32 of 108 in the development set", "summary-inside"),
]
"""What `docs/own-data.md` says of texts with parts in common and of long texts, and the rows of `verdicts.md`."""


def read_prose() -> str:
    """Return the README's words below its table of figures, on one line."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition(f"\n## {SECTION}\n")[2].partition("\n## ")[0]
    return " ".join(section.rpartition("|\n")[2].split())


def find_rows(name: str, first: str) -> list[str]:
    lines = (RESULTS / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith(f"| {first} |")]


@pytest.mark.parametrize(("words", "name", "first"), PROSE)
def test_a_figure_in_a_sentence_stands_in_its_row(words: str, name: str, first: str) -> None:
    assert words in read_prose()
    assert any(has_all(row, list_numbers(words)) for row in find_rows(name, first))


@pytest.mark.parametrize(("words", "first"), OWN_DATA)
def test_a_figure_about_own_data_stands_in_its_row(words: str, first: str) -> None:
    assert words in " ".join((ROOT / "docs" / "own-data.md").read_text(encoding="utf-8").split())
    assert any(has_all(row, list_numbers(words)) for row in find_rows("verdicts.md", first))


def test_the_kinds_that_are_found_reach_what_is_said() -> None:
    assert LEAST in read_prose()
    found = [float(list_numbers(find_rows("verdicts.md", kind)[0].split("|")[3])[0]) for kind in FOUND]
    assert min(found) >= float(list_numbers(LEAST)[0])


def test_no_other_figure_stands_in_a_sentence() -> None:
    rest = read_prose()
    for words in (LEAST, *(words for words, _, _ in PROSE)):
        rest = rest.replace(words, "")
    assert list_numbers(rest) == []


@pytest.mark.parametrize(("figure", "sources"), [*README_FIGURES, *DOCS_FIGURES])
def test_a_figure_stands_in_a_line_of_a_results_file(figure: str, sources: tuple[str, ...]) -> None:
    figure = re.sub(r"\(.*", "", figure)
    assert find_line(figure, sources), f"{figure!r} is in no line of {', '.join(sources)}"


def test_other_figures_are_found_out() -> None:
    assert len(README_FIGURES) > 5
    assert len(DOCS_FIGURES) > 10
    assert find_line("0.98 [0.97, 0.98]", README_SOURCES)
    assert find_line("0.981 [0.123, 0.98]", README_SOURCES) is None
