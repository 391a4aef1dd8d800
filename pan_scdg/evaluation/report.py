"""Plain-text tables for a terminal, a log file or a note: ASCII only, aligned columns."""

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np

from pan_scdg.errors import one_line

MISSING = "-"


class Estimate(NamedTuple):
    """A value with the ends of its interval."""

    value: float
    low: float
    high: float


def table(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> str:
    """The named columns of all rows, under their names and a rule; text to the left, numbers to the right.

    A missing cell, None and nan are "-". The table ends with a line break.

    Raises:
        ValueError: no column.
    """
    if not columns:
        raise ValueError("a table needs a column")
    lines = [[_ascii(name) for name in columns], *([cell(row.get(name)) for name in columns] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    right = [_numeric([row.get(name) for row in rows]) for name in columns]
    lines.insert(1, ["-" * width for width in widths])
    return "".join(_aligned(line, widths, right) + "\n" for line in lines)


def cell(value: object) -> str:
    """Text of one cell: 4 decimals, "0.9123 [0.8801, 0.9410]" for an estimate, yes and no, or the text itself."""
    if isinstance(value, Estimate):
        return f"{cell(float(value.value))} [{cell(float(value.low))}, {cell(float(value.high))}]"
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        # Adding zero turns -0.0 into 0.0: a table has no negative zero.
        return MISSING if math.isnan(value) else f"{round(float(value), 4) + 0.0:.4f}"
    return MISSING if value is None else _ascii(str(value))


def _numeric(values: Sequence[object]) -> bool:
    return all(
        value is None or (isinstance(value, (Estimate, Real)) and not isinstance(value, bool)) for value in values
    )


def _aligned(line: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = (c.rjust(width) if r else c.ljust(width) for c, width, r in zip(line, widths, right))
    return "  ".join(cells).rstrip()


def _ascii(text: str) -> str:
    return one_line(text).encode("ascii", "backslashreplace").decode("ascii")
