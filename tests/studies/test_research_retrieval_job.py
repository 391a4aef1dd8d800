"""``studies retrieval`` from the command line to the report, with a tiny random model on a tiny corpus."""

import csv
import gzip
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pytest
import tomlkit
from ir_measures import AP, RR, R, nDCG

from pan_scdg.cli import run_command
from pan_scdg.errors import Interrupted
from pan_scdg.evaluation.retrieval import compute_retrieval_metrics
from pan_scdg.pan.runs import read_run
from pan_scdg.pan.source_retrieval import read_qrels
from studies.retrieval import job as retrieval_job
from pan_scdg.scdg.decision import scale_min_max
from pan_scdg.scdg.sequences import AlignmentError
from pan_scdg.scoring import candidates as candidate_scoring
from pan_scdg.scoring.features import FeatureStore

pytestmark = pytest.mark.usefixtures("small_encoder")
ROOT = Path(__file__).parents[2]
EXAMPLES, SMALL = ROOT / "examples" / "pan26-retrieval", ROOT / "tests" / "profiles" / "small.toml"
MEASURES = [
    nDCG(gains={1: 1, 2: 3, 3: 7}) @ 10,
    nDCG(gains={1: 1, 2: 3, 3: 7}) @ 100,
    R @ 10,
    R @ 100,
    R @ 1000,
    RR,
    AP,
]
COLUMNS = ["nDCG@10", "nDCG@100", "R@10", "R@100", "R@1000", "MRR", "MAP"]
ROWS = ["BM25-full", "BM25-sentence", "Dense-full", "Dense-sentence", "Four-way CombSUM", "Three-route RRF", "DAAC"]
Study = Callable[..., int]


@pytest.fixture(autouse=True)
def own_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PAN_SCDG_STATE", raising=False)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten short queries, sixteen short documents."""
    root = tmp_path_factory.mktemp("data")
    folder = root / "pan26"
    folder.mkdir()
    with gzip.open(EXAMPLES / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        documents = [json.loads(line) for line, _ in zip(lines, range(32))][::2]
    cut = [{**d, "default_text": d["default_text"][:260]} for d in documents]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(d) + "\n" for d in cut), encoding="utf-8")
    lines = (EXAMPLES / "queries.jsonl").read_text(encoding="utf-8").splitlines()[:10]
    queries = [{**q, "query": q["query"][20:240]} for q in map(json.loads, lines)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(q) + "\n" for q in queries), encoding="utf-8")
    names = [d.get("docno") or d.get("docid") or d["doc_id"] for d in cut]
    judged = [(q["qid"], names[(3 * i + j) % 16], 3 - j) for i, q in enumerate(queries) for j in range(3)]
    (folder / "qrels.txt").write_text("".join(f"{q} 0 {d} {g}\n" for q, d, g in judged), encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """``profile(name, field=value, ...)``: the small profile with other fields in [retrieval]; None: left out."""
    folder = tmp_path_factory.mktemp("profiles")

    def write(name: str, **changes: Any) -> Path:
        document: Any = tomlkit.parse(SMALL.read_text(encoding="utf-8"))
        document["name"] = name
        for field, value in changes.items():
            if value is None:
                del document["retrieval"][field]
            else:
                document["retrieval"][field] = value
        path = folder / f"{name}.toml"
        path.write_text(tomlkit.dumps(document), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="module")
def study(data: Path, tiny_folder: Callable[[str], Path]) -> Study:
    """``study(output, *arguments)``: the exit code of the command on the CPU."""

    def call(output: Path, *arguments: object, source: Path = data, profile: Path = SMALL) -> int:
        where = ["--data", source, "--output", output, "--profile", profile, "--device", "cpu"]
        words = ["studies", "retrieval", *where, "--model", tiny_folder("qwen2"), *arguments]
        return run_command([str(word) for word in words])

    return call


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, study: Study) -> Path:
    """A report with all default rows, in ``report``, and the state beside it."""
    folder = tmp_path_factory.mktemp("made")
    assert study(folder / "report", "--state", folder / "state") == 0
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "tables" / f"{name}.csv").read_text(encoding="utf-8").splitlines()))


def orders(path: Path) -> dict[str, list[str]]:
    return {query: [doc for doc, _ in run] for query, run in read_run(path).items()}


def numbered(folder: Path) -> list[Path]:
    return sorted((folder / "runs").iterdir())


def test_every_row_is_what_official_measures_say_of_its_run(made: Path, data: Path) -> None:
    report, qrels = made / "report", read_qrels(data / "pan26" / "qrels.txt")
    table = rows(report, "rows")
    assert [row["Row"] for row in table if "SCDG" not in row["Row"]] == ROWS
    assert [row["Row"] for row in table][5:7] == ["Three-route RRF", "Three-route RRF + SCDG"]
    assert len(numbered(report)) == len(table)
    for row, path in zip(table, numbered(report), strict=True):
        run = read_run(path)
        found = ir_measures.calc_aggregate(MEASURES, qrels, {query: dict(of) for query, of in run.items()})
        assert [float(row[c]) for c in COLUMNS] == pytest.approx([found[m] for m in MEASURES])
        ours = compute_retrieval_metrics(qrels, run)
        assert [float(row[c]) for c in COLUMNS[:5]] == pytest.approx([ours[c] for c in COLUMNS[:5]])


def test_reranked_rows_have_the_documents_of_the_row_above(made: Path) -> None:
    table, runs = rows(made / "report", "rows"), numbered(made / "report")
    for i, row in enumerate(table):
        if "SCDG" in row["Row"]:
            before, after = orders(runs[i - 1]), orders(runs[i])
            assert {q: sorted(of) for q, of in before.items()} == {q: sorted(of) for q, of in after.items()}
            assert before.keys() == after.keys()


def test_the_page_names_what_was_chosen_and_what_is_not_the_papers(made: Path) -> None:
    page = (made / "report" / "index.md").read_text(encoding="utf-8")
    best = rows(made / "report", "grid")[0]
    assert f"N = {best['N']}, weight {float(best['Weight']):g}" in page
    for text in ("108 configurations", "8 development queries", "Made here", "first 6 candidates"):
        assert text in page
    assert len(rows(made / "report", "grid")) == 108
    folds = rows(made / "report", "folds")
    assert [row["group"] for row in folds] == ["development"] * 2 + ["hold-out"] * 2
    assert folds[1]["nDCG@10"] == pytest.approx(best["nDCG@10"])


def test_the_manifest_names_no_place_and_no_time(made: Path, data: Path) -> None:
    text = (made / "report" / "manifest.json").read_text(encoding="utf-8")
    manifest = json.loads(text)
    assert (manifest["study"], manifest["search_on"]) == ("retrieval", "Three-route RRF")
    assert [row["name"] for row in manifest["rows"]] == ROWS
    assert str(made) not in text
    assert str(data) not in text


def test_again_is_the_same_bytes_without_a_forward_pass(
    made: Path, study: Study, forwards: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert study(tmp_path / "again", "--state", made / "state") == 0
    assert forwards == []
    assert contents(tmp_path / "again") == contents(made / "report")
    capsys.readouterr()
    assert study(tmp_path / "again", "--state", made / "state") == 0
    assert "already complete" in capsys.readouterr().err


@pytest.mark.long
def test_a_study_that_was_stopped_goes_on(
    made: Path, study: Study, forwards: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = FeatureStore.save, []

    def stopped(*arguments: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 6:
            raise Interrupted
        return real(*arguments, **more)

    monkeypatch.setattr(FeatureStore, "save", stopped)
    assert study(tmp_path / "report") == 3
    assert [path.name for path in (tmp_path / "report").iterdir()] == [".pan_scdg"]
    monkeypatch.undo()
    before = len(forwards)
    assert before
    assert study(tmp_path / "report") == 0
    assert contents(tmp_path / "report") == contents(made / "report")


@pytest.mark.long
def test_a_report_of_shards_has_the_bytes_of_one_run(
    made: Path, study: Study, forwards: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / "1", tmp_path / "2"]
    for number, folder in enumerate(folders, 1):
        assert study(folder, "--shard", f"{number}/2") == 0
    assert forwards
    forwards.clear()
    monkeypatch.setattr(retrieval_job, "search_all", None)  # the shards have the first stages
    assert study(tmp_path / "out", "--scores", *folders) == 0
    assert forwards == []
    assert contents(tmp_path / "out") == contents(made / "report")


def test_a_query_that_cannot_be_scored_stops_the_study_or_is_in_no_row(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, queries = candidate_scoring.encode_query, list[str]()

    def refuse(tokenizer: Any, text: str) -> Any:
        queries.append(text)
        if text == queries[0]:
            raise AlignmentError("empty target: the query has no tokens")
        return real(tokenizer, text)

    monkeypatch.setattr(candidate_scoring, "encode_query", refuse)
    assert study(tmp_path / "out") == 2
    assert "empty target" in capsys.readouterr().err
    assert study(tmp_path / "out", "--on-error", "leave-out") == 0
    assert "warning: 1 queries cannot be scored" in capsys.readouterr().err
    page = (tmp_path / "out" / "index.md").read_text()
    assert "1 of the 10 queries cannot be scored and are in no row" in page
    assert "9 judged queries of 9" in page


@pytest.fixture(scope="module")
def coarse(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run from elsewhere: twelve documents a query, with scores of its own."""
    documents = [json.loads(line) for line in (data / "pan26" / "corpus.jsonl").read_text().splitlines()]
    names = [d.get("docno") or d.get("docid") or d["doc_id"] for d in documents]
    rng, path = np.random.default_rng(1), tmp_path_factory.mktemp("coarse") / "run.txt"
    lines = []
    for query in map(json.loads, (data / "pan26" / "queries.jsonl").read_text().splitlines()):
        scores = np.sort(rng.gamma(2.0, size=12))[::-1]
        for rank, (name, score) in enumerate(zip(rng.permutation(names)[:12], scores), 1):
            lines.append(f"{query['qid']} Q0 {name} {rank} {score:.6f} theirs\n")
    path.write_text("".join(lines))
    return path


def test_reranked_rows_are_what_run_writes_for_the_same_candidates(
    data: Path,
    coarse: Path,
    study: Study,
    profile: Callable[..., Path],
    forwards: list[int],
    tiny_folder: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    """The paper's configuration and the profile's own, and `run` finds every gain in the study's state."""
    own = profile("own", aggregation="share", w=8, weight=0.4, scored=None, depth=12)
    state = ("--state", tmp_path / "state")
    alone = ("--no-default-rows", "--run", f"theirs={coarse}", "--rerank", "theirs")
    assert study(tmp_path / "report", *state, *alone, profile=own) == 0
    table, runs = [row["Row"] for row in rows(tmp_path / "report", "rows")], numbered(tmp_path / "report")
    assert table[2:] == ["theirs + SCDG, paper's configuration", "theirs + SCDG as the profile has it"]
    forwards.clear()
    papers = profile("papers", q=2.0, weight=0.75, scored=None, depth=12)
    for chosen, path in ((papers, runs[2]), (own, runs[3])):
        output = tmp_path / chosen.stem
        where = ["--input", data / "pan26", "--output", output, "--profile", chosen, "--device", "cpu", *state]
        words = ["run", *where, "--model", tiny_folder("qwen2"), "--candidates", coarse, "--no-metadata"]
        assert run_command([str(word) for word in words]) == 0
        assert orders(output / "run.txt.gz") == orders(path)
    assert forwards == []


def test_a_plan_counts_given_candidates_exactly(
    coarse: Path,
    study: Study,
    tiny_folder: Callable[[str], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The encoder, which searches nothing, need not be here."""
    monkeypatch.setattr("studies.retrieval.job.find_encoder", None)
    weightless = tmp_path / "tiny"
    shutil.copytree(tiny_folder("qwen2"), weightless, ignore=shutil.ignore_patterns("*.safetensors"))
    plan = ("--plan", "--gpu", "H200", "--model", weightless)
    given = ("--no-default-rows", "--run", f"theirs={coarse}")
    capsys.readouterr()
    assert study(tmp_path / "out", *plan, *given, "--rerank", "theirs") == 0
    shown = capsys.readouterr().out
    assert re.search(r"^pairs +60$", shown, re.M), "six candidates of ten queries"
    assert "(counted exactly)" in shown
    assert study(tmp_path / "out", *plan) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^pairs +120$", shown, re.M), "RRF and DAAC"
    assert "candidates are not known yet" in shown
    assert study(tmp_path / "out", *plan, *given) == 2
    assert "no row is reranked" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_what_run_has_scored_is_not_scored_again(
    data: Path,
    study: Study,
    forwards: list[int],
    tiny_folder: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    """DAAC is the profile's own first stage; of RRF only the candidates that DAAC has not are scored."""
    state = ("--state", tmp_path / "state")
    where = ["--input", data / "pan26", "--output", tmp_path / "out", "--profile", SMALL, "--device", "cpu", *state]
    words = ["run", *where, "--model", tiny_folder("qwen2"), "--no-metadata"]
    assert run_command([str(word) for word in words]) == 0
    ran = len(forwards)
    assert study(tmp_path / "report", *state) == 0
    assert 0 < len(forwards) - ran < ran / 2
    names = [row["Row"] for row in rows(tmp_path / "report", "rows")]
    papers = numbered(tmp_path / "report")[names.index("DAAC + SCDG as the profile has it")]
    assert orders(tmp_path / "out" / "run.txt.gz") == orders(papers)


def literal(
    run: Mapping[str, Sequence[tuple[str, float]]], gains: Mapping[tuple[str, str], float], weight: float
) -> dict[str, list[str]]:
    found = {}
    for query, of in run.items():
        documents = [doc for doc, _ in of]
        coarse, gain = (
            scale_min_max([score for _, score in of]),
            scale_min_max([gains[query, doc] for doc in documents]),
        )
        final = dict(zip(documents, (1 - weight) * coarse + weight * gain))
        found[query] = sorted(documents, key=lambda doc: (-final[doc], doc))
    return found


def test_the_chosen_configuration_is_applied_as_the_formula_says(
    coarse: Path, study: Study, profile: Callable[..., Path], tmp_path: Path
) -> None:
    report = tmp_path / "report"
    alone = ("--no-default-rows", "--run", f"theirs={coarse}", "--search-on", "theirs")
    assert study(report, *alone, profile=profile("plain", scored=None)) == 0
    best = rows(report, "grid")[0]
    lines = gzip.decompress((report / "scores" / "gains.jsonl.gz").read_bytes()).decode().splitlines()
    gains = {(r["query"], r["document"]): r[best["Feature"]] for r in map(json.loads, lines)}
    run = {query: sorted(of, key=lambda d: -d[1])[:10] for query, of in read_run(coarse).items()}
    assert len(gains) == 100
    assert orders(numbered(report)[1]) == literal(run, gains, float(best["Weight"]))


def test_a_given_run_is_measured_as_it_is(data: Path, study: Study, tmp_path: Path) -> None:
    """Equal scores stand as trec_eval has them: also those that are equal in single precision alone."""
    run = tmp_path / "run.txt"
    qrels = read_qrels(data / "pan26" / "qrels.txt")
    lines = []
    for query, of in qrels.items():
        scores = {doc: 1 + i * 1e-12 for i, doc in enumerate(of)}
        lines += [f"{query} Q0 {doc} 1 {score!r} x\n" for doc, score in scores.items()]
    run.write_text("".join(lines))
    assert study(tmp_path / "out", "--no-default-rows", "--run", f"theirs={run}") == 0
    expected = ir_measures.calc_aggregate(MEASURES, qrels, {q: dict(of) for q, of in read_run(run).items()})
    found = rows(tmp_path / "out", "rows")[0]
    assert [float(found[c]) for c in COLUMNS] == pytest.approx([expected[m] for m in MEASURES])
    assert "No row is reranked" in (tmp_path / "out" / "index.md").read_text()
    assert not (tmp_path / "out" / "scores").exists()


def refused(study: Study, capsys: pytest.CaptureFixture[str], output: Path, *arguments: object, **more: Any) -> str:
    capsys.readouterr()
    assert study(output, *arguments, **more) == 2
    err = capsys.readouterr().err.strip()
    assert not output.exists()
    return err.splitlines()[-1]


def test_what_is_wrong_is_said_in_a_line_before_anything_is_computed(
    data: Path,
    coarse: Path,
    study: Study,
    forwards: list[int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    foreign = tmp_path / "foreign.txt"
    foreign.write_text(coarse.read_text() + "q01 Q0 nowhere 99 -5 x\n")
    folds = tmp_path / "folds.jsonl"
    folds.write_text('{"query_id": "other", "fold": 0}\n')
    held = tmp_path / "held.jsonl"
    ids = list(read_qrels(data / "pan26" / "qrels.txt"))
    held.write_text("".join(json.dumps({"query_id": q, "fold": int(i > 0)}) + "\n" for i, q in enumerate(ids)))
    assert "foreign.txt: 1 documents are not in the corpus" in refused(
        study, capsys, out, "--no-default-rows", "--run", f"a={foreign}"
    )
    assert "the query 'other' is not in the data" in refused(study, capsys, out, "--given", f"pan26-folds={folds}")
    assert "1 judged queries are too few" in refused(study, capsys, out, "--given", f"pan26-folds={held}")
    assert "unknown row 'nobody'" in refused(study, capsys, out, "--rerank", "nobody")
    assert "is for pan25, which is not among pan26" in refused(study, capsys, out, "--given", f"pan25-manifest={folds}")
    assert "is not NAME=PATH" in refused(study, capsys, out, "--run", "=x")
    assert "the run does not exist" in refused(study, capsys, out, "--run", f"a={tmp_path / 'missing'}")
    assert forwards == []


def test_judgements_of_other_data_are_refused(
    data: Path, study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "data" / "pan26"
    other.mkdir(parents=True)
    for path in (data / "pan26").iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    lines = (other / "qrels.txt").read_text()
    out = tmp_path / "out"
    (other / "qrels.txt").write_text(lines + "q99 0 x 1\n")
    assert "'q99' is judged, but not in the data" in refused(study, capsys, out, source=tmp_path / "data")
    (other / "qrels.txt").write_text(lines + "q01 0 elsewhere 1\n")
    assert "'elsewhere' is judged" in refused(study, capsys, out, source=tmp_path / "data")
    (other / "qrels.txt").write_text(lines + "q01 0 elsewhere 21\n")
    assert "the grade 21" in refused(study, capsys, out, source=tmp_path / "data")
    (other / "qrels.txt").unlink()
    assert "qrels.txt" in refused(study, capsys, out, source=tmp_path / "data")
