"""Format and read the results of pair detection: a detection XML and a line of ``decisions.jsonl`` per pair."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import parse_json_object, stream_lines
from pan_scdg.records import DocumentPair, Passage

# json escapes C0 itself; these are line ends or terminal controls to other programs, or not encodable
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")

MAX_SCORE = 1e15
"""Largest absolute value of a valid score, so that sums stay finite."""


def format_detection(pair: DocumentPair, passages: Sequence[Passage], name: str = "detected-plagiarism") -> bytes:
    """Return the detection file of one pair: one feature per passage, whose ``name`` is ``plagiarism`` in truth files.

    Raises:
        ValueError: a negative offset or a length below 1, with which the official evaluator counts wrongly or stops.
    """
    from lxml import etree

    root = etree.Element("document", {"reference": pair.suspicious.reference})
    for p in passages:
        if min(p.target.begin, p.source.begin) < 0 or min(p.target.length, p.source.length) < 1:
            raise ValueError(f"{p} has a negative offset or no characters")
        attributes = {
            "name": name,
            "this_offset": str(int(p.target.begin)),
            "this_length": str(int(p.target.length)),
            "source_reference": pair.source.reference,
            "source_offset": str(int(p.source.begin)),
            "source_length": str(int(p.source.length)),
        }
        etree.SubElement(root, "feature", attributes)
    xml: bytes = etree.tostring(root, xml_declaration=True, encoding="utf-8", pretty_print=True)
    return xml


def format_decision(record: Mapping[str, object]) -> str:
    r"""Return ``record`` as one line of JSON Lines, with its ``\n``: keys in the given order, floats with 6 decimals.

    Raises:
        ValueError: a float that is not finite, or a value without a JSON form.
    """
    return _format_json(record) + "\n"


def _format_json(value: object) -> str:
    if value is None or isinstance(value, bool | str):
        text = json.dumps(value, ensure_ascii=False)
        return _UNSAFE.sub(lambda m: f"\\u{ord(m.group()):04x}", text)
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        return _format_float(float(value))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_format_json(str(k))}: {_format_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(_format_json, value)) + "]"
    raise ValueError(f"{type(value).__name__} has no JSON form")


def _format_float(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError(f"{value} has no JSON form")
    # adding zero turns -0.0, to which tiny negative numbers are rounded, into 0.0
    return f"{round(value, 6) + 0.0:.6f}"


def read_decisions(path: Path) -> list[dict[str, Any]]:
    """Return the records of a ``decisions.jsonl``, in the order of the file.

    Raises:
        UserError: not readable, not JSON Lines, without ``suspicious`` and ``source`` or a ``decision``, with an
            invalid ``score`` or ``threshold``, or with one pair twice.
    """
    records: dict[tuple[str, str], dict[str, Any]] = {}
    for number, line in stream_lines(path):
        record = parse_json_object(line, path, number)
        if fault := _find_fault(record):
            raise UserError(fault, "give the decisions.jsonl of `run`", path, number)
        key = (record["suspicious"], record["source"])
        if key in records:
            raise UserError(f"repeats the pair {key[0]} and {key[1]}", "keep one of the lines", path, number)
        records[key] = record
    return list(records.values())


def _find_fault(record: Mapping[str, Any]) -> str | None:
    if not isinstance(record.get("suspicious"), str) or not isinstance(record.get("source"), str):
        return "'suspicious' and 'source' must be strings"
    if record.get("decision", "") is not None and not isinstance(record.get("decision"), bool):
        return "'decision' must be true, false or null"
    for name in ("score", "threshold"):
        value = record.get(name)
        valid = value is None or (type(value) in (int, float) and abs(value) <= MAX_SCORE)
        if not valid:
            return f"{name!r} is not a valid number"
    return None
