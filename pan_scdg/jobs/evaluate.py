"""``evaluate``: the results in an output directory against the truth."""

import json
from collections.abc import Container, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import JsonValue, ValidationError

from pan_scdg.errors import UserError
from pan_scdg.evaluation.calibration import calibration_note
from pan_scdg.evaluation.pairs import bootstrap, pair_metrics
from pan_scdg.evaluation.plagdet import plagdet
from pan_scdg.evaluation.report import Estimate, table
from pan_scdg.evaluation.retrieval import bootstrap_queries, per_query, retrieval_metrics
from pan_scdg.evaluation.span_files import read_files, read_spans
from pan_scdg.jobs.detect import DECISIONS
from pan_scdg.jobs.output_mark import read_mark
from pan_scdg.jobs.requests import Partial
from pan_scdg.notices import Notices
from pan_scdg.own_files import MARK
from pan_scdg.pan.detections import read_decisions
from pan_scdg.pan.inputs import detect_task, input_digest
from pan_scdg.pan.runs import read_run
from pan_scdg.pan.source_retrieval import read_qrels, read_queries
from pan_scdg.pan.text_alignment import read_pairs
from pan_scdg.pan.truth import find_truth, read_truth, truth_files
from pan_scdg.profile import Calibration

OF_SCORES = ("auroc", "average_precision")
"""Measures of pairs that need no decision."""
UNDECIDED = "none decided: the scores are of another model than the threshold, so there are no measures of decisions"


def evaluate(directory: Path, output: Path, truth: Path | None) -> tuple[dict[str, float], str]:
    """Figures by name, and the report to print. A result of a part of the input is held against that part's truth.

    Args:
        directory: the input the results were made from.
        output: the output directory of ``run``.
        truth: qrels file, or folder of truth XML; None: looked for in ``directory``.

    Raises:
        UserError: results or truth are missing or malformed.
    """
    if detect_task(directory, "auto") == "pairs":
        return evaluate_pairs(directory, output, truth)
    return evaluate_retrieval(directory, output, truth)


def evaluate_pairs(directory: Path, output: Path, truth: Path | None) -> tuple[dict[str, float], str]:
    """Pair decisions by scikit-learn's metrics, detections by plagdet."""
    found = truth or find_truth(directory)
    if found is None:
        raise UserError("there is no truth beside the pairs", "give its folder with --truth", directory)
    partial = _partial(output)
    pairs = read_pairs(directory, Notices()).pairs
    pairs = pairs if partial is None else pairs[: partial.done]
    passages = read_truth(found, pairs)
    decisions = {(d["suspicious"], d["source"]): d for d in read_decisions(_one_of(output, DECISIONS))}
    keys = [(p.suspicious.doc_id, p.source.doc_id) for p in pairs]
    if missing := [k for k in keys if k not in decisions]:
        raise UserError(
            f"there is no decision for {missing[0][0]} and {missing[0][1]}", "run again on this input", output
        )
    scores = _scores([decisions[k] for k in keys])
    labels, decided = [bool(passages[k]) for k in keys], [decisions[k]["decision"] is True for k in keys]
    undecided = any(decisions[k]["decision"] is None for k in keys)
    figures = pair_metrics(labels, scores, decided)
    if undecided:
        figures = {name: figures[name] for name in OF_SCORES}
    intervals = bootstrap(labels, scores, decided, list(figures), groups=[k[0] for k in keys])
    rows = [_row(name, value, intervals.get(name)) for name, value in figures.items()]
    head = (
        f"{len(keys)} pairs, {sum(labels)} positive, {UNDECIDED if undecided else f'{sum(decided)} decided positive'}"
    )
    if not undecided:
        spans = _plagdet(found, output, None if partial is None else set(keys))
        figures |= spans
        rows += [_row(name, value, None) for name, value in spans.items()]
    notes = [partial and partial.warning(), _calibration_note(directory, output)]
    return figures, "\n".join([head, *filter(None, notes), table(rows, ["measure", "value"])])


def _plagdet(truth: Path, output: Path, part: Container[tuple[str, str | None]] | None) -> dict[str, float]:
    """Return the measures of the detections, of a part of the pairs where there is one."""
    true = read_files(sorted(chain.from_iterable(truth_files(truth).values())), "plagiarism")
    if part is not None:
        true = [span for span in true if (span.suspicious, span.source) in part]
    spans = plagdet(true, read_spans(output, "detected-plagiarism"))
    return {**spans._asdict(), "plagdet_score": spans.score}


def evaluate_retrieval(directory: Path, output: Path, truth: Path | None) -> tuple[dict[str, float], str]:
    """A run against qrels, by ir_measures and by TIRA's own rule."""
    found = truth or directory / "qrels.txt"
    if not found.is_file():
        raise UserError("there are no qrels", "give the file with --truth", found)
    qrels, partial = read_qrels(found), _partial(output)
    if partial is not None:
        done = {query.query_id for query in read_queries(directory, Notices())[: partial.done]}
        qrels = {query_id: judged for query_id, judged in qrels.items() if query_id in done}
    run = read_run(_one_of(output, "run.txt", "run.txt.gz"))
    figures = retrieval_metrics(qrels, run)
    intervals = bootstrap_queries(per_query(qrels, run))
    rows = [_row(name, value, intervals.get(name)) for name, value in figures.items()]
    head = [f"{len(qrels)} queries with judgments", *([] if partial is None else [partial.warning()])]
    return figures, "\n".join([*head, table(rows, ["measure", "value"])])


def _partial(output: Path) -> Partial | None:
    """What part of the input these are results of; None: of all."""
    mark = read_mark(output) if output.is_dir() else None  # a run can be given by itself
    partial = None if mark is None else mark.partial
    return None if partial is None else Partial(partial.done, partial.of, partial.what)


def _one_of(output: Path, *names: str) -> Path:
    """The result file of an output directory that has one of these names, or the file that was given itself."""
    for path in (output, *(output / name for name in names)):
        if path.is_file():
            return path
    raise UserError(f"there is no {' or '.join(names)}", "finish `run` on this output directory first", output)


def _scores(decisions: Sequence[Mapping[str, Any]]) -> list[float]:
    """The scores; a pair that was not scored (null) stands below all others."""
    scores = [d.get("score") for d in decisions]
    below_all = min((s for s in scores if s is not None), default=0.0) - 1.0
    return [float(below_all if s is None else s) for s in scores]


def _row(name: str, value: float, interval: tuple[float, float] | None) -> Mapping[str, object]:
    return {"measure": name, "value": value if interval is None else Estimate(value, *interval)}


def _calibration_note(directory: Path, output: Path) -> str | None:
    mark = read_mark(output)
    stored: JsonValue = None if mark is None else mark.job
    for name in ("profile", "pairs", "calibration"):
        stored = stored.get(name) if isinstance(stored, dict) else None
    if not stored:
        return None
    try:  # as JSON, in which arrays stand for tuples
        calibration = Calibration.model_validate_json(json.dumps(stored))
    except ValidationError as e:
        raise UserError("the calibration in it is damaged", "run again with --overwrite", output / MARK) from e
    return calibration_note(calibration, input_digest(directory, "pairs"))
