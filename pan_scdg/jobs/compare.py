"""Compare two results of one task: the decisions and passages, or the top 10s, and the jobs that made them.

A result is an output directory of ``run``, a TREC run, or a folder of detection XML. Everything in it is untrusted.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import JsonValue

from pan_scdg.errors import UserError, escape_controls
from pan_scdg.pan.truth import read_spans
from pan_scdg.jobs.output.mark import is_unchanged, read_mark
from pan_scdg.jobs.pairs.results import DECISIONS
from pan_scdg.own_files import MARK
from pan_scdg.pan.detections import read_decisions
from pan_scdg.pan.runs import RUN_NAMES, find_run, read_run
from pan_scdg.pan.untrusted import is_file, list_directory
from pan_scdg.progress import format_count
from pan_scdg.records import Span
from pan_scdg.retrieval.ranking import rank_best

TOP = 10
"""Depth of the compared rankings."""
SHOWN, LONGEST = 10, 100
"""Largest number of lines of one kind in a report, and of characters of an untrusted text in a line."""
Pair = tuple[str, str]
"""Ids of a suspicious document and a source; an empty one where a passage names no source."""
Rankings = dict[str, list[str]]
"""Documents of each query, best first."""


class Decision(NamedTuple):
    """The decision about a pair, and its score if it is recorded."""

    positive: bool
    score: float | None = None

    def describe(self) -> str:
        """Return the decision in words."""
        return ("positive" if self.positive else "negative") + ("" if self.score is None else f", {self.score:.6g}")


class Detections(NamedTuple):
    """A result of pair detection."""

    decisions: Mapping[Pair, Decision]
    complete: bool
    """False for a folder of XML alone, which names the positive pairs only."""
    passages: frozenset[Span]


class Result(NamedTuple):
    """A result, with the record of its job if it has one."""

    path: Path
    content: Detections | Rankings
    job: Mapping[str, JsonValue] | None


def read_result(path: Path) -> Result:
    """Read the result at ``path``.

    Raises:
        UserError: no finished result is found, or those of both tasks, or a file is damaged or was changed.
    """
    if not path.is_dir():
        return Result(path, _read_rankings(find_run(path)), None)
    list_directory(path)  # raises if it is not permitted
    mark = read_mark(path)
    for name, digest in ({} if mark is None else mark.files).items():
        if not is_unchanged(path, name, digest):
            remedy = f"run again, or remove {MARK} to compare without it"
            raise UserError("is not as the run left it", remedy, path / name)
    job, decisions = None if mark is None else mark.job, path / DECISIONS
    ranks = any(is_file(path / name) for name in RUN_NAMES)
    detects = is_file(decisions) or bool(list_xml_files(path))
    if ranks and detects:
        raise UserError("holds results of both tasks", "give a folder with one of them", path)
    if ranks:
        return Result(path, _read_rankings(find_run(path)), job)
    if not detects:
        what = "holds no finished result of a run"
        raise UserError(what, "give an output directory, a TREC run or a folder of detection XML", path)
    passages = frozenset(read_spans(path, "detected-plagiarism"))
    if is_file(decisions):
        return Result(path, Detections(_read_decisions(decisions), True, passages), job)
    positive = {(span.suspicious, span.source or ""): Decision(True) for span in sorted(passages, key=str)}
    return Result(path, Detections(positive, False, passages), job)


def _read_rankings(run: Path) -> Rankings:
    """Return documents by score, equal ones by id, as ``run --candidates`` takes them."""
    return {query: [r.doc_id for r in rank_best(dict(found), len(found))] for query, found in read_run(run).items()}


def _read_decisions(path: Path) -> dict[Pair, Decision]:
    found = {}
    for number, record in enumerate(read_decisions(path), start=1):
        if record["decision"] is None:
            what = "the run computed scores but no decisions"
            raise UserError(what, "give a run with a calibrated profile", path, number)
        found[record["suspicious"], record["source"]] = Decision(record["decision"], record.get("score"))
    return found


class Comparison(NamedTuple):
    """Two results side by side."""

    facts: dict[str, Any]
    """The differences as JSON values."""
    lines: list[str]
    """The same in words."""
    same: bool
    """Both have the same pairs, decisions and passages, or the same queries and top 10s."""


def compare_results(a: Path, b: Path) -> Comparison:
    """Compare two results; the lines are in ASCII, and the last one is the verdict.

    Raises:
        UserError: one is not a result or is damaged, or they are of different tasks; see `read_result`.
    """
    one, other = read_result(a), read_result(b)
    if isinstance(one.content, Detections) and isinstance(other.content, Detections):
        found = _compare_pairs(one.content, other.content)
    elif isinstance(one.content, dict) and isinstance(other.content, dict):
        found = _compare_rankings(one.content, other.content)
    else:
        kinds = ["pairs" if isinstance(result.content, Detections) else "a ranking" for result in (one, other)]
        raise UserError(f"A holds {kinds[0]}, B {kinds[1]}", "give two results of one task", b)
    jobs, of_jobs = None, ["jobs: not recorded in both"]
    if one.job is not None and other.job is not None:
        jobs = _find_differences(one.job, other.job)
        of_jobs = [f"jobs: fields that differ: {len(jobs)}" if jobs else "jobs: the same"]
        of_jobs += [f"  {_cut(name)}: {_cut(str(x))} / {_cut(str(y))}" for name, (x, y) in list(jobs.items())[:SHOWN]]
    verdict = "same results" if found.same else "different results"
    lines = [f"A: {a}", f"B: {b}", *found.lines, *of_jobs, verdict]
    return Comparison(
        {"a": str(a), "b": str(b), **found.facts, "jobs": jobs, "same": found.same},
        [escape_controls(line).encode("ascii", "backslashreplace").decode() for line in lines],
        found.same,
    )


def _compare_pairs(a: Detections, b: Detections) -> Comparison:
    """Compare decisions, scores and passages; pairs that are not in a folder of XML alone are negative there."""
    of_a, of_b = a.decisions, b.decisions
    if not a.complete:
        of_a = {**dict.fromkeys(of_b, Decision(False)), **of_a}
    if not b.complete:
        of_b = {**dict.fromkeys(of_a, Decision(False)), **of_b}
    both = [(pair, of_a[pair], of_b[pair]) for pair in of_a if pair in of_b]
    flips = [(pair, one, other) for pair, one, other in both if one.positive != other.positive]
    gaps = [abs(x.score - y.score) for _, x, y in both if x.score is not None and y.score is not None]
    scores = {"largest": max(gaps), "mean": sum(gaps) / len(gaps)} if gaps else None
    pairs, passages = _cover(of_a, of_b), _cover(a.passages, b.passages)
    lines = [f"pairs: {_describe(pairs)}", f"other decisions: {len(flips)}"]
    for (suspicious, source), one, other in flips[:SHOWN]:
        lines.append(f"  {_cut(suspicious)} and {_cut(source)}: {one.describe()} / {other.describe()}")
    if scores is not None:
        lines.append(f"scores: largest difference {scores['largest']:.6g}, mean {scores['mean']:.6g}")
    lines.append(f"passages: {_describe(passages)}")
    facts = {
        "task": "pairs",
        "pairs": pairs,
        "other_decisions": [{"pair": pair, "a": one._asdict(), "b": other._asdict()} for pair, one, other in flips],
        "scores": scores,
        "passages": passages,
    }
    return Comparison(facts, lines, not flips and _is_whole(pairs) and _is_whole(passages))


def _compare_rankings(a: Rankings, b: Rankings) -> Comparison:
    tops = {query: (a[query][:TOP], b[query][:TOP]) for query in a if query in b}
    changed = [query for query, (one, other) in tops.items() if set(one) != set(other)]
    reordered = [query for query, (one, other) in tops.items() if one != other and set(one) == set(other)]
    queries = _cover(a, b)
    lines = [
        f"queries: {_describe(queries)}",
        f"top 10: other documents for {format_count(len(changed), 'query')}, another order for {len(reordered)} more",
    ]
    facts = {"task": "retrieval", "queries": queries, "top10": {"changed": changed, "reordered": reordered}}
    return Comparison(facts, lines, not changed and not reordered and _is_whole(queries))


def _cover(a: Iterable[Hashable], b: Iterable[Hashable]) -> dict[str, int]:
    """Return the numbers of items that two results share or do not share."""
    one, other = set(a), set(b)
    return {"both": len(one & other), "only_a": len(one - other), "only_b": len(other - one)}


def _describe(found: Mapping[str, int]) -> str:
    return f"{found['both']} in both, {found['only_a']} only in A, {found['only_b']} only in B"


def _is_whole(found: Mapping[str, int]) -> bool:
    return found["only_a"] == found["only_b"] == 0


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


def _cut(text: str) -> str:
    """Return untrusted text, shortened to fit a line."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
