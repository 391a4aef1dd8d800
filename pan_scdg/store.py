"""What has been computed so far, on disk, so that a run that was stopped goes on where it was.

One SQLite file (write-ahead log) maps keys to bytes. A key is the digest of everything the value depends on: the
texts, the settings of the stage and the fingerprint of the model's weights. A stored value is therefore never served
for another text, setting or model, and a state folder may be shared by several inputs and profiles.
"""

import contextlib
import fcntl
import hashlib
import io
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserError

ARITHMETIC = 2
"""Raised when the code computes something else than before under the same settings; part of every key."""
TABLE = "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"


def key_of(kind: str, parts: Mapping[str, Any]) -> str:
    """The key of a value of this ``kind`` that depends on ``parts`` (JSON values) and on nothing else."""
    canonical = json.dumps({"arithmetic": ARITHMETIC, "kind": kind, **parts}, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def pack_array(array: npt.NDArray[Any]) -> bytes:
    """The bytes of ``array`` in NumPy's own file format."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def unpack_array(data: bytes) -> npt.NDArray[Any]:
    """The inverse of `pack_array`."""
    array: npt.NDArray[Any] = np.load(io.BytesIO(data), allow_pickle=False)
    return array


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Make ``folder`` if need be and keep other processes out of it.

    Raises:
        UserError: it cannot be written, another process is at work in it, or its file system has no locks.
    """
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(open(folder / "lock", "w"))
        except OSError as e:
            raise UserError(f"cannot write the state: {e.strerror}", "choose another --state folder", folder) from e
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            raise UserError("another run is using this state", "wait for it or choose another --state", folder) from e
        except OSError as e:
            raise UserError(
                f"the file system of the state has no file locks ({e.strerror})",
                "choose a --state folder on a local disk",
                folder,
            ) from e
        yield


class Store:
    """A key-value file. Use it as a context manager; one process at a time.

    Raises:
        UserError: the folder cannot be written, holds a damaged file, is in use by another process, or lies on a
            file system where SQLite's write-ahead log does not work.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / "scores.sqlite"
        self._lock = contextlib.ExitStack()
        self._lock.enter_context(locked_folder(folder))
        try:
            self._db = self._open()
        except sqlite3.Error as e:
            self._lock.close()
            raise UserError(
                f"the state cannot be used: {e}", "delete it, or choose a --state folder on a local disk", self._file
            ) from e

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._file, isolation_level=None)
        mode = db.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":
            db.close()
            raise sqlite3.OperationalError(f"write-ahead log refused, journal mode is {mode}")
        db.execute("PRAGMA synchronous=NORMAL")
        db.execute(TABLE)
        # a write now shows at the start, not after hours, that the log works on this file system
        db.execute("INSERT OR REPLACE INTO entries VALUES ('opened', x'00')")
        db.execute("SELECT count(*) FROM (SELECT key FROM entries LIMIT 1)").fetchone()
        return db

    def get(self, key: str) -> bytes | None:
        """The stored value, or None.

        Raises:
            UserError: the file is damaged.
        """
        try:
            row = self._db.execute("SELECT value FROM entries WHERE key = ?", (key,)).fetchone()
        except sqlite3.Error as e:
            raise UserError(f"the state cannot be read: {e}", "delete it and run again", self._file) from e
        return None if row is None else bytes(row[0])

    def put(self, items: Iterable[tuple[str, bytes]]) -> None:
        """Store a group of values: all of them or, if the process dies, none.

        Raises:
            UserError: the disk is full or the file is damaged; what was stored before is kept.
        """
        try:
            with self._transaction():
                self._db.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", items)
        except sqlite3.Error as e:
            raise UserError(
                f"cannot store a result: {e}", "make room on the disk; the same command goes on from here", self._file
            ) from e

    def export(self, keys: Iterable[str], path: Path) -> None:
        """Write the entries of these keys, those that there are, to a new file; the same entries give the same bytes.

        Raises:
            UserError: the disk is full, or the store is damaged.
        """
        path.unlink(missing_ok=True)
        try:
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
                # a file that is not whole is never published, so that nothing need be kept safe while it is written
                db.execute("PRAGMA journal_mode=OFF")
                db.execute(TABLE)
                db.execute("BEGIN")
                found = ((key, self.get(key)) for key in sorted(set(keys)))
                db.executemany("INSERT INTO entries VALUES (?, ?)", (item for item in found if item[1] is not None))
                db.execute("COMMIT")
        except sqlite3.Error as e:
            raise UserError(f"cannot be written: {e}", "make room on the disk and run again", path) from e

    def absorb(self, path: Path) -> None:
        """Take over all entries of a file that `export` wrote; the file is only read.

        Raises:
            UserError: it is damaged, or the disk is full.
        """
        try:
            with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?immutable=1", uri=True)) as db:
                entries = db.execute("SELECT key, value FROM entries")
                while some := entries.fetchmany(256):
                    self.put(some)
        except sqlite3.Error as e:
            raise UserError(f"cannot be read: {e}", "make this file again", path) from e

    def note(self, key: str, lines: Sequence[str]) -> list[tuple[str, bytes]]:
        """What to `put` with the value of ``key``, so that `notes` are these lines."""
        former = self.get(f"{key}/notes")
        return [(f"{key}/notes", json.dumps(list(lines)).encode())] if lines or former is not None else []

    def notes(self, keys: Iterable[str]) -> list[str]:
        """The distinct lines that were noted beside the values of these keys, in their order."""
        found = (self.get(f"{key}/notes") for key in keys)
        return list(dict.fromkeys(line for data in found if data is not None for line in json.loads(data)))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._db.in_transaction:  # a full disk has ended it already
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def close(self) -> None:
        """Close the file and let go of the lock."""
        self._db.close()
        self._lock.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
