"""Read the text of a PDF as a reader sees it: its pages, and what was typed into its fields."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.errors import UserError
from pan_scdg.pan.html_text import HIDDEN, MIN_QUOTED_WORDS, NOT_READ, close_gaps, names_source
from pan_scdg.pan.pdf_operators import drop_hidden_text
from pan_scdg.pan.styles import MIN_INDENT

PASSWORD = "is protected by a password"
_DIGITS = re.compile(r"\d+")
MIN_RUNNING_SHARE, MAX_RUNNING_LINES = 0.4, 4
"""Least share of the pages of a PDF that have a running header or footer, and the most lines of these."""
MIN_LINE_WORDS, MAX_SHORT_WORDS = 12, 0.7
"""Words of a line in which letters may stand apart, and the largest share of one or two letters in other lines."""
APART = "letters stand apart: its words may not have been read"
MAX_SIGNS_SHARE = 0.1
"""Largest share of characters without a meaning on a page whose fonts say which letters they show."""
_LATIN_WORD = re.compile(r"[a-z]{3,}")
FREQUENT_LETTERS, MIN_FREQUENT_SHARE, MIN_LETTERS = frozenset("aeilnorst"), 0.43, 60
"""Letters that are 55 to 70 % of any European text, their least share, and the letters for which it is measured."""
NO_MAP = "a font does not say which letters it shows: some words may not have been read"
NOT_SEARCHED = "a page is damaged: hidden text on it was not looked for"
MIN_COMMENT_WORDS = 20
"""Words of a comment that are worth a warning."""
COMMENT_NOT_READ = "a long comment was not read"
MIN_MORE_WORDS = 1.1
"""Words of a line by places, as a share of those in its pieces, that show that pieces lack spaces."""
MIN_MARGIN_LINES, MAX_SHIFT, MAX_INDENT = 3, 2.0, 100.0
"""Lines that begin at a margin, and in points how far from it those of a paragraph and of a quotation begin at most."""
_SLANTED = re.compile(r"ital|obli|slant|-It\b|CMTI|SFTI", re.IGNORECASE)
"""In the names of fonts with italic letters."""
_RIGHT_TO_LEFT, _LEFT_TO_RIGHT = {"R", "AL"}, {"L", "EN", "AN"}
_SENTENCE_END = re.compile(r"[.!?:…。！？][\"'”’»)\]\d]*\Z")


def convert_pdf(path: Path) -> tuple[str, list[str]]:
    """Return the text of a PDF, and warnings about what is hidden or could not be read.

    Raises:
        UserError: encrypted, a scan, or with letters that cannot be read.
        Exception: whatever pypdf raises for a damaged file.
    """
    from pypdf import PdfReader
    from pypdf.errors import DependencyError

    reader = PdfReader(path)
    warnings: list[str] = []
    try:
        if reader.is_encrypted and not reader.decrypt(""):
            raise UserError(PASSWORD, "save it without a password")
        pages = drop_running_lines([_extract_page(page, warnings) for page in reader.pages])
        typed = list(_list_typed(reader, warnings))
    except DependencyError as e:
        raise UserError("is encrypted", "save it without encryption") from e
    garbled = [number for number, page in enumerate(pages, 1) if is_garbled(page)]
    empty = [number for number, page in enumerate(pages, 1) if not page]
    if len(empty) + len(garbled) == len(pages) and not typed:
        if garbled:
            raise UserError("The letters of this PDF cannot be read", "run OCR first, or ask for another format")
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


def _list_typed(reader: Any, warnings: list[str]) -> Iterator[str]:
    """Yield what was typed into fields and onto pages; warn about comments and files."""
    for field in (reader.get_fields() or {}).values():
        value = field.get("/V") or ""
        text = "\n".join(map(str, value)) if isinstance(value, list) else str(value)  # several of a list
        if field.get_inherited("/FT") in ("/Tx", "/Ch") and text.strip():
            yield text.strip()
    for page in reader.pages:
        for annotation in (each.get_object() for each in page.get("/Annots") or ()):
            text = str(annotation.get("/Contents") or "").strip()
            if annotation.get("/Subtype") == "/FreeText" and text:
                yield text
            elif len(text.split()) >= MIN_COMMENT_WORDS:
                warnings.append(COMMENT_NOT_READ)
    form = reader.root_object.get("/AcroForm")
    if (form is not None and "/XFA" in form.get_object()) or any(True for _ in reader.attachment_list):
        warnings.append(NOT_READ)


def _extract_page(page: Any, warnings: list[str]) -> str:
    """Return the text of a page; where letters stand apart or run from right to left, by their places on the page."""
    if any(_has_no_map(font.get_object()) for font in (page.get("/Resources", {}).get("/Font") or {}).values()):
        warnings.append(NO_MAP)
    try:
        if drop_hidden_text(page):
            warnings.append(HIDDEN)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # operators without their numbers
        warnings.append(NOT_SEARCHED)
    text = close_gaps("\n".join(mark_quotations(_read_lines(page)))).strip()
    directions = [unicodedata.bidirectional(letter) for letter in text if letter.isalpha()]
    if 2 * sum(direction in _RIGHT_TO_LEFT for direction in directions) > len(directions):
        return _read_right_to_left(page)
    if has_letters_apart(text):
        placed = close_words(close_gaps(str(page.extract_text(extraction_mode="layout"))))
        return text if has_letters_apart(placed) else placed
    return text


class Line(NamedTuple):
    """A line of a page."""

    text: str
    left: float
    """Where it begins, in points."""
    italic: int = 0
    """Number of its characters in italics."""

    @property
    def is_italic(self) -> bool:
        """Return True if most of it is in italics."""
        return 2 * self.italic > len(self.text)


def _read_lines(page: Any) -> list[Line]:
    lines = [Line("", 0.0)]

    def add(text: str, outer: Sequence[float], inner: Sequence[float], font: Any, _size: float) -> None:
        first = inner[4] * outer[0] + inner[5] * outer[2] + outer[4]
        is_italic = bool(_SLANTED.search(str((font or {}).get("/BaseFont", ""))))
        for number, part in enumerate(text.split("\n")):
            if number:
                lines.append(Line("", 0.0))
            before, left, italic = lines[-1]
            left = left if before.strip() else first
            lines[-1] = Line(before + part, left, italic + len(part) * is_italic)

    page.extract_text(visitor_text=add)
    return lines


def mark_quotations(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the lines of a page, and block quotations as Markdown has them.

    They are in italics, or indented, and announced by a colon or end with a source.
    """
    margins = Counter(round(line.left) for line in lines)
    begin = 0
    while begin < len(lines):
        first = lines[begin]
        end = begin + 1
        while end < len(lines) and _goes_on(first, lines[end]):
            end += 1
        is_indented = end - begin > 1 and any(
            count >= MIN_MARGIN_LINES and MIN_INDENT <= first.left - margin <= MAX_INDENT
            for margin, count in margins.items()
        )
        text = " ".join(line.text for line in lines[begin:end])
        before = lines[begin - 1].text.rstrip() if begin else ""
        is_announced = before.endswith(":") or (names_source(text) and not before[-1:].isalnum())
        is_long = len(text.split()) >= MIN_QUOTED_WORDS
        is_quotation = is_long and is_announced and (is_indented or first.is_italic)
        yield f"\n> {first.text}" if is_quotation else first.text
        yield from (line.text for line in lines[begin + 1 : end])
        if is_quotation:
            yield ""
        begin = end


def _goes_on(first: Line, line: Line) -> bool:
    return abs(line.left - first.left) <= MAX_SHIFT and line.is_italic == first.is_italic


def _has_no_map(font: Any) -> bool:
    """Return True for a font whose codes are the numbers of its glyphs."""
    return str(font.get("/Encoding", "")).startswith("/Identity") and "/ToUnicode" not in font


def _read_right_to_left(page: Any) -> str:
    """Return the lines of a page that is written from right to left in the order of their words."""
    lines: list[list[tuple[float, int, str]]] = []
    last = float("inf")

    def add(text: str, outer: Sequence[float], inner: Sequence[float], _font: Any, size: float) -> None:
        nonlocal last
        x, y = (inner[4] * outer[i] + inner[5] * outer[2 + i] + outer[4 + i] for i in (0, 1))
        height = abs(size * (inner[3] or inner[1]) * (outer[3] or outer[1]))
        if text.strip() and abs(y - last) > height / 2:
            lines.append([])
            last = y
        if text and lines:
            lines[-1].append((x, len(lines[-1]), text.replace("\n", " ")))

    page.extract_text(visitor_text=add)
    pieces = [[text for *_, text in sorted(line)] for line in lines]
    letters = [list(line) for line in str(page.extract_text(extraction_mode="layout")).split("\n")]
    read, placed = ("\n".join(map(order_pieces, parts)) for parts in (pieces, letters))
    # pieces have the letters of ligatures in order, but may lack the spaces between words
    text = close_gaps(placed if len(placed.split()) > MIN_MORE_WORDS * len(read.split()) else read)
    lines_read = (" ".join(line.split()) for line in text.split("\n"))
    return re.sub(r" (?=[.,;:!?](?:\s|$))", "", "\n".join(lines_read)).strip()


def order_pieces(pieces: Sequence[str]) -> str:
    """Return a line of text from right to left, with what runs from left to right in it.

    Args:
        pieces: the pieces of the line from left to right, each within itself in the order of reading.
    """
    ordered: list[str] = []
    run: list[str] = []

    def end_run() -> None:
        """Add the pieces from left to right; signs at their left end follow them."""
        count = next((i for i, piece in enumerate(reversed(run)) if _find_directions(piece) & _LEFT_TO_RIGHT), 0)
        ordered.extend([*reversed(run[: len(run) - count]), *run[len(run) - count :]])
        run.clear()

    parts = (re.split(r"(\s+)", one) if _find_directions(one) & _LEFT_TO_RIGHT else [one] for one in pieces)
    for piece in reversed(list(chain.from_iterable(parts))):
        directions = _find_directions(piece)
        if directions & _RIGHT_TO_LEFT or not (run or directions & _LEFT_TO_RIGHT):
            end_run()
            ordered.append(piece)
        else:
            run.append(piece)
    end_run()
    return "".join(ordered)


def _find_directions(piece: str) -> set[str]:
    return set(map(unicodedata.bidirectional, piece))


def close_words(text: str) -> str:
    """Return the text of a layout without the gaps between its letters, where words have wider gaps."""
    lines = []
    for line in text.split("\n"):
        words = [word.replace(" ", "") for word in re.split(r" {2,}", line.strip())]
        is_apart = has_letters_apart(line) and len(words) >= 2 and max(map(len, words)) < 40
        lines.append(" ".join(words if is_apart else line.split()))
    return "\n".join(lines).strip()


def has_letters_apart(text: str) -> bool:
    """Return True if most words of a line are one or two letters."""
    lines = ([word for word in line.split() if word.isalpha()] for line in text.split("\n"))
    return any(
        len(words) >= MIN_LINE_WORDS and sum(len(word) <= 2 for word in words) > MAX_SHORT_WORDS * len(words)
        for words in lines
    )


def is_garbled(page: str) -> bool:
    """Return True if the letters of a page are not those that it shows: its fonts do not say which they are."""
    signs = sum(unicodedata.category(c) in ("Cc", "Co", "Cn") or c == "\ufffd" for c in page if not c.isspace())
    if signs > MAX_SIGNS_SHARE * len(page):
        return True
    # other scripts, and pages of formulas, have few Latin words
    letters = "".join(
        _LATIN_WORD.findall(
            "".join(c for c in unicodedata.normalize("NFD", page) if not unicodedata.combining(c)).lower()
        )
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
