"""Report the progress of a run to other processes, in a small file in its output that is replaced every few seconds."""

import fcntl
import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pan_scdg.errors import UserError, escape_controls
from pan_scdg.jobs.output.mark import read_mark
from pan_scdg.locks import LOCK
from pan_scdg.own_files import HIDDEN, OwnRecord, read_record, refuse_link, write_atomically
from pan_scdg.progress import TICKS, Crew, Progress, format_duration
from pan_scdg.retrieval.catalogue import CATALOGUE, read_catalogue

STATUS = "status.json"
INTERVAL = 5.0
"""Seconds between two versions of the file, unless another stage begins."""
LARGEST = 1 << 20
REMEDY = "give the --output of a run, or an --index"
ALONE = Crew(processes=1, nodes=1, lost=0, ended=0, retried=0, computed={})


class Status(OwnRecord):
    """The content of the file."""

    stage: str
    done: int
    total: int | None
    failed: int
    """Pairs that cannot be scored."""
    tokens: int
    seconds_left: float | None
    """Of the stage."""
    processes: int
    nodes: int
    nodes_lost: int
    processes_ended: int
    batches: dict[str, int]
    """Computed by each node of a cluster."""
    batches_retried: int
    """That a process or node had when it ended."""
    written: float
    """Seconds since 1970."""


class _Writer(logging.Handler):
    """Writes the file when a stage makes progress."""

    def __init__(self, path: Path, failed: int) -> None:
        super().__init__()
        self._path, self._failed, self._crew = path, failed, ALONE
        self._stage, self._written = "", 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Replace the file, if it is old or of another stage."""
        progress: Progress = record.__dict__["progress"]
        if progress.stage == self._stage and time.monotonic() - self._written < INTERVAL:
            return
        self._stage, self._written = progress.stage, time.monotonic()
        self._crew = crew = progress.count() or self._crew
        status = Status(
            stage=progress.stage,
            done=progress.done,
            total=progress.total,
            failed=self._failed,
            tokens=progress.tokens,
            seconds_left=progress.seconds_left,
            processes=crew.processes,
            nodes=crew.nodes,
            nodes_lost=crew.lost,
            processes_ended=crew.ended,
            batches=crew.computed,
            batches_retried=crew.retried,
            written=time.time(),
        )
        with suppress(OSError):  # a full disk is reported by the writers of results
            write_atomically(self._path, json.dumps(status.model_dump()))


@contextmanager
def write_status(folder: Path, failed: int = 0) -> Iterator[None]:
    """Write the status of the stages in the body to a file in a folder."""
    writer = _Writer(folder / STATUS, failed)
    TICKS.addHandler(writer)
    try:
        yield
    finally:
        TICKS.removeHandler(writer)


class Report(NamedTuple):
    """The state of an output, and the progress of its run."""

    state: Literal["complete", "running", "stopped"]
    status: Status | None
    """None: complete, or before the first stage."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        return {"state": self.state, **({} if self.status is None else self.status.model_dump())}

    def to_lines(self) -> list[str]:
        """Return readable lines."""
        again = "; run the same command again to continue" if self.state == "stopped" else ""
        lines = [f"state: {self.state}{again}"]
        if self.status is None:
            return lines
        found = self.status
        of = "" if found.total is None else f" of {found.total}"
        lost = f", {found.nodes_lost} lost" if found.nodes_lost else ""
        lines += [
            f"stage: {escape_controls(found.stage)}",
            f"done: {found.done}{of}",
            f"failed: {found.failed}",
            f"processes: {found.processes}, {found.processes_ended} ended and replaced",
            f"nodes: {found.nodes}{lost}",
            *(f"batches: {count} by {escape_controls(node)}" for node, count in found.batches.items()),
        ]
        if found.seconds_left is not None:
            lines.append(f"left: about {format_duration(found.seconds_left)} of this stage")
        return [*lines, f"written: {format_duration(max(0.0, time.time() - found.written))} ago"]


def read_status(output: Path) -> Report:
    """Return the status of a run or of an index, which may run in another process or on another machine.

    Raises:
        UserError: the folder is no output of this program.
    """
    hidden, lock = output / HIDDEN, output / LOCK
    of_index = os.path.lexists(output / CATALOGUE)
    running = _is_locked(lock) if os.path.lexists(lock) else _is_locked(output, os.O_DIRECTORY)
    if not running and (_is_whole_index(output) if of_index else read_mark(output) is not None):
        return Report("complete", None)
    refuse_link(hidden)
    if not hidden.is_dir():
        raise UserError("holds neither a result nor an unfinished run", REMEDY, output)
    return Report("running" if running else "stopped", read_record(hidden / STATUS, Status, "remove it", LARGEST))


def _is_whole_index(folder: Path) -> bool:
    """Return True if nothing is left of a process that built indexes in a folder."""
    return not os.path.lexists(folder / HIDDEN) and bool(read_catalogue(folder).indexes)


def _is_locked(path: Path, flags: int = os.O_NOFOLLOW | os.O_NONBLOCK) -> bool:
    """Return True if a process that writes an output or an index holds the lock of this folder or file."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    except OSError as e:
        raise UserError(f"cannot be read: {e.strerror}", REMEDY, path) from e
    try:
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no locks on this file system
        return False
    finally:
        os.close(opened)
    return False
