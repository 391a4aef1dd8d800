"""A table of a report, in three forms: Markdown to be read, CSV with all digits, LaTeX (booktabs) for a paper.

Texts of cells may come from the user's data: each form escapes what would be markup in it, and what is not ASCII is
written as an escape, so that every LaTeX sets it.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Literal, NamedTuple

from pan_scdg.evaluation.report import Estimate
from pan_scdg.evaluation.report import format_cell as cell
from pan_scdg.research.data.membership import csv_text

_MARKDOWN = re.compile(r"([\\`*_~\[\]|#!])")
_LATEX = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\texttt{\char34}",  # \textquotedbl is not in the font encoding that LaTeX begins with
    "[": "{[}",  # behind the end of a row these two are an argument of it
    "*": "{*}",
    **{c: f"\\{c}" for c in "{}$&#%_"},
}
_FORMULA = ("=", "+", "-", "@")


class Percent(NamedTuple):
    """A share from 0 to 1, shown in percent."""

    share: float


Cell = str | int | float | Percent | Estimate | None


class Column(NamedTuple):
    """A column's name, and which of its values is the best one, shown bold."""

    name: str
    better: Literal["high", "low"] | None = None


class Row(NamedTuple):
    """A line of the table; rows of one group stand together under its name."""

    cells: tuple[Cell, ...]
    group: str = ""


@dataclass(frozen=True)
class Table:
    """A table with its name, which is that of its files.

    Raises:
        ValueError: a row has not one cell a column, or the name is no file name.
    """

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.name):
            raise ValueError(f"{self.name!r} is no name of a table")
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(f"{self.name}: {len(row.cells)} cells for {len(self.columns)} columns")


def shown(value: Cell) -> str:
    """The text of a cell: 4 decimals, percent as in the paper, ``-`` for what is missing or undefined."""
    if isinstance(value, Percent):
        return cell(value.share) if math.isnan(value.share) else f"{100 * value.share:.4f}%"
    return cell(value)


def markdown(text: str) -> str:
    """``text`` as it is, whatever is markup in it."""
    plain = cell(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN.sub(r"\\\1", plain)


def latex(text: str) -> str:
    """``text`` as LaTeX sets it, whatever is a command in it."""
    return "".join(_LATEX.get(c, c) for c in cell(text))


def markdown_table(table: Table) -> str:
    """The table in Markdown (GFM), groups as rows of their own."""
    best = _best(table)
    right = [_numeric(table, i) for i in range(len(table.columns))]
    lines = [
        _line(markdown(column.name) for column in table.columns),
        _line("---:" if r else "---" for r in right),
    ]
    for number, heading in _numbered(table):
        if heading:
            lines.append(_line([f"**{markdown(heading)}**", *[""] * (len(table.columns) - 1)]))
        texts = [markdown(shown(value)) for value in table.rows[number].cells]
        lines.append(_line(f"**{text}**" if (number, i) in best else text for i, text in enumerate(texts)))
    return "\n".join(lines) + "\n"


def _line(cells: Iterator[str] | Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def latex_table(table: Table) -> str:
    """A ``tabular`` with the rules of booktabs; of each column an arrow says that less is better."""
    best = _best(table)
    kinds = "".join("r" if _numeric(table, i) else "l" for i in range(len(table.columns)))
    heads = [latex(c.name) + (r"$\downarrow$" if c.better == "low" else "") for c in table.columns]
    lines = ["% needs \\usepackage{booktabs}", rf"\begin{{tabular}}{{@{{}}{kinds}@{{}}}}", r"\toprule", _row(heads)]
    if not any(row.group for row in table.rows):
        lines.append(r"\midrule")
    for number, heading in _numbered(table):
        if heading:
            lines += [r"\midrule", rf"\multicolumn{{{len(kinds)}}}{{@{{}}l}}{{\textbf{{{latex(heading)}}}}} \\"]
        texts = [latex(shown(value)) for value in table.rows[number].cells]
        lines.append(_row([rf"\textbf{{{text}}}" if (number, i) in best else text for i, text in enumerate(texts)]))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def csv_table(table: Table) -> str:
    """The table with all digits, empty where something is missing; an estimate takes three columns, a share is 0 to 1.

    A text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    wide = [any(isinstance(row.cells[i], Estimate) for row in table.rows) for i in range(len(table.columns))]
    grouped = any(row.group for row in table.rows)
    header = ["group"] if grouped else []
    for column, estimates in zip(table.columns, wide, strict=True):
        header += [column.name, *([f"{column.name} low", f"{column.name} high"] if estimates else [])]
    rows = []
    for row in table.rows:
        cells = [_safe(row.group)] if grouped else []
        for value, estimates in zip(row.cells, wide, strict=True):
            cells += _csv_cells(value, 3 if estimates else 1)
        rows.append(cells)
    return csv_text(header, rows)


def _csv_cells(value: Cell, count: int) -> list[str]:
    numbers = list(value) if isinstance(value, Estimate | Percent) else [value]
    return [*map(_csv_cell, numbers), *[""] * (count - len(numbers))]


def _csv_cell(value: str | int | float | None) -> str:
    if value is None or (not isinstance(value, str) and math.isnan(value)):
        return ""
    if isinstance(value, str):
        return _safe(value)
    return str(int(value)) if isinstance(value, Integral) else repr(float(value))


def _safe(text: str) -> str:
    plain = cell(text)
    return f"'{plain}" if plain.startswith(_FORMULA) else plain


def _numbered(table: Table) -> Iterator[tuple[int, str]]:
    """The number of each row, and the heading that is to stand before it, if any."""
    before = ""
    for number, row in enumerate(table.rows):
        yield number, row.group if row.group != before else ""
        before = row.group


def _numeric(table: Table, column: int) -> bool:
    return all(not isinstance(row.cells[column], str) for row in table.rows)


def _best(table: Table) -> set[tuple[int, int]]:
    """Row and column of the best displayed values of each column that has such; equal ones are all best."""
    found = set()
    for i, column in enumerate(table.columns):
        values = {n: _number(row.cells[i]) for n, row in enumerate(table.rows)}
        known = {n: value for n, value in values.items() if not math.isnan(value)}
        if column.better is not None and known:
            pick = max if column.better == "high" else min
            top = shown(pick(known.values()))
            found |= {(n, i) for n, value in known.items() if shown(value) == top}
    return found


def _number(value: Cell) -> float:
    if isinstance(value, Percent | Estimate):
        return float(value[0])
    return math.nan if value is None or isinstance(value, str) else float(value)
