"""The vectors of several shards as one array of rows, without copying them."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]


class Stacked:
    """Stacked arrays of equal width and type, with the part of an array that `Rows` names."""

    ndim = 2

    def __init__(self, parts: Sequence[Floats]) -> None:
        """Stack at least one array.

        Raises:
            ValueError: widths or types differ.
        """
        if len({(part.shape[1:], part.dtype.str) for part in parts}) != 1:
            raise ValueError("arrays of several widths or types cannot be stacked")
        self.parts = list(parts)
        self.starts = [0, *accumulate(len(part) for part in parts)]
        """Row at which each part begins, and the number of rows."""
        self.dtype = parts[0].dtype
        self.shape = (self.starts[-1], parts[0].shape[1])

    def __len__(self) -> int:
        return self.starts[-1]

    def __getitem__(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return a copy of the rows at these positions, ``[n, d]``."""
        found = np.empty((len(rows), self.shape[1]), self.dtype)
        for start, part in zip(self.starts, self.parts):
            own = (rows >= start) & (rows < start + len(part))
            found[own] = part[rows[own] - start]
        return found


Rows = Floats | Stacked
"""Vectors, ``[n, d]``."""


def list_pieces(vectors: Rows) -> list[tuple[int, Floats]]:
    """Return the arrays of which these rows consist, each with the position of its first row."""
    return list(zip(vectors.starts, vectors.parts)) if isinstance(vectors, Stacked) else [(0, vectors)]
