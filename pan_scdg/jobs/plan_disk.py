"""Where a run will write, how much, and whether there is room; nothing is written to find out."""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from pan_scdg.errors import UserError


class Place(NamedTuple):
    """Something that a run writes."""

    what: str
    folder: Path
    needed: float
    """Bytes, about."""
    free: int
    """Bytes of its file system."""
    device: int
    """Number of its file system."""


def place(what: str, folder: Path, needed: float) -> Place:
    """A folder that is there or will be made, and the room that its file system has.

    Raises:
        UserError: it cannot be written, or made.
    """
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise UserError(f"cannot write the {what}", "choose another folder for it", folder)
    return Place(what, folder, needed, shutil.disk_usage(there).free, there.stat().st_dev)
