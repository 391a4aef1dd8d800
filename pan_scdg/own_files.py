"""Read and write the program's own files, which are as hostile as the input: others may have edited or planted them.

Nothing here follows a symbolic link at the last component of a path, blocks on a pipe, or trusts a value that a
schema has not checked.
"""

import errno
import os
import stat
from pathlib import Path, PurePosixPath
from typing import Annotated, BinaryIO, TypeVar, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError

from pan_scdg.pan.untrusted import parse_json
from pan_scdg.errors import UserError

MB = 1 << 20
LARGEST = 64 * MB
VALUES = 5_000_000
NAME_CHARACTERS = 1024
COMPONENT_BYTES = 255
"""Longest name of a file in bytes."""
HIDDEN = ".pan_scdg"
"""The folder in an output for unfinished results."""
MARK = ".pan_scdg.json"
"""The file that marks an output as finished."""


class OwnRecord(BaseModel):
    """Base of the schemas of own files: exact types, no unknown keys, finite numbers only."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)


Record = TypeVar("Record", bound=BaseModel)
Value = TypeVar("Value")
EXACT = ConfigDict(strict=True, allow_inf_nan=False)
"""For a `pydantic.TypeAdapter`: exact types, finite numbers only."""


def check_inner_name(name: str) -> str:
    """Return ``name`` if it is a relative POSIX path that stays inside its folder and is not hidden.

    Raises:
        ValueError: it is empty, absolute or too long, or has a component that is ``..``, begins with a dot or cannot
            be a file's name.
    """
    parts = PurePosixPath(name).parts
    if not parts or name != "/".join(parts) or len(name) > NAME_CHARACTERS or "\0" in name:
        raise ValueError(f"{name[:80]!r} is not a relative path")
    if any(part.startswith(".") for part in parts):
        raise ValueError(f"{name[:80]!r} leads out of its folder or is hidden")
    if any(
        len(part.encode("utf-8")) > COMPONENT_BYTES for part in parts
    ):  # half a surrogate pair also raises a ValueError
        raise ValueError(f"{name[:80]!r} has a part that is too long for a file")
    return name


InnerName = Annotated[str, AfterValidator(check_inner_name)]
"""A file's name in a record: see `check_inner_name`."""


def open_regular(path: Path, flags: int) -> int:
    """Return the descriptor of a regular file, opened with these flags; a missing one is created if they say so.

    A link, a folder, a pipe or a device is refused without blocking.

    Raises:
        FileNotFoundError: the file does not exist.
        UserError: it is not a regular file.
        OSError: it cannot be opened.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except NotADirectoryError as e:
        raise FileNotFoundError(*e.args) from e
    except OSError as e:
        if e.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise UserError("not a regular file", "remove it", path) from e
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UserError("not a regular file", "remove it", path)
    return descriptor


def open_own(path: Path) -> BinaryIO:
    """Open a regular file for reading; see `open_regular`.

    Raises:
        FileNotFoundError: the file does not exist.
        UserError: it is not a regular file, or cannot be read.
    """
    try:
        return os.fdopen(open_regular(path, os.O_RDONLY), "rb")
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as e:
        raise UserError(f"cannot be read: {getattr(e, 'strerror', None) or e}", "remove it", path) from e


def open_to_append(path: Path) -> BinaryIO:
    """Open a regular file for appending, without a buffer, and create it if it is missing; see `open_regular`."""
    return cast(BinaryIO, os.fdopen(open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab", buffering=0))


def refuse_link(folder: Path) -> None:
    """Raise UserError if an own folder is a symbolic link, since files would be written elsewhere."""
    if folder.is_symlink():
        raise UserError("a symbolic link", "remove it", folder)


def read_record(path: Path, schema: type[Record], remedy: str, largest: int = LARGEST) -> Record | None:
    """Return the validated record in an own JSON file.

    Args:
        path: the file.
        schema: the schema of the record.
        remedy: what the user can do if the file is not valid.
        largest: its size limit in bytes.

    Returns:
        The record; None if the file does not exist.

    Raises:
        UserError: not a regular file, too large, not JSON, or not what ``schema`` asks for; one line.
    """
    try:
        text = read_own_text(path, largest, remedy)
    except FileNotFoundError:
        return None
    try:
        return parse_record(text, schema)
    except ValueError as e:
        raise UserError(f"is not as this program wrote it: {e}", remedy, path) from e


def read_own_text(path: Path, largest: int = LARGEST, remedy: str = "remove it") -> str:
    """Return the text of an own regular file.

    Raises:
        FileNotFoundError: the file does not exist.
        UserError: not a regular file, too large, or not UTF-8.
    """
    with open_own(path) as file:
        data = file.read(largest + 1)
    if len(data) > largest:
        raise UserError(f"larger than {largest} bytes", remedy, path)
    try:
        return data.decode("utf-8")
    except ValueError as e:
        raise UserError(f"is not as this program wrote it: {e}", remedy, path) from e


def parse_record(text: str, schema: type[Record]) -> Record:
    """Return the record in a JSON text.

    Raises:
        ValueError: the text is not JSON within the limits, or ``schema`` refuses it; one short line.
    """
    try:
        return schema.model_validate(parse_json(text, VALUES))
    except ValidationError as e:
        first = e.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part)[:80] for part in first["loc"][:6])
        raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from e


def parse_as(data: bytes, shape: TypeAdapter[Value]) -> Value:
    """Return the value in an own JSON text, validated by ``shape``.

    Raises:
        ValueError: it is not UTF-8, not JSON within the limits, or not of this shape.
    """
    return shape.validate_python(parse_json(data.decode("utf-8"), VALUES))


def find_link(folder: Path, name: str) -> Path | None:
    """Return the first component of ``name`` below ``folder`` that is a symbolic link, or None."""
    path = folder
    for part in PurePosixPath(name).parts:
        path /= part
        if path.is_symlink():
            return path
    return None


def write_atomically(path: Path, text: str) -> None:
    """Write a file beside its final name, sync it and rename it; a link at either name is not followed."""
    beside = path.with_name(f".{path.name}.part")
    beside.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(beside, flags, 0o666), "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Make the content of a file durable; a symbolic link is not followed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable, so that a power loss does not undo a rename."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
