"""Compare two results of one input, item by item; both are read from files, and nothing is computed again."""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple, Protocol

from pan_scdg.evaluation.retrieval import NDCG, compute_retrieval_metrics
from pan_scdg.pan.runs import find_run, read_run
from pan_scdg.pan.truth import read_features, read_reference
from pan_scdg.pan.untrusted import is_file
from pan_scdg.progress import format_count
from pan_scdg.records import DocumentPair
from pan_scdg.results.files import CANDIDATE_SCORES, DECISIONS, SCORES, read_lines
from pan_scdg.results.records import Decision, read_decisions

DETECTED = "detected-plagiarism"
MIN_OVERLAP = 0.99
"""Smallest overlap of passages that noise explains: a sentence at the limit of a passage may belong to it or not."""
TOP = 10
DECIMALS = 9
SHOWN_ITEMS = 100
"""Items that differ, of which a record lists the first."""
Key = tuple[str, str]
Feature = tuple[int, int, int, int]
"""Offset and length in the suspicious document and in the source."""


class Comparison(Protocol):
    """The differences of two results."""

    @property
    def size(self) -> int:
        """Return the number of pairs or queries."""

    @property
    def largest_difference(self) -> float | None:
        """Return the largest difference of a score; None: one of them has no scores."""

    def is_equal(self) -> bool:
        """Return True if nothing differs."""

    def fits(self, noise: float) -> bool:
        """Return True if scores that differ by up to ``noise`` explain all differences."""

    def describe(self) -> list[str]:
        """Return the figures in lines."""

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""


@dataclass(frozen=True)
class PairComparison:
    """The differences of two results of pair detection."""

    size: int
    other_decisions: Sequence[Key]
    near: int
    """Pairs among them that either result marks as ``near_threshold``."""
    distances: Sequence[float]
    """Of each pair with another decision: its least distance from the threshold; infinite if it has no score."""
    unscored: int
    """Pairs that have a score in one result only."""
    largest_difference: float | None
    median_difference: float | None
    other_detections: int
    """Pairs whose detection XML has other features."""
    overlap: float
    """Of the characters of passages, intersection over union, among pairs with equal decisions."""

    def is_equal(self) -> bool:
        """Return True if decisions, scores and detections are the same."""
        return not (self.other_decisions or self.unscored or self.largest_difference or self.other_detections)

    def fits(self, noise: float) -> bool:
        """Return True if all decisions that differ are near the threshold, and passages overlap."""
        if self.unscored or self.largest_difference == 0 or (self.largest_difference or 0) > noise:
            return False
        return all(distance <= noise for distance in self.distances) and self.overlap >= MIN_OVERLAP

    def describe(self) -> list[str]:
        """Return the figures in lines."""
        lines = [
            f"decisions that differ: {len(self.other_decisions)} of {format_count(self.size, 'pair')}, "
            f"near_threshold: {self.near}",
            f"detection XML with other features: {self.other_detections}",
            f"characters of passages, intersection over union: {self.overlap:.4f}",
        ]
        if self.largest_difference is not None:
            difference = f"largest {self.largest_difference:.6f}, median {self.median_difference:.6f}"
            lines.insert(1, f"differences of scores: {difference}")
        if self.unscored:
            lines.insert(1, f"pairs with a score in one result only: {self.unscored}")
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return {
            "size": self.size,
            "other_decisions": len(self.other_decisions),
            "near_threshold": self.near,
            "pairs_with_other_decisions": [list(key) for key in self.other_decisions[:SHOWN_ITEMS]],
            "pairs_with_one_score": self.unscored,
            "largest_difference": self.largest_difference,
            "median_difference": self.median_difference,
            "other_detections": self.other_detections,
            "overlap": self.overlap,
        }


def compare_pairs(first: Path, second: Path, pairs: Sequence[DocumentPair]) -> PairComparison:
    """Compare two outputs about these pairs: results of `run`, or detections of another system.

    Raises:
        UserError: an output cannot be read, or the second one lacks a pair.
    """
    outputs = [read_outcomes(output, pairs) for output in (first, second)]
    outcomes = list(zip(*(decisions for decisions, _ in outputs), strict=True))
    features = list(zip(*(detected for _, detected in outputs), strict=True))
    differ = [(a, b) for a, b in outcomes if a.decision != b.decision]
    has_scores = [any(outcome.score is not None for outcome in column) for column in zip(*outcomes)]
    differences = [subtract(a.score, b.score) for a, b in outcomes if a.score is not None and b.score is not None]
    same = [both for both, (a, b) in zip(features, outcomes, strict=True) if a.decision == b.decision]
    return PairComparison(
        len(pairs),
        [a.key for a, _ in differ],
        sum(bool(a.near_threshold or b.near_threshold) for a, b in differ),
        [min(_measure_distance(a), _measure_distance(b)) for a, b in differ],
        sum((a.score is None) != (b.score is None) for a, b in outcomes) if all(has_scores) else 0,
        max(differences, default=None),
        median(differences) if differences else None,
        sum(a != b for a, b in features),
        measure_overlap(same),
    )


def subtract(first: float, second: float) -> float:
    """Return how far two scores of files, which have at most `DECIMALS`, are apart."""
    return round(abs(first - second), DECIMALS)


def _measure_distance(outcome: Decision) -> float:
    if outcome.score is None or outcome.threshold is None:
        return float("inf")
    return subtract(outcome.score, outcome.threshold)


def read_outcomes(output: Path, pairs: Sequence[DocumentPair]) -> tuple[list[Decision], list[frozenset[Feature]]]:
    """Return the decision about each pair and its detections; without a file of decisions, a detection is positive.

    Raises:
        UserError: a file cannot be read, or decisions lack a pair.
    """
    features: defaultdict[tuple[str, str | None], set[Feature]] = defaultdict(set)
    for span in read_features(output, DETECTED):
        features[span.suspicious, span.source].add((*span.target, *span.source_span))
    references = ((read_reference(p.suspicious.reference), read_reference(p.source.reference)) for p in pairs)
    detected = [frozenset(features[reference]) for reference in references]
    records: dict[Key, Decision] = {}
    if is_file(output / DECISIONS):
        records = {record.key: record for record in read_decisions(output / DECISIONS)}
    outcomes = []
    for pair, own in zip(pairs, detected, strict=True):
        unscored = Decision.decide_alone(pair.key, None if records else bool(own))
        outcomes.append(records.get(pair.key, unscored))
    return outcomes, detected


def measure_overlap(features: Iterable[tuple[Iterable[Feature], Iterable[Feature]]]) -> float:
    """Return intersection over union of the characters of two lists of passages, pair by pair; 1 without any."""
    common = union = 0
    for first, second in features:
        for side in (0, 2):
            spans = [[(one[side], one[side] + one[side + 1]) for one in passages] for passages in (first, second)]
            sizes, both = sum(map(count_characters, spans)), count_characters([*spans[0], *spans[1]])
            common, union = common + sizes - both, union + both
    return common / union if union else 1.0


def count_characters(spans: Iterable[tuple[int, int]]) -> int:
    """Return the number of characters in any of the spans, given by begin and end."""
    count = reached = 0
    for begin, end in sorted(spans):
        count += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return count


@dataclass(frozen=True)
class ScoreComparison:
    """The differences of two results of ``run --scores-only``."""

    size: int
    unscored: int
    """Pairs that one result lacks, or has with other numbers."""
    largest_difference: float | None
    """Of any number that the method measured."""
    median_difference: float | None

    def is_equal(self) -> bool:
        """Return True if all numbers are the same."""
        return not self.unscored and self.largest_difference == 0

    def fits(self, noise: float) -> bool:
        """Return True if no number differs by more."""
        return not self.unscored and 0 < (self.largest_difference or 0) <= noise

    def describe(self) -> list[str]:
        """Return the figures in lines."""
        if self.largest_difference is None or self.median_difference is None:
            return ["no pair has scores in both results"]
        lines = [f"pairs with other numbers: {self.unscored}"] if self.unscored else []
        difference = f"largest {self.largest_difference:.6f}, median {self.median_difference:.6f}"
        return [*lines, f"differences of the numbers of {format_count(self.size, 'pair')}: {difference}"]

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return asdict(self)


def compare_scores(first: Path, second: Path, pairs: Sequence[DocumentPair]) -> ScoreComparison:
    """Compare the numbers that a method measured on these pairs.

    Raises:
        UserError: a file cannot be read.
    """
    values = [read_values(folder) for folder in (first, second)]
    keys = [(pair.suspicious.doc_id, pair.source.doc_id) for pair in pairs]
    both = [(values[0].get(key, {}), values[1].get(key, {})) for key in keys]
    comparable = [(a, b) for a, b in both if a.keys() == b.keys()]
    differences = [max((subtract(a[name], b[name]) for name in a), default=0.0) for a, b in comparable]
    return ScoreComparison(
        len(keys),
        len(both) - len(comparable),
        max(differences, default=None),
        median(differences) if differences else None,
    )


def read_values(output: Path) -> dict[Key, dict[str, float]]:
    """Return the numbers of each pair of a result, by the ids of its documents.

    Raises:
        UserError: a line is not one of scores.
    """

    def parse(line: Mapping[str, Any]) -> tuple[Key, dict[str, float]]:
        values = {str(name): float(value) for name, value in line["values"].items()}
        return (line["suspicious"], line["source"]), values

    return dict(read_lines(output / SCORES, parse))


class ScoredRun(NamedTuple):
    """A run, and the final scores of its scored candidates if they are known."""

    ranking: Mapping[str, Sequence[str]]
    scores: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class RunComparison:
    """The differences of two rankings of sources."""

    size: int
    same_top: int
    """Queries whose first `TOP` documents are the same in the same order."""
    first_rank: int | None
    """The best rank that has another document in any query."""
    other_queries: Sequence[str]
    gaps: Sequence[float]
    """At each rank with another document: the difference of the second result's scores of both; infinite without."""
    tau: float | None
    """Mean of Kendall's tau over the scored candidates of a query."""
    least_tau: float | None
    largest_difference: float | None
    ndcg: tuple[float, float] | None
    """nDCG@10 of both; None without judgements."""

    def is_equal(self) -> bool:
        """Return True if all ranks and scores are the same."""
        return not self.other_queries and not self.largest_difference

    def fits(self, noise: float) -> bool:
        """Return True if the documents that changed places have scores nearer than twice the noise."""
        if self.largest_difference == 0 or (self.largest_difference or 0) > noise:
            return False
        return all(gap <= 2 * noise for gap in self.gaps)

    def describe(self) -> list[str]:
        """Return the figures in lines."""
        lines = [f"queries with an equal top {TOP}: {self.same_top} of {self.size}"]
        if self.first_rank is not None:
            queries = format_count(len(self.other_queries), "query")
            lines.append(f"best rank that differs: {self.first_rank}; queries with other ranks: {queries}")
        if self.tau is not None and self.least_tau is not None:
            lines.append(f"Kendall's tau of scored candidates: mean {self.tau:.6f}, least {self.least_tau:.6f}")
        if self.largest_difference is not None:
            lines.append(f"largest difference of scores: {self.largest_difference:.9f}")
        if self.ndcg is not None:
            lines.append(f"nDCG@10: {self.ndcg[0]:.6f} in the result, {self.ndcg[1]:.6f} here")
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        figures = {name: value for name, value in asdict(self).items() if name not in ("other_queries", "gaps")}
        return {**figures, "other_queries": len(self.other_queries), "names": list(self.other_queries[:SHOWN_ITEMS])}


def compare_runs(first: Path, second: Path, qrels: Mapping[str, Mapping[str, int]] | None = None) -> RunComparison:
    """Compare two rankings for the queries of the second one.

    Raises:
        UserError: a file cannot be read.
    """
    one, other = read_scored_run(first), read_scored_run(second)
    ranks: list[int] = []
    gaps: list[float] = []
    taus: list[float] = []
    differences: list[float] = []
    queries: list[str] = []
    same_top = 0
    for query_id, ranking in other.ranking.items():
        former = one.ranking.get(query_id, ())
        same_top += list(former[:TOP]) == list(ranking[:TOP])
        scores, known = other.scores.get(query_id, {}), one.scores.get(query_id, {})
        moved = [rank for rank, (a, b) in enumerate(zip_longest(former, ranking), 1) if a != b]
        if moved:
            queries.append(query_id)
            ranks.append(moved[0])
            gaps += [_measure_gap(scores, former[rank - 1 : rank], ranking[rank - 1 : rank]) for rank in moved]
        differences += [subtract(known[doc_id], score) for doc_id, score in scores.items() if doc_id in known]
        taus += _compute_tau(former, [doc_id for doc_id in ranking if doc_id in scores])
    return RunComparison(
        len(other.ranking),
        same_top,
        min(ranks, default=None),
        queries,
        gaps,
        fmean(taus) if taus else None,
        min(taus, default=None),
        max(differences, default=None),
        (compute_ndcg(one, qrels, other.ranking), compute_ndcg(other, qrels, other.ranking)) if qrels else None,
    )


def compute_ndcg(run: ScoredRun, qrels: Mapping[str, Mapping[str, int]], queries: Container[str]) -> float:
    """Return nDCG@10 of a run, over the queries with judgements among these."""
    judged = {query_id: grades for query_id, grades in qrels.items() if query_id in queries}
    ranked = {q: [(doc_id, -float(i)) for i, doc_id in enumerate(run.ranking.get(q, ()))] for q in judged}
    return compute_retrieval_metrics(judged, ranked)[NDCG.format(10)]


def read_scored_run(output: Path) -> ScoredRun:
    """Return the ranking in an output folder, or in a run file, and the final scores beside it."""
    path = find_run(output)
    run = read_run(path)
    scores: defaultdict[str, dict[str, float]] = defaultdict(dict)
    if is_file(path.with_name(CANDIDATE_SCORES)):

        def parse(line: Mapping[str, Any]) -> tuple[str, str, float | None]:
            return line["query"], line["document"], None if line["final"] is None else float(line["final"])

        for query_id, doc_id, final in read_lines(path.with_name(CANDIDATE_SCORES), parse):
            if final is not None:
                scores[query_id][doc_id] = final
    # evaluators sort by score; ours are whole numbers in the order of the lines
    ranking = {q: [doc_id for doc_id, _ in sorted(docs, key=lambda one: -one[1])] for q, docs in run.items()}
    return ScoredRun(ranking, scores)


def _measure_gap(scores: Mapping[str, float], former: Sequence[str], here: Sequence[str]) -> float:
    if not former or not here or former[0] not in scores or here[0] not in scores:
        return float("inf")
    return subtract(scores[former[0]], scores[here[0]])


def _compute_tau(former: Sequence[str], scored: Sequence[str]) -> list[float]:
    """Return Kendall's tau of the documents that both rankings have; none if there are fewer than two."""
    from scipy.stats import kendalltau

    ranks = {doc_id: rank for rank, doc_id in enumerate(former)}
    both = [ranks[doc_id] for doc_id in scored if doc_id in ranks]
    return [float(kendalltau(both, range(len(both))).statistic)] if len(both) > 1 else []
