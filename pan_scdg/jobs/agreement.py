"""Compare two results of one input, item by item; both are read from files, and nothing is computed again."""

from collections import defaultdict
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from pan_scdg.evaluation.retrieval import NDCG, compute_retrieval_metrics
from pan_scdg.jobs.outputs import read_pair_output
from pan_scdg.pan.runs import find_run, read_run
from pan_scdg.pan.truth import read_reference
from pan_scdg.progress import format_count
from pan_scdg.records import DocumentPair, Span
from pan_scdg.results.files import CANDIDATE_SCORES, SCORES, read_lines, read_optional
from pan_scdg.results.records import CandidateLine, Decision, ScoreLine

MIN_OVERLAP = 0.99
"""Smallest overlap of passages that noise explains: a sentence at the limit of a passage may belong to it or not."""
NOISE_FACTOR = 10
"""The noise as a multiple of the largest difference between two engines or types. Scores of another processor differ up
to seven times as much as those of another engine (``benchmarks/results/processor-noise.md``)."""
LAST_DIGIT = 1e-6
"""Of the scores in the files; the noise is at least this."""
TOP = 10
DECIMALS = 9
SHOWN_ITEMS = 100
"""Items that differ, of which a record lists the first."""
Sides = tuple[Span, Span]
"""A passage of a detection, in the suspicious document and in the source."""


def estimate_noise(largest_difference: float) -> float:
    """Return the noise, with two digits, for the largest difference of scores that was measured."""
    return max(float(f"{NOISE_FACTOR * largest_difference:.1e}"), LAST_DIGIT)


@dataclass(frozen=True)
class Agreement:
    """The comparison of two results of the same pairs or queries, item by item."""

    size: int
    """The number of items."""
    different: Mapping[Hashable, float]
    """The items with another outcome: the least noise of scores that explains it, infinite if none does."""
    unscored: int
    """Items that are scored in one result only, or with other numbers."""
    differences: Sequence[float]
    """Of the scores that both results have."""
    figures: Mapping[str, Any]
    """All figures of the kind of result, as JSON values."""
    lines: Sequence[str]
    """The same in words."""
    is_other: bool = False
    """Something differs that is neither an outcome nor a score: features of detections."""
    is_explicable: bool = True
    """No difference is more than what noise of scores can bring about."""

    @property
    def largest_difference(self) -> float | None:
        """Return the largest difference of a score; None: one of the results has no scores."""
        return max(self.differences, default=None)

    def is_equal(self) -> bool:
        """Return True if nothing differs."""
        return not (self.different or self.unscored or self.largest_difference or self.is_other)

    def fits(self, noise: float) -> bool:
        """Return True if scores that differ by up to ``noise`` explain all differences."""
        if self.unscored or self.largest_difference == 0 or (self.largest_difference or 0) > noise:
            return False
        return self.is_explicable and all(least <= noise for least in self.different.values())


def compare_pairs(first: Path, second: Path, pairs: Sequence[DocumentPair]) -> Agreement:
    """Compare two outputs about these pairs: results of `run`, or detections of another system.

    Raises:
        UserError: an output cannot be read, or the second one lacks a pair.
    """
    outputs = [read_outcomes(output, pairs) for output in (first, second)]
    outcomes = list(zip(*(decisions for decisions, _ in outputs), strict=True))
    features = list(zip(*(detected for _, detected in outputs), strict=True))
    different = {a.key: min(map(_measure_distance, (a, b))) for a, b in outcomes if a.decision != b.decision}
    near = sum(bool(a.near_threshold or b.near_threshold) for a, b in outcomes if a.key in different)
    has_scores = [any(outcome.score is not None for outcome in column) for column in zip(*outcomes)]
    unscored = sum((a.score is None) != (b.score is None) for a, b in outcomes) if all(has_scores) else 0
    differences = [subtract(a.score, b.score) for a, b in outcomes if a.score is not None and b.score is not None]
    other_detections = sum(a != b for a, b in features)
    overlap = measure_common(both for both, (a, _) in zip(features, outcomes) if a.key not in different)
    figures = {
        "size": len(pairs),
        "other_decisions": len(different),
        "near_threshold": near,
        "pairs_with_other_decisions": [list(key) for key in [*different][:SHOWN_ITEMS]],
        "pairs_with_one_score": unscored,
        **_describe_differences(differences),
        "other_detections": other_detections,
        "overlap": overlap,
    }
    lines = [
        f"decisions that differ: {len(different)} of {format_count(len(pairs), 'pair')}, near_threshold: {near}",
        *([f"pairs with a score in one result only: {unscored}"] if unscored else []),
        *_word_differences("differences of scores", differences),
        f"detection XML with other features: {other_detections}",
        f"characters of passages, intersection over union: {overlap:.4f}",
    ]
    has_others, is_explicable = other_detections > 0, overlap >= MIN_OVERLAP
    return Agreement(len(pairs), different, unscored, differences, figures, lines, has_others, is_explicable)


def compare_scores(first: Path, second: Path, pairs: Sequence[DocumentPair]) -> Agreement:
    """Compare the numbers that a method measured on these pairs.

    Raises:
        UserError: a file cannot be read.
    """
    values = [
        {line.key: line.values for line in read_lines(one / SCORES, ScoreLine.from_json)} for one in (first, second)
    ]
    both = [(values[0].get(pair.key, {}), values[1].get(pair.key, {})) for pair in pairs]
    comparable = [(a, b) for a, b in both if a.keys() == b.keys()]
    differences = [max((subtract(a[name], b[name]) for name in a), default=0.0) for a, b in comparable]
    unscored = len(both) - len(comparable)
    figures = {"size": len(pairs), "unscored": unscored, **_describe_differences(differences)}
    said = [f"pairs with other numbers: {unscored}"] if unscored and differences else []
    said += _word_differences(f"differences of the numbers of {format_count(len(pairs), 'pair')}", differences)
    return Agreement(len(pairs), {}, unscored, differences, figures, said or ["no pair has scores in both results"])


def _describe_differences(differences: Sequence[float]) -> dict[str, float | None]:
    middle = median(differences) if differences else None
    return {"largest_difference": max(differences, default=None), "median_difference": middle}


def _word_differences(what: str, differences: Sequence[float]) -> Iterator[str]:
    if differences:
        yield f"{what}: largest {max(differences):.6f}, median {median(differences):.6f}"


def subtract(first: float, second: float) -> float:
    """Return how far two scores of files, which have at most `DECIMALS`, are apart."""
    return round(abs(first - second), DECIMALS)


def _measure_distance(outcome: Decision) -> float:
    if outcome.score is None or outcome.threshold is None:
        return float("inf")
    return subtract(outcome.score, outcome.threshold)


def read_outcomes(output: Path, pairs: Sequence[DocumentPair]) -> tuple[Sequence[Decision], list[frozenset[Sides]]]:
    """Return the decision about each pair and its detections; without a file of decisions, a detection is positive.

    Raises:
        UserError: see `read_pair_output`.
    """
    made = read_pair_output(output, pairs)
    features: defaultdict[tuple[str, str | None], set[Sides]] = defaultdict(set)
    for one in made.detections:
        features[one.suspicious, one.source].add((one.target, one.source_span))
    references = ((read_reference(p.suspicious.reference), read_reference(p.source.reference)) for p in pairs)
    return made.records, [frozenset(features[reference]) for reference in references]


def measure_common(features: Iterable[tuple[Iterable[Sides], Iterable[Sides]]]) -> float:
    """Return intersection over union of the characters of two lists of passages, pair by pair; 1 without any."""
    common = union = 0
    for first, second in features:
        for side in (0, 1):
            spans = [[one[side] for one in passages] for passages in (first, second)]
            sizes, both = sum(map(count_characters, spans)), count_characters([*spans[0], *spans[1]])
            common, union = common + sizes - both, union + both
    return common / union if union else 1.0


def count_characters(spans: Iterable[Span]) -> int:
    """Return the number of characters in any of the spans."""
    count = reached = 0
    for begin, end in sorted(spans):
        count += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return count


class ScoredRun(NamedTuple):
    """A run, and the final scores of its scored candidates if they are known."""

    ranking: Mapping[str, Sequence[str]]
    scores: Mapping[str, Mapping[str, float]]


def compare_runs(first: Path, second: Path, qrels: Mapping[str, Mapping[str, int]] | None = None) -> Agreement:
    """Compare two rankings for the queries of the second one.

    Documents that changed places have scores nearer than twice the noise, if noise explains it.

    Raises:
        UserError: a file cannot be read.
    """
    one, other = read_scored_run(first), read_scored_run(second)
    ranks: dict[Hashable, int] = {}
    different: dict[Hashable, float] = {}
    taus: list[float] = []
    differences: list[float] = []
    same_top = 0
    for query_id, ranking in other.ranking.items():
        former = one.ranking.get(query_id, ())
        same_top += list(former[:TOP]) == list(ranking[:TOP])
        scores, known = other.scores.get(query_id, {}), one.scores.get(query_id, {})
        moved = [rank for rank, (a, b) in enumerate(zip_longest(former, ranking)) if a != b]
        if moved:
            ranks[query_id] = moved[0] + 1
            gaps = (_measure_gap(scores, former[rank : rank + 1], ranking[rank : rank + 1]) for rank in moved)
            different[query_id] = max(gaps) / 2
        differences += [subtract(known[doc_id], score) for doc_id, score in scores.items() if doc_id in known]
        taus += _compute_tau(former, [doc_id for doc_id in ranking if doc_id in scores])
    size, first_rank = len(other.ranking), min(ranks.values(), default=None)
    lines = [f"queries with an equal top {TOP}: {same_top} of {size}"]
    if different:
        queries = format_count(len(different), "query")
        lines.append(f"best rank that differs: {first_rank}; queries with other ranks: {queries}")
    if taus:
        lines.append(f"Kendall's tau of scored candidates: mean {fmean(taus):.6f}, least {min(taus):.6f}")
    if differences:
        lines.append(f"largest difference of scores: {max(differences):.9f}")
    ndcg = None
    if qrels:
        ndcg = compute_ndcg(one, qrels, other.ranking), compute_ndcg(other, qrels, other.ranking)
        lines.append(f"nDCG@10: {ndcg[0]:.6f} in the result, {ndcg[1]:.6f} here")
    figures = {
        "size": size,
        "same_top": same_top,
        "first_rank": first_rank,
        "tau": fmean(taus) if taus else None,
        "least_tau": min(taus, default=None),
        "largest_difference": max(differences, default=None),
        "ndcg": ndcg,
        "other_queries": len(different),
        "names": [*different][:SHOWN_ITEMS],
    }
    return Agreement(size, different, 0, differences, figures, lines)


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
    for line in read_optional(path.with_name(CANDIDATE_SCORES), CandidateLine.from_json):
        if line.final is not None:
            scores[line.query][line.document] = line.final
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
