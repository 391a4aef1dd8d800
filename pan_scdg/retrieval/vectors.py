"""The vectors of a corpus on disk: written as they are encoded, resumed after a kill, read through a memory map.

A folder holds three files. ``vectors.f16`` is the bare matrix, little-endian float16 row after row: unlike an ``.npy``
file it has no header that must tell the number of rows before they are known, so it can grow and be cut at any row.
``documents.jsonl`` has one line a group of documents, ``[[document id, vectors], ...]``, written when the vectors of
the group are safely on disk. ``manifest.json`` says what the vectors depend on. Vectors depend on the batch they were
encoded in, hence the group is what is kept or lost as a whole, and an interruption cannot change the result.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserError

FORMAT = 1
"""Raised when the files of a folder change their meaning."""
MANIFEST, VECTORS, DOCUMENTS = "manifest.json", "vectors.f16", "documents.jsonl"
_REBUILD = "use the profile and the corpus that it was built with, or build it again in another folder"


@dataclass(frozen=True)
class Manifest:
    """What the vectors depend on, and whether they are complete."""

    kind: Literal["chunks", "abstracts"]
    model: str
    """Fingerprint of the encoder."""
    device: str
    """Type of the device that encodes: its arithmetic differs from another's."""
    batch: int
    corpus: str
    """Digest of the corpus."""
    dimension: int
    settings: Mapping[str, int | str | None]
    """How texts are cut."""
    format: int = FORMAT
    complete: bool = False


class Vectors(NamedTuple):
    """Complete vectors of a corpus."""

    doc_ids: list[str]
    chunks: npt.NDArray[np.float16]
    """Unit vectors, a read-only memory map ``[c, d]``; one a document when they are of abstracts."""
    owner: npt.NDArray[np.int64]
    """For each vector the position of its document in ``doc_ids``, ``[c]``."""


class _Group(NamedTuple):
    """A line of ``documents.jsonl``."""

    end: int
    """Position of the next line, in bytes."""
    documents: list[tuple[str, int]]


class VectorWriter:
    """Appends groups of documents to a folder. Use it as a context manager; one process at a time.

    What an earlier process has left is kept up to the last group that is whole; half-written tails are cut off. The
    caller goes on behind the first ``documents`` documents and calls ``finish`` at the end.

    Raises:
        UserError: the folder holds vectors made otherwise, is damaged, in use or cannot be written.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self._manifest = folder, manifest
        with contextlib.ExitStack() as files, _told(folder):
            folder.mkdir(parents=True, exist_ok=True)
            # Locked first: of two processes that start at once only one may look and write.
            self._vectors: IO[bytes] = files.enter_context(open(folder / VECTORS, "ab", buffering=0))
            self._lock()
            self.complete = self._matched().complete
            self._documents: IO[bytes] = files.enter_context(open(folder / DOCUMENTS, "ab", buffering=0))
            self.documents = self._cut_tails()
            self._files = files.pop_all()

    def append(self, doc_ids: Sequence[str], counts: Sequence[int], vectors: npt.NDArray[np.floating]) -> None:
        """Write one group; when this returns it survives a kill.

        Args:
            doc_ids: the next documents of the corpus.
            counts: vectors of each of them.
            vectors: one below the other, stored as float16 as in the paper, ``[sum(counts), dimension]``.

        Raises:
            ValueError: shapes disagree, a value is not finite in float16, or all is finished.
            UserError: the disk is full; what was written before is kept.
        """
        with np.errstate(over="ignore"):  # told below
            half = vectors.astype("<f2")
        if self.complete or len(doc_ids) != len(counts) or half.shape != (sum(counts), self._manifest.dimension):
            raise ValueError(f"{len(doc_ids)} documents, {len(counts)} counts and vectors {half.shape} do not fit")
        if not np.isfinite(half).all():
            raise ValueError("a vector holds a value that is not finite in float16")
        line = json.dumps([[doc_id, int(count)] for doc_id, count in zip(doc_ids, counts)]) + "\n"
        with _told(self.folder):
            _write(self._vectors, half.tobytes())
            # The line must not reach the disk before what it speaks of.
            os.fsync(self._vectors.fileno())
            _write(self._documents, line.encode("ascii"))
        self.documents += len(doc_ids)

    def finish(self) -> None:
        """Declare the vectors complete; only then can they be opened.

        Raises:
            UserError: the manifest cannot be written.
        """
        with _told(self.folder):
            os.fsync(self._documents.fileno())
            _write_manifest(self.folder, replace(self._manifest, complete=True))
        self.complete = True

    def _lock(self) -> None:
        try:
            fcntl.flock(self._vectors, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            raise UserError(
                f"the vectors are in use, or their file system has no locks ({e.strerror})",
                "wait for the other run, or choose a folder on a local disk",
                self.folder,
            ) from e

    def _matched(self) -> Manifest:
        """The folder's manifest, written if the folder is new."""
        if not (self.folder / MANIFEST).exists():
            if (self.folder / DOCUMENTS).exists():
                raise UserError("holds documents but no manifest", "choose another folder", self.folder)
            self._vectors.truncate(0)
            _write_manifest(self.folder, self._manifest)
        return _check(self.folder, self._manifest)

    def _cut_tails(self) -> int:
        """Leave only whole groups in both files; the number of their documents."""
        width = 2 * self._manifest.dimension
        available = (self.folder / VECTORS).stat().st_size // width
        end = documents = rows = 0
        for group in _groups(self.folder / DOCUMENTS):
            more = sum(count for _, count in group.documents)
            if rows + more > available:
                break
            end, documents, rows = group.end, documents + len(group.documents), rows + more
        if not self.complete:
            self._documents.truncate(end)
            self._vectors.truncate(rows * width)
        return documents

    def close(self) -> None:
        """Close the files and let go of the lock."""
        self._files.close()

    def __enter__(self) -> "VectorWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_vectors(folder: Path, manifest: Manifest) -> Vectors:
    """The complete vectors of a folder.

    Raises:
        UserError: there are none, they are not complete, were made otherwise, or are damaged.
    """
    if not _check(folder, manifest).complete:
        raise UserError("the vectors are not complete", "build the index again: it goes on where it stopped", folder)
    documents = [document for group in _groups(folder / DOCUMENTS) for document in group.documents]
    counts = np.array([count for _, count in documents], np.int64)
    shape, width = (int(counts.sum()), manifest.dimension), 2 * manifest.dimension
    path = folder / VECTORS
    with _told(folder):
        size = path.stat().st_size
        if size != shape[0] * width:
            raise UserError(f"holds {size} bytes, not {shape[0] * width}", "delete the folder and build it again", path)
        # An empty file cannot be mapped.
        chunks = np.memmap(path, "<f2", "r", shape=shape) if size else np.empty(shape, "<f2")
    return Vectors([doc_id for doc_id, _ in documents], chunks, np.repeat(np.arange(len(counts)), counts))


def read_manifest(folder: Path) -> Manifest:
    """What the vectors of a folder were made of.

    Raises:
        UserError: there are no vectors, or they are of another format.
    """
    path = folder / MANIFEST
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        found = data["format"]
        if found == FORMAT:
            return Manifest(**data)
    except FileNotFoundError as e:
        raise UserError("there are no vectors here", "build the index first", folder) from e
    except (OSError, ValueError, TypeError, KeyError) as e:
        raise UserError(f"not a manifest of vectors: {e}", "delete the folder and build it again", path) from e
    raise UserError(f"the vectors have format {found}, this version reads {FORMAT}", "build them again", path)


def _check(folder: Path, wanted: Manifest) -> Manifest:
    """The manifest of the folder, if it is the wanted one but for its completeness."""
    found = read_manifest(folder)
    here, there = _fields(wanted), _fields(found)
    for name in sorted(here.keys() | there.keys()):
        if here.get(name) != there.get(name):
            what = f"the vectors were made with {name} {there.get(name)!r}, wanted is {here.get(name)!r}"
            raise UserError(what, _REBUILD, folder)
    return found


def _fields(manifest: Manifest) -> dict[str, Any]:
    fields = asdict(manifest)
    settings = fields.pop("settings")
    del fields["complete"]
    return {**fields, **settings}


def _groups(path: Path) -> Iterator[_Group]:
    """The whole lines of ``documents.jsonl``; what follows the first that is not whole is not read."""
    end = 0
    with _told(path), open(path, "rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            end += len(line)
            try:
                documents = [(str(doc_id), int(count)) for doc_id, count in json.loads(line)]
            except (ValueError, TypeError) as e:
                raise UserError(f"not a group of documents: {e}", "delete the folder, build it again", path) from e
            yield _Group(end, documents)


def _write(file: IO[bytes], data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _write_manifest(folder: Path, manifest: Manifest) -> None:
    staged = folder / f"{MANIFEST}.new"
    with open(staged, "w", encoding="utf-8") as file:
        file.write(json.dumps(asdict(manifest), indent=1, sort_keys=True) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(staged, folder / MANIFEST)


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Failures of the file system as errors that say what to do."""
    try:
        yield
    except OSError as e:
        raise UserError(
            f"the vectors cannot be kept: {e.strerror}", "make room or choose another folder, and run again", path
        ) from e
