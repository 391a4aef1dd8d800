"""``models.lock.json`` in the model cache: which commit of a model was fetched, and the SHA-256 of every file of it."""

import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.digests import file_digest
from pan_scdg.errors import UserError
from pan_scdg.model_cache import cache_folder

LOCK = "models.lock.json"
KINDS = (".json", ".txt", ".model", ".safetensors")
"""Kinds of files that are fetched and locked: settings, vocabularies, weights. Nothing that could hold code."""
WEIGHTS = ".safetensors"
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Locked(NamedTuple):
    """What was fetched of a model."""

    repository: str
    revision: str
    """The commit."""
    files: dict[str, str]
    """SHA-256 of each file, by its name inside the folder."""


def lock_file() -> Path:
    """Where the lock lies, whether or not there is one."""
    return cache_folder() / LOCK


def locked(name: str) -> Locked | None:
    """What the lock says of a model; None: it is unpinned.

    Raises:
        UserError: the lock is damaged.
    """
    return read_lock().get(name)


def read_lock() -> dict[str, Locked]:
    """Every locked model, by name.

    Raises:
        UserError: the file is not a lock.
    """
    path = lock_file()
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return {name: _entry(fields) for name, fields in data["models"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise UserError(
            f"is no lock of models: {type(e).__name__}: {e}",
            "restore it, or remove it and fetch the models again",
            path,
        ) from e


def _entry(fields: dict[str, Any]) -> Locked:
    entry = Locked(fields["repository"], fields["revision"], dict(fields["files"]))
    if not all(isinstance(text, str) for text in (entry.repository, entry.revision, *entry.files)):
        raise ValueError("a name is no text")
    if bad := [name for name, digest in entry.files.items() if not _SHA256.fullmatch(digest)]:
        raise ValueError(f"no SHA-256 of {bad[0]}")
    return entry


def write_lock(name: str, entry: Locked) -> None:
    """Put a model into the lock, in the place of what was said of it; the others stay."""
    models = {**read_lock(), name: entry}
    data = {"models": {name: models[name]._asdict() for name in sorted(models)}}
    path = lock_file()
    staged = path.with_name(f".{path.name}.{os.getpid()}.part")
    staged.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    staged.replace(path)


def differences(folder: Path, entry: Locked, weights: bool) -> list[UserError]:
    """What of a folder is not as locked, one fault a file.

    Args:
        folder: the model's.
        entry: what the lock says.
        weights: read the weights too, which may be gigabytes; without, they only have to be there.
    """
    found = []
    for name, expected in sorted(entry.files.items()):
        path = folder / name
        if not path.is_file():
            found.append(UserError("the lock has this file and it is missing", "fetch the model again", path))
        elif (weights or not name.endswith(WEIGHTS)) and (digest := file_digest(path)) != expected:
            what = f"SHA-256 is {digest} and the lock has {expected}"
            found.append(UserError(what, "fetch the model again unless the change is yours", path))
    return found


def unlocked(folder: Path, entry: Locked) -> list[UserError]:
    """Files of kinds that are read with a model and that the lock does not have, one fault each."""
    names = (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.suffix in KINDS)
    return [
        UserError("the lock does not have this file", "remove it, or fetch the model again", folder / name)
        for name in names
        if name not in entry.files
    ]
