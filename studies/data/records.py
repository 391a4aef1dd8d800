"""Read and write manifests (JSON Lines with one checked record per line) and CSV tables."""

import csv
import io
import json
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import check_id, parse_json_object, stream_lines

Record = TypeVar("Record")
Count = Annotated[int, Field(ge=0)]
Label = Annotated[int, Field(ge=0, le=1)]  # not a Literal, which takes true for 1
Short = Annotated[str, Field(max_length=512)]
"""A longer string could be document text, which no manifest holds."""
Id = Annotated[Short, AfterValidator(lambda text: check_id(text, "", None))]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def read_distinct(
    path: Path,
    kind: type[Record],
    what: str,
    keys: Callable[[Record], Iterable[Hashable]],
    known: Collection[Hashable] | None = None,
) -> tuple[Record, ...]:
    """Return the records of a file in its order.

    Args:
        path: JSON Lines, compressed if the name ends in ``.gz``; blank lines count in line numbers alone.
        kind: a dataclass. The types of its fields and its ``__post_init__`` decide what is valid, nothing is converted,
            and fields that it lacks are ignored.
        what: name of one record in messages, such as ``pair``.
        keys: return the keys of a record that no other record may have.
        known: the keys that may occur; None: any.

    Raises:
        UserError: the file is not readable or not JSON, or holds no record, an invalid one, two with an equal key, or
            an unknown key.
    """
    adapter = TypeAdapter(kind)
    records: list[Record] = []
    lines: dict[Hashable, int] = {}
    for number, line in stream_lines(path):
        if not line.strip():
            continue
        record = _parse_record(line, adapter, path, number)
        for key in keys(record):
            if known is not None and key not in known:
                raise UserError(f"the {what} {key!r} is not in the data", "give the file of this data", path, number)
            if (first := lines.setdefault(key, number)) != number:
                raise UserError(f"the {what} {key!r} occurs twice, first in line {first}", "keep one", path, number)
        records.append(record)
    if not records:
        raise UserError(f"the file contains no {what}", "add at least one", path)
    return tuple(records)


def _parse_record(line: str, adapter: TypeAdapter[Record], path: Path, number: int) -> Record:
    parse_json_object(line, path, number)  # within limits, finite
    try:
        return adapter.validate_json(line, strict=True)
    except UserError as e:
        raise UserError(e.what, e.remedy, path, number) from e
    except ValidationError as e:
        fault = e.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, fault["loc"]))
        what = fault["msg"].removeprefix("Value error, ")
        raise UserError(f"{field}: {what}" if field else what, "correct the line", path, number) from e


def format_records(records: Iterable[Any]) -> str:
    """Return JSON Lines with one record per line, its fields in the order of the dataclass."""
    return "".join(f"{json.dumps(asdict(record), ensure_ascii=True)}\n" for record in records)


def format_csv(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    r"""Return a CSV table with a header and ``\n`` line ends."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue()
