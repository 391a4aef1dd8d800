"""Vectors on disk: what is read back, what survives a kill, what is refused."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pan_scdg.retrieval.dense.vector_files import (
    DOCUMENTS,
    FORMAT,
    MANIFEST,
    VECTORS,
    Manifest,
    check_manifest,
    write_manifest,
)
from pan_scdg.retrieval.dense.vectors import VectorWriter, open_vectors

from pan_scdg.errors import UserError

WIDTH = 3
MADE_OF = Manifest(
    kind="chunks",
    model="m" * 64,
    device="cpu",
    batch=32,
    corpus="c" * 64,
    dimension=WIDTH,
    settings={"chunk_words": 768, "chunks": 8, "document_tokens": None},
    format=FORMAT,
    sealed=None,
)
COUNTS = ((1, 2, 8), (3,), (1, 1), (2, 5), (1,))


def group(number: int) -> tuple[list[str], Sequence[int], np.ndarray]:
    """Documents, their counts, and vectors that depend on the group alone."""
    counts = COUNTS[number]
    vectors = np.random.default_rng(number).normal(size=(sum(counts), WIDTH)).astype(np.float32)
    return [f"é{number}\n{i}" for i in range(len(counts))], counts, vectors


def write(folder: Path, groups: int = len(COUNTS)) -> int:
    """Go on behind what is there, as a run does; the number of documents found."""
    with VectorWriter(folder, MADE_OF) as writer:
        found = writer.documents
        seen = 0
        for number in range(groups):
            if seen >= found:
                writer.append(*group(number))
            seen += len(COUNTS[number])
        if groups == len(COUNTS):
            writer.finish()
    return found


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write(tmp_path / "v")
    vectors = open_vectors(tmp_path / "v", MADE_OF)
    groups = [group(number) for number in range(len(COUNTS))]
    assert vectors.doc_ids == [doc_id for doc_ids, _, _ in groups for doc_id in doc_ids]
    assert isinstance(vectors.chunks, np.memmap)
    assert vectors.chunks.dtype == np.float16
    np.testing.assert_array_equal(vectors.chunks, np.concatenate([v for _, _, v in groups]).astype(np.float16))
    assert vectors.owner.tolist() == [0, 1, 1, *[2] * 8, 3, 3, 3, 4, 5, 6, 6, *[7] * 5, 8]
    found = check_manifest(tmp_path / "v", MADE_OF)
    assert found.sealed is not None
    assert found.model_copy(update={"sealed": None}) == MADE_OF


@settings(max_examples=80, deadline=None)
@given(st.integers(0, len(COUNTS)), st.integers(0, 300), st.integers(0, 300), st.binary(max_size=9))
def test_cut_at_any_byte_it_goes_on_to_the_same_files(
    tmp_path_factory: pytest.TempPathFactory, groups: int, vector_bytes: int, document_bytes: int, tail: bytes
) -> None:
    whole, cut = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("cut")
    write(whole)
    write(cut, groups)
    if groups == len(COUNTS):
        write_manifest(cut, MADE_OF)
    for name, kept in ((VECTORS, vector_bytes), (DOCUMENTS, document_bytes)):
        path = cut / name
        path.write_bytes(path.read_bytes()[:kept])
    with open(cut / DOCUMENTS, "ab") as file:
        file.write(tail.replace(b"\n", b" "))
    # A group counts when its line and its vectors are whole.
    lines = (whole / DOCUMENTS).read_bytes().split(b"\n")[:groups]
    line_ends = np.cumsum([len(line) + 1 for line in lines])
    row_ends = np.cumsum([2 * WIDTH * sum(counts) for counts in COUNTS[:groups]])
    kept = sum(bool(end <= document_bytes and rows <= vector_bytes) for end, rows in zip(line_ends, row_ends))
    assert write(cut) == sum(len(counts) for counts in COUNTS[:kept])
    assert files(cut) == files(whole)


def test_killed_while_it_writes(tmp_path: Path) -> None:
    write(tmp_path / "whole")
    script = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import test_retrieval_vectors as t
from pathlib import Path
with t.VectorWriter(Path({str(tmp_path / "cut")!r}), t.MADE_OF) as writer:
    writer.append(*t.group(0))
    writer.append(*t.group(1))
    os.write(writer._vectors.fileno(), b"half a group")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, check=False)
    assert ended.returncode == -signal.SIGKILL
    with pytest.raises(UserError, match="not complete"):
        open_vectors(tmp_path / "cut", MADE_OF)
    assert write(tmp_path / "cut") == 4
    assert files(tmp_path / "cut") == files(tmp_path / "whole")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "abstracts"),
        ("model", "n" * 64),
        ("device", "cuda"),
        ("batch", 8),
        ("corpus", "d" * 64),
        ("dimension", 4),
        ("chunk_words", 512),
        ("document_tokens", 2048),
    ],
)
def test_another_manifest_is_refused_by_the_name_of_the_field(tmp_path: Path, field: str, value: str | int) -> None:
    write(tmp_path)
    before = files(tmp_path)
    inside = field in MADE_OF.settings
    other = MADE_OF.model_copy(update={"settings": {**MADE_OF.settings, field: value}} if inside else {field: value})
    with pytest.raises(UserError, match=f"made with {field} .* expected {value!r}"):
        open_vectors(tmp_path, other)
    with pytest.raises(UserError, match=f"made with {field} "):
        VectorWriter(tmp_path, other)
    assert files(tmp_path) == before


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with VectorWriter(tmp_path, MADE_OF), pytest.raises(UserError, match="in use"):
        VectorWriter(tmp_path, MADE_OF)
    VectorWriter(tmp_path, MADE_OF).close()


def test_finished_is_finished(tmp_path: Path) -> None:
    write(tmp_path)
    before = files(tmp_path)
    assert write(tmp_path) == 9
    assert files(tmp_path) == before
    with VectorWriter(tmp_path, MADE_OF) as writer:
        assert writer.complete
        with pytest.raises(ValueError, match="do not fit"):
            writer.append(*group(0))


def test_damage_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no vectors were found"):
        open_vectors(tmp_path, MADE_OF)
    write(tmp_path)
    os.truncate(tmp_path / VECTORS, 7)
    with pytest.raises(UserError, match="holds 7 bytes, not 144"):
        open_vectors(tmp_path, MADE_OF)
    (tmp_path / DOCUMENTS).write_text("[1]\n")
    with pytest.raises(UserError, match="not a group"):
        open_vectors(tmp_path, MADE_OF)
    write_manifest(tmp_path, MADE_OF.model_copy(update={"format": 9}))
    with pytest.raises(UserError, match="made with format 9, expected 3"):
        open_vectors(tmp_path, MADE_OF)
    for text in ("[]", "{}", '{"format": 3}', "{", '{"format": 3, "other": 2}', "[" * 10_000):
        (tmp_path / MANIFEST).write_text(text)
        with pytest.raises(UserError, match="not as this program wrote it"):
            VectorWriter(tmp_path, MADE_OF)
    (tmp_path / MANIFEST).unlink()
    with pytest.raises(UserError, match="no manifest"):
        VectorWriter(tmp_path, MADE_OF)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([VECTORS, DOCUMENTS]), st.integers(0, 1000), st.integers(1, 255), st.booleans())
def test_any_changed_byte_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, name: str, place: int, flipped: int, complete: bool
) -> None:
    folder = tmp_path_factory.mktemp("v")
    write(folder)
    data = bytearray((folder / name).read_bytes())
    place %= len(data)
    assume(name == VECTORS or not chr(data[place]).isspace())  # between values of JSON any other serves as well
    data[place] ^= flipped
    (folder / name).write_bytes(data)
    if complete:
        with pytest.raises(UserError, match=name):
            open_vectors(folder, MADE_OF)
        return
    write_manifest(folder, MADE_OF)
    with pytest.raises(UserError, match="damaged"):
        write(folder)


def test_vectors_that_are_not_finite_are_noticed_whatever_their_checksum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(np, "isfinite", lambda _: np.array([True]))
    with VectorWriter(tmp_path, MADE_OF) as writer:
        writer.append(["a"], [2], np.array([[0, 1, 0], [0, np.nan, 1]]))
        writer.finish()
    with pytest.raises(UserError, match="not finite"):
        open_vectors(tmp_path, MADE_OF)


@pytest.mark.parametrize("name", [VECTORS, DOCUMENTS, MANIFEST])
def test_a_planted_link_or_pipe_is_not_followed(tmp_path: Path, name: str) -> None:
    folder, target = tmp_path / "v", tmp_path / "target"
    write(folder, 2)
    target.write_bytes((folder / name).read_bytes() + b"more")
    before = target.read_bytes()
    (folder / name).unlink()
    (folder / name).symlink_to(target)
    with pytest.raises(UserError, match=f"{name}.*remove it"):
        write(folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(UserError, match=f"{name}.*remove it"):
        write(folder)
    assert target.read_bytes() == before
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(UserError, match="symbolic link"):
        write(tmp_path / "link")


def test_misuse_is_refused(tmp_path: Path) -> None:
    with VectorWriter(tmp_path, MADE_OF) as writer:
        for doc_ids, counts, shape in ((["a"], [1, 1], (2, 3)), (["a"], [2], (1, 3)), (["a"], [1], (1, 4))):
            with pytest.raises(ValueError, match="do not fit"):
                writer.append(doc_ids, counts, np.zeros(shape, np.float32))
        with pytest.raises(ValueError, match="not finite"):
            writer.append(["a"], [1], np.full((1, 3), 70000, np.float32))
        writer.finish()
    assert open_vectors(tmp_path, MADE_OF).chunks.shape == (0, 3)


def test_no_room_to_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        VectorWriter(tmp_path / "file" / "v", MADE_OF)
