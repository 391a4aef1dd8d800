"""``evaluate``: compare the results in output folders with the truth, alone or side by side."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from pan_scdg.errors import UserError
from pan_scdg.evaluation.pairs import (
    LabelledPairs,
    bootstrap_pair_differences,
    bootstrap_pairs,
    compute_pair_metrics,
)
from pan_scdg.evaluation.plagdet import compute_plagdet
from pan_scdg.evaluation.plots import write_plots
from pan_scdg.evaluation.report import Estimate, format_table
from pan_scdg.evaluation.resampling import Intervals
from pan_scdg.evaluation.retrieval import (
    bootstrap_queries,
    bootstrap_query_differences,
    compute_per_query,
    compute_retrieval_metrics,
)
from pan_scdg.notices import Notices
from pan_scdg.pan.inputs import detect_task, hash_input
from pan_scdg.pan.labels import match_labels
from pan_scdg.pan.runs import RUN_NAMES, read_run
from pan_scdg.pan.source_retrieval import find_qrels, read_qrels, read_queries
from pan_scdg.pan.text_alignment import read_pairs
from pan_scdg.pan.truth import (
    TAG,
    find_truth,
    list_truth_files,
    read_feature_files,
    read_features,
    read_reference,
    read_truth,
    warn_of_overruns,
)
from pan_scdg.progress import format_count
from pan_scdg.records import DocumentPair, Feature
from pan_scdg.results.files import DECISIONS
from pan_scdg.results.folder import list_changed_files, read_job, require_job
from pan_scdg.results.records import read_decisions

DETECTED = "detected-plagiarism"
SCORE_MEASURES = ("auroc", "average_precision")
"""Measures of pairs that need scores and no decision; all others need decisions and no score."""
UNDECIDED = "no decisions: the threshold belongs to another model. Only measures of scores are given"


@dataclass(frozen=True)
class Evaluation:
    """The measures of one result, and the items that they are computed from."""

    output: Path
    notes: tuple[str, ...]
    figures: Mapping[str, float]
    intervals: Intervals
    """95 % bootstrap intervals; some figures have none."""
    pairs: LabelledPairs | None = None
    queries: Mapping[str, Mapping[str, float]] | None = None
    """Measure -> query -> value."""

    @property
    def estimates(self) -> dict[str, float | Estimate]:
        """Return the measures, with their intervals if there are any."""
        return {n: Estimate(v, *self.intervals[n]) if n in self.intervals else v for n, v in self.figures.items()}

    def to_json(self) -> dict[str, Any]:
        """Return its part of the JSON object that ``--json`` prints."""
        return {
            "output": str(self.output),
            "notes": list(self.notes),
            "measures": {name: _record(estimate) for name, estimate in self.estimates.items()},
        }


@dataclass(frozen=True)
class SideBySide:
    """One or more results of one input, each further one compared with the first by paired resampling."""

    results: Sequence[Evaluation]
    differences: Sequence[Mapping[str, Estimate]]
    """Of each further result: measure -> its value minus the first's, with the paired 95 % interval."""

    def report(self) -> str:
        """Return a table of measures: with intervals, or with a column for each result and each difference."""
        if len(self.results) == 1:
            (result,) = self.results
            rows: list[dict[str, object]] = [{"measure": n, "value": v} for n, v in result.estimates.items()]
            return "\n".join([*result.notes, format_table(rows, ["measure", "value"])])
        numbers = [str(number) for number in range(1, len(self.results) + 1)]
        columns = ["measure", *numbers, *(f"{number} - 1" for number in numbers[1:])]
        rows = []
        for name in dict.fromkeys(name for result in self.results for name in result.figures):
            values = [result.figures.get(name) for result in self.results]
            rows.append(dict(zip(columns, [name, *values, *(d.get(name) for d in self.differences)], strict=True)))
        head = [f"{n}: {result.output}: {'; '.join(result.notes)}" for n, result in zip(numbers, self.results)]
        return "\n".join([*head, format_table(rows, columns)])

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object that ``--json`` prints."""
        return {
            "results": [result.to_json() for result in self.results],
            "differences_from_first": [{n: _record(e) for n, e in values.items()} for values in self.differences],
        }


def evaluate_side_by_side(directory: Path | None, outputs: Sequence[Path], truth: Path | None) -> SideBySide:
    """Evaluate one or more results of one input, and the differences of all others from the first.

    Raises:
        UserError: see `evaluate`; or the results are of different parts of the input.
    """
    results = [evaluate(directory, output, truth) for output in outputs]
    return SideBySide(results, [_compare(results[0], other) for other in results[1:]])


def evaluate(directory: Path | None, output: Path, truth: Path | None) -> Evaluation:
    """Evaluate one result; a result of a part of the input is compared with the truth of that part.

    Args:
        directory: the input of ``run``; None: the result is that of a check.
        output: the output folder of ``run`` or ``check``, a result file, or a folder with the detections of another
            system.
        truth: qrels file, folder of truth XML, or table of a check (`pan.labels`); None: looked for in ``directory``.

    Raises:
        UserError: results or truth are missing or malformed.
    """
    if _read_job(output).get("task") == "check":
        return evaluate_check(output, truth)
    if directory is None:
        raise UserError("the truth belongs to the input of `run`", "give its folder with --input", output)
    if detect_task(directory) == "pairs":
        return evaluate_pairs(directory, output, truth)
    return evaluate_retrieval(directory, output, truth)


def evaluate_check(output: Path, truth: Path | None) -> Evaluation:
    """Evaluate the decisions of a check by the pairs that a table names."""
    if truth is None:
        raise UserError("the truth of a check is a table", "give suspicious,source,label with --truth", output)
    job = require_job(output, "check")
    records = {(r["suspicious"], r["source"]): r for r in read_decisions(output / DECISIONS)}
    labels = match_labels(truth, records, within_class=job["within_class"])
    return _evaluate_decisions(output, job, labels, [records[key] for key in labels], job["input"])


def evaluate_pairs(directory: Path, output: Path, truth: Path | None) -> Evaluation:
    """Evaluate pair decisions by F1 and other measures, and detections by plagdet."""
    truth = truth or find_truth(directory)
    if truth is None:
        raise UserError("no truth was found in the input folder", "give its folder with --truth", directory)
    corpus, job = read_pairs(directory, Notices(), may_lack_files=True), _read_job(output)
    pairs = corpus.pairs[: job.get("limit")]
    passages = read_truth(truth, pairs)
    labels = {key: bool(own) for key, own in passages.items()}
    records = _read_records(output, pairs)
    evaluation = _evaluate_decisions(output, job, labels, records, hash_input(directory, "pairs"))
    evaluation = replace(evaluation, notes=(*evaluation.notes, *warn_of_overruns(passages, pairs)))
    if any(record["decision"] is None for record in records):
        return evaluation
    part = {*labels} if len(pairs) < len(corpus.pairs) else None
    return replace(evaluation, figures={**evaluation.figures, **_measure_passages(truth, output, part)})


def _evaluate_decisions(
    output: Path,
    job: Mapping[str, Any],
    truth: Mapping[tuple[str, str], bool],
    records: Sequence[Mapping[str, Any]],
    digest: str,
) -> Evaluation:
    """Return the measures of decisions, given their labels in the same order and the digest of the input."""
    decided = LabelledPairs(
        list(truth),
        list(truth.values()),
        _list_scores(records),
        [record["decision"] is True for record in records],
        next((record["threshold"] for record in records if record.get("threshold") is not None), None),
    )
    labels, scores, decisions = decided.labels, decided.scores, decided.decisions
    figures = compute_pair_metrics(labels, scores, decisions)
    intervals = bootstrap_pairs(labels, scores, decisions, groups=decided.groups)
    positive = f"{sum(decisions)} decided positive"
    if any(record["decision"] is None for record in records):
        positive, figures = UNDECIDED, {name: figures[name] for name in SCORE_MEASURES}
    elif not any("score" in record for record in records):
        figures = {name: value for name, value in figures.items() if name not in SCORE_MEASURES}
    notes = [f"{format_count(len(labels), 'pair')}, {sum(labels)} positive, {positive}"]
    if unscored := sum(record.get("score", 0.0) is None for record in records):
        notes.append(f"warning: {format_count(unscored, 'pair')} not scored and counted as negative")
    notes += [f"warning: {job['partial']}"] if job.get("partial") else []
    notes += list_changed_files(output, job)
    notes += _warn_about_calibration(job, digest)
    return Evaluation(output, tuple(notes), figures, intervals, pairs=decided)


def _read_records(output: Path, pairs: Sequence[DocumentPair]) -> list[dict[str, Any]]:
    """Return the decision about each pair; of another system, which wrote detections alone, without a score."""
    if output.is_dir() and not (output / DECISIONS).exists() and (spans := read_features(output, DETECTED)):
        detected = {(span.suspicious, span.source) for span in spans}
        references = ((read_reference(p.suspicious.reference), read_reference(p.source.reference)) for p in pairs)
        return [{"decision": reference in detected} for reference in references]
    records = {(r["suspicious"], r["source"]): r for r in read_decisions(_find_result(output, (DECISIONS,)))}
    keys = [(pair.suspicious.doc_id, pair.source.doc_id) for pair in pairs]
    if missing := [key for key in keys if key not in records]:
        raise UserError(f"no decision for {missing[0][0]} and {missing[0][1]}", "run again on this input", output)
    return [records[key] for key in keys]


def _list_scores(records: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the scores; a pair that was not scored (null) is put below all others."""
    scores = [record.get("score") for record in records]
    below_all = min((score for score in scores if score is not None), default=0.0) - 1.0
    return [float(below_all if score is None else score) for score in scores]


def _measure_passages(truth: Path, output: Path, part: Container[tuple[str, str | None]] | None) -> dict[str, float]:
    """Return the measures of the detections, restricted to a part of the pairs if there is one."""
    true: list[Feature] = read_feature_files(sorted(chain.from_iterable(list_truth_files(truth).values())), TAG)
    if part is not None:
        true = [span for span in true if (span.suspicious, span.source) in part]
    plagdet = compute_plagdet(true, read_features(output, DETECTED))
    return {**plagdet._asdict(), "plagdet_score": plagdet.score}


def _warn_about_calibration(job: Mapping[str, Any], digest: str) -> list[str]:
    """Return a warning if the evaluated pairs are those that the threshold was chosen on."""
    decide = job.get("profile", {}).get("decide") or {}
    calibration = decide.get("calibration")
    if not calibration or calibration["digest"] != digest:
        return []
    pairs, positives = calibration["pairs"], calibration["positives"]
    return [
        f"parameters and threshold of this profile were chosen on the same {pairs} pairs "
        f"({positives} positive, {pairs - positives} negative): "
        "expect lower figures on new pairs"
    ]


def evaluate_retrieval(directory: Path, output: Path, truth: Path | None) -> Evaluation:
    """Evaluate a run with qrels by ir_measures and by TIRA's own rule."""
    truth = truth or find_qrels(directory)
    if not truth.is_file():
        raise UserError("the qrels are missing", "give the file with --truth", truth)
    qrels, job = read_qrels(truth), _read_job(output)
    if job.get("limit") is not None:
        done = {query.query_id for query in read_queries(directory, Notices())[: job["limit"]]}
        qrels = {query_id: grades for query_id, grades in qrels.items() if query_id in done}
    run = read_run(_find_result(output, RUN_NAMES))
    if qrels and not qrels.keys() & run.keys():
        what = f"no query of the qrels ({next(iter(qrels))!r}, ...) is in the run ({next(iter(run))!r}, ...)"
        raise UserError(what, "give the qrels of this input", truth)
    queries = compute_per_query(qrels, run)
    notes = [f"{format_count(len(qrels), 'query')} with judgements"]
    if missing := len(qrels.keys() - run.keys()):
        notes.append(
            f"warning: {missing} of {len(qrels)} queries with judgements are missing from the run and count as 0"
        )
    judged = {doc_id for grades in qrels.values() for doc_id in grades}
    if not any(doc_id in judged for ranking in run.values() for doc_id, _ in ranking):
        notes.append("warning: no document with a judgement is in the run: are these the qrels of its corpus?")
    notes += [f"warning: {job['partial']}"] if job.get("partial") else []
    notes += list_changed_files(output, job)
    figures = compute_retrieval_metrics(qrels, run)
    return Evaluation(output, tuple(notes), figures, bootstrap_queries(queries), queries=queries)


def plot_pairs(folder: Path, results: Sequence[Evaluation]) -> list[Path]:
    """Draw the evaluated pairs of the results into ``folder``; return the files.

    Raises:
        UserError: the results are of source retrieval, or all pairs have the same label.
    """
    pairs = {str(result.output): result.pairs for result in results if result.pairs is not None}
    if len(pairs) < len(results):
        raise UserError("plots are made for document pairs only", "leave out --plots, or give each output once")
    if any(len(set(decided.labels)) < 2 for decided in pairs.values()):
        raise UserError("all pairs have the same label", "leave out --plots")
    return write_plots(folder, pairs)


def _compare(first: Evaluation, other: Evaluation) -> dict[str, Estimate]:
    if first.pairs is not None and other.pairs is not None:
        if first.pairs.keys != other.pairs.keys:
            raise UserError(f"has other pairs than {first.output}", "evaluate results of the same pairs", other.output)
        intervals = bootstrap_pair_differences(first.pairs, other.pairs)
    else:
        intervals = bootstrap_query_differences(first.queries or {}, other.queries or {})
    shared = [name for name in intervals if name in first.figures and name in other.figures]
    return {name: Estimate(other.figures[name] - first.figures[name], *intervals[name]) for name in shared}


def _record(estimate: float | Estimate) -> dict[str, float | None]:
    """Return an estimate for JSON, which has no nan."""
    values = estimate._asdict() if isinstance(estimate, Estimate) else {"value": estimate}
    return {name: None if value is None or value != value else value for name, value in values.items()}


def _read_job(output: Path) -> dict[str, Any]:
    """Return ``job.json`` of an output folder; an empty one if there is none."""
    return (read_job(output) if output.is_dir() else None) or {}


def _find_result(output: Path, names: Sequence[str]) -> Path:
    """Return the file of an output folder that has one of these names, or ``output`` if it is a file itself."""
    for path in (output, *(output / name for name in names)):
        if path.is_file():
            return path
    raise UserError(f"{' or '.join(names)} does not exist", "finish `run` on this output directory first", output)
