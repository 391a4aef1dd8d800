"""Who shares with whom: a table of suspicious texts and sources."""

from collections.abc import Sequence
from typing import NamedTuple

from pan_scdg.report.text_view import Name

MOST = 40
"""Rows, and columns."""


class Matrix(NamedTuple):
    """The pairs with a sign of reuse; rows and columns are those of the best pairs first."""

    rows: tuple[Name, ...]
    columns: tuple[Name, ...]
    cells: dict[tuple[Name, Name], int]
    """Numbers of the pairs."""
    is_complete: bool


def make_matrix(pairs: Sequence[tuple[Name, Name, int]]) -> Matrix | None:
    """Return the matrix of these pairs; None if there are fewer than two.

    Args:
        pairs: suspicious text, source and number of the pairs with a sign of reuse, best first.
    """
    if len(pairs) < 2:
        return None
    rows = list(dict.fromkeys(row for row, _, _ in pairs))
    columns = list(dict.fromkeys(column for _, column, _ in pairs))
    cells = {(row, column): number for row, column, number in pairs}
    return Matrix(tuple(rows[:MOST]), tuple(columns[:MOST]), cells, max(len(rows), len(columns)) <= MOST)
