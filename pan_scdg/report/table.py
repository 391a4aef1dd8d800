"""The texts, pairs and passages of a report for other programs, and the best of them for a terminal."""

import csv
import io
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from pan_scdg.errors import escape_controls
from pan_scdg.evaluation.report import format_table
from pan_scdg.records import Span
from pan_scdg.report.ranking import is_next, is_swapped, measure_points, measure_text_share, rank_suspicious
from pan_scdg.report.records import Report
from pan_scdg.report.wording import LOOK_NEXT, describe_reasons, format_share
from pan_scdg.results.records import DecidedPair
from pan_scdg.text.sentences import find_sentence_spans

PAIR_COLUMNS = (
    "rank",
    "decision",
    "points",
    "score",
    "threshold",
    "suspicious",
    "source",
    "passages",
    "share",
    "verbatim",
    "warnings",
)
TEXT_COLUMNS = ("rank", "text", "decision", "points", "score", "share", "sources", "warnings")
NOT_READ = "not read"
OTHER_SIDES = ("sources/", "old/")
"""Beginnings of the names of files that are no suspicious texts and could not be read."""
MAX_ROWS_SHOWN = 20
MAX_NEXT_SHOWN = 3
MAX_NAME_CHARACTERS = 40
"""Longest name in the table of a terminal; of a longer one the end is shown."""
SEPARATOR = "; "
"""Between the sources of a text, and between warnings."""
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
ENCODING = "utf-8-sig"
"""Spreadsheets take a file without this mark for one in an older encoding."""


def format_pairs(report: Report) -> str:
    """Return the pairs as CSV (RFC 4180), best first, then the files that could not be read.

    A text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    rows: list[tuple[object, ...]] = []
    for rank, pair in enumerate(report.pairs, 1):
        points = measure_points(pair.score, report.threshold)
        names = pair.suspicious, pair.source
        share = measure_text_share(report.suspicious, pair.suspicious, [pair])
        shares = format_share(share), format_share(measure_verbatim(pair))
        scores = points, pair.score, report.threshold
        rows.append(
            (
                rank,
                pair.finding,
                *scores,
                *names,
                len(pair.passages),
                *shares,
                SEPARATOR.join(describe_reasons(pair.record)),
            )
        )
    rows += [("", NOT_READ, "", "", "", name, "", "", "", "", reason) for name, reason in report.not_read.items()]
    return _format_csv(PAIR_COLUMNS, rows)


def format_texts(report: Report) -> str:
    """Return the suspicious texts as CSV, best first, each with its sources, then those that could not be read."""
    rows: list[tuple[object, ...]] = []
    for rank, text in enumerate(rank_suspicious(report), 1):
        points = measure_points(text.score, report.threshold)
        pairs = [report.pairs[number - 1] for number in text.signs]
        sources = SEPARATOR.join(pair.suspicious if is_swapped(pair, text.name) else pair.source for pair in pairs)
        warnings = SEPARATOR.join(report.suspicious[text.name].warnings)
        rows.append((rank, text.name, text.finding, points, text.score, format_share(text.share), sources, warnings))
    not_read = {name: reason for name, reason in report.not_read.items() if not name.startswith(OTHER_SIDES)}
    rows += [("", name, NOT_READ, "", "", "", "", reason) for name, reason in not_read.items()]
    return _format_csv(TEXT_COLUMNS, rows)


def _format_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows(map(_format_field, row) for row in rows)
    return file.getvalue()


def _format_field(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6f}"
    return "" if value is None else escape_formula(escape_controls(str(value)))


def escape_formula(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.lstrip(" ").startswith(FORMULA_STARTS) else text


def measure_verbatim(pair: DecidedPair) -> float:
    """Return the share of the passages that count that is copied word for word, 0 to 1."""
    counted = [passage for passage in pair.passages if passage.counts]
    total = sum(passage.target.length for passage in counted)
    return sum(passage.verbatim * passage.target.length for passage in counted) / max(1, total)


def format_best(texts: str, pairs: str) -> str:
    """Return what a terminal shows of both CSV files: texts and pairs with a sign of reuse, and what to read next."""
    text_rows, pair_rows = (list(csv.DictReader(io.StringIO(table))) for table in (texts, pairs))
    tables = _tabulate(text_rows, TEXT_COLUMNS[1:-1]), _tabulate(pair_rows, PAIR_COLUMNS[:-1])
    return "\n".join(filter(None, [*tables, _format_next(pair_rows)]))


def _tabulate(rows: Iterable[Mapping[str, str]], columns: Sequence[str]) -> str:
    """Return the table of the rows with a sign of reuse; empty without such rows."""
    shown = [_shorten_row(row) for row in rows if row["decision"] not in ("no sign", NOT_READ)]
    left_out = {"threshold", "points" if any(row["points"] is None for row in shown) else "score"}
    return format_table(shown[:MAX_ROWS_SHOWN], [name for name in columns if name not in left_out]) if shown else ""


def _shorten_row(row: Mapping[str, str]) -> dict[str, object]:
    shown: dict[str, object] = {name: _shorten(value) for name, value in row.items()}
    numbers = {name: int(row[name]) if row[name] else None for name in ("rank", "points", "passages") if name in row}
    first, *others = row.get("sources", "").split(SEPARATOR)
    sources = f"{_shorten(first)}{f' and {len(others)} more' if others else ''}"
    return {**shown, **numbers, "sources": sources, "score": f"{float(row['score']):.3f}" if row["score"] else None}


def _format_next(rows: Iterable[Mapping[str, str]]) -> str:
    """Return the line about the best pairs without a sign of reuse; empty without such pairs."""
    names = [
        f"{_shorten(row['suspicious'])} and {_shorten(row['source'])} ({row['points']})"
        for row in rows
        if is_next(row["decision"], int(row["points"]) if row["points"] else None)
    ]
    return f"{LOOK_NEXT}: {', '.join(names[:MAX_NEXT_SHOWN])}\n" if names else ""


def _shorten(name: str) -> str:
    """Return a name without its middle if it is long: a path begins with the author, and ends with the file."""
    half = MAX_NAME_CHARACTERS // 2
    return name if len(name) <= MAX_NAME_CHARACTERS else f"{name[: half - 2]}...{name[1 - half :]}"


def list_sentences(text: str, span: Span) -> list[str]:
    """Return the sentences of a text that have a character of a span, without white space around them."""
    starts, ends = _find_sentences(text)
    chosen = range(bisect_right(ends, span.begin), bisect_left(starts, span.end))
    return [sentence for i in chosen if (sentence := text[starts[i] : ends[i]].strip())]


@lru_cache(maxsize=256)
def _find_sentences(text: str) -> tuple[list[int], list[int]]:
    spans = find_sentence_spans(text)
    return [start for start, _ in spans], [end for _, end in spans]
