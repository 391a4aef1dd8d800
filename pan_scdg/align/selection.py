"""Leave out the pairs whose alignment score cannot reach a limit, when there are too many to align them all.

Aligning words takes longest. A pair without a run of words in common, and without a pair of units that are similar by
their words, is scored by its vectors alone; all others are kept.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.align.matches import Floats, measure_nearest_own
from pan_scdg.align.seeds import SEED_COSINE, list_grams
from pan_scdg.align.vectors import EncodedText
from pan_scdg.text.units import Integers, PreparedText

ROUNDING_MARGIN = 1e-4
"""Bounds the error of the numbers here, which come from other sums than those of an alignment."""


class _Counts(NamedTuple):
    """How often each unit of one text has each stem: ``n`` numbers above 0."""

    stems: Integers
    """Numbers of the distinct stems of the text, in ascending order, ``[k]``."""
    size: int
    """Number of units."""
    rows: Integers
    """Units, ``[n]``."""
    columns: Integers
    """Stems, as indices into ``stems``, ``[n]``."""
    counts: Integers
    """Frequencies, ``[n]``."""

    def sum_squares(self, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the sum of the squared frequencies of each unit, times a weight of each stem, ``[size]``."""
        sums = np.bincount(self.rows, weights[self.columns] * self.counts**2, minlength=self.size)
        return np.asarray(sums, np.float64)

    def spread(self, columns: Integers) -> npt.NDArray[np.float32]:
        """Return the frequency of some stems in each unit, ``[size, columns]``."""
        numbers = np.full(len(self.stems), -1)
        numbers[columns] = np.arange(len(columns))
        places = numbers[self.columns]
        kept = places >= 0
        matrix = np.zeros((self.size, len(columns)), np.float32)
        matrix[self.rows[kept], places[kept]] = self.counts[kept]
        return matrix


def select_pairs(
    targets: Iterable[EncodedText],
    sources: Iterable[EncodedText],
    bound: Callable[[EncodedText, Floats, Floats], float],
    least: float,
) -> list[tuple[int, int]]:
    """Return the target and source of the pairs whose score may reach ``least``, in order; no other pair does.

    Args:
        targets: suspicious documents, read once, one at a time.
        sources: candidate sources, read once and before the targets; vectors and counts of words are kept.
        bound: the score of a pair without words in common, from the target, what `measure_nearest_own` gives of it, and
            the vectors of the source.
        least: the score that a pair has to reach.
    """
    numbers: dict[str, int] = {}
    counts, vectors, runs = [], [], []
    for text in sources:
        counts.append(_count_stems(text.prepared, numbers))
        vectors.append(text.vectors)
        runs.append(_hash_runs(text.prepared))
    hashes = np.concatenate([np.empty(0, np.int64), *runs])
    order = np.argsort(hashes, kind="stable")
    hashes, owners = hashes[order], np.repeat(np.arange(len(runs)), list(map(len, runs)))[order]
    pairs = []
    for i, target in enumerate(targets):
        own, sentences = _count_stems(target.prepared, numbers), target.counted_vectors
        column_of = np.full(len(numbers), -1)
        column_of[own.stems] = np.arange(len(own.stems))
        matrix = own.spread(np.arange(len(own.stems)))
        own_runs = _hash_runs(target.prepared)
        bounds = zip(np.searchsorted(hashes, own_runs, "left"), np.searchsorted(hashes, own_runs, "right"))
        with_run = {int(owner) for first, last in bounds for owner in owners[first:last]}
        nearest_own = measure_nearest_own(sentences)
        for j, other in enumerate(counts):
            columns = column_of[other.stems]
            other_columns = np.flatnonzero(columns >= 0)
            columns = columns[other_columns]
            if (
                j in with_run
                or bound(target, nearest_own, vectors[j]) >= least - ROUNDING_MARGIN
                or _have_seed(own, matrix[:, columns], columns, other, other_columns)
            ):
                pairs.append((i, j))
    return pairs


def _count_stems(text: PreparedText, numbers: dict[str, int]) -> _Counts:
    """Count the stems of each unit; new stems get the next numbers."""
    size = len(text.units)
    stems = np.array([numbers.setdefault(stem, len(numbers)) for stem in text.stems], np.int64)
    units = np.repeat(np.arange(size), text.units[:, 1] - text.units[:, 0])
    cells, counts = np.unique(stems[text.stem_places] * max(1, size) + units, return_counts=True)
    distinct, columns = np.unique(cells // max(1, size), return_inverse=True)
    return _Counts(distinct, size, cells % max(1, size), columns, counts)


def _hash_runs(text: PreparedText) -> Integers:
    return np.array(list({hash(gram) for gram in list_grams(text)}), np.int64)


def _have_seed(
    first: _Counts, matrix: npt.NDArray[np.float32], columns: Integers, second: _Counts, other_columns: Integers
) -> bool:
    """Return True if a unit of one text and a unit of the other have the cosine that `Comparison.find_seeds` asks for.

    Args:
        first: a text.
        matrix: the frequencies in its units of the stems that are also in the other text.
        columns: these stems.
        second: the other text.
        other_columns: the same stems there.
    """
    frequencies, other_frequencies = (np.bincount(text.columns, minlength=len(text.stems)) for text in (first, second))
    total = frequencies[columns] + other_frequencies[other_columns]
    frequencies[columns] = other_frequencies[other_columns] = total
    weights = np.log((first.size + second.size) / frequencies) ** 2
    lengths = np.sqrt(first.sum_squares(weights))
    other_lengths = np.sqrt(second.sum_squares(np.log((first.size + second.size) / other_frequencies) ** 2))
    other_matrix = second.spread(other_columns)
    products = (matrix * weights[columns].astype(np.float32)) @ other_matrix.T
    least = np.outer((SEED_COSINE - ROUNDING_MARGIN) * lengths, other_lengths)
    return bool(((products > 0) & (products >= least)).any())
