"""Read the files of model folders, which others made: regular files only, JSON within limits, and no code.

A snapshot of the Hugging Face cache holds links to its files, so links to regular files are followed.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pan_scdg.bounded_json import parse_json
from pan_scdg.errors import UserError

MB = 1 << 20
LARGEST_JSON = 64 * MB
"""Bytes of a settings file or an index of weights; that of a model of 10,000 tensors has one."""
LARGEST_TEXT = 512 * MB
"""Bytes of what a library reads whole, such as a vocabulary."""
VALUES = 5_000_000
NAME = 200
"""Characters of a file's name inside of a folder; file systems permit 255 bytes."""
LAYERS = 1000
"""Most layers of a model: each is made, with all that belongs to it, before a weight is looked at."""
WHOLE = (".json", ".txt", ".model", ".jinja")
CODE = "auto_map"
"""The field that asks for classes of the folder's own."""


def check_entries(folder: Path, within: bool = False) -> None:
    """Raise UserError unless every visible entry of a model folder is a regular file or a folder.

    Opening anything else, such as a pipe, could wait for ever.

    Args:
        folder: a model's.
        within: look into inner folders, too, which then must not be links: a fingerprint would not cover them.

    Raises:
        UserError: there is another kind of entry, a file that is read whole is too large, or the folder is unreadable.
    """
    try:
        for entry in _visible(folder):
            path = Path(entry.path)
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue  # a link to nothing: what is missing is found by those who need it
            if stat.S_ISDIR(status.st_mode):
                if within and entry.is_symlink():
                    raise UserError("an inner folder is a link", "copy the folder to its place", path)
                if within:
                    check_entries(path, within)
            elif not stat.S_ISREG(status.st_mode):
                raise UserError("not a regular file", "replace it with the model's file", path)
            elif path.suffix in WHOLE and status.st_size > LARGEST_TEXT:
                raise UserError(f"larger than {LARGEST_TEXT} bytes", "replace it with the model's file", path)
    except OSError as e:
        raise UserError(f"cannot be read: {e.strerror}", "permit it, or copy the model again", e.filename) from e


def _visible(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from (entry for entry in entries if not entry.name.startswith("."))


def read_json(path: Path) -> Any:
    """Return the JSON value in a file of a model folder.

    Raises:
        UserError: it is missing, no regular file, too large or not JSON; the text names the file.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UserError("not a regular file", "replace it with the model's file", path)
            data = file.read(LARGEST_JSON + 1)
        if len(data) > LARGEST_JSON:
            raise UserError(f"larger than {LARGEST_JSON} bytes", "replace the damaged file", path)
        return parse_json(data.decode("utf-8"), VALUES, finite=False)  # configs of some models hold an Infinity
    except FileNotFoundError as e:
        raise UserError("the model folder lacks this file", "complete the checkpoint", path) from e
    except (OSError, ValueError) as e:
        raise UserError(f"cannot be read as JSON: {e}", "replace the damaged file", path) from e


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of a model folder, or raise a UserError that names the file."""
    data = read_json(path)
    if not isinstance(data, dict):
        raise UserError("does not hold a JSON object", "replace the damaged file", path)
    return data


def check_config(config: dict[str, Any], path: Path, auto_map: bool = False) -> None:
    """Raise UserError where a config asks for code, or for weights elsewhere, which the model's fingerprint misses.

    Args:
        config: what the file holds.
        path: the file, for the message.
        auto_map: permit the field at the top, where ``trust_remote_code=False`` makes transformers pass over it.
    """
    foreign = [field for field in _foreign_fields(config) if not (auto_map and field == CODE and CODE in config)]
    if foreign:
        what = f"the checkpoint asks to run code of its own or to read files elsewhere ({foreign[0]})"
        raise UserError(what, "use a model that transformers knows, in one folder", path)
    for part in (config, *(value for value in config.values() if isinstance(value, dict))):
        for name in ("num_hidden_layers", "num_layers", "n_layer", "n_layers"):
            if isinstance(count := part.get(name), int | float) and not count <= LAYERS:
                raise UserError(f"{name} is above {LAYERS}", "replace the damaged file", path)


def _foreign_fields(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, list):
        value = dict(enumerate(value))
    for name, inner in value.items() if isinstance(value, dict) else ():
        kernel = str(name).endswith("attn_implementation") and "/" in str(inner)  # one that is fetched and run
        if name in (CODE, "transformers_weights") or kernel:
            yield str(name) if depth == 0 else f"{name} inside of it"
        else:
            yield from _foreign_fields(inner, depth + 1)


def explain_tokenizer(folder: Path) -> UserError | None:
    """Return what is wrong with the ``tokenizer.json`` of a folder; None: it is whole, or there is none.

    The libraries would go on to other kinds of tokenizers and speak of the packages that those need.
    """
    import tokenizers

    path = folder / "tokenizer.json"
    if not path.is_file():
        return None
    try:
        tokenizers.Tokenizer.from_file(str(path))
    except BaseException as e:
        if isinstance(e, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        reason = (str(e).splitlines() or [type(e).__name__])[0][:200]
        return UserError(f"not a tokenizer: {reason}", "replace the damaged file", path)
    return None
