"""Read the text of a PDF as a reader sees it: its pages, and what was typed into its fields."""

import ctypes
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pan_scdg.documents.html_text import COMMENT_NOT_READ, HIDDEN, MIN_COMMENT_WORDS, NOT_READ
from pan_scdg.documents.pdf_lines import has_letters_apart
from pan_scdg.errors import UserError
from pan_scdg.normal_form import normalize

PASSWORD = "This file is protected by a password"
_DIGITS = re.compile(r"\d+")
MIN_RUNNING_SHARE, MAX_RUNNING_LINES = 0.4, 4
"""Least share of the pages of a PDF that have a running header or footer, and the most lines of these."""
APART = "letters stand apart: its words may not have been read"
MAX_SIGNS_SHARE = 0.1
"""Largest share of characters without a meaning on a page whose fonts say which letters they show."""
_LATIN_WORD = re.compile(r"[a-z]{3,}")
FREQUENT_LETTERS, MIN_FREQUENT_SHARE, MIN_LETTERS = frozenset("aeilnorst"), 0.43, 60
"""Letters that are 55 to 70 % of any European text, their least share, and the letters for which it is measured."""
_SENTENCE_END = re.compile(r"[.!?:…。！？][\"'”’»“‘«›‹)\]\d]*\Z")


def convert_pdf(path: Path) -> tuple[str, list[str]]:
    """Return the text of a PDF, and warnings about what is hidden or could not be read.

    Raises:
        UserError: encrypted, a scan, or with letters that cannot be read.
        Exception: whatever pypdfium2 raises for a damaged file.
    """
    from pypdfium2 import PdfDocument, PdfiumError, raw

    from pan_scdg.documents.pdf_page import read_page  # needs NumPy, without which commands start faster

    try:
        document = PdfDocument(path)
    except PdfiumError as e:
        if raw.FPDF_GetLastError() == raw.FPDF_ERR_PASSWORD:
            raise UserError(PASSWORD, "save it without a password") from e
        raise
    warnings: list[str] = []
    with document:
        document.init_forms()
        typed = list(_list_typed(document, warnings))
        pages = drop_running_lines([read_page(page, warnings) for page in document])
    garbled = [number for number, page in enumerate(pages, 1) if is_garbled(page)]
    empty = [number for number, page in enumerate(pages, 1) if not page]
    if len(empty) + len(garbled) == len(pages) and not typed:
        if garbled:
            raise UserError("The letters of this PDF cannot be read", "run OCR first, or ask for another format")
        if HIDDEN in warnings:
            raise UserError("All text of this PDF is hidden", "ask for another copy")
        raise UserError("This PDF is a scan", "run OCR first")
    if empty:
        warnings.append(f"{len(empty)} of {len(pages)} pages have no text, page {empty[0]} first: a picture or a scan")
    if garbled:
        warnings.append(
            f"{len(garbled)} of {len(pages)} pages have letters that cannot be read, page {garbled[0]} first"
        )
    read = join_pages([page for number, page in enumerate(pages, 1) if number not in garbled])
    text = "\n\n".join(filter(None, [read, *typed]))
    return text, [*dict.fromkeys(warnings), *([APART] if has_letters_apart(text) else [])]


def _list_typed(document: Any, warnings: list[str]) -> Iterator[str]:
    """Yield what was typed into fields and onto pages; warn about comments and files."""
    from pypdfium2 import raw

    fields = (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX)
    for page in document:
        for number in range(raw.FPDFPage_GetAnnotCount(page)):
            note = raw.FPDFPage_GetAnnot(page, number)
            kind = raw.FPDFAnnot_GetSubtype(note)
            text = _read_string(raw.FPDFAnnot_GetStringValue, note, b"Contents")
            if kind == raw.FPDF_ANNOT_WIDGET:
                if raw.FPDFAnnot_GetFormFieldType(document.formenv, note) in fields:
                    yield from filter(None, [_read_string(raw.FPDFAnnot_GetFormFieldValue, document.formenv, note)])
            elif kind == raw.FPDF_ANNOT_FREETEXT and text:
                yield text
            elif len(text.split()) >= MIN_COMMENT_WORDS:
                warnings.append(COMMENT_NOT_READ)
            raw.FPDFPage_CloseAnnot(note)
    is_xfa = document.get_formtype() in (raw.FORMTYPE_XFA_FULL, raw.FORMTYPE_XFA_FOREGROUND)
    if is_xfa or document.count_attachments():
        warnings.append(NOT_READ)


def _read_string(function: Any, *arguments: Any) -> str:
    """Return the string that a function of PDFium writes into a buffer in UTF-16."""
    from pypdfium2 import raw

    size = function(*arguments, None, 0)
    buffer = ctypes.create_string_buffer(size)
    function(*arguments, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return buffer.raw[: max(0, size - 2)].decode("utf-16-le", "replace").strip()


def is_garbled(page: str) -> bool:
    """Return True if the letters of a page are not those that it shows: its fonts do not say which they are."""
    signs = sum(unicodedata.category(c) in ("Cc", "Co", "Cn") or c == "\ufffd" for c in page if not c.isspace())
    if signs > MAX_SIGNS_SHARE * len(page):
        return True
    # other scripts, and pages of formulas, have few Latin words
    letters = "".join(
        _LATIN_WORD.findall("".join(c for c in normalize("NFD", page) if not unicodedata.combining(c)).lower())
    )
    frequent = sum(letter in FREQUENT_LETTERS for letter in letters)
    is_latin = len(letters) >= max(MIN_LETTERS, sum(map(str.isalpha, page)) / 2)
    return is_latin and frequent < MIN_FREQUENT_SHARE * len(letters)


def drop_running_lines(pages: Sequence[str]) -> list[str]:
    """Return pages without first and last lines that many pages have, whatever the numbers in them."""
    lines = [page.split("\n") for page in pages]
    for place in (0, -1) * MAX_RUNNING_LINES:
        names = Counter(_name_line(page[place]) for page in lines if len(page) > 1)
        running = {name for name, count in names.items() if count >= max(2, MIN_RUNNING_SHARE * len(pages))}
        for page in lines:
            if len(page) > 1 and _name_line(page[place]) in running:
                del page[place]
    return ["\n".join(page).strip() for page in lines]


def _name_line(line: str) -> str:
    return _DIGITS.sub("#", " ".join(line.split()))


def join_pages(pages: Sequence[str]) -> str:
    """Return the text of all pages; a sentence that goes on over a page stays one."""
    text = ""
    for page in filter(None, pages):
        goes_on = text and not _SENTENCE_END.search(text) and (page[0].islower() or text[-1] in "-\u00ad\u2010,;")
        text += ("\n" if goes_on else "\n\n" if text else "") + page
    return text
