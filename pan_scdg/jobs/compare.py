"""``compare``: two results of one task side by side, and whether the one reproduces the other.

Reproduced means that the files have the same bytes, or that both jobs were the same but for what moves last digits
(`DIGITS`) or nothing at all (`WITHOUT_EFFECT`) and the results differ by no more than `Tolerances` permit. A job does
not say which processor or GPU computed it, so one job on two machines may well differ in last digits; ``exact`` asks
for the bytes. Where a side says nothing of its job, the results alone decide.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pan_scdg.errors import UserError, one_line
from pan_scdg.evaluation.comparison import (
    Agreement,
    Differences,
    Flip,
    PairComparison,
    RankingComparison,
    Tolerances,
    compare_pairs,
    compare_rankings,
    decisions_behind,
    differences,
    pair_faults,
    ranking_faults,
)
from pan_scdg.jobs.compared_results import Detections, Ranked, Result, read_result

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
"""Beginnings of the names of job fields that move last digits, as the README says."""
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
SHOWN, LONGEST = 10, 100


@dataclass(frozen=True)
class Comparison:
    """Two results side by side."""

    a: Result
    b: Result
    found: PairComparison | RankingComparison
    scores: Mapping[str, Differences]
    """By feature, of candidates in `scores.jsonl.gz`, where both have it."""
    changed: Sequence[str]
    """Files that both have, with other bytes."""
    jobs: Mapping[str, tuple[Any, Any]] | None
    """Fields in which the jobs differ, by dotted name; None: one or both say nothing of their job."""
    tolerances: Tolerances
    faults: Sequence[str]
    """Why it is not reproduced; none: it is."""


def compare(a: Path, b: Path, tolerances: Tolerances, exact: bool = False) -> Comparison:
    """Hold two results side by side.

    Args:
        a: an output directory of ``run``, a TREC run, or a folder of detection XML.
        b: the other.
        tolerances: how much they may differ.
        exact: the files that both have must have the same bytes.

    Raises:
        UserError: one is no result, or damaged, or they are of different tasks.
    """
    one, other = read_result(a), read_result(b)
    found, scores, faults = _held(one, other, tolerances)
    changed = sorted(name for name in one.files.keys() & other.files.keys() if one.files[name] != other.files[name])
    jobs = None if one.mark is None or other.mark is None else _differing(one.mark.job, other.mark.job)
    if changed and exact:
        faults.append(f"files with other bytes: {len(changed)}, {changed[0]} for one")
    if changed and (others := _other_jobs(jobs or {}, found, tolerances)):
        faults.append(f"the jobs differ in {_first(others)}")
    return Comparison(one, other, found, scores, changed, jobs, tolerances, faults)


def _held(
    one: Result, other: Result, tolerances: Tolerances
) -> tuple[PairComparison | RankingComparison, dict[str, Differences], list[str]]:
    """What differs, also in the scores of candidates, and what of it is more than the tolerances permit."""
    a, b = one.content, other.content
    if isinstance(a, Detections) and isinstance(b, Detections):
        pairs = _pairs(a, b)
        return pairs, {}, pair_faults(pairs, tolerances)
    if isinstance(a, Ranked) and isinstance(b, Ranked):
        rankings = compare_rankings(a.rankings, b.rankings)
        both = {} if a.scores is None or b.scores is None else a.scores
        scores = {name: differences(values, (b.scores or {})[name]) for name, values in both.items()}
        return rankings, scores, ranking_faults(rankings, tolerances)
    kinds = ["pairs" if isinstance(content, Detections) else "a ranking" for content in (a, b)]
    raise UserError(f"A holds {kinds[0]}, B {kinds[1]}", "give two results of one task", other.path)


def _pairs(a: Detections, b: Detections) -> PairComparison:
    """Where one has no decisions, its passages tell them, about the pairs that the other names."""
    of_a, of_b = a.decisions, b.decisions
    if of_a is None:
        of_a = decisions_behind(a.passages, of_b if of_b is not None else decisions_behind(b.passages))
    if of_b is None:
        of_b = decisions_behind(b.passages, of_a)
    return compare_pairs(of_a, of_b, a.passages, b.passages)


def _differing(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Fields that differ, by dotted name; one that is missing counts as null."""
    one, other = dict(_fields(a)), dict(_fields(b))
    names = sorted(one.keys() | other.keys())
    return {name: (one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name)}


def _fields(job: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in job.items():
        if isinstance(value, Mapping):
            yield from _fields(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _other_jobs(
    jobs: Mapping[str, tuple[Any, Any]], found: PairComparison | RankingComparison, tolerances: Tolerances
) -> list[str]:
    """The fields of what differs that make it another job."""
    unread = "profile.retrieval." if isinstance(found, PairComparison) else "profile.pairs."
    permitted = (*DIGITS, *WITHOUT_EFFECT, unread)
    names = [name for name in jobs if not name.startswith(permitted)]
    return [name for name in names if name != THRESHOLD or not _is_near(*jobs[name], tolerances.score)]


def _is_near(a: Any, b: Any, tolerance: float) -> bool:
    return isinstance(a, float) and isinstance(b, float) and abs(a - b) <= tolerance


def record(found: Comparison) -> dict[str, Any]:
    """Everything, as JSON values."""
    return {
        "task": "pairs" if isinstance(found.found, PairComparison) else "retrieval",
        **{side: _about(result) for side, result in (("a", found.a), ("b", found.b))},
        "files": {"both": len(found.a.files.keys() & found.b.files.keys()), "changed": list(found.changed)},
        "results": asdict(found.found),
        "scores": {name: asdict(values) for name, values in found.scores.items()},
        "jobs": None if found.jobs is None else {name: list(values) for name, values in found.jobs.items()},
        "tolerances": asdict(found.tolerances),
        "reproduced": not found.faults,
        "why": list(found.faults),
    }


def _about(result: Result) -> dict[str, Any]:
    mark = result.mark
    told = {"incidents": None, "origins": None} if mark is None else mark.model_dump(include={"incidents", "origins"})
    return {"path": str(result.path), **told}


def lines(found: Comparison) -> list[str]:
    """The report, in ASCII; its last line is the verdict."""
    both = found.a.files.keys() & found.b.files.keys()
    told = [
        f"A: {found.a.path}",
        f"B: {found.b.path}",
        f"files: {len(both) - len(found.changed)} with the same bytes, {len(found.changed)} with others",
        *(_pair_lines(found.found) if isinstance(found.found, PairComparison) else _ranking_lines(found.found)),
        *(f"{name}: {_words(values)}" for name, values in found.scores.items()),
        *_job_lines(found),
        "reproduced" if not found.faults else f"not reproduced: {'; '.join(found.faults)}",
    ]
    return [one_line(line).encode("ascii", "backslashreplace").decode() for line in told]


def _pair_lines(found: PairComparison) -> Iterator[str]:
    yield f"pairs: {found.pairs.words()}"
    yield f"decided otherwise: {len(found.flips)}"
    for flip in found.flips[:SHOWN]:
        yield f"  {_short(flip.pair[0])} and {_short(flip.pair[1])}: {_turned(flip)}"
    if found.scores.both:
        correlation = "undefined" if found.correlation is None else f"{found.correlation:.6g}"
        yield f"scores in nats: {_words(found.scores)}; Spearman correlation {correlation}"
    yield f"passages: {found.passages.words()}; {len(found.moved)} pairs decided alike have others"


def _turned(flip: Flip) -> str:
    words = []
    for decision in (flip.a, flip.b):
        score = "" if decision.score is None else f", {decision.score:.6g} nats"
        words.append(f"{'positive' if decision.positive else 'negative'}{score}")
    return " / ".join(words)


def _ranking_lines(found: RankingComparison) -> Iterator[str]:
    yield f"queries: {found.queries.words()}"
    yield f"Kendall's tau: {_agreement(found.tau)}; rank-biased overlap: {_agreement(found.overlap)}"
    yield (
        f"top 10: {found.replaced} of {found.listed} documents replaced, for {len(found.other_sets)} queries; "
        f"another order for {len(found.other_orders) - len(found.other_sets)} more"
    )
    if found.move is not None:
        move = found.move
        where = f"{_short(move.document)} of query {_short(move.query)}"
        yield f"largest move: from rank {move.rank_a} to {move.rank_b}, {where}"


def _agreement(values: Agreement | None) -> str:
    return "undefined" if values is None else f"mean {values.mean:.6g}, least {values.least:.6g}"


def _words(values: Differences) -> str:
    head = f"{values.both} in both, {values.missing} in one alone"
    return head if values.both == 0 else f"{head}; largest difference {values.largest:.6g}, mean {values.mean:.6g}"


def _job_lines(found: Comparison) -> Iterator[str]:
    if found.jobs is None:
        yield "jobs: not known of both"
    else:
        yield f"jobs: {f'fields that differ: {len(found.jobs)}' if found.jobs else 'the same'}"
        for name, (a, b) in list(found.jobs.items())[:SHOWN]:
            yield f"  {_short(name)}: {_short(str(a))} / {_short(str(b))}"
    if found.a.mark is not None and found.b.mark is not None:
        for name, (a, b) in _differing(found.a.mark.origins, found.b.mark.origins).items():
            yield f"models from elsewhere: {_short(name)}: {_short(str(a))} / {_short(str(b))}"
    for side, result in (("A", found.a), ("B", found.b)):
        for incident in (result.mark.incidents if result.mark is not None else [])[:SHOWN]:
            yield f"incident in {side}: {_short(incident)}"


def _first(names: Sequence[str]) -> str:
    return ", ".join(_short(name) for name in names[:SHOWN]) + (" and more" if len(names) > SHOWN else "")


def _short(text: str) -> str:
    """What a stranger wrote, no longer than a line can bear."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
