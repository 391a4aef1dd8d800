"""Compare two results of one task, and decide if one reproduces the other.

Reproduced means that the files have the same bytes, or that both jobs were the same but for what moves last digits
(`DIGITS`) or nothing at all (`WITHOUT_EFFECT`) and the results differ by no more than `Tolerances` permit. A job does
not record which processor or GPU computed it, so one job on two machines may well differ in last digits; ``exact`` asks
for the bytes. Where a result has no record of its job, the results alone decide.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pan_scdg.errors import UserError, one_line
from pan_scdg.jobs.compared_results import Decision, Detections, Pair, Ranked, Result, read_result

DIGITS = (
    "device",
    "engine",
    "models.language_model.dtype",
    "profile.model.dtype",
    "profile.model.attention",
    "profile.model.pack_tokens",
    "profile.model.head_rows",
    "profile.retrieval.dense.batch",
)
"""Beginnings of the names of job fields that move last digits."""
WITHOUT_EFFECT = (
    "keep_gains",
    "on_error",
    "profile.name",
    "profile.description",
    "profile.model.probes",
    "profile.model.fingerprint",
    "profile.pairs.calibration",
    "profile.retrieval.tag",
)
"""The same for those that change no decision and no ranking of a finished run."""
THRESHOLD = "profile.pairs.threshold"
"""It may differ as a score may: calibrated on another machine, it is a score from there."""
TOP = 10
"""Best documents of a query that a reader sees."""
SHOWN, LONGEST = 10, 100


@dataclass(frozen=True)
class Tolerances:
    """How much two results may differ and still count as the same."""

    score: float = 0.05
    """In nats: how near to its threshold a score is where the decision may turn, and how much scores of pairs may
    differ on average. In bfloat16 the mean gain differs by up to 0.02 nats between the engines."""
    top10: float = 0.05
    """Share of the documents in all top 10s that may be replaced. The tenth and the eleventh change places easily: with
    `offline` on the examples another engine replaces 2 of 150 in 2 of 15 queries."""


@dataclass(frozen=True)
class Coverage:
    """How many pairs or queries two results have in common."""

    both: int
    only_a: int
    only_b: int

    def words(self) -> str:
        """Return the numbers in words."""
        return f"{self.both} in both, {self.only_a} only in A, {self.only_b} only in B"

    def faults(self, what: str) -> list[str]:
        """Return why these are no results of the same input."""
        alone = self.only_a or self.only_b
        return [f"{what} only in A: {self.only_a}, only in B: {self.only_b}"] if alone else []


@dataclass(frozen=True)
class Flip:
    """A pair that was decided in two ways."""

    pair: Pair
    a: Decision
    b: Decision

    def is_near(self, tolerance: float) -> bool:
        """Return True if a score is known and every known one lies within ``tolerance`` of its threshold."""
        known = [(d.score, d.threshold) for d in (self.a, self.b)]
        gaps = [abs(s - t) for s, t in known if s is not None and t is not None]
        return bool(gaps) and max(gaps) <= tolerance

    def words(self) -> str:
        """Return both decisions in words."""
        scores = ["" if d.score is None else f", {d.score:.6g} nats" for d in (self.a, self.b)]
        words = [f"{'positive' if d.positive else 'negative'}{s}" for d, s in zip((self.a, self.b), scores)]
        return f"{_cut(self.pair[0])} and {_cut(self.pair[1])}: {' / '.join(words)}"


@dataclass(frozen=True)
class PairComparison:
    """Two sets of decisions."""

    pairs: Coverage
    flips: tuple[Flip, ...]
    scored_once: int
    """Pairs of both with a score in one of them alone, if both have scores at all."""
    largest: float | None
    """Largest difference of two scores, in nats; None: no pair has two."""
    mean: float | None
    moved: tuple[Pair, ...]
    """Pairs decided alike whose passages differ."""

    def faults(self, tolerances: Tolerances) -> list[str]:
        """Return what differs by more than the tolerances permit."""
        faults, both = self.pairs.faults("pairs"), self.pairs.both
        if far := sum(not flip.is_near(tolerances.score) for flip in self.flips):
            faults.append(f"decided otherwise and not near the threshold: {far} of {both} pairs")
        if self.scored_once:
            faults.append(f"scored in one alone: {self.scored_once} of {both} pairs")
        if self.mean is not None and not self.mean <= tolerances.score:
            faults.append(f"scores differ by {self.mean:.6g} nats on average")
        if self.moved:
            faults.append(f"other passages, though decided alike: {len(self.moved)} of {both} pairs")
        return faults

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        yield f"pairs: {self.pairs.words()}"
        yield f"decided otherwise: {len(self.flips)}"
        yield from (f"  {flip.words()}" for flip in self.flips[:SHOWN])
        if self.largest is not None:
            yield f"scores in nats: largest difference {self.largest:.6g}, mean {self.mean:.6g}"


@dataclass(frozen=True)
class RankingComparison:
    """Two rankings, over the queries that both have."""

    queries: Coverage
    changed: tuple[str, ...]
    """Queries with other documents in the top 10."""
    reordered: int
    """Queries with the same documents in the top 10, in another order."""
    replaced: int
    """Documents of all top 10s that the other does not have ..."""
    listed: int
    """... and how many documents the top 10s have."""

    def faults(self, tolerances: Tolerances) -> list[str]:
        """Return what differs by more than the tolerances permit."""
        faults = self.queries.faults("queries")
        if self.listed and not self.replaced / self.listed <= tolerances.top10:
            faults.append(f"other documents in the top 10: {self.replaced} of {self.listed}")
        return faults

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        yield f"queries: {self.queries.words()}"
        replaced = f"{self.replaced} of {self.listed} documents replaced, for {len(self.changed)} queries"
        yield f"top 10: {replaced}; another order for {self.reordered} more"


@dataclass(frozen=True)
class Comparison:
    """Two results side by side."""

    a: Result
    b: Result
    found: PairComparison | RankingComparison
    changed: list[str]
    """Files that both have, with other bytes."""
    jobs: Mapping[str, tuple[Any, Any]] | None
    """Fields in which the jobs differ, by dotted name; None: one has no record of its job."""
    tolerances: Tolerances
    faults: list[str]
    """Why it is not reproduced; empty if it is."""

    def record(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        return {
            "task": "pairs" if isinstance(self.found, PairComparison) else "retrieval",
            "a": str(self.a.path),
            "b": str(self.b.path),
            "files": {"both": len(self.a.files.keys() & self.b.files.keys()), "changed": self.changed},
            "results": asdict(self.found),
            "jobs": None if self.jobs is None else {name: list(values) for name, values in self.jobs.items()},
            "tolerances": asdict(self.tolerances),
            "reproduced": not self.faults,
            "why": self.faults,
        }

    def lines(self) -> list[str]:
        """Return the report in ASCII; its last line is the verdict."""
        both = self.a.files.keys() & self.b.files.keys()
        said = [
            f"A: {self.a.path}",
            f"B: {self.b.path}",
            f"files: {len(both) - len(self.changed)} with the same bytes, {len(self.changed)} with others",
            *self.found.lines(),
            *self._job_lines(),
            "reproduced" if not self.faults else f"not reproduced: {'; '.join(self.faults)}",
        ]
        return [one_line(line).encode("ascii", "backslashreplace").decode() for line in said]

    def _job_lines(self) -> Iterator[str]:
        if self.jobs is None:
            yield "jobs: not known of both"
            return
        yield f"jobs: {f'fields that differ: {len(self.jobs)}' if self.jobs else 'the same'}"
        for name, (a, b) in list(self.jobs.items())[:SHOWN]:
            yield f"  {_cut(name)}: {_cut(str(a))} / {_cut(str(b))}"


def compare_results(a: Path, b: Path, tolerances: Tolerances, exact: bool = False) -> Comparison:
    """Compare two results.

    Args:
        a: an output directory of ``run``, a TREC run, or a folder of detection XML.
        b: the other.
        tolerances: how much they may differ.
        exact: the files that both have must have the same bytes.

    Raises:
        UserError: one is no result, or damaged, or they are of different tasks.
    """
    one, other = read_result(a), read_result(b)
    found: PairComparison | RankingComparison
    if isinstance(one.content, Detections) and isinstance(other.content, Detections):
        found = compare_pairs(one.content, other.content)
    elif isinstance(one.content, Ranked) and isinstance(other.content, Ranked):
        found = compare_rankings(one.content, other.content)
    else:
        kinds = ["pairs" if isinstance(result.content, Detections) else "a ranking" for result in (one, other)]
        raise UserError(f"A holds {kinds[0]}, B {kinds[1]}", "give two results of one task", b)
    faults = found.faults(tolerances)
    changed = sorted(name for name in one.files.keys() & other.files.keys() if one.files[name] != other.files[name])
    jobs = None if one.job is None or other.job is None else _find_differences(one.job, other.job)
    if changed and exact:
        faults.append(f"files with other bytes: {len(changed)}, {changed[0]} for one")
    if changed and (others := _other_jobs(jobs or {}, found, tolerances)):
        more = " and more" if len(others) > SHOWN else ""
        faults.append(f"the jobs differ in {', '.join(map(_cut, others[:SHOWN]))}{more}")
    return Comparison(one, other, found, changed, jobs, tolerances, faults)


def compare_pairs(a: Detections, b: Detections) -> PairComparison:
    """Compare decisions, scores and passages.

    A result without decisions has those that its passages tell, about the pairs that the other one names.
    """
    of_a, of_b = a.decisions, b.decisions
    if of_a is None:
        of_a = a.decide(of_b if of_b is not None else b.decide())
    if of_b is None:
        of_b = b.decide(of_a)
    both = [pair for pair in of_a if pair in of_b]
    flips = tuple(Flip(pair, of_a[pair], of_b[pair]) for pair in both if of_a[pair].positive != of_b[pair].positive)
    scores = [(of_a[pair].score, of_b[pair].score) for pair in both]
    have_scores = all(any(d.score is not None for d in decisions.values()) for decisions in (of_a, of_b))
    gaps = [abs(one - other) for one, other in scores if one is not None and other is not None]
    changed = {(span.suspicious, span.source or "") for span in a.passages ^ b.passages}
    return PairComparison(
        _cover(of_a, of_b),
        flips,
        sum((one is None) != (other is None) for one, other in scores) if have_scores else 0,
        max(gaps, default=None),
        sum(gaps) / len(gaps) if gaps else None,
        tuple(sorted(changed.intersection(both) - {flip.pair for flip in flips})),
    )


def compare_rankings(a: Ranked, b: Ranked) -> RankingComparison:
    """Compare the top 10s of the queries that both have."""
    queries = [query for query in a.rankings if query in b.rankings]
    tops = [(a.rankings[query][:TOP], b.rankings[query][:TOP]) for query in queries]
    changed = tuple(query for query, (one, other) in zip(queries, tops) if set(one) != set(other))
    return RankingComparison(
        _cover(a.rankings, b.rankings),
        changed,
        sum(one != other and set(one) == set(other) for one, other in tops),
        sum(max(len(set(one) - set(other)), len(set(other) - set(one))) for one, other in tops),
        sum(max(len(one), len(other)) for one, other in tops),
    )


def _cover(a: Iterable[Hashable], b: Iterable[Hashable]) -> Coverage:
    one, other = set(a), set(b)
    return Coverage(len(one & other), len(one - other), len(other - one))


def _find_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the fields that differ, by dotted name; one that is missing counts as null."""
    one, other = dict(_flatten(a)), dict(_flatten(b))
    names = sorted(one.keys() | other.keys())
    return {name: (one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name)}


def _flatten(job: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in job.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _other_jobs(
    jobs: Mapping[str, tuple[Any, Any]], found: PairComparison | RankingComparison, tolerances: Tolerances
) -> list[str]:
    """Return the differing fields that make it another job."""
    unread = "profile.retrieval." if isinstance(found, PairComparison) else "profile.pairs."
    names = [name for name in jobs if not name.startswith((*DIGITS, *WITHOUT_EFFECT, unread))]
    return [name for name in names if name != THRESHOLD or not _is_near(*jobs[name], tolerances.score)]


def _is_near(a: Any, b: Any, tolerance: float) -> bool:
    return isinstance(a, float) and isinstance(b, float) and abs(a - b) <= tolerance


def _cut(text: str) -> str:
    """Return what a stranger wrote, no longer than fits a line."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
