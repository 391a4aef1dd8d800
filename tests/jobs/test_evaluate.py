"""Results are evaluated alone, side by side with paired intervals, as JSON, and in plots; folders are made by hand."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score, roc_auc_score

from pan_scdg.errors import UserError
from pan_scdg.evaluation.pairs import LabelledPairs, bootstrap_pair_differences, compute_pair_metrics
from pan_scdg.evaluation.resampling import draw_resamples
from pan_scdg.evaluation.retrieval import bootstrap_query_differences
from pan_scdg.jobs.compare import evaluate_all
from pan_scdg.jobs.evaluate import evaluate, plot_pairs
from pan_scdg.jobs.options import choose_recorded
from pan_scdg.notices import Notices
from pan_scdg.pan.inputs import hash_input
from pan_scdg.pan.source_retrieval import read_queries
from pan_scdg.pan.text_alignment import format_detection, name_detection, read_pairs, read_text
from pan_scdg.pan.truth import find_truth, read_truth
from pan_scdg.records import Query
from pan_scdg.results.files import format_line
from pan_scdg.results.folder import FORMAT
from pan_scdg.results.job import JobFile
from tests.passages import make_passage

EXAMPLES = Path(__file__).parents[2] / "examples"
PAIRS, RETRIEVAL = EXAMPLES / "pan25-pairs" / "test", EXAMPLES / "pan26-retrieval"
CORPUS = read_pairs(PAIRS, Notices())
TRUTH = read_truth(find_truth(PAIRS) or PAIRS, CORPUS.pairs)
LABELS = [bool(TRUTH[pair.suspicious.doc_id, pair.source.doc_id]) for pair in CORPUS.pairs]
TOTAL = len(LABELS)


def draw_scores(seed: int) -> list[float]:
    return [label + float(noise) for label, noise in zip(LABELS, np.random.default_rng(seed).normal(0, 0.6, TOTAL))]


def write_result(folder: Path, scores: Sequence[float], threshold: float | None = 0.5, **job: Any) -> Path:
    """Write decisions and detections of the first pairs of the example, as `run` does."""
    folder.mkdir()
    lines = []
    for pair, score in zip(CORPUS.pairs, scores, strict=False):
        decision = None if threshold is None else score >= threshold
        whole = make_passage(0, len(read_text(pair.suspicious)), 0, len(read_text(pair.source)))
        (folder / name_detection(pair)).write_bytes(format_detection(pair, [whole] if decision else []))
        ids = {"suspicious": pair.suspicious.doc_id, "source": pair.source.doc_id}
        lines.append(format_line({**ids, "score": score, "threshold": threshold, "decision": decision}))
    (folder / "decisions.jsonl").write_text("".join(lines), encoding="utf-8")
    (folder / "job.json").write_text(json.dumps({"format": FORMAT, "files": {}, "task": "pairs", "profile": {}, **job}))
    return folder


def test_one_result_as_a_table_and_as_json(tmp_path: Path) -> None:
    scores = draw_scores(1)
    decisions = [score >= 0.5 for score in scores]
    alone = evaluate_all(PAIRS, {"out": write_result(tmp_path / "out", scores)}, None)
    head, *table = alone.report().splitlines()
    assert head == f"{TOTAL} pairs, {sum(LABELS)} positive, {sum(decisions)} decided positive"
    (record,) = alone.to_json()["results"]
    assert (record["name"], record["output"], record["notes"]) == ("out", str(tmp_path / "out"), [head])
    f1 = record["measures"]["f1"]
    assert f1["value"] == pytest.approx(f1_score(LABELS, decisions))
    assert record["measures"]["auroc"]["value"] == pytest.approx(roc_auc_score(LABELS, scores), abs=1e-6)
    assert f"{f1['value']:.4f} [{f1['low']:.4f}, {f1['high']:.4f}]" in "\n".join(table)
    counts = [len(TRUTH[pair.suspicious.doc_id, pair.source.doc_id]) for pair in CORPUS.pairs]
    found = sum(count for count, decision in zip(counts, decisions) if decision)
    assert record["measures"]["macro_recall"]["value"] == pytest.approx(found / sum(counts)), (
        "a hit covers all passages"
    )
    assert alone.to_json()["differences"] == []


def test_a_part_of_the_input_is_compared_with_its_truth(tmp_path: Path) -> None:
    whole = write_result(tmp_path / "whole", draw_scores(1))
    perfect = [float(label) for label in LABELS[:5]]
    part = write_result(tmp_path / "part", perfect, limit=5, partial="partial: the first 5 of 24 pairs")
    result = evaluate(PAIRS, part, None)
    assert result.notes == (f"5 pairs, {sum(perfect):.0f} positive, {sum(perfect):.0f} decided positive",
                            "warning: partial: the first 5 of 24 pairs")  # fmt: skip
    assert (result.figures["f1"], result.figures["macro_recall"]) == (1.0, 1.0)
    compared = evaluate_all(PAIRS, {"whole": whole, "part": part}, None)
    reason = f"{part}: has other pairs than whole. Evaluate results of the same pairs."
    assert compared.failures == {"part": reason}
    lines = (whole / "decisions.jsonl").read_text().splitlines(keepends=True)
    (whole / "decisions.jsonl").write_text("".join(lines[1:]))
    with pytest.raises(UserError, match="no decision for suspicious-.*. Run again"):
        evaluate(PAIRS, whole, None)


def test_scores_without_a_threshold_have_measures_of_scores_only(tmp_path: Path) -> None:
    result = evaluate(PAIRS, write_result(tmp_path / "out", draw_scores(1), None), None)
    assert list(result.figures) == ["auroc", "average_precision"]
    assert "no decisions" in result.notes[0]


def test_detections_of_another_system_need_no_decisions(tmp_path: Path) -> None:
    scores = draw_scores(1)
    output = write_result(tmp_path / "out", scores)
    expected = evaluate(PAIRS, output, None).figures
    (output / "decisions.jsonl").unlink()
    (output / "job.json").unlink()
    figures = evaluate(PAIRS, output, None).figures
    assert figures == {name: expected[name] for name in expected if name not in ("auroc", "average_precision")}


def test_a_threshold_of_these_very_pairs_is_told(tmp_path: Path) -> None:
    calibration = {"digest": hash_input(PAIRS, "pairs"), "pairs": TOTAL, "positives": 12}
    told = write_result(tmp_path / "a", draw_scores(1), profile={"decide": {"calibration": calibration}})
    assert "the same 24 pairs (12 positive, 12 negative)" in evaluate(PAIRS, told, None).notes[1]
    other = {**calibration, "digest": "ab"}
    untold = write_result(tmp_path / "b", draw_scores(1), profile={"decide": {"calibration": other}})
    assert len(evaluate(PAIRS, untold, None).notes) == 1


def test_a_sample_is_compared_with_its_truth(tmp_path: Path) -> None:
    drawn = choose_recorded(CORPUS.pairs, JobFile(task="pairs", sample=(5, 3)), "pairs")
    output = write_result(tmp_path / "drawn", draw_scores(1), sample=[5, 3])
    lines = (output / "decisions.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line, pair in zip(lines, CORPUS.pairs, strict=True) if pair in drawn]
    (output / "decisions.jsonl").write_text("".join(kept))
    positive = sum(label for label, pair in zip(LABELS, CORPUS.pairs, strict=True) if pair in drawn)
    assert evaluate(PAIRS, output, None).notes[0].startswith(f"5 pairs, {positive} positive")


def test_plots_are_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    outputs = [write_result(tmp_path / name, draw_scores(seed)) for seed, name in enumerate(("$a", "_b"))]
    files = plot_pairs(tmp_path / "plots", {output.name: evaluate(PAIRS, output, None) for output in outputs})
    assert sorted(p.name for p in files) == ["precision-recall.png", "roc.png", "scores-1.png", "scores-2.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in files)
    (tmp_path / "xml").mkdir()
    for path in outputs[0].glob("*.xml"):
        shutil.copy(path, tmp_path / "xml")
    with pytest.raises(UserError, match="x has no scores to draw. Leave it out, or --plots"):
        plot_pairs(tmp_path / "none", {"x": evaluate(PAIRS, tmp_path / "xml", None)})


def test_missing_truth_and_results(tmp_path: Path) -> None:
    shutil.copytree(PAIRS, tmp_path / "in", ignore=shutil.ignore_patterns("truth"))
    with pytest.raises(UserError, match="no truth was found in the input folder. Give its folder with --truth"):
        evaluate(tmp_path / "in", tmp_path, None)
    with pytest.raises(UserError, match="none: does not exist. Correct the path of the output"):
        evaluate(PAIRS, tmp_path / "none", None)


def test_runs_side_by_side(tmp_path: Path) -> None:
    qrels = [line.split() for line in (RETRIEVAL / "qrels.txt").read_text().splitlines()]
    runs = []
    for number in (1, 2):
        runs.append(tmp_path / f"run-{number}.txt")
        kept = [(q, d) for i, (q, _, d, _) in enumerate(qrels) if number == 1 or i % 2]
        runs[-1].write_text("".join(f"{q} Q0 {d} {i} {1000 - i} x\n" for i, (q, d) in enumerate(kept, 1)))
    compared = evaluate_all(RETRIEVAL, {"half": runs[1], "whole": runs[0]}, None)
    assert list(compared.results) == ["whole", "half"]
    difference = next(d for d in compared.differences if d.measure == "R@10")
    assert difference.estimate.low > 0, "half of the documents are missing"
    assert "queries with judgements" in compared.report()
    with pytest.raises(UserError, match="plots are made for document pairs only"):
        plot_pairs(tmp_path / "plots", compared.results)
    runs[0].write_text("another Q0 d 1 1 x\n")
    with pytest.raises(UserError, match=r"no query of the qrels \(.*\) is in the run \('another', \.\.\.\)"):
        evaluate(RETRIEVAL, runs[0], None)
    with pytest.raises(UserError, match="the qrels are missing"):
        evaluate(RETRIEVAL, runs[0], tmp_path / "none")


def test_a_run_of_some_queries_is_compared_with_their_qrels(tmp_path: Path) -> None:
    queries = [json.loads(line)["qid"] for line in (RETRIEVAL / "queries.jsonl").read_text().splitlines()]
    relevant = [line.split() for line in (RETRIEVAL / "qrels.txt").read_text().splitlines()]
    lines = [
        f"{q} Q0 {d} {i} {99 - i} x\n" for i, (q, _, d, g) in enumerate(relevant, 1) if q == queries[0] and g != "0"
    ]
    (tmp_path / "run.txt").write_text("".join(lines))
    (tmp_path / "job.json").write_text(json.dumps({"format": FORMAT, "files": {}, "task": "retrieval", "limit": 1}))
    result = evaluate(RETRIEVAL, tmp_path, None)
    assert result.notes[0].startswith("1 query with judgements")
    assert result.figures["R@1000"] == 1.0


def test_queries_that_a_run_lacks_are_counted(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('\ufeff{"docno": "d", "text": "a"}\n', encoding="utf-8")
    (tmp_path / "queries.jsonl").write_text('\ufeff{"qid": "1", "query": "a"}\n', encoding="utf-8")
    (tmp_path / "qrels.txt").write_text("1 0 d 1\n2 0 d 1\n3 0 d 1\n")
    (tmp_path / "run.txt").write_text("1 Q0 d 1 1000 t\n")
    result = evaluate(tmp_path, tmp_path / "run.txt", None)
    assert result.notes[1] == "warning: 2 of 3 queries with judgements are missing from the run and count as 0"
    assert result.figures["nDCG@10 (linear)"] == pytest.approx(1 / 3)
    assert read_queries(tmp_path, Notices()) == [Query("1", "a")]


RUN = "q1 Q0 d1 1 3 t\nq1 Q0 d2 2 2 t\nq2 Q0 d1 1 1 t\n"


def test_a_run_and_judgements_suffice(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("q1 0 d1 1\nq1 0 d2 3\n")
    (tmp_path / "run").write_text(RUN)
    result = evaluate(None, tmp_path / "run", tmp_path / "qrels")
    assert result.figures["nDCG@10 (linear)"] == pytest.approx((1 + 3 / np.log2(3)) / (3 + 1 / np.log2(3)))
    assert result.figures["nDCG@10 (paper, 2^grade-1)"] == pytest.approx((1 + 7 / np.log2(3)) / (7 + 1 / np.log2(3)))
    unjudged = "warning: 1 of 2 queries of the run has no judgements and counts only in nDCG@10 (linear, TIRA)"
    assert result.notes == ("1 query with judgements", f"{unjudged}, as 0: q2")
    assert result.intervals == {}, "of one query"
    (tmp_path / "job.json").write_text(json.dumps({"format": FORMAT, "files": {}, "task": "retrieval", "limit": 1}))
    (tmp_path / "run").rename(tmp_path / "run.txt")
    with pytest.raises(UserError, match="is a result of some of the queries. Give the folder of the input"):
        evaluate(None, tmp_path, tmp_path / "qrels")


def test_a_large_grade_is_named_and_costs_one_measure(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("q1 0 d1 1\nq1 0 d2 50\nq2 0 d1 60\n")
    (tmp_path / "run").write_text(RUN)
    result = evaluate(None, tmp_path / "run", tmp_path / "qrels")
    assert f"{tmp_path / 'qrels'}:2: the grade 50 is too large for a gain of 2^grade-1 (at most 20)" in result.notes[1]
    assert not any("paper" in name for name in result.figures)
    assert result.figures["nDCG@10 (linear)"] == pytest.approx(((1 + 50 / np.log2(3)) / (50 + 1 / np.log2(3)) + 1) / 2)


def test_paired_intervals_are_percentiles_of_differences_on_the_same_resamples() -> None:
    rng = np.random.default_rng(3)
    labels = [bool(x) for x in rng.integers(2, size=40)]
    keys = [(f"s{i // 2}", f"r{i}") for i in range(40)]

    def decide(noise: float) -> LabelledPairs:
        scores = [float(label + rng.normal(0, noise)) for label in labels]
        return LabelledPairs(keys, labels, scores, [s > 0.5 for s in scores], 0.5)

    first, other = decide(0.5), decide(1.5)
    differences = []
    for row in next(draw_resamples(40, 1000, 42, [key[0] for key in keys])):
        chosen = np.repeat(np.arange(40), row.astype(int))
        columns = [[np.array(column)[chosen] for column in pairs[1:4]] for pairs in (first, other)]
        before, after = (compute_pair_metrics(*three)["auroc"] for three in columns)
        differences.append(after - before)
    assert bootstrap_pair_differences(first, other)["auroc"] == pytest.approx(np.percentile(differences, [2.5, 97.5]))
    with pytest.raises(ValueError, match="same pairs"):
        bootstrap_pair_differences(first, other._replace(keys=keys[::-1]))


def test_paired_intervals_of_queries_leave_out_measures_of_other_queries() -> None:
    first = {"AP": {"a": 0.5, "b": 0.25}, "other": {"a": 1.0}}
    intervals = bootstrap_query_differences(first, {"AP": {"b": 0.5, "a": 0.75}, "other": {"b": 1.0}})
    assert intervals == {"AP": (0.25, 0.25)}
