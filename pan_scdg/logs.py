"""Write notes and errors on stderr through the logger ``pan_scdg``, one printable line each.

The command line calls `show_logs`. A program that imports the package configures `logging` itself; by Python's default
it sees warnings and nothing else.
"""

import logging
import sys
from collections.abc import Iterable

from pan_scdg.errors import escape_controls

LOGGER = logging.getLogger("pan_scdg")
WARNING = "warning: "


class _Stderr(logging.StreamHandler):  # type: ignore[type-arg]
    """A handler that looks up ``sys.stderr`` for every record, since tests and bars replace it."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


class _PlainLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return escape_controls(record.getMessage())


def show_logs(quiet: bool = False) -> None:
    """Show the package's notes, warnings and errors on stderr; with ``quiet`` no notes and no progress."""
    handler = _Stderr(sys.stderr)
    handler.setFormatter(_PlainLine())
    LOGGER.handlers[:] = [handler]
    LOGGER.propagate = False
    LOGGER.setLevel(logging.WARNING if quiet else logging.INFO)


def shows_notes() -> bool:
    """Return True unless notes and progress are silenced."""
    return LOGGER.isEnabledFor(logging.INFO)


def say(lines: Iterable[str]) -> None:
    """Log each line as a note, or as a warning if it begins with ``warning:``."""
    for line in lines:
        LOGGER.log(logging.WARNING if line.startswith(WARNING) else logging.INFO, "%s", line)


def say_stopped(reason: str = "") -> None:
    """Log that a command was stopped, which ``--quiet`` does not silence."""
    LOGGER.error("stopped: %srun the same command again to continue.", f"{reason}; " if reason else "")


def say_error(message: str) -> None:
    """Log an error, which ``--quiet`` does not silence."""
    LOGGER.error("error: %s", message)
