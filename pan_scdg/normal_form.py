"""Read texts in the Unicode form NFC, and give places in characters of the text as it was.

The same word can be spelt with accented letters or with letters and accents. Methods see one form, results count the
characters of the file.
"""

import unicodedata
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import regex

Integers = npt.NDArray[np.int64]
MAPPED_TEXTS = 4
"""Texts whose places are kept: a text has many passages."""
_CLUSTER = regex.compile(r"[\x00-\x7f]+(?![^\x00-\x7f])|\X")
"""ASCII that no accent follows, or a letter with its accents: neither is composed with what stands around it."""


class Composed(NamedTuple):
    """A text in the form NFC."""

    text: str
    original: str | None
    """The text as it was if that is in another form."""


def compose(text: str) -> Composed:
    """Return a text in the form NFC."""
    composed = unicodedata.normalize("NFC", text)
    return Composed(composed, None if composed == text else text)


def list_forms(name: str) -> list[str]:
    """Return a name as it is and in the forms in which systems store names of files."""
    return list(dict.fromkeys([name, *(unicodedata.normalize(form, name) for form in ("NFC", "NFD"))]))


def restore_spans(original: str | None, spans: npt.ArrayLike) -> Integers:
    """Return the spans of a text in NFC as spans of the original.

    A part of a letter with accents stands for the whole. An empty span stays empty.

    Args:
        original: see `Composed`.
        spans: first character and exclusive end in the text in NFC, ``[n, 2]``.
    """
    composed = np.asarray(spans, np.int64).reshape(-1, 2)
    if original is None:
        return composed
    begins, ends = _map_characters(original)
    first = begins[composed[:, 0]]
    last = np.where(composed[:, 0] < composed[:, 1], ends[composed[:, 1]], first)
    return np.stack([first, last], axis=1).astype(np.int64)


@lru_cache(MAPPED_TEXTS)
def _map_characters(original: str) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return where each character of the text in NFC begins in the original, and where each one before it ends."""
    begins, ends, at = list[int](), [0], 0
    for cluster in _CLUSTER.findall(original):
        end, composed = at + len(cluster), unicodedata.normalize("NFC", cluster)
        if composed == cluster:
            begins += range(at, end)
            ends += range(at + 1, end + 1)
        else:
            begins += [at] * len(composed)
            ends += [end] * len(composed)
        at = end
    return np.array([*begins, at], np.int32), np.array(ends, np.int32)
