"""Read, write and compare ``models.lock.json`` of the model cache: the commit and SHA-256 of every fetched file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from pan_scdg.bundled import find_model_cache
from pan_scdg.digests import hash_file
from pan_scdg.errors import UserError
from pan_scdg.own_files import InnerName, OwnRecord, read_record, write_atomically

if TYPE_CHECKING:
    from pan_scdg.models.find import FoundModel

LOCK = "models.lock.json"
SUFFIXES = (".json", ".txt", ".model", ".safetensors")
"""Kinds of files that are fetched and locked: settings, vocabularies, weights. No kind that can hold code."""


class Locked(OwnRecord):
    """The entry of a fetched model."""

    repository: str
    revision: str
    """The commit."""
    files: dict[InnerName, Annotated[str, Field(pattern="^[0-9a-f]{64}$")]]
    """SHA-256 of each file, by its name inside the folder."""


class _Lock(OwnRecord):
    """The content of the file."""

    models: dict[str, Locked]


def get_lock_file() -> Path:
    """Return the path of the lock, which may not exist."""
    return find_model_cache() / LOCK


def read_lock() -> dict[str, Locked]:
    """Return every locked model by name.

    Raises:
        UserError: the file is not a lock.
    """
    found = read_record(get_lock_file(), _Lock, "restore it, or remove it and fetch the models again")
    return {} if found is None else found.models


def write_lock(name: str, entry: Locked) -> None:
    """Add a model to the lock, or replace its entry; the other entries stay."""
    models = {**read_lock(), name: entry}
    data = {"models": {name: entry.model_dump() for name, entry in models.items()}}
    write_atomically(get_lock_file(), json.dumps(data, indent=1, sort_keys=True) + "\n")


def list_differences(folder: Path, entry: Locked, weights: bool) -> list[UserError]:
    """Return one error for each file of a folder that is missing or differs from the lock.

    Weights, which may be gigabytes, are read only if ``weights`` is true; otherwise they only have to exist.
    """
    found = []
    for name, expected in sorted(entry.files.items()):
        path = folder / name
        if not path.is_file():
            found.append(UserError("the file is missing, but the lock file lists it", "fetch the model again", path))
        elif (weights or path.suffix != ".safetensors") and (digest := hash_file(path)) != expected:
            what = f"SHA-256 is {digest}, but the lock file has {expected}"
            found.append(UserError(what, "fetch the model again unless you changed it on purpose", path))
    return found


def list_unlocked(folder: Path, entry: Locked) -> list[UserError]:
    """Return one error for each file of a locked kind that the lock does not have."""
    names = (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.suffix in SUFFIXES)
    return [
        UserError("the lock file does not list this file", "remove it, or fetch the model again", folder / name)
        for name in names
        if name not in entry.files
    ]


def find_entry(found: "FoundModel") -> Locked | None:
    """Return the lock's entry of a model in one of the two caches; None for any other folder or without an entry."""
    return read_lock().get(found.name) if found.where in ("model_cache", "huggingface cache") else None


def list_lock_warnings(found: "FoundModel") -> list[str]:
    """Return a warning if a model is not the locked one; reads settings and vocabularies for it, but no weights.

    Raises:
        UserError: the lock is damaged.
    """
    entry = find_entry(found)
    if entry is None:
        return []
    if found.revision not in (None, entry.revision):
        return [
            f"warning: {found.name} is NOT the pinned revision: {found.where} has {found.revision}, "
            f"the lock file pins {entry.revision}"
        ]
    if faults := list_differences(found.folder, entry, weights=False):
        first = Path(faults[0].where or "").name
        return [f"warning: {found.name} differs from the lock, first in {first}; see `models verify`"]
    return []


def list_origins(places: "Mapping[str, FoundModel]") -> dict[str, dict[str, str]]:
    """Return the commit and the kind of place of each model of a job, for the metadata of its result; never a path.

    A model whose commit is not known is left out.
    """
    origins = {}
    for name, found in places.items():
        entry = find_entry(found)
        revision = found.revision if entry is None or list_lock_warnings(found) else entry.revision
        if revision is not None:
            origins[name] = {"revision": revision, "found": str(found.where)}
    return origins
