"""Read a page of a PDF as a reader sees it: the characters that are drawn, in lines and in the order of reading."""

import ctypes
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.pan.html_text import GAP, HIDDEN, MIN_QUOTED_WORDS, close_gaps, names_source
from pan_scdg.pan.styles import MAX_COLOUR_DISTANCE, MAX_OPACITY, MAX_TINY_SIZE, MIN_INDENT, are_alike

SCALE, MAX_PIXELS = 2.0, 2500.0
"""Pixels of a point in which a page is drawn, and most pixels of its sides."""
NO_MAP = "a font does not say which letters it shows: some words may not have been read"
MAX_RAISE = 0.5
"""Largest distance of a raised character from its line, as a share of its size."""
MIN_SPACE, MIN_SPACE_REVERSED, MIN_DISTANCES = 0.18, 0.24, 8
"""Least distance of two words, as a share of the size of letters, and from right to left, where letters are joined;
distances that tell how far apart letters are."""
MIN_MARGIN_LINES, MAX_SHIFT, MAX_INDENT = 3, 2.0, 100.0
"""Lines that begin at a margin, and in points how far from it those of a paragraph and of a quotation begin at most."""
MIN_LINE_WORDS, MAX_SHORT_WORDS = 12, 0.7
"""Words of a line in which letters may stand apart, and the largest share of one or two letters in other lines."""
_ITALIC_FLAG, _ITALIC_NAME = 1 << 6, re.compile(rb"ital|obli|slant|-It\b|CMTI|SFTI", re.IGNORECASE)
_RIGHT_TO_LEFT, _LEFT_TO_RIGHT = {"R", "AL"}, {"L", "EN", "AN"}

Pixels = npt.NDArray[np.uint8]
Box = tuple[float, float, float, float]
"""Left, right, bottom and top, in points from the lower left corner."""


class Sign(NamedTuple):
    """A character, or several that are drawn as one; lengths are in points."""

    text: str
    left: float
    right: float
    base: float
    """Height of its line."""
    size: float
    """Of its font."""
    is_italic: bool = False


class Line(NamedTuple):
    """A line of a page."""

    text: str
    left: float
    right: float
    is_italic: bool
    """Most of it is in italics."""


class _Font(NamedTuple):
    is_italic: bool
    is_embedded: bool
    name: bytes


def read_page(page: Any, warnings: list[str]) -> str:
    """Return the text of a page without what no reader sees; warnings tell what is hidden or could not be read.

    Args:
        page: a page of pypdfium2, which is changed.
        warnings: gets further ones.
    """
    page.set_rotation(0)
    signs = list(_list_signs(page, warnings))
    lines = [line for line in map(join_signs, group_lines(signs)) if line.text.strip()]
    text = "\n".join(mark_quotations(lines))
    return close_words(text) if has_letters_apart(text) else "\n".join(" ".join(e.split()) for e in text.split("\n"))


def _list_signs(page: Any, warnings: list[str]) -> Iterator[Sign]:
    """Yield the characters of a page in the order in which they are written; a hidden one is `GAP`, or left out."""
    from pypdfium2 import raw

    text_page = page.get_textpage()
    numbers = [i for i in range(text_page.count_chars()) if not raw.FPDFText_IsGenerated(text_page, i)]
    boxes = [_read_box(text_page, i) for i in numbers]
    fonts = list(_list_fonts(text_page, numbers))
    is_seen = _find_seen(page, text_page, numbers, boxes, fonts)
    left, bottom, right, top = page.get_bbox()
    for i, box, font, seen in zip(numbers, boxes, fonts, is_seen, strict=True):
        text = "-" if raw.FPDFText_IsHyphen(text_page, i) else chr(raw.FPDFText_GetUnicode(text_page, i))
        sign = _place(text_page, i, text, font.is_italic)
        is_tiny = sign.size <= MAX_TINY_SIZE
        if unicodedata.category(text)[0] in "LNPS" and (is_tiny or not seen):
            warnings.append(HIDDEN)
            if is_tiny or box[0] >= right or box[1] <= left or box[2] >= top or box[3] <= bottom:
                continue
            sign = sign._replace(text=GAP)
        elif raw.FPDFText_HasUnicodeMapError(text_page, i) == 1:
            warnings.append(NO_MAP)
        yield sign


def _read_box(text_page: Any, number: int) -> Box:
    from pypdfium2 import raw

    sides = [ctypes.c_double() for _ in range(4)]
    raw.FPDFText_GetCharBox(text_page, number, *sides)
    left, right, bottom, top = (side.value for side in sides)
    return left, right, bottom, top


def _place(text_page: Any, number: int, text: str, is_italic: bool) -> Sign:
    """Return a character where it is; a text that runs in another direction is turned."""
    from pypdfium2 import raw

    box, matrix, x, y = raw.FS_RECTF(), raw.FS_MATRIX(), ctypes.c_double(), ctypes.c_double()
    raw.FPDFText_GetLooseCharBox(text_page, number, box)
    raw.FPDFText_GetCharOrigin(text_page, number, x, y)
    raw.FPDFText_GetMatrix(text_page, number, matrix)
    size = raw.FPDFText_GetFontSize(text_page, number) * abs(matrix.a * matrix.d - matrix.b * matrix.c) ** 0.5
    angle = raw.FPDFText_GetCharAngle(text_page, number)
    sine, cosine = math.sin(angle), math.cos(angle)
    sides = [a * cosine + b * sine for a in (box.left, box.right) for b in (box.bottom, box.top)]
    return Sign(text, min(sides), max(sides), y.value * cosine - x.value * sine, size, is_italic)


def _list_fonts(text_page: Any, numbers: Sequence[int]) -> Iterator[_Font]:
    """Yield the font of each character."""
    from pypdfium2 import raw

    fonts: dict[int, _Font] = {}
    for number in numbers:
        found = raw.FPDFText_GetTextObject(text_page, number)
        key = ctypes.addressof(found.contents) if found else 0
        if key not in fonts:
            font = raw.FPDFTextObj_GetFont(found) if found else None
            name = ctypes.create_string_buffer(200)
            if font:
                raw.FPDFFont_GetBaseFontName(font, name, len(name))
            is_italic = bool(font and raw.FPDFFont_GetFlags(font) & _ITALIC_FLAG) or bool(
                _ITALIC_NAME.search(name.value)
            )
            fonts[key] = _Font(is_italic, not font or raw.FPDFFont_GetIsEmbedded(font) != 0, name.value)
        yield fonts[key]


# What a reader sees


def _find_seen(
    page: Any, text_page: Any, numbers: Sequence[int], boxes: Sequence[Box], fonts: Sequence[_Font]
) -> list[bool]:
    """Return True for the characters without which the page would look different.

    Characters below a picture are seen, too: it may be the scan of which they were recognised. Those of a font that
    is neither in the file nor on this machine are seen if their colour is.
    """
    from pypdfium2 import raw

    left, bottom, right, top = page.get_bbox()
    scale = min(SCALE, MAX_PIXELS / max(1.0, right - left, top - bottom))
    pictures = [obj.get_bounds() for obj in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE])]
    drawn = _draw(page, scale)
    for obj in page.get_objects(filter=[raw.FPDF_PAGEOBJ_TEXT]):
        raw.FPDFTextObj_SetTextRenderMode(obj, raw.FPDF_TEXTRENDERMODE_INVISIBLE)
    ground = _draw(page, scale)
    rows, columns = drawn.shape[:2]

    def find_pixels(box: Box) -> tuple[slice, slice]:
        """Return the pixels of a character, at least one in each direction, and none outside of the page."""
        places = (box[0] - left) * scale, (box[1] - left) * scale, (top - box[3]) * scale, (top - box[2]) * scale
        first, last, upper, lower = (
            max(0.0, min(place, size)) for place, size in zip(places, (columns, columns, rows, rows))
        )
        inner = slice(math.ceil(upper), math.floor(lower)), slice(math.ceil(first), math.floor(last))
        outer = slice(math.floor(upper), math.ceil(lower)), slice(math.floor(first), math.ceil(last))
        across, along = (a if a.stop > a.start else b for a, b in zip(inner, outer, strict=True))
        return across, along

    pixels = list(map(find_pixels, boxes))
    is_seen = [_differ(drawn[place], ground[place]) for place in pixels]
    fonts_drawn = {font for font, seen in zip(fonts, is_seen, strict=True) if seen}
    for i, (number, box) in enumerate(zip(numbers, boxes, strict=True)):
        if is_seen[i]:
            continue
        x, y = (box[0] + box[1]) / 2, (box[2] + box[3]) / 2
        if any(a <= x <= c and b <= y <= d for a, b, c, d in pictures):
            is_seen[i] = True
        elif not fonts[i].is_embedded and fonts[i] not in fonts_drawn and ground[pixels[i]].size:
            colour = [ctypes.c_uint() for _ in range(4)]
            raw.FPDFText_GetFillColor(text_page, number, *colour)
            red, green, blue, opacity = (part.value for part in colour)
            behind = ground[pixels[i]][0, 0].tolist()
            is_seen[i] = opacity > 255 * MAX_OPACITY and not are_alike((red, green, blue), tuple(behind[::-1]))
    return is_seen


def _differ(first: Pixels, second: Pixels) -> bool:
    return bool((np.maximum(first, second) - np.minimum(first, second) > MAX_COLOUR_DISTANCE).any())


def _draw(page: Any, scale: float) -> Pixels:
    """Return blue, green and red of the pixels of a page, ``[rows, columns, 3]``."""
    bitmap = page.render(scale=scale, may_draw_forms=False, draw_annots=False)
    return np.array(bitmap.to_numpy()[:, :, :3], np.uint8)


# Lines


def group_lines(signs: Sequence[Sign]) -> Iterator[list[Sign]]:
    """Yield the characters of each line; a raised one, such as the number of a footnote, is in its line."""
    line: list[Sign] = []
    base = size = 0.0
    for sign in signs:
        if line and abs(sign.base - base) > MAX_RAISE * max(size, sign.size):
            yield line
            line = []
        if not line or sign.size >= size:
            base, size = sign.base, sign.size
        line.append(sign)
    if line:
        yield line


def join_signs(signs: Sequence[Sign]) -> Line:
    """Return the characters of a line in the order of reading, with spaces where words are apart."""
    directions = [unicodedata.bidirectional(sign.text) for sign in signs if sign.text.isalpha()]
    is_reversed = 2 * sum(each in _RIGHT_TO_LEFT for each in directions) >= max(1, len(directions))
    if is_reversed:  # PDFium does not say where their spaces are
        signs = [sign for sign in signs if sign.right > sign.left or not sign.text.isspace()]
    pieces = _join_marks(signs, is_reversed)
    if is_reversed or any(b.left < a.right - max(a.size, b.size) for a, b in pairwise(pieces)):
        pieces.sort(key=lambda piece: piece.left + piece.right)
    distances = [b.left - a.right for a, b in pairwise(pieces) if not (a.text + b.text).isspace()]
    usual = max(0.0, median(distances)) if len(distances) >= MIN_DISTANCES else 0.0
    texts: list[str] = []
    for before, piece in zip([None, *pieces], pieces):
        if before is not None and not (before.text.isspace() or piece.text.isspace()):
            space = usual + (MIN_SPACE_REVERSED if is_reversed else MIN_SPACE) * min(before.size, piece.size)
            if piece.left - before.right > space and not (_is_ideograph(before) and _is_ideograph(piece)):
                texts.append(" ")
        if piece.text != GAP or texts[-1:] != [GAP]:
            texts.append(piece.text)
    text = order_pieces(texts) if is_reversed else "".join(texts)
    italic = sum(sign.is_italic for sign in signs)
    left, right = min(sign.left for sign in signs), max(sign.right for sign in signs)
    return Line(close_gaps(text), left, right, 2 * italic > len(signs))


def _is_ideograph(sign: Sign) -> bool:
    """Return True for a character of a script without spaces between words."""
    return unicodedata.east_asian_width(sign.text[0]) in "WF" and not unicodedata.name(sign.text[0], "").startswith(
        "HANGUL"
    )


def _join_marks(signs: Sequence[Sign], is_reversed: bool) -> list[Sign]:
    """Return characters with their marks, and those of one ligature, as one."""
    pieces: list[Sign] = []
    for sign in signs:
        before = pieces[-1] if pieces else None
        is_mark = unicodedata.category(sign.text).startswith("M")
        is_ligature = before is not None and (before.left, before.right) == (sign.left, sign.right)
        if before is None or not (is_mark or is_ligature) or GAP in (before.text, sign.text) or sign.text.isspace():
            pieces.append(sign)
        elif is_mark or not is_reversed:
            pieces[-1] = before._replace(text=before.text + sign.text, right=max(before.right, sign.right))
        else:  # PDFium turns its letters round, too
            pieces[-1] = before._replace(text=sign.text + before.text)
    return pieces


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

    for piece in reversed(pieces):
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
    """Return the text of a page without the gaps between its letters, where words have wider gaps."""
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


def mark_quotations(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the lines of a page, and block quotations as Markdown has them.

    They are indented at both sides; or in italics or indented, and announced by a colon or end with a source.
    """
    margins = Counter(round(line.left) for line in lines)
    begin = 0
    while begin < len(lines):
        first = lines[begin]
        end = begin + 1
        while end < len(lines) and _goes_on(first, lines[end]):
            end += 1
        outer = [
            margin
            for margin, count in margins.items()
            if count >= MIN_MARGIN_LINES and MIN_INDENT <= first.left - margin <= MAX_INDENT
        ]
        is_indented = end - begin > 1 and bool(outer)
        body = max((line.right for line in lines if round(line.left) in outer), default=0.0)
        is_inside = end - begin > 2 and max(line.right for line in lines[begin:end]) <= body - MIN_INDENT
        text = " ".join(line.text for line in lines[begin:end])
        before = lines[begin - 1].text.rstrip() if begin else ""
        is_announced = before.endswith(":") or (names_source(text) and not before[-1:].isalnum())
        is_long = len(text.split()) >= MIN_QUOTED_WORDS
        is_set_off = is_inside or (is_announced and (is_indented or first.is_italic))
        is_quotation = is_long and is_set_off
        if is_quotation:
            yield from ("", *(f"> {line.text}" for line in lines[begin:end]), "")
        else:
            yield from (line.text for line in lines[begin:end])
        begin = end


def _goes_on(first: Line, line: Line) -> bool:
    return abs(line.left - first.left) <= MAX_SHIFT and line.is_italic == first.is_italic
