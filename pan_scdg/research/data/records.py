"""Manifests are JSON Lines: one record a line, checked when read, the same bytes whenever the same is written."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import gzip_lines, json_object

Record = TypeVar("Record")


def read_records(path: Path, kind: type[Record]) -> Iterator[tuple[int, Record]]:
    """Line number and record of each line of ``path`` that is not blank; fields that ``kind`` lacks are left out.

    Args:
        path: JSON Lines, compressed when the name ends in ``.gz``.
        kind: a dataclass; the types of its fields are what is checked, and nothing is converted.

    Raises:
        UserError: not readable, not JSON, or a field is missing or of another type or size; names the line.
    """
    adapter = TypeAdapter(kind)
    for number, line in gzip_lines(path):
        if not line.strip():
            continue
        json_object(line, path, number)  # within limits, finite
        try:
            record = adapter.validate_json(line, strict=True)
        except ValidationError as e:
            fault = e.errors(include_url=False, include_input=False)[0]
            field = ".".join(map(str, fault["loc"]))
            raise UserError(
                f"{field}: {fault['msg']}" if field else fault["msg"], "correct the line", path, number
            ) from e
        yield number, record


def json_lines(records: Iterable[Any]) -> str:
    """The text of a file with one record a line, in the order of the dataclass's fields."""
    return "".join(f"{json.dumps(asdict(record), ensure_ascii=True)}\n" for record in records)


def json_text(value: Any) -> str:
    """The text of a file with one JSON value, made to be read by people too."""
    return json.dumps(value, indent=1, ensure_ascii=True) + "\n"
