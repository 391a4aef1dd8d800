"""Write the report of a study: one page, every table in three formats, and a manifest of its inputs.

    index.md           method, data, tables, and differences from the paper
    tables/NAME.*      each table in Markdown, CSV and LaTeX
    manifest.json      inputs, profiles, models and libraries; no time, no path, no name of a machine
    prepared/, scores/, runs/, figures/  from the study itself

The same tables give the same bytes.
"""

import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import pan_scdg
from pan_scdg.digests import hash_file
from pan_scdg.jobs.output.mark import dump
from pan_scdg.own_files import write_atomically
from studies.data.folders import GIVEN
from studies.data.pair_sets import PairSet
from studies.data.prepared import Parts
from studies.data.token_counter import list_counted
from studies.report.table import (
    Table,
    escape_markdown,
    format_latex,
    format_markdown,
    format_table_csv,
    make_table,
)

PAGE, MANIFEST = "index.md", "manifest.json"
MOVING = ("numpy", "scipy", "scikit-learn", "torch", "transformers", "tokenizers", "sentence-transformers")
"""Libraries of which another version may change digits."""


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


def write_report(
    folder: Path, title: str, sections: Sequence[Section], files: Sequence[str], made_from: Mapping[str, Any]
) -> list[str]:
    """Write the report into ``folder``; return the names of all its files, the page last.

    Args:
        folder: an existing folder.
        title: the heading of the page.
        sections: the parts of the page, with all tables.
        files: names of the files that the study has written into the folder.
        made_from: entries of the manifest besides versions and files, as JSON values.
    """
    names = list(files)
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    for table in (table for section in sections for table in (*section.tables, *section.linked)):
        markdown = f"{escape_markdown(table.caption)}\n\n{format_markdown(table)}"
        texts = {"md": markdown, "csv": format_table_csv(table), "tex": format_latex(table)}
        for end, text in texts.items():
            names.append(f"tables/{table.name}.{end}")
            write_atomically(folder / names[-1], text)
    write_atomically(folder / PAGE, format_page(title, sections, files))
    digests = {name: hash_file(folder / name) for name in (*names, PAGE)}
    write_atomically(folder / MANIFEST, dump({**made_from, "versions": list_versions(), "files": digests}))
    return [*names, MANIFEST, PAGE]


def format_page(title: str, sections: Sequence[Section], files: Sequence[str]) -> str:
    """Return the text of the page, which links the folders of the files."""
    blocks = [f"# {escape_markdown(title)}"]
    for section in sections:
        blocks.append(f"## {escape_markdown(section.heading)}")
        blocks += [escape_markdown(text) for text in section.paragraphs]
        if section.points:
            blocks.append("\n".join(f"- {escape_markdown(text)}" for text in section.points))
        for table in section.tables:
            blocks += [f"{escape_markdown(table.caption)} ({_link(table)})", format_markdown(table).rstrip("\n")]
        blocks += [f"{escape_markdown(table.caption)}: {_link(table)}" for table in section.linked]
        blocks += [f"![{escape_markdown(name)}]({name})" for name in section.figures]
    blocks.append("## Files")
    folders = Counter(name.rpartition("/")[0] or name for name in files)
    lines = [f"- [{escape_markdown(n)}]({n}): {count} file{'s' if count > 1 else ''}" for n, count in folders.items()]
    blocks.append("\n".join([*lines, f"- [{MANIFEST}]({MANIFEST})"]))
    return "\n\n".join(blocks) + "\n"


def _link(table: Table) -> str:
    return ", ".join(f"[{end}](tables/{table.name}.{end})" for end in ("md", "csv", "tex"))


def list_versions() -> dict[str, str]:
    """Return the versions of this program, of Python, and of those of `MOVING` that are installed."""
    found = {"pan_scdg": pan_scdg.__version__, "python": platform.python_version()}
    for name in MOVING:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def make_origin_table(parts: Parts) -> Table:
    """Return the manifests and splits with their counts and their origin."""
    rows = []
    for part, artefacts in sorted(parts.items()):
        for artefact in artefacts:
            origin = "made here, not the paper's" if artefact.is_made else f"from {artefact.facts.get('from')}"
            rows.append({"Data": part, "Artefact": artefact.name, "Counts": artefact.counts, "Origin": origin})
    return make_table("data", "Manifests and splits", rows)


def list_made(parts: Parts) -> list[str]:
    """Return sentences on manifests and splits that were made, and on the tokenizer; none if all were given."""
    made = [
        (part, artefact.name)
        for part, artefacts in sorted(parts.items())
        for artefact in artefacts
        if artefact.is_made and not artefact.name.endswith("log")
    ]
    if not made:
        return []
    kinds = ", ".join(kind for kind in GIVEN if any(kind.startswith(f"{part}-") for part, _ in made))
    what = ", ".join(f"{part} {name}" for part, name in made)
    authors = f"The authors' files are taken with --given ({kinds})."
    return [f"Made here, since no file was given: {what}. {authors}", *list_counted(parts)]


def make_class_table(sets: Iterable[PairSet]) -> Table:
    """Return the numbers of pairs by class and of distinct documents of each set."""
    rows = [
        {
            "Data": pairs.name,
            "Pairs": len(pairs.ids),
            "Positive": int(pairs.labels.sum()),
            "Negative": int((~pairs.labels).sum()),
            "Documents": len(pairs.facts),
        }
        for pairs in sets
    ]
    return make_table("pairs", "Pairs that were scored", rows)
