"""Read a result to compare: an output directory of ``run``, a bare TREC run, or a folder of detection XML.

It may come from anybody, so everything in it is untrusted.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, JsonValue

from pan_scdg.digests import file_digest
from pan_scdg.errors import UserError
from pan_scdg.evaluation.span_files import read_spans
from pan_scdg.jobs.detect import DECISIONS
from pan_scdg.jobs.output_mark import is_unchanged
from pan_scdg.jobs.retrieval_results import SCORES
from pan_scdg.own_files import HIDDEN, MARK, InnerName, read_record
from pan_scdg.pan.detections import read_decisions, read_score
from pan_scdg.pan.runs import RUN_NAMES, read_run, run_file
from pan_scdg.pan.untrusted import is_file, list_directory, open_regular
from pan_scdg.records import Span
from pan_scdg.retrieval.ranking import rank_best

DETECTED = "detected-plagiarism"
Pair = tuple[str, str]
"""Ids of a suspicious document and a source; an empty one where a passage names no source."""


class Mark(BaseModel):
    """The record of a finished output; fields of other versions are ignored."""

    job: dict[str, JsonValue]
    files: dict[InnerName, str]


@dataclass(frozen=True)
class Decision:
    """The decision about a pair; score in nats and threshold where they are known."""

    positive: bool
    score: float | None = None
    threshold: float | None = None


class Detections(NamedTuple):
    """A result of pair detection; ``decisions`` is None for a folder of XML alone."""

    decisions: Mapping[Pair, Decision] | None
    passages: frozenset[Span]

    def decide(self, pairs: Iterable[Pair] = ()) -> dict[Pair, Decision]:
        """Return the decisions that the passages tell: positive where there is one, negative for the rest."""
        found = {pair: Decision(False) for pair in pairs}
        return found | {(span.suspicious, span.source or ""): Decision(True) for span in sorted(self.passages, key=str)}


class Ranked(NamedTuple):
    """A result of source retrieval: documents of each query, best first."""

    rankings: Mapping[str, list[str]]


class Result(NamedTuple):
    """A result, with the SHA-256 of its files and the record of its job, if there is one."""

    path: Path
    content: Detections | Ranked
    files: Mapping[str, str]
    job: Mapping[str, JsonValue] | None


def read_result(path: Path) -> Result:
    """Read the result at ``path``.

    Raises:
        UserError: there is none, it is unfinished, of both tasks or one shard of several, or a file is damaged or is
            not as the run left it.
    """
    if not path.is_dir():
        return Result(path, _read_rankings(run_file(path)), {"run": _digest(path)}, None)
    list_directory(path)  # says so if that is not permitted
    mark = _read_mark(path)
    job = None if mark is None else mark.job
    decisions, runs = path / DECISIONS, [path / name for name in RUN_NAMES if is_file(path / name)]
    xml = list(_detection_files(path))
    if job is not None and "shard" in job:
        raise UserError("is one shard of several", "compare what `merge` makes of all", path)
    if runs and (is_file(decisions) or xml):
        raise UserError("holds results of both tasks", "give a folder with one of them", path)
    if runs:
        run, scores = run_file(path), path / SCORES
        names = {"run": run, **({SCORES: scores} if is_file(scores) else {})}
        return Result(path, _read_rankings(run), _digests(names), job)
    if not is_file(decisions) and not xml:
        unfinished = (path / HIDDEN).is_dir()
        what = "the run is not finished" if unfinished else "there is no result of a run"
        raise UserError(what, "give an output directory, a TREC run or a folder of detection XML", path)
    found = Detections(
        _read_decisions(decisions) if is_file(decisions) else None, frozenset(read_spans(path, DETECTED))
    )
    names = {str(file.relative_to(path)): file for file in xml}
    digests = _digests(names | ({DECISIONS: decisions} if found.decisions is not None else {}))
    return Result(path, found, digests, job)


def _detection_files(folder: Path) -> Iterator[Path]:
    """Those that `read_spans` reads, by name."""
    for path in sorted([*folder.glob("*.xml"), *folder.glob("*/*.xml")]):
        if not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path


def _digests(names: Mapping[str, Path]) -> dict[str, str]:
    return {name: _digest(path) for name, path in names.items()}


def _digest(path: Path) -> str:
    open_regular(path).close()  # says so if it may not be read, or is a pipe that never ends
    return file_digest(path)


def _read_mark(folder: Path) -> Mark | None:
    """Return the record of a finished output, and check the files that it names."""
    mark = read_record(folder / MARK, Mark, "give an output as `run` left it")
    for name, digest in ({} if mark is None else mark.files).items():
        if not is_unchanged(folder, name, digest):
            remedy = f"run again, or remove {MARK} to compare without it"
            raise UserError("is not as the run left it", remedy, folder / name)
    return mark


def _read_rankings(run: Path) -> Ranked:
    """Return documents by score, equal ones by id, as ``run --candidates`` takes them."""
    return Ranked(
        {query: [r.doc_id for r in rank_best(dict(found), len(found))] for query, found in read_run(run).items()}
    )


def _read_decisions(path: Path) -> dict[Pair, Decision]:
    found = {}
    for number, record in enumerate(read_decisions(path), start=1):
        if record["decision"] is None:
            what = "nothing is decided here: only scores were computed"
            raise UserError(what, "give a run that decides", path, number)
        score, threshold = (read_score(record, name, path, number) for name in ("score", "threshold"))
        found[record["suspicious"], record["source"]] = Decision(record["decision"], score, threshold)
    return found
