"""Read a result to compare: an output directory of ``run``, a bare TREC run, or a folder of detection XML.

Everything in it is untrusted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, JsonValue

from pan_scdg.errors import UserError
from pan_scdg.evaluation.spans import list_xml_files, read_spans
from pan_scdg.jobs.output.mark import is_unchanged
from pan_scdg.jobs.pairs.detect import DECISIONS
from pan_scdg.jobs.retrieval.results import SCORES
from pan_scdg.own_files import HIDDEN, MARK, InnerName, read_record
from pan_scdg.pan.detections import read_decisions, read_score
from pan_scdg.pan.inputs import hash_regular
from pan_scdg.pan.runs import RUN_NAMES, find_run, read_run
from pan_scdg.pan.untrusted import is_file, list_directory
from pan_scdg.records import Span
from pan_scdg.retrieval.ranking import rank_best

DETECTED = "detected-plagiarism"
Pair = tuple[str, str]
"""Ids of a suspicious document and a source; an empty one where a passage names no source."""


class RunRecord(BaseModel):
    """The record of a finished output; fields of other versions are ignored."""

    job: dict[str, JsonValue]
    files: dict[InnerName, str]


@dataclass(frozen=True)
class Decision:
    """The decision about a pair, with its score and the threshold if recorded."""

    positive: bool
    score: float | None = None
    threshold: float | None = None


class Detections(NamedTuple):
    """A result of pair detection; ``decisions`` is None for a folder of XML alone."""

    decisions: Mapping[Pair, Decision] | None
    passages: frozenset[Span]

    def decide(self, pairs: Iterable[Pair] = ()) -> dict[Pair, Decision]:
        """Return the decisions that follow from the passages: positive with a passage, otherwise negative."""
        found = {pair: Decision(False) for pair in pairs}
        return found | {(span.suspicious, span.source or ""): Decision(True) for span in sorted(self.passages, key=str)}


class Rankings(NamedTuple):
    """A result of source retrieval: documents of each query, best first."""

    rankings: Mapping[str, list[str]]


class Result(NamedTuple):
    """A result, with the SHA-256 of its files and the record of its job or None."""

    path: Path
    content: Detections | Rankings
    files: Mapping[str, str]
    job: Mapping[str, JsonValue] | None


def read_result(path: Path) -> Result:
    """Read the result at ``path``.

    Raises:
        UserError: no result is found, it is unfinished, of both tasks or a single shard, or a file is damaged or was
            changed.
    """
    if not path.is_dir():
        return Result(path, _read_rankings(find_run(path)), {"run": hash_regular(path)}, None)
    list_directory(path)  # raises if it is not permitted
    mark = _read_mark(path)
    job = None if mark is None else mark.job
    decisions, runs = path / DECISIONS, [path / name for name in RUN_NAMES if is_file(path / name)]
    xml = list_xml_files(path)
    if job is not None and "shard" in job:
        raise UserError("is a single shard", "compare the merged result of all shards", path)
    if runs and (is_file(decisions) or xml):
        raise UserError("holds results of both tasks", "give a folder with one of them", path)
    if runs:
        run, scores = find_run(path), path / SCORES
        names = {"run": run, **({SCORES: scores} if is_file(scores) else {})}
        return Result(path, _read_rankings(run), {name: hash_regular(file) for name, file in names.items()}, job)
    if not is_file(decisions) and not xml:
        unfinished = (path / HIDDEN).is_dir()
        what = "the run is not finished" if unfinished else "no result of a run is in it"
        raise UserError(what, "give an output directory, a TREC run or a folder of detection XML", path)
    found = Detections(
        _read_decisions(decisions) if is_file(decisions) else None, frozenset(read_spans(path, DETECTED))
    )
    names = {str(file.relative_to(path)): file for file in xml}
    names |= {} if found.decisions is None else {DECISIONS: decisions}
    return Result(path, found, {name: hash_regular(file) for name, file in names.items()}, job)


def _read_mark(folder: Path) -> RunRecord | None:
    """Return the record of a finished output, and check the files that it names."""
    mark = read_record(folder / MARK, RunRecord, "give an unchanged output of `run`")
    for name, digest in ({} if mark is None else mark.files).items():
        if not is_unchanged(folder, name, digest):
            remedy = f"run again, or remove {MARK} to compare without it"
            raise UserError("is not as the run left it", remedy, folder / name)
    return mark


def _read_rankings(run: Path) -> Rankings:
    """Return documents by score, equal ones by id, as ``run --candidates`` takes them."""
    return Rankings(
        {query: [r.doc_id for r in rank_best(dict(found), len(found))] for query, found in read_run(run).items()}
    )


def _read_decisions(path: Path) -> dict[Pair, Decision]:
    found = {}
    for number, record in enumerate(read_decisions(path), start=1):
        if record["decision"] is None:
            what = "the run computed scores but no decisions"
            raise UserError(what, "give a run with a calibrated profile", path, number)
        score, threshold = (read_score(record, name, path, number) for name in ("score", "threshold"))
        found[record["suspicious"], record["source"]] = Decision(record["decision"], score, threshold)
    return found
