"""What all processes have in common that this package starts: they end with their parent, and leave Ctrl-C to it."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import connection, parent_process, resource_tracker
from threading import Thread


def follow_parent() -> None:
    """Ignore Ctrl-C in this process, and end it when its parent ends; called first in a process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent decides what it means
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
    os._exit(0)


@contextmanager
def hold_back(number: signal.Signals) -> Iterator[None]:
    """Block a signal; a process started meanwhile never sees it, not even before it can ignore it."""
    resource_tracker.ensure_running()  # the first start does this, and unblocks all signals afterwards
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
