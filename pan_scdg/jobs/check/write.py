"""Write the files of a check: the page, the table, the passages, and the texts taken out of other formats."""

from pathlib import Path

from pan_scdg.errors import UserError
from pan_scdg.jobs.check.texts import CheckedText, Material
from pan_scdg.own_files import COMPONENT_BYTES
from pan_scdg.report.html import write_report
from pan_scdg.report.passage_lines import format_passages
from pan_scdg.report.records import Report
from pan_scdg.report.table import format_csv

PAGE, TABLE, PASSAGES = "report.html", "report.csv", "passages.jsonl"
TEXTS = "texts"


def write_files(folder: Path, material: Material, report: Report) -> list[str]:
    """Write all files into an empty folder; return their names, the page last.

    Raises:
        UserError: a text's name is too long for the file that it is kept in.
    """
    names = [_keep_text(folder, side, text.shown.name, text.shown.text) for side, text in _list_extracted(material)]
    (folder / TABLE).write_text(format_csv(report), encoding="utf-8", newline="")
    with open(folder / PASSAGES, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(format_passages(report))
    write_report(report, folder / PAGE)
    return [*names, PASSAGES, TABLE, PAGE]


def _list_extracted(material: Material) -> list[tuple[str, CheckedText]]:
    return [(side, text) for side, text in material.list_texts() if text.extracted]


def _keep_text(folder: Path, side: str, name: str, text: str) -> str:
    """Write a text that was taken out of another format; offsets refer to it."""
    kept = f"{TEXTS}/{name}.txt" if side == TEXTS else f"{TEXTS}/{side}/{name}.txt"
    if any(len(part.encode()) > COMPONENT_BYTES for part in kept.split("/")):
        raise UserError("the name is too long for the file that its text is kept in", "shorten it", name)
    (folder / kept).parent.mkdir(parents=True, exist_ok=True)
    (folder / kept).write_text(text, encoding="utf-8", newline="")
    return kept
