"""Read a document of any accepted format as text.

The formats are plain text, Markdown, HTML, DOCX, ODT, and by an extra PDF. The last three are complex and the files
hostile, so that a process of its own converts them: it is limited to one CPU minute and 2 GB, and prints one JSON
object, the text with warnings or an error.
"""

import html
import json
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile, ZipFile

from pan_scdg.documents.docx import convert_docx
from pan_scdg.documents.html_text import extract_html
from pan_scdg.documents.odt import convert_odt
from pan_scdg.documents.pdf import PASSWORD, convert_pdf
from pan_scdg.errors import UserError, get_first_line, need_packages
from pan_scdg.normal_form import SURPLUS_MARKS, drop_surplus_marks
from pan_scdg.pan.untrusted import (
    DOCX,
    ODT,
    OLE,
    PAGE,
    PDF,
    REMEDIES,
    ZIP,
    find_foreign_format,
    open_regular,
    read_any_encoding,
    recognise_format,
)

MARKDOWN = ".md"
PLAIN = (".txt", MARKDOWN)
HTML = (".html", ".htm")
CONVERTERS = {".docx": "lxml", ".odt": "lxml", ".pdf": "pypdfium2"}
"""The package that reads a format; pypdfium2 belongs to the extra ``documents``."""
CONVERTED = {".docx": DOCX, ".odt": ODT, ".pdf": PDF}
"""Names of these formats."""
FORMATS = (*PLAIN, *HTML, *CONVERTERS)
CHARSET = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*(iso-8859-\d{1,2}|windows-\d{3,4}|koi8-[ru]|big5|gb18030|gbk|gb2312"""
    rb"""|(?:shift_|x-s)jis|euc-jp|euc-kr)\b""",
    re.IGNORECASE,
)
"""The encoding that an HTML page declares; others that Python knows take quadratic time, or give no valid text."""
COMMENT = re.compile(r"<!--(?:(?!-->)[\s\S])*(?:-->|\Z)")
"""What no reader of a page that was made from Markdown sees."""
REFERENCE = re.compile(r"(?<!\\)&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,31});", re.IGNORECASE)
"""A character as HTML writes it, which Markdown takes over."""
CONVERTED_BYTES = 64 << 20
"""Largest file of a word processor; most of it may be pictures."""
UNPACKED_BYTES = 256 << 20
"""Most bytes that all parts of a DOCX or ODT have together."""
MAX_CHARACTERS = 8 << 20
TOO_LARGE = "needs too much memory", "split the file, or raise the limit of memory"
LACKS_MEMORY = re.compile(rb"MemoryError|failed to map segment")
TIMEOUT_SECONDS, CPU_SECONDS, MEMORY_BYTES = 180, 60, 2 << 30
"""Limits of a conversion."""
_CHILD = "import sys; sys.path[:] = sys.argv[2:]; from pan_scdg.documents.reader import main; main(sys.argv[1])"


class ReadDocument(NamedTuple):
    """The text of a file; all offsets refer to it."""

    path: Path
    text: str
    extracted: bool
    """The text is not the file itself but was taken out of another format."""
    warnings: tuple[str, ...] = ()


def read_any_document(path: Path) -> ReadDocument:
    """Return the text of a file, read as its name's ending says.

    Raises:
        UserError: not readable, damaged, too large, protected, without text, or its converter is not installed.
    """
    document = _read_format(path)
    text = drop_surplus_marks(document.text)
    if text == document.text:
        return document
    return document._replace(text=text, extracted=True, warnings=(*document.warnings, SURPLUS_MARKS))


def _read_format(path: Path) -> ReadDocument:
    kind = path.suffix.lower()
    if kind in CONVERTERS:
        return _convert(path, kind)
    try:
        text, encoding = read_any_encoding(path, CHARSET if kind in HTML else None)
    except UserError as e:
        if wrong_ending := _find_wrong_ending(path, "a text file"):
            raise UserError(*wrong_ending, path) from e
        raise
    written = text
    warnings = [] if encoding is None else [f"the encoding is {encoding}, not UTF-8"]
    if kind in HTML:
        try:
            text = extract_html(text, warnings)
        except ValueError as e:
            raise UserError(f"not readable as HTML: {e}", "save the file again, or as plain text", path) from e
    elif kind == MARKDOWN:
        text = REFERENCE.sub(lambda reference: html.unescape(reference[0]), COMMENT.sub("", text))
    return ReadDocument(path, text, kind in HTML or encoding is not None or text != written, tuple(warnings))


# DOCX, ODT and PDF: the process that starts the conversion


def _convert(path: Path, kind: str) -> ReadDocument:
    need_packages("documents", CONVERTERS[kind])
    with open_regular(path) as file:
        if file.seek(0, 2) > CONVERTED_BYTES:
            raise UserError(f"larger than {CONVERTED_BYTES >> 20} MB", "remove its pictures, or split it", path)
    # -I: neither the folder of the user nor variables choose what is imported
    command = [sys.executable, "-I", "-c", _CHILD, str(path.absolute()), *filter(None, sys.path)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_SECONDS, check=True
        )
    except subprocess.SubprocessError as e:  # a limit, or a fault of a library that is not written in Python
        if isinstance(e, subprocess.CalledProcessError) and LACKS_MEMORY.search(e.stderr):
            raise UserError(*TOO_LARGE, path) from e
        raise UserError("takes too long to convert, or is damaged", "save it as plain text", path) from e
    answer = json.loads(done.stdout)
    if "error" in answer:
        what, remedy = answer["error"]
        raise UserError(what, remedy, path)
    return ReadDocument(path, answer["text"], True, tuple(answer["warnings"]))


# and the process that converts


def main(path: str) -> None:
    """Convert a file and print the result as JSON: ``text`` and ``warnings``, or ``error``."""
    _lower_limit(resource.RLIMIT_CPU, CPU_SECONDS)
    _lower_limit(resource.RLIMIT_AS, MEMORY_BYTES)
    json.dump(answer_for(Path(path)), sys.stdout)


def _lower_limit(kind: int, value: int) -> None:
    """Limit a resource of this process to a value, or to the user's own limit if that is lower."""
    _, largest = resource.getrlimit(kind)
    limit = value if largest == resource.RLIM_INFINITY else min(value, largest)
    resource.setrlimit(kind, (limit, limit))


def answer_for(path: Path) -> dict[str, Any]:
    """Return the result of `convert_file`, or ``error``: what happened and what to do."""
    try:
        return convert_file(path)
    except UserError as e:
        return {"error": (e.what, e.remedy)}
    except (MemoryError, ImportError):  # a library that finds no memory is not imported
        return {"error": TOO_LARGE}
    except Exception as e:  # the libraries raise whatever a damaged file leads to
        # an author knows neither that a document is a zip file nor what PDFium is
        is_of_container = isinstance(e, BadZipFile) or type(e).__module__.startswith("pypdfium2")
        detail = "" if is_of_container else f" ({get_first_line(e)[:200].rstrip('.')})"
        damaged = f"This file is damaged{detail}", "ask for a new copy"
        return {"error": _find_wrong_ending(path, CONVERTED[path.suffix.lower()]) or damaged}


def _find_wrong_ending(path: Path, expected: str) -> tuple[str, str] | None:
    """Return what a file is and what to do if that is known, and it is not what its ending says."""
    with open_regular(path) as file:
        data = file.read(CONVERTED_BYTES)
    kind = recognise_format(data)
    foreign = find_foreign_format(data)
    if foreign is not None and foreign.name == PAGE:
        return f"This file is {PAGE}, not {expected}", "change the ending of its name to .html, or ask for a new copy"
    if foreign is not None and kind in REMEDIES and kind != ZIP:
        return f"This file is {foreign.name}", foreign.remedy
    if kind == expected or kind not in CONVERTED.values():
        return None
    return f"This file is {kind}, not {expected}", "correct the ending of its name"


def convert_file(path: Path) -> dict[str, Any]:
    """Return ``text`` and ``warnings`` of a DOCX, ODT or PDF, in this process and without limits.

    Raises:
        UserError: protected, too large, or a scan.
        Exception: whatever the libraries raise for a damaged file.
    """
    kind = path.suffix.lower()
    if kind == ".pdf":
        text, warnings = convert_pdf(path)
    else:
        _check_archive(path)
        text, warnings = (convert_docx if kind == ".docx" else convert_odt)(path)
    if len(text) > MAX_CHARACTERS:
        raise UserError(f"has more than {MAX_CHARACTERS >> 20} million characters of text", "split the file")
    # a lone half of a surrogate pair cannot be written in UTF-8
    return {"text": text.encode("utf-8", "replace").decode("utf-8"), "warnings": warnings}


def _check_archive(path: Path) -> None:
    """Raise UserError if the parts of an archive are too large, declare entities, or are encrypted."""
    try:
        with ZipFile(path) as archive:
            if sum(part.file_size for part in archive.infolist()) > UNPACKED_BYTES:
                raise UserError("looks like a compression bomb", "give the original file")
            for part in archive.infolist():
                if part.flag_bits & 1:
                    raise UserError(PASSWORD, "save it without a password")
                if part.filename.endswith((".xml", ".rels")):
                    data = archive.read(part).replace(b"\0", b"")  # as if it had one byte a letter
                    _check_part(data, part.filename == "META-INF/manifest.xml")
    except BadZipFile as e:
        with path.open("rb") as file:
            if file.read(len(OLE)) == OLE:
                raise UserError(f"{PASSWORD}, or has the format of before 2007", "save the file again") from e
        raise


def _check_part(data: bytes, is_manifest: bool) -> None:
    if re.search(rb"<!(?:DOCTYPE|ENTITY)", data, re.IGNORECASE):
        raise UserError("contains a DOCTYPE, which is refused", "save the file again")
    if is_manifest and b"manifest:encryption-data" in data:
        raise UserError(PASSWORD, "save it without a password")
