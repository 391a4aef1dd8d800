"""The words of many texts as numbers: which stems each unit has, and which runs of words two texts have in common."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.passages.units import Integers, PreparedText

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class WordCounts(NamedTuple):
    """The stems of one text, as `kernels.has_seed` reads them."""

    stems: Integers
    """Numbers of the distinct stems in ascending order, ``[k]``."""
    starts: Integers
    """First place of each stem in the arrays below, and their length, ``[k + 1]``."""
    units: Integers
    """Units that have the stem."""
    counts: Integers
    """Frequency of the stem in each unit."""
    sizes: Integers
    """Number of distinct stems of each unit, ``[u]``."""


class Vocabulary:
    """Numbers the stems and the words of texts in the order in which they come."""

    def __init__(self) -> None:
        self._stems: dict[str, int] = {}
        self._forms: dict[str, int] = {}

    def number_stems(self, stems: Iterable[str]) -> Integers:
        """Return the number of each stem."""
        number = self._stems
        return np.array([number.setdefault(stem, len(number)) for stem in stems], np.int64)

    def count_stems(self, text: PreparedText) -> WordCounts:
        """Return the count of each stem in each unit."""
        ids = self.number_stems(text.stems)[text.stem_places]
        owners = np.repeat(np.arange(len(text.units)), text.units[:, 1] - text.units[:, 0])
        places, counts = np.unique(np.stack([ids, owners]), axis=1, return_counts=True)
        stems, starts = np.unique(places[0], return_index=True)
        sizes = np.bincount(places[1], minlength=len(text.units)).astype(np.int64)
        return WordCounts(stems, np.append(starts, len(counts)), places[1].copy(), counts.astype(np.int64), sizes)

    def hash_runs(self, text: PreparedText, words: int) -> npt.NDArray[np.uint64]:
        """Return the distinct hashes of all runs of ``words`` words; equal runs have equal hashes."""
        number = self._forms
        ids = np.array([number.setdefault(form, len(number)) for form in text.forms], np.uint64)
        runs = max(0, len(ids) - words + 1)
        hashes: npt.NDArray[np.uint64] = np.zeros(runs, np.uint64)
        for i in range(words):
            hashes = np.multiply(hashes + ids[i : i + runs], _FACTOR)
            hashes = np.bitwise_xor(hashes, hashes >> np.uint64(29))
        return np.unique(hashes)


def mark_stems(texts: Sequence[WordCounts]) -> "csr_array":
    """Return 1 for each stem that a text has, ``[texts, stems]``."""
    import scipy.sparse as sp

    starts = np.cumsum([0, *(len(text.stems) for text in texts)])
    stems = np.concatenate([np.empty(0, np.int64), *(text.stems for text in texts)])
    shape = (len(texts), int(stems.max(initial=-1)) + 1)
    return sp.csr_array((np.ones(len(stems)), stems, starts), shape)


class SharedRuns:
    """Finds the sources that have a run of words in common with a target.

    Args:
        hashes: of the runs of each source; see `Vocabulary.hash_runs`.
    """

    def __init__(self, hashes: Sequence[npt.NDArray[np.uint64]]) -> None:
        owners = np.repeat(np.arange(len(hashes)), [len(of) for of in hashes])
        together = np.concatenate([*hashes, np.empty(0, np.uint64)])
        order = np.argsort(together, kind="stable")
        self._hashes, self._owners, self._count = together[order], owners[order], len(hashes)

    def find(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Return True for each source that has one of these runs, ``[s]``."""
        found = np.zeros(self._count, np.bool_)
        first, end = (np.searchsorted(self._hashes, hashes, side) for side in ("left", "right"))
        for a, b in zip(first[end > first].tolist(), end[end > first].tolist()):
            found[self._owners[a:b]] = True
        return found
