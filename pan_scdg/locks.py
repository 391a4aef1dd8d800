"""Lock files and folders against other processes."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from pan_scdg.errors import UserError
from pan_scdg.own_files import open_regular

PATIENCE = 1.0
"""Seconds to wait for a lock."""
LOCK = "lock"
"""File of a folder that `lock_folder` locks."""


@contextlib.contextmanager
def lock_folder(folder: Path, what: str = "the state", option: str = "--state") -> Iterator[None]:
    """Create ``folder`` if it is missing, and lock it against other processes.

    Args:
        folder: to be locked.
        what: the folder is, for errors.
        option: names the folder, for errors.

    Raises:
        UserError: it cannot be written, another process uses it, or its file system has no locks.
    """
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = open_regular(folder / LOCK, os.O_RDWR | os.O_CREAT)  # it stays empty
            stack.callback(os.close, lock)
        except OSError as e:
            raise UserError(f"cannot write {what}: {e.strerror}", f"choose another {option} folder", folder) from e
        try:
            wait_for_lock(lock)
        except BlockingIOError as e:
            what = f"another run is using {what}"
            raise UserError(what, f"wait for it or choose another {option} folder", folder) from e
        except OSError as e:
            raise UserError(
                f"the file system of {what} has no file locks ({e.strerror})",
                f"choose a folder on a local disk for {option}",
                folder,
            ) from e
        yield


def wait_for_lock(opened: int) -> None:
    """Lock an open file or folder against other processes.

    Raises:
        BlockingIOError: it is locked for more than `PATIENCE` seconds: the command ``status`` holds it for a moment.
    """
    last = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > last:
                raise
            time.sleep(PATIENCE / 20)
