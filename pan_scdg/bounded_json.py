"""Parse JSON that may be hostile, within limits of nesting and of the number of values."""

import json
import math
import re
from collections.abc import Callable
from json import decoder
from typing import Any

VALUES = 100_000
DEPTH = 64
_STRUCTURE = re.compile(r'["\[\]{},]')
_end_of_string: Callable[[str, int], tuple[str, int]] = decoder.scanstring  # type: ignore[attr-defined]
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1, ",": 0}


def parse_json(text: str, values: int = VALUES, finite: bool = True) -> Any:
    """Return the value of a JSON text; every number in it is finite, unless the caller permits others.

    Counts values before parsing, because a Python object takes up to 60 times the bytes of its JSON text.

    Args:
        text: one JSON document.
        values: the largest number of members of all objects and arrays together.
        finite: refuse ``NaN``, ``Infinity`` and what is too large for a float.

    Raises:
        ValueError: the text is malformed (then a ``json.JSONDecodeError``) or exceeds a limit, or a number is not
            finite or too long to convert.
    """
    check_limits(text, values)
    if not finite:
        return json.loads(text)
    return json.loads(text, parse_constant=_refuse_constant, parse_float=_parse_finite)


def check_limits(text: str, values: int = VALUES) -> None:
    """Refuse a JSON text with more values, or nested deeper than `DEPTH`, without parsing what is beyond the limit.

    Raises:
        ValueError: it exceeds a limit, or a string in it does not end.
    """
    brackets = text.count("[") + text.count("{")
    if brackets <= DEPTH and brackets + text.count(",") <= values:
        return  # within the limits even if strings contain some of these characters
    seen = level = at = 0
    while found := _STRUCTURE.search(text, at):
        at, mark = found.end(), found.group()
        if mark == '"':
            at = _end_of_string(text, at)[1]  # brackets and commas in strings do not count
            continue
        level += _STEPS[mark]
        seen += mark not in "]}"
        if seen > values:
            raise ValueError(f"more than {values} values")
        if level > DEPTH:
            raise ValueError(f"nested deeper than {DEPTH} levels")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _parse_finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value
