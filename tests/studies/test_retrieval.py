"""``retrieval``: the grid against ir_measures, every row of the tables, and the candidates that are left to score."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.evaluation.retrieval import PAPER_METRICS, compute_per_query, compute_retrieval_metrics
from pan_scdg.pan.runs import read_run
from pan_scdg.results.files import CANDIDATE_SCORES, write_lines
from pan_scdg.results.records import CandidateLine, MeasuredCandidate
from pan_scdg.scdg.reranking import rerank
from studies.__main__ import main
from studies.retrieval import (
    FEATURES,
    PAPER,
    Candidates,
    Configuration,
    compare_rows,
    list_configurations,
    make_run,
    rerank_by,
    search_grid,
    write_run,
)
from studies.splits import make_folds
from tests.studies.made_results import describe_gains, read_tables, write_job

Qrels = dict[str, dict[str, int]]


def draw(queries: int, depth: int, seed: int, decimals: int = 1) -> tuple[Qrels, dict[str, Candidates]]:
    """Rounded scores, so that there are many ties, and judged documents that the first stage did not find."""
    rng = np.random.default_rng(seed)
    candidates, qrels = {}, {}
    for query in range(queries):
        names = [f"d{number}" for number in rng.permutation(2 * depth + 4)]
        coarse = np.sort(np.round(rng.random(depth), decimals))[::-1]
        gains = np.round(rng.normal(size=(depth, len(FEATURES))), decimals)
        lines = [dict(zip(FEATURES.values(), row)) for row in gains.tolist()]
        candidates[f"q{query}"] = Candidates(dict(zip(names, coarse.tolist())), lines)
        judged = rng.choice(names, size=4, replace=False)
        qrels[f"q{query}"] = dict(zip(judged.tolist(), rng.integers(0, 4, size=4).tolist()))
    return qrels, candidates


def literal(of: Candidates, chosen: Configuration) -> list[str]:
    """The first N reranked, the others behind them."""
    n, names = min(chosen.depth, len(of.gains)), list(of.coarse)
    gains = [line[FEATURES[chosen.feature]] for line in of.gains[:n]]
    head = rerank(names[:n], list(of.coarse.values())[:n], gains, chosen.weight)
    return [doc_id for doc_id, _ in head] + names[n:]


def check(qrels: Qrels, candidates: dict[str, Candidates], some: list[Configuration]) -> None:
    rows = {row.configuration: row for row in search_grid(qrels, candidates)}
    assert len(rows) == 108
    for configuration in some:
        run = make_run({query: literal(of, configuration) for query, of in candidates.items()})
        expected, row = compute_retrieval_metrics(qrels, run), rows[configuration]
        assert row.ndcg == pytest.approx(expected[PAPER_METRICS["nDCG@10"]], abs=1e-12)
        assert row.recall == pytest.approx(expected["R@10"], abs=1e-12)
        assert row.deep_recall == pytest.approx(expected["R@100"], abs=1e-12)


def test_configurations_agree_with_rerank_and_ir_measures() -> None:
    check(*draw(queries=4, depth=130, seed=1), list_configurations()[::5])


def test_candidates_without_gains_stay_behind() -> None:
    qrels, candidates = draw(queries=3, depth=130, seed=5)
    first = {query: of._replace(gains=of.gains[:30]) for query, of in candidates.items()}
    check(qrels, first, [Configuration("top-2%", 100, 0.75), Configuration("mean", 1000, 1.0)])
    for query, order in rerank_by(first, PAPER).items():
        assert order[30:] == list(first[query].coarse)[30:]


@settings(max_examples=25, deadline=None)
@given(depth=st.integers(0, 14), seed=st.integers(0, 999))
def test_any_small_data(depth: int, seed: int) -> None:
    check(*draw(2, depth, seed), [Configuration("top-2%", 100, 0.5), Configuration("median", 1000, 1.0)])


def test_ties_and_orders_of_the_grid() -> None:
    qrels, candidates = draw(6, 40, 4)
    rows = search_grid(qrels, candidates)
    assert [row[1:] for row in rows] == sorted((row[1:] for row in rows), reverse=True)
    assert search_grid(dict(reversed(qrels.items())), candidates) == rows
    qrels |= {"q1": {"d1": 0}, "unknown": {"d1": 1}, "q2": {}}
    alone = search_grid({"q0": qrels["q0"]}, candidates)[0]
    counted = search_grid({name: qrels[name] for name in ("q0", "q1", "unknown", "q2")}, candidates)[0]
    assert counted.ndcg == pytest.approx(alone.ndcg / 4)
    order = np.arange(30.0, 0, -1).tolist()
    alike = Candidates(
        {f"d{i:02}": s for i, s in enumerate(order)}, [dict.fromkeys(FEATURES.values(), s) for s in order]
    )
    rows = search_grid({"q": {"d03": 2, "d11": 1}}, {"q": alike})
    assert [row.configuration for row in rows] == list_configurations()
    assert rows[0].configuration == Configuration("top-1%", 100, 0.25)


def test_the_planted_feature_is_chosen() -> None:
    qrels, candidates = draw(5, 200, 5)
    for query, of in candidates.items():
        names = list(of.coarse)
        qrels[query] = {names[i]: 1 for i in (150, 120, 180)}
        for i in (150, 120, 180):
            of.gains[i]["median"] = 9.0
    assert search_grid(qrels, candidates)[0].configuration == Configuration("median", 500, 0.75)


def test_rows_are_compared_with_the_row_above_by_query() -> None:
    qrels, candidates = draw(9, 30, 8)
    runs = [("coarse", make_run({q: list(of.coarse) for q, of in candidates.items()}))]
    runs.append(("reranked", make_run(rerank_by(candidates, PAPER))))
    first, second = compare_rows(qrels, runs)
    assert first.above == {}
    values = [compute_per_query(qrels, run)["AP"] for _, run in runs]
    differences = np.array([values[1][q] - values[0][q] for q in sorted(qrels)])
    estimate, p_value = second.above["AP"]
    assert estimate.value == pytest.approx(second.metrics["AP"].value - first.metrics["AP"].value, abs=1e-12)
    rng = np.random.default_rng(42)
    means = [differences[rng.integers(9, size=9)].mean() for _ in range(1000)]
    np.testing.assert_allclose(estimate[1:], np.percentile(means, [2.5, 97.5]), atol=0.02)
    column = np.array([compute_per_query(qrels, runs[1][1])["R@100"][q] for q in sorted(qrels)])
    means = [column[rng.integers(9, size=9)].mean() for _ in range(1000)]
    np.testing.assert_allclose(second.metrics["R@100"][1:], np.percentile(means, [2.5, 97.5]), atol=0.06)
    signs = (np.arange(512)[:, None] >> np.arange(9)) % 2 * 2 - 1
    swapped, observed = (signs * differences).mean(axis=1), differences.mean()
    tails = min((swapped >= observed - 1e-12).mean(), (swapped <= observed + 1e-12).mean())
    assert p_value == pytest.approx(min(1.0, 2 * tails), abs=1e-12)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Queries, judgements and folds; results of two first stages with gains, and a run from elsewhere."""
    folder = tmp_path_factory.mktemp("data")
    qrels, candidates = draw(12, 20, 3)
    queries = sorted(qrels)
    (folder / "queries.jsonl").write_text("".join(json.dumps({"qid": q, "query": "text"}) + "\n" for q in queries))
    judged = ((query, doc_id, grade) for query, of in qrels.items() for doc_id, grade in of.items())
    (folder / "qrels.txt").write_text("".join(f"{query} 0 {doc_id} {grade}\n" for query, doc_id, grade in judged))
    folds = ({"query_id": fold.query_id, "fold": fold.fold} for fold in make_folds(queries))
    (folder / "folds.jsonl").write_text("".join(f"{json.dumps(fold)}\n" for fold in folds))
    orders = {query: list(of.coarse) for query, of in candidates.items()}
    write_result(folder / "whole", "pan26-qwen3-8b", orders, scored=20)
    others = {query: [of[0], *(f"{doc_id}b" for doc_id in of[:0:-1])] for query, of in orders.items()}
    write_result(folder / "part", "pan26-rrf-qwen3-8b", others, scored=5)
    write_result(folder / "none", "pan26-rrf", {query: sorted(of) for query, of in orders.items()}, scored=0)
    write_run(folder / "elsewhere.txt.gz", {query: of[3:] for query, of in orders.items()})
    return folder


def write_result(folder: Path, profile: str, orders: dict[str, list[str]], scored: int, target_ids: str = "t") -> None:
    write_job(folder, "retrieval", profile, {"language_model": "m"}, {})
    rng = np.random.default_rng(len(folder.name))
    lines = []
    for query, order in orders.items():
        for rank, doc_id in enumerate(order, 1):
            score = None
            if rank <= scored:
                values = describe_gains(rng.normal(size=40))
                score = MeasuredCandidate(query, doc_id, 40, target_ids, -2.0, values)
            lines.append(CandidateLine(query, doc_id, rank, None, rank, 1 / rank, {}, score))
    write_lines(folder, CANDIDATE_SCORES, [lines[number] for number in rng.permutation(len(lines))])
    write_run(folder / "run.txt.gz", {q: [*of[1::-1], *of[2:]] if scored else of for q, of in orders.items()})


def study(data: Path, output: Path, *more: object) -> int:
    where = ["--data", data, "--folds", data / "folds.jsonl", "--output", output]
    return main(["retrieval", *map(str, [*where, *more])])


def read_orders(path: Path) -> dict[str, list[str]]:
    return {query: [doc_id for doc_id, _ in of] for query, of in read_run(path).items()}


def test_a_study_of_four_rows(data: Path, tmp_path: Path) -> None:
    rows = [f"DAAC={data}/whole", f"RRF={data}/part", f"Plain={data}/none", data / "elsewhere.txt.gz"]
    assert study(data, tmp_path / "out", *rows) == 0
    tables = read_tables(tmp_path / "out")
    names = [row["Row"] for row in tables["rows"]]
    chosen = Configuration(*(tables["grid"][0][name] for name in ("Feature", "N", "Weight")))
    kinds = [
        "",
        " + SCDG",
        *([" + SCDG, paper's configuration"] if chosen != PAPER else []),
        " + SCDG as the profile has it",
    ]
    assert names == [*(f"{row}{kind}" for row in ("DAAC", "RRF") for kind in kinds), "Plain", "elsewhere"]
    qrels: Qrels = {}
    for line in (data / "qrels.txt").read_text().splitlines():
        query, _, doc_id, grade = line.split()
        qrels.setdefault(query, {})[doc_id] = int(grade)
    runs = sorted((tmp_path / "out" / "runs").iterdir())
    for row, path in zip(tables["rows"], runs, strict=True):
        expected = compute_retrieval_metrics(qrels, read_run(path))
        expected |= {name: expected[own] for name, own in PAPER_METRICS.items()}
        expected |= {"MAP": expected["AP"], "MRR": expected["RR"]}
        measures = {name: value for name, value in row.items() if name not in ("Row", "group")}
        assert measures == pytest.approx({name: expected[name] for name in measures})
    coarse, own = read_orders(runs[0]), read_orders(runs[len(kinds) - 1])
    assert own == read_orders(data / "whole" / "run.txt.gz")
    assert own != coarse
    part, reranked = read_orders(runs[len(kinds)]), read_orders(runs[len(kinds) + 1])
    assert all(reranked[query][5:] == part[query][5:] for query in part)
    assert read_orders(runs[-1]) == read_orders(data / "elsewhere.txt.gz")
    groups = [row["group"] for row in tables["folds"]]
    assert groups == ["development"] * 2 + ["hold-out"] * 2
    page = (tmp_path / "out" / "index.md").read_text()
    assert "RRF: candidates after the first 5 to 5 have no gains and stay." in page
    assert "Runs from elsewhere: elsewhere." in page
    assert "are missing and count as 0" not in page


def test_queries_that_a_row_lacks_are_counted(data: Path, tmp_path: Path) -> None:
    orders = read_orders(data / "elsewhere.txt.gz")
    write_run(tmp_path / "half.txt.gz", dict([*orders.items()][2:]))
    assert study(data, tmp_path / "out", data / "elsewhere.txt.gz", tmp_path / "half.txt.gz") == 0
    page = (tmp_path / "out" / "index.md").read_text()
    assert f"warning: half: 2 of {len(orders)} judged queries are missing and count as 0." in page


def test_seconds_and_the_choice_stand_beside_the_paper_s(data: Path, tmp_path: Path) -> None:
    write_result(tmp_path / "timed", "pan26-linq-sentence", {"q0": ["d1", "d2"]}, scored=0)
    job = json.loads((tmp_path / "timed" / "job.json").read_text())
    (tmp_path / "timed" / "job.json").write_text(json.dumps(job | {"files": {"ir-metadata.yml": ""}}))
    text = "pan_scdg: {seconds: {index: 3.0, dense-sentence: 7.5}}\n"
    (tmp_path / "timed" / "ir-metadata.yml").write_text(text)
    assert study(data, tmp_path / "out", f"DAAC={data}/whole", f"Linq={tmp_path}/timed") == 0
    tables = read_tables(tmp_path / "out")
    assert [(row["Stage"], row["Seconds"], row["Paper"]) for row in tables["seconds"]] == [
        ("index", 3.0, None),
        ("dense-sentence", 7.5, 227.6),
    ]
    best = tables["grid"][0]
    chosen = [(row["Hyperparameter"], row["Paper"], row["Here"]) for row in tables["hyperparameters"]]
    assert chosen == [
        ("PAN26 reranking: Top-q", "2%", best["Feature"]),
        ("PAN26 reranking: Candidate count N", "1000", str(best["N"])),
        ("PAN26 reranking: Fusion weight", "0.75", str(best["Weight"])),
    ]


def test_gains_of_other_results_rerank_a_row(data: Path, tmp_path: Path) -> None:
    rows = ["--gains", data / "whole", "--rerank", "Plain", "--search-on", "Plain", f"Plain={data}/none"]
    assert study(data, tmp_path / "out", *rows) == 0
    assert "Plain + SCDG" in [row["Row"] for row in read_tables(tmp_path / "out")["rows"]]
    assert study(data, tmp_path / "coarse", f"Plain={data}/none") == 0
    assert "grid" not in read_tables(tmp_path / "coarse")


def test_the_rest_is_what_no_result_has_scored(data: Path, tmp_path: Path) -> None:
    arguments = ["rest", "--scored", data / "part", "--output", tmp_path / "rest.txt.gz", data / "whole"]
    assert main(list(map(str, arguments))) == 0
    whole = read_orders(data / "whole" / "run.txt.gz")
    rest = read_orders(tmp_path / "rest.txt.gz")
    assert {query: len(of) for query, of in rest.items()} == dict.fromkeys(whole, 19)
    coarse = {query: [*of[1::-1], *of[2:]] for query, of in whole.items()}
    assert rest == {query: of[1:] for query, of in coarse.items()}


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (["{0}/whole", "{0}/whole"], "two rows are named 'pan26-qwen3-8b'"),
        (["--rerank", "x", "{0}/whole"], "unknown row 'x'. Choose one of pan26-qwen3-8b"),
        (["--rerank", "pan26-rrf", "--gains", "{0}/part", "{0}/none"], "has no gains. Score the missing candidates"),
        (["{0}/gone"], "the run does not exist"),
        (["--gains", "{0}/other", "{0}/whole"], "has gains of another language model"),
        (["--gains", "{0}/cut", "{0}/whole"], "scored other tokens of the query 'q0'"),
        (["--folds", "{0}/bad.jsonl", "{0}/whole"], "has other queries than the data, for example 'q0'"),
    ],
)
def test_what_cannot_be_studied(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], what: str
) -> None:
    if not (data / "other").exists():
        write_result(data / "other", "pan26-qwen3-8b", {"q0": ["d1"]}, 1)
        job = json.loads((data / "other" / "job.json").read_text())
        (data / "other" / "job.json").write_text(json.dumps(job | {"models": {"language_model": "another"}}))
        write_result(data / "cut", "pan26-qwen3-8b", {"q0": ["d1"]}, 1, target_ids="other")
        (data / "bad.jsonl").write_text('{"query_id": "zz", "fold": 1}\n')
    assert study(data, tmp_path / "out", *(argument.format(data) for argument in more)) == 2
    assert what in capsys.readouterr().err
