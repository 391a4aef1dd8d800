"""Replace the standard streams: a failing stderr never ends a run, and lost results on stdout are an error.

Log lines, progress bars and libraries all write to ``sys.stderr``, so that replacing the stream covers all of them.
"""

import errno
import io
import os
import sys
from typing import TextIO


class ResultsLostError(Exception):
    """Standard output cannot be written; the text is the reason."""


class ReaderGoneError(ResultsLostError):
    """The program that reads standard output has ended, such as ``head``."""


class _Descriptor(io.RawIOBase):
    """A stream that writes to a file descriptor of the process."""

    def __init__(self, number: int) -> None:
        self._number = number

    def fileno(self) -> int:
        return self._number

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return os.isatty(self._number)


class _Messages(_Descriptor):
    """A stream that drops text which cannot be written."""

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        try:
            return os.write(self._number, data)
        except OSError:
            return len(data)


class _Results(_Descriptor):
    """A stream that raises an error for the first failure; closing it at the end of the process is silent."""

    _lost = False

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        try:
            return len(data) if self._lost else os.write(self._number, data)
        except OSError as e:
            self._lost = True
            gone = e.errno == errno.EPIPE
            raise (ReaderGoneError if gone else ResultsLostError)(e.strerror or str(e)) from e


def guard_streams() -> None:
    """Replace stdout and stderr; open closed descriptors on /dev/null, so that no other file gets their numbers."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            _open_null(number)
    sys.stdout = _open_text(_Results(1), sys.stdout)
    sys.stderr = _open_text(_Messages(2), sys.stderr)


def _open_null(number: int) -> None:
    """Open a closed descriptor on /dev/null; writing results to it remains an error."""
    opened = os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR)
    if opened == number:
        os.set_inheritable(number, True)
    else:
        os.dup2(opened, number)
        os.close(opened)


def _open_text(raw: _Descriptor, former: TextIO | None) -> TextIO:
    encoding = "utf-8" if former is None else former.encoding
    lines = raw.fileno() == 2 or raw.isatty()
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=lines)
