"""An index for compiled code that somebody has edited, checksums included: no number of it becomes an address."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from pan_scdg.retrieval.bm25.impact import ImpactIndex
from pan_scdg.retrieval.bm25.impact_build import build_index
from pan_scdg.retrieval.index_folder import MANIFEST, write_seal

from pan_scdg.errors import UserError
from pan_scdg.models.terrier_jars import TERRIER
from pan_scdg.profile import Bm25Settings


class Doc(NamedTuple):
    doc_id: str
    text: str


DOCUMENTS = [Doc(f"doc/{i}", f"common word{i % 7} word{i % 3}") for i in range(20)]


def header(path: Path, shape: str, kind: str = "<i4") -> None:
    """Write a file with the header of an array and nothing behind it."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)


def change(path: Path, place: int, value: int) -> None:
    numbers = np.load(path)
    numbers[place] = value
    np.save(path, numbers)


HOSTILE: dict[str, Callable[[Path], object]] = {
    "a document out of range": lambda folder: change(folder / "docs.npy", 3, 1 << 20),
    "a negative document": lambda folder: change(folder / "docs.npy", 3, -1),
    "a start out of range": lambda folder: change(folder / "starts.npy", 2, 1 << 40),
    "starts out of order": lambda folder: change(folder / "starts.npy", 2, 0),
    "a negative length": lambda folder: change(folder / "lengths.npy", 0, -1),
    "a shape without bytes": lambda folder: header(folder / "docs.npy", f"({10**18},)"),
    "a shape that overflows": lambda folder: header(folder / "docs.npy", f"({1 << 62}, 4)"),
    "a nested header": lambda folder: header(folder / "docs.npy", "(" * 5000),
    "objects": lambda folder: header(folder / "docs.npy", "(1,)", "|O"),
    "other numbers": lambda folder: np.save(folder / "docs.npy", np.load(folder / "docs.npy").astype(np.int64)),
    "fewer documents": lambda folder: np.save(folder / "lengths.npy", np.load(folder / "lengths.npy")[1:]),
    "an id less": lambda folder: (folder / "documents.jsonl").write_text('"a"\n'),
    "an id twice": lambda folder: (folder / "documents.jsonl").write_text('"a"\n' * 20),
    "an id of another type": lambda folder: (folder / "documents.jsonl").write_text("1\n" * 20),
    "a long line": lambda folder: (folder / "documents.jsonl").write_text("[" * 100_000),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_no_index_is_refused_whatever_its_checksums(tmp_path: Path, what: str) -> None:
    build_index(DOCUMENTS, tmp_path / "bad", frozenset())
    HOSTILE[what](tmp_path / "bad")
    terms = len(np.load(tmp_path / "bad" / "terms.npy"))
    (tmp_path / "bad" / MANIFEST).unlink()
    write_seal(tmp_path / "bad", "impact", TERRIER, 20, terms)
    with pytest.raises(UserError, match=r"bad.*damaged.*delete it and run again"):
        ImpactIndex(tmp_path / "bad", Bm25Settings(engine="impact"))


@pytest.mark.parametrize(
    "change",
    [
        {"layout": 3},
        {"engine": "fts5"},
        {"version": "0"},
        {"more": 1},
        {"files": {}},
        {"documents": 10**18},
        {"terms": -1},
        {"files": {"../x": {"size": 1, "crc32": 1}}},
    ],
)
def test_another_manifest_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    build_index(DOCUMENTS, tmp_path / "bad", frozenset())
    path = tmp_path / "bad" / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(UserError, match=r"bad.*delete it and run again"):
        ImpactIndex(tmp_path / "bad", Bm25Settings(engine="impact"))
