"""``same-topic``: every row of the tables against the paper's rule written out and scikit-learn."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from studies.__main__ import main
from studies.results import read_manifest
from studies.same_topic import choose_pooled
from studies.splits import format_split, make_splits, split_news
from tests.studies.made_results import describe_gains, read_tables, write_manifest, write_result
from tests.studies.test_pairs import OVERLAP, literal_measures, literal_probabilities

OWN = {(f"s{i}", f"r{i}"): int(i % 2) for i in range(40)}
NEWS = {(f"cluster-{i:06d}-0", f"cluster-{i:06d}-1"): 0 for i in range(20)}
GAINS = ("mean", "median", "positive_gain_rate")
ROWS = {
    "BM25 pair score": ("pan25-bm25", ("score",)),
    "4-token-gram logistic": ("pan25-gram-logistic", OVERLAP),
    "Average SCDG": ("pan25-qwen3-8b", ("mean",)),
    "Positive-gain rate SCDG": ("pan25-qwen3-8b", ("positive_gain_rate",)),
    "Gain-distribution logistic": ("pan25-qwen3-8b", GAINS),
}


def draw(pairs: dict[tuple[str, str], int], profile: str, seed: int) -> dict[tuple[str, str], dict[str, float]]:
    rng = np.random.default_rng(seed)
    if profile == "pan25-qwen3-8b":
        return {pair: describe_gains(rng.normal(0.1 + 0.3 * label, 1.0, 30)) for pair, label in pairs.items()}
    columns = OVERLAP if "logistic" in profile else ("score",)
    return {p: {c: round(rng.normal(0.2 + 0.3 * label, 0.3), 2) for c in columns} for p, label in pairs.items()}


RESULTS = {
    name: (draw(OWN, name, i), draw(NEWS, name, i + 9)) for i, name in enumerate({of[0] for of in ROWS.values()})
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    own = read_manifest(write_manifest(folder / "pan25" / "manifest.jsonl", OWN))
    (folder / "pan25" / "splits").mkdir()
    for split in make_splits(own)[:2]:
        (folder / "pan25" / "splits" / f"{split.name}.csv").write_text(format_split(split, own))
    news = read_manifest(write_manifest(folder / "multinews" / "manifest.jsonl", NEWS))
    (folder / "multinews" / "split.csv").write_text(
        format_split(split_news(news, {pair.pair_id: pair.pair_id for pair in news}), news)
    )
    return folder


@pytest.fixture(scope="module")
def folders(prepared: Path) -> list[Path]:
    sides = [(name, number) for number in (1, 0) for name in dict.fromkeys(of[0] for of in ROWS.values())]
    return [write_result(prepared / f"{name}-{number}", name, RESULTS[name][number]) for name, number in sides]


@pytest.fixture(scope="module")
def report(prepared: Path, folders: list[Path]) -> Path:
    argv = ["same-topic", "--prepared", prepared, "--output", prepared / "report", *folders]
    assert main(list(map(str, argv))) == 0
    return prepared / "report"


def literal_pooled(labels: Any, scores: Any, own: Any) -> float:
    """Pooled F1, then F1 on PAN25, then accuracy, then the higher threshold, by trying everything."""
    tried = []
    for threshold in set(scores.tolist()):
        decided = scores >= threshold
        f1 = [sk.f1_score(labels[of], decided[of], zero_division=0.0) for of in (slice(None), own)]
        tried.append((round(f1[0], 12), round(f1[1], 12), round(sk.accuracy_score(labels, decided), 12), threshold))
    return max(tried)[3]


@pytest.mark.parametrize("method", ROWS)
def test_a_row_of_the_tables(prepared: Path, report: Path, method: str) -> None:
    profile, columns = ROWS[method]
    values = [of for side in RESULTS[profile] for of in side.values()]
    labels = np.array([*OWN.values(), *NEWS.values()]) == 1
    lines = (prepared / "pan25" / "splits" / "split_seed20260714.csv").read_text().splitlines()[1:]
    lines += (prepared / "multinews" / "split.csv").read_text().splitlines()[1:]
    test, own = np.array([line.endswith(",test") for line in lines]), np.arange(len(lines)) < len(OWN)
    features = np.array([[of[c] for c in columns] for of in values])
    scores = features[:, 0] if len(columns) == 1 else literal_probabilities(features, labels, ~test)
    threshold = literal_pooled(labels[~test], scores[~test], own[~test])
    expected = literal_measures(labels[test & own], scores[test & own], threshold)
    positive = int((scores[test & ~own] >= threshold).sum())

    tables = read_tables(report)
    (utility,), (proxy,), (choice,) = (
        [row for row in tables[name] if row["Method"] == method] for name in ("trade-off", "proxy-fpr", "thresholds")
    )
    assert {name: utility[name] for name in ("Prec.", "Rec.", "F1")} == pytest.approx(
        {name: expected[name] for name in ("Prec.", "Rec.", "F1")}, abs=1e-9
    )
    assert (proxy["Positive"], proxy["News pairs"]) == (positive, 4)
    assert proxy["Proxy FPR"] == utility["Pos. rate"] == positive / 4
    # Clopper and Pearson: quantiles of beta distributions
    low = stats.beta.ppf(0.025, positive, 5 - positive) if positive else 0.0
    high = stats.beta.ppf(0.975, positive + 1, 4 - positive) if positive < 4 else 1.0
    lines = [row for row in tables["comparison"] if (row["Row"], row["Measure"]) == (method, "Proxy FPR")]
    assert [lines[0]["Interval"][end] for end in ("low", "high")] == pytest.approx([low, high])
    assert choice["Threshold"] == pytest.approx(threshold, abs=1e-9)


def test_rows_and_models(report: Path) -> None:
    tables = read_tables(report)
    thresholds = {row["Method"]: row["Threshold"] for row in tables["thresholds"]}
    chosen = {row["Hyperparameter"]: (row["Paper"], float(row["Here"])) for row in tables["hyperparameters"]}
    for name, paper in (("4-token-gram", "0.264735484646511"), ("Gain-distribution", "0.4561570484401246")):
        assert chosen[f"{name} logistic: Pooled threshold"][0].startswith(paper)
        assert chosen[f"{name} logistic: Pooled threshold"][1] == thresholds[f"{name} logistic"]
    assert chosen["BM25 baseline: Decision threshold"][0] == "0.6477334899"
    assert [row["Method"] for row in tables["trade-off"]] == list(ROWS)
    assert tables["pairs"] == [
        {"Data": "PAN25", "Positive": 20, "Negative": 20, "Total": 40},
        {"Data": "News", "Positive": 0, "Negative": 20, "Total": 20},
    ]
    features = [row["Feature"] for row in tables["logistic-models"]]
    assert features == ["intercept", *OVERLAP, "intercept", *GAINS]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.booleans(), st.booleans()), min_size=2, max_size=25))
def test_the_pooled_threshold_is_the_literal_one(pairs: list[tuple[int, bool, bool]]) -> None:
    scores, labels, own = np.array([p[0] for p in pairs], float), *(np.array([p[i] for p in pairs]) for i in (1, 2))
    if labels.all() or not labels.any() or not own.any():
        return
    choice = choose_pooled(scores, labels, own)
    assert choice.threshold == literal_pooled(labels, scores, own)
    assert choice.f1 == pytest.approx(sk.f1_score(labels, scores >= choice.threshold))
    assert choice.accuracy == pytest.approx(sk.accuracy_score(labels, scores >= choice.threshold))


def test_results_that_do_not_belong_together(
    prepared: Path, folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(what: str, *results: Path) -> None:
        argv = ["same-topic", "--prepared", prepared, "--output", tmp_path / "out", *results]
        assert main(list(map(str, argv))) == 2
        assert what in capsys.readouterr().err
        assert not (tmp_path / "out").exists()

    refuse("the profile pan25-bm25 has no result on pan25", folders[0])
    refuse("is another result of the profile pan25-bm25 on multinews", folders[0], folders[0])
    stranger = write_result(tmp_path / "stranger", "pan25-bm25", {("x", "y"): {"score": 1.0}})
    refuse("has no pair of pan25/ or multinews/", stranger)
    other = write_result(tmp_path / "other", "pan25-bm25", RESULTS["pan25-bm25"][0], models={"language_model": "x"})
    refuse("the two results of the profile pan25-bm25 have different models", folders[0], other)
    job = json.loads((folders[0] / "job.json").read_text())
    (stranger / "job.json").write_text(json.dumps(job | {"task": "retrieval"}))
    refuse("contains a result of the task retrieval", stranger)
