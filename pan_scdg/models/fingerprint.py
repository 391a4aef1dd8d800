"""Compute SHA-256 fingerprints of model folders, and compare files with the hashes that a profile records."""

import hashlib
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pan_scdg.digests import hash_file, hash_text
from pan_scdg.errors import UserError, UserErrors

if TYPE_CHECKING:
    from pan_scdg.profile import ModelSettings

METADATA = (
    "config.json",
    "tokenizer_config.json",
    "tokenizer.json",
    "tokenizer.model",
    "tekken.json",
    "model.safetensors.index.json",
)
"""The paper's list of metadata files."""
TOKENIZER = ("vocab.json", "merges.txt", "added_tokens.json", "special_tokens_map.json")


def fingerprint_weights(folder: Path, remembered: Path | None = None) -> str:
    """Return the SHA-256 over names and hashes of all safetensors, config and tokenizer files of a checkpoint.

    Args:
        folder: the checkpoint.
        remembered: a JSON file that caches the hashes of weight files, so that gigabytes are read once. A hash is
            reused only for the same path, size, inode and times of content and attributes. None: always read.

    Raises:
        UserError: there are no safetensors, or a file cannot be read.
    """
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise UserError("no weights in safetensors format were found", "give the folder of a checkpoint", folder)
    try:
        digests = dict(zip((path.name for path in weights), _hash_weights(weights, remembered), strict=True))
        digests |= {name: hash_file(folder / name) for name in _list_present(folder, METADATA + TOKENIZER)}
    except OSError as e:
        raise UserError(f"cannot be read: {e.strerror}", "check the checkpoint folder", e.filename) from e
    listing = "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))  # as of ``sha256sum``
    return hash_text(listing)


def check_same(folder: Path, compute: Callable[[Path], str], fingerprint: str) -> None:
    """Raise UserError unless this machine has the same model in a folder as the one that takes its results."""
    if not folder.is_dir():
        raise UserError("the model folder does not exist", "every machine needs the model at the same path", folder)
    if (found := compute(folder)) != fingerprint:
        what = f"another model: its fingerprint is {found[:16]}, not {fingerprint[:16]}"
        raise UserError(what, "copy the model to this machine again", folder)


def fingerprint_metadata(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each metadata file that is present, by file name (paper, Frozen Backends)."""
    return {name: hash_file(folder / name) for name in _list_present(folder, METADATA)}


def fingerprint_folder(folder: Path) -> str:
    """Return the SHA-256 over relative names, sizes and bytes of all files in a folder, except hidden ones."""
    digest = hashlib.sha256()
    names = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    for name in sorted(name for name in names if not any(part.startswith(".") for part in name.split("/"))):
        digest.update(f"{len(name.encode())} {name} {names[name].stat().st_size}\n".encode())
        with names[name].open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def check_recorded(folder: Path, settings: "ModelSettings", weights: bool = False) -> None:
    """Raise UserErrors, one for each file, unless files have the SHA-256 that the profile records.

    Recorded safetensors, which may be gigabytes, are read only if ``weights`` is true.
    """
    faults = []
    for name, expected in settings.fingerprint.items():
        path = folder / name
        if name.endswith(".safetensors") and not weights:
            continue
        if not path.is_file():
            what = "the file is missing, but the profile records it"
            faults.append(UserError(what, "complete the checkpoint", path))
        elif (found := hash_file(path)) != expected:
            what = f"SHA-256 is {found}, but the profile records {expected}"
            faults.append(UserError(what, "use the checkpoint that the profile was made for", path))
    if faults:
        raise UserErrors(faults)


def _list_present(folder: Path, names: Iterable[str]) -> list[str]:
    return [name for name in names if (folder / name).is_file()]


def _hash_weights(weights: list[Path], remembered: Path | None) -> list[str]:
    if remembered is None:
        return [hash_file(path) for path in weights]
    from pan_scdg.own_files import write_atomically

    known = _read_remembered(remembered)
    keys = [_identify(path) for path in weights]
    fresh = {key: hash_file(path) for key, path in zip(keys, weights, strict=True) if key not in known}
    known |= fresh
    if fresh:
        with suppress(FileExistsError, FileNotFoundError):  # another process writes its own at this very moment
            write_atomically(remembered, json.dumps(known, indent=0, sort_keys=True))
    return [known[key] for key in keys]


def _identify(path: Path) -> str:
    """Return a key of one state of a file; change time and inode reveal a swap that kept size and modification time."""
    real = path.resolve(strict=True)
    stat = real.stat()
    return f"{real}|{stat.st_size}|{stat.st_mtime_ns}|{stat.st_ctime_ns}|{stat.st_ino}"


def _read_remembered(path: Path) -> dict[str, str]:
    """Return the cached hashes; a missing or damaged cache is empty, because everything in it can be computed.

    Raises:
        UserError: something other than a regular file has its name.
    """
    # Here, because loading a model must not need pydantic: `make gpu` runs where only torch and transformers are.
    from pydantic import Field, TypeAdapter

    from pan_scdg.own_files import EXACT, LARGEST, open_own, parse_as

    digests = TypeAdapter(dict[str, Annotated[str, Field(pattern="^[0-9a-f]{64}$")]], config=EXACT)
    try:
        with open_own(path) as file:
            return parse_as(file.read(LARGEST), digests)
    except (FileNotFoundError, ValueError):
        return {}
