"""Find matches of character n-grams, as in PAN 2012: common letters and digits of two texts, with their positions.

Only letters and digits count (`str.isalnum`, so those of every script; the official baseline leaves out ASCII
punctuation and white space instead), each in lower case. An n-gram of the target that the source has is a match, and a
match goes on while both sides agree. The paper does not say what its score is; here it is the share of the target's
letters and digits that lie in a match. An extended match is nothing but n-grams that overlap, so the share needs the
n-grams alone.

An n-gram is found only where it stands first in the source. So time is that of a few sorts of all n-grams and memory is
linear, whatever the texts hold.
"""

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from pan_scdg.align.locator import PassageLocator
from pan_scdg.align.passages import Alignment
from pan_scdg.methods import Measurements, Method, MethodOptions, MethodSettings, Values
from pan_scdg.methods.simple import TEXTS_CACHED, SimpleMethod
from pan_scdg.records import MeasuredPassage, Passage, Span, TextPair
from pan_scdg.settings import ProfileTables
from pan_scdg.text.units import prepare_text

Positions = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint32]
GRID = (8, 12, 16, 24, 32, 50)
"""Values that ``calibrate`` chooses n from; the paper has none."""
COMPARED_CHARACTERS = 4096
"""Characters of two texts that are compared at once."""


class CharNgramSettings(MethodSettings):
    """PAN12-style matches of character n-grams; the score is the covered share of the target's characters."""

    finds_passages = True
    parameters = ("n",)
    n: int = Field(default=50, ge=1)
    """Letters and digits of an n-gram. The official baseline has 50; the paper gives none."""

    def compute_score(self, values: Values) -> float:
        """Return the covered share for n."""
        return values[f"n_{self.n}"]

    def vary(self) -> "dict[float, CharNgramSettings]":
        """Return the settings with each n of the grid."""
        return {float(n): self.model_copy(update={"n": n}) for n in GRID}

    def open(self, profile: ProfileTables, options: MethodOptions, statistics: Any = None) -> Method:
        """Return the method."""
        return CharNgramMethod(self, options)


class CharNgramMethod(SimpleMethod):
    """Scores a pair by the covered share for n, or for each n of the grid; see `methods.Method`."""

    def __init__(self, settings: CharNgramSettings, options: MethodOptions) -> None:
        self._n = settings.n
        self._numbers = sorted({settings.n, *GRID}) if options.all_settings else [settings.n]

    def score(self, pairs: Sequence[TextPair]) -> list[Measurements]:
        """Return ``n_8``, ``n_12``, ... of each pair, from 0 to 1."""
        return [
            Measurements({f"n_{n}": compute_covered_share(pair.target, pair.source, n) for n in self._numbers})
            for pair in pairs
        ]

    def detect(self, pair: TextPair) -> tuple[Passage, ...]:
        """Return the matches of a pair; see `find_passages`."""
        return find_passages(pair.target, pair.source, self._n)

    def locate(
        self, target: str, source: str, locator: PassageLocator | None = None, *, positive: bool = True
    ) -> list[MeasuredPassage]:
        """Return the matches of a pair, unless the profile has another way to find passages."""
        if locator is not None or not positive:
            return super().locate(target, source, locator, positive=positive)
        alignment = Alignment(*(prepare_text(text, keep_headings=True) for text in (target, source)))
        matches = find_passages(target, source, self._n)
        return [alignment.measure(passage)._replace(counts=True) for passage in matches]


class Letters(NamedTuple):
    """The letters and digits of a text, ``n`` characters."""

    codes: Codes
    """Their code points in lower case, ``[n]``."""
    offsets: Positions
    """Position of each in the original text, ``[n]``."""


@lru_cache(TEXTS_CACHED)
def extract_letters(text: str) -> Letters:
    """Return the letters and digits of ``text``, each lower-cased by itself, so that it stays one character."""
    codes = _build_lower_table()[np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")]
    offsets = np.flatnonzero(codes)
    return Letters(codes[offsets], offsets)


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
        Passage(_locate_span(this, at, length), _locate_span(other, there, length))
        for at, there, length in _extend_matches(this, other, _find_ngrams(this, other, n), n)
    )


def _locate_span(letters: Letters, start: int, length: int) -> Span:
    """Return the span in the original text."""
    return Span(int(letters.offsets[start]), int(letters.offsets[start + length - 1]) + 1)


def _find_ngrams(target: Letters, source: Letters, n: int) -> Positions:
    """Return the first place of each n-gram of the target in the source, or -1; ``[len(target) - n + 1]``."""
    length = len(target.codes)
    if min(length, len(source.codes)) < n:
        return np.full(max(0, length - n + 1), -1, np.int64)
    numbers = _number_ngrams(np.concatenate([target.codes, source.codes]), n)
    offered, first = np.unique(numbers[length:], return_index=True)
    places: Positions = np.full(numbers.max() + 1, -1, np.int64)
    places[offered] = first
    return places[numbers[: length - n + 1]]


def _number_ngrams(codes: Codes, n: int) -> Positions:
    """Return a number for the n-gram that begins at each place, the same for equal ones; ``[len(codes) - n + 1]``.

    An n-gram is a pair of shorter ones, which may overlap, so that their length doubles with each round.
    """
    numbers, width = codes.astype(np.int64), 1
    while width < n:
        step = min(width, n - width)
        pairs = numbers[:-step] * (numbers.max() + 1) + numbers[step:]
        numbers = np.unique(pairs, return_inverse=True)[1]
        width += step
    return numbers


def _mark_covered(match: npt.NDArray[np.bool_], n: int) -> npt.NDArray[np.bool_]:
    """Return True for the characters inside an n-gram that begins where ``match`` is true."""
    if not match.size:
        return np.zeros(0, np.bool_)
    change = np.zeros(len(match) + n, np.int64)
    change[: len(match)] += match
    change[n:] -= match
    return np.cumsum(change[:-1]) > 0


def _extend_matches(target: Letters, source: Letters, places: Positions, n: int) -> Iterator[tuple[int, int, int]]:
    """Yield ``(start in the target, start in the source, length)`` of as few matches as cover all common n-grams.

    Each is extended from the first place that its n-gram has in the source. The next one begins as far to the right as
    it can without leaving out a covered character, and so may overlap the one before in the target; none is shorter
    than ``n``.
    """
    starts, end = np.flatnonzero(places >= 0), 0
    while (first := int(np.searchsorted(starts, end - n, side="right"))) < len(starts):  # it ends after ``end``
        without_gap = int(np.searchsorted(starts, end, side="right")) - 1
        at = int(starts[max(first, without_gap)])
        length = _count_common_start(target.codes[at:], source.codes[int(places[at]) :])
        yield at, int(places[at]), length
        end = at + length


def _count_common_start(one: Codes, other: Codes) -> int:
    """Return the length of the longest common beginning."""
    length = min(len(one), len(other))
    for start in range(0, length, COMPARED_CHARACTERS):
        stop = min(start + COMPARED_CHARACTERS, length)
        different = np.flatnonzero(one[start:stop] != other[start:stop])
        if different.size:
            return start + int(different[0])
    return length
