"""Store results on disk as they are computed, so that a stopped run resumes.

One SQLite file (write-ahead log) maps keys to bytes. A key is the digest of everything the value depends on: the
texts, the settings of the stage and the fingerprint of the model's weights. A stored value is therefore never served
for another text, setting or model, and a state folder may be shared by several inputs and profiles.
"""

import contextlib
import hashlib
import io
import json
import math
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter

from pan_scdg.errors import UserError
from pan_scdg.locks import lock_folder
from pan_scdg.own_files import EXACT, parse_as

ARITHMETIC = 5
"""Version of the computations, part of every key and file; increased if the same settings give other values."""
ENTRIES = "entries (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
FILES = ("scores.sqlite", "scores.sqlite-wal", "scores.sqlite-shm", "scores.sqlite-journal")
LARGEST = 256 << 20
"""Largest size of a value in bytes, ten times that of the gains of a million tokens."""
NOTES = TypeAdapter(list[str], config=EXACT)
_ARRAY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<|][fiu][1248])', 'fortran_order': (False|True), "
    rb"'shape': \(((?:\d{1,12}, ?)*(?:\d{1,12})?)\), \} *\n",
    re.DOTALL,
)

_VALUE = f"CASE WHEN length(value) <= {LARGEST} THEN value END"

Value = TypeVar("Value")


def make_key(kind: str, parts: Mapping[str, Any]) -> str:
    """Return the key of a value of this ``kind`` that depends on ``parts`` (JSON values) and on nothing else."""
    canonical = json.dumps({"arithmetic": ARITHMETIC, "kind": kind, **parts}, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def pack_array(array: npt.NDArray[Any]) -> bytes:
    """Return the bytes of ``array`` in NumPy's own file format."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def unpack_array(data: bytes) -> npt.NDArray[Any]:
    """Return the array that `pack_array` packed.

    Raises:
        ValueError: these are other bytes.
    """
    header = _ARRAY.match(data)
    if header is None:
        raise ValueError("not a stored array")
    shape = tuple(int(size) for size in re.findall(rb"\d+", header[3]))
    kind, body = np.dtype(header[1].decode()), data[header.end() :]
    if math.prod(shape) * kind.itemsize != len(body):  # before memory is asked for
        raise ValueError(f"an array of the shape {shape} in {len(body)} bytes")
    return np.frombuffer(body, kind).reshape(shape, order="F" if header[2] == b"True" else "C").copy(order="K")


def unpack_floats(data: bytes, dimensions: int) -> npt.NDArray[Any]:
    """Return the array of finite floats that `pack_array` packed.

    Raises:
        ValueError: these are other bytes, other numbers, or of other ``dimensions``.
    """
    array = unpack_array(data)
    if array.dtype.kind != "f" or array.ndim != dimensions or not np.isfinite(array).all():
        raise ValueError(f"not an array of finite floats with {dimensions} dimensions")
    return array


class Store(contextlib.AbstractContextManager["Store"]):
    """A key-value file. Use it as a context manager; one process at a time.

    Raises:
        UserError: the folder cannot be written, holds a damaged file or one of another version, is in use by another
            process, or lies on a file system where SQLite's write-ahead log does not work.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.used: dict[str, None] = {}
        """Keys of the scores that the job has read or stored, in this order; see `use`."""
        self._file = folder / "scores.sqlite"
        self._lock = contextlib.ExitStack()
        self._lock.enter_context(lock_folder(folder))
        try:
            self._refuse_planted()
            self._db = self._open()
        except UserError:
            self._lock.close()
            raise
        except sqlite3.Error as e:
            self._lock.close()
            raise UserError(
                f"the state cannot be used: {e}", "delete it, or choose a --state folder on a local disk", self._file
            ) from e

    def _refuse_planted(self) -> None:
        """Raise UserError if a file of the store is a link or a pipe, which SQLite would follow or block on."""
        for path in (self.folder / name for name in FILES):
            if path.is_symlink() or (path.exists() and not path.is_file()):
                raise UserError("not a regular file", "remove it", path)

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._file, isolation_level=None)
        db.execute("PRAGMA trusted_schema=OFF")
        mode = db.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":
            db.close()
            raise sqlite3.OperationalError(f"write-ahead log refused, journal mode is {mode}")
        db.execute("PRAGMA synchronous=NORMAL")
        try:
            _make_table(db)
            _check_tables(db, self._file)
            if _find_version(db) != ARITHMETIC:
                remedy = "choose a new --state folder, or delete this one"
                raise UserError("was written by another version", remedy, self.folder)
        except (UserError, sqlite3.Error):
            db.close()
            raise
        # a write at the start, not after hours, shows that the log works on this file system
        db.execute("INSERT OR REPLACE INTO entries VALUES ('opened', x'00')")
        db.execute("SELECT count(*) FROM (SELECT key FROM entries LIMIT 1)").fetchone()
        return db

    def get(self, key: str) -> bytes | None:
        """Return the stored value, or None.

        Raises:
            UserError: the file is damaged.
        """
        try:
            row = self._db.execute(f"SELECT {_VALUE} FROM entries WHERE key = ?", (key,)).fetchone()
        except sqlite3.Error as e:
            raise UserError(f"the state cannot be read: {e}", "delete it and run again", self._file) from e
        if row is not None and not isinstance(row[0], bytes):
            raise self._describe_damage(key, "not of bytes, or too large")
        return None if row is None else row[0]

    def read(self, key: str, parse: Callable[[bytes], Value]) -> Value | None:
        """Return the stored value as ``parse`` reads it, or None.

        Raises:
            UserError: the file is damaged, or ``parse`` raised a ValueError.
        """
        data = self.get(key)
        try:
            return None if data is None else parse(data)
        except ValueError as e:
            raise self._describe_damage(key, str(e).partition("\n")[0]) from e

    def _describe_damage(self, key: str, why: str) -> UserError:
        return UserError(f"the stored value {key[:80]!r} is damaged: {why}", "delete it and run again", self._file)

    def put(self, items: Iterable[tuple[str, bytes]]) -> None:
        """Store a group of values in one transaction.

        Raises:
            UserError: the disk is full or the file is damaged; what was stored before is kept.
        """
        try:
            with self._open_transaction():
                self._db.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", items)
        except sqlite3.Error as e:
            raise UserError(f"cannot store a result: {e}", "choose another --state folder", self._file) from e

    def use(self, keys: Iterable[str]) -> None:
        """Count these scores among those that the job is made of, which `export` writes."""
        self.used.update(dict.fromkeys(keys))

    def export(self, path: Path, endings: Sequence[str] = ("",)) -> None:
        """Write the used scores to a new file; the same entries give the same bytes.

        Args:
            path: the file.
            endings: what the keys of the entries of a score end in; those that exist are written.

        Raises:
            UserError: the disk is full, or the store is damaged.
        """
        path.unlink(missing_ok=True)
        try:
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
                # an incomplete file is never published, so that it needs no journal
                db.execute("PRAGMA journal_mode=OFF")
                _make_table(db)
                db.execute("BEGIN")
                keys = sorted(key + ending for key in self.used for ending in endings)
                found = ((key, self.get(key)) for key in keys)
                db.executemany("INSERT INTO entries VALUES (?, ?)", (item for item in found if item[1] is not None))
                db.execute("COMMIT")
        except sqlite3.Error as e:
            raise UserError(f"cannot be written: {e}", "choose another --output", path) from e

    def absorb(self, path: Path) -> None:
        """Add all entries of a file that `export` wrote, one of a shard; the file is only read.

        Raises:
            UserError: it is damaged or was written by another version, or the disk is full.
        """
        try:
            with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?immutable=1", uri=True)) as db:
                db.execute("PRAGMA trusted_schema=OFF")
                _check_tables(db, path)
                if _find_version(db) != ARITHMETIC:
                    raise UserError("was written by another version", "run the shard again with --overwrite", path)
                entries = db.execute(f"SELECT key, {_VALUE} FROM entries")
                while some := entries.fetchmany(256):
                    if not all(isinstance(key, str) and isinstance(value, bytes) for key, value in some):
                        raise UserError("contains something other than stored values", "make this file again", path)
                    self.put(some)
        except sqlite3.Error as e:
            raise UserError(f"cannot be read: {e}", "make this file again", path) from e

    def note(self, key: str, lines: Sequence[str]) -> list[tuple[str, bytes]]:
        """Return the entries to `put` with the value of ``key``, so that `read_notes` returns these lines."""
        former = self.get(f"{key}/notes")
        return [(f"{key}/notes", json.dumps(list(lines)).encode())] if lines or former is not None else []

    def read_notes(self, keys: Iterable[str]) -> list[str]:
        """Return the distinct lines that were noted beside the values of these keys, in their order."""
        found = (self.read(f"{key}/notes", lambda data: parse_as(data, NOTES)) for key in keys)
        return list(dict.fromkeys(line for lines in found for line in lines or ()))

    @contextlib.contextmanager
    def _open_transaction(self) -> Iterator[None]:
        """Keep all that a block writes, or nothing if it raises."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._db.in_transaction:  # a full disk has ended it already
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def close(self) -> None:
        """Close the file and release the lock."""
        self._db.close()
        self._lock.close()

    def __exit__(self, *_: object) -> None:
        self.close()


class MemoryStore(Store):
    """A store without a file, for results that are kept nowhere."""

    def __init__(self) -> None:
        self.folder, self.used, self._entries = Path(), {}, dict[str, bytes]()

    def get(self, key: str) -> bytes | None:
        """Return the stored value, or None."""
        return self._entries.get(key)

    def put(self, items: Iterable[tuple[str, bytes]]) -> None:
        """Store a group of values."""
        self._entries.update(items)

    def close(self) -> None:
        """Forget all values."""
        self.used, self._entries = {}, {}


def _make_table(db: sqlite3.Connection) -> None:
    """Create the table of a new file and note the version in it, both or neither; leave another file as it is."""
    db.execute("BEGIN IMMEDIATE")
    if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        db.execute(f"CREATE TABLE {ENTRIES}")
        db.execute(f"PRAGMA user_version={ARITHMETIC}")
    db.execute("COMMIT")


def _find_version(db: sqlite3.Connection) -> int:
    """Return the version that wrote a file, 0 if it noted none."""
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    return version


def _check_tables(db: sqlite3.Connection, path: Path) -> None:
    """Raise UserError unless a file contains the store's table and nothing else: a view or a trigger could run code."""
    if [sql for (sql,) in db.execute("SELECT sql FROM sqlite_master")] != [f"CREATE TABLE {ENTRIES}"]:
        raise UserError("contains tables that this program does not make", "delete it and run again", path)
