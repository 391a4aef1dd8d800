"""A result as ``compare`` reads it: an output directory of ``run``, a bare TREC run, or a folder of detection XML.

It may come from anybody, so everything in it is untrusted.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, JsonValue

from pan_scdg.digests import file_digest
from pan_scdg.errors import UserError
from pan_scdg.evaluation.comparison import Decision, Pair
from pan_scdg.evaluation.span_files import read_spans
from pan_scdg.jobs.output_mark import is_unchanged
from pan_scdg.jobs.pair_results import DECISIONS
from pan_scdg.jobs.retrieval_results import SCORES
from pan_scdg.own_files import HIDDEN, MARK, InnerName, read_record
from pan_scdg.pan.detections import read_decisions, read_score
from pan_scdg.pan.runs import RUN_NAMES, read_run, run_file
from pan_scdg.pan.untrusted import gzip_lines, is_file, json_object, list_directory, open_regular
from pan_scdg.records import Span
from pan_scdg.retrieval.ranking import top

FEATURES = ("final", "top_2")
"""What is compared of the scores of candidates."""
DETECTED = "detected-plagiarism"


class Mark(BaseModel):
    """What a finished output says of itself; fields of other versions are left out."""

    job: dict[str, JsonValue]
    files: dict[InnerName, str]
    incidents: list[str] = []
    origins: dict[str, JsonValue] = {}
    """Where its models came from, which moves no digit: their bytes are named in the job."""


class Detections(NamedTuple):
    """A result of job 1; decisions are None for a folder of XML alone."""

    decisions: Mapping[Pair, Decision] | None
    passages: frozenset[Span]


class Ranked(NamedTuple):
    """A result of job 2; ``scores`` maps a name of `FEATURES` to numbers by query and document, if there are any."""

    rankings: Mapping[str, list[str]]
    scores: Mapping[str, dict[Pair, float]] | None


class Result(NamedTuple):
    """A result, with the SHA-256 of its files and what it says of itself, if it does."""

    path: Path
    content: Detections | Ranked
    files: Mapping[str, str]
    mark: Mark | None


def read_result(path: Path) -> Result:
    """Whatever result there is at ``path``.

    Raises:
        UserError: there is none, it is unfinished, of both tasks or one shard of several, or a file is damaged or is
            not as the run left it.
    """
    if not path.is_dir():
        return Result(path, _ranked(run_file(path), None), {"run": _digest(path)}, None)
    list_directory(path)  # says so if that is not permitted
    mark = _mark(path)
    decisions, runs = path / DECISIONS, [path / name for name in RUN_NAMES if is_file(path / name)]
    xml = list(_detection_files(path))
    if mark is not None and "shard" in mark.job:
        raise UserError("is one shard of several", "compare what `merge` makes of all", path)
    if runs and (is_file(decisions) or xml):
        raise UserError("holds results of both tasks", "give a folder with one of them", path)
    if runs:
        run, scores = run_file(path), path / SCORES
        names = {"run": run, **({SCORES: scores} if is_file(scores) else {})}
        return Result(path, _ranked(run, names.get(SCORES)), _digests(names), mark)
    if not is_file(decisions) and not xml:
        unfinished = (path / HIDDEN).is_dir()
        what = "the run is not finished" if unfinished else "there is no result of a run"
        raise UserError(what, "give an output directory, a TREC run or a folder of detection XML", path)
    found = Detections(_decisions(decisions) if is_file(decisions) else None, frozenset(read_spans(path, DETECTED)))
    names = {str(file.relative_to(path)): file for file in xml}
    return Result(path, found, _digests(names | ({DECISIONS: decisions} if found.decisions is not None else {})), mark)


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


def _mark(folder: Path) -> Mark | None:
    """What ``folder`` says of itself, held against its files."""
    mark = read_record(folder / MARK, Mark, "give an output as `run` left it")
    for name, digest in ({} if mark is None else mark.files).items():
        if not is_unchanged(folder, name, digest):
            remedy = f"run again, or remove {MARK} to compare without it"
            raise UserError("is not as the run left it", remedy, folder / name)
    return mark


def _ranked(run: Path, scores: Path | None) -> Ranked:
    """Documents by score, equal ones by id, as ``run --candidates`` takes them."""
    rankings = {query: [r.doc_id for r in top(dict(found), len(found))] for query, found in read_run(run).items()}
    return Ranked(rankings, None if scores is None else _scores(scores))


def _scores(path: Path) -> dict[str, dict[Pair, float]]:
    found: dict[str, dict[Pair, float]] = {name: {} for name in FEATURES}
    seen: set[Pair] = set()
    for number, line in gzip_lines(path):
        record = json_object(line, path, number)
        query, document = record.get("query"), record.get("document")
        if not isinstance(query, str) or not isinstance(document, str) or (query, document) in seen:
            raise UserError("no candidate of a query, or one again", "give the scores of `run`", path, number)
        seen.add((query, document))
        for name in FEATURES:
            value = read_score(record, name, path, number)
            if value is not None:
                found[name][query, document] = value
    return found


def _decisions(path: Path) -> dict[Pair, Decision]:
    found = {}
    for number, record in enumerate(read_decisions(path), start=1):
        if record["decision"] is None:
            what = "nothing is decided here: only scores were computed"
            raise UserError(what, "give a run that decides", path, number)
        score, threshold = (read_score(record, name, path, number) for name in ("score", "threshold"))
        found[record["suspicious"], record["source"]] = Decision(record["decision"], score, threshold)
    return found
