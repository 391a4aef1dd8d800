"""The files of a folder of vectors: their schemas, and their checks."""

import contextlib
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, NamedTuple

import numpy as np
from pydantic import Field

from pan_scdg.errors import UserError
from pan_scdg.own_files import OwnRecord, open_own, parse_record, read_record, write_atomically

FORMAT = 3
"""Raised when the files of a folder change their meaning."""
MANIFEST, VECTORS, DOCUMENTS = "manifest.json", "vectors.f16", "documents.jsonl"
_OTHER = "use the profile and the corpus that it was built with, or build it again in another folder"
REBUILD = "delete the folder and build it again"
_LINE_BYTES, _MANIFEST_BYTES = 16 << 20, 1 << 20
_PIECE = 1 << 22
_EXPONENT = np.uint16(0x7C00)
"""All of these bits are set in a float16 that is not finite."""

Checksum = Annotated[int, Field(ge=0, lt=1 << 32)]


class Sealed(OwnRecord):
    """Complete vectors: how many documents they are of, and the checksum of ``documents.jsonl``."""

    documents: Annotated[int, Field(ge=0, lt=1 << 40)]
    crc32: Checksum


class Manifest(OwnRecord):
    """``manifest.json``: all that the vectors depend on, and a seal if they are complete."""

    kind: Literal["chunks", "abstracts"]
    model: str
    """Fingerprint of the encoder."""
    device: str
    """Type of the device that encodes: its arithmetic differs from another's."""
    batch: int
    corpus: str
    """Digest of the corpus."""
    dimension: Annotated[int, Field(ge=1, le=1 << 20)]
    settings: dict[str, int | str | None]
    """The settings of cutting texts."""
    format: int
    sealed: Sealed | None
    """None: not complete."""

    def list_fields(self) -> dict[str, int | str | None]:
        """Return all that the vectors depend on, by name."""
        fields = self.model_dump(exclude={"settings", "sealed"})
        return {**fields, **self.settings}


class CountedDocument(NamedTuple):
    """A document and how many vectors it has."""

    doc_id: str
    vectors: Annotated[int, Field(ge=0, le=1 << 20)]


class _Line(OwnRecord):
    """A line of ``documents.jsonl``."""

    documents: list[CountedDocument]
    crc32: Checksum


class Group(NamedTuple):
    """A whole line of ``documents.jsonl``."""

    end: int
    """Position of the next line, in bytes."""
    read: int
    """Checksum of all lines up to there."""
    documents: list[CountedDocument]
    crc32: int

    @property
    def rows(self) -> int:
        """Return the number of vectors."""
        return sum(document.vectors for document in self.documents)


def check_manifest(folder: Path, wanted: Manifest) -> Manifest:
    """Return the manifest of a folder of vectors, if it is the wanted one but for its completeness.

    Raises:
        UserError: the manifest is missing or damaged, or a field differs; the text names the field.
    """
    found = read_record(folder / MANIFEST, Manifest, REBUILD, _MANIFEST_BYTES)
    if found is None:
        raise UserError("no vectors were found", "build the index first", folder)
    here, there = wanted.list_fields(), found.list_fields()
    for name in sorted(here.keys() | there.keys()):
        if here.get(name) != there.get(name):
            what = f"the vectors were made with {name} {there.get(name)!r}, expected {here.get(name)!r}"
            raise UserError(what, _OTHER, folder)
    return found


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a folder of vectors, durably and in one step."""
    write_atomically(folder / MANIFEST, json.dumps(manifest.model_dump(), indent=1, sort_keys=True) + "\n")


def read_groups(path: Path, manifest: Manifest) -> Iterator[Group]:
    """Yield the whole lines of ``documents.jsonl``; what follows the first that is not whole is not read.

    Raises:
        UserError: a whole line is not a group of documents.
    """
    chunks = manifest.settings.get("chunks")
    most = chunks if isinstance(chunks, int) else 1
    end = read = 0
    with explain_errors(path), open_own(path) as file:
        while (line := file.readline(_LINE_BYTES)).endswith(b"\n") or len(line) == _LINE_BYTES:
            end, read = end + len(line), zlib.crc32(line, read)
            try:
                group = parse_record(line.decode("ascii"), _Line)
            except ValueError as e:
                raise UserError(f"damaged: not a group of documents: {e}", REBUILD, path) from e
            if any(document.vectors > most for document in group.documents):
                raise UserError(f"damaged: a document with more than {most} vectors", REBUILD, path)
            yield Group(end, read, group.documents, group.crc32)


def compute_checksum(documents: Sequence[CountedDocument]) -> int:
    """Return the checksum of ids and numbers of vectors, with which that of a group begins."""
    return zlib.crc32(json.dumps(documents).encode("ascii"))


def verify_vectors(file: BinaryIO, path: Path, groups: Iterable[Group], width: int) -> None:
    """Read the vectors of groups from the start of a file and compare them with their checksums.

    Raises:
        UserError: they differ, or a value is not finite.
    """
    piece = memoryview(bytearray(_PIECE))
    for group in groups:
        checksum, rest = compute_checksum(group.documents), group.rows * width
        while rest:
            size = file.readinto(piece[: min(rest, _PIECE)])  # type: ignore[attr-defined]
            if not size or size % 2 or int((np.frombuffer(piece[:size], np.uint16) & _EXPONENT).max()) == _EXPONENT:
                raise UserError("damaged: a vector is cut off, or not finite", REBUILD, path)
            checksum, rest = zlib.crc32(piece[:size], checksum), rest - size
        if checksum != group.crc32:
            first = group.documents[0].doc_id if group.documents else ""
            raise UserError(f"damaged: not the vectors that were encoded, from document {first!r} on", REBUILD, path)


@contextlib.contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Raise UserError with a remedy for an error of the file system."""
    try:
        yield
    except OSError as e:
        raise UserError(
            f"the vectors cannot be written: {e.strerror}",
            "free some space or choose another folder, and run again",
            path,
        ) from e
