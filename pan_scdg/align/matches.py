"""Align the sentences of two texts: evidence of reuse that survives rewriting.

A rewritten text shares few words with its source, but its sentences follow those of the source, in their order: the
score of a local alignment grows with every sentence that does. What two texts on one topic have in common anyway counts
little: a sentence that is near to many sentences is no evidence.

Texts on one topic have sentences that match, too, but scattered, in another order, no nearer to each other than the
sentences of one text are, and those without a match are rather near, too: `NearestSentences` measures that.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.align.passages import find_best_stretch
from pan_scdg.align.seeds import Seed

TEMPERATURE = 0.04
"""Of the softmax over the cosines of a sentence with all sentences of the other text."""
SEED_WEIGHT = 2.0
"""Weight of the words that two similar sentences have in common."""
MIN_VALUE = 0.28
"""Subtracted from the value: sentences on one topic that do not match have a negative one."""
TARGET_GAP, SOURCE_GAP = 0.2, 0.025
"""Cost of a sentence of the target, and of the source, that is left out."""
SMALLEST = 1e-30
"""Added to sums, which are 0 if a text has no sentences."""
BATCH_SENTENCES = 1024
"""Sentences of the target that are compared at a time, which bounds the memory."""
MAX_MATCHES = 200
"""Alignments of a pair; each may take as long as the first."""
STRETCH_SENTENCES = 3
"""Consecutive sentences of the target that stand out: by their margin, or by their contrast with the others."""
DENSE_SENTENCES = 8
"""Consecutive sentences of the target that are dense: sentence after sentence follows the source."""
MAX_STEP = 3
"""Sentences of the source from the one that is nearest to a sentence to the one that is nearest to the next."""
MIN_CORRESPONDING = 0.6
"""Least cosine of two sentences that correspond."""
MAX_TOPIC = 0.65
"""Cosine that two sentences do not have for their topic alone. Of a sentence that was rewritten twice, or as two, only
one part is mutual."""
MIN_RELATED = 0.4
"""Cosine from which a sentence may be written from another one, in other words or as its summary."""

Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class Match(NamedTuple):
    """Sentences of a target that follow sentences of a source: starts and exclusive ends of both, and the score."""

    begin: int
    end: int
    source_begin: int
    source_end: int
    score: float


NO_MATCH = Match(0, 0, 0, 0, 0.0)


class _Row(NamedTuple):
    """Scores of the alignments that end in a sentence of the target, at each sentence of the source, ``[s]``."""

    before: Numbers
    """Best scores in the sentence before, one place to the left."""
    extended: Numbers
    """These with the pair of sentences."""
    above: Numbers
    """Best scores in the sentence before, less the cost of leaving out this one."""
    raised: Numbers
    """The larger of both, with what it would cost to leave out all sentences of the source so far."""
    largest: Numbers
    """The largest of these so far."""
    scores: Numbers
    """Best scores."""


class SentenceAlignment:
    """Local alignments of two sequences of sentences (Smith and Waterman, 1981).

    With the cosines ``m[i, j]`` and ``e[i, j] = exp(m[i, j] / TEMPERATURE)``, the value of a pair of sentences is
    ``e[i, j] / sqrt(sum(e[i, :]) * sum(e[:, j])) - MIN_VALUE``: the geometric mean of both softmaxes, which says how
    much nearer the two are to each other than to other sentences. A pair of similar sentences has ``SEED_WEIGHT`` times
    the cosine of their words in addition. An alignment is a sequence of pairs that ascends in both texts; its score is
    the sum of their values, less the costs of the sentences that it leaves out.

    Args:
        target: unit vectors of the target's sentences in their order, ``[t, d]``.
        source: unit vectors of the source's sentences in their order, ``[s, d]``.
        seeds: the pairs of sentences that are similar by their words, in the order of the target.
    """

    def __init__(self, target: Floats, source: Floats, seeds: Sequence[Seed] = ()) -> None:
        self._target, self._source = target, source
        self._seeds = np.array([seed[:2] for seed in seeds], np.int64).reshape(-1, 2)
        self._seed_values = SEED_WEIGHT * np.array([seed.cosine for seed in seeds])
        rows: list[Floats] = []
        columns = np.full(len(source), SMALLEST, np.float32)
        for begin in range(0, len(target) if len(source) else 0, BATCH_SENTENCES):
            exponentials = self._exponentiate(self._compare(begin, len(target)))
            rows.append(exponentials.sum(axis=1))
            columns += exponentials.sum(axis=0)
        self._row_scale = 1 / np.sqrt(np.concatenate([np.zeros(0, np.float32), *rows]))
        self._column_scale = 1 / np.sqrt(columns)

    def find_best_score(self) -> float:
        """Return the score of the best alignment, at least 0; where it is would take twice the time."""
        return max((float(row.scores.max()) for row in self._fill(0, len(self._target))), default=0.0)

    def find_best(self, begin: int = 0, end: int | None = None) -> Match:
        """Return the alignment with the largest score among the target's sentences from ``begin`` to before ``end``.

        Of equal ones, the one that ends first in the target, then in the source. `NO_MATCH` if no value is above 0.
        """
        end = len(self._target) if end is None else end
        places = np.arange(len(self._source))
        starts: Integers = np.zeros(len(places), np.int64)
        """Where the best alignment that ends at each place begins, in the target and in the source."""
        source_starts = starts
        best = NO_MATCH
        for number, row in enumerate(self._fill(begin, end), begin):
            is_pair = row.extended >= row.above
            is_new = is_pair & (row.before <= 0)
            starts = np.where(is_new, number, np.where(is_pair, _shift(starts), starts))
            source_starts = np.where(is_new, places, np.where(is_pair, _shift(source_starts), source_starts))
            origin = np.maximum.accumulate(np.where(row.raised >= row.largest, places, 0))
            starts, source_starts = starts[origin], source_starts[origin]
            place = int(row.scores.argmax())
            if row.scores[place] > best.score:
                score = float(row.scores[place])
                best = Match(int(starts[place]), number + 1, int(source_starts[place]), place + 1, score)
        return best

    def find_all(self, min_score: float, places: Sequence[tuple[int, int]]) -> list[Match]:
        """Return the best alignment of each place, then the best ones before and after it and so on, down to a score.

        They are in the order of the target, and no two overlap in it; no more than `MAX_MATCHES` are searched for.

        Args:
            min_score: of an alignment.
            places: of the target's sentences, first and exclusive end.
        """
        matches: list[Match] = []
        waiting = list(places)
        while waiting and len(matches) < MAX_MATCHES:
            begin, end = waiting.pop()
            match = self.find_best(begin, end)
            if match.score > 0 and match.score >= min_score:
                matches.append(match)
                waiting += [(begin, match.begin), (match.end, end)]
        return sorted(matches)

    def _fill(self, begin: int, end: int) -> Iterator[_Row]:
        """Yield the scores that end in each of the target's sentences from ``begin`` to before ``end``."""
        width = len(self._source)
        costs = SOURCE_GAP * np.arange(width)
        scores = np.zeros(width + 1)  # the first stands before the source, so that the others need not be moved
        for first in range(begin, end if width else begin, BATCH_SENTENCES):
            for values in self._compute_values(first, end):
                before, extended, above = scores[:-1], scores[:-1] + values, scores[1:] - TARGET_GAP
                # leaving out k sentences of the source costs k times the same: the best place to come from is a maximum
                raised = np.maximum(np.maximum(extended, above), 0.0) + costs
                largest = np.maximum.accumulate(raised)
                scores = np.zeros(width + 1)
                np.subtract(largest, costs, out=scores[1:])
                yield _Row(before, extended, above, raised, largest, scores[1:])

    def _compare(self, begin: int, end: int) -> Floats:
        """Return the cosines of a batch of the target's sentences, ``[n, s]``."""
        if len(self._target) <= BATCH_SENTENCES:
            return self._cosines[begin:end]
        return self._target[begin : min(end, begin + BATCH_SENTENCES)] @ self._source.T

    @cached_property
    def _cosines(self) -> Floats:
        """Return the cosines of all sentences of a target that is compared at once, ``[t, s]``."""
        return self._target @ self._source.T

    def _exponentiate(self, cosines: Floats) -> Floats:
        return np.asarray(np.exp((cosines - 1) / np.float32(TEMPERATURE)))

    def _compute_values(self, begin: int, end: int) -> Numbers:
        """Return the values of a batch of the target's sentences, ``[n, s]``."""
        cosines = self._compare(begin, end)
        scale = self._row_scale[begin : begin + len(cosines), None] * self._column_scale
        softmax = self._exponentiate(cosines) * scale
        values = np.asarray(softmax - MIN_VALUE, np.float64)
        inside = slice(*np.searchsorted(self._seeds[:, 0], (begin, begin + len(cosines))).tolist())
        rows, columns = self._seeds[inside].T
        values[rows - begin, columns] += self._seed_values[inside]
        return values


def _shift(row: Integers) -> Integers:
    """Return a row moved by one place to the right."""
    moved = np.empty_like(row)
    moved[0], moved[1:] = 0, row[:-1]
    return moved


class NearestSentences(NamedTuple):
    """The sentence of a source that is nearest to each sentence of a target, ``[t]``."""

    places: Integers
    """Its number."""
    cosines: Floats
    is_mutual: npt.NDArray[np.bool_]
    """True if the target's sentence is the one that is nearest to it."""

    @property
    def is_corresponding(self) -> npt.NDArray[np.bool_]:
        """Return True for the target's sentences that correspond to one of the source, ``[t]``.

        Each is the one of its text that is nearest to the other, and they are `MIN_CORRESPONDING` near.
        """
        return np.asarray(self.is_mutual & (self.cosines >= MIN_CORRESPONDING), np.bool_)

    def count_in_order(self) -> int:
        """Return the largest number of corresponding sentences whose nearest ones follow each other in the source."""
        last: list[int] = []  # of the sequences of each length the least last place
        for place in self.places[self.is_corresponding].tolist():
            longer = bisect_left(last, place)
            last[longer : longer + 1] = [place]
        return len(last)

    def measure_margin(self, own: Floats) -> float:
        """Return by how much consecutive sentences are nearer to the source than to their own text, at most.

        That is the largest mean, over consecutive sentences, of the cosine with the nearest one, if it is mutual,
        less that with the nearest other sentence of the target; at least 0 for each.

        Args:
            own: see `measure_nearest_own`, ``[t]``.
        """
        margins = np.where(self.is_mutual, np.maximum(self.cosines - own, 0.0), 0.0)
        return _find_largest_sum(margins, STRETCH_SENTENCES) / max(1, min(STRETCH_SENTENCES, len(margins)))

    def measure_contrast(self) -> float:
        """Return by how much consecutive sentences are nearer to the source than the target's sentences on average."""
        if len(self.cosines) <= STRETCH_SENTENCES:
            return 0.0
        return _find_largest_sum(self.cosines - self.cosines.mean(), STRETCH_SENTENCES) / STRETCH_SENTENCES

    def measure_topic(self) -> float:
        """Return how near the source is to sentences that were not written from it: that is due to the topic.

        These are the sentences that are not mutual, and less than `MAX_TOPIC` near. Their mean cosine is returned;
        `STRETCH_SENTENCES` more at `MIN_RELATED` are averaged in, so that few sentences say little.
        """
        others = self.cosines[~self.is_mutual & (self.cosines < MAX_TOPIC)]
        return (float(others.sum()) + STRETCH_SENTENCES * MIN_RELATED) / (len(others) + STRETCH_SENTENCES)

    def measure_density(self) -> float:
        """Return the largest share of steps among `DENSE_SENTENCES` sentences that follow the source.

        In such a step both sentences and their nearest ones are mutual, and the second one of these is the same or one
        of the next `MAX_STEP` sentences of the source.
        """
        steps = np.diff(self.places)
        follows = self.is_mutual[1:] & self.is_mutual[:-1] & (steps >= 0) & (steps <= MAX_STEP)
        return _find_largest_sum(follows, DENSE_SENTENCES - 1) / (DENSE_SENTENCES - 1)


def _find_largest_sum(values: npt.NDArray[Any], size: int) -> float:
    """Return the largest sum of consecutive values, or that of all if there are fewer."""
    if len(values) <= size:
        return float(values.sum())
    sums = np.cumsum([0.0, *values])
    return float((sums[size:] - sums[:-size]).max())


def find_nearest(target: Floats, source: Floats) -> NearestSentences:
    """Return the nearest sentences to a target's, ``[t, d]``, in a source, ``[s, d]``.

    The order of the sentences is of no account, as in a summary.
    """
    if not target.size or not source.size:
        empty = np.zeros(len(target), np.float32)
        return NearestSentences(empty.astype(np.int64), empty, empty.astype(np.bool_))
    nearest, places = np.full(len(source), -1.0, np.float32), np.zeros(len(source), np.int64)
    cosines, best = [], []
    for begin in range(0, len(target), BATCH_SENTENCES):
        batch = target[begin : begin + BATCH_SENTENCES] @ source.T
        cosines.append(batch.max(axis=1))
        best.append(batch.argmax(axis=1))
        rows = batch.argmax(axis=0)
        largest = batch[rows, np.arange(len(source))]
        is_nearer = largest > nearest
        nearest[is_nearer], places[is_nearer] = largest[is_nearer], begin + rows[is_nearer]
    own = np.concatenate(best)
    return NearestSentences(own, np.concatenate(cosines), np.asarray(places[own] == np.arange(len(target)), np.bool_))


def measure_vectors(target: Floats, own: Floats, source: Floats) -> dict[str, float]:
    """Return the numbers of a pair that depend on the vectors of its sentences only.

    - margin, contrast, density, topic: see `NearestSentences`.
    - nearest: the largest cosine of two sentences; 0 without any.
    - sentences: those of the target.
    - corresponding: how many of them correspond to one of the source.
    - in_order: how many of these follow each other in the source.
    - candidates: the pairs of sentences, with which the score of unrelated texts rises.

    Args:
        target: unit vectors of the target's sentences in their order, ``[t, d]``.
        own: see `measure_nearest_own`, ``[t]``.
        source: the same of the source, ``[s, d]``.
    """
    nearest = find_nearest(target, source)
    return {
        "margin": nearest.measure_margin(own),
        "contrast": nearest.measure_contrast(),
        "density": nearest.measure_density(),
        "topic": nearest.measure_topic() if len(source) else MIN_RELATED,
        "nearest": float(nearest.cosines.max(initial=0.0)),
        "sentences": float(len(target)),
        "corresponding": float(nearest.is_corresponding.sum()),
        "in_order": float(nearest.count_in_order()),
        "candidates": float(len(target) * len(source)),
    }


def measure_nearest_own(target: Floats) -> Floats:
    """Return the largest cosine of each sentence with another one of its text, at least 0, ``[t]``."""
    nearest = np.zeros(len(target), np.float32)
    for begin in range(0, len(target), BATCH_SENTENCES):
        cosines = target[begin : begin + BATCH_SENTENCES] @ target.T
        np.fill_diagonal(cosines[:, begin:], 0.0)
        nearest[begin : begin + BATCH_SENTENCES] = cosines.max(axis=1, initial=0.0)
    return nearest


def find_summary(target: Floats, source: Floats) -> tuple[range, range] | None:
    """Return the consecutive sentences of the target that most look like a summary, and where they are taken from.

    A sentence is worth its largest cosine less `MIN_RELATED`; the sentences with the largest sum are returned, and
    those of the source from the first to the last one that is nearest to one of them. None: no sentence is worth
    anything.

    Args:
        target: unit vectors of the target's sentences in their order, ``[t, d]``.
        source: the same of the source, ``[s, d]``.
    """
    if not target.size or not source.size:
        return None
    batches = (target[begin : begin + BATCH_SENTENCES] @ source.T for begin in range(0, len(target), BATCH_SENTENCES))
    nearest, places = (
        np.concatenate(side) for side in zip(*((batch.max(axis=1), batch.argmax(axis=1)) for batch in batches))
    )
    values = nearest - MIN_RELATED
    if values.max() <= 0:
        return None
    first, last = find_best_stretch(values.tolist())
    taken = places[first:last][values[first:last] >= 0]
    return range(first, last), range(int(taken.min()), int(taken.max()) + 1)
