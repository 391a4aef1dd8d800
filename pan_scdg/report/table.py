"""The pairs of a report as a table: ``report.csv``, and the best of them for a terminal."""

import csv
import io
from collections.abc import Iterator

from pan_scdg.errors import one_line
from pan_scdg.evaluation.report import format_table
from pan_scdg.report.records import Report, ReportPair

COLUMNS = ("rank", "judgement", "score", "threshold", "suspicious", "source", "passages", "covered", "verbatim")
MOST_SHOWN = 20
MOST_CHARACTERS = 40
"""Longest name in the table of a terminal; of a longer one the end is shown."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def format_csv(report: Report) -> str:
    """Return the pairs as CSV (RFC 4180), best first.

    A text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow([*COLUMNS, "warnings"])
    for row, pair in zip(_list_rows(report), report.pairs, strict=True):
        writer.writerow([*map(_format_field, row), escape_formula(one_line("; ".join(pair.warnings)))])
    return file.getvalue()


def _format_field(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6f}"
    return "" if value is None else escape_formula(one_line(str(value)))


def escape_formula(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text


def format_best(table: str) -> str:
    """Return the best pairs of a CSV table that are likely or unclear, for a terminal; empty if there is none."""
    rows: list[dict[str, object]] = []
    for found in csv.DictReader(io.StringIO(table)):
        if found["judgement"] != "no sign":
            row: dict[str, object] = {**found}
            row |= {name: int(found[name]) for name in ("rank", "passages")}
            row |= {name: _shorten(found[name]) for name in ("suspicious", "source")}
            row["score"] = f"{float(found['score']):.3f}" if found["score"] else None
            row |= {name: f"{100 * float(found[name]):.0f} %" for name in ("covered", "verbatim")}
            rows.append(row)
    return format_table(rows[:MOST_SHOWN], [name for name in COLUMNS if name != "threshold"]) if rows else ""


def _shorten(name: str) -> str:
    return name if len(name) <= MOST_CHARACTERS else f"...{name[3 - MOST_CHARACTERS :]}"


def _list_rows(report: Report) -> Iterator[tuple[object, ...]]:
    """Yield the columns of each pair."""
    for rank, pair in enumerate(report.pairs, 1):
        length = len(report.suspicious[pair.suspicious].text)
        yield (
            rank,
            pair.judgement,
            pair.score,
            report.threshold,
            pair.suspicious,
            pair.source,
            len(pair.passages),
            *measure_passages(pair, length),
        )


def measure_passages(pair: ReportPair, length: int) -> tuple[float, float]:
    """Return the share of a text that passages cover, and the share of these that is verbatim, each from 0 to 1.

    Args:
        pair: the pair.
        length: of its suspicious text in characters.
    """
    covered = sum(passage.end - passage.begin for passage in pair.passages)
    verbatim = sum(passage.verbatim * (passage.end - passage.begin) for passage in pair.passages)
    return covered / max(1, length), verbatim / max(1, covered)
