"""Vectors from files as the official baseline writes them, and files that are none."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity

from pan_scdg.methods.vectors import VectorScorer, read_vector
from pan_scdg.errors import UserError, UserErrors
from pan_scdg.records import TextPair

PAIR = TextPair("susp/p1", "s1", "", "")


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(3)
    return generator.normal(size=(5, 8)), generator.normal(size=(2, 8)).astype(np.float32)


def test_the_score_is_the_cosine_of_the_means_of_the_rows(tmp_path: Path, rows: tuple[np.ndarray, np.ndarray]) -> None:
    np.save(tmp_path / "p1.txt.npy", rows[0])
    np.save(tmp_path / "s1.npy", rows[1])
    scorer = VectorScorer(tmp_path, ["susp/p1", "s1"])
    expected = cosine_similarity(rows[0].mean(axis=0)[None], rows[1].mean(axis=0)[None])[0, 0]
    assert list(scorer.score([PAIR])) == [(pytest.approx(expected, abs=1e-7),)]


def test_one_row_may_lack_its_dimension(tmp_path: Path, rows: tuple[np.ndarray, np.ndarray]) -> None:
    np.save(tmp_path / "v.npy", rows[0][0])
    np.testing.assert_array_equal(read_vector(tmp_path / "v.npy"), rows[0][0])


def test_identity_is_that_of_the_files_asked_for(tmp_path: Path, rows: tuple[np.ndarray, np.ndarray]) -> None:
    for name in ("p1", "s1", "other"):
        np.save(tmp_path / f"{name}.txt.npy", rows[0])
    before = VectorScorer(tmp_path, ["p1", "s1"]).identify()
    np.save(tmp_path / "other.txt.npy", rows[1])
    assert VectorScorer(tmp_path, ["s1", "p1"]).identify() == before
    np.save(tmp_path / "s1.txt.npy", rows[1])
    assert VectorScorer(tmp_path, ["p1", "s1"]).identify() != before


def test_every_missing_document_is_named(tmp_path: Path) -> None:
    np.save(tmp_path / "p1.npy", np.ones(3))
    with pytest.raises(UserErrors) as raised:
        VectorScorer(tmp_path, ["p1", "s1", "s2"])
    assert [e.what for e in raised.value.errors] == [
        "the vectors of 's1' are missing (s1.txt.npy)",
        "the vectors of 's2' are missing (s2.txt.npy)",
    ]


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
        list(VectorScorer(tmp_path, ["p1", "s1"]).score([TextPair("p1", "s1", "", "")]))


def test_the_promise_of_a_huge_array_is_really_in_the_file() -> None:
    assert b"10000000000" in HUGE
