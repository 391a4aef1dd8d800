"""Write TREC run files that every official evaluator orders in the same way, and read them with all checks."""

import gzip
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import COMMENT, is_file, parse_number, stream_columns

RUN_NAMES = ("run.txt", "run.txt.gz")
MAX_DEPTH = 1000
"""Official depth of a run; the best document of a run up to this depth always has the score 1000."""


def format_run(query_id: str, doc_ids: Sequence[str], tag: str) -> Iterator[str]:
    r"""Yield lines ``qid Q0 doc_id rank score tag`` with ``\n``, best first.

    The score is ``max(1000, n) + 1 - rank``: positive, whole and without ties, because evaluators disagree on the
    order of ties and some use the order of the lines (formats B3).

    Raises:
        ValueError: a document twice, an id or tag that is empty or has white space, or a query id that begins as a
            comment.
    """
    if len(set(doc_ids)) != len(doc_ids):
        raise ValueError(f"a document occurs twice for query {query_id!r}")
    best = max(MAX_DEPTH, len(doc_ids))
    for rank, doc_id in enumerate(doc_ids, start=1):
        columns = (query_id, "Q0", doc_id, str(rank), str(best + 1 - rank), tag)
        if any(not c or c.split() != [c] for c in columns) or query_id.startswith(COMMENT):
            raise ValueError(f"{columns} is not a line of a run")
        yield " ".join(columns) + "\n"


@contextmanager
def open_gzip_text(path: Path) -> Iterator[TextIO]:
    r"""Write UTF-8 text with ``\n`` ends to a gzip file whose bytes depend on the text alone (no time, no name)."""
    with (
        open(path, "wb") as raw,
        gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as packed,
        TextIOWrapper(packed, encoding="utf-8", newline="\n") as text,
    ):
        yield text


def find_run(path: Path) -> Path:
    """Return ``path`` itself, or the run in it if it is a folder (as TIRA passes the output of an earlier stage).

    Raises:
        UserError: the file does not exist, or the folder has no run or two of them.
    """
    if not path.is_dir():
        if is_file(path):
            return path
        raise UserError("the run does not exist", "give a TREC run, or a folder with run.txt or run.txt.gz", path)
    files = [path / name for name in RUN_NAMES if is_file(path / name)]
    if len(files) != 1:
        what = "two runs" if files else "no run"
        raise UserError(f"{what} in this folder", "keep exactly one of run.txt and run.txt.gz", path)
    return files[0]


def read_run(path: Path) -> dict[str, list[tuple[str, float]]]:
    """Return documents and scores of each query, in the order of the lines of a ``run.txt`` or ``run.txt.gz``.

    Raises:
        UserError: not readable, empty, fewer than six columns, an id with white space, a rank or score that is not a
            number, or a document twice for one query.
    """
    run: dict[str, dict[str, float]] = {}
    for number, columns in stream_columns(path, _has_numbers):
        # words after the tag are no fault, but a number in its place may be the score after an id of two words
        if len(columns) < 6 or (len(columns) > 6 and parse_number(columns[5]) is not None):
            what = f"expected 6 columns, found {len(columns)}"
            raise UserError(what, "write 'qid Q0 doc_id rank score tag', without white space in them", path, number)
        query_id, _, doc_id, rank, score = columns[:5]
        documents = run.setdefault(query_id, {})
        if doc_id in documents:
            raise UserError(f"{doc_id!r} occurs twice for query {query_id!r}", "keep one line", path, number)
        documents[doc_id] = _parse_score(rank, score, path, number)
    if not run:
        raise UserError("the run is empty", "give a run with lines", path)
    return {query_id: list(documents.items()) for query_id, documents in run.items()}


def _has_numbers(columns: list[str]) -> bool:
    return len(columns) >= 6 and None not in (parse_number(columns[3]), parse_number(columns[4]))


def _parse_score(rank: str, score: str, path: Path, number: int) -> float:
    value = parse_number(score)
    if value is None or not (rank.isascii() and rank.removeprefix("-").isdecimal()):
        raise UserError(f"rank {rank!r} or score {score!r} is not a number", "correct the line", path, number)
    if not math.isfinite(value):
        raise UserError(f"the score {score!r} is not finite", "correct the line", path, number)
    return value
