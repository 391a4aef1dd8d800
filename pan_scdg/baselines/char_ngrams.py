"""Find matches of character n-grams, as in PAN 2012: common letters and digits of two texts, with their positions.

Only letters and digits count (`str.isalnum`, so those of every script; the official baseline leaves out ASCII
punctuation and white space instead), each in lower case. An n-gram of the target that the source has is a match, and a
match goes on while both sides agree. The paper does not say what its score is; here it is the share of the target's
letters and digits that lie in a match. An extended match is nothing but n-grams that overlap, so the share needs the
n-grams alone.

Time and memory are linear whatever the texts hold: an n-gram is looked up in a hash table of those of the source, and
only where it stands there first. Most are ruled out before that.
"""

from collections.abc import Iterator
from functools import cache
from itertools import repeat
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.records import Passage
from pan_scdg.scdg.control import count_shared

TABLE_CHARACTERS = 1 << 26
"""Largest number of characters of n-grams in memory; a longer source is processed in several parts."""
NGRAM_OVERHEAD = 150
"""Approximate bytes of an n-gram in the table, without its characters."""

WIDEST_PART = 16
"""Characters of the parts by which most n-grams are ruled out."""
FACTOR = 0x9E3779B97F4A7C15
"""An odd number with well-distributed bits: 2^64 divided by the golden ratio."""

Positions = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint32]


class Letters(NamedTuple):
    """The letters and digits of a text."""

    text: str
    """In lower case and without the characters between them, ``n`` characters."""
    codes: Codes
    """Their code points, ``[n]``."""
    offsets: Positions
    """Position of each in the original text, ``[n]``."""


def extract_letters(text: str) -> Letters:
    """Return the letters and digits of ``text``, each lower-cased by itself, so that it stays one character."""
    codes = _build_lower_table()[np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")]
    offsets = np.flatnonzero(codes)
    kept = codes[offsets]
    return Letters(kept.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass"), kept, offsets)


@cache
def _build_lower_table() -> Codes:
    """Return for every code point its letter or digit in lower case, 0 for other characters."""
    # of the one letter whose lower case is two characters (Turkish I with a dot) the second is no letter
    lower = (ord(chr(code).lower()[0]) if chr(code).isalnum() else 0 for code in range(0x110000))
    return np.fromiter(lower, np.uint32, 0x110000)


def compute_covered_share(target: str, source: str, n: int) -> float:
    """Return the share of the target's letters and digits inside an n-gram that also occurs in the source."""
    letters = extract_letters(target)
    covered = _mark_covered(_find_ngrams(letters, extract_letters(source), n) >= 0, n)
    return float(covered.mean()) if covered.size else 0.0


def find_passages(target: str, source: str, n: int) -> tuple[Passage, ...]:
    """Return matches that cover the characters of `compute_covered_share`, in the order of the target.

    A passage reaches from its first to its last letter on both sides, with everything that stands between them.
    """
    this, other = extract_letters(target), extract_letters(source)
    return tuple(
        Passage(*_locate_span(this, at, length), *_locate_span(other, there, length), "")
        for at, there, length in _extend_matches(this, other, _find_ngrams(this, other, n), n)
    )


def _locate_span(letters: Letters, start: int, length: int) -> tuple[int, int]:
    """Return offset and length in the original text."""
    first, last = int(letters.offsets[start]), int(letters.offsets[start + length - 1])
    return first, last - first + 1


def _find_ngrams(target: Letters, source: Letters, n: int) -> Positions:
    """Return the first place of each n-gram of the target in the source, or -1; ``[len(target) - n + 1]``."""
    found: Positions = np.full(max(0, len(target.text) - n + 1), -1, np.int64)
    if min(len(target.text), len(source.text)) < n:
        return found
    wanted, offered = _filter_common(target.codes, source.codes, n)
    step = max(1, TABLE_CHARACTERS // (n + NGRAM_OVERHEAD))
    for start in range(0, len(offered), step):
        # from the end, so that the first position of an n-gram is kept
        places = offered[start : start + step][::-1]
        first = dict(zip(_slice_ngrams(source.text, places, n), places.tolist(), strict=True))
        now = np.fromiter(map(first.get, _slice_ngrams(target.text, wanted, n), repeat(-1)), np.int64, len(wanted))
        found[wanted] = np.where(found[wanted] < 0, now, found[wanted])
    return found


def _slice_ngrams(text: str, places: Positions, n: int) -> Iterator[str]:
    """Return the n-grams that begin at these places."""
    return map(text.__getitem__, map(slice, places.tolist(), (places + n).tolist()))


def _filter_common(one: Codes, other: Codes, n: int) -> tuple[Positions, Positions]:
    """Return the starts of the n-grams of each text that the other may contain; no common one is missing.

    An n-gram can only be in the other text if each of its shorter parts is. Whether a part is there is looked up by a
    hash of it: two parts with one hash cost time and change no result.
    """
    parts, width = [one.astype(np.uint64), other.astype(np.uint64)], 1
    while 2 * width <= min(n, WIDEST_PART):
        factor = np.uint64(pow(FACTOR, width, 1 << 64))
        parts = [part[:-width] * factor + part[width:] for part in parts]
        width *= 2
    bits = (16 * max(len(one), len(other))).bit_length()
    slots = [(part * np.uint64(FACTOR)) >> np.uint64(64 - bits) for part in parts]
    each = n - width + 1
    return _find_seen(slots[0], slots[1], bits, each), _find_seen(slots[1], slots[0], bits, each)


def _find_seen(slots: npt.NDArray[np.uint64], others: npt.NDArray[np.uint64], bits: int, each: int) -> Positions:
    """Return the starts of ``each`` consecutive slots that all occur among the others."""
    there = np.zeros(1 << bits, np.bool_)
    there[others] = True
    seen = np.concatenate([[0], np.cumsum(there[slots])])
    return np.flatnonzero(seen[each:] - seen[:-each] == each)


def _mark_covered(match: npt.NDArray[np.bool_], n: int) -> npt.NDArray[np.bool_]:
    """Return True for the characters inside an n-gram that begins where ``match`` is true."""
    if not match.size:
        return np.zeros(0, np.bool_)
    change = np.zeros(len(match) + n, np.int64)
    change[: len(match)] += match
    change[n:] -= match
    return np.cumsum(change[:-1]) > 0


def _extend_matches(target: Letters, source: Letters, found: Positions, n: int) -> Iterator[tuple[int, int, int]]:
    """Yield ``(start in the target, start in the source, length)`` of as few matches as cover all found n-grams.

    Each is extended from the first place that its n-gram has in the source. The next one begins as far to the right as
    it can without leaving out a covered character, and so may overlap the one before in the target; none is shorter
    than ``n``.
    """
    starts, end = np.flatnonzero(found >= 0), 0
    while (first := int(np.searchsorted(starts, end - n, side="right"))) < len(starts):  # it ends after ``end``
        without_gap = int(np.searchsorted(starts, end, side="right")) - 1
        at = int(starts[max(first, without_gap)])
        length = count_shared(target.codes[at:], source.codes[int(found[at]) :])
        yield at, int(found[at]), length
        end = at + length
