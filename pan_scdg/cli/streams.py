"""The process's standard streams: stderr never ends a run, and results that cannot be shown are an error.

Everything that is said goes through ``sys.stderr``, whoever writes it, a progress bar or a library; so the streams
themselves are replaced, and not those who write.
"""

import errno
import io
import os
import sys
from typing import TextIO


class ResultsLostError(Exception):
    """Standard output takes no results; its text is the reason."""


class ReaderGoneError(ResultsLostError):
    """The program that reads our standard output has ended, as ``head`` does when it has enough."""


class _Descriptor(io.RawIOBase):
    """Writes to a file descriptor of the process."""

    def __init__(self, number: int) -> None:
        self._number = number

    def fileno(self) -> int:
        return self._number

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return os.isatty(self._number)


class _Said(_Descriptor):
    """What cannot be written is lost."""

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        try:
            return os.write(self._number, data)
        except OSError:
            return len(data)


class _Results(_Descriptor):
    """What cannot be written is an error, once: closing the stream at the end of the process is silent."""

    _lost = False

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        try:
            return len(data) if self._lost else os.write(self._number, data)
        except OSError as e:
            self._lost = True
            gone = e.errno == errno.EPIPE
            raise (ReaderGoneError if gone else ResultsLostError)(e.strerror or str(e)) from e


def guard_streams() -> None:
    """Replace standard output and stderr; a closed one is opened on nothing, so that no other file gets its number."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            _open_on_nothing(number)
    sys.stdout = _text(_Results(1), sys.stdout)
    sys.stderr = _text(_Said(2), sys.stderr)


def _open_on_nothing(number: int) -> None:
    """Give a closed descriptor something to stand for; to write results there stays an error."""
    opened = os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR)
    if opened == number:
        os.set_inheritable(number, True)
    else:
        os.dup2(opened, number)
        os.close(opened)


def _text(raw: _Descriptor, former: TextIO | None) -> TextIO:
    encoding = "utf-8" if former is None else former.encoding
    errors = "backslashreplace" if former is None or raw.fileno() == 2 else former.errors
    lines = raw.fileno() == 2 or raw.isatty()
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=lines)
