"""What a checkpoint folder is known by: its weights' bytes, and the paper's list of metadata files."""

import hashlib
import json
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pan_scdg.bounded_json import parse_json
from pan_scdg.digests import file_digest
from pan_scdg.errors import UserError

METADATA = (
    "config.json",
    "tokenizer_config.json",
    "tokenizer.json",
    "tokenizer.model",
    "tekken.json",
    "model.safetensors.index.json",
)
_SHA256 = re.compile(r"[0-9a-f]{64}")
TOKENIZER = ("vocab.json", "merges.txt", "added_tokens.json", "special_tokens_map.json")


def weights_fingerprint(folder: Path, remembered: Path | None = None) -> str:
    """SHA-256 over names and SHA-256 of all safetensors, config and tokenizer files of ``folder``, in hexadecimal.

    Args:
        folder: The checkpoint.
        remembered: A JSON file in which digests of weight files are kept, so that gigabytes are read once. A digest is
            used again only for the same path, size, inode and times of content and attributes. None: always read.

    Raises:
        UserError: there are no safetensors, or a file cannot be read.
    """
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise UserError("there are no weights in safetensors format", "give the folder of a checkpoint", folder)
    try:
        digests = {p.name: d for p, d in zip(weights, _weight_digests(weights, remembered))}
        digests |= {name: file_digest(folder / name) for name in _present(folder, METADATA + TOKENIZER)}
    except OSError as e:
        raise UserError(f"cannot be read: {e.strerror}", "check the checkpoint folder", e.filename) from e
    listing = "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))
    return hashlib.sha256(listing.encode()).hexdigest()


def metadata_fingerprint(folder: Path) -> dict[str, str]:
    """SHA-256 of each metadata file that is present (paper, Frozen Backends), by file name."""
    return {name: file_digest(folder / name) for name in _present(folder, METADATA)}


def _present(folder: Path, names: Iterable[str]) -> list[str]:
    return [name for name in names if (folder / name).is_file()]


def _weight_digests(weights: list[Path], remembered: Path | None) -> list[str]:
    if remembered is None:
        return [file_digest(p) for p in weights]
    known = _recall(remembered)
    keys = [_identity(p) for p in weights]
    fresh = {key: file_digest(path) for key, path in zip(keys, weights) if key not in known}
    if fresh:
        _remember(known | fresh, remembered)
    return [(known | fresh)[key] for key in keys]


def _identity(path: Path) -> str:
    """Names one state of a file. The change time and inode see a swap that kept size and modification time."""
    real = path.resolve(strict=True)
    stat = real.stat()
    return f"{real}|{stat.st_size}|{stat.st_mtime_ns}|{stat.st_ctime_ns}|{stat.st_ino}"


def _recall(path: Path) -> dict[str, str]:
    """The remembered digests; a missing or damaged file is an empty memory, since everything in it can be computed.

    Raises:
        UserError: something else than a regular file has its name.
    """
    from pan_scdg.own_files import LARGEST, open_own

    try:
        with open_own(path) as file:
            data = parse_json(file.read(LARGEST).decode("utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    whole = isinstance(data, dict) and all(isinstance(d, str) and _SHA256.fullmatch(d) for d in data.values())
    return data if whole else {}


def _remember(digests: dict[str, str], path: Path) -> None:
    """Write whole and then rename, so that another process never reads half of it."""
    from pan_scdg.own_files import write_atomically

    with suppress(FileExistsError, FileNotFoundError):  # another process writes its own at this very moment
        write_atomically(path, json.dumps(digests, indent=0, sort_keys=True))
