"""The pairs and passages of a report for other programs, and the best pairs for a terminal."""

import csv
import io
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from pan_scdg.align.passages import Evidence
from pan_scdg.errors import escape_controls
from pan_scdg.evaluation.report import format_table
from pan_scdg.pan.detections import format_decision
from pan_scdg.report.records import Report, ReportPair
from pan_scdg.sentences import find_sentence_spans

COLUMNS = ("rank", "judgement", "score", "threshold", "suspicious", "source", "passages", "covered", "verbatim")
NOT_READ = "not read"
MAX_ROWS_SHOWN = 20
MAX_NAME_CHARACTERS = 40
"""Longest name in the table of a terminal; of a longer one the end is shown."""
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def format_csv(report: Report) -> str:
    """Return the pairs as CSV (RFC 4180), best first, then the files that could not be read.

    A text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow([*COLUMNS, "warnings"])
    for rank, pair in enumerate(report.pairs, 1):
        shares = measure_passages(pair, len(report.suspicious[pair.suspicious].text))
        names = pair.suspicious, pair.source
        row = (rank, pair.decision, pair.score, report.threshold, *names, len(pair.passages), *shares)
        writer.writerow([*map(_format_field, row), escape_formula(escape_controls("; ".join(pair.warnings)))])
    for name, reason in report.not_read.items():
        writer.writerow(map(_format_field, ("", NOT_READ, "", "", name, "", "", "", "", reason)))
    return file.getvalue()


def _format_field(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6f}"
    return "" if value is None else escape_formula(escape_controls(str(value)))


def escape_formula(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.lstrip(" ").startswith(FORMULA_STARTS) else text


def format_best(table: str) -> str:
    """Return the best pairs of a CSV table that are likely or unclear, for a terminal; empty without such pairs."""
    rows: list[dict[str, object]] = []
    for fields in csv.DictReader(io.StringIO(table)):
        if fields["judgement"] not in ("no sign", NOT_READ):
            row: dict[str, object] = {**fields}
            row |= {name: int(fields[name]) for name in ("rank", "passages")}
            row |= {name: _shorten(fields[name]) for name in ("suspicious", "source")}
            row["score"] = f"{float(fields['score']):.3f}" if fields["score"] else None
            row |= {name: f"{100 * float(fields[name]):.0f} %" for name in ("covered", "verbatim")}
            rows.append(row)
    return format_table(rows[:MAX_ROWS_SHOWN], [name for name in COLUMNS if name != "threshold"]) if rows else ""


def _shorten(name: str) -> str:
    return name if len(name) <= MAX_NAME_CHARACTERS else f"...{name[3 - MAX_NAME_CHARACTERS :]}"


def measure_passages(pair: ReportPair, length: int) -> tuple[float, float]:
    """Return the share of a text that passages cover, and the share of these that is verbatim, each from 0 to 1.

    Args:
        pair: the pair.
        length: of its suspicious text in characters.
    """
    # those of texts compared with each other may overlap on this side
    covered = end = 0
    for passage in sorted(pair.passages, key=lambda passage: passage.begin):
        covered += max(0, passage.end - max(end, passage.begin))
        end = max(end, passage.end)
    total = sum(passage.end - passage.begin for passage in pair.passages)
    verbatim = sum(passage.verbatim * (passage.end - passage.begin) for passage in pair.passages)
    return covered / max(1, length), verbatim / max(1, total)


def format_passages(report: Report) -> Iterator[str]:
    """Yield a line of ``passages.jsonl`` for each passage of each pair, in the order of the report.

    ``begin`` and ``end`` are characters of the suspicious text, ``begin2`` and ``end2`` of the source; ``sentences``
    and ``sentences2`` are the whole sentences around them.
    """
    for pair in report.pairs:
        for passage in pair.passages:
            yield format_decision(_describe_passage(report, pair, passage))


def _describe_passage(report: Report, pair: ReportPair, passage: Evidence) -> Mapping[str, Any]:
    left, right = report.suspicious[pair.suspicious].text, report.sources[pair.source].text
    return {
        "suspicious": pair.suspicious,
        "source": pair.source,
        **passage.to_json(),
        "sentences": list_sentences(left, passage.begin, passage.end),
        "sentences2": list_sentences(right, passage.begin2, passage.end2),
        "note": passage.note,
    }


def list_sentences(text: str, begin: int, end: int) -> list[str]:
    """Return the sentences of a text that have a character between two places, without white space around them."""
    starts, ends = _find_sentences(text)
    chosen = range(bisect_right(ends, begin), bisect_left(starts, end))
    return [sentence for i in chosen if (sentence := text[starts[i] : ends[i]].strip())]


@lru_cache(maxsize=256)
def _find_sentences(text: str) -> tuple[list[int], list[int]]:
    spans = find_sentence_spans(text)
    return [start for start, _ in spans], [end for _, end in spans]
