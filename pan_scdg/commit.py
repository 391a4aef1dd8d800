"""Find the commit of the code that runs, and hash what computes, for the identity of a result."""

import hashlib
import subprocess
import sys
from functools import cache
from pathlib import Path

from pan_scdg.bundled import PACKAGE

RECORDED = "COMMIT"
"""File in the package of a wheel or an image; `hatch_build.py` and the Dockerfile write it."""
UNKNOWN = "unknown"
COMPUTING = (
    *("align", "lm", "methods", "models", "retrieval", "scdg", "text"),
    *("jobs/check.py", "jobs/decisions.py", "jobs/evidence.py", "jobs/pipeline.py", "jobs/rerank.py", "jobs/worker.py"),
    "normal_form.py",
)
"""Folders and files of the package that scores, decisions and passages depend on."""
SUFFIXES = {".py", ".toml", ".txt"}


@cache
def find_commit() -> str:
    """Return the commit that was recorded at the build, else the one that git says, else `UNKNOWN`.

    A clone with changes has ``-dirty`` behind its commit.
    """
    recorded = PACKAGE / RECORDED
    if recorded.is_file():
        return recorded.read_text(encoding="ascii").strip()
    root = PACKAGE.parent
    if not (root / ".git").exists():  # a repository around the folder of a wheel is another one
        return UNKNOWN
    # the owner of a clone may be another user than that of the process
    words = ["git", "-c", f"safe.directory={root}", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN
    return done.stdout.strip()


def hash_code(kind: type[object] | None = None, imported: tuple[Path, ...] = ()) -> str:
    """Return the SHA-256 over the files that compute, in hexadecimal, and over that of a class of another package.

    The files are those of the package, as they were read first in this process: a wheel, an image and a clone of one
    commit have the same hash, and a commit that changes other files changes nothing.

    Args:
        kind: the settings of the method that decides.
        imported: further files of that method.
    """
    module = None if kind is None else sys.modules.get(kind.__module__)
    own = Path(getattr(module, "__file__", None) or PACKAGE).resolve()
    return _hash_files(() if own.is_relative_to(PACKAGE) else (own, *imported))


@cache
def _hash_files(own: tuple[Path, ...]) -> str:
    paths = (path for name in COMPUTING for path in [PACKAGE / name, *(PACKAGE / name).rglob("*")])
    files = {path.relative_to(PACKAGE).as_posix(): path for path in paths if path.suffix in SUFFIXES}
    digest = hashlib.sha256()
    for name, path in [*sorted(files.items()), *(("", path) for path in own)]:
        if path.is_file():
            digest.update(hashlib.sha256(name.encode()).digest() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
