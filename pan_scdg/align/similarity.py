"""Similarity of the units and passages of two texts: TF-ISF cosine and Dice coefficient over stems.

After Sanchez-Perez, Gelbukh and Sidorov, "Adaptive algorithm for plagiarism detection: the best-performing approach at
PAN 2014 text alignment competition" (CLEF 2015): inverse sentence frequencies are those of both texts together.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.align.units import PreparedText, stem_word

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = npt.NDArray[np.float64]
MOST_SEEDS = 16
"""Seeds that one unit can have, the best ones: a sentence that is repeated a thousand times is no evidence."""
BLOCK = 1 << 21
"""Pairs of units that are compared at one time; they take some 50 MB."""


class Seed(NamedTuple):
    """A target unit and a similar source unit."""

    target: int
    source: int
    cosine: float


_SEEDS = np.dtype([("target", np.int64), ("source", np.int64), ("cosine", np.float64)])
"""An array of seeds, while they are chosen."""


class Comparison:
    """The units of two texts as vectors.

    Args:
        target: the suspicious document.
        source: the candidate source.
    """

    def __init__(self, target: PreparedText, source: PreparedText) -> None:
        vocabulary = self._vocabulary = dict[str, int]()
        self._target, self._source = (_count_stems(text, vocabulary) for text in (target, source))
        self._target.resize(self._target.shape[0], len(vocabulary))
        frequencies = sum(np.bincount(m.indices, minlength=len(vocabulary)) for m in (self._target, self._source))
        units = self._target.shape[0] + self._source.shape[0]
        self._weights: Floats = np.log(units / np.maximum(frequencies, 1))

    def find_seeds(self, least_cosine: float, least_dice: float) -> list[Seed]:
        """Return the pairs of units that reach both limits, by target unit, then source unit."""
        target, source = self._normalise(self._target), self._normalise(self._source).T.tocsc()
        rows = max(1, BLOCK // max(1, source.shape[1]))
        blocks: list[npt.NDArray[Any]] = [np.empty(0, _SEEDS)]
        for start in range(0, target.shape[0], rows):
            near = (target[start : start + rows] @ source).tocoo()
            kept = near.data >= least_cosine
            seeds = np.empty(int(kept.sum()), _SEEDS)
            seeds["target"], seeds["source"], seeds["cosine"] = start + near.row[kept], near.col[kept], near.data[kept]
            blocks.append(seeds[self._compute_dice(seeds) >= least_dice])
        return [Seed(*seed) for seed in _keep_best(np.concatenate(blocks)).tolist()]

    def _compute_dice(self, seeds: npt.NDArray[Any]) -> Floats:
        """Return the Dice coefficient of the distinct stems of each pair of units."""
        target, source = self._target[seeds["target"]].astype(bool), self._source[seeds["source"]].astype(bool)
        common = np.asarray(target.multiply(source).sum(axis=1)).ravel()
        dice: Floats = 2 * common / (np.diff(target.indptr) + np.diff(source.indptr))
        return dice

    def compare_ranges(self, target: range, source: range) -> float:
        """Return the cosine of two ranges of units, each one vector; 0 if either has no weight."""
        a, b = (
            _sum_rows(counts, place) * self._weights
            for counts, place in ((self._target, target), (self._source, source))
        )
        return _compute_cosine(a, b)

    def compare_units(self, target: range) -> Floats:
        """Return the cosine of a range of units, as one vector, with each unit of the source, ``[u]``."""
        vector = _sum_rows(self._target, target) * self._weights
        norm = float(np.sqrt(vector @ vector))
        cosines: Floats = self._normalise(self._source) @ (vector / norm if norm else vector)
        return cosines

    def compare_words(self, target: Sequence[str], source: Sequence[str]) -> float:
        """Return the cosine of two stretches of words, of which both texts have every stem."""
        size = len(self._vocabulary)
        a, b = (
            np.bincount([self._vocabulary[stem_word(form)] for form in forms], minlength=size) * self._weights
            for forms in (target, source)
        )
        return _compute_cosine(a, b)

    def _normalise(self, counts: "csr_array") -> "csr_array":
        weighted = counts.multiply(self._weights[None, :]).tocsr()
        norms = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
        norms[norms == 0] = 1.0
        return weighted.multiply(1 / norms[:, None]).tocsr()


def _sum_rows(counts: "csr_array", rows: range) -> Floats:
    """Return the sum of some rows, ``[stems]``, without the slow slicing of a matrix."""
    first, end = counts.indptr[[rows.start, rows.stop]].tolist()
    sums = np.bincount(counts.indices[first:end], counts.data[first:end], counts.shape[1])
    return np.asarray(sums, np.float64)


def _compute_cosine(a: Floats, b: Floats) -> float:
    norm = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / norm if norm else 0.0


def _count_stems(text: PreparedText, vocabulary: dict[str, int]) -> "csr_array":
    """Return the count of each stem in each unit, ``[units, stems so far]``; new stems join the vocabulary."""
    import scipy.sparse as sp

    numbers = np.array([vocabulary.setdefault(stem, len(vocabulary)) for stem in text.stems], np.int64)
    columns = numbers[text.stem_places]
    rows = np.repeat(np.arange(len(text.units)), text.units[:, 1] - text.units[:, 0])
    shape = (len(text.units), len(vocabulary))
    return sp.coo_array((np.ones(len(columns)), (rows, columns)), shape).tocsr()


def _keep_best(seeds: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the seeds that are among the ``MOST_SEEDS`` best of both their units, in order; equal ones go by place."""
    kept = np.ones(len(seeds), np.bool_)
    for own, other in ((seeds["target"], seeds["source"]), (seeds["source"], seeds["target"])):
        order = np.lexsort((other, -seeds["cosine"], own))
        begins = np.searchsorted(own[order], own[order])
        kept[order[np.arange(len(order)) - begins >= MOST_SEEDS]] = False
    chosen = seeds[kept]
    return np.asarray(chosen[np.lexsort((chosen["source"], chosen["target"]))])
