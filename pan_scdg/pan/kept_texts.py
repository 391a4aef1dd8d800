"""Keep texts in a temporary file, so that the input is read once however often its texts are needed."""

import io
import os
import zlib
from array import array
from pathlib import Path
from tempfile import TemporaryFile, gettempdir

from pan_scdg.digests import hash_stream
from pan_scdg.pan.untrusted import DOCUMENT_BYTES, decode_document, open_regular, read_document

LEVEL = 1
"""Of zlib: texts shrink to half; higher levels are slower and save little."""


class CompressedFile:
    """Byte strings by number, compressed in a temporary file, which ends with the process."""

    def __init__(self, name: str) -> None:
        self._ends = array("Q", [0])
        self._file = TemporaryFile(prefix=f"pan_scdg-{name}-")  # noqa: SIM115

    def append(self, data: bytes) -> int:
        """Write a byte string and return its number, counted from 0.

        Raises:
            OSError: the temporary folder, which it names, is full.
        """
        packed = zlib.compress(data, LEVEL)
        try:
            self._file.write(packed)
            self._file.flush()
        except OSError as e:
            raise OSError(e.errno, e.strerror, gettempdir()) from e  # the file itself has no name
        self._ends.append(self._ends[-1] + len(packed))
        return len(self._ends) - 2

    def read(self, number: int) -> bytes:
        """Return a byte string; several readers share the file, some of them in threads."""
        begin, end = self._ends[number], self._ends[number + 1]
        return zlib.decompress(os.pread(self._file.fileno(), end - begin, begin))


class KeptTexts:
    """The texts of some files; those that were kept are not read from their files again."""

    def __init__(self) -> None:
        self._kept = CompressedFile("texts")
        self._numbers: dict[Path, int] = {}

    def keep(self, path: Path) -> str:
        """Keep a file and return the SHA-256 (hex) of its bytes; `read` raises for invalid text.

        Raises:
            UserError: see `open_regular`.
            OSError: the temporary folder is full.
        """
        with open_regular(path) as file:
            data = file.read(DOCUMENT_BYTES + 1)  # enough to see that it is too large
            self._numbers[path] = self._kept.append(data)
            return hash_stream(file, data)

    def read(self, path: Path) -> str:
        """Return the text of a file; see `read_document`."""
        if path not in self._numbers:
            return read_document(path)
        return decode_document(io.BytesIO(self._kept.read(self._numbers[path])), path)
