"""Describe a check for the report, and write it: page, table, passages, and texts taken out of other formats."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pan_scdg.errors import UserError
from pan_scdg.jobs.check.texts import Material
from pan_scdg.jobs.requests import PAGE
from pan_scdg.own_files import COMPONENT_BYTES
from pan_scdg.progress import format_count
from pan_scdg.report.html import write_report
from pan_scdg.report.records import Report, ReportPair
from pan_scdg.report.table import format_csv, format_passages
from pan_scdg.report.wording import UNDECIDED

TABLE, PASSAGES = "report.csv", "passages.jsonl"
TEXTS = "texts"
AMONG = "the texts were compared among each other: which one of a pair was written first is unknown"


def make_report(
    material: Material,
    pairs: Sequence[ReportPair],
    threshold: float | None,
    facts: Mapping[str, Any],
    warnings: Sequence[str],
    left_out: int,
) -> Report:
    """Return the report of a check.

    ``left_out`` is the number of pairs that a first stage left out.
    """
    more = []
    if threshold is None:
        more.append(UNDECIDED)
    if material.among:
        more.append(AMONG)
    if left_out:
        more.append(f"{left_out:,} pairs are not listed: whatever their words, they cannot reach the threshold")
    left, right = len(material.suspicious), len(material.sources)
    others = "each other" if material.among else format_count(right, "source")
    return Report(
        f"{format_count(left, 'text')} compared with {others}",
        {text.shown.name: text.shown for text in material.suspicious},
        {text.shown.name: text.shown for text in material.sources},
        tuple(pairs),
        threshold,
        facts={**facts, "suspicious_texts": left, "sources": right},
        warnings=(*warnings, *more),
        among=material.among,
        table_file=TABLE,
        passages_file=PASSAGES,
    )


def write_files(folder: Path, material: Material, report: Report) -> list[str]:
    """Write all files into an empty folder; return their names, the page last.

    Raises:
        UserError: a text's name is too long for the file that it is kept in.
    """
    extracted = ((side, text.shown) for side, text in material.list_texts() if text.extracted)
    names = [_keep_text(folder, side, text.name, text.text) for side, text in extracted]
    (folder / TABLE).write_text(format_csv(report), encoding="utf-8", newline="")
    with open(folder / PASSAGES, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(format_passages(report))
    write_report(report, folder / PAGE)
    return [*names, PASSAGES, TABLE, PAGE]


def _keep_text(folder: Path, side: str, name: str, text: str) -> str:
    """Write a text that was taken out of another format; offsets refer to it."""
    kept = f"{TEXTS}/{name}.txt" if side == TEXTS else f"{TEXTS}/{side}/{name}.txt"
    if any(len(part.encode()) > COMPONENT_BYTES for part in kept.split("/")):
        raise UserError("the name is too long for the file that its text is kept in", "shorten it", name)
    (folder / kept).parent.mkdir(parents=True, exist_ok=True)
    (folder / kept).write_text(text, encoding="utf-8", newline="")
    return kept
