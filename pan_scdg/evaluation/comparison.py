"""What differs between two results of one task, and whether that is more than the order of arithmetic explains.

A and B are the two results. Nothing here knows where they come from; `jobs.compare` reads them.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from pan_scdg.records import Span

TOP = 10
"""Best documents of a query that a reader sees."""
PERSISTENCE, DEPTH = 0.9, 100
"""Rank-biased overlap gives the first ten documents 86 % of the weight, and those behind the hundredth none."""

Pair = tuple[str, str]
"""Ids of a suspicious document and a source; an empty one where a passage names no source."""
Rankings = Mapping[str, Sequence[str]]
"""Documents of each query, best first."""


@dataclass(frozen=True)
class Coverage:
    """How many things two results have in common."""

    both: int
    only_a: int
    only_b: int

    def words(self) -> str:
        """For a report."""
        return f"{self.both} in both, {self.only_a} only in A, {self.only_b} only in B"


@dataclass(frozen=True)
class Differences:
    """Absolute differences of the numbers that two results have under the same names; None where there are none."""

    both: int
    missing: int
    """Names with a number in one of them alone."""
    largest: float | None
    mean: float | None


@dataclass(frozen=True)
class Agreement:
    """A correlation of rankings over queries."""

    mean: float
    least: float


@dataclass(frozen=True)
class Move:
    """The document in a top 10 whose rank differs most."""

    query: str
    document: str
    rank_a: int
    rank_b: int


@dataclass(frozen=True)
class RankingComparison:
    """Two rankings of the same queries, over the queries that both have."""

    queries: Coverage
    tau: Agreement | None
    """Kendall's tau-b over the documents that both rank; None: no query has two of them."""
    overlap: Agreement | None
    """Rank-biased overlap (Webber et al., TOIS 2010) of the first `DEPTH`; 1 for the same documents in one order."""
    other_sets: tuple[str, ...]
    """Queries with another set of documents in the top 10."""
    other_orders: tuple[str, ...]
    """Queries with other documents or another order in the top 10."""
    replaced: int
    """Documents of all top 10s in whose place another or none stands ..."""
    listed: int
    """... of so many."""
    move: Move | None
    """Over documents that both rank and that one of them has in its top 10; None: none has another rank."""


@dataclass(frozen=True)
class Decision:
    """What was decided about a pair; score in nats and threshold where they are known."""

    positive: bool
    score: float | None = None
    threshold: float | None = None


@dataclass(frozen=True)
class Flip:
    """A pair that was decided in two ways."""

    pair: Pair
    a: Decision
    b: Decision

    def is_near(self, tolerance: float) -> bool:
        """Whether every score known of it lies within ``tolerance`` of its threshold, and one is known."""
        known = [(d.score, d.threshold) for d in (self.a, self.b)]
        gaps = [abs(s - t) for s, t in known if s is not None and t is not None]
        return bool(gaps) and max(gaps) <= tolerance


@dataclass(frozen=True)
class PairComparison:
    """Two sets of decisions and passages."""

    pairs: Coverage
    flips: tuple[Flip, ...]
    scores: Differences
    correlation: float | None
    """Spearman's, of the scores of pairs that both have; None where it is undefined."""
    passages: Coverage
    moved: tuple[Pair, ...]
    """Pairs that were not decided in two ways and whose passages differ nevertheless."""


@dataclass(frozen=True)
class Tolerances:
    """How much two results may differ and still count as the same."""

    score: float = 0.05
    """In nats: how near to its threshold a score is where the decision may turn, and how much scores of pairs may
    differ on average. In bfloat16 the mean gain differs by up to 0.02 nats between the engines."""
    top10: float = 0.05
    """Share of the documents in all top 10s that may be replaced by others. The tenth and the eleventh change places
    easily: with the profile offline on the examples another engine replaces 2 of 150 in 2 of 15 queries, and float32
    for bfloat16 4 in 4."""


def coverage(a: Iterable[Hashable], b: Iterable[Hashable]) -> Coverage:
    """What is in both, and in one alone."""
    one, other = set(a), set(b)
    return Coverage(len(one & other), len(one - other), len(other - one))


def differences(a: Mapping[Pair, float], b: Mapping[Pair, float]) -> Differences:
    """How far the numbers of the same names are apart."""
    gaps = np.array([abs(value - b[name]) for name, value in a.items() if name in b])
    missing = len(a) + len(b) - 2 * len(gaps)
    if not len(gaps):
        return Differences(0, missing, None, None)
    return Differences(len(gaps), missing, float(gaps.max()), float(gaps.mean()))


def compare_rankings(a: Rankings, b: Rankings) -> RankingComparison:
    """What differs between two rankings."""
    queries = [query for query in a if query in b]
    moves = [m for query in queries for m in _moves(query, a[query], b[query])]
    tops = [(set(a[query][:TOP]), set(b[query][:TOP])) for query in queries]
    return RankingComparison(
        coverage(a, b),
        _agreement([tau for query in queries if (tau := _tau(a[query], b[query])) is not None]),
        _agreement(_overlaps({query: a[query] for query in queries}, b)),
        tuple(query for query, (one, other) in zip(queries, tops) if one != other),
        tuple(query for query in queries if list(a[query][:TOP]) != list(b[query][:TOP])),
        sum(max(len(one - other), len(other - one)) for one, other in tops),
        sum(max(len(one), len(other)) for one, other in tops),
        max(moves, key=lambda m: abs(m.rank_a - m.rank_b), default=None),
    )


def _moves(query: str, a: Sequence[str], b: Sequence[str]) -> Iterator[Move]:
    """Documents with another rank, of those that both rank and one has in its top 10."""
    if list(a[:TOP]) == list(b[:TOP]):
        return
    ranks_a, ranks_b = ({doc: rank for rank, doc in enumerate(ranking, 1)} for ranking in (a, b))
    for doc in dict.fromkeys([*a[:TOP], *b[:TOP]]):
        if doc in ranks_a and doc in ranks_b and ranks_a[doc] != ranks_b[doc]:
            yield Move(query, doc, ranks_a[doc], ranks_b[doc])


def _tau(a: Sequence[str], b: Sequence[str]) -> float | None:
    from scipy.stats import kendalltau

    ranks = {doc: rank for rank, doc in enumerate(b)}
    common = [ranks[doc] for doc in a if doc in ranks]
    return float(kendalltau(range(len(common)), common).statistic) if len(common) > 1 else None


def _overlaps(a: Rankings, b: Rankings) -> list[float]:
    """Rank-biased overlap of each query of ``a``.

    ir_measures has it as compatibility with an ideal ranking (Clarke et al., TOIS 2021); B is the ideal one here.
    """
    import ir_measures

    measure = ir_measures.Compat(p=PERSISTENCE)
    ideal = {query: {doc: DEPTH - i for i, doc in enumerate(b[query][:DEPTH])} for query in a}
    found = {query: {doc: float(DEPTH - i) for i, doc in enumerate(docs[:DEPTH])} for query, docs in a.items()}
    return [float(m.value) for m in ir_measures.iter_calc([measure], ideal, found)] if a else []


def _agreement(values: Sequence[float]) -> Agreement | None:
    return Agreement(float(np.mean(values)), min(values)) if values else None


def decisions_behind(passages: Iterable[Span], pairs: Iterable[Pair] = ()) -> dict[Pair, Decision]:
    """Decisions as passages alone tell them: positive where there is one, negative for the rest of ``pairs``."""
    found = {pair: Decision(False) for pair in pairs}
    return found | {(span.suspicious, span.source or ""): Decision(True) for span in sorted(passages, key=str)}


def compare_pairs(
    a: Mapping[Pair, Decision], b: Mapping[Pair, Decision], passages_a: Set[Span], passages_b: Set[Span]
) -> PairComparison:
    """What differs between two sets of decisions, and between the passages that belong to them."""
    both = [pair for pair in a if pair in b]
    flips = tuple(Flip(pair, a[pair], b[pair]) for pair in both if a[pair].positive != b[pair].positive)
    scores_a, scores_b = _scores(a), _scores(b)
    scores = differences(scores_a, scores_b) if scores_a and scores_b else Differences(0, 0, None, None)
    known = [pair for pair in both if pair in scores_a and pair in scores_b]
    changed = {(span.suspicious, span.source or "") for span in passages_a ^ passages_b}
    alone = a.keys() ^ b.keys()
    return PairComparison(
        coverage(a, b),
        flips,
        scores,
        _correlation([scores_a[pair] for pair in known], [scores_b[pair] for pair in known]),
        coverage(passages_a, passages_b),
        tuple(sorted(changed - {flip.pair for flip in flips} - alone)),
    )


def _scores(decisions: Mapping[Pair, Decision]) -> dict[Pair, float]:
    return {pair: decision.score for pair, decision in decisions.items() if decision.score is not None}


def _correlation(a: Sequence[float], b: Sequence[float]) -> float | None:
    from scipy.stats import spearmanr

    return float(spearmanr(a, b).statistic) if len(set(a)) > 1 and len(set(b)) > 1 else None


def ranking_faults(found: RankingComparison, tolerances: Tolerances) -> list[str]:
    """What is more than the tolerances permit."""
    faults = _coverage_faults(found.queries, "queries")
    if found.listed and not found.replaced / found.listed <= tolerances.top10:
        faults.append(f"other documents in the top 10: {found.replaced} of {found.listed}")
    return faults


def pair_faults(found: PairComparison, tolerances: Tolerances) -> list[str]:
    """What is more than the tolerances permit."""
    faults = _coverage_faults(found.pairs, "pairs")
    if far := sum(not flip.is_near(tolerances.score) for flip in found.flips):
        faults.append(f"decided otherwise and not near the threshold: {far} of {found.pairs.both} pairs")
    if found.scores.missing and not (found.pairs.only_a or found.pairs.only_b):
        faults.append(f"scored in one alone: {found.scores.missing} of {found.pairs.both} pairs")
    if found.scores.mean is not None and not found.scores.mean <= tolerances.score:
        faults.append(f"scores differ by {found.scores.mean:.6g} nats on average")
    if found.moved:
        faults.append(f"other passages, though decided alike: {len(found.moved)} of {found.pairs.both} pairs")
    return faults


def _coverage_faults(found: Coverage, what: str) -> list[str]:
    if not (found.only_a or found.only_b):
        return []
    return [f"{what} only in A: {found.only_a}, only in B: {found.only_b}"]
