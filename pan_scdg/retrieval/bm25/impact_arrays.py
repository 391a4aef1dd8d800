"""Read the arrays of `impact` from disk, and check every number that compiled code takes for an address."""

from pathlib import Path
from typing import Any

import numpy.typing as npt

from pan_scdg.errors import UserError
from pan_scdg.retrieval.bm25.terrier_terms import LONGEST
from pan_scdg.retrieval.index_folder import REDO, read_array

Array = npt.NDArray[Any]
Arrays = dict[str, Array]

KINDS: dict[str, tuple[str, ...]] = {
    "terms": (f"|S{LONGEST}",),
    "starts": ("<i8",),
    "docs": ("<i4",),
    "counts": ("<u2", "<u4"),
    "lengths": ("<i8",),
}
"""The types that each array can have."""
_PIECE = 1 << 22


def read_arrays(folder: Path, documents: int, terms: int) -> Arrays:
    """Return the arrays by name, memory-mapped unless they are empty.

    Raises:
        UserError: an array has a type, size or number that does not fit these numbers of documents and terms.
    """
    found = {name: read_array(folder / f"{name}.npy", KINDS[name]) for name in KINDS}
    if damaged := _find_damaged(found, documents, terms):
        raise UserError("damaged: not an array of a search index", REDO, folder / f"{damaged}.npy")
    return found


def _find_damaged(found: Arrays, documents: int, terms: int) -> str | None:
    """Return the name of the first array that cannot be used, or None."""
    starts, docs = found["starts"], found["docs"]
    postings = len(docs) if docs.ndim == 1 else -1
    lengths = {"terms": terms, "starts": terms + 1, "docs": postings, "counts": postings, "lengths": documents}
    for name, length in lengths.items():
        if found[name].shape != (length,):
            return name
    if (found["terms"][1:] <= found["terms"][:-1]).any():
        return "terms"
    if starts[0] != 0 or starts[-1] != postings or (starts[1:] <= starts[:-1]).any():
        return "starts"
    if (found["lengths"] < 0).any():
        return "lengths"
    return None if _lie_within(docs, documents) else "docs"


def _lie_within(numbers: Array, count: int) -> bool:
    """Return True if all numbers are at least 0 and below ``count``; reads a piece at a time."""
    pieces = (numbers[start : start + _PIECE] for start in range(0, len(numbers), _PIECE))
    return all(bool(piece.min() >= 0 and piece.max() < count) for piece in pieces)
