"""SHA-256 of what stands for it in keys and fingerprints."""

import hashlib
from pathlib import Path


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def hash_text(text: str) -> str:
    """Return the SHA-256 of the UTF-8 bytes of ``text``, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
