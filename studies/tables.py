"""Write the report of a study: ``index.md`` to read, and ``tables.json`` with all digits and their sources."""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import pan_scdg
from pan_scdg.errors import UserError
from pan_scdg.evaluation.report import Estimate, format_cell

PAGE, TABLES = "index.md", "tables.json"
_MARKDOWN = re.compile(r"([\\`*_~\[\]|#!])")


class Percent(NamedTuple):
    """A share from 0 to 1, shown in percent."""

    share: float


class Interval(NamedTuple):
    """The ends of an interval."""

    low: float | Percent
    high: float | Percent


Cell = str | int | float | Percent | Estimate | Interval | None
Row = Mapping[str, Cell]
"""Cells by column."""


class Table(NamedTuple):
    """A table of a report."""

    name: str
    caption: str
    rows: Sequence[Row]
    better: Mapping[str, Callable[[Iterable[float]], float]] = {}
    """The columns whose best values are bold and second best underlined: ``max`` or ``min``."""
    groups: Sequence[str] = ()
    """The heading of each row; rows of one heading follow each other. Empty: no headings."""
    on_page: bool = True
    """False for a long table, which is in the JSON file only."""

    @property
    def columns(self) -> list[str]:
        """Return the columns of all rows, in the order in which they occur."""
        return list(dict.fromkeys(name for row in self.rows for name in row))


class Section(NamedTuple):
    """A part of the page; texts are plain, and what looks like markup in them is shown as it is."""

    heading: str
    points: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[str] = ()
    """Names of image files in the folder."""


def name_missing(table: Table, names: Sequence[str]) -> Table:
    """Return the table with an empty row at its end for each row of the paper that has no result."""
    if not names:
        return table
    rows = [*table.rows, *({table.columns[0]: name} for name in names)]
    return table._replace(rows=rows, groups=[*(table.groups or [""] * len(table.rows)), *["Not computed"] * len(names)])


def check_output(output: Path, overwrite: bool) -> None:
    """Raise UserError unless ``output`` is a new or empty folder, or with ``overwrite`` that of a former report."""
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    if not (output / TABLES).is_file():
        raise UserError("exists and is not the output of a study", "choose another --output", output)
    if not overwrite:
        raise UserError("contains the output of a study", "choose another --output, or --overwrite", output)


def write_report(
    output: Path,
    title: str,
    sections: Sequence[Section],
    sources: Mapping[str, Any],
    files: Mapping[str, str] | None = None,
) -> None:
    """Write the page, the tables and other files; the same tables give the same bytes.

    ``sources`` are JSON values that say what the tables are made from, ``files`` further files by their names.
    """
    tables = {table.name: _make_json(table) for section in sections for table in section.tables}
    record = {"title": title, "tables": tables, "sources": sources, "version": pan_scdg.__version__}
    content = {**(files or {}), PAGE: format_page(title, sections), TABLES: json.dumps(record, indent=1) + "\n"}
    for name, data in content.items():
        path = output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(data, encoding="utf-8")


def format_page(title: str, sections: Sequence[Section]) -> str:
    """Return the text of the page in Markdown."""
    blocks = [f"# {escape_markdown(title)}"]
    for section in sections:
        blocks.append(f"## {escape_markdown(section.heading)}")
        if section.points:
            blocks.append("\n".join(f"- {escape_markdown(text)}" for text in section.points))
        for table in section.tables:
            caption = escape_markdown(table.caption)
            if table.on_page:
                blocks += [caption, format_markdown(table)]
            else:
                blocks.append(f"{caption}: `{table.name}` in [{TABLES}]({TABLES})")
        blocks += [f"![{escape_markdown(name)}]({name})" for name in section.figures]
    return "\n\n".join(blocks) + "\n"


def format_markdown(table: Table) -> str:
    """Return the table in Markdown (GFM), with headings of groups as rows.

    The best and the second-best distinct values, as they are shown, are bold and underlined, as in the paper.
    """
    columns = table.columns
    texts = [[escape_markdown(show(row.get(name))) for name in columns] for row in table.rows]
    for name, choose in table.better.items():
        column = columns.index(name)
        numbers = [_to_number(row.get(name)) for row in table.rows]
        shown = {cells[column]: n for cells, n in zip(texts, numbers, strict=True) if not math.isnan(n)}
        for begin, end in (("**", "**"), ("<ins>", "</ins>")):
            if shown:
                chosen = choose(shown.values())
                best = next(text for text, number in shown.items() if number == chosen)
                del shown[best]
                for cells in texts:
                    cells[column] = f"{begin}{best}{end}" if cells[column] == best else cells[column]
    numeric = [not any(isinstance(row.get(name), str) for row in table.rows) for name in columns]
    lines = [[escape_markdown(name) for name in columns], ["---:" if right else "---" for right in numeric]]
    groups = table.groups or [""] * len(texts)
    for former, group, cells in zip(["", *groups], groups, texts):
        if group != former:
            lines.append([f"**{escape_markdown(group)}**", *[""] * (len(columns) - 1)])
        lines.append(cells)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def show(value: Cell) -> str:
    """Return the text of a cell: 4 decimals, percent as in the paper, ``-`` if it is missing or undefined."""
    if isinstance(value, Percent):
        return format_cell(value.share) if math.isnan(value.share) else f"{100 * value.share:.4f}%"
    if isinstance(value, Interval):
        return f"[{show(value.low)}, {show(value.high)}]"
    return format_cell(value)


def slugify(name: str) -> str:
    """Return the name of a row as part of a file name."""
    return re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")[:60]


def escape_markdown(text: str) -> str:
    """Return Markdown that shows ``text`` as it is."""
    plain = format_cell(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN.sub(r"\\\1", plain)


def _to_number(value: Cell) -> float:
    if isinstance(value, Percent | Estimate):
        return float(value[0])
    return math.nan if value is None or isinstance(value, str | Interval) else float(value)


def _make_json(table: Table) -> dict[str, Any]:
    groups = [{"group": group} for group in table.groups] or [{}] * len(table.rows)
    rows = [
        {**group, **{name: _convert_cell(value) for name, value in row.items()}}
        for group, row in zip(groups, table.rows, strict=True)
    ]
    return {"caption": table.caption, "rows": rows}


def _convert_cell(value: Cell) -> Any:
    """Return a JSON value: an estimate or interval by its fields, a share from 0 to 1, null for what is undefined."""
    if isinstance(value, Estimate | Interval):
        return {name: _convert_cell(number) for name, number in value._asdict().items()}
    if isinstance(value, Percent):
        return _convert_cell(value.share)
    if isinstance(value, np.generic):
        return _convert_cell(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value
