"""A command in a process of its own, forked from one that has imported everything, so that it starts at once."""

import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import NamedTuple


class Ended(NamedTuple):
    """How a command ended: exit code (negative: the signal), seconds, and the lines on stderr."""

    code: int
    seconds: float
    lines: list[str]

    @property
    def last(self) -> str:
        """The last line on stderr."""
        return self.lines[-1] if self.lines else ""


class Process:
    """A command under way.

    Args:
        words: the command line.
        log: a file for its stderr.
        largest: bytes that a file may grow to, None for any.
        temporary: its folder for temporary files, None for the usual one.
    """

    def __init__(self, words: list[str], log: Path, largest: int | None = None, temporary: Path | None = None) -> None:
        self._log, self._began = log, time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            _become(words, log, largest, temporary)

    def kill_after(self, seconds: float) -> Ended:
        """Wait at most so long, then kill the process if it has not ended."""
        while time.monotonic() - self._began < seconds:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                return self._ended(status)
            time.sleep(0.001)
        os.kill(self.pid, signal.SIGKILL)
        return self.wait()

    def wait(self) -> Ended:
        """Wait for the end."""
        return self._ended(os.waitpid(self.pid, 0)[1])

    def _ended(self, status: int) -> Ended:
        code = os.waitstatus_to_exitcode(status)
        lines = self._log.read_text(encoding="utf-8").splitlines() if self._log.exists() else []
        return Ended(code, time.monotonic() - self._began, lines)


def _become(words: list[str], log: Path, largest: int | None, temporary: Path | None) -> None:
    """Carry out the command and leave the process; nothing of the parent's is cleaned up."""
    code = 99
    try:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(out, 2)
        if largest is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
        if temporary is not None:
            import tempfile

            tempfile.tempdir = str(temporary)
        from pan_scdg.cli import run_command

        code = run_command(words)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
