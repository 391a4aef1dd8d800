"""The folder in which a study reports: one page, every table in three forms, and what it all was made from.

    index.md           what was studied, on what data, the tables, and what is not the paper's
    tables/NAME.*      each table in Markdown, CSV and LaTeX
    manifest.json      inputs, profiles, models and libraries; no time, no path, no name of a machine
    and what the study puts beside them: prepared/, scores/, figures/

The same tables give the same bytes.
"""

import platform
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import pan_scdg
from pan_scdg.digests import file_digest
from pan_scdg.own_files import write_atomically
from pan_scdg.research.data.records import json_text
from pan_scdg.research.report.table import Table, csv_table, latex_table, markdown, markdown_table

PAGE, MANIFEST = "index.md", "manifest.json"
MOVING = ("numpy", "scipy", "scikit-learn", "torch", "transformers", "tokenizers", "sentence-transformers")
"""Libraries another version of which may move digits."""


class Section(NamedTuple):
    """A part of the page; texts are plain, and what looks like markup in them is shown as it is."""

    heading: str
    paragraphs: Sequence[str] = ()
    points: Sequence[str] = ()
    tables: Sequence[Table] = ()
    linked: Sequence[Table] = ()
    """Tables that are too long for the page."""
    figures: Sequence[str] = ()
    """Names of image files in the folder."""


class Report(NamedTuple):
    """All that a study has to say."""

    title: str
    sections: Sequence[Section]
    files: Sequence[str] = ()
    """Names of files that are in the folder already."""
    made_from: Mapping[str, Any] = {}
    """What the manifest says besides versions and files, as JSON values."""


def write_report(folder: Path, report: Report) -> list[str]:
    """Write the report into ``folder``; the names of all its files, the page last.

    Raises:
        ValueError: two tables have one name.
    """
    tables = [table for section in report.sections for table in (*section.tables, *section.linked)]
    if len({table.name for table in tables}) < len(tables):
        raise ValueError(f"two tables have one name: {[table.name for table in tables]}")
    names = list(report.files)
    for table in tables:
        for name, text in _forms(table):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / name, text)
            names.append(name)
    write_atomically(folder / PAGE, page(report))
    files = {name: file_digest(folder / name) for name in (*names, PAGE)}
    write_atomically(folder / MANIFEST, json_text({**report.made_from, "versions": versions(), "files": files}))
    return [*names, MANIFEST, PAGE]


def _forms(table: Table) -> Iterator[tuple[str, str]]:
    yield f"tables/{table.name}.md", f"{markdown(table.caption)}\n\n{markdown_table(table)}"
    yield f"tables/{table.name}.csv", csv_table(table)
    yield f"tables/{table.name}.tex", latex_table(table)


def page(report: Report) -> str:
    """The text of the page."""
    blocks = [f"# {markdown(report.title)}"]
    for section in report.sections:
        blocks.append(f"## {markdown(section.heading)}")
        blocks += [markdown(text) for text in section.paragraphs]
        if section.points:
            blocks.append("\n".join(f"- {markdown(text)}" for text in section.points))
        for table in section.tables:
            blocks += [f"{markdown(table.caption)} ({_links(table)})", markdown_table(table).rstrip("\n")]
        blocks += [f"{markdown(table.caption)}: {_links(table)}" for table in section.linked]
        blocks += [f"![{markdown(name)}]({name})" for name in section.figures]
    blocks.append("## Files")
    folders = Counter(name.rpartition("/")[0] or name for name in report.files)
    lines = [f"- [{markdown(name)}]({name}): {count} file{'s' if count > 1 else ''}" for name, count in folders.items()]
    blocks.append("\n".join([*lines, f"- [{MANIFEST}]({MANIFEST})"]))
    return "\n\n".join(blocks) + "\n"


def _links(table: Table) -> str:
    return ", ".join(f"[{end}](tables/{table.name}.{end})" for end in ("md", "csv", "tex"))


def versions() -> dict[str, str]:
    """This program, Python, and those of `MOVING` that are installed."""
    found = {"pan_scdg": pan_scdg.__version__, "python": platform.python_version()}
    for name in MOVING:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
