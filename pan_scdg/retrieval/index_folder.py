"""A folder that is whole or absent, and unchanged since it was written."""

import json
import shutil
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from pan_scdg.errors import UserError
from pan_scdg.own_files import InnerName, OwnRecord, open_own, read_record, refuse_link

Engine = Literal["impact", "fts5", "terrier", "ivf"]
LAYOUTS: dict[Engine, int] = {"impact": 4, "fts5": 2, "terrier": 2, "ivf": 1}
"""Raised when the files of an engine's index change their meaning: a folder of another layout is refused."""
MANIFEST = "manifest.json"
REDO = "delete it and run again"
_MANIFEST_BYTES, _LINE_BYTES = 1 << 20, 1 << 14
_PIECE = 1 << 22

Count = Annotated[int, Field(ge=0, lt=1 << 48)]


class FileSeal(OwnRecord):
    """Size and checksum of a file: CRC-32 is enough against accidents, and as fast as the disk."""

    size: Count
    crc32: Annotated[int, Field(ge=0, lt=1 << 32)]


class Seal(OwnRecord):
    """The manifest of an index: its origin, its size, and all its files."""

    engine: Engine
    layout: int
    version: str
    """Of the engine's rules."""
    documents: Count
    terms: Count
    files: Annotated[dict[InnerName, FileSeal], Field(max_length=64)]


@contextmanager
def stage_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder to write an index into; it is renamed to ``folder`` when the block ends without an error.

    Raises:
        UserError: it cannot be written.
    """
    part = folder.with_name(folder.name + ".part")
    try:
        if part.is_symlink() or part.is_file():
            part.unlink()
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        yield part
        if folder.exists():
            shutil.rmtree(folder)
        part.rename(folder)
    except (OSError, sqlite3.OperationalError) as e:
        raise UserError(
            f"the search index cannot be written: {e}", "check that its folder is writable and has free space", folder
        ) from e
    finally:
        shutil.rmtree(part, ignore_errors=True)


def write_seal(folder: Path, engine: Engine, version: str, documents: int, terms: int = 0) -> None:
    """Write the manifest of a staged folder that holds everything else."""
    files = {
        name: FileSeal(size=(folder / name).stat().st_size, crc32=_compute_checksum(folder / name))
        for name in _list_files(folder)
    }
    seal = Seal(engine=engine, layout=LAYOUTS[engine], version=version, documents=documents, terms=terms, files=files)
    with open(folder / MANIFEST, "x", encoding="ascii") as file:
        file.write(json.dumps(seal.model_dump(), indent=1))


def check_seal(folder: Path, engine: Engine, version: str) -> Seal:
    """Return the manifest of an index after reading every file of it once, which also brings them into the cache.

    Raises:
        UserError: it is missing, or of another engine or version, or a file is missing, new or changed.
    """
    refuse_link(folder)
    seal = read_record(folder / MANIFEST, Seal, REDO, _MANIFEST_BYTES)
    if seal is None:
        raise UserError("not a search index: it has no manifest", REDO, folder)
    made_by = f"{seal.engine} {seal.layout} {seal.version[:80]}"
    if made_by != (wanted := f"{engine} {LAYOUTS[engine]} {version}"):
        raise UserError(f"a search index of another kind or layout: {made_by}, not {wanted}", REDO, folder)
    found = set(_list_files(folder))
    if differ := sorted(found ^ seal.files.keys()):
        what = "is missing" if differ[0] in seal.files else "does not belong here"
        raise UserError(f"a damaged search index: {differ[0]!r} {what}", REDO, folder)
    for name, known in seal.files.items():
        path = folder / name
        if path.lstat().st_size != known.size or _compute_checksum(path) != known.crc32:
            raise UserError("damaged: not as it was written", REDO, path)
    return seal


def read_ids(path: Path, count: int) -> list[str]:
    """Return the document ids in a file with a JSON string a line.

    Raises:
        UserError: these are not ``count`` different ids.
    """
    ids: dict[str, None] = {}
    with open_own(path) as file:
        while line := file.readline(_LINE_BYTES):
            try:
                doc_id = json.loads(line.decode("ascii"))
            except (ValueError, RecursionError) as e:
                raise UserError(f"damaged: line {len(ids) + 1} is not a document's id", REDO, path) from e
            if not isinstance(doc_id, str) or doc_id in ids:
                raise UserError(f"damaged: line {len(ids) + 1} is not a new document's id", REDO, path)
            ids[doc_id] = None
    if len(ids) != count:
        raise UserError(f"damaged: {len(ids)} documents instead of {count}", REDO, path)
    return list(ids)


def read_array(path: Path, kinds: tuple[str, ...]) -> npt.NDArray[Any]:
    """Return an array of one of these types from a ``.npy`` file, memory-mapped unless it is empty.

    Raises:
        UserError: it has another type, or another size than its header says.
    """
    with open_own(path) as file:
        try:
            # NumPy's stubs leave these two without types.
            if np.lib.format.read_magic(file) != (1, 0):  # type: ignore[no-untyped-call]
                raise ValueError("another version of the format")
            header: tuple[tuple[int, ...], bool, np.dtype[Any]] = np.lib.format.read_array_header_1_0(file)  # type: ignore[no-untyped-call]
        except (ValueError, SyntaxError, TokenError, RecursionError, MemoryError) as e:
            raise UserError(f"damaged: {str(e)[:200]}", REDO, path) from e
        shape, by_column, kind = header
        begin, size = file.tell(), file.seek(0, 2)
        count = 1
        for length in shape:
            count *= length
        if kind.str not in kinds or by_column or min(shape, default=0) < 0 or size != begin + count * kind.itemsize:
            raise UserError("damaged: another type or size than an index has", REDO, path)
        # An empty array cannot be mapped.
        return np.asarray(np.memmap(file, kind, "r", begin, shape) if count else np.empty(shape, kind))


def _list_files(folder: Path) -> list[str]:
    """Return the names of all files except the manifest, including those in folders."""
    paths = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(name for path in paths if (name := path.relative_to(folder).as_posix()) != MANIFEST)


def _compute_checksum(path: Path) -> int:
    """Return the CRC-32 of a file."""
    value = 0
    with open_own(path) as file:
        while piece := file.read(_PIECE):
            value = zlib.crc32(piece, value)
    return value
