"""``studies cascade`` from the command line to the report, with two tiny random models on a tiny corpus."""

import csv
import gzip
import json
from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import ir_measures
import pytest
import tomlkit
from ir_measures import nDCG

from pan_scdg.cli import run_command
from pan_scdg.errors import Interrupted
from pan_scdg.pan.runs import read_run
from pan_scdg.pan.source_retrieval import read_qrels
from studies.data.queries import make_folds
from studies.retrieval import cascade, heads
from studies.retrieval.heads import choose_head, compute_correlation, compute_overlap
from pan_scdg.scoring.features import FeatureStore
from tests.conftest import build_checkpoint

pytestmark = pytest.mark.usefixtures("small_encoder")
ROOT = Path(__file__).parents[2]
EXAMPLES, SMALL = ROOT / "examples" / "pan26-retrieval", ROOT / "tests" / "profiles" / "small.toml"
SCORED = 12
Study = Callable[..., int]


@pytest.fixture(autouse=True)
def own_state(monkeypatch: pytest.MonkeyPatch, models: Path) -> None:
    monkeypatch.delenv("PAN_SCDG_STATE", raising=False)
    monkeypatch.setenv("PAN_SCDG_MODEL_CACHE", str(models))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model cache with a large and a small model."""
    folder = tmp_path_factory.mktemp("models")
    build_checkpoint("qwen2", folder / "tiny")
    build_checkpoint("llama", folder / "smaller", seed=5)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine short queries, of which eight are judged, and sixteen short documents."""
    folder = tmp_path_factory.mktemp("data") / "pan26"
    folder.mkdir()
    with gzip.open(EXAMPLES / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        documents = [json.loads(line) for line, _ in zip(lines, range(16))]
    cut = [{**d, "default_text": d["default_text"][:260]} for d in documents]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(d) + "\n" for d in cut), encoding="utf-8")
    lines = (EXAMPLES / "queries.jsonl").read_text(encoding="utf-8").splitlines()[:9]
    queries = [{**q, "query": q["query"][20:200]} for q in map(json.loads, lines)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(q) + "\n" for q in queries), encoding="utf-8")
    names = [d.get("docno") or d.get("docid") or d["doc_id"] for d in cut]
    judged = [(q["qid"], names[(3 * i + j) % 16], 3 - j) for i, q in enumerate(queries[:8]) for j in range(3)]
    (folder / "qrels.txt").write_text("".join(f"{q} 0 {d} {g}\n" for q, d, g in judged), encoding="utf-8")
    return folder.parent


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small profile with a cascade and BM25 alone."""
    document: Any = tomlkit.parse(SMALL.read_text(encoding="utf-8"))
    small = {"name": "smaller", "dtype": "float32"}
    document["retrieval"] |= {"routes": ["bm25-sentence"], "fusion": "none", "depth": 16, "scored": SCORED}
    document["retrieval"]["cascade"] = {"head": 3, "model": small}
    path = tmp_path_factory.mktemp("profile") / "cascade.toml"
    path.write_text(tomlkit.dumps(document), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def study(data: Path, profile: Path) -> Study:
    """``study(output, *arguments)``: the exit code of the command on the CPU."""

    def call(output: Path, *arguments: object, profile: Path = profile) -> int:
        where = ["--data", data, "--output", output, "--profile", profile, "--device", "cpu"]
        return run_command([str(word) for word in ["studies", "cascade", *where, *arguments]])

    return call


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, study: Study, models: Path) -> Path:
    """A report."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAN_SCDG_MODEL_CACHE", str(models))
        patch.setattr(heads, "ENOUGH", 0.0)  # the smallest head is chosen, so that the report has a cascade
        assert study(folder / "report", "--engine", "reference", "--state", folder / "state") == 0
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "tables" / f"{name}.csv").read_text(encoding="utf-8").splitlines()))


def orders(folder: Path) -> dict[str, dict[str, list[str]]]:
    """The order of each query by row."""
    names = [row["Row"] for row in rows(folder, "agreement")]
    runs = sorted((folder / "runs").iterdir())
    assert len(names) == len(runs)
    return {
        name: {query: [doc for doc, _ in run] for query, run in read_run(path).items()}
        for name, path in zip(names, runs, strict=True)
    }


def halves(data: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The judgements of the queries of the choice, and of the others."""
    qrels = read_qrels(data / "pan26" / "qrels.txt")
    folds = {of.query_id: of.fold for of in make_folds(sorted(qrels), count=2)}
    return {q: of for q, of in qrels.items() if folds[q]}, {q: of for q, of in qrels.items() if not folds[q]}


def measure(qrels: Mapping[str, Any], order: Mapping[str, list[str]]) -> float:
    measured = nDCG(gains={1: 1, 2: 3, 3: 7}) @ 10
    run = {query: {doc: -float(place) for place, doc in enumerate(docs)} for query, docs in order.items()}
    return float(ir_measures.calc_aggregate([measured], qrels, {q: run[q] for q in qrels})[measured])


def test_agreement_is_what_the_runs_say(made: Path, data: Path) -> None:
    found, (choice, reported) = orders(made / "report"), halves(data)
    assert len(choice) == len(reported) == 4
    full = found["Full run"]
    for row in rows(made / "report", "agreement"):
        order = found[row["Row"]]
        ndcg = measure(reported, order)
        assert float(row["nDCG@10"]) == pytest.approx(ndcg)
        assert float(row["Difference from the full run"]) == pytest.approx(ndcg - measure(reported, full))
        overlaps = [len(set(order[q][:10]) & set(full[q][:10])) / len(full[q][:10]) for q in reported]
        assert float(row["Overlap of the top 10"]) == pytest.approx(sum(overlaps) / len(overlaps))
        assert float(row["nDCG@10 low"]) <= ndcg <= float(row["nDCG@10 high"])
    assert float(rows(made / "report", "agreement")[-1]["Kendall's tau"]) == pytest.approx(1)
    by_size = {row["Head"]: float(row["nDCG@10"]) for row in rows(made / "report", "heads")}
    assert list(by_size) == ["1", "2", "3", "5", "7", "10", "all"]
    assert by_size["1"] == pytest.approx(measure(choice, found["Cascade, head = 1"]))
    assert by_size["all"] == pytest.approx(measure(choice, full))


def test_a_simulated_cascade_is_the_run_of_one(
    made: Path, study: Study, data: Path, profile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cascade, "choose_head", lambda *_: 3)
    assert study(tmp_path / "report", "--engine", "reference", "--state", made / "state") == 0
    words = ["run", "--input", data / "pan26", "--output", tmp_path / "run", "--profile", profile, "--device", "cpu"]
    assert run_command([str(word) for word in [*words, "--engine", "reference", "--no-metadata"]]) == 0
    run = {query: [doc for doc, _ in of] for query, of in read_run(tmp_path / "run" / "run.txt.gz").items()}
    assert orders(tmp_path / "report")["Cascade, head = 3"] == run


def test_tokens_are_those_of_the_inputs(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Path, forwards: list[int]
) -> None:
    """Of all queries, and with the reference engine, the tokens of a full run are what goes through both models."""
    monkeypatch.setattr(cascade, "choose_head", lambda *_: 5)
    assert study(tmp_path / "report", "--engine", "reference") == 0
    full, part = rows(tmp_path / "report", "cost")
    assert 0 < float(part["Tokens of the large model"]) < float(full["Tokens of the large model"]) < sum(forwards)
    ratio = float(full["Tokens of the large model"]) / float(part["Tokens of the large model"])
    assert float(part["Times fewer"]) == pytest.approx(ratio, rel=1e-3)
    assert 1 < ratio < SCORED / 5 + 0.5
    assert float(part["Operations"]) > 1 / ratio, "the small model is not free"


@pytest.mark.long
def test_a_study_that_was_stopped_goes_on_and_repeats_nothing(
    made: Path, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forwards: list[int]
) -> None:
    real, calls = FeatureStore.save, list[int]()

    def stopped(*arguments: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 20:
            raise Interrupted
        return real(*arguments, **more)

    monkeypatch.setattr(heads, "ENOUGH", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(FeatureStore, "save", stopped)
        assert study(tmp_path / "report", "--engine", "reference") == 3
    assert study(tmp_path / "report", "--engine", "reference") == 0
    assert contents(tmp_path / "report") == contents(made / "report")
    forwards.clear()
    assert study(tmp_path / "again", "--engine", "reference", "--state", made / "state") == 0
    assert forwards == []


@pytest.mark.long
def test_a_report_of_shards_has_the_bytes_of_one_run(
    made: Path, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forwards: list[int]
) -> None:
    monkeypatch.setattr(heads, "ENOUGH", 0.0)
    folders = [tmp_path / "1", tmp_path / "2"]
    for number, folder in enumerate(folders, 1):
        assert study(folder, "--engine", "reference", "--shard", f"{number}/2") == 0
    forwards.clear()
    assert study(tmp_path / "out", "--scores", *folders) == 0
    assert forwards == []
    assert contents(tmp_path / "out") == contents(made / "report")


def test_a_plan_has_both_models_and_is_json(study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert study(tmp_path / "out", "--plan", "--gpu", "H200", "--json") == 0
    plans = json.loads(capsys.readouterr().out)["plans"]
    assert [plan["task"] for plan in plans] == ["studies cascade, small model", "studies cascade, large model"]
    assert [plan["pairs"] for plan in plans] == [9 * SCORED] * 2
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_studied_is_refused(
    study: Study, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for profile, more, says in (
        ({"profile": SMALL}, (), "profile small has no table [retrieval.cascade]"),
        ({}, ("--given", f"pan26-folds={data}"), "'pan26-folds' is not used by this study"),
        ({}, ("--json",), "--json needs --plan"),
    ):
        capsys.readouterr()
        assert study(tmp_path / "out", *more, **profile) == 2
        assert says in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


def test_without_a_good_head_there_is_no_cascade(
    made: Path, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "ENOUGH", 9.0)
    assert study(tmp_path / "report", "--engine", "reference", "--state", made / "state") == 0
    assert [row["Row"] for row in rows(tmp_path / "report", "agreement")] == [
        "First stage",
        "Small model alone",
        "Full run",
    ]
    assert "No head keeps" in (tmp_path / "report" / "index.md").read_text(encoding="utf-8")


def test_the_smallest_head_that_keeps_enough_is_chosen() -> None:
    assert choose_head({1: 0.5, 2: 0.79, 5: 0.7925, 10: 0.7}, 0.8) == 5
    assert choose_head({1: 0.5}, 0.8) is None


def test_overlap_and_correlation_are_those_of_their_definitions() -> None:
    order, full = list("cabdefghijkl"), list("abcdefghijlk")
    assert compute_overlap(order, full) == 1
    assert compute_overlap(list("lkab"), list("abcd")) == 0.5
    concordant = [order.index(a) < order.index(b) for a, b in combinations(full, 2)]
    assert compute_correlation(order, full) == pytest.approx((2 * sum(concordant) - 66) / 66)
