"""Vectors from files as the official baseline writes them, and files that are none."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity

from pan_scdg.errors import UserError
from pan_scdg.methods import MethodOptions
from pan_scdg.methods.vectors import VectorMethod, VectorSettings, read_vector
from pan_scdg.records import TextPair

PAIR = TextPair("susp/p1", "s1", "", "")


def open_vectors(folder: Path | None) -> VectorMethod:
    return VectorMethod(VectorSettings(model="x"), MethodOptions(vectors=folder))


def test_the_score_is_the_cosine_of_the_means_of_the_rows(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    rows = generator.normal(size=(5, 8)), generator.normal(size=(2, 8)).astype(np.float32)
    np.save(tmp_path / "p1.txt.npy", rows[0])
    np.save(tmp_path / "s1.npy", rows[1])
    method = open_vectors(tmp_path)
    method.check(PAIR)
    expected = cosine_similarity(rows[0].mean(axis=0)[None], rows[1].mean(axis=0)[None])[0, 0]
    assert method.score([PAIR])[0].values == {"score": pytest.approx(expected, abs=1e-7)}
    np.save(tmp_path / "s1.npy", rows[1][0])
    np.testing.assert_array_equal(read_vector(tmp_path / "s1.npy"), rows[1][0])


def test_identity_changes_with_every_file(tmp_path: Path) -> None:
    np.save(tmp_path / "p1.npy", np.ones(3))
    first = open_vectors(tmp_path).identify()
    assert open_vectors(tmp_path).identify() == first
    np.save(tmp_path / "p1.npy", np.zeros(3))
    assert open_vectors(tmp_path).identify() != first


def test_missing_folders_and_documents(tmp_path: Path) -> None:
    np.save(tmp_path / "p1.npy", np.ones(3))
    with pytest.raises(UserError, match=r"the vectors of 's1' are missing \(s1\.txt\.npy\)"):
        open_vectors(tmp_path).check(PAIR)
    with pytest.raises(UserError, match="needs precomputed document vectors of x. .* --vectors"):
        open_vectors(None)
    with pytest.raises(UserError, match="does not exist"):
        open_vectors(tmp_path / "none")


def saved(array: np.ndarray, pickled: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=pickled)
    return buffer.getvalue()


def archive() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("a.npy", saved(np.ones(3)))
    return buffer.getvalue()


HUGE = saved(np.ones((1, 8))).replace(b"(1, 8), }          ", b"(10000000000, 8), }")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no vectors",
        saved(np.ones((2, 4)))[:-9],
        HUGE,
        saved(np.array([{"a": 1}], dtype=object), pickled=True),
        archive(),
        b"PK\x03\x04 and no archive",
        saved(np.ones((1, 8))).replace(b"(1, 8), }", b"(1, 8),  "),
        saved(np.ones((1, 8))).replace(b"(1, 8), }", b"([], 8),}"),
        saved(np.ones((1, 8))).replace(b"(1, 8), }" + b" " * 30, b"(%s,),}" % (b"9" * 35)),
        saved(np.ones((1, 8))).replace(b"'shape'", b"[]     "),
        saved(np.ones((2, 2, 2))),
        saved(np.zeros(0)),
        saved(np.zeros((0, 4))),
        saved(np.array(["text"])),
        saved(np.array([[1.0, np.nan]])),
        saved(np.array([[1, 2]])),
    ],
)
def test_what_is_no_vector_is_one_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "v.npy"
    path.write_bytes(data)
    with pytest.raises(UserError) as raised:
        read_vector(path)
    assert str(raised.value).startswith(f"{path}:")
    assert "\n" not in str(raised.value)


def test_vectors_of_two_models_do_not_go_together(tmp_path: Path) -> None:
    np.save(tmp_path / "p1.npy", np.ones((2, 3)))
    np.save(tmp_path / "s1.npy", np.ones((2, 4)))
    with pytest.raises(UserError, match=r"has 3 numbers per row, but 4 in s1\.npy"):
        open_vectors(tmp_path).score([PAIR])


def test_the_promise_of_a_huge_array_is_really_in_the_file() -> None:
    assert b"10000000000" in HUGE
