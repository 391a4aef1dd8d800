"""Compute SHA-256 fingerprints of model folders."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from pan_scdg.digests import hash_file, hash_text
from pan_scdg.errors import UserError

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


def fingerprint_weights(folder: Path) -> str:
    """Return the SHA-256 over names and hashes of all safetensors, config and tokenizer files of a checkpoint.

    Raises:
        UserError: there are no safetensors, or a file cannot be read.
    """
    weights = sorted(path.name for path in folder.glob("*.safetensors"))
    if not weights:
        raise UserError("no weights in safetensors format were found", "give the folder of a checkpoint", folder)
    names = sorted([*weights, *_list_present(folder, METADATA + TOKENIZER)])
    try:
        listing = "".join(f"{hash_file(folder / name)}  {name}\n" for name in names)  # as of ``sha256sum``
    except OSError as e:
        raise UserError(f"cannot be read: {e.strerror}", "check the checkpoint folder", e.filename) from e
    return hash_text(listing)


def fingerprint_metadata(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each metadata file that is present, by file name (paper, Frozen Backends)."""
    return {name: hash_file(folder / name) for name in _list_present(folder, METADATA)}


def fingerprint_folder(folder: Path) -> str:
    """Return the SHA-256 over relative names, sizes and bytes of all files in a folder, except hidden ones."""
    digest = hashlib.sha256()
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    for name in sorted(name for name in paths if not any(part.startswith(".") for part in name.split("/"))):
        digest.update(f"{len(name.encode())} {name} {paths[name].stat().st_size}\n".encode())
        with paths[name].open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _list_present(folder: Path, names: Iterable[str]) -> list[str]:
    return [name for name in names if (folder / name).is_file()]
