"""Read a document of any accepted format as text: plain text, Markdown, HTML, and by an extra DOCX, ODT and PDF."""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from pan_scdg.errors import UserError, need_packages
from pan_scdg.pan.html_text import extract_html
from pan_scdg.pan.untrusted import DOCUMENT_BYTES, open_regular, read_document, read_utf8

PLAIN = (".txt", ".md")
HTML = (".html", ".htm")
CONVERTERS = {".docx": "mammoth", ".odt": "odfdo", ".pdf": "pypdf"}
"""The package that reads a format; all belong to one extra."""
EXTRA = "documents"
FORMATS = (*PLAIN, *HTML, *CONVERTERS)
CONVERTED_BYTES = 64 << 20
"""Largest file of a word processor; most of it may be pictures."""
SECONDS = 180
"""Longest conversion; the process itself ends after a minute of computing."""
_CHILD = "import sys; sys.path[:] = sys.argv[2:]; from pan_scdg.pan.convert import main; main(sys.argv[1])"


class ReadDocument(NamedTuple):
    """The text of a file; all offsets refer to it."""

    text: str
    extracted: bool
    """The text is not the file itself but was taken out of another format."""
    warnings: tuple[str, ...] = ()


def read_any_document(path: Path) -> ReadDocument:
    """Return the text of a file, read as its name's ending says.

    Raises:
        UserError: not readable, damaged, too large, protected, without text, or its converter is not installed.
    """
    kind = path.suffix.lower()
    if kind in CONVERTERS:
        return _convert(path, kind)
    if kind not in HTML:
        return ReadDocument(read_document(path), False)
    try:
        return ReadDocument(extract_html(read_utf8(path, DOCUMENT_BYTES)), True)
    except ValueError as e:
        raise UserError(f"not readable as HTML: {e}", "save the file again, or as plain text", path) from e


def _convert(path: Path, kind: str) -> ReadDocument:
    need_packages(EXTRA, CONVERTERS[kind])
    with open_regular(path) as file:
        if file.seek(0, 2) > CONVERTED_BYTES:
            raise UserError(f"larger than {CONVERTED_BYTES >> 20} MB", "remove its pictures, or split it", path)
    # -I: neither the folder of the user nor variables choose what is imported
    command = [sys.executable, "-I", "-c", _CHILD, str(path.resolve()), *filter(None, sys.path)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as e:
        raise _explain_end(path) from e
    if done.returncode:
        raise _explain_end(path)
    answer = json.loads(done.stdout)
    if "error" in answer:
        what, remedy = answer["error"]
        raise UserError(what, remedy, path)
    return ReadDocument(answer["text"], True, tuple(answer["warnings"]))


def _explain_end(path: Path) -> UserError:
    return UserError("takes too long to convert", "save it as plain text", path)
