"""Read hostile input within limits, which every reader applies.

Whatever a file holds, reading it ends with a value or with one ``UserError`` that names the file and, where there is
one, the line: never with a hang, an exhausted memory or a traceback.
"""

import codecs
import gzip
import io
import json
import stat
import sys
import unicodedata
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from pan_scdg.bounded_json import parse_json
from pan_scdg.errors import UserError
from pan_scdg.pan.kinds import SAMPLE, guess_encoding, is_wide, recognise_format

MB = 1 << 20
DOCUMENT_BYTES = 8 * MB
"""Largest document: twice the Bible. Its tokens take 180 bytes per character, 1.4 GB in total."""
TEXT_BYTES = 64 * MB
"""Largest other text file, such as a list of pairs; with one emoji in it, it takes 320 MB while it is read."""
XML_BYTES = 16 * MB
"""Largest XML file; its tree takes up to 30 times its size."""
LINE_BYTES = 32 * MB
STREAM_BYTES = 64 << 30
BOMB_RATIO = 1000
BOMB_FROM_BYTES = 100 * MB
ID_CHARACTERS = 512

See = Callable[[Any], object]
"""Takes bytes that are read."""


def read_utf8(path: Path, limit: int = TEXT_BYTES) -> str:
    r"""Return the text of ``path`` as the official reader sees it: ``\r\n`` and ``\r`` become ``\n``.

    A byte-order mark stays as character 0, because offsets count it (formats, "Characters and newlines"). One
    character above U+FFFF makes a string take four bytes per character, so it is decoded in parts and never held twice.

    Raises:
        UserError: not a regular file, not readable, larger than ``limit`` bytes, or not UTF-8 (names line and byte).
    """
    with open_regular(path) as file:
        return _decode(file, path, limit)


def _decode(file: BinaryIO, path: Path, limit: int) -> str:
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")(), translate=True)
    parts, seen = list[str](), 0
    try:
        while block := file.read(MB):
            seen += len(block)
            if seen > limit:
                raise _describe_too_large(path, limit)
            parts.append(decoder.decode(block))
        parts.append(decoder.decode(b"", final=True))
    except UnicodeDecodeError as e:
        file.seek(0)
        raise _describe_not_utf8(path, file.read(limit)) from e
    return "".join(parts)


def _describe_not_utf8(path: Path, data: bytes) -> UserError:
    """Return the error that names the first byte that is not UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as e:
        start, reason = e.start, e.reason
    else:
        return UserError("was changed while it was read", "run again", path)
    line = data.count(b"\n", 0, start) + data.count(b"\r", 0, start) - data.count(b"\r\n", 0, start) + 1
    what = f"not UTF-8: byte {start} is 0x{data[start]:02x} ({reason})"
    if encoding := guess_encoding(data[:SAMPLE] if start < SAMPLE else data[start - SAMPLE // 2 :]):
        what += f", it seems to be {encoding}"
    return UserError(what, "convert the file to UTF-8", path, line)


def read_document(path: Path) -> str:
    """Return the text of a document, see `read_utf8`; a file of a word processor is recognised and refused.

    Raises:
        UserError: see `read_utf8`; a PDF, DOCX, ODT, RTF and the like; text of two bytes a character.
    """
    with open_regular(path) as file:
        return decode_document(file, path)


def read_standard_input() -> str:
    """Return the text of the document on standard input.

    Raises:
        UserError: see `read_document`; standard input is closed.
    """
    where = Path("standard input")
    if sys.stdin is None:
        raise UserError("is closed", "redirect a file or a pipe to it", where)
    try:
        data = sys.stdin.buffer.read(DOCUMENT_BYTES + 1)
    except OSError as e:
        raise UserError(f"cannot be read: {_describe_reason(e)}", "give a file or a pipe", where) from e
    return decode_document(io.BytesIO(data), where)


def decode_document(file: BinaryIO, path: Path) -> str:
    """Return the text of an open document; see `read_document`."""
    data = file.read(SAMPLE)
    if data.startswith(b"PK"):  # the names in an archive can be anywhere in it
        data += file.read(DOCUMENT_BYTES - SAMPLE)
    if kind := recognise_format(data):
        raise UserError(f"this is {kind}, not a text file", "export it as plain text in UTF-8", path)
    if is_wide(data):
        raise UserError(f"not UTF-8: it seems to be {guess_encoding(data)}", "convert the file to UTF-8", path, 1)
    file.seek(0)
    return _decode(file, path, DOCUMENT_BYTES)


def read_bytes(path: Path) -> bytes:
    """Return all bytes of the regular file ``path``.

    Raises:
        UserError: not a regular file, not readable, or larger than `TEXT_BYTES`.
    """
    with open_regular(path) as file:
        data = file.read(TEXT_BYTES + 1)
    if len(data) > TEXT_BYTES:
        raise _describe_too_large(path, TEXT_BYTES)
    return data


def _describe_too_large(path: Path, limit: int) -> UserError:
    size = f"{limit} bytes" if limit < MB else f"{limit // MB} MB"
    return UserError(f"larger than {size}", "split the file or shorten it", path)


def open_regular(path: Path) -> BinaryIO:
    """Return ``path`` opened for reading bytes; a pipe or device, which could block forever, is refused before that.

    Raises:
        UserError: it does not exist, is not a regular file, or may not be read.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UserError("not a regular file", "put a regular file there", path)
        return open(path, "rb")
    except FileNotFoundError as e:
        raise UserError("the file does not exist", "add it or correct its name", path) from e
    except (OSError, ValueError) as e:
        raise UserError(f"cannot be read: {_describe_reason(e)}", "correct its name or permissions", path) from e


def is_file(path: Path) -> bool:
    """Return True if ``path`` is a regular file; False for a name that the file system cannot hold."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def list_directory(directory: Path) -> list[Path]:
    """Return the visible entries of ``directory``, by name.

    Raises:
        UserError: it is missing, not a directory, or may not be read.
    """
    try:
        return sorted(p for p in directory.iterdir() if not p.name.startswith("."))
    except FileNotFoundError as e:
        raise UserError("the directory does not exist", "correct the path", directory) from e
    except (OSError, ValueError) as e:
        raise UserError(f"cannot be listed: {_describe_reason(e)}", "give a readable directory", directory) from e


def _describe_reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error)


def stream_lines(
    path: Path, total: int = STREAM_BYTES, longest: int = LINE_BYTES, see: See | None = None
) -> Iterator[tuple[int, str]]:
    """Yield ``(line number from 1, line without its end)`` of a UTF-8 file, compressed if its name ends in ``.gz``.

    ``see`` is called with all bytes of the file as it is stored, for example to hash it while it is read.

    Raises:
        UserError: not readable, not UTF-8, not gzip or cut off, a line longer than ``longest`` bytes, more than
            ``total`` bytes, or a compression bomb (beyond 100 MB: expanded more than 1,000-fold).
    """
    with _open_seen(path, see) as raw:
        packed = path.name.endswith(".gz")
        # GzipFile is a binary file, which mypy cannot see from its stub
        source = cast(BinaryIO, gzip.GzipFile(fileobj=raw, mode="rb")) if packed else raw
        number = seen = 0
        while data := _read_line(source, path, number + 1, longest):
            number, seen = number + 1, seen + len(data)
            if seen > total:
                raise UserError(f"has more than {total} bytes", "split the input", path, number)
            if packed and seen > BOMB_FROM_BYTES and seen > BOMB_RATIO * raw.tell():
                raise UserError("looks like a compression bomb", "give the original file", path, number)
            yield number, _decode_line(data, path, number)


class _SeenFile(io.FileIO):
    """A file that passes all bytes that are read from it to a function."""

    def __init__(self, file: BinaryIO, see: See) -> None:
        super().__init__(file.fileno(), closefd=False)
        self._file, self._see = file, see

    def readinto(self, buffer: Any) -> int | None:
        """Read into a buffer and return the number of bytes."""
        count = super().readinto(buffer)
        self._see(memoryview(buffer)[:count])
        return count

    def close(self) -> None:
        """Close the file."""
        super().close()
        self._file.close()


def _open_seen(path: Path, see: See | None) -> BinaryIO:
    file = open_regular(path)
    return file if see is None else io.BufferedReader(_SeenFile(file, see), 1 << 16)


def _read_line(source: BinaryIO, path: Path, number: int, longest: int) -> bytes:
    try:
        data = source.readline(longest + 1)
    except EOFError as e:
        raise UserError("the gzip file is cut off", "fetch it again", path, number) from e
    except (zlib.error, OSError) as e:
        raise UserError(f"cannot be read: {_describe_reason(e)}", "fetch the file again", path, number) from e
    if len(data) > longest:
        raise UserError(f"line longer than {longest} bytes", "correct the file", path, number)
    return data


def _decode_line(data: bytes, path: Path, number: int) -> str:
    try:
        return data.rstrip(b"\r\n").decode("utf-8")
    except UnicodeDecodeError as e:
        what = f"not UTF-8: byte {e.start} of the line is 0x{data[e.start]:02x}"
        if encoding := guess_encoding(data[max(0, e.start - SAMPLE // 2) :] if e.start else data[:SAMPLE]):
            what += f", it seems to be {encoding}"
        raise UserError(what, "convert the file to UTF-8", path, number) from e


def parse_xml(path: Path) -> Any:
    """Return the root element (lxml) of the UTF-8 file ``path``: no DTD, no entities, no network, no huge nodes.

    A DOCTYPE is searched for before parsing, since attribute values expand entities while they are parsed. That search
    is sound because the bytes are UTF-8 and are parsed as UTF-8 whatever the file declares.

    Raises:
        UserError: not readable, not UTF-8, holds a DOCTYPE, or is not well-formed (names the line).
    """
    from lxml import etree

    text = read_utf8(path, XML_BYTES)
    doctype = text.find("<!DOCTYPE")
    if doctype >= 0:
        line = text.count("\n", 0, doctype) + 1
        raise UserError("contains a DOCTYPE, which is refused", "remove the DOCTYPE", path, line)
    parser = etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
    )
    try:
        return etree.fromstring(text.removeprefix("\ufeff").encode("utf-8"), parser)
    except etree.XMLSyntaxError as e:
        # lxml appends "(<string>, line 3)", which the place of the error already says
        what = (e.msg or "empty document").split(", line ")[0]
        raise UserError(f"not well-formed XML: {what}", "correct the file", path, e.lineno or 1) from e


def check_id(text: str, where: str | Path, line: int | None) -> str:
    """Return ``text`` if it can serve as an identifier in every official format; slashes are allowed.

    Raises:
        UserError: empty, longer than 512 characters, or with white space, control characters or non-characters.
    """
    if not text:
        fault = "an empty id"
    elif len(text) > ID_CHARACTERS:
        fault = f"an id of {len(text)} characters (limit {ID_CHARACTERS})"
    elif any(c.isspace() for c in text):
        fault = f"white space in the id {text!r}"
    elif any(unicodedata.category(c) in ("Cc", "Cs") or ord(c) & 0xFFFE == 0xFFFE for c in text):
        fault = f"a control character in the id {text!r}"
    else:
        return text
    raise UserError(fault, "correct the id", where, line)


def parse_json_object(line: str, path: Path, number: int) -> dict[str, Any]:
    """Return the JSON object in line ``number`` of ``path``.

    Raises:
        UserError: malformed JSON, beyond the limits of `parse_json`, a number that is not finite, or not an object.
    """
    try:
        value = parse_json(line)
    except json.JSONDecodeError as e:
        raise UserError(f"not JSON: {e.msg} (column {e.colno})", "correct the line", path, number) from e
    except (ValueError, RecursionError) as e:
        raise UserError(f"not readable as JSON: {e}", "correct the line", path, number) from e
    if not isinstance(value, dict):
        what = f"expected a JSON object, found {type(value).__name__}"
        raise UserError(what, "write one object per line", path, number)
    return value
