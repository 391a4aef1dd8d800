"""``evaluate``: compare the results in output folders with the truth."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import isnan, nan
from pathlib import Path
from typing import Any

from pan_scdg.errors import UserError
from pan_scdg.evaluation.pairs import LabelledPairs, bootstrap_pairs, compute_pair_metrics
from pan_scdg.evaluation.plagdet import compute_plagdet, measure_sums, sum_groups
from pan_scdg.evaluation.plots import write_plots
from pan_scdg.evaluation.report import Estimate, format_table
from pan_scdg.evaluation.resampling import Floats, Intervals, bootstrap_sums
from pan_scdg.evaluation.retrieval import (
    LARGEST_GAIN,
    LARGEST_GRADE,
    TIRA,
    bootstrap_queries,
    compute_per_query,
    compute_retrieval_metrics,
)
from pan_scdg.jobs.options import choose_recorded
from pan_scdg.jobs.outputs import find_run_output, read_pair_output
from pan_scdg.notices import Notices
from pan_scdg.pan.inputs import detect_task, hash_input
from pan_scdg.pan.labels import match_labels
from pan_scdg.pan.runs import read_run
from pan_scdg.pan.source_retrieval import find_grade_above, find_qrels, read_qrels, read_queries
from pan_scdg.pan.text_alignment import read_pairs
from pan_scdg.pan.truth import (
    TAG,
    find_truth,
    list_truth_files,
    read_feature_files,
    read_reference,
    read_truth,
    warn_of_line_ends,
)
from pan_scdg.progress import format_count
from pan_scdg.records import DocumentPair, Feature
from pan_scdg.results.files import DECISIONS
from pan_scdg.results.folder import list_changed_files, read_job, require_job
from pan_scdg.results.job import JobFile
from pan_scdg.results.records import Decision, read_decisions

NAMED_QUERIES = 3
"""Most queries that a warning names."""
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
    passages: Mapping[str, Floats] | None = None
    """The numbers of `sum_groups` of each suspicious document of the pairs or the detections, by its name."""
    passages_of_pairs: Floats | None = None
    """The same of each pair."""
    queries: Mapping[str, Mapping[str, float]] | None = None
    """Measure -> query -> value."""

    @property
    def estimates(self) -> dict[str, float | Estimate]:
        """Return the measures, with their intervals if there are any."""
        ends = {name: self.intervals.get(name, (nan, nan)) for name in self.figures}
        return {n: v if isnan(ends[n][0]) else Estimate(v, *ends[n]) for n, v in self.figures.items()}

    def report(self) -> str:
        """Return a table of the measures with their intervals."""
        rows: list[dict[str, object]] = [{"measure": name, "value": value} for name, value in self.estimates.items()]
        return "\n".join([*self.notes, format_table(rows, ["measure", "value"])])

    def to_json(self) -> dict[str, Any]:
        """Return its part of the JSON object that ``--json`` prints."""
        return {
            "output": str(self.output),
            "notes": list(self.notes),
            "measures": {name: describe_estimate(estimate) for name, estimate in self.estimates.items()},
        }


class PairTruth:
    """The pairs of an input with their truth, read once for all results."""

    def __init__(self, directory: Path, truth: Path | None) -> None:
        folder = truth or find_truth(directory)
        if folder is None:
            raise UserError("no truth was found in the input folder", "give its folder with --truth", directory)
        self.directory, self.folder = directory, folder
        self.pairs = read_pairs(directory, Notices(), may_lack_files=True).pairs
        self.passages = read_truth(folder, self.pairs)

    @cached_property
    def digest(self) -> str:
        """The hash of the input."""
        return hash_input(self.directory, "pairs")

    @cached_property
    def features(self) -> list[Feature]:
        """The passages as the official evaluator reads them."""
        return read_feature_files(sorted(chain.from_iterable(list_truth_files(self.folder).values())), TAG)


class QueryTruth:
    """The judgements of an input, read once for all results; without the input if they are given."""

    def __init__(self, directory: Path | None, truth: Path | None) -> None:
        if directory is None and truth is None:
            raise ValueError("neither an input nor judgements")
        self.directory, self.file = directory, truth or find_qrels(directory or Path())
        if not self.file.is_file():
            raise UserError("the qrels are missing", "give the file with --truth", self.file)
        self.qrels = read_qrels(self.file)


Truth = PairTruth | QueryTruth


def read_input_truth(directory: Path | None, truth: Path | None) -> Truth | None:
    """Return the truth of an input of `run`; None without an input and judgements.

    Args:
        directory: the input; None: ``truth`` are the judgements of runs.
        truth: qrels file or folder of truth XML; None: looked for in ``directory``.

    Raises:
        UserError: input or truth are missing or malformed.
    """
    if directory is None:
        return None if truth is None else QueryTruth(None, truth)
    return PairTruth(directory, truth) if detect_task(directory) == "pairs" else QueryTruth(directory, truth)


def evaluate(directory: Path | None, output: Path, truth: Path | None) -> Evaluation:
    """Evaluate one result; a result of a part of the input is compared with the truth of that part.

    Args:
        directory: the input of ``run``; None: the result is that of a check.
        output: the output folder of ``run`` or ``check``, a result file, or a folder with the detections of another
            system.
        truth: see `read_input_truth`; the table of a check (`pan.labels`).

    Raises:
        UserError: results or truth are missing or malformed.
    """
    if is_check(output):
        return evaluate_check(output, truth)
    return evaluate_output(read_input_truth(directory, truth), output)


def evaluate_output(known: Truth | None, output: Path) -> Evaluation:
    """Evaluate a result of ``run`` or of another system, given the truth of the input."""
    if known is None:
        remedy = "give its folder with --input, or judgements of a run with --truth"
        raise UserError("the truth belongs to the input of `run`", remedy, output)
    return evaluate_pairs(known, output) if isinstance(known, PairTruth) else evaluate_run(known, output)


def is_check(output: Path) -> bool:
    """Return True for the result of a check; False for a damaged one of any task."""
    with suppress(UserError):
        job = _read_job(output)
        return job is not None and job.task == "check"
    return False


def evaluate_check(output: Path, truth: Path | None) -> Evaluation:
    """Evaluate the decisions of a check by the pairs that a table names."""
    if truth is None:
        raise UserError("the truth of a check is a table", "give suspicious,source,label with --truth", output)
    job = require_job(output, "check")
    records = {record.key: record for record in read_decisions(output / DECISIONS)}
    labels = match_labels(truth, records, within_class=job.within_class)
    return _evaluate_decisions(output, job, labels, [records[key] for key in labels], job.input)


def evaluate_pairs(known: PairTruth, output: Path) -> Evaluation:
    """Evaluate pair decisions by F1 and other measures, and detections by plagdet."""
    job = _read_job(output)
    pairs = known.pairs if job is None else choose_recorded(known.pairs, job, "pairs")
    passages = {pair.key: known.passages[pair.key] for pair in pairs}
    made = read_pair_output(output, pairs)
    labels = {key: bool(own) for key, own in passages.items()}
    evaluation = _evaluate_decisions(output, job, labels, made.records, known.digest)
    evaluation = replace(evaluation, notes=(*evaluation.notes, *made.notes, *warn_of_line_ends(passages, pairs)))
    if any(record.decision is None for record in made.records) or output.is_file():
        return evaluation
    notes = (*evaluation.notes, *_warn_of_unlisted(known, made.detections))
    return _measure_passages(replace(evaluation, notes=notes), known.features, made.detections, _name_texts(pairs))


def _evaluate_decisions(
    output: Path,
    job: JobFile | None,
    truth: Mapping[tuple[str, str], bool],
    records: Sequence[Decision],
    digest: str,
) -> Evaluation:
    """Return the measures of decisions, given their labels in the same order and the digest of the input."""
    decided = LabelledPairs(
        list(truth),
        list(truth.values()),
        _list_scores(records),
        [record.decision is True for record in records],
        next((record.threshold for record in records if record.threshold is not None), None),
    )
    labels, scores, decisions = decided.labels, decided.scores, decided.decisions
    figures = compute_pair_metrics(labels, scores, decisions)
    intervals = bootstrap_pairs(labels, scores, decisions, groups=decided.groups)
    positive = f"{sum(decisions)} decided positive"
    if any(record.decision is None for record in records):
        positive, figures = UNDECIDED, {name: figures[name] for name in SCORE_MEASURES}
    elif all(record.score is None for record in records):
        figures = {name: value for name, value in figures.items() if name not in SCORE_MEASURES}
    notes = [f"{format_count(len(labels), 'pair')}, {sum(labels)} positive, {positive}"]
    unscored = sum(record.score is None for record in records)
    if 0 < unscored < len(records):  # else the system gives no scores
        notes.append(f"warning: {format_count(unscored, 'pair')} not scored and counted as negative")
    notes += [f"warning: {part}" for part in (job.partial, job.deadline) if part] if job else []
    notes += list_changed_files(output, job)
    notes += _warn_about_calibration(job, digest)
    return Evaluation(output, tuple(notes), figures, intervals, pairs=decided)


def _list_scores(records: Sequence[Decision]) -> list[float]:
    """Return the scores; a pair that was not scored (null) is put below all others."""
    scores = [record.score for record in records]
    below_all = min((score for score in scores if score is not None), default=0.0) - 1.0
    return [float(below_all if score is None else score) for score in scores]


def _measure_passages(
    evaluation: Evaluation,
    truth: Sequence[Feature],
    detections: Sequence[Feature],
    names: Sequence[tuple[str, str]],
) -> Evaluation:
    """Return the evaluation with the measures of the detections, by the truth of the pairs of these names."""
    pairs = {*names}
    true = [span for span in truth if (span.suspicious, span.source) in pairs]
    plagdet = compute_plagdet(true, detections)
    documents = list(dict.fromkeys([*(name for name, _ in names), *(span.suspicious for span in detections)]))
    sums = sum_groups(true, detections, documents, lambda span: span.suspicious)
    figures = {**evaluation.figures, **plagdet._asdict(), "plagdet_score": plagdet.score}
    return replace(
        evaluation,
        figures=figures,
        intervals={**evaluation.intervals, **bootstrap_sums(sums, measure_sums)},
        passages=dict(zip(documents, sums, strict=True)),
        passages_of_pairs=sum_groups(true, detections, names, lambda span: (span.suspicious, span.source or "")),
    )


def _name_texts(pairs: Sequence[DocumentPair]) -> list[tuple[str, str]]:
    """Return the names of the texts of each pair, as features have them."""
    return [(read_reference(pair.suspicious.reference), read_reference(pair.source.reference)) for pair in pairs]


def _warn_of_unlisted(known: PairTruth, detections: Sequence[Feature]) -> list[str]:
    """Return warnings about passages of pairs that the input does not list."""
    listed = {*_name_texts(known.pairs)}
    notes = []
    for spans, effect, what in ((known.features, "left out", "true passage"), (detections, "false", "detection")):
        if others := [span for span in spans if (span.suspicious, span.source) not in listed]:
            first = f"{others[0].suspicious} and {others[0].source or 'no source'}"
            count = format_count(len(others), what)
            notes.append(f"warning: {effect}: {count} of pairs that the input does not list, first {first}")
    return notes


def _warn_about_calibration(job: JobFile | None, digest: str) -> list[str]:
    """Return a warning if the evaluated pairs are those that the threshold was chosen on."""
    decide = {} if job is None else job.profile.get("decide") or {}
    calibration = decide.get("calibration")
    if not calibration or calibration["digest"] != digest:
        return []
    pairs, positives = calibration["pairs"], calibration["positives"]
    return [
        f"parameters and threshold of this profile were chosen on the same {pairs} pairs "
        f"({positives} positive, {pairs - positives} negative): "
        "expect lower figures on new pairs"
    ]


def evaluate_run(known: QueryTruth, output: Path) -> Evaluation:
    """Evaluate a run with qrels by ir_measures and by TIRA's own rule."""
    qrels, job = known.qrels, _read_job(output)
    if job is not None and (job.limit, job.sample) != (None, None):
        if known.directory is None:
            raise UserError("is a result of some of the queries", "give the folder of the input with --input", output)
        asked = tuple(read_queries(known.directory, Notices()))
        done = {query.query_id for query in choose_recorded(asked, job, "queries")}
        qrels = {query_id: grades for query_id, grades in qrels.items() if query_id in done}
    run = read_run(find_run_output(output))
    if qrels and not qrels.keys() & run.keys():
        what = f"no query of the qrels ({next(iter(qrels))!r}, ...) is in the run ({next(iter(run))!r}, ...)"
        raise UserError(what, "give the qrels of this input", known.file)
    queries = compute_per_query(qrels, run)
    notes = [f"{format_count(len(qrels), 'query')} with judgements"]
    notes += _warn_of_unjudged([query_id for query_id in run if query_id not in known.qrels], len(run))
    notes += _warn_of_grades(known)
    if missing := len(qrels.keys() - run.keys()):
        notes.append(
            f"warning: {missing} of {len(qrels)} queries with judgements are missing from the run and count as 0"
        )
    judged = {doc_id for grades in qrels.values() for doc_id in grades}
    if not any(doc_id in judged for ranking in run.values() for doc_id, _ in ranking):
        notes.append("warning: no document with a judgement is in the run: are these the qrels of its corpus?")
    notes += [f"warning: {part}" for part in (job.partial, job.deadline) if part] if job else []
    notes += list_changed_files(output, job)
    figures = compute_retrieval_metrics(qrels, run)
    intervals = bootstrap_queries(queries) if len(qrels) > 1 else {}
    return Evaluation(output, tuple(notes), figures, intervals, queries=queries)


def _warn_of_unjudged(queries: Sequence[str], total: int) -> list[str]:
    """Return a warning about the queries of a run that have no judgements."""
    if not queries:
        return []
    names = ", ".join(queries[:NAMED_QUERIES]) + (", ..." if len(queries) > NAMED_QUERIES else "")
    verb = "has no judgements and counts" if len(queries) == 1 else "have no judgements and count"
    return [f"warning: {len(queries)} of {total} queries of the run {verb} only in {TIRA}, as 0: {names}"]


def _warn_of_grades(known: QueryTruth) -> list[str]:
    """Return a warning about the first grade that is too large for a measure, with its line."""
    large = find_grade_above(known.file, LARGEST_GRADE)
    if large is None:
        return []
    line, grade = large
    left_out = f"only {TIRA} is computed of nDCG" if grade > LARGEST_GAIN else "the paper's nDCG is not computed"
    what = f"{known.file}:{line}: the grade {grade} is too large for a gain of 2^grade-1 (at most {LARGEST_GRADE})"
    return [f"warning: {what}: {left_out}"]


def plot_pairs(folder: Path, results: Mapping[str, Evaluation]) -> list[Path]:
    """Draw the evaluated pairs of the results, by their names, into ``folder``; return the files.

    Raises:
        UserError: the results are of source retrieval or have no scores, or all pairs have the same label.
    """
    pairs = {name: result.pairs for name, result in results.items() if result.pairs is not None}
    if len(pairs) < len(results):
        raise UserError("plots are made for document pairs only", "leave out --plots")
    if unscored := [name for name, result in results.items() if SCORE_MEASURES[0] not in result.figures]:
        raise UserError(f"{unscored[0]} has no scores to draw", "leave it out, or --plots")
    if any(len(set(decided.labels)) < 2 for decided in pairs.values()):
        raise UserError("all pairs have the same label", "leave out --plots")
    return write_plots(folder, pairs)


def describe_estimate(estimate: float | Estimate) -> dict[str, float | None]:
    """Return an estimate for JSON, which has no nan."""
    values = estimate._asdict() if isinstance(estimate, Estimate) else {"value": estimate}
    return {name: None if value is None or value != value else value for name, value in values.items()}


def _read_job(output: Path) -> JobFile | None:
    """Return ``job.json`` of an output folder; None if there is none."""
    return read_job(output) if output.is_dir() else None
