"""Compare two results of one task, and decide if one reproduces the other.

A result is reproduced if its files have the same bytes, or if the jobs differ only in fields that change last digits
(`DIGITS`) or nothing (`WITHOUT_EFFECT`) and the results differ within the `Tolerances`. A job does not record its
processor or GPU, so that the same job on two machines may differ in last digits; ``exact`` requires the same bytes.
Without a record of a job, only the results are compared.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pan_scdg.errors import UserError, escape_controls
from pan_scdg.jobs.compared_results import Decision, Detections, Pair, Rankings, Result, read_result

DIGITS = (
    "device",
    "engine",
    "models.language_model.dtype",
    "profile.model.dtype",
    "profile.model.attention",
    "profile.model.pack_tokens",
    "profile.model.head_rows",
    *("models.encoder.dtype", "profile.retrieval.dense.batch", "profile.retrieval.dense.dtype"),
)
"""Prefixes of job fields that change last digits."""
WITHOUT_EFFECT = (
    "keep_gains",
    "report",
    "on_error",
    "profile.name",
    "profile.description",
    "profile.model.probes",
    "profile.model.fingerprint",
    "profile.pairs.calibration",
    "profile.retrieval.tag",
)
"""Prefixes of job fields that change no decision and no ranking of a finished run."""
THRESHOLD = "profile.pairs.threshold"
"""May differ like a score, since it is one, possibly computed on another machine."""
TOP = 10
"""Depth of the compared rankings."""
SHOWN, LONGEST = 10, 100


@dataclass(frozen=True)
class Tolerances:
    """Largest differences of results that count as the same."""

    score: float = 0.05
    """Largest distance of a score from its threshold if the decision differs, and largest mean difference of scores.
    In bfloat16 the mean gain differs by up to 0.02 nats between the engines."""
    top10: float = 0.05
    """Largest share of replaced documents in all top 10s. Ranks 10 and 11 swap easily: with `offline` on the examples,
    the other engine replaces 2 of 150 documents in 2 of 15 queries."""


@dataclass(frozen=True)
class Coverage:
    """Numbers of pairs or queries that two results share or do not share."""

    both: int
    only_a: int
    only_b: int

    def describe(self) -> str:
        """Return the numbers in words."""
        return f"{self.both} in both, {self.only_a} only in A, {self.only_b} only in B"

    def list_faults(self, what: str) -> list[str]:
        """Return the reasons why the results are not of the same input."""
        alone = self.only_a or self.only_b
        return [f"{what} only in A: {self.only_a}, only in B: {self.only_b}"] if alone else []


@dataclass(frozen=True)
class Flip:
    """A pair with different decisions."""

    pair: Pair
    a: Decision
    b: Decision

    def is_near(self, tolerance: float) -> bool:
        """Return True if there is a score and all scores lie within ``tolerance`` of their thresholds."""
        known = [(d.score, d.threshold) for d in (self.a, self.b)]
        gaps = [abs(s - t) for s, t in known if s is not None and t is not None]
        return bool(gaps) and max(gaps) <= tolerance

    def describe(self) -> str:
        """Return both decisions in words."""
        scores = ["" if d.score is None else f", {d.score:.6g}" for d in (self.a, self.b)]
        words = [f"{'positive' if d.positive else 'negative'}{s}" for d, s in zip((self.a, self.b), scores)]
        return f"{_cut(self.pair[0])} and {_cut(self.pair[1])}: {' / '.join(words)}"


@dataclass(frozen=True)
class PairComparison:
    """Differences of two sets of decisions."""

    pairs: Coverage
    flips: tuple[Flip, ...]
    scored_once: int
    """Number of pairs with a score in only one of two results that have scores."""
    largest: float | None
    """Largest difference of two scores; None if no pair has two scores."""
    mean: float | None
    moved: tuple[Pair, ...]
    """Pairs with the same decision but different passages."""

    def list_faults(self, tolerances: Tolerances) -> list[str]:
        """Return the differences that exceed the tolerances."""
        faults, both = self.pairs.list_faults("pairs"), self.pairs.both
        if far := sum(not flip.is_near(tolerances.score) for flip in self.flips):
            faults.append(f"other decisions that are not near the threshold: {far} of {both} pairs")
        if self.scored_once:
            faults.append(f"scored in only one result: {self.scored_once} of {both} pairs")
        if self.mean is not None and not self.mean <= tolerances.score:
            faults.append(f"scores differ by {self.mean:.6g} on average")
        if self.moved:
            faults.append(f"other passages with the same decision: {len(self.moved)} of {both} pairs")
        return faults

    def to_lines(self) -> Iterator[str]:
        """Yield the report."""
        yield f"pairs: {self.pairs.describe()}"
        yield f"other decisions: {len(self.flips)}"
        yield from (f"  {flip.describe()}" for flip in self.flips[:SHOWN])
        if self.largest is not None:
            yield f"scores: largest difference {self.largest:.6g}, mean {self.mean:.6g}"


@dataclass(frozen=True)
class RankingComparison:
    """Differences of the rankings of shared queries."""

    queries: Coverage
    changed: tuple[str, ...]
    """Queries with other documents in the top 10."""
    reordered: int
    """Queries with the same documents in the top 10, in another order."""
    replaced: int
    """Number of documents of all top 10s that the other result lacks."""
    listed: int
    """Number of documents of all top 10s."""

    def list_faults(self, tolerances: Tolerances) -> list[str]:
        """Return the differences that exceed the tolerances."""
        faults = self.queries.list_faults("queries")
        if self.listed and not self.replaced / self.listed <= tolerances.top10:
            faults.append(f"other documents in the top 10: {self.replaced} of {self.listed}")
        return faults

    def to_lines(self) -> Iterator[str]:
        """Yield the report."""
        yield f"queries: {self.queries.describe()}"
        replaced = f"{self.replaced} of {self.listed} documents replaced, for {len(self.changed)} queries"
        yield f"top 10: {replaced}; another order for {self.reordered} more"


@dataclass(frozen=True)
class Comparison:
    """Two results side by side."""

    a: Result
    b: Result
    found: PairComparison | RankingComparison
    changed: list[str]
    """Files of both results with different bytes."""
    jobs: Mapping[str, tuple[Any, Any]] | None
    """Values of the job fields that differ, by dotted name; None if a job was not recorded."""
    tolerances: Tolerances
    faults: list[str]
    """Reasons why the result is not reproduced; empty if it is."""

    def to_json(self) -> dict[str, Any]:
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

    def to_lines(self) -> list[str]:
        """Return the report in ASCII; its last line is the verdict."""
        both = self.a.files.keys() & self.b.files.keys()
        said = [
            f"A: {self.a.path}",
            f"B: {self.b.path}",
            f"files: {len(both) - len(self.changed)} with the same bytes, {len(self.changed)} with different bytes",
            *self.found.to_lines(),
            *self._list_job_lines(),
            "reproduced" if not self.faults else f"not reproduced: {'; '.join(self.faults)}",
        ]
        return [escape_controls(line).encode("ascii", "backslashreplace").decode() for line in said]

    def _list_job_lines(self) -> Iterator[str]:
        if self.jobs is None:
            yield "jobs: not recorded in both"
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
        exact: require the same bytes in all files that both have.

    Raises:
        UserError: one is not a result or is damaged, or they are of different tasks.
    """
    one, other = read_result(a), read_result(b)
    found: PairComparison | RankingComparison
    if isinstance(one.content, Detections) and isinstance(other.content, Detections):
        found = compare_pairs(one.content, other.content)
    elif isinstance(one.content, Rankings) and isinstance(other.content, Rankings):
        found = compare_rankings(one.content, other.content)
    else:
        kinds = ["pairs" if isinstance(result.content, Detections) else "a ranking" for result in (one, other)]
        raise UserError(f"A holds {kinds[0]}, B {kinds[1]}", "give two results of one task", b)
    faults = found.list_faults(tolerances)
    changed = sorted(name for name in one.files.keys() & other.files.keys() if one.files[name] != other.files[name])
    jobs = None if one.job is None or other.job is None else _find_differences(one.job, other.job)
    if changed and exact:
        faults.append(f"files with different bytes: {len(changed)}, for example {changed[0]}")
    if changed and (others := _select_effective(jobs or {}, found, tolerances)):
        more = " and more" if len(others) > SHOWN else ""
        faults.append(f"the jobs differ in {', '.join(map(_cut, others[:SHOWN]))}{more}")
    return Comparison(one, other, found, changed, jobs, tolerances, faults)


def compare_pairs(a: Detections, b: Detections) -> PairComparison:
    """Compare decisions, scores and passages.

    The decisions of a result without ``decisions.jsonl`` follow from its passages.
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


def compare_rankings(a: Rankings, b: Rankings) -> RankingComparison:
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
    """Return the fields that differ, by dotted name; a missing field counts as null."""
    one, other = dict(_flatten(a)), dict(_flatten(b))
    names = sorted(one.keys() | other.keys())
    return {name: (one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name)}


def _flatten(job: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in job.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _select_effective(
    jobs: Mapping[str, tuple[Any, Any]], found: PairComparison | RankingComparison, tolerances: Tolerances
) -> list[str]:
    """Return the differing fields that can change results."""
    unread = "profile.retrieval." if isinstance(found, PairComparison) else "profile.pairs."
    names = [name for name in jobs if not name.startswith((*DIGITS, *WITHOUT_EFFECT, unread))]
    return [name for name in names if name != THRESHOLD or not _is_near(*jobs[name], tolerances.score)]


def _is_near(a: Any, b: Any, tolerance: float) -> bool:
    return isinstance(a, float) and isinstance(b, float) and abs(a - b) <= tolerance


def _cut(text: str) -> str:
    """Return untrusted text, shortened to fit a line."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
