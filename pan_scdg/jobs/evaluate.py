"""``evaluate``: compare the results in output directories with the truth, alone or side by side."""

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import JsonValue, ValidationError

from pan_scdg.errors import UserError
from pan_scdg.evaluation.pairs import (
    DecidedPairs,
    bootstrap_pair_differences,
    bootstrap_pairs,
    compute_pair_metrics,
    describe_calibration,
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
from pan_scdg.pan.truth import read_span_files, read_spans
from pan_scdg.jobs.output.mark import Mark, read_mark
from pan_scdg.jobs.pairs.results import DECISIONS
from pan_scdg.notices import Notices
from pan_scdg.own_files import MARK
from pan_scdg.pan.detections import read_decisions
from pan_scdg.pan.inputs import detect_task, hash_input
from pan_scdg.pan.runs import read_run
from pan_scdg.pan.source_retrieval import read_qrels, read_queries
from pan_scdg.pan.text_alignment import read_pairs
from pan_scdg.pan.truth import find_truth, list_truth_files, read_truth
from pan_scdg.profile import Calibration
from pan_scdg.progress import format_count

OF_SCORES = ("auroc", "average_precision")
"""Measures of pairs that need no decision."""
UNDECIDED = (
    "none decided: the scores are of another model than the threshold, so that only measures of scores are given"
)


@dataclass(frozen=True)
class Evaluation:
    """The measures of one result, and the items that they are computed from."""

    output: Path
    head: tuple[str, ...]
    figures: Mapping[str, float]
    intervals: Intervals
    """95 % bootstrap intervals; some figures have none."""
    pairs: DecidedPairs | None = None
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
            "notes": list(self.head),
            "measures": {name: _record(estimate) for name, estimate in self.estimates.items()},
        }


def evaluate(directory: Path, output: Path, truth: Path | None) -> Evaluation:
    """Evaluate one result; a result of a part of the input is compared with the truth of that part.

    Args:
        directory: the input of ``run``.
        output: the output directory of ``run``, or its result file.
        truth: qrels file, or folder of truth XML; None: looked for in ``directory``.

    Raises:
        UserError: results or truth are missing or malformed.
    """
    if detect_task(directory) == "pairs":
        return evaluate_pairs(directory, output, truth)
    return evaluate_retrieval(directory, output, truth)


def evaluate_pairs(directory: Path, output: Path, truth: Path | None) -> Evaluation:
    """Evaluate pair decisions by scikit-learn's metrics and detections by plagdet."""
    found = truth or find_truth(directory)
    if found is None:
        raise UserError("no truth was found in the input folder", "give its folder with --truth", directory)
    mark = read_mark(output)  # None if a decisions.jsonl is given by itself
    partial = None if mark is None else mark.partial
    pairs = read_pairs(directory, Notices()).pairs
    pairs = pairs if partial is None else pairs[: partial.done]
    passages = read_truth(found, pairs)
    decisions = {(d["suspicious"], d["source"]): d for d in read_decisions(_find_result(output, DECISIONS))}
    keys = [(p.suspicious.doc_id, p.source.doc_id) for p in pairs]
    if missing := [k for k in keys if k not in decisions]:
        raise UserError(f"no decision for {missing[0][0]} and {missing[0][1]}", "run again on this input", output)
    known = [decisions[k] for k in keys]
    judged = DecidedPairs(
        keys,
        [bool(passages[k]) for k in keys],
        _read_scores(known),
        [d["decision"] is True for d in known],
        next((d["threshold"] for d in known if d.get("threshold") is not None), None),
    )
    undecided = any(d["decision"] is None for d in known)
    figures = compute_pair_metrics(judged.labels, judged.scores, judged.decisions)
    if undecided:
        figures = {name: figures[name] for name in OF_SCORES}
    intervals = bootstrap_pairs(judged.labels, judged.scores, judged.decisions, groups=judged.groups)
    decided = UNDECIDED if undecided else f"{sum(judged.decisions)} decided positive"
    head = f"{format_count(len(keys), 'pair')}, {sum(judged.labels)} positive, {decided}"
    if not undecided:
        figures |= _evaluate_passages(found, output, None if partial is None else set(keys))
    warning = None if partial is None else partial.format_warning()
    notes = filter(None, [warning, _note_calibration(directory, output, mark)])
    return Evaluation(output, (head, *notes), figures, intervals, pairs=judged)


def _evaluate_passages(truth: Path, output: Path, part: Container[tuple[str, str | None]] | None) -> dict[str, float]:
    """Return the measures of the detections, restricted to a part of the pairs if there is one."""
    true = read_span_files(sorted(chain.from_iterable(list_truth_files(truth).values())), "plagiarism")
    if part is not None:
        true = [span for span in true if (span.suspicious, span.source) in part]
    spans = compute_plagdet(true, read_spans(output, "detected-plagiarism"))
    return {**spans._asdict(), "plagdet_score": spans.score}


def evaluate_retrieval(directory: Path, output: Path, truth: Path | None) -> Evaluation:
    """Evaluate a run with qrels by ir_measures and by TIRA's own rule."""
    found = truth or directory / "qrels.txt"
    if not found.is_file():
        raise UserError("the qrels are missing", "give the file with --truth", found)
    qrels, mark = read_qrels(found), read_mark(output)
    if (partial := None if mark is None else mark.partial) is not None:
        done = {query.query_id for query in read_queries(directory, Notices())[: partial.done]}
        qrels = {query_id: judged for query_id, judged in qrels.items() if query_id in done}
    run = read_run(_find_result(output, "run.txt", "run.txt.gz"))
    queries = compute_per_query(qrels, run)
    limited = () if partial is None else (partial.format_warning(),)
    head = (f"{format_count(len(qrels), 'query')} with judgments", *limited)
    return Evaluation(output, head, compute_retrieval_metrics(qrels, run), bootstrap_queries(queries), queries=queries)


@dataclass(frozen=True)
class SideBySide:
    """One or more results of one input, each further one compared with the first by paired resampling."""

    results: Sequence[Evaluation]
    differences: Sequence[Mapping[str, Estimate]]
    """Of each further result: measure -> its value minus the first's, with the paired 95 % interval."""

    def report(self) -> str:
        """Return a table of measures: with intervals, or with a column for each result and each difference."""
        if len(self.results) == 1:
            (only,) = self.results
            alone = [{"measure": name, "value": estimate} for name, estimate in only.estimates.items()]
            return "\n".join([*only.head, format_table(alone, ["measure", "value"])])
        names = dict.fromkeys(name for result in self.results for name in result.figures)
        columns = [str(number) for number in range(1, len(self.results) + 1)]
        head = [f"{column}: {result.output}: {'; '.join(result.head)}" for column, result in zip(columns, self.results)]
        rows = []
        for name in names:
            values = {c: r.figures.get(name) for c, r in zip(columns, self.results)}
            found = {f"{c} - 1": d.get(name) for c, d in zip(columns[1:], self.differences)}
            rows.append({"measure": name, **values, **found})
        return "\n".join([*head, format_table(rows, ["measure", *columns, *(f"{c} - 1" for c in columns[1:])])])

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object that ``--json`` prints."""
        return {
            "results": [result.to_json() for result in self.results],
            "differences_from_first": [
                {name: _record(estimate) for name, estimate in found.items()} for found in self.differences
            ],
        }


def evaluate_side_by_side(directory: Path, outputs: Sequence[Path], truth: Path | None) -> SideBySide:
    """Evaluate one or more results of one input, and the differences of all others from the first.

    Raises:
        UserError: see `evaluate`; or the results are of different parts of the input.
    """
    results = [evaluate(directory, output, truth) for output in outputs]
    return SideBySide(results, [_compare(results[0], other) for other in results[1:]])


def plot_pairs(folder: Path, results: Sequence[Evaluation]) -> list[Path]:
    """Draw the evaluated pairs of the results into ``folder``; return the files.

    Raises:
        UserError: the results are of source retrieval, or all pairs have the same label.
    """
    pairs = {str(result.output): result.pairs for result in results if result.pairs is not None}
    if len(pairs) < len(results):
        raise UserError("plots are made for document pairs only", "leave out --plots, or give each output once")
    if any(len(set(of.labels)) < 2 for of in pairs.values()):
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


def _find_result(output: Path, *names: str) -> Path:
    """Return the file of an output directory that has one of these names, or ``output`` if it is a file itself."""
    for path in (output, *(output / name for name in names)):
        if path.is_file():
            return path
    raise UserError(f"{' or '.join(names)} does not exist", "finish `run` on this output directory first", output)


def _read_scores(decisions: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the scores; a pair that was not scored (null) is put below all others."""
    scores = [d.get("score") for d in decisions]
    below_all = min((s for s in scores if s is not None), default=0.0) - 1.0
    return [float(below_all if s is None else s) for s in scores]


def _note_calibration(directory: Path, output: Path, mark: Mark | None) -> str | None:
    stored: JsonValue = None if mark is None else mark.job
    for name in ("profile", "pairs", "calibration"):
        stored = stored.get(name) if isinstance(stored, dict) else None
    if not stored:
        return None
    try:  # as JSON, in which arrays stand for tuples
        calibration = Calibration.model_validate_json(json.dumps(stored))
    except ValidationError as e:
        raise UserError("the calibration in it is damaged", "run again with --overwrite", output / MARK) from e
    return describe_calibration(calibration, hash_input(directory, "pairs"))
