"""Find the characters of a page of a PDF that a reader sees."""

import ctypes
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from pan_scdg.documents.html_text import GAP, HIDDEN
from pan_scdg.documents.pdf_lines import Glyph, join_page
from pan_scdg.documents.styles import MAX_COLOUR_DISTANCE, MAX_OPACITY, MAX_TINY_SIZE, Colour

SCALE, MAX_PIXELS = 2.0, 2500.0
"""Pixels of a point in which a page is drawn, and most pixels of its sides."""
MAX_DEPTH = 100
"""Forms within forms in which text is looked for; PDFium draws fewer."""
MAX_SHAPED = 12
"""Characters that one shape of a script without capitals stands for at most."""
NO_MAP = "a font does not say which letters it shows: some words may not have been read"
MIN_SHAPE = 0.005
"""Least width and height of the shape of a character, as a share of its size."""
MAX_UNMAPPED_SHARE = 0.05
"""Largest share of characters of a page of which no font says which they are, such as signs of formulas."""
_ITALIC_FLAG, _ITALIC_NAME = 1 << 6, re.compile(rb"ital|obli|slant|-It\b|CMTI|SFTI", re.IGNORECASE)

Pixels = npt.NDArray[np.uint8]
Box = tuple[float, float, float, float]
"""Left, right, bottom and top, in points from the lower left corner."""


class _Object(NamedTuple):
    """A text object of a page: characters that are drawn alike."""

    place: int
    """It is drawn above objects of lower places."""
    is_drawn: bool
    """It is neither invisible nor only a path that clips others."""
    is_filled: bool
    """Its colour alone tells whether it is seen."""
    is_italic: bool
    has_font: bool
    """Its font is in the file."""
    size: float
    matrix: tuple[float, float, float, float]
    """From its direction and that in which its letters rise to those of the page."""
    colour: Colour
    """White for a pattern."""


class _Character(NamedTuple):
    number: int
    """In the text page."""
    box: Box
    """Of what is drawn of it."""
    owner: _Object
    sign: Glyph


def read_page(page: Any, warnings: list[str]) -> str:
    """Return the text of a page without what no reader sees; warnings tell what is hidden or could not be read.

    Args:
        page: a page of pypdfium2, which is changed.
        warnings: gets further ones.
    """
    page.set_rotation(0)
    return join_page(_list_signs(page, warnings))


def _list_signs(page: Any, warnings: list[str]) -> list[Glyph]:
    """Return the characters of a page in the order in which they are written; a hidden one is `GAP`, or left out."""
    from pypdfium2 import raw

    objects = list(page.get_objects([raw.FPDF_PAGEOBJ_TEXT, raw.FPDF_PAGEOBJ_IMAGE], MAX_DEPTH))
    texts = {
        ctypes.addressof(obj.raw.contents): (place, raw.FPDFTextObj_GetTextRenderMode(obj))
        for place, obj in enumerate(objects)
        if obj.type == raw.FPDF_PAGEOBJ_TEXT
    }
    if not texts:
        return []
    pictures = [(place, find_bounds(obj)) for place, obj in enumerate(objects) if obj.type == raw.FPDF_PAGEOBJ_IMAGE]
    drawn = _draw(page)
    turns = Counter[int]()
    for obj in objects:
        if obj.type == raw.FPDF_PAGEOBJ_TEXT:
            _drop_replacements(obj)
            raw.FPDFTextObj_SetTextRenderMode(obj, raw.FPDF_TEXTRENDERMODE_INVISIBLE)
            a, b, *_ = obj.get_matrix().get()
            turns[round(math.atan2(b, a) / math.pi * 2) % 4] += 1
    ground = _draw(page)
    page.set_rotation(90 * turns.most_common(1)[0][0])  # PDFium orders lines as they are on the turned page
    left, bottom, right, top = page.get_bbox()
    signs, unmapped = [], 0
    with closing(page.get_textpage()) as text_page:
        characters = list(_list_characters(text_page.raw, texts))
        if not characters:
            return []
        read = {character.owner.place for character in characters}
        repeated = [find_bounds(objects[place]) for place, _ in texts.values() if place not in read]
        shown = _list_shown(characters, (left, right, bottom, top), drawn, ground, pictures, repeated)
        for (number, _, _, sign), text in zip(characters, shown, strict=True):
            is_tiny = sign.size <= MAX_TINY_SIZE
            if (is_tiny or text != sign.text) and unicodedata.category(sign.text)[0] in "LNPS":
                warnings.append(HIDDEN)
                sign = sign._replace(text="" if is_tiny else text)
            else:
                unmapped += raw.FPDFText_HasUnicodeMapError(text_page.raw, number) == 1
            if sign.text:
                signs.append(sign)
    if unmapped > MAX_UNMAPPED_SHARE * len(characters):
        warnings.append(NO_MAP)
    return signs


def _list_characters(text_page: Any, texts: Mapping[int, tuple[int, int]]) -> Iterator[_Character]:
    """Yield the characters of a page; ``texts`` has place and mode of its text objects by their addresses."""
    from pypdfium2 import raw

    owners: dict[int, _Object] = {}
    left, right, bottom, top, x, y = sides = [ctypes.c_double() for _ in range(6)]
    box = raw.FS_RECTF()
    for number in range(raw.FPDFText_CountChars(text_page)):
        if raw.FPDFText_IsGenerated(text_page, number):
            continue
        text = chr(raw.FPDFText_GetUnicode(text_page, number))
        if not text.isalnum() and raw.FPDFText_IsHyphen(text_page, number):
            text = "-"
        found = raw.FPDFText_GetTextObject(text_page, number)
        key = ctypes.addressof(found.contents) if found else 0
        owner = owners.get(key)
        if owner is None:
            owner = owners[key] = _read_object(text_page, number, found, *texts.get(key, (0, 0)))
        raw.FPDFText_GetCharBox(text_page, number, *sides[:4])
        raw.FPDFText_GetLooseCharBox(text_page, number, box)
        raw.FPDFText_GetCharOrigin(text_page, number, x, y)
        a, b, c, d = owner.matrix
        begin, end, base = max(box.left, x.value), box.right, y.value
        if b or c or a < 0:  # turned; the middle of its box is half of its width from its origin
            length = math.hypot(a, b) or 1.0
            aside, above = (box.left + box.right) / 2 - x.value, (box.bottom + box.top) / 2 - y.value
            begin, base = (x.value * a + y.value * b) / length, (y.value * a - x.value * b) / length
            end = begin + 2 * length * (aside * d - above * c) / (a * d - b * c or 1.0)
        sign = Glyph(text, begin, end, base, owner.size, owner.is_italic)
        yield _Character(number, (left.value, right.value, bottom.value, top.value), owner, sign)


def _read_object(text_page: Any, number: int, found: Any, place: int, mode: int) -> _Object:
    """Return the text object of a character."""
    from pypdfium2 import raw

    matrix, name = raw.FS_MATRIX(), ctypes.create_string_buffer(200)
    raw.FPDFText_GetMatrix(text_page, number, matrix)
    size = raw.FPDFText_GetFontSize(text_page, number) * abs(matrix.a * matrix.d - matrix.b * matrix.c) ** 0.5
    font = raw.FPDFTextObj_GetFont(found) if found else None
    if font:
        raw.FPDFFont_GetBaseFontName(font, name, len(name))
    is_italic = bool(font and raw.FPDFFont_GetFlags(font) & _ITALIC_FLAG) or bool(_ITALIC_NAME.search(name.value))
    has_font = not font or raw.FPDFFont_GetIsEmbedded(font) != 0
    colour = [ctypes.c_uint() for _ in range(4)]
    raw.FPDFText_GetFillColor(text_page, number, *colour)
    red, green, blue, opacity = (part.value for part in colour)
    direction = (matrix.a, matrix.b, matrix.c, matrix.d)
    is_filled = mode in (raw.FPDF_TEXTRENDERMODE_FILL, raw.FPDF_TEXTRENDERMODE_FILL_CLIP)
    is_drawn = mode not in (raw.FPDF_TEXTRENDERMODE_INVISIBLE, raw.FPDF_TEXTRENDERMODE_CLIP)
    is_drawn = is_drawn and not (is_filled and opacity <= 255 * MAX_OPACITY)
    return _Object(place, is_drawn, is_filled, is_italic, has_font, size, direction, (red, green, blue))


def _drop_replacements(obj: Any) -> None:
    """Make a text object stand for what it shows, instead of for another text that it names.

    A few letters of scripts without capitals are read by such names: their shapes may stand for several of them.
    """
    from pypdfium2 import raw

    size = ctypes.c_ulong()
    for number in reversed(range(raw.FPDFPageObj_CountMarks(obj))):
        mark = raw.FPDFPageObj_GetMark(obj, number)
        if not raw.FPDFPageObjMark_GetParamBlobValue(mark, b"ActualText", None, 0, size):
            continue
        buffer = (ctypes.c_ubyte * size.value)()
        raw.FPDFPageObjMark_GetParamBlobValue(mark, b"ActualText", buffer, size, size)
        data = bytes(buffer)
        text = data[2:].decode("utf-16-be", "replace") if data.startswith(b"\xfe\xff") else ""  # Latin letters
        is_caseless = text.lower() == text.upper() and any(unicodedata.category(c)[0] in "LM" for c in text)
        if not is_caseless or len(text) > MAX_SHAPED:
            raw.FPDFPageObj_RemoveMark(obj, mark)


# What a reader sees


def _list_shown(
    characters: Sequence[_Character],
    page: Box,
    drawn: Pixels,
    ground: Pixels,
    pictures: Sequence[tuple[int, Box]],
    repeated: Sequence[Box],
) -> Iterator[str]:
    """Yield what a reader sees of each character: itself, `GAP`, or nothing, where others or no page are.

    The page would look different without those that are seen. Seen are further those at a picture that are invisible or
    below it: it may be the scan of which they were recognised; and those where something else is drawn in both
    directions, as letters are. Those for which neither the file nor this machine has a shape are seen if their colour
    is.

    Args:
        characters: of the page, at least one.
        page: its sides.
        drawn: its pixels.
        ground: its pixels without text.
        pictures: places and sides.
        repeated: text that PDFium leaves out as drawn twice, such as that above its shadow.
    """
    rows, columns = drawn.shape[:2]
    find_pixels = partial(_find_pixels, page=page, rows=rows, columns=columns)
    pixels = find_pixels([character.box for character in characters])
    first_x, first_y, *_ = map(min, zip(*pixels, strict=True))
    _, _, last_x, last_y = map(max, zip(*pixels, strict=True))
    part = slice(first_y, last_y), slice(first_x, last_x)
    distance = np.maximum(drawn[part], ground[part]) - np.minimum(drawn[part], ground[part]) > MAX_COLOUR_DISTANCE
    differs = np.zeros((rows, columns), bool)
    differs[part] = distance[:, :, 0] | distance[:, :, 1] | distance[:, :, 2]
    changes = [bool(differs[y:end_y, x:end_x].any()) for x, y, end_x, end_y in pixels]
    corners = ground[[min(y, rows - 1) for _, y, *_ in pixels], [min(x, columns - 1) for x, *_ in pixels]]
    colours = np.array([character.owner.colour[::-1] for character in characters])
    contrasts = (np.abs(corners - colours) > MAX_COLOUR_DISTANCE).any(1).tolist()
    shows = [
        (has_contrast and character.owner.is_filled and character.owner.is_drawn)
        or _shows(character.owner, ground[y:end_y, x:end_x])
        for character, (x, y, end_x, end_y), has_contrast in zip(characters, pixels, contrasts, strict=True)
    ]
    others = differs
    """Pixels that differ by something else than a character that shows: by one with a pattern."""
    if any(is_changed > is_shown for is_changed, is_shown in zip(changes, shows, strict=True)):
        others = differs.copy()
        for (x, y, end_x, end_y), is_shown in zip(pixels, shows, strict=True):
            if is_shown:
                others[max(0, y - 2) : end_y + 2, max(0, x - 2) : end_x + 2] = False
    twice = np.zeros((rows, columns) if repeated else (0, 0), bool)
    """Pixels that differ by text that is drawn twice."""
    for x, y, end_x, end_y in find_pixels(repeated):
        twice[y:end_y, x:end_x] = differs[y:end_y, x:end_x]
    covers = np.full((rows, columns) if pictures else (1, 1), -1)
    """The place of the topmost picture."""
    for (place, _), (x, y, end_x, end_y) in zip(pictures, find_pixels([box for _, box in pictures]), strict=True):
        covers[y:end_y, x:end_x] = place

    def is_seen(character: _Character, x: int, y: int, end_x: int, end_y: int) -> bool:
        """Return True for a character that does not change its pixels by its colour, but is seen."""
        owner, box = character.owner, character.box
        if (owner.is_drawn and others[y:end_y, x:end_x].any()) or twice[y:end_y, x:end_x].any():
            return True
        if pictures and covers[(y + end_y) // 2, (x + end_x) // 2] > (owner.place if owner.is_drawn else -1):
            return True
        if not owner.has_font and min(box[1] - box[0], box[3] - box[2]) <= MIN_SHAPE * owner.size:
            return _shows(owner, ground[y:end_y, x:end_x])
        around = ground[max(0, y - 1) : end_y + 1, max(0, x - 1) : end_x + 1]
        return all(np.ptp(around, axis).max() > MAX_COLOUR_DISTANCE for axis in (0, 1))

    for character, (x, y, end_x, end_y), is_shown, is_changed in zip(characters, pixels, shows, changes, strict=True):
        if end_x <= x or end_y <= y:
            yield ""
        elif (is_shown and is_changed) or is_seen(character, x, y, end_x, end_y):
            yield character.sign.text
        else:
            yield "" if is_changed else GAP


def _find_pixels(boxes: Sequence[Box], page: Box, rows: int, columns: int) -> list[list[int]]:
    """Return first column and row, and those after the last, at least one of each, and none outside of the page."""
    left, right, bottom, top = page
    scale = [columns / max(right - left, 1e-9), rows / max(top - bottom, 1e-9)] * 2
    sides = np.nan_to_num(np.array(boxes, float).reshape(-1, 4))
    places = np.stack([sides[:, 0] - left, top - sides[:, 3], sides[:, 1] - left, top - sides[:, 2]], 1) * scale
    first, last = np.ceil(places[:, :2]), np.floor(places[:, 2:])
    is_thin = last <= first
    first = np.where(is_thin, np.floor(places[:, :2]), first)
    last = np.where(is_thin, np.maximum(np.ceil(places[:, 2:]), first + 1), last)
    pixels = np.concatenate([first, last], 1).clip(0, [columns, rows, columns, rows])
    return cast(list[list[int]], pixels.astype(int).tolist())


def _shows(owner: _Object, ground: Pixels) -> bool:
    """Return True if a text would be seen on this ground by its colour."""
    if not owner.is_drawn or not owner.is_filled:
        return owner.is_drawn
    return bool((np.abs(ground - np.array(owner.colour[::-1])) > MAX_COLOUR_DISTANCE).any())


def find_bounds(obj: Any) -> Box:
    """Return the sides of an object on its page, in whatever forms it is."""
    left, bottom, right, top = obj.get_bounds()
    while (obj := obj.container) is not None:
        left, bottom, right, top = obj.get_matrix().on_rect(left, bottom, right, top)
    return left, right, bottom, top


def _draw(page: Any) -> Pixels:
    """Return blue, green and red of the pixels of a page, ``[rows, columns, 3]``."""
    scale = min(SCALE, MAX_PIXELS / max(1.0, *page.get_size()))
    bitmap = page.render(scale=scale, may_draw_forms=False, draw_annots=False)
    return np.asarray(bitmap.to_numpy()[:, :, :3], np.uint8)
