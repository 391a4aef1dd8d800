"""``studies pairs`` and ``studies same-topic`` from the command line to the tables, with a tiny random model.

What the tables say is computed again from the score files by the paper's rule written out and scikit-learn.
"""

import csv
import json
import os
import re
import shutil
import signal
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
import pytest
import sklearn.metrics as sk
import tomlkit
from sklearn.linear_model import LogisticRegression

from pan_scdg.cli import exits, run_command
from pan_scdg.pan.detections import read_decisions
from pan_scdg.scoring import model as model_at_hand
from pan_scdg.scoring.features import FeatureStore
from tests.studies.small_corpora import feature, write_corpus

SMALL = Path(__file__).parents[1] / "profiles" / "small.toml"
GRID = {float(q): f"top_{q}" for q in (1, 2, 5, 10, 20, 30, 50)}
NS = {float(n): f"n_{n}" for n in (8, 12, 16, 24, 32, 50)}
OVERLAP = ("jaccard", "target_containment", "source_containment")
GAINS = ("mean", "median", "positive_gain_rate")
WORDS = [
    "tide",
    "noon",
    "nets",
    "empty",
    "quay",
    "salt",
    "litre",
    "dam",
    "river",
    "bed",
    "sample",
    "third",
    "gram",
    "lost",
    "water",
    "grey",
]

Cli = Callable[..., Any]


class ScoreTable(NamedTuple):
    """A file of scores, read with pandas."""

    ids: list[str]
    labels: Any
    columns: dict[str, Any]


def read_scores(path: Path) -> ScoreTable:
    found = pandas.read_json(path, lines=True, precise_float=True)
    columns = pandas.DataFrame(found["scores"].tolist())
    return ScoreTable(
        list(found["pair_id"]), found["doc_label"].to_numpy() == 1, {c: columns[c].to_numpy() for c in columns}
    )


class Outcome(NamedTuple):
    code: int
    err: str


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PAN_SCDG_STATE", raising=False)


def prose(rng: np.random.Generator, words: int) -> str:
    return " ".join(rng.choice(WORDS, words)) + "."


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty pairs, half of them of reuse and partly copied, and ten clusters of news."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(3)
    texts, truth = {}, {}
    for i in range(20):
        source, own = prose(rng, 30), prose(rng, 20)
        reused = source[: 20 * (i % 4) + 40] if i < 10 else ""
        texts |= {f"src{i:02}": source, f"susp{i:02}": f"{reused} {own}"}
        truth[f"susp{i:02}-src{i:02}"] = feature(f"src{i:02}.txt") if i < 10 else ""
    write_corpus(folder / "pan25", [(f"susp{i:02}", f"src{i:02}") for i in range(20)], texts, truth)
    (folder / "multinews").mkdir()
    clusters = [" ||||| ".join(prose(rng, 45) for _ in range(2)) for _ in range(10)]
    (folder / "multinews" / "train.src.cleaned").write_text("\n".join(clusters) + "\n")
    return folder


@pytest.fixture(scope="module")
def study(data: Path, tiny_folder: Callable[[str], Path]) -> Callable[..., int]:
    """``study("pairs", output, *more)``: the exit code."""

    def call(name: str, output: Path, *more: object, profile: Path | str = SMALL) -> int:
        where = ["--data", data, "--output", output, "--profile", profile, "--device", "cpu"]
        return run_command(["studies", name, *map(str, [*where, "--model", tiny_folder("qwen2"), *more])])

    return call


@pytest.fixture(scope="module")
def finished(study: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reports of both studies and their state; to read only, but for the state."""
    folder = tmp_path_factory.mktemp("finished")
    for name in ("pairs", "same-topic"):
        assert study(name, folder / name, "--state", folder / "state") == 0
    return folder


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """The exit code of a command line and the last lines of stderr."""

    def call(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = run_command([str(a) for a in arguments])
        return Outcome(code, capsys.readouterr().err)

    return call


def visible(folder: Path) -> dict[str, bytes]:
    names = (p for p in folder.rglob("*") if p.is_file() and not p.relative_to(folder).parts[0].startswith("."))
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in names}


def rows(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def list_parts(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"train": [], "test": []}
    for row in rows(path):
        found[row["split"]].append(row["pair_id"])
    return found


def places(table: ScoreTable, ids: Sequence[str]) -> list[int]:
    return [table.ids.index(pair) for pair in ids]


def literal_choice(labels: Any, scores_by: Mapping[float, Any]) -> tuple[float, float]:
    """F1, then accuracy, then larger parameter, then higher threshold, by trying everything."""
    tried = []
    for parameter, scores in scores_by.items():
        for threshold in set(scores.tolist()):
            decided = scores >= threshold
            quality = round(sk.f1_score(labels, decided), 12), round(sk.accuracy_score(labels, decided), 12)
            tried.append((*quality, parameter, threshold))
    return max(tried)[2:]


def literal_measures(labels: Any, scores: Any, threshold: float) -> dict[str, float]:
    decided = scores >= threshold
    (tn, fp), _ = sk.confusion_matrix(labels, decided, labels=[False, True])
    return {
        "Prec.": sk.precision_score(labels, decided, zero_division=np.nan),
        "Rec.": sk.recall_score(labels, decided),
        "F1": sk.f1_score(labels, decided),
        "FPR": fp / (fp + tn),
        "BAcc.": sk.balanced_accuracy_score(labels, decided),
        "MCC": sk.matthews_corrcoef(labels, decided),
        "AUROC": sk.roc_auc_score(labels, scores),
        "AP": sk.average_precision_score(labels, scores),
    }


def literal_probabilities(features: Any, labels: Any, training: Any) -> Any:
    """The paper's logistic model by scikit-learn, standardised on the training pairs."""
    mean, deviation = features[training].mean(axis=0), features[training].std(axis=0)
    scaled = (features - mean) / np.where(deviation == 0, 1, deviation)
    model = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    return model.fit(scaled[training], labels[training]).predict_proba(scaled)[:, 1]


def literal_median(table: ScoreTable, columns: Mapping[float, str], splits: Sequence[Path]) -> dict[str, float]:
    found = []
    for split in splits:
        parts = list_parts(split)
        training, test = places(table, parts["train"]), places(table, parts["test"])
        scores_by = {p: table.columns[c] for p, c in columns.items()}
        if not columns:  # cut_text on each split
            features = np.column_stack([table.columns[c] for c in OVERLAP])
            scores_by = {0.0: literal_probabilities(features, table.labels, training)}
        parameter, threshold = literal_choice(table.labels[training], {p: s[training] for p, s in scores_by.items()})
        found.append(literal_measures(table.labels[test], scores_by[parameter][test], threshold))
    values = {name: [f[name] for f in found if not np.isnan(f[name])] for name in found[0]}
    return {name: statistics.median(of) if of else float("nan") for name, of in values.items()}


@pytest.mark.parametrize(
    ("method", "file", "columns"),
    [
        ("SCDG & tiny, Average", "scdg", {0.0: "mean"}),
        ("SCDG & tiny, Top-q", "scdg", GRID),
        ("PAN12-style n-gram overlap", "pan25-char-ngrams", NS),
        ("Max 4-token-gram containment", "pan25-containment", {0.0: "score"}),
        ("4-token-gram logistic", "pan25-gram-logistic", {}),
        ("BM25 pair score", "pan25-bm25", {0.0: "score"}),
    ],
)
def test_a_row_of_the_paper_s_table(finished: Path, method: str, file: str, columns: dict[float, str]) -> None:
    report = finished / "pairs"
    table = read_scores(report / "scores" / "pan25" / f"{file}.jsonl.gz")
    splits = sorted((report / "prepared" / "pan25" / "splits").glob("*.csv"))
    assert len(splits) == 20
    (row,) = [r for r in rows(report / "tables" / "medians.csv") if r["Method"] == method]
    expected = literal_median(table, columns, splits)
    assert list(row) == ["group", "Method", *expected]
    for name, value in expected.items():
        assert float(row[name] or "nan") == pytest.approx(value, abs=1e-9, nan_ok=True), name


def test_the_tokenizer_that_counted_is_told_where_it_is_not_the_papers(finished: Path) -> None:
    counted = json.loads((finished / "pairs" / "prepared" / "index.json").read_text(encoding="utf-8"))
    model = counted["parts"]["pan25"]["manifest"]["tokenizer"]["model"]
    page = (finished / "pairs" / "index.md").read_text(encoding="utf-8")
    assert ("was counted with the tokenizer of tiny: that of Qwen3-8B-Base" in page) == (model == "tiny")


def test_both_readings_of_the_n_gram_row_are_told(finished: Path) -> None:
    page = (finished / "pairs" / "index.md").read_text(encoding="utf-8")
    assert "its appendix describes the containment of token 4-grams only" in page


def test_the_scores_are_those_of_run_and_it_shares_them(
    finished: Path, data: Path, tiny_folder: Callable[[str], Path], forwards: list[int], told: Cli, tmp_path: Path
) -> None:
    where = ("--input", data / "pan25", "--output", tmp_path / "run", "--profile", SMALL, "--device", "cpu")
    done = told("run", *where, "--model", tiny_folder("qwen2"), "--state", finished / "state")
    assert done.code == 0, done.err
    assert forwards == []
    decided = [record["score"] for record in read_decisions(tmp_path / "run" / "decisions.jsonl")]
    table = read_scores(finished / "pairs" / "scores" / "pan25" / "scdg.jsonl.gz")
    assert [round(score, 6) for score in table.columns["top_10"].tolist()] == decided  # the profile has q = 10
    assert int(table.labels.sum()) == 10


def test_a_second_report_has_the_same_bytes_and_computes_nothing(
    finished: Path, study: Cli, forwards: list[int], tmp_path: Path
) -> None:
    for name in ("pairs", "same-topic"):
        assert study(name, tmp_path / name, "--state", finished / "state") == 0
        assert visible(tmp_path / name) == visible(finished / name)
        assert study(name, tmp_path / name, "--state", finished / "state") == 0
        assert study(name, tmp_path / name, "--state", finished / "state", "--overwrite") == 0
        assert visible(tmp_path / name) == visible(finished / name)
    assert forwards == []


def test_pairs_of_pan25_are_scored_for_one_of_the_two_studies(
    finished: Path, study: Cli, forwards: list[int], tmp_path: Path
) -> None:
    assert study("pairs", tmp_path / "pairs", "--state", tmp_path / "a", "--no-default-baselines") == 0
    pan25 = len(forwards)
    forwards.clear()
    assert study("same-topic", tmp_path / "after", "--state", tmp_path / "a") == 0
    news = len(forwards)
    forwards.clear()
    assert study("same-topic", tmp_path / "alone") == 0
    assert min(pan25, news) >= 10
    assert pan25 + news == len(forwards)
    assert visible(tmp_path / "after") == visible(tmp_path / "alone") == visible(finished / "same-topic")


def literal_pooled(labels: Any, scores: Any, own: Any) -> float:
    tried = []
    for threshold in set(scores.tolist()):
        decided = scores >= threshold
        f1 = sk.f1_score(labels, decided), sk.f1_score(labels[own], decided[own], zero_division=0)
        tried.append((*np.round(f1, 12), round(sk.accuracy_score(labels, decided), 12), threshold))
    return float(max(tried)[-1])


@pytest.mark.parametrize(
    ("method", "file", "columns"),
    [
        ("BM25 pair score", "pan25-bm25", ("score",)),
        ("Max 4-token-gram containment", "pan25-containment", ("score",)),
        ("4-token-gram logistic", "pan25-gram-logistic", OVERLAP),
        ("Average SCDG", "scdg", ("mean",)),
        ("Positive-gain rate SCDG", "scdg", ("positive_gain_rate",)),
        ("Gain-distribution logistic", "scdg", GAINS),
    ],
)
def test_a_row_of_the_same_topic_tables(finished: Path, method: str, file: str, columns: tuple[str, ...]) -> None:
    report = finished / "same-topic"
    pan25, news = (read_scores(report / "scores" / name / f"{file}.jsonl.gz") for name in ("pan25", "multinews"))
    own = list_parts(report / "prepared" / "pan25" / "splits" / "split_seed20260714.csv")
    topic = list_parts(report / "prepared" / "multinews" / "multinews_split.csv")
    features = np.concatenate([np.column_stack([t.columns[c] for c in columns]) for t in (pan25, news)])
    labels = np.concatenate([pan25.labels, news.labels])
    training = np.array([*places(pan25, own["train"]), *(len(pan25.ids) + p for p in places(news, topic["train"]))])
    scores = features[:, 0] if len(columns) == 1 else literal_probabilities(features, labels, training)
    threshold = literal_pooled(labels[training], scores[training], np.arange(len(training)) < len(own["train"]))

    test = places(pan25, own["test"])
    expected = literal_measures(pan25.labels[test], scores[test], threshold)
    tested = [len(pan25.ids) + p for p in places(news, topic["test"])]
    positive = int((scores[tested] >= threshold).sum())
    tables = {name: rows(report / "tables" / f"{name}.csv") for name in ("trade-off", "proxy-fpr")}
    (utility,), (proxy,) = ([r for r in of if r["Method"] == method] for of in tables.values())
    for name in ("Prec.", "Rec.", "F1"):
        assert float(utility[name] or "nan") == pytest.approx(expected[name], abs=1e-9, nan_ok=True)
    assert (int(proxy["Positive"]), int(proxy["News pairs"])) == (positive, 2)
    assert float(proxy["Proxy FPR"]) == float(utility["Pos. rate"]) == positive / 2


def changed(folder: Path, table: str, **fields: object) -> Path:
    """The small profile with other fields."""
    document: Any = tomlkit.parse(SMALL.read_text(encoding="utf-8"))
    document[table].update(fields)
    path = folder / "changed.toml"
    path.write_text(tomlkit.dumps(document), encoding="utf-8")
    return path


@pytest.fixture
def terminated() -> Iterator[None]:
    """SIGTERM does what it does in the program."""
    before = signal.signal(signal.SIGTERM, exits._stop)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.long
@pytest.mark.usefixtures("terminated")
def test_a_study_that_is_stopped_goes_on_from_its_scores(
    finished: Path, study: Cli, forwards: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    output, saved = tmp_path / "out", []
    profile = changed(tmp_path, "model", pack_tokens=256)  # so that there are several batches
    assert study("pairs", tmp_path / "undisturbed", profile=profile) == 0
    whole = len(forwards)
    forwards.clear()
    real = FeatureStore.save

    def save(*arguments: Any) -> Any:
        found = real(*arguments)
        saved.append(found)
        if len(saved) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(FeatureStore, "save", save)
        assert study("pairs", output, profile=profile) == 3
    assert visible(output) == {}
    before = len(forwards)
    assert 0 < before < whole
    forwards.clear()
    assert study("pairs", output, profile=profile) == 0
    assert 0 < len(forwards) < whole
    assert visible(output) == visible(tmp_path / "undisturbed")


@pytest.mark.long
@pytest.mark.parametrize("name", ["pairs", "same-topic"])
def test_a_report_of_shards_has_the_bytes_of_one_run(
    name: str, finished: Path, study: Cli, forwards: list[int], told: Cli, tmp_path: Path
) -> None:
    folders = [tmp_path / "1", tmp_path / "2"]
    for number, folder in enumerate(folders, 1):
        assert study(name, folder, "--shard", f"{number}/2") == 0
        assert list(visible(folder)) == ["scores.sqlite"]
    forwards.clear()
    assert study(name, tmp_path / "out", "--scores", *folders) == 0
    assert forwards == []
    assert visible(tmp_path / "out") == visible(finished / name)
    assert told("merge", "--missing", folders[0]).code == 1
    refused = told("merge", "--input", tmp_path / "in", "--output", tmp_path / "merged", *folders)
    assert f"1: holds a shard of studies {name}; give it to `studies {name} --scores`" in refused.err


def test_shards_of_something_else_are_refused(study: Cli, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    half, whole = tmp_path / "half", tmp_path / "whole"
    assert study("pairs", half, "--shard", "1/2") == 0
    assert study("pairs", whole, "--shard", "1/1") == 0

    def refuse(says: str, *more: object, of: str = "pairs", profile: Path = SMALL) -> None:
        capsys.readouterr()
        assert study(of, tmp_path / "out", *more, profile=profile) == 2
        assert says in capsys.readouterr().err
        assert not (tmp_path / "out").exists()

    refuse("1 of 2 shards is missing (2)", "--scores", half)
    refuse("the shards were made for another task", "--scores", whole, of="same-topic")
    refuse("another on_error", "--scores", whole, "--on-error", "leave-out")
    refuse("another profile", "--scores", whole, profile=changed(tmp_path, "pairs", q=5.0))
    refuse("list score folders after --scores", whole)
    refuse("--gpu needs --plan", "--gpu", "H200")
    refuse("--plan, --shard and --scores cannot be combined", "--plan", "--shard", "1/2")
    refuse("overlaps --scores 1", "--scores", tmp_path / "out")


def test_the_engine_is_part_of_a_study(study: Cli, finished: Path, tmp_path: Path) -> None:
    more = ("--engine", "reference", "--no-default-baselines")
    assert study("pairs", tmp_path / "out", *more) == 0
    packed, reference = (
        read_scores(folder / "scores" / "pan25" / "scdg.jsonl.gz").columns["mean"]
        for folder in (finished / "pairs", tmp_path / "out")
    )
    np.testing.assert_allclose(reference, packed, atol=1e-4)
    assert '"engine": "reference"' in (tmp_path / "out" / "manifest.json").read_text()


def test_a_plan_needs_no_weights_and_counts_what_the_study_computes(
    data: Path,
    tiny_folder: Callable[[str], Path],
    told: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    engines: list[Any] = []

    def keep(*arguments: Any, real: Any = model_at_hand.make_engine) -> Any:
        engines.append(real(*arguments))
        return engines[-1]

    monkeypatch.setattr(model_at_hand, "make_engine", keep)
    weightless = tmp_path / "tiny"
    shutil.copytree(tiny_folder("qwen2"), weightless, ignore=shutil.ignore_patterns("*.safetensors"))
    where = ("--data", data, "--profile", SMALL, "--state", tmp_path / "state")
    plan = ("--output", tmp_path / "out", "--model", weightless, "--plan", "--gpu", "H200")
    assert run_command(["studies", "same-topic", *map(str, [*where, *plan])]) == 0
    shown = capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny"]
    assert shown.count("time on H200") == 2
    planned = [int(number.replace(",", "")) for number in re.findall(r"tokens, with reuse +([\d,]+)", shown)]
    done = told("studies", "same-topic", *where, "--output", tmp_path / "out", "--model", tiny_folder("qwen2"))
    assert done.code == 0, done.err
    assert sum(engine.tokens for engine in engines) == sum(planned) > 0


def test_a_missing_endpoint_is_named_before_anything_is_scored_and_a_plan_needs_none(
    data: Path, tiny_folder: Callable[[str], Path], told: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    where = ("--data", data, "--output", tmp_path / "out", "--profile", SMALL, "--model", tiny_folder("qwen2"))
    baselines = ("--baseline", "pan25-containment", "--baseline", "pan25-plagbench-zero")
    assert (done := told("studies", "same-topic", *where, *baselines, "--plan")).code == 0, done.err
    done = told("studies", "same-topic", *where, *baselines)
    assert done.code == 2
    assert done.err.splitlines()[-1].startswith("error: OPENAI_BASE_URL is not set; give the address")
    assert "pan25-plagbench-zero: " in done.err
    assert "pan25-containment: " not in done.err


def test_no_report_names_a_place_or_holds_text(finished: Path, data: Path) -> None:
    for name in ("pairs", "same-topic"):
        files = visible(finished / name)
        plain = b"".join(content for path, content in files.items() if not path.endswith(".gz")).decode()
        assert str(data) not in plain
        assert str(finished) not in plain
        assert (data / "pan25" / "src" / "src00.txt").read_text()[:40] not in plain
        assert "index.md" in files
        assert "made here, not the paper's" in plain
    assert "its tolerance is 1e-12, for the paper's 1e-09" in plain


BAD: dict[str, tuple[tuple[object, ...], str]] = {
    "a baseline as the profile": (
        ("--profile", "pan25-bm25"),
        "profile pan25-bm25 is a baseline, which has no gains",
    ),
    "no table of pairs": (("--profile", "pan26-bm25-full"), "has no [model] table"),
    "retrieval alone": (("--profile", "pan26-qwen3-0.6b"), "has no [pairs] table"),
    "SCDG as a baseline": (("--baseline", "scdg-mini"), "profile scdg-mini is not a baseline"),
    "vectors that nobody takes": (("--vectors", "."), "--vectors is given, and no baseline takes vectors"),
    "vectors that are missing": (("--baseline", "pan25-llama-3.3-70b-vectors"), "give the folder of their .npy"),
    "nothing to be given": (("--given", "splits=x"), "unknown kind 'splits'"),
    "given for nothing": (("--given", "pan26-folds=x"), "'pan26-folds' is for pan26, which is not among pan25"),
    "a gone manifest": (("--given", "pan25-manifest=gone.jsonl"), "gone.jsonl: the file does not exist"),
    "two sources of data": (("--examples",), "give either --data or --examples"),
    "data of something else": (("--data", Path(__file__).parent), "pan25: "),
    "no such data": (("--data", "gone"), "gone: the directory does not exist; correct --data"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("command", ["pairs", "same-topic"])
def test_what_cannot_be_studied_is_one_line(
    data: Path, tiny_folder: Callable[[str], Path], told: Cli, tmp_path: Path, name: str, command: str
) -> None:
    more, what = BAD[name]
    output = tmp_path / "out"
    usual = ("--data", data, "--output", output, "--profile", SMALL, "--device", "cpu")
    done = told("studies", command, *usual, "--model", tiny_folder("qwen2"), *more)
    assert done.code == 2
    assert what in done.err.splitlines()[-1]
    assert "Traceback" not in done.err
    assert not output.exists()


def test_pairs_over_the_limit_are_all_named_or_scored_in_segments_and_counted(
    study: Cli, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile, output = changed(tmp_path, "pairs", limit=130, over_long="error"), tmp_path / "out"
    assert study("pairs", output, profile=profile) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if "the profile's limit is 130" in line]
    assert 1 < len(told) < 20
    assert not output.exists()
    more = ("--over-long", "segments", "--no-default-baselines")
    assert study("pairs", output, *more, profile=profile) == 0
    assert f"{len(told)} of the 20 pairs of pan25 have more than 130 tokens" in (output / "index.md").read_text()


def test_a_folder_with_something_else_is_left_alone(
    finished: Path, study: Cli, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert study("pairs", tmp_path, "--state", finished / "state", "--overwrite") == 2
    assert "it holds 'notes.txt'" in capsys.readouterr().err
    assert visible(tmp_path) == {"notes.txt": b"mine"}
    assert study("same-topic", finished / "pairs", "--state", finished / "state") == 2
    assert "holds the result of another input, profile or setting" in capsys.readouterr().err


def test_position_rules_are_rows_beside_each_other(study: Cli, finished: Path, tmp_path: Path, told: Cli) -> None:
    document = tomlkit.parse(SMALL.read_text(encoding="utf-8"))
    document["model"].update({"positions": "extended", "position_factor": 4.0})
    profile = tmp_path / "small.toml"
    profile.write_text(tomlkit.dumps(document), encoding="utf-8")
    where, more = tmp_path / "out", ("--positions", "extended", "--positions", "yarn", "--no-default-baselines")
    assert study("pairs", where, *more, "--state", finished / "state", profile=profile) == 0
    methods = [row["Method"] for row in rows(where / "tables" / "medians.csv")]
    both = [(rule, kind) for rule in ("extended", "yarn") for kind in ("Average", "Top-q")]
    assert methods == [f"SCDG & tiny ({rule}), {kind}" for rule, kind in both]
    published, extended, yarn = (
        read_scores(path / "scores" / "pan25" / f"{name}.jsonl.gz").columns["mean"]
        for path, name in ((finished / "pairs", "scdg"), (where, "scdg"), (where, "scdg-yarn"))
    )
    assert extended.tolist() == published.tolist(), "no pair exceeds the published positions"
    assert np.abs(yarn - published).min() > 0
    assert "extended, 4 times those of the checkpoint" in (where / "index.md").read_text()


def test_a_position_rule_needs_its_factor(study: Cli, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert study("pairs", tmp_path / "out", "--positions", "yarn") == 2
    assert capsys.readouterr().err.count("--positions yarn needs a position_factor") == 1


@pytest.mark.parametrize(
    ("name", "limit", "of"), [("pairs", 140, "20 pairs of pan25"), ("same-topic", 215, "10 pairs of multinews")]
)
def test_pairs_that_cannot_be_scored_stop_a_study_or_are_in_no_row(
    name: str, limit: int, of: str, data: Path, tiny_folder: Callable[[str], Path], told: Cli, tmp_path: Path
) -> None:
    document = tomlkit.parse(SMALL.read_text(encoding="utf-8"))
    document["pairs"].update({"limit": limit, "over_long": "error"})
    profile, out = tmp_path / "short.toml", tmp_path / "out"
    profile.write_text(tomlkit.dumps(document), encoding="utf-8")
    where = ("--data", data, "--profile", profile, "--device", "cpu", "--model", tiny_folder("qwen2"), "--output", out)
    stopped = told("studies", name, *where)
    assert stopped.code == 2
    lost = stopped.err.count(f"the profile's limit is {limit}; ")
    assert lost > 1
    done = told("studies", name, *where, "--on-error", "leave-out")
    assert done.code == 0, done.err
    assert f"{lost} of the {of} cannot be scored and are in no row" in (out / "index.md").read_text()
    assert f"warning: {lost} pairs cannot be scored" in done.err
    for scores in (out / "scores" / of.split()[-1]).iterdir():
        assert len(read_scores(scores).ids) == int(of.split()[0]) - lost
