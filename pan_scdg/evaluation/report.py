"""Format plain-text tables: aligned columns."""

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np

from pan_scdg.errors import escape_controls

MISSING = "-"


class Estimate(NamedTuple):
    """A value with the ends of its interval."""

    value: float
    low: float
    high: float


def format_table(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> str:
    """Return the named columns of all rows under a header and a rule; text to the left, numbers to the right.

    A missing cell, None and nan are "-". The table ends with a line break.

    Raises:
        ValueError: ``columns`` is empty.
    """
    if not columns:
        raise ValueError("a table needs a column")
    head = [escape_controls(name) for name in columns]
    lines = [head, *([format_cell(row.get(name)) for name in columns] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    right = [_are_numbers([row.get(name) for row in rows]) for name in columns]
    lines.insert(1, ["-" * width for width in widths])
    return "".join(_align(line, widths, right) + "\n" for line in lines)


def format_cell(value: object) -> str:
    """Return the text of a cell: 4 decimals, "0.9123 [0.8801, 0.9410]" for an estimate, yes or no, or the value."""
    if isinstance(value, Estimate):
        return f"{format_cell(float(value.value))} [{format_cell(float(value.low))}, {format_cell(float(value.high))}]"
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        # Adding zero turns -0.0 into 0.0: a table has no negative zero.
        return MISSING if math.isnan(value) else f"{round(float(value), 4) + 0.0:.4f}"
    return MISSING if value is None else escape_controls(str(value))


def _are_numbers(values: Sequence[object]) -> bool:
    return all(
        value is None or (isinstance(value, (Estimate, Real)) and not isinstance(value, bool)) for value in values
    )


def _align(line: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = (c.rjust(width) if r else c.ljust(width) for c, width, r in zip(line, widths, right))
    return "  ".join(cells).rstrip()
