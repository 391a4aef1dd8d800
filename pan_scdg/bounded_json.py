"""Parse JSON that may be hostile, within limits of nesting and of the number of values."""

import json
import math
import re
from typing import Any

VALUES = 100_000
DEPTH = 64
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")


def parse_json(text: str, values: int = VALUES, depth: int = DEPTH) -> Any:
    """Return the value of a JSON text; every number in it is finite.

    Counts values before parsing, because a Python object takes up to 60 times the bytes of its JSON text.

    Args:
        text: one JSON document.
        values: the largest number of members of all objects and arrays together.
        depth: the deepest nesting.

    Raises:
        ValueError: the text is malformed (then a ``json.JSONDecodeError``) or exceeds a limit, or a number is not
            finite or too long to convert.
    """
    if _count_values(text) > values or _may_be_deep(text, depth):
        bare = _STRING.sub("", text)  # brackets and commas inside of strings do not count
        if _count_values(bare) > values:
            raise ValueError(f"more than {values} values")
        if _measure_depth(bare) > depth:
            raise ValueError(f"nested deeper than {depth} levels")
    return json.loads(text, parse_constant=_refuse_constant, parse_float=_parse_finite)


def _count_values(text: str) -> int:
    return text.count(",") + text.count("[") + text.count("{")


def _may_be_deep(text: str, depth: int) -> bool:
    return text.count("[") + text.count("{") > depth


def _measure_depth(bare: str) -> int:
    deepest = level = 0
    for bracket in _BRACKET.finditer(bare):
        level += 1 if bracket.group() in "[{" else -1
        deepest = max(deepest, level)
    return deepest


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _parse_finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value
