"""Format a table of a report: Markdown to read, CSV with all digits, LaTeX (booktabs) for a paper.

Texts of cells may come from the user's data: each format escapes what would be markup in it, and characters that are
not ASCII are written as escapes, so that every LaTeX sets them.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

from pan_scdg.evaluation.report import Estimate, format_cell
from pan_scdg.report.table import escape_formula
from studies.data.records import format_csv

if TYPE_CHECKING:
    from pandas import DataFrame, Series

GROUP = "group"
"""Column with the heading under which the row stands."""
_MARKDOWN = re.compile(r"([\\`*_~\[\]|#!])")
_LATEX = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\texttt{\char34}",  # \textquotedbl is not in the font encoding that LaTeX begins with
    "[": "{[}",  # after the end of a row these two are an argument of it
    "*": "{*}",
    **{c: f"\\{c}" for c in "{}$&#%_"},
}


class Percent(NamedTuple):
    """A share from 0 to 1, shown in percent."""

    share: float


Cell = str | int | float | Percent | Estimate | None


class Table(NamedTuple):
    """A table."""

    name: str
    """That of its files."""
    caption: str
    rows: "DataFrame"
    better: Mapping[str, str]
    """The columns whose best values are bold: ``high`` or ``low`` values."""

    @property
    def body(self) -> "DataFrame":
        """Return the rows without the column of groups."""
        return self.rows.drop(columns=GROUP, errors="ignore")


def make_table(
    name: str,
    caption: str,
    rows: Iterable[Mapping[str, Any]],
    better: Mapping[str, str] | None = None,
    columns: Sequence[str] | None = None,
) -> Table:
    """Return a table.

    Args:
        name: the name of its files.
        caption: the line above it.
        rows: the cells (`Cell`) of each row, by column.
        better: the columns whose best values are bold: ``high`` or ``low`` values.
        columns: the columns, for a table that may have no rows.
    """
    import pandas

    return Table(name, caption, pandas.DataFrame(list(rows), columns=columns, dtype=object), better or {})


def show(value: Cell) -> str:
    """Return the text of a cell: 4 decimals, percent as in the paper, ``-`` if it is missing or undefined."""
    if isinstance(value, Percent):
        return format_cell(value.share) if math.isnan(value.share) else f"{100 * value.share:.4f}%"
    return format_cell(value)


def escape_markdown(text: str) -> str:
    """Return Markdown that shows ``text`` as it is."""
    plain = format_cell(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN.sub(r"\\\1", plain)


def escape_latex(text: str) -> str:
    """Return LaTeX that shows ``text`` as it is."""
    return "".join(_LATEX.get(c, c) for c in format_cell(text))


def format_markdown(table: Table) -> str:
    """Return the table in Markdown (GFM), groups as rows of their own."""
    body = table.body
    lines = [
        _join_cells(escape_markdown(name) for name in body),
        _join_cells("---:" if _is_numeric(body[name]) else "---" for name in body),
    ]
    for heading, cells in _format_rows(table, escape_markdown, ("**", "**")):
        if heading:
            lines.append(_join_cells([f"**{escape_markdown(heading)}**", *[""] * (len(cells) - 1)]))
        lines.append(_join_cells(cells))
    return "\n".join(lines) + "\n"


def _join_cells(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def format_latex(table: Table) -> str:
    """Return a ``tabular`` with the rules of booktabs; an arrow marks columns in which less is better."""
    body = table.body
    kinds = "".join("r" if _is_numeric(body[name]) else "l" for name in body)
    heads = [escape_latex(name) + (r"$\downarrow$" if table.better.get(name) == "low" else "") for name in body]
    rows = [" & ".join(heads) + r" \\"]
    if GROUP not in table.rows:
        rows.append(r"\midrule")
    for heading, cells in _format_rows(table, escape_latex, (r"\textbf{", "}")):
        if heading:
            title = rf"\multicolumn{{{len(kinds)}}}{{@{{}}l}}{{\textbf{{{escape_latex(heading)}}}}} \\"
            rows += [r"\midrule", title]
        rows.append(" & ".join(cells) + r" \\")
    begin = ["% needs \\usepackage{booktabs}", rf"\begin{{tabular}}{{@{{}}{kinds}@{{}}}}", r"\toprule"]
    return "\n".join([*begin, *rows, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _format_rows(table: Table, escape: Callable[[str], str], bold: tuple[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the cells of each row, the best ones bold, with the heading to put before the row or an empty one."""
    texts = table.body.map(lambda value: escape(show(value)))
    for name, better in table.better.items():
        best = _find_best(table.rows[name], better)
        texts.loc[best, name] = bold[0] + texts.loc[best, name] + bold[1]
    groups = list(table.rows[GROUP]) if GROUP in table.rows else [""] * len(texts)
    for row, (before, group) in enumerate(zip(["", *groups], groups)):
        yield group if group != before else "", list(texts.iloc[row])


def _find_best(column: "Series", better: str) -> "Series":
    """Return True for each value of a column that is shown as the best one is."""
    numbers = column.map(_to_number).astype(float)
    top = show(numbers.max() if better == "high" else numbers.min())
    return numbers.notna() & (numbers.map(show) == top)


def _to_number(value: Cell) -> float:
    if isinstance(value, Percent | Estimate):
        return float(value[0])
    return math.nan if value is None or isinstance(value, str) else float(value)


def _is_numeric(column: "Series") -> bool:
    return not any(isinstance(value, str) for value in column)


def format_table_csv(table: Table) -> str:
    """Return the table with all digits, empty for missing values; an estimate takes three columns, a share is 0 to 1.

    A text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    columns: dict[str, list[str]] = {}
    for name, values in table.rows.items():
        if any(isinstance(value, Estimate) for value in values):
            estimates = [value or (None, None, None) for value in values]
            for i, suffix in enumerate(("", " low", " high")):
                columns[f"{name}{suffix}"] = [_format_exactly(estimate[i]) for estimate in estimates]
        else:
            columns[name] = [_format_exactly(value) for value in values]
    columns = {GROUP: columns.pop(GROUP), **columns} if GROUP in columns else columns
    return format_csv(columns, zip(*columns.values()))


def _format_exactly(value: Cell) -> str:
    if isinstance(value, str):
        return escape_formula(format_cell(value))
    if isinstance(value, Integral):
        return str(int(value))
    number = _to_number(value)
    return "" if math.isnan(number) else repr(number)
