"""The mark of a finished output, with its job and the hash of each file, and the lock of one that is written."""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, JsonValue, PositiveInt, StringConstraints

from pan_scdg.digests import hash_file
from pan_scdg.errors import UserError
from pan_scdg.locks import wait_for_lock
from pan_scdg.logs import say
from pan_scdg.own_files import MARK, InnerName, OwnRecord, find_link, open_own, read_record

METADATA = "ir-metadata.yml"
"""Written by `metadata`."""
NO_LOCKS = {errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
"""Errors of file systems that cannot lock a folder, such as NFS."""
Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


class Partial(OwnRecord):
    """The part of the input that a result covers, which --limit selected."""

    done: PositiveInt
    of: PositiveInt
    what: Literal["pairs", "queries"]

    def format_warning(self) -> str:
        """Return the warning about a partial result."""
        return f"warning: partial: the first {self.done} of {self.of} {self.what}, the rest was left out by --limit"


class Mark(OwnRecord):
    """The content of the mark, and of the manifest in the hidden folder."""

    job: dict[str, JsonValue]
    files: dict[InnerName, Digest] = Field(min_length=1)
    incidents: list[str] = Field(default_factory=list)
    partial: Partial | None = None
    origins: dict[str, dict[str, str]] = Field(default_factory=dict)

    def to_text(self) -> str:
        """Return the given fields as JSON text, in the order of the class."""
        return dump(self.model_dump(mode="json", exclude_unset=True))


def dump(value: object) -> str:
    """Return a JSON value as the text of a file."""
    return json.dumps(value, indent=1, sort_keys=False, ensure_ascii=True) + "\n"


def read_mark(directory: Path) -> Mark | None:
    """Return the mark of an output directory, None if it is not finished.

    Raises:
        UserError: the mark was not written by this program.
    """
    return read_record(directory / MARK, Mark, "remove it, or choose another folder")


def is_unchanged(folder: Path, name: str, digest: str) -> bool:
    """Return True if ``folder`` has a regular file of this name and hash that no symbolic link leads to."""
    if find_link(folder, name) is not None:
        return False
    try:
        open_own(folder / name).close()
    except FileNotFoundError:
        return False
    return hash_file(folder / name) == digest


@contextmanager
def lock_output(path: Path) -> Iterator[None]:
    """Create a directory if it is missing, and lock it against other runs.

    The folder itself is locked, so that no lock file remains and a finished result may be read-only.

    Raises:
        UserError: it cannot be created, or another run has locked it.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as e:
        raise make_write_error(path, e.strerror) from e
    try:
        _lock(folder, path)
        yield
    finally:
        os.close(folder)


def _lock(folder: int, path: Path) -> None:
    try:
        wait_for_lock(folder)
    except BlockingIOError as e:
        raise UserError("another run is writing this output", "wait for it, or choose another --output", path) from e
    except OSError as e:
        if e.errno not in NO_LOCKS:
            raise
        say([f"warning: {path}: this file system has no locks; do not start a second run with this output"])


def make_write_error(path: Path, why: str | None) -> UserError:
    """Return the error for an output directory that cannot be written."""
    return UserError(f"cannot write the output directory: {why}", "choose another --output", path)
