"""The vectors of a corpus on disk: written as they are encoded, resumed after a kill, read through a memory map.

A folder holds three files. ``vectors.f16`` is the bare matrix, little-endian float16 row after row: unlike an ``.npy``
file it has no header with the number of rows, which is not known before the end, so it can grow and be cut at any row.
``documents.jsonl`` has one line a group of documents, their ids and numbers of vectors and a checksum of these and the
vectors, written when the vectors of the group are safely on disk. ``manifest.json`` says what the vectors depend on
and, when they are complete, has a checksum of ``documents.jsonl``. Vectors depend on the batch they were encoded in,
hence the group is what is kept or lost as a whole, and an interruption cannot change the result.

Checksums are CRC-32, which finds what disks and accidents do, at .7 seconds a GiB (BLAKE2b: 2.2, SHA-256: 1.5).
"""

import contextlib
import json
import os
import zlib
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserError
from pan_scdg.locks import wait_for_lock
from pan_scdg.own_files import open_own, open_to_append, refuse_link
from pan_scdg.retrieval.dense.nearest import Rows, Stacked, list_pieces
from pan_scdg.retrieval.dense.vector_files import (
    DOCUMENTS,
    MANIFEST,
    REBUILD,
    VECTORS,
    CountedDocument,
    Group,
    Manifest,
    Sealed,
    check_manifest,
    compute_checksum,
    explain_errors,
    read_groups,
    verify_vectors,
    write_manifest,
)


class Vectors(NamedTuple):
    """Complete vectors of a corpus."""

    doc_ids: list[str]
    chunks: Rows
    """Unit vectors, memory maps ``[c, d]`` that never write to the file; one a document if they are of abstracts."""
    owner: npt.NDArray[np.int64]
    """For each vector the position of its document in ``doc_ids``, ``[c]``."""


class VectorWriter(contextlib.AbstractContextManager["VectorWriter"]):
    """Appends groups of documents to a folder. Use it as a context manager; one process at a time.

    What an earlier process has written is kept up to the last complete group; partly written tails are cut off. The
    caller continues after the first ``documents`` documents and calls ``finish`` at the end.

    Raises:
        UserError: the folder holds vectors made with other settings, is damaged, in use or cannot be written.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        with contextlib.ExitStack() as files, explain_errors(folder):
            refuse_link(folder)
            folder.mkdir(parents=True, exist_ok=True)
            # Locked first: of two processes that start at once only one may look and write.
            self._vectors: IO[bytes] = files.enter_context(open_to_append(folder / VECTORS))
            self._lock()
            sealed = self._load_manifest().sealed
            self.complete = sealed is not None
            self._documents: IO[bytes] = files.enter_context(open_to_append(folder / DOCUMENTS))
            # Complete vectors are read and checked by whoever opens them.
            self.documents, self._read = self._cut_tails() if sealed is None else (sealed.documents, sealed.crc32)
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
        with np.errstate(over="ignore"):  # refused below
            half = vectors.astype("<f2")
        if self.complete or len(doc_ids) != len(counts) or half.shape != (sum(counts), self.manifest.dimension):
            raise ValueError(f"{len(doc_ids)} documents, {len(counts)} counts and vectors {half.shape} do not fit")
        if not np.isfinite(half).all():
            raise ValueError("a vector holds a value that is not finite in float16")
        documents = [CountedDocument(doc_id, int(count)) for doc_id, count in zip(doc_ids, counts)]
        data = half.tobytes()
        checksum = zlib.crc32(data, compute_checksum(documents))
        line = (json.dumps({"documents": documents, "crc32": checksum}) + "\n").encode("ascii")
        with explain_errors(self.folder):
            _write(self._vectors, data)
            # The line must not reach the disk before what it speaks of.
            os.fsync(self._vectors.fileno())
            _write(self._documents, line)
        self.documents += len(doc_ids)
        self._read = zlib.crc32(line, self._read)

    def finish(self) -> None:
        """Declare the vectors complete; only then can they be opened.

        Raises:
            UserError: the manifest cannot be written.
        """
        with explain_errors(self.folder):
            os.fsync(self._documents.fileno())
            sealed = Sealed(documents=self.documents, crc32=self._read)
            write_manifest(self.folder, self.manifest.model_copy(update={"sealed": sealed}))
        self.complete = True

    def _lock(self) -> None:
        try:
            wait_for_lock(self._vectors.fileno())
        except OSError as e:
            raise UserError(
                f"the vectors are in use, or their file system has no locks ({e.strerror})",
                "wait for the other run, or choose a folder on a local disk",
                self.folder,
            ) from e

    def _load_manifest(self) -> Manifest:
        """Return the folder's manifest; write it first if the folder is new."""
        if not os.path.lexists(self.folder / MANIFEST):
            if os.path.lexists(self.folder / DOCUMENTS):
                raise UserError("holds documents but no manifest", "choose another folder", self.folder)
            self._vectors.truncate(0)
            write_manifest(self.folder, self.manifest)
        return check_manifest(self.folder, self.manifest)

    def _cut_tails(self) -> tuple[int, int]:
        """Leave only whole groups in both files; return the number of their documents and the checksum of their lines.

        Raises:
            UserError: a whole group is damaged.
        """
        width, path = 2 * self.manifest.dimension, self.folder / VECTORS
        available, rows, whole = path.stat().st_size // width, 0, list[Group]()
        for group in read_groups(self.folder / DOCUMENTS, self.manifest):
            if rows + group.rows > available:
                break
            rows += group.rows
            whole.append(group)
        with open_own(path) as file:
            verify_vectors(file, path, whole, width)
        self._documents.truncate(whole[-1].end if whole else 0)
        self._vectors.truncate(rows * width)
        return sum(len(group.documents) for group in whole), whole[-1].read if whole else 0

    def close(self) -> None:
        """Close the files and release the lock."""
        self._files.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def open_vectors(folder: Path, manifest: Manifest) -> Vectors:
    """Return the complete vectors of a folder; they are read once and compared with their checksums.

    Raises:
        UserError: they are missing, not complete, made with other settings, or damaged.
    """
    refuse_link(folder)
    sealed = check_manifest(folder, manifest).sealed
    if sealed is None:
        raise UserError("the vectors are not complete", "build the index again: it resumes where it stopped", folder)
    groups = list(read_groups(folder / DOCUMENTS, manifest))
    documents = [document for group in groups for document in group.documents]
    found = Sealed(documents=len(documents), crc32=groups[-1].read if groups else 0)
    if found != sealed or len({document.doc_id for document in documents}) < len(documents):
        raise UserError("damaged: these are not the documents that were encoded", REBUILD, folder / DOCUMENTS)
    counts = np.array([document.vectors for document in documents], np.int64)
    shape, width = (int(counts.sum()), manifest.dimension), 2 * manifest.dimension
    path = folder / VECTORS
    with explain_errors(folder), open_own(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size != shape[0] * width:
            raise UserError(f"holds {size} bytes, not {shape[0] * width}", REBUILD, path)
        verify_vectors(file, path, groups, width)
        # An empty file cannot be mapped.
        chunks = np.memmap(file, "<f2", "c", shape=shape) if size else np.empty(shape, "<f2")
    return Vectors([document.doc_id for document in documents], chunks, np.repeat(np.arange(len(counts)), counts))


def stack_vectors(shards: Sequence[Vectors]) -> Vectors:
    """Return the vectors of several shards as those of one corpus, the documents of the first shard first."""
    if len(shards) == 1:
        return shards[0]
    firsts = accumulate((len(shard.doc_ids) for shard in shards), initial=0)
    owner = np.concatenate([first + shard.owner for first, shard in zip(firsts, shards)])
    ids = [doc_id for shard in shards for doc_id in shard.doc_ids]
    return Vectors(ids, Stacked([piece for shard in shards for _, piece in list_pieces(shard.chunks)]), owner)


def _write(file: IO[bytes], data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
