"""Convert a DOCX, ODT or PDF file to text, in a process of its own: the formats are complex, and the files hostile.

The process may use a minute of a processor and 2 GB, and prints one JSON object: the text with warnings, or an error.
"""

import json
import re
import resource
import sys
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from pan_scdg.errors import UserError

SECONDS, MEMORY = 60, 2 << 30
UNPACKED = 256 << 20
"""Most bytes that all parts of a DOCX or ODT have together."""
CHARACTERS = 8 << 20
"""Longest text."""
PASSWORD = "is protected by a password"
_DOCTYPE = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+.!|<>~-])")


def convert_file(path: Path) -> dict[str, Any]:
    """Return the fields ``text`` and ``warnings`` of a document.

    Raises:
        UserError: it has no text, is protected, damaged or too large.
    """
    kind = path.suffix.lower()
    if kind == ".pdf":
        text, warnings = _convert_pdf(path)
    else:
        _check_archive(path)
        text, warnings = (_convert_docx if kind == ".docx" else _convert_odt)(path), []
    if len(text) > CHARACTERS:
        raise UserError(f"has more than {CHARACTERS >> 20} million characters of text", "split the file")
    # a lone half of a surrogate pair cannot be written in UTF-8
    return {"text": text.encode("utf-8", "replace").decode("utf-8"), "warnings": warnings}


def _check_archive(path: Path) -> None:
    """Raise UserError if the parts of an archive are too large, declare entities, or are encrypted."""
    try:
        with ZipFile(path) as archive:
            if sum(part.file_size for part in archive.infolist()) > UNPACKED:
                raise UserError("looks like a compression bomb", "give the original file")
            for part in archive.infolist():
                if part.flag_bits & 1:
                    raise UserError(PASSWORD, "save it without a password")
                if part.filename.endswith((".xml", ".rels")):
                    _check_part(archive.read(part))
    except (BadZipFile, NotImplementedError) as e:
        with path.open("rb") as file:  # Word encrypts a file inside of its older format
            if file.read(8) == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1":
                raise UserError(f"{PASSWORD}, or has the format of before 2007", "save the file again") from e
        raise UserError(f"is damaged: {e}", "save the file again") from e


def _check_part(data: bytes) -> None:
    # one byte a letter, or two
    if _DOCTYPE.search(data) or _DOCTYPE.search(data.replace(b"\0", b"")):
        raise UserError("contains a DOCTYPE, which is refused", "save the file again")
    if b"manifest:encryption-data" in data:
        raise UserError(PASSWORD, "save it without a password")


def _convert_docx(path: Path) -> str:
    import mammoth

    from pan_scdg.pan.html_text import extract_html

    with path.open("rb") as file:
        html = mammoth.convert_to_html(file, convert_image=mammoth.images.img_element(lambda _: {})).value
    return extract_html(html)


def _convert_odt(path: Path) -> str:
    from odfdo import Document

    markdown = str(Document(path).to_markdown())
    return _ESCAPED.sub(r"\1", markdown).strip()


def _convert_pdf(path: Path) -> tuple[str, list[str]]:
    """Return the text of all pages, and a warning about pages without text."""
    from pypdf import PdfReader
    from pypdf.errors import DependencyError

    reader = PdfReader(path)
    try:
        if reader.is_encrypted and not reader.decrypt(""):
            raise UserError(PASSWORD, "save it without a password")
        pages = [page.extract_text().strip() for page in reader.pages]
    except DependencyError as e:
        raise UserError("is encrypted", "save it without encryption") from e
    empty = [number for number, page in enumerate(pages, 1) if not page]
    if len(empty) == len(pages):
        raise UserError("contains no text: its pages are pictures, as a scanner makes them", "recognise its text")
    what = (
        f"{len(empty)} of {len(pages)} pages have no text, page {empty[0] if empty else 0} first: a picture or a scan"
    )
    return "\n\n".join(page for page in pages if page), [what] if empty else []


def main(path: str) -> None:
    """Print the result of a file."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        answer = convert_file(Path(path))
    except UserError as e:
        answer = {"error": (e.what, e.remedy)}
    except MemoryError:
        answer = {"error": ("needs too much memory", "split the file")}
    except Exception as e:  # the libraries raise whatever a damaged file leads to
        reason = (str(e).strip().splitlines() or [type(e).__name__])[0]
        answer = {"error": (f"is damaged: {reason[:200]}", "save the file again")}
    json.dump(answer, sys.stdout)
