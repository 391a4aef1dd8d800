"""Read files of model folders, which are untrusted: regular files only, and JSON within limits.

A snapshot in the Hugging Face cache consists of links to its files, so links to regular files are followed.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pan_scdg.pan.untrusted import parse_json
from pan_scdg.errors import UserError, get_first_line

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MB = 1 << 20
LARGEST_JSON = 64 * MB
"""Bytes of a settings file or an index of weights; the index of a model of 10,000 tensors has one MB."""
LARGEST_TEXT = 512 * MB
"""Bytes of a file that a library reads into memory, such as a vocabulary."""
MOST_VALUES = 5_000_000
LONGEST_NAME = 200
"""Characters of a file name inside a model folder; file systems permit 255 bytes."""
OBJECTS = ("dict_type", "model_type")
"""Types of pydantic's errors that would name a class of this package or of Python to a reader of JSON."""
READ_INTO_MEMORY = (".json", ".txt", ".model", ".jinja")


def check_entries(folder: Path, recursive: bool = False) -> None:
    """Raise UserError unless every visible entry of a model folder is a regular file or a folder.

    Opening anything else, such as a pipe, could block forever.
    With ``recursive``, inner folders are checked too; they must not be links, which a fingerprint would not cover.

    Raises:
        UserError: there is an entry of another kind, a file that is read into memory is too large, or the folder is
            unreadable.
    """
    try:
        for entry in _list_visible(folder):
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue  # a broken link: whatever needs the file reports it as missing
            if stat.S_ISDIR(status.st_mode):
                if recursive and entry.is_symlink():
                    raise UserError("an inner folder is a link", "copy the folder to its place", entry.path)
                if recursive:
                    check_entries(Path(entry.path), recursive)
            elif not stat.S_ISREG(status.st_mode):
                raise UserError("not a regular file", "replace it with the model's file", entry.path)
            elif entry.name.endswith(READ_INTO_MEMORY) and status.st_size > LARGEST_TEXT:
                raise UserError(f"larger than {LARGEST_TEXT} bytes", "replace it with the model's file", entry.path)
    except OSError as e:
        raise UserError(
            f"cannot be read: {e.strerror}", "grant read permission, or copy the model again", e.filename
        ) from e


def _list_visible(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from (entry for entry in entries if not entry.name.startswith("."))


def read_json(path: Path) -> Any:
    """Return the JSON value in a file of a model folder.

    Raises:
        UserError: the file is missing, not a regular file, too large or not JSON; the text names the file.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UserError("not a regular file", "replace it with the model's file", path)
            data = file.read(LARGEST_JSON + 1)
        if len(data) > LARGEST_JSON:
            raise UserError(f"larger than {LARGEST_JSON} bytes", "replace the damaged file", path)
        return parse_json(data.decode("utf-8"), MOST_VALUES, finite=False)  # configs of some models hold an Infinity
    except FileNotFoundError as e:
        raise UserError("the model folder lacks this file", "complete the checkpoint", path) from e
    except (OSError, ValueError) as e:
        raise UserError(f"cannot be read as JSON: {e}", "replace the damaged file", path) from e


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of a model folder.

    Raises:
        UserError: as in ``read_json``, or the value is not an object.
    """
    data = read_json(path)
    if not isinstance(data, dict):
        raise UserError("does not hold a JSON object", "replace the damaged file", path)
    return data


def describe_mismatch(error: "ErrorDetails") -> str:
    """Return one error of a pydantic validation as ``place: what is wrong``."""
    place = ".".join(str(part)[:80] for part in error["loc"])
    what = "Input should be an object" if error["type"] in OBJECTS else error["msg"].removeprefix("Value error, ")
    return f"{place}: {what}" if place else what


def diagnose_tokenizer(folder: Path) -> UserError | None:
    """Return the fault of the ``tokenizer.json`` of a folder; None if the file is intact or missing.

    The libraries would fall back to other kinds of tokenizers and ask for the packages that those need.
    """
    import tokenizers

    path = folder / "tokenizer.json"
    if not path.is_file():
        return None
    try:
        tokenizers.Tokenizer.from_file(str(path))
    except BaseException as e:  # the library panics on some inputs
        if isinstance(e, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        return UserError(f"not a tokenizer: {get_first_line(e)[:200]}", "replace the damaged file", path)
    return None
