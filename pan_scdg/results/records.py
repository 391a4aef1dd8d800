"""The records of a result, each a line of one of its files."""

from pathlib import Path
from typing import Any

from pan_scdg.results.files import read_lines

MAX_SCORE = 1e15
"""Largest absolute value of a valid score, so that sums stay finite."""


def read_decisions(path: Path) -> list[dict[str, Any]]:
    """Return the decisions of a ``decisions.jsonl``, in the order of the file.

    Raises:
        UserError: not readable, not JSON Lines, without ``suspicious`` and ``source`` or a ``decision``, with an
            invalid ``score`` or ``threshold``, or with one pair twice.
    """
    records: dict[tuple[str, str], dict[str, Any]] = {}

    def parse(record: dict[str, Any]) -> None:
        check_decision(record)
        key = (record["suspicious"], record["source"])
        if key in records:
            raise ValueError(f"repeats the pair {key[0]} and {key[1]}")
        records[key] = record

    for _ in read_lines(path, parse, "give the decisions.jsonl of `run`"):
        pass
    return list(records.values())


def check_decision(record: dict[str, Any]) -> None:
    """Raise ValueError if ids, decision, score or threshold are not valid."""
    if not isinstance(record.get("suspicious"), str) or not isinstance(record.get("source"), str):
        raise ValueError("'suspicious' and 'source' must be strings")
    if record.get("decision", "") is not None and not isinstance(record.get("decision"), bool):
        raise ValueError("'decision' must be true, false or null")
    for name in ("score", "threshold"):
        value = record.get(name)
        if not (value is None or (type(value) in (int, float) and abs(value) <= MAX_SCORE)):
            raise ValueError(f"{name!r} is not a valid number")
