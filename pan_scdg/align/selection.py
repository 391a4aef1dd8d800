"""The first stage of many pairs: leave out those whose score cannot reach a limit, whatever their alignment is.

Of the numbers of a score (`profile.baseline.Alignment`) the similarity of passages takes most time: words have to be
aligned. It is at most 1, and it is 0 without two similar units or a run of words in common. All else is computed
for all pairs at once, so that no pair is lost.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.align.kernels import compile_kernels
from pan_scdg.align.units import EncodedText, Integers, PreparedText
from pan_scdg.align.verbatim import list_grams
from pan_scdg.align.wholes import compare_stem_sets, find_topic, measure_focus
from pan_scdg.profile import PassageSettings
from pan_scdg.profile.baseline import Alignment

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MARGIN = 1e-4
"""By which the numbers of this module may differ from exact ones; they differ by less than 1e-6."""
BLOCK = 1 << 23
"""Pairs of sentences that are compared at a time, which takes 32 MB."""
SOME = 256
"""Targets that are in memory at a time."""


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
    """Numbers the stems of texts in the order in which they come."""

    def __init__(self) -> None:
        self._stems: dict[str, int] = {}

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


def hash_runs(text: PreparedText, words: int) -> Integers:
    """Return the distinct hashes of all runs of ``words`` words; equal runs have equal hashes in one process."""
    return np.array(list(set(map(hash, list_grams(text, words)))), np.int64)


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
        hashes: of the runs of each source; see `hash_runs`.
    """

    def __init__(self, hashes: Sequence[Integers]) -> None:
        owners = np.repeat(np.arange(len(hashes)), [len(of) for of in hashes])
        together = np.concatenate([*hashes, np.empty(0, np.int64)])
        order = np.argsort(together, kind="stable")
        self._hashes, self._owners, self._count = together[order], owners[order], len(hashes)

    def find(self, hashes: Integers) -> npt.NDArray[np.bool_]:
        """Return True for each source that has one of these runs, ``[s]``."""
        found = np.zeros(self._count, np.bool_)
        first, end = (np.searchsorted(self._hashes, hashes, side) for side in ("left", "right"))
        for a, b in zip(first[end > first].tolist(), end[end > first].tolist()):
            found[self._owners[a:b]] = True
        return found


class _Counted(NamedTuple):
    """A target as the threads read it."""

    vectors: npt.NDArray[np.float32]
    stems: WordCounts
    counted_stems: Integers
    """Numbers of the stems of the units that count."""
    runs: Integers
    """Hashes."""


class FirstStage:
    """Finds the sources that a target can have been written from.

    Args:
        sources: all sources; read one at a time.
        settings: weights of the score.
        passages: the parameters of the alignment.
        least: the score that a pair has to reach.
    """

    def __init__(
        self, sources: Iterable[EncodedText], settings: Alignment, passages: PassageSettings, least: float
    ) -> None:
        self._settings, self._passages, self._least = settings, passages, least - MARGIN
        self._words = Vocabulary()
        self._counts: list[WordCounts] = []
        self._vectors: list[npt.NDArray[np.float16]] = []
        runs: list[Integers] = []
        for source in sources:
            self._counts.append(self._words.count_stems(source.prepared))
            self._vectors.append(source.vectors.astype(np.float16))
            runs.append(hash_runs(source.prepared, passages.run_words))
        self._shared = SharedRuns(runs)
        self._sizes = np.array(list(map(len, self._vectors)), np.int64)
        self._topics = _stack_topics(self._vectors)
        self._stems = mark_stems(self._counts)

    def find_all(self, targets: Iterable[EncodedText], threads: int) -> Iterator[list[int]]:
        """Yield for each target the places of the sources whose score with it may reach the limit, in order.

        Args:
            targets: read some at a time.
            threads: targets that are compared side by side.
        """
        waiting = iter(targets)
        with ThreadPoolExecutor(threads) as pool:
            while some := list(islice(waiting, SOME)):
                yield from pool.map(self._find, [self._count(target) for target in some])

    def _count(self, target: EncodedText) -> _Counted:
        """Return a target with its words counted, which no two threads may do at a time."""
        runs = hash_runs(target.prepared, self._passages.run_words)
        stems = self._words.count_stems(target.prepared)  # first, since its order does not depend on that of a set
        counted = self._words.number_stems(target.prepared.list_counted_stems())
        return _Counted(target.counted, stems, counted, runs)

    def _find(self, target: _Counted) -> list[int]:
        numbers: dict[str, npt.ArrayLike] = {
            "match": self._measure_matches(target.vectors),
            "common": self._compare_stems(target.counted_stems),
            "focus": self._measure_focus(target.vectors),
            "candidates": len(target.vectors) * self._sizes,
        }
        lower, upper = (self._settings.compute_scores({**numbers, "similarity": i}) for i in (0.0, 1.0))
        chosen = lower >= self._least
        possible = ~chosen & (upper >= self._least)
        if possible.any():
            runs = self._shared.find(target.runs)
            chosen |= possible & runs
            self._look_for_seeds(target.stems, np.flatnonzero(possible & ~runs).tolist(), chosen)
        return [int(place) for place in np.flatnonzero(chosen)]

    def _measure_focus(self, target: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """Return `measure_focus` of a target and each source."""
        step = max(1, BLOCK // max(1, len(target)))
        found = [measure_focus(target, self._topics[i : i + step]) for i in range(0, len(self._topics), step)]
        return np.concatenate([np.empty(0), *found])

    def _compare_stems(self, target: Integers) -> npt.NDArray[np.float64]:
        """Return `compare_stem_sets` of some stems and each source."""
        marks = np.zeros(self._stems.shape[1])
        marks[target[target < len(marks)]] = 1
        return compare_stem_sets(self._stems @ marks, len(target), np.diff(self._stems.indptr))

    def _look_for_seeds(self, target: WordCounts, places: Sequence[int], chosen: npt.NDArray[np.bool_]) -> None:
        _, has_seed = compile_kernels()
        least = self._passages.seed_cosine - MARGIN, self._passages.seed_dice - MARGIN
        for place in places:
            chosen[place] = has_seed(tuple(target), tuple(self._counts[place]), *least)

    def _measure_matches(self, target: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """Return the match of the sentences with each source."""
        measure_matches, _ = compile_kernels()
        found = np.empty(len(self._sizes))
        for first, last in self._list_blocks(max(1, BLOCK // max(1, len(target)))):
            bounds = np.concatenate([[0], np.cumsum(self._sizes[first:last])])
            filled = [vectors for vectors in self._vectors[first:last] if vectors.size]
            cosines: npt.NDArray[np.float32] = np.zeros((len(target), 0), np.float32)
            if filled and target.size:
                cosines = target @ np.concatenate(filled).astype(np.float32).T
            measure_matches(cosines, bounds, found[first:last])
        return found

    def _list_blocks(self, most: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of sources with at most ``most`` sentences together, or of a single one."""
        cuts, together = [0], 0
        for place, size in enumerate(self._sizes.tolist()):
            if together and together + size > most:
                cuts.append(place)
                together = 0
            together += size
        return pairwise([*cuts, len(self._sizes)])


def _stack_topics(sources: Sequence[npt.NDArray[np.float16]]) -> npt.NDArray[np.float32]:
    """Return the topic of each source, ``[s, d]``; that of a source without sentences is zero."""
    width = max((vectors.shape[1] for vectors in sources), default=0)
    topics = np.zeros((len(sources), width), np.float32)
    for place, vectors in enumerate(sources):
        if vectors.size:
            topics[place] = find_topic(vectors.astype(np.float32))
    return topics
