"""Read hostile input within limits, which every reader applies.

Whatever a file contains, reading it ends with a value or with one ``UserError`` that names the file and, where there
is one, the line: never with a hang, an exhausted memory or a traceback.
"""

import gzip
import json
import math
import re
import stat
import sys
import unicodedata
import zlib
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from pan_scdg.errors import UserError

MB = 1 << 20
DOCUMENT_BYTES = 8 * MB
"""Largest document: twice the Bible. Its tokens take 180 bytes per character, 1.4 GB in total."""
TEXT_BYTES = 64 * MB
"""Largest other text file, such as a list of pairs."""
XML_BYTES = 16 * MB
"""Largest XML file; its tree takes up to 30 times its size."""
LINE_BYTES = 32 * MB
STREAM_BYTES = 64 << 30
BOMB_RATIO = 1000
BOMB_FROM_BYTES = 100 * MB
ID_CHARACTERS = 512
JSON_VALUES, JSON_DEPTH = 100_000, 64

BYTE_ORDER_MARKS = (
    (b"\xff\xfe\0\0", "UTF-32"),
    (b"\0\0\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
"""The longer ones first."""
CODECS = {
    **{name: name for name in ("UTF-32", "UTF-16", "UTF-16-BE", "UTF-16-LE")},
    **dict.fromkeys(("Windows-1252", "Latin-1 or Windows-1252"), "Windows-1252"),
}
"""Names of `guess_encoding`, and those that Python knows."""
AS_BROWSERS = {"ISO-8859-1": "Windows-1252", "ISO-8859-9": "Windows-1254", "GB2312": "GBK"}
AS_BROWSERS |= {"EUC-KR": "CP949", "SHIFT_JIS": "CP932", "X-SJIS": "CP932"}
"""What browsers read a declared encoding as: one with more characters, such as typographic quotation marks."""
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
"""A string, which the end of a cut-off text ends too: a search that fails would begin again at each quotation mark."""
_BRACKET = re.compile(r"[\[\]{}]")
SAMPLE = 1 << 16
"""Bytes by which a format or an encoding is recognised."""
GZIP, OLE = b"\x1f\x8b", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""First bytes of gzip files, and of those of Word before 2007, inside of which later ones encrypt files."""
XLSX = "an Excel workbook (XLSX)"
DOCX, ODT, PDF = "a Word document (DOCX)", "an OpenDocument text (ODT)", "a PDF"
LFS = "a pointer of Git LFS, not the file itself"
PAGE = "a web page"
ARCHIVES = (
    (b"mimetypeapplication/vnd.oasis.opendocument.text", ODT),
    (b"mimetypeapplication/epub+zip", "an EPUB"),
    (b"word/document.xml", DOCX),
    (b"xl/workbook.xml", XLSX),
)
UNPACK = "unpack it"
PACKED = (
    (GZIP, "a gzip file"),
    (b"\x28\xb5\x2f\xfd", "a zstd file"),
    *((b"BZh%d1AY&SY" % level, "a bzip2 file") for level in range(1, 10)),
    (b"\xfd7zXZ\0", "an xz file"),
    (b"\x04\x22\x4d\x18", "an lz4 file"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
)
BEGINNINGS = (
    (b"version https://git-lfs.github.com/spec/", LFS),
    (b"%PDF-", PDF),
    (b"{\\rtf", "a Rich Text document (RTF)"),
    (OLE, "a Word document of before 2007 (DOC)"),
    *PACKED,
)
ZIP = "a ZIP archive"
REMEDIES = {
    LFS: "run `git lfs pull` in its repository, or fetch the file itself",
    XLSX: "save it as CSV or as plain text, in UTF-8",
    PAGE: "fetch the file again, signed in where that is needed",
    **dict.fromkeys((ZIP, *(name for _, name in PACKED)), UNPACK),
}
PAGE_BEGINNINGS = (b"<!doctype html", b"<html")
UNPACK_OR_PACK = f"{UNPACK}, or pack it with gzip instead"
COMMENT = "#"
_COLUMN = re.compile(r"[^ \t\n\v\f\r]+")
"""What trec_eval takes for a column: `str.split` cuts at further white space, such as U+00A0."""


# What a file really is, by its first bytes


class ForeignFile(NamedTuple):
    """The real format of a file, instead of the expected one, and the remedy."""

    name: str
    remedy: str


def recognise_format(data: bytes) -> str | None:
    """Return the name of the format of a file that is not plain text; None for an unknown format."""
    beginning = data[:SAMPLE].removeprefix(b"\xef\xbb\xbf").lstrip()
    for magic, name in BEGINNINGS:
        if beginning.startswith(magic):
            return name
    if not data.startswith(b"PK\x03\x04"):
        return None
    return next((name for magic, name in ARCHIVES if magic in data), ZIP)


def find_foreign_format(data: bytes, remedy: str = "put the right file there") -> ForeignFile | None:
    """Return what a file of data is instead, by its first bytes; None if they are not of another format.

    Args:
        data: the first bytes of the file.
        remedy: for a format that needs no step of its own, such as unpacking.
    """
    beginning = data[:SAMPLE].removeprefix(b"\xef\xbb\xbf").lstrip()[: len(PAGE_BEGINNINGS[0])].lower()
    name = PAGE if beginning.startswith(PAGE_BEGINNINGS) else recognise_format(data)
    return None if name is None else ForeignFile(name, REMEDIES.get(name, remedy))


# Files


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


def read_bytes(path: Path, limit: int = TEXT_BYTES) -> bytes:
    """Return all bytes of the regular file ``path``.

    Raises:
        UserError: see `open_regular`; larger than ``limit`` bytes.
    """
    with open_regular(path) as file:
        data = file.read(limit + 1)
    _check_size(data, limit, path)
    return data


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


def _check_size(data: bytes, limit: int, path: Path) -> None:
    if len(data) > limit:
        size = f"{limit} bytes" if limit < MB else f"{limit // MB} MB"
        raise UserError(f"larger than {size}", "split the file or shorten it", path)


# Texts


def read_utf8(path: Path, limit: int = TEXT_BYTES) -> str:
    r"""Return the text of ``path`` as the official reader sees it: ``\r\n`` and ``\r`` become ``\n``.

    A byte-order mark stays as character 0, because offsets count it (formats, "Characters and newlines").

    Raises:
        UserError: see `read_bytes`; not UTF-8 (names line and byte).
    """
    data = read_bytes(path, limit)
    check_format(data, path)
    return _decode(data, path)


def check_format(data: bytes, path: Path, remedy: str = UNPACK) -> None:
    """Raise UserError if the first bytes of a file of data are those of another format, such as an archive.

    Args:
        data: its first bytes.
        path: the file.
        remedy: for a packed file.
    """
    if foreign := find_foreign_format(data):
        what = remedy if foreign.remedy == UNPACK else foreign.remedy
        raise UserError(f"this is {foreign.name}", what, path)


def read_document(path: Path) -> str:
    """Return the text of a document, see `read_utf8`; a file of a word processor is recognised and refused.

    Raises:
        UserError: see `read_utf8`; a PDF, DOCX, ODT, RTF and the like; text of two bytes a character.
    """
    return _decode_document(read_bytes(path, DOCUMENT_BYTES), path)


def read_any_encoding(path: Path, declared: re.Pattern[bytes] | None = None) -> tuple[str, str | None]:
    """Return the text of a document, and the encoding if that is not UTF-8.

    It is the one that a byte-order mark or the document declares, or else a guess (`guess_encoding`).

    Args:
        path: the document.
        declared: what a document declares, its first group; None: it declares nothing.

    Raises:
        UserError: see `read_document`; of no encoding that is known.
    """
    data = read_bytes(path, DOCUMENT_BYTES)
    try:
        return _decode_document(data, path), None
    except UserError:
        named = declared and declared.search(data[:SAMPLE])
        encoding = CODECS.get(guess_encoding(data) or "", "") if recognise_format(data) is None else None
        if encoding is not None and named and not _is_wide(data[:SAMPLE]):
            label = named[1].decode("ascii", "replace").upper().replace("WINDOWS", "Windows")
            encoding = AS_BROWSERS.get(label, label)
        try:
            text = data.decode(encoding).removeprefix("\ufeff") if encoding else None
        except (LookupError, UnicodeDecodeError):
            text = None
        if text is None:
            raise
        return text.replace("\r\n", "\n").replace("\r", "\n"), encoding


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
    _check_size(data, DOCUMENT_BYTES, where)
    return _decode_document(data, where)


def _decode_document(data: bytes, path: Path) -> str:
    if kind := recognise_format(data):
        remedy = REMEDIES.get(kind, "export it as plain text in UTF-8")
        raise UserError(f"this is {kind}, not a text file", remedy, path)
    if _is_wide(data):
        raise UserError(f"not UTF-8: it seems to be {guess_encoding(data)}", "convert the file to UTF-8", path, 1)
    return _decode(data, path)


def _decode(data: bytes, path: Path) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as e:
        before = data[: e.start]
        line = before.count(b"\n") + before.count(b"\r") - before.count(b"\r\n") + 1
        raise _describe_not_utf8(data, e, f"byte {e.start}", path, line) from e
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _describe_not_utf8(data: bytes, error: UnicodeDecodeError, place: str, path: Path, line: int) -> UserError:
    start = error.start
    what = f"not UTF-8: {place} is 0x{data[start]:02x} ({error.reason})"
    if encoding := guess_encoding(data[:SAMPLE] if start < SAMPLE else data[start - SAMPLE // 2 :]):
        what += f", it seems to be {encoding}"
    return UserError(what, "convert the file to UTF-8", path, line)


def guess_encoding(data: bytes) -> str | None:
    """Return the probable encoding of bytes that are not UTF-8; None if it cannot be guessed."""
    for mark, name in BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return name
    sample = data[:SAMPLE]
    if _is_wide(sample):
        if sample.count(0) > 0.6 * len(sample):
            return "UTF-32"
        return "UTF-16-BE" if sample[::2].count(0) > sample[1::2].count(0) else "UTF-16-LE"
    foreign = [byte for byte in sample if byte >= 0x80]
    # in Western languages few letters have accents
    if not foreign or 0 in sample or len(foreign) > 0.3 * len(sample):
        return None
    return "Windows-1252" if any(byte < 0xA0 for byte in foreign) else "Latin-1 or Windows-1252"


def _is_wide(data: bytes) -> bool:
    """Return True for an encoding with two or four bytes per character.

    A quarter of the bytes or more are 0; or of other alphabets than Latin the first or the second ones of spaces.
    """
    sample = data[:SAMPLE]
    first, second = sample[::2].count(0), sample[1::2].count(0)
    is_of_spaces = min(first, second) * 10 < first + second >= 0.03 * len(sample)
    return len(sample) >= 16 and (first + second >= 0.25 * len(sample) or is_of_spaces)


# Lines


def stream_lines(path: Path, total: int = STREAM_BYTES, longest: int = LINE_BYTES) -> Iterator[tuple[int, str]]:
    """Yield ``(line number from 1, line without its end)`` of a UTF-8 file, which may be compressed, whatever its name.

    Raises:
        UserError: not readable, not UTF-8, not gzip or cut off, a line longer than ``longest`` bytes, more than
            ``total`` bytes, or a compression bomb (beyond 100 MB: expanded more than 1,000-fold).
    """
    with open_regular(path) as raw:
        beginning = cast(BufferedReader, raw).peek(SAMPLE)
        packed = beginning.startswith(GZIP)
        if not packed:
            check_format(beginning, path, UNPACK_OR_PACK)
        # GzipFile is a binary file, which mypy cannot see from its stub
        source = cast(BinaryIO, gzip.GzipFile(fileobj=raw, mode="rb")) if packed else raw
        number = size = 0
        while data := _read_line(source, path, number + 1, longest):
            number, size = number + 1, size + len(data)
            if packed and number == 1:
                check_format(data, path, UNPACK_OR_PACK)
            if size > total:
                raise UserError(f"has more than {total} bytes", "split the input", path, number)
            if packed and size > BOMB_FROM_BYTES and size > BOMB_RATIO * raw.tell():
                raise UserError("looks like a compression bomb", "give the original file", path, number)
            try:
                yield number, data.rstrip(b"\r\n").decode("utf-8")
            except UnicodeDecodeError as e:
                raise _describe_not_utf8(data, e, f"byte {e.start} of the line", path, number) from e


def stream_columns(path: Path, is_data: Callable[[list[str]], bool]) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the columns of each line of a run or of judgements, as trec_eval reads them.

    Blank lines, comments, which begin with ``#``, and byte-order marks, also those of files that were joined, are
    skipped.

    Args:
        path: the file.
        is_data: whether columns can be those of a line that is no comment.

    Raises:
        UserError: see `stream_lines`; a line that some evaluators read and others skip as a comment.
    """
    for number, line in stream_lines(path):
        columns = _COLUMN.findall(line.lstrip("\ufeff"))
        if columns and columns[0].startswith(COMMENT):
            if columns[0] == COMMENT or not is_data(columns):
                continue
            what = f"begins with {COMMENT}: some evaluators skip such a line as a comment"
            raise UserError(what, f"rename the query, or write a space after {COMMENT}", path, number)
        if columns:
            yield number, columns


def parse_number(text: str) -> float | None:
    """Return a number as trec_eval reads it, None for other text; `float` would also take 1_0 and foreign digits."""
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


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


# XML, JSON, identifiers


def parse_xml(path: Path) -> Any:
    """Return the root element (lxml) of the UTF-8 file ``path``: no DTD, no entities, no network, no huge nodes.

    A DOCTYPE is searched for before parsing, since attribute values expand entities while they are parsed. That search
    is sound because the bytes are UTF-8 and are parsed as UTF-8 whatever the file declares.

    Raises:
        UserError: not readable, not UTF-8, contains a DOCTYPE, or is not well-formed (names the line).
    """
    from lxml import etree

    text = read_utf8(path, XML_BYTES)
    doctype = text.find("<!DOCTYPE")
    if doctype >= 0:
        line = text.count("\n", 0, doctype) + 1
        raise UserError("contains a DOCTYPE, which is refused", "remove the DOCTYPE", path, line)
    try:
        return parse_xml_bytes(text.removeprefix("\ufeff").encode("utf-8"), "utf-8")
    except etree.XMLSyntaxError as e:
        # lxml appends "(<string>, line 3)", which the place of the error already says
        what = (e.msg or "empty document").split(", line ")[0]
        raise UserError(f"not well-formed XML: {what}", "correct the file", path, e.lineno or 1) from e


def parse_xml_bytes(data: bytes, encoding: str | None = None) -> Any:
    """Return the root of XML without a DOCTYPE, without its comments; ``encoding`` overrides the declared one.

    Raises:
        lxml.etree.XMLSyntaxError: not well-formed.
    """
    from lxml import etree

    parser = etree.XMLParser(
        encoding=encoding,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    return etree.fromstring(data, parser)


def parse_json(text: str, values: int = JSON_VALUES, finite: bool = True) -> Any:
    """Return the value of a JSON text; every number in it is finite, unless the caller permits others.

    Counts values before parsing, because a Python object takes up to 60 times the bytes of its JSON text.

    Args:
        text: one JSON document.
        values: the largest number of members of all objects and arrays together.
        finite: refuse ``NaN``, ``Infinity`` and what is too large for a float.

    Raises:
        ValueError: the text is malformed (then a ``json.JSONDecodeError``) or exceeds a limit, or a number is not
            finite or too long to convert.
    """
    _check_json_limits(text, values)
    if not finite:
        return json.loads(text)
    return json.loads(text, parse_constant=_refuse_constant, parse_float=_parse_finite)


def _check_json_limits(text: str, values: int) -> None:
    """Raise ValueError if a JSON text has more values, or is nested deeper than `JSON_DEPTH`."""
    brackets = text.count("[") + text.count("{")
    if brackets <= JSON_DEPTH and brackets + text.count(",") <= values:
        return  # within the limits even if strings contain some of these characters
    bare = _STRING.sub("", text)
    if bare.count("[") + bare.count("{") + bare.count(",") > values:
        raise ValueError(f"more than {values} values")
    level = 0
    for bracket in _BRACKET.findall(bare):
        level += 1 if bracket in "[{" else -1
        if level > JSON_DEPTH:
            raise ValueError(f"nested deeper than {JSON_DEPTH} levels")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _parse_finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value


def parse_json_object(line: str, path: Path, number: int, values: int = JSON_VALUES) -> dict[str, Any]:
    """Return the JSON object in line ``number`` of ``path``, of at most so many values.

    Raises:
        UserError: malformed JSON, beyond the limits of `parse_json`, a number that is not finite, or not an object.
    """
    try:
        value = parse_json(line, values)
    except json.JSONDecodeError as e:
        raise UserError(f"not JSON: {e.msg} (column {e.colno})", "correct the line", path, number) from e
    except ValueError as e:
        raise UserError(f"not readable as JSON: {e}", "correct the line", path, number) from e
    if not isinstance(value, dict):
        what = f"expected a JSON object, found {type(value).__name__}"
        raise UserError(what, "write one object per line", path, number)
    return value


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
