"""Read texts in the Unicode form NFC, and give places in characters of the text as it was.

The same word can be spelt with accented letters or with letters and accents. Methods see one form unless the profile
asks for the text of the file (``raw_text``, as in the paper); results count the characters of the file.
"""

import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import regex

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MAX_MARKS = 30
"""Combining marks of a letter that count, as in Unicode's stream-safe format; no language has more.

`unicodedata.normalize` takes the square of their number, and no signal ends it.
"""
SURPLUS_MARKS = f"more than {MAX_MARKS} combining marks in a row, which no language has: the others do not count"
MAPPED_TEXTS = 4
"""Texts whose places are kept: a text has many passages."""
_CLUSTER = regex.compile(r"[\x00-\x7f]+(?![^\x00-\x7f])|\X")
"""ASCII that no accent follows, or a letter with its accents: neither is composed with what stands around it."""
_LONG_RUN = regex.compile(rf"(\P{{ccc=0}}{{{MAX_MARKS}}})\P{{ccc=0}}+")


class Composed(NamedTuple):
    """A text as methods see it."""

    text: str
    original: str | None
    """The text as it was if that is another one."""


def has_surplus_marks(text: str) -> bool:
    """Return True if more than `MAX_MARKS` combining marks follow each other."""
    return not text.isascii() and _LONG_RUN.search(text) is not None


def drop_surplus_marks(text: str) -> str:
    """Return a text without the combining marks that follow `MAX_MARKS` others."""
    return text if text.isascii() else _LONG_RUN.sub(r"\1", text)


def normalize(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """Return a text in a Unicode form, without surplus marks, in time that grows as the text."""
    return unicodedata.normalize(form, drop_surplus_marks(text))


def compose(text: str, raw_text: bool = False) -> Composed:
    """Return a text in the form NFC, without surplus marks; or as it is if ``raw_text``."""
    composed = text if raw_text else normalize("NFC", text)
    return Composed(composed, None if composed == text else text)


def list_forms(name: str) -> list[str]:
    """Return a name as it is and in the forms in which systems store names of files."""
    return list(dict.fromkeys([name, normalize("NFC", name), normalize("NFD", name)]))


def restore_spans(original: str | None, spans: "npt.ArrayLike") -> "npt.NDArray[np.int64]":
    """Return the spans of a text in NFC as spans of the original.

    A part of a letter with accents stands for the whole. An empty span stays empty.

    Args:
        original: see `Composed`.
        spans: first character and exclusive end in the text in NFC, ``[n, 2]``.
    """
    import numpy as np

    composed = np.asarray(spans, np.int64).reshape(-1, 2)
    if original is None:
        return composed
    begins, ends = _map_characters(original)
    first = begins[composed[:, 0]]
    last = np.where(composed[:, 0] < composed[:, 1], ends[composed[:, 1]], first)
    return np.stack([first, last], axis=1).astype(np.int64)


@lru_cache(MAPPED_TEXTS)
def _map_characters(original: str) -> "tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]":
    """Return where each character of the text in NFC begins in the original, and where each one before it ends."""
    import numpy as np

    begins, ends, at = list[int](), [0], 0
    for cluster in _CLUSTER.findall(original):
        end, composed = at + len(cluster), normalize("NFC", cluster)
        if composed == cluster:
            begins += range(at, end)
            ends += range(at + 1, end + 1)
        else:
            begins += [at] * len(composed)
            ends += [end] * len(composed)
        at = end
    return np.array([*begins, at], np.int32), np.array(ends, np.int32)
