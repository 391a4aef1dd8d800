"""Find what two texts share: runs of equal words, and pairs of similar sentences.

Similarity is the TF-ISF cosine and the Dice coefficient over stems, after Sanchez-Perez, Gelbukh and Sidorov, "Adaptive
algorithm for plagiarism detection: the best-performing approach at PAN 2014 text alignment competition" (CLEF 2015):
inverse sentence frequencies are computed over both texts together.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.records import Span
from pan_scdg.text.stemming import stem_word
from pan_scdg.text.units import PreparedText, Words

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = npt.NDArray[np.float64]

RUN_WORDS = 8
"""Least length of a run in words."""
MAX_PLACES = 16
"""Places at which a run is tried, and best seeds of one unit that are kept: a phrase or a sentence that is repeated a
thousand times is no evidence of its place."""
SEED_COSINE = 0.33
SEED_DICE = 0.3
BATCH_PAIRS = 1 << 21
"""Pairs of units that are compared at a time; they take some 50 MB."""


class VerbatimMatch(NamedTuple):
    """A stretch of both texts with equal words."""

    target: Span
    source: Span
    matched: int
    """Characters of the target inside equal words."""


def find_runs(
    target: PreparedText | Words, source: PreparedText | Words, min_words: int = RUN_WORDS
) -> list[VerbatimMatch]:
    """Return the longest common runs of at least ``min_words`` words, in the order of the target, without overlap.

    Of equally long runs, the one that begins soonest after the previous run is taken.
    """
    if set(list_grams(source, min_words)).isdisjoint(list_grams(target, min_words)):
        return []  # the usual case for unrelated texts, detected in a tenth of the time
    places: dict[tuple[str, ...], list[int]] = {}
    for j in range(len(source.forms) - min_words + 1):
        starts = places.setdefault(source.forms[j : j + min_words], [])
        if len(starts) < MAX_PLACES:
            starts.append(j)
    runs: list[VerbatimMatch] = []
    i = expected = 0
    while i <= len(target.forms) - min_words:
        candidates = places.get(target.forms[i : i + min_words])
        if candidates is None:
            i += 1
            continue
        j = max(candidates, key=lambda j: (_count_equal(target.forms, i, source.forms, j), -abs(j - expected)))
        length = _count_equal(target.forms, i, source.forms, j)
        own = Span(int(target.words[i, 0]), int(target.words[i + length - 1, 1]))
        other = Span(int(source.words[j, 0]), int(source.words[j + length - 1, 1]))
        runs.append(VerbatimMatch(own, other, own.length))
        i += length
        expected = j + length
    return runs


def list_grams(text: PreparedText | Words, words: int = RUN_WORDS) -> Iterator[tuple[str, ...]]:
    """Yield all runs of ``words`` words."""
    return zip(*(text.forms[i:] for i in range(words)))


def _count_equal(target: Sequence[str], i: int, source: Sequence[str], j: int) -> int:
    """Return the number of equal words from these places on."""
    length, limit = 0, min(len(target) - i, len(source) - j)
    while length < limit and target[i + length] == source[j + length]:
        length += 1
    return length


def join_runs(runs: Iterable[VerbatimMatch], max_gap: int) -> list[VerbatimMatch]:
    """Join runs that follow one another in both texts with at most ``max_gap`` characters between them."""
    joined: list[VerbatimMatch] = []
    for run in sorted(runs):
        last = joined[-1] if joined else None
        gaps = [own.begin - before.end for own, before in zip(run[:2], last[:2])] if last else []
        if last and all(0 <= gap <= max_gap for gap in gaps):
            spans = last.target._replace(end=run.target.end), last.source._replace(end=run.source.end)
            joined[-1] = VerbatimMatch(*spans, last.matched + run.matched)
        else:
            joined.append(run)
    return joined


class Seed(NamedTuple):
    """A target unit and a similar source unit."""

    target: int
    source: int
    cosine: float


_SEEDS = np.dtype([("target", np.int64), ("source", np.int64), ("cosine", np.float64)])


class Comparison:
    """The units of a target and of a source as vectors of weighted stems."""

    def __init__(self, target: PreparedText, source: PreparedText) -> None:
        stems = dict.fromkeys((*target.stems, *source.stems))
        vocabulary = self._vocabulary = dict(zip(stems, range(len(stems))))
        self._target, self._source = (_count_stems(text, vocabulary) for text in (target, source))
        frequencies = sum(np.bincount(m.indices, minlength=len(vocabulary)) for m in (self._target, self._source))
        units = self._target.shape[0] + self._source.shape[0]
        self._weights: Floats = np.log(units / np.maximum(frequencies, 1))

    def find_seeds(self, min_cosine: float = SEED_COSINE, min_dice: float = SEED_DICE) -> list[Seed]:
        """Return the pairs of units that reach both limits, by target unit, then source unit."""
        target, source = self._normalise(self._target), self._normalise(self._source).T.tocsc()
        rows = max(1, BATCH_PAIRS // max(1, source.shape[1]))
        batches: list[npt.NDArray[Any]] = [np.empty(0, _SEEDS)]
        for start in range(0, target.shape[0], rows):
            cosines = (target[start : start + rows] @ source).tocoo()
            kept = cosines.data >= min_cosine
            seeds = np.empty(int(kept.sum()), _SEEDS)
            seeds["target"], seeds["source"] = start + cosines.row[kept], cosines.col[kept]
            seeds["cosine"] = cosines.data[kept]
            if len(seeds):  # those of unrelated texts are few
                batches.append(seeds[self._compute_dice(seeds) >= min_dice])
        return [Seed(*seed) for seed in _keep_best(np.concatenate(batches)).tolist()]

    def _compute_dice(self, seeds: npt.NDArray[Any]) -> Floats:
        """Return the Dice coefficient of the distinct stems of each pair of units."""
        target, source = self._target[seeds["target"]].astype(bool), self._source[seeds["source"]].astype(bool)
        common = np.asarray(target.multiply(source).sum(axis=1)).ravel()
        dice: Floats = 2 * common / (np.diff(target.indptr) + np.diff(source.indptr))
        return dice

    def compare_ranges(self, target: range, source: range) -> float:
        """Return the cosine of two ranges of units, each summed to one vector; 0 if either has no weight."""
        a, b = _sum_rows(self._target, target), _sum_rows(self._source, source)
        return _compute_cosine(a * self._weights, b * self._weights)

    def compare_units(self, target: range) -> Floats:
        """Return the cosine of a range of target units, as one vector, with each unit of the source, ``[u]``."""
        vector = _sum_rows(self._target, target) * self._weights
        norm = float(np.sqrt(vector @ vector))
        cosines: Floats = self._normalise(self._source) @ (vector / norm if norm else vector)
        return cosines

    def compare_words(self, target: Sequence[str], source: Sequence[str]) -> float:
        """Return the cosine of two stretches of words from these texts."""
        size = len(self._vocabulary)
        a, b = (
            np.bincount([self._vocabulary[stem_word(form)] for form in forms], minlength=size) * self._weights
            for forms in (target, source)
        )
        return _compute_cosine(a, b)

    def _normalise(self, counts: "csr_array") -> "csr_array":
        weighted = counts.copy()
        weighted.data *= self._weights[counts.indices]
        norms = np.sqrt((weighted**2).sum(axis=1))
        norms[norms == 0] = 1.0
        weighted.data *= np.repeat(1 / norms, np.diff(counts.indptr))
        return weighted


def _sum_rows(counts: "csr_array", rows: range) -> Floats:
    """Return the sum of some rows, ``[stems]``, without the slow slicing of a matrix."""
    first, end = counts.indptr[[rows.start, rows.stop]].tolist()
    sums = np.bincount(counts.indices[first:end], counts.data[first:end], counts.shape[1])
    return np.asarray(sums, np.float64)


def _compute_cosine(a: Floats, b: Floats) -> float:
    norm = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / norm if norm else 0.0


def _count_stems(text: PreparedText, vocabulary: Mapping[str, int]) -> "csr_array":
    """Return the count of each stem in each unit, ``[units, stems]``."""
    import scipy.sparse as sp

    columns = np.array([vocabulary[stem] for stem in text.stems], np.int64)[text.stem_places]
    ends = np.concatenate([[0], text.units[:, 1]])
    counts = sp.csr_array((np.ones(len(columns)), columns, ends), (len(text.units), len(vocabulary)))
    counts.sum_duplicates()
    return counts


def _keep_best(seeds: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the seeds that are among the `MAX_PLACES` best of both their units, in order; ties go by place."""
    kept = np.ones(len(seeds), np.bool_)
    for own, other in ((seeds["target"], seeds["source"]), (seeds["source"], seeds["target"])):
        order = np.lexsort((other, -seeds["cosine"], own))
        begins = np.searchsorted(own[order], own[order])
        kept[order[np.arange(len(order)) - begins >= MAX_PLACES]] = False
    best = seeds[kept]
    return np.asarray(best[np.lexsort((best["source"], best["target"]))])
