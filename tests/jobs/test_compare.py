"""Outputs of several systems as one table: sorted, with tests of all differences; what is no output is said."""

import csv
import json
import re
import shutil
import zipfile
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import permutation_test

from pan_scdg.cli import run_command
from pan_scdg.errors import UserError
from pan_scdg.evaluation.pairs import compute_pair_metrics
from pan_scdg.evaluation.plagdet import compute_plagdet, measure_sums
from pan_scdg.jobs.compare import evaluate_all
from pan_scdg.pan.text_alignment import format_detection, name_detection
from pan_scdg.pan.truth import TAG, find_truth, read_feature_files, read_features
from tests.jobs.test_evaluate import CORPUS, LABELS, PAIRS, RETRIEVAL, TOTAL, TRUTH, draw_scores, write_result


def write_xml(folder: Path, share: float = 1.0, name: str = "detected-plagiarism") -> Path:
    """Write the detections of another system: the first share of the true passages of each pair."""
    folder.mkdir()
    for pair in CORPUS.pairs:
        passages = TRUTH[pair.suspicious.doc_id, pair.source.doc_id]
        kept = passages[: round(share * len(passages))]
        (folder / name_detection(pair)).write_bytes(format_detection(pair, kept, name))
    return folder


@pytest.fixture
def participants(tmp_path: Path) -> dict[str, Path]:
    """Four outputs: a result, one that lacks a file, one with a broken file, and one without detections."""
    outputs = {"ours": write_result(tmp_path / "ours", draw_scores(1)), "gaps": write_xml(tmp_path / "gaps", 0.8)}
    outputs |= {"broken": write_xml(tmp_path / "broken"), "silent": write_xml(tmp_path / "silent", 0)}
    first = name_detection(CORPUS.pairs[LABELS.index(True)])
    (outputs["gaps"] / first).unlink()
    (outputs["broken"] / first).write_text("<document")
    return outputs


def test_four_participants_are_one_table(
    participants: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = [f"{name}={path}" for name, path in participants.items()]
    command = ["evaluate", "--input", str(PAIRS), *named, "--csv", str(tmp_path / "csv")]
    assert run_command(command) == 2
    printed = capsys.readouterr()
    rows = [line.split() for line in printed.out.splitlines()]
    ranked = [row[:2] for row in rows if row[:1] in (["1"], ["2"], ["3"])]
    assert ranked == [["1", "gaps"], ["2", "ours"], ["3", "silent"]]
    broken = participants["broken"] / name_detection(CORPUS.pairs[LABELS.index(True)])
    assert any(row[:2] == ["-", "broken"] and f"{broken}:1:" in row for row in rows)
    assert printed.err.count(f"error: {broken}:1:") == 1
    missing = name_detection(CORPUS.pairs[LABELS.index(True)])
    assert f"gaps: warning: 1 of 24 XML files is missing and counts as negative: {missing}\n" in printed.out
    assert "silent: warning: all pairs are negative: no XML file has a feature named detected-plagiarism" in printed.out
    table, differences, values = (
        list(csv.DictReader((tmp_path / "csv" / f"{name}.csv").open())) for name in ("table", "differences", "values")
    )
    assert [row["result"] for row in table] == ["gaps", "ours", "silent", "broken"]
    assert table[3]["not_evaluated"].startswith(f"{broken}:1:")
    for row in table[:3]:
        low, value, high = (float(row[f"macro_plagdet{end}"]) for end in ("_low", "", "_high"))
        assert low <= value <= high
    assert {(row["result"], row["other"]) for row in differences} == {*combinations(["gaps", "ours", "silent"], 2)}
    assert len(values) == 3 * TOTAL
    assert sum(row["decision"] == "1" for row in values if row["result"] == "gaps") == sum(LABELS) - 1
    true = read_feature_files(sorted(find_truth(PAIRS).glob("*.xml")), TAG)
    detections = read_features(participants["ours"], "detected-plagiarism")
    for row in (row for row in values if row["result"] == "ours"):
        names = (row["suspicious"], row["source"])
        own = ([span for span in side if (span.suspicious, span.source) == names] for side in (true, detections))
        assert float(row["plagdet_score"]) == pytest.approx(compute_plagdet(*own).score)


def test_json_has_the_same(participants: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    outputs = [word for path in participants.values() for word in ("--output", str(path))]
    assert run_command(["evaluate", "--input", str(PAIRS), *outputs, "--json"]) == 2
    record = json.loads(capsys.readouterr().out)
    assert record["sorted_by"] == "plagdet_score"
    names = [result["name"] for result in record["results"]]
    assert names == [str(participants[name]) for name in ("gaps", "ours", "silent")]
    assert [result["name"] for result in record["not_evaluated"]] == [str(participants["broken"])]
    assert {d["measure"] for d in record["differences"]} >= {"f1", "macro_plagdet", "micro_recall", "plagdet_score"}


def test_p_values_are_those_of_scipy_and_statsmodels(tmp_path: Path) -> None:
    multipletests = pytest.importorskip("statsmodels.stats.multitest").multipletests
    outputs = {name: write_result(tmp_path / name, draw_scores(seed)) for seed, name in enumerate("abc")}
    differences = evaluate_all(PAIRS, outputs, None).differences
    f1 = {(d.result, d.other): d for d in differences if d.measure == "f1"}
    decisions = {n: np.array([score >= 0.5 for score in draw_scores(seed)]) for seed, n in enumerate("abc")}
    documents = [pair.suspicious.doc_id for pair in CORPUS.pairs]
    assert len(set(documents)) == TOTAL, "each pair is exchanged alone"

    def compute_difference(one: np.ndarray, other: np.ndarray) -> float:
        return compute_pair_metrics(LABELS, one, one)["f1"] - compute_pair_metrics(LABELS, other, other)["f1"]

    for names, found in f1.items():
        samples = [decisions[name].astype(float) for name in names]
        test = permutation_test(samples, compute_difference, permutation_type="samples", n_resamples=1999, rng=1)
        assert found.p == pytest.approx(test.pvalue, abs=0.1)
    holm = multipletests([d.p for d in f1.values()], method="holm")[1]
    assert [d.p_holm for d in f1.values()] == pytest.approx(holm)
    scored = [d for d in differences if d.measure == "auroc"]
    assert all(np.isnan(d.p) and np.isnan(d.p_holm) for d in scored)


def test_an_interval_of_plagdet_is_of_resampled_documents(tmp_path: Path) -> None:
    (result,) = evaluate_all(PAIRS, {"x": write_xml(tmp_path / "x", 0.7)}, None).results.values()
    assert result.passages is not None
    low, high = result.intervals["macro_recall"]
    shares = np.stack(list(result.passages.values()))[:, :2].T
    drawn = np.random.default_rng(0).integers(TOTAL, size=(4000, TOTAL))
    values = shares[0][drawn].sum(axis=1) / shares[1][drawn].sum(axis=1)
    assert (low, high) == pytest.approx(np.percentile(values, [2.5, 97.5]), abs=0.02)


def test_a_result_does_not_differ_from_itself(tmp_path: Path) -> None:
    output = write_result(tmp_path / "a", draw_scores(1))
    compared = evaluate_all(PAIRS, {"a": output, "b": output}, None)
    assert {d.estimate for d in compared.differences} == {(0.0, 0.0, 0.0)}
    assert {d.p for d in compared.differences if not np.isnan(d.p)} == {1.0}


def test_all_but_one_file_missing_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = write_xml(tmp_path / "x")
    for path in sorted(output.iterdir())[1:]:
        path.unlink()
    assert run_command(["evaluate", "--input", str(PAIRS), "--output", str(output)]) == 0
    named = ", ".join(sorted(name_detection(pair) for pair in CORPUS.pairs)[1:4])
    assert (
        f"warning: 23 of 24 XML files are missing and count as negative: {named} and 20 more" in capsys.readouterr().out
    )


def empty(folder: Path) -> None:
    folder.mkdir()


def only_folders(folder: Path) -> None:
    for name in ("alpha", "beta"):
        folder.mkdir(exist_ok=True)
        write_xml(folder / name)


def scores_only(folder: Path) -> None:
    shutil.copytree(write_result(folder.parent / "whole", draw_scores(1), None), folder)
    for path in folder.iterdir():
        path.unlink()
    (folder / "scores.jsonl").write_text("")


def packed(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("s1-r1.xml", "<document/>")


def packed_inside(folder: Path) -> None:
    folder.mkdir()
    packed(folder / "run.zip")


def other_files(folder: Path) -> None:
    folder.mkdir()
    (folder / "readme.md").touch()


def upper_case(folder: Path) -> None:
    folder.mkdir()
    (folder / "a.XML").write_text("<document/>")


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda _: None, "does not exist. Correct the path"),
        (empty, "is an empty folder"),
        (only_folders, "contains only folders: alpha, beta. Give one of them, such as .*/alpha"),
        (scores_only, "contains scores only, and no decisions"),
        (packed, "is a zip file. Unpack it"),
        (packed_inside, "contains the zip file run.zip and no XML. Unpack it"),
        (other_files, "contains neither decisions.jsonl nor XML files"),
        (upper_case, r"contains a\.XML, which evaluators do not read. Rename it to end in .xml"),
    ],
)
def test_what_is_no_output_is_said(tmp_path: Path, write: Callable[[Path], None], message: str) -> None:
    write(tmp_path / "output")
    good = write_xml(tmp_path / "good")
    compared = evaluate_all(PAIRS, {"good": good, "other": tmp_path / "output"}, None)
    assert list(compared.results) == ["good"]
    assert re.search(message, compared.failures["other"])


def test_pairs_that_the_input_does_not_list_are_counted_and_named(tmp_path: Path) -> None:
    shutil.copytree(PAIRS, tmp_path / "half")
    lines = (PAIRS / "pairs").read_text().splitlines(keepends=True)
    (tmp_path / "half" / "pairs").write_text("".join(f"susp/{line}" for line in lines[:12]))
    left_out = [TRUTH[pair.suspicious.doc_id, pair.source.doc_id] for pair in CORPUS.pairs[12:]]
    own = write_xml(tmp_path / "own")
    for pair in CORPUS.pairs[12:]:
        (own / name_detection(pair)).unlink()
    outputs = {"own": own, "all": write_xml(tmp_path / "all")}
    compared = evaluate_all(tmp_path / "half", outputs, None)
    own_notes, all_notes = (compared.results[name].notes for name in outputs)
    count, first = sum(map(len, left_out)), next(p for p, own in zip(CORPUS.pairs[12:], left_out) if own)
    unlisted = f"of pairs that the input does not list, first {first.suspicious.doc_id} and {first.source.doc_id}"
    assert own_notes[1:] == (f"warning: left out: {count} true passages {unlisted}",)
    assert all_notes[1:] == (*own_notes[1:], f"warning: false: {count} detections {unlisted}")
    figures = {name: result.figures for name, result in compared.results.items()}
    assert (figures["own"]["macro_recall"], figures["own"]["macro_precision"]) == (1, 1)
    assert figures["all"]["macro_precision"] == pytest.approx(1 - count / sum(map(len, TRUTH.values())))
    (plagdet,) = (d.estimate for d in compared.differences if d.measure == "plagdet_score")
    assert plagdet.low <= plagdet.value <= plagdet.high


def test_features_with_the_name_of_the_truth_do_not_count(tmp_path: Path) -> None:
    (result,) = evaluate_all(PAIRS, {"x": write_xml(tmp_path / "x", name="plagiarism")}, None).results.values()
    assert "features named plagiarism do not count: detections are named detected-plagiarism" in result.notes[-1]
    assert (result.figures["recall"], result.figures["macro_recall"]) == (0, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [([], "give a result: NAME=PATH"), (["x"], "write NAME=PATH"), (["a=x", "a=y"], "two results are named 'a'")],
)
def test_names_of_results(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["evaluate", "--input", str(PAIRS), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_runs_have_values_of_each_query(tmp_path: Path) -> None:
    qrels = [line.split() for line in (RETRIEVAL / "qrels.txt").read_text().splitlines()]
    for name, step in (("whole", 1), ("half", 2)):
        lines = [f"{q} Q0 {d} {i} {1000 - i} x\n" for i, (q, _, d, _) in enumerate(qrels, 1) if i % step == 0]
        (tmp_path / name).write_text("".join(lines))
    compared = evaluate_all(RETRIEVAL, {name: tmp_path / name for name in ("half", "whole")}, None)
    compared.write_csv(tmp_path / "csv")
    rows = list(csv.DictReader((tmp_path / "csv" / "values.csv").open()))
    judged = {query for query, *_ in qrels}
    assert {row["query"] for row in rows} == judged
    mean = np.mean([float(row["R@10"]) for row in rows if row["result"] == "half"])
    assert compared.results["half"].figures["R@10"] == pytest.approx(mean)
    one = next(d for d in compared.differences if d.measure == "R@10")
    half, whole = ({r["query"]: float(r["R@10"]) for r in rows if r["result"] == name} for name in ("half", "whole"))
    change = [whole[query] - half[query] for query in judged]
    test = permutation_test((np.array(change),), np.mean, permutation_type="samples", rng=1)
    assert one.p == pytest.approx(test.pvalue, abs=0.01)


def test_a_folder_with_two_runs_is_refused(tmp_path: Path) -> None:
    for name in ("run.txt", "run.txt.gz"):
        (tmp_path / name).write_text("q01 Q0 d 1 1 x\n")
    with pytest.raises(UserError, match=r"contains run.txt and run.txt.gz. Keep one of them"):
        evaluate_all(RETRIEVAL, {"x": tmp_path}, None)


def test_sums_over_documents_give_plagdet(tmp_path: Path) -> None:
    (result,) = evaluate_all(PAIRS, {"x": write_xml(tmp_path / "x", 0.6)}, None).results.values()
    values = measure_sums(sum(result.passages.values()))
    names = (*compute_plagdet([], [])._fields, "plagdet_score")
    assert {n: float(values[n]) for n in names} == pytest.approx({n: result.figures[n] for n in names})
