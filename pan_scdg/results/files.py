"""The names of the files of a result, and the reading and writing of those with JSON lines."""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pan_scdg.errors import UserError
from pan_scdg.pan.runs import open_gzip_text
from pan_scdg.pan.untrusted import JSON_VALUES, is_file, parse_json_object, stream_lines

JOB = "job.json"
METADATA = "ir-metadata.yml"
PAGE = "report.html"
SCORES, DECISIONS, PASSAGES = "scores.jsonl", "decisions.jsonl", "passages.jsonl"
GAINS = "gains.jsonl.gz"
TEXTS = "texts.jsonl"
"""The texts of a check as they were read, with what was excluded."""
PAIRS_TABLE, TEXTS_TABLE = "report.csv", "texts.csv"
RUN, CANDIDATE_SCORES, CANDIDATES, EVIDENCE = "run.txt.gz", "scores.jsonl.gz", "candidates.jsonl.gz", "evidence.jsonl"

MAX_GAIN_VALUES = 20_000_000
"""JSON values of a line with the gains of a text and the places of its tokens."""
REMEDY = "give the result as `run` wrote it"
# json escapes C0 itself; these are line ends or terminal controls to other programs, or not encodable
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")
Line = TypeVar("Line")


def read_lines(
    path: Path, parse: Callable[[dict[str, Any]], Line], remedy: str = REMEDY, values: int = JSON_VALUES
) -> Iterator[Line]:
    """Yield the record of each JSON line of a file, plain or gzip.

    Args:
        path: the file.
        parse: returns the record of an object; its LookupError, TypeError or ValueError is a fault of the line.
        remedy: of a fault.
        values: most JSON values of a line.

    Raises:
        UserError: the file cannot be read, or a line is none of its lines.
    """
    if not is_file(path):
        raise UserError("the file does not exist", remedy, path)
    for number, text in stream_lines(path):
        content = parse_json_object(text, path, number, values)
        try:
            record = parse(content)
        except KeyError as e:
            raise UserError(f"is not a line of {path.name}: {e} is missing", remedy, path, number) from e
        except (LookupError, TypeError, ValueError, AttributeError) as e:
            raise UserError(f"is not a line of {path.name}: {e}", remedy, path, number) from e
        yield record


def read_optional(path: Path, parse: Callable[[dict[str, Any]], Line], values: int = JSON_VALUES) -> Iterator[Line]:
    """Yield the records of a file that a result may lack; see `read_lines`."""
    if is_file(path):
        yield from read_lines(path, parse, values=values)


class Record(Protocol):
    """A record that is a line of a file."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the line."""
        ...


def write_lines(folder: Path, name: str, records: Iterable[Record], *, rounded: bool = False) -> str:
    """Write a record a line, packed if the name says so; return the name.

    Args:
        folder: of the file.
        name: of the file.
        records: in the order of the lines.
        rounded: write six decimals; otherwise all digits.

    Raises:
        ValueError: a value has no JSON form.
    """
    path = folder / name
    opened = open_gzip_text(path) if path.suffix == ".gz" else path.open("w", encoding="utf-8", newline="\n")
    with opened as file:
        for record in records:
            file.write(format_line(record.to_json()) if rounded else json.dumps(record.to_json()) + "\n")
    return name


def format_line(line: Mapping[str, object]) -> str:
    r"""Return an object as a line with its ``\n``: keys in the given order, floats with six decimals.

    Raises:
        ValueError: a float that is not finite, or a value without a JSON form.
    """
    return _format_rounded(line) + "\n"


def _format_rounded(value: object) -> str:
    if value is None or isinstance(value, bool | str):
        text = json.dumps(value, ensure_ascii=False)
        return _UNSAFE.sub(lambda m: f"\\u{ord(m.group()):04x}", text)
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        return _format_float(float(value))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_format_rounded(str(k))}: {_format_rounded(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(_format_rounded, value)) + "]"
    raise ValueError(f"{type(value).__name__} has no JSON form")


def _format_float(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError(f"{value} has no JSON form")
    # adding zero turns -0.0, to which tiny negative numbers are rounded, into 0.0
    return f"{round(value, 6) + 0.0:.6f}"
