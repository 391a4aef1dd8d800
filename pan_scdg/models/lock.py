"""``models.lock.json`` in the model cache: which commit of a model was fetched, and the SHA-256 of every file of it."""

import json
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from pan_scdg.digests import file_digest
from pan_scdg.errors import UserError
from pan_scdg.models.cache import cache_folder
from pan_scdg.own_files import InnerName, OwnRecord, read_record, write_atomically

LOCK = "models.lock.json"
KINDS = (".json", ".txt", ".model", ".safetensors")
"""Kinds of files that are fetched and locked: settings, vocabularies, weights. Nothing that could hold code."""
WEIGHTS = ".safetensors"


class Locked(NamedTuple):
    """What was fetched of a model."""

    repository: str
    revision: str
    """The commit."""
    files: dict[str, str]
    """SHA-256 of each file, by its name inside the folder."""


class _Entry(OwnRecord):
    repository: str
    revision: str
    files: dict[InnerName, Annotated[str, Field(pattern="^[0-9a-f]{64}$")]]


class _Lock(OwnRecord):
    """The file."""

    models: dict[str, _Entry]


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
    found = read_record(lock_file(), _Lock, "restore it, or remove it and fetch the models again")
    return (
        {} if found is None else {name: Locked(e.repository, e.revision, e.files) for name, e in found.models.items()}
    )


def write_lock(name: str, entry: Locked) -> None:
    """Put a model into the lock, in the place of what was said of it; the others stay."""
    models = {**read_lock(), name: entry}
    data = {"models": {name: models[name]._asdict() for name in sorted(models)}}
    write_atomically(lock_file(), json.dumps(data, indent=1, sort_keys=True) + "\n")


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
