"""Search the grid of reranking configurations on one coarse ranking (paper, Hyperparameter Selection).

Nine features of the gains, three numbers N of candidates and four weights are 108 configurations. The paper names the
four upper-tail features only; the other five are ours: the statistics of gains that it speaks of elsewhere (mean,
median, positive-gain rate), the mean of the positive gains and the standard deviation. It also leaves
open the order after the first N candidates: here scores are normalised over these N, and the others keep their coarse
order after them.

The measures need the ranks of the judged documents alone: with the same arithmetic and the same ties as
`scdg.decision.rerank`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.evaluation.retrieval import Qrels
from pan_scdg.retrieval.ranking import Ranked
from pan_scdg.scdg.aggregation import Aggregate, Floats, GainStatistics
from pan_scdg.scdg.decision import rerank, scale_min_max
from pan_scdg.scoring.candidates import Found

UPPER_TAILS = {"top-1%": 1.0, "top-2%": 2.0, "top-5%": 5.0, "top-10%": 10.0}
OTHERS = ("mean", "median", "positive-gain-rate", "positive-mean", "deviation")
FEATURES = (*UPPER_TAILS, *OTHERS)
DEPTHS = (100, 500, 1000)
WEIGHTS = (0.25, 0.5, 0.75, 1.0)
CUT = 10
"""Of nDCG and of the first recall; the second is at ten times as many."""
_DISCOUNTS = np.log2(np.arange(2, CUT + 2))

Ranks = npt.NDArray[np.intp]


class Candidates(NamedTuple):
    """The candidates of one query, in coarse order."""

    doc_ids: tuple[str, ...]
    coarse: Floats
    """``[candidates]``."""
    gains: Floats
    """``[scored, features]`` of the first candidates, in the order of `FEATURES`; the others keep their places."""


class Configuration(NamedTuple):
    """Settings by which candidates are reranked."""

    feature: str
    """One of `FEATURES`."""
    depth: int
    """N, the number of candidates that are reordered."""
    weight: float
    """Weight of the gains; that of the coarse scores is the rest."""


class GridRow(NamedTuple):
    """Means over the development queries."""

    configuration: Configuration
    ndcg: float
    """nDCG@10 with gains 2^grade - 1."""
    recall: float
    """R@10."""
    deep_recall: float
    """R@100."""


def list_features(statistics: GainStatistics) -> list[float]:
    """Return the features of one candidate, in the order of `FEATURES`."""
    tails = [statistics.scores[Aggregate("top", q)] for q in UPPER_TAILS.values()]
    moments = [statistics.positive_mean, statistics.deviation]
    return [*tails, statistics.mean, statistics.median, statistics.positive_rate, *moments]


def make_candidates(query_id: str, ranking: Sequence[Ranked], scored: Found, most: int | None = None) -> Candidates:
    """Return the candidates of a first-stage ranking, with the gain features of the first ``most`` (None: of all)."""
    gains = [list_features(scored[query_id, candidate.doc_id][0]) for candidate in ranking[:most]]
    coarse = np.array([candidate.score for candidate in ranking], dtype=np.float64)
    shape = (len(gains), len(FEATURES))
    return Candidates(tuple(c.doc_id for c in ranking), coarse, np.array(gains, dtype=np.float64).reshape(shape))


def list_configurations() -> list[Configuration]:
    """Return the whole grid, the cheaper first: fewer candidates, smaller weight, then the order of `FEATURES`."""
    return [Configuration(f, depth, weight) for depth in DEPTHS for weight in WEIGHTS for f in FEATURES]


def search_grid(qrels: Qrels, candidates: Mapping[str, Candidates]) -> list[GridRow]:
    """Return every configuration, the best first: by nDCG@10, R@10, R@100, then the order of `list_configurations`.

    Means are over the queries of ``qrels``; a query without candidates or without a relevant document counts 0.
    """
    values = np.stack([_measure(qrels[query], candidates.get(query)) for query in qrels])
    # correctly rounded sums: whether two configurations tie must not depend on the order of the queries
    means = [[math.fsum(column) / len(values) for column in of.T] for of in values.transpose(1, 0, 2)]
    rows = [GridRow(c, *mean) for c, mean in zip(list_configurations(), means, strict=True)]
    return sorted(rows, key=lambda row: row[1:], reverse=True)


def rerank_by(candidates: Candidates, chosen: Configuration) -> list[str]:
    """Return all documents in the order of one configuration, by `scdg.decision.rerank`."""
    n, feature = min(chosen.depth, len(candidates.gains)), FEATURES.index(chosen.feature)
    head = candidates.doc_ids[:n]
    order = rerank(head, candidates.coarse[:n], candidates.gains[:n, feature], chosen.weight)
    return [*(doc_id for doc_id, _ in order), *candidates.doc_ids[n:]]


def _measure(grades: Mapping[str, int], candidates: Candidates | None) -> Floats:
    """Return nDCG@10, R@10 and R@100 of one query in every configuration, ``[configurations, 3]``."""
    relevant = {doc_id: grade for doc_id, grade in grades.items() if grade > 0}
    if candidates is None or not relevant:
        return np.zeros((len(DEPTHS) * len(WEIGHTS) * len(FEATURES), 3))
    place = {doc_id: i for i, doc_id in enumerate(candidates.doc_ids) if doc_id in relevant}
    places = np.array(list(place.values()), dtype=np.intp)
    gains = np.array([2.0 ** relevant[doc_id] - 1 for doc_id in place])
    ranks = np.concatenate([_rank(candidates, places, depth) for depth in DEPTHS])
    best = np.sort([2.0**grade - 1 for grade in relevant.values()])[::-1][:CUT]
    ideal = _discount(np.pad(best, (0, CUT - len(best))))
    recalls = [(ranks <= cut).sum(axis=1) / len(relevant) for cut in (CUT, 10 * CUT)]
    return np.column_stack([_discount(_order_gains(ranks, gains)) / ideal, *recalls])


def _rank(candidates: Candidates, places: Ranks, depth: int) -> Ranks:
    """Return the ranks from 1 of the documents at ``places``, ``[weights * features, places]``."""
    n = min(depth, len(candidates.gains))
    head = candidates.doc_ids[:n]
    coarse = scale_min_max(candidates.coarse[:n])
    gain = np.stack([scale_min_max(column) for column in candidates.gains[:n].T])
    weights = np.array(WEIGHTS)[:, None, None]
    final = ((1 - weights) * coarse + weights * gain).reshape(len(WEIGHTS) * len(FEATURES), n)
    alphabetical = np.argsort(sorted(range(n), key=head.__getitem__))
    order = np.lexsort((np.broadcast_to(alphabetical, final.shape), -final), axis=1)
    ranks = np.tile(places + 1, (len(final), 1))
    moved = places < n
    ranks[:, moved] = np.argsort(order, axis=1)[:, places[moved]] + 1
    return ranks


def _order_gains(ranks: Ranks, gains: Floats) -> Floats:
    """Return the gain at each of the first ranks, ``[rows, CUT]``: equal rankings are summed in one order."""
    slots = np.zeros((len(ranks), CUT))
    row, column = np.nonzero(ranks <= CUT)
    slots[row, ranks[row, column] - 1] = gains[column]
    return slots


def _discount(gains: Floats) -> Floats:
    return np.asarray((gains / _DISCOUNTS).sum(axis=-1), dtype=np.float64)
