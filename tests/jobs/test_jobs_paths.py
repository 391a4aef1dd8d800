"""Nothing that is read is written to, and nothing of another kind is replaced."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
SMALL = Path(__file__).parents[1] / "profiles" / "small.toml"


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def refused(done: Any, *words: str) -> None:
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done.err
    assert all(word in done.err for word in words), done.err


@pytest.fixture
def source_copy(pairs_input: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pairs_input, tmp_path / "work" / "input"))


@pytest.mark.parametrize(
    ("output", "state", "says"),
    [
        ("input", None, "overlaps --input"),
        ("input/susp", None, "overlaps --input"),
        ("input/new", None, "overlaps --input"),
        ("link/new", None, "overlaps --input"),
        (".", None, "contains --input"),
        ("out", "input", "overlaps --input"),
        ("out", "input/state", "overlaps --input"),
        ("out", "out", "overlaps --output"),
        ("out", "out/.pan_scdg", "overlaps --output"),
        ("out", "out/../out/.pan_scdg/state", "overlaps --output"),
    ],
)
def test_folders_that_lie_in_each_other_are_refused(
    output: str, state: str | None, says: str, source_copy: Path, run: Run, cli: Run, tmp_path: Path
) -> None:
    work = source_copy.parent
    (work / "link").symlink_to(source_copy)
    before = files_below(tmp_path)
    more = [] if state is None else ["--state", work / state]
    refused(run(source_copy, work / output, *more), says)
    refused(run(source_copy, work / output, "--overwrite", *more), says)
    if state is None:
        refused(cli("merge", "--input", source_copy, "--output", work / output, tmp_path / "shard"), says)
        says = says.replace("--input", "--data")
    study = ("studies", "pairs", "--data", source_copy, "--output", work / output, *more)
    refused(cli(*study), says.replace("--input", "--data"))
    assert files_below(tmp_path) == before
    assert not (work / "out").exists()


@pytest.mark.parametrize("name", ["model", "vectors", "index", "candidates"])
def test_no_other_input_lies_in_the_output(name: str, source_copy: Path, run: Run, cli: Run, tmp_path: Path) -> None:
    (tmp_path / "out" / "of").mkdir(parents=True)
    where = ("--input", source_copy, "--output", tmp_path / "out", "--profile", SMALL)
    refused(cli("run", *where, f"--{name}", tmp_path / "out" / "of"), f"contains --{name}")


def test_a_shard_is_not_the_output_of_merging(source_copy: Path, cli: Run, tmp_path: Path) -> None:
    shards = [tmp_path / "one", tmp_path / "two"]
    done = cli("merge", "--input", source_copy, "--output", shards[1], "--overwrite", *shards)
    refused(done, "overlaps SHARDS 2")


def test_an_index_is_not_made_in_its_input(source_copy: Path, cli: Run) -> None:
    where = ("--input", source_copy, "--index", source_copy / "index", "--profile", SMALL)
    refused(cli("index", *where), "overlaps --input", "--index")
    assert not (source_copy / "index").exists()


@pytest.mark.parametrize(
    "place", ["pairs", "susp/s1.txt", "new.toml", "truth/s1-r1.xml", "../notes.txt", "../pipe.toml", "../link.toml"]
)
def test_calibrate_replaces_profiles_alone(place: str, source_copy: Path, cli: Run, tmp_path: Path) -> None:
    work = source_copy.parent
    (work / "notes.txt").write_text("[pairs]\nmine = true\n", encoding="utf-8")
    (work / "link.toml").symlink_to(source_copy / "pairs")
    os.mkfifo(work / "pipe.toml")
    before = files_below(work)
    write = ("--profile", SMALL, "--write", source_copy / place)
    refused(cli("calibrate", "--input", source_copy, *write), "--write")
    assert files_below(work) == before


def test_calibrate_does_not_replace_the_profile_that_it_reads(source_copy: Path, cli: Run, tmp_path: Path) -> None:
    profile = Path(shutil.copy(SMALL, tmp_path / "mine.toml"))
    done = cli("calibrate", "--input", source_copy, "--profile", profile, "--write", profile)
    refused(done, "overlaps --profile")
    refused(
        cli("calibrate", "--input", source_copy, "--write", tmp_path / "p.toml", "--state", source_copy / "state"),
        "overlaps --input",
        "--state",
    )


@pytest.mark.parametrize("target", ["susp/s1.txt", "src/r1.txt", "src/r2.txt", "pipe", "link", "model/config.json"])
@pytest.mark.parametrize("option", ["--tokens", "--report"])
def test_score_replaces_its_own_files_alone(
    option: str, target: str, source_copy: Path, cli: Run, tiny_folder: Callable[..., Path]
) -> None:
    os.mkfifo(source_copy / "pipe")
    (source_copy / "link").symlink_to(source_copy / "src" / "r3.txt")
    model = shutil.copytree(tiny_folder("qwen2"), source_copy / "model")
    before = files_below(source_copy)
    texts = (source_copy / "susp" / "s1.txt", source_copy / "src" / "r1.txt")
    settings = ("--profile", SMALL, "--model", model, "--device", "cpu")
    refused(cli("score", *texts, *settings, option, source_copy / target), option)
    assert files_below(source_copy) == before


def test_files_of_tokens_and_reports_are_replaced(
    source_copy: Path, cli: Run, tiny_folder: Callable[..., Path]
) -> None:
    tokens, report = source_copy / "tokens.jsonl", source_copy / "report.html"
    for source in ("r1", "r2"):
        texts = (source_copy / "susp" / "s1.txt", source_copy / "src" / f"{source}.txt")
        settings = ("--profile", SMALL, "--model", tiny_folder("qwen2"), "--device", "cpu")
        assert cli("score", *texts, *settings, "--tokens", tokens, "--report", report).code == 0
        assert f"<title>s1.txt and {source}.txt</title>" in report.read_text(encoding="utf-8")
    refused(cli("score", *texts, *settings, "--tokens", tokens, "--report", tokens), "--report")
    refused(cli("score", *texts, *settings, "--tokens", report), "--tokens")
