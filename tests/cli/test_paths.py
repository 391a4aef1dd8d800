"""Nothing that is read is written to, and nothing of another kind is replaced."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.conftest import SMALL

Run = Callable[..., Any]


def read_files(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def check_refused(done: Any, *words: str) -> None:
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done.err
    assert all(word in done.err for word in words), done.err


@pytest.fixture
def source_copy(pairs_input: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pairs_input, tmp_path / "work" / "input"))


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("input", "overlaps --input"),
        ("input/susp", "overlaps --input"),
        ("link/new", "overlaps --input"),
        ("out/../input/new", "overlaps --input"),
        (".", "contains --input"),
    ],
)
def test_no_output_overlaps_the_input(output: str, message: str, source_copy: Path, run: Run, tmp_path: Path) -> None:
    work = source_copy.parent
    (work / "link").symlink_to(source_copy)
    before = read_files(tmp_path)
    check_refused(run(source_copy, work / output), message)
    check_refused(run(source_copy, work / output, "--overwrite"), message)
    assert read_files(tmp_path) == before
    assert not (work / "out").exists()


@pytest.mark.parametrize("name", ["model", "vectors", "index", "candidates"])
def test_no_other_input_lies_in_the_output(name: str, source_copy: Path, cli: Run, tmp_path: Path) -> None:
    inner = tmp_path / "out" / "inner"
    inner.mkdir(parents=True)
    where = ("--input", source_copy, "--output", tmp_path / "out", "--profile", SMALL)
    check_refused(cli("run", *where, f"--{name}", inner), f"contains --{name}")


def test_an_index_and_a_check_are_not_made_in_their_input(source_copy: Path, cli: Run) -> None:
    where = ("--input", source_copy, "--index", source_copy / "index", "--profile", SMALL)
    check_refused(cli("index", *where), "overlaps --input", "--index")
    texts = (source_copy / "susp", source_copy / "src")
    check_refused(cli("check", *texts, "--output", source_copy / "src" / "out"), "overlaps SOURCES", "--output")
    assert not (source_copy / "index").exists()


@pytest.mark.parametrize(
    "place", ["pairs", "susp/s1.txt", "new.toml", "truth/s1-r1.xml", "../notes.txt", "../pipe.toml", "../link.toml"]
)
def test_calibrate_replaces_profiles_alone(place: str, source_copy: Path, cli: Run) -> None:
    work = source_copy.parent
    (work / "notes.txt").write_text("[gains]\nmine = true\n", encoding="utf-8")
    (work / "link.toml").symlink_to(source_copy / "pairs")
    os.mkfifo(work / "pipe.toml")
    before = read_files(work)
    write = ("--profile", SMALL, "--scores", work / "scores", "--write", source_copy / place)
    check_refused(cli("calibrate", "--input", source_copy, *write), "--write")
    assert read_files(work) == before


def test_calibrate_does_not_replace_the_profile_that_it_reads(source_copy: Path, cli: Run, tmp_path: Path) -> None:
    profile = Path(shutil.copy(SMALL, tmp_path / "mine.toml"))
    where = ("--input", source_copy, "--scores", tmp_path / "scores")
    done = cli("calibrate", *where, "--profile", profile, "--write", profile)
    check_refused(done, "overlaps --profile")


@pytest.mark.parametrize("target", ["susp/s1.txt", "src/r1.txt", "src/r2.txt", "pipe", "link", "model/config.json"])
@pytest.mark.parametrize("option", ["--tokens", "--report"])
def test_score_replaces_its_own_files_alone(
    option: str, target: str, source_copy: Path, cli: Run, tiny_folder: Callable[..., Path]
) -> None:
    os.mkfifo(source_copy / "pipe")
    (source_copy / "link").symlink_to(source_copy / "src" / "r3.txt")
    model = shutil.copytree(tiny_folder("qwen2"), source_copy / "model")
    before = read_files(source_copy)
    texts = (source_copy / "susp" / "s1.txt", source_copy / "src" / "r1.txt")
    settings = ("--profile", SMALL, "--model", model, "--device", "cpu")
    check_refused(cli("score", *texts, *settings, option, source_copy / target), option)
    assert read_files(source_copy) == before


def test_files_of_tokens_and_reports_are_replaced(
    source_copy: Path, cli: Run, tiny_folder: Callable[..., Path]
) -> None:
    tokens, report = source_copy / "tokens.jsonl", source_copy / "report.html"
    for source in ("r1", "r2"):
        texts = (source_copy / "susp" / "s1.txt", source_copy / "src" / f"{source}.txt")
        settings = ("--profile", SMALL, "--model", tiny_folder("qwen2"), "--device", "cpu")
        assert cli("score", *texts, *settings, "--tokens", tokens, "--report", report).code == 0
        assert f"<title>s1.txt and {source}.txt</title>" in report.read_text(encoding="utf-8")
    check_refused(cli("score", *texts, *settings, "--tokens", tokens, "--report", tokens), "--report")
    check_refused(cli("score", *texts, *settings, "--tokens", report), "--tokens")
