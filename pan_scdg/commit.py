"""Find the commit of the code that runs, for the provenance of a result."""

import subprocess
from functools import cache

from pan_scdg.bundled import PACKAGE

RECORDED = "COMMIT"
"""File in the package of a wheel or an image; `hatch_build.py` and the Dockerfile write it."""
UNKNOWN, DIRTY = "unknown", "-dirty"


@cache
def find_commit() -> str:
    """Return the commit that was recorded at the build, else the one that git says, else `UNKNOWN`.

    A clone with changes has `DIRTY` behind its commit.
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
