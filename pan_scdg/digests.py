"""Hash files and texts with SHA-256, for inputs and fingerprints."""

import hashlib
from pathlib import Path
from typing import BinaryIO


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hash_stream(file)


def hash_stream(file: BinaryIO, first: bytes = b"") -> str:
    """Return the SHA-256 of the bytes ``first`` and those of an open file from its place on, in hexadecimal."""
    digest = hashlib.sha256(first)
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


def hash_text(text: str) -> str:
    """Return the SHA-256 of the UTF-8 bytes of ``text``, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
