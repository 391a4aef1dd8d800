"""Read a DOCX as a reader sees it: it is rewritten so that mammoth reads its visible text, and only that.

What mammoth skips (text boxes, fields, formulas, direction overrides, ruby) becomes plain runs; what no reader sees
(hidden, tiny or moved letters, and those in the colour of their background) goes.
"""

import io
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from pan_scdg.documents.html_text import (
    COMMENT_NOT_READ,
    GAP,
    HIDDEN,
    MARGIN_NOT_READ,
    MIN_COMMENT_WORDS,
    MIN_MARGIN_WORDS,
    NOT_READ,
    extract_html,
)
from pan_scdg.documents.styles import (
    BLACK,
    MAX_TINY_SIZE,
    MIN_INDENT,
    MIN_LETTER_WIDTH,
    MIN_OFFSET,
    WHITE,
    Colour,
    are_alike,
    is_moved_away,
    names_quotation,
    parse_colour,
    parse_declarations,
)
from pan_scdg.pan.untrusted import parse_xml_bytes

PARTS = re.compile(r"word/(?:document|footnotes|endnotes)\d*\.xml")
STRICT = (b"http://purl.oclc.org/ooxml/wordprocessingml/main", b"http://purl.oclc.org/ooxml/officeDocument/math")
"""Names of the elements of strict files, in which all else is as in others."""
EMBEDDED = ("word/diagrams/data", "word/embeddings/", "word/afchunk")
"""Beginnings of the names of parts whose text is not read."""
MARGINS = ("word/header", "word/footer")
COMMENTS = "word/comments.xml"
WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
COMPATIBILITY = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
MATHS = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
WRAPPERS = [*(f"{WORD}{name}" for name in ("bdo", "dir", "fldSimple", "smartTag", "customXml")), f"{MATHS}oMathPara"]
SPACE = "{http://www.w3.org/XML/1998/namespace}space"
QUOTATION, INDENTED = "scdg-quotation", "scdg-indented"
"""The styles that block quotations get, and paragraphs that are indented at the left and may be some."""
SIDES = (("left", "start"), ("right", "end"))
TWIPS, EMU = 20, 12700
"""Units of a point."""
HIGHLIGHTS = {"green": "lime", "darkgreen": "green", "darkyellow": "olive", "darkgray": "gray", "lightgray": "silver"}
"""Names of the colours of highlights that have another name in CSS, or one that is of another colour there."""


def convert_docx(path: Path) -> tuple[str, list[str]]:
    """Return the visible text of a DOCX, and warnings about what is hidden or was not read.

    Raises:
        Exception: whatever zipfile, lxml and mammoth raise for a damaged file.
    """
    import mammoth

    file, warnings = _show_visible_text(path)
    html = mammoth.convert_to_html(
        file,
        style_map=f"p.{QUOTATION} => blockquote > p:fresh\np.{INDENTED} => p.{INDENTED}:fresh",
        convert_image=mammoth.images.img_element(lambda _: {}),
    ).value
    return extract_html(f"<style>.{INDENTED} {{ margin-left: {MIN_INDENT}pt }}</style>{html}"), warnings


def _show_visible_text(path: Path) -> tuple[io.BytesIO, list[str]]:
    """Return a DOCX with its visible text in plain runs, and warnings about what it hides or embeds."""
    shown, warnings = io.BytesIO(), dict[str, None]()
    with ZipFile(path) as archive, ZipFile(shown, "w") as copy:
        names = archive.namelist()
        formats = Formats(
            *(archive.read(f"word/{n}.xml") if f"word/{n}.xml" in names else b"" for n in ("styles", "settings"))
        )
        for name in names:
            data = archive.read(name)
            copy.writestr(name, _rewrite(data, formats, warnings) if PARTS.fullmatch(name) else data)
            if name.startswith(EMBEDDED):
                warnings[NOT_READ] = None
            if name.startswith(MARGINS) and len(re.sub(rb"<[^>]*>", b" ", data).split()) >= MIN_MARGIN_WORDS:
                warnings[MARGIN_NOT_READ] = None
            if name == COMMENTS and _has_long_comment(data):
                warnings[COMMENT_NOT_READ] = None
    shown.seek(0)
    return shown, list(warnings)


def _has_long_comment(data: bytes) -> bool:
    comments = _parse(data).iter(f"{WORD}comment")
    texts = (" ".join(run.text or "" for run in comment.iter(f"{WORD}t")) for comment in comments)
    return any(len(text.split()) >= MIN_COMMENT_WORDS for text in texts)


class Formats:
    """The formats of runs and paragraphs: their own, and those of their styles.

    Args:
        styles: the part ``word/styles.xml``, or nothing.
        settings: the part ``word/settings.xml``, or nothing.
    """

    def __init__(self, styles: bytes, settings: bytes) -> None:
        root = _parse(styles or b"<styles/>")
        self._styles = {style.get(f"{WORD}styleId"): style for style in root.iter(f"{WORD}style")}
        self._defaults = root.find(f"{WORD}docDefaults")
        usual = root.find(f".//{WORD}style[@{WORD}type='paragraph'][@{WORD}default='1']")
        self._usual = None if usual is None else usual.get(f"{WORD}styleId")
        self.shows_page_colour = b"displayBackgroundShape" in settings

    def list_styles(self, name: str | None) -> Iterator[Any]:
        """Yield a style and those that it is based on."""
        seen: set[str | None] = set()
        while name in self._styles and name not in seen:
            seen.add(name)
            yield self._styles[name]
            name = _read_value(self._styles[name], "basedOn")

    def list_for_run(self, run: Any) -> list[Any]:
        """Return the formats of a run, the nearest first."""
        own = run.find(f"{WORD}rPr")
        paragraph = next(run.iterancestors(f"{WORD}p"), None)
        styles = chain(
            self.list_styles(_read_value(own, "rStyle")),
            () if paragraph is None else self._list_paragraph_styles(paragraph),
        )
        defaults = None if self._defaults is None else self._defaults.find(f".//{WORD}rPr")
        return [each for each in (own, *(style.find(f"{WORD}rPr") for style in styles), defaults) if each is not None]

    def list_for_paragraph(self, paragraph: Any) -> list[Any]:
        """Return the formats of a paragraph, the nearest first."""
        styles = self._list_paragraph_styles(paragraph)
        found = (paragraph.find(f"{WORD}pPr"), *(style.find(f"{WORD}pPr") for style in styles))
        return [each for each in found if each is not None]

    def name_styles(self, paragraph: Any) -> list[str]:
        """Return the names of the styles of a paragraph."""
        named = [_read_value(style, "name") for style in self._list_paragraph_styles(paragraph)]
        return [*named, _read_value(paragraph.find(f"{WORD}pPr"), "pStyle")]

    def has_shades(self, table: Any) -> bool:
        """Return True if the style of a table shades some of its cells."""
        name = _read_value(table.find(f"{WORD}tblPr"), "tblStyle")
        return any(style.find(f".//{WORD}shd") is not None for style in self.list_styles(name))

    def _list_paragraph_styles(self, paragraph: Any) -> Iterator[Any]:
        return self.list_styles(_read_value(paragraph.find(f"{WORD}pPr"), "pStyle") or self._usual)


def _parse(data: bytes) -> Any:
    for strict, usual in zip(STRICT, (WORD, MATHS), strict=True):
        data = data.replace(strict, usual[1:-1].encode())
    return parse_xml_bytes(data)


def _rewrite(data: bytes, formats: Formats, warnings: dict[str, None]) -> bytes:
    from lxml import etree

    root = _parse(data)
    for alternatives in list(root.iter(f"{COMPATIBILITY}AlternateContent")):  # the same for newer and older programs
        _move_behind(next((each for each in alternatives if each.find(".//{*}t") is not None), None), alternatives)
        alternatives.getparent().remove(alternatives)
    for formula in list(root.iter(f"{MATHS}oMath")):
        formula.addnext(_make_run("".join(text.text or "" for text in formula.iter(f"{MATHS}t", f"{WORD}t"))))
        formula.getparent().remove(formula)
    for gap in list(root.iter(f"{WORD}br", f"{WORD}cr", f"{WORD}ptab")):  # a page break ends a word, too
        gap.tag = f"{WORD}tab" if gap.tag.endswith("tab") else f"{WORD}br"
        gap.attrib.clear()
    for run in list(root.iter(f"{WORD}r")):
        texts = list(run.iterchildren(f"{WORD}t"))
        if any(text.text for text in texts) and (space := _find_replacement(run, formats)) is not None:
            warnings[HIDDEN] = None
            for text in texts:
                text.text = space if text is texts[0] else ""
    for art in list(root.iter("{*}textpath")):
        art.tag = f"{WORD}txbxContent"
        etree.SubElement(art, f"{WORD}p").append(_make_run(art.get("string") or ""))
    for paragraph in root.iter(f"{WORD}p"):
        if style := _choose_style(paragraph, formats):
            _set_style(paragraph, style)
    for box in reversed(list(root.iter(f"{WORD}txbxContent"))):  # each directly behind the paragraph
        _move_behind(box, *box.iterancestors(f"{WORD}p"))
    for ruby in reversed(list(root.iter(f"{WORD}ruby"))):
        _move_behind(ruby.find(f"{WORD}rubyBase"), ruby.getparent())
        ruby.getparent().remove(ruby)
    for wrapper in list(root.iter(*WRAPPERS)):
        _move_behind(wrapper, wrapper)
        wrapper.getparent().remove(wrapper)
    if next(root.iter(f"{WORD}altChunk", f"{WORD}subDoc"), None) is not None:
        warnings[NOT_READ] = None
    result: bytes = etree.tostring(root)
    return result


def _set_style(paragraph: Any, name: str) -> None:
    from lxml import etree

    formats = paragraph.find(f"{WORD}pPr")
    if formats is None:
        formats = etree.Element(f"{WORD}pPr")
        paragraph.insert(0, formats)
    style = formats.find(f"{WORD}pStyle")
    style = etree.SubElement(formats, f"{WORD}pStyle") if style is None else style
    style.set(f"{WORD}val", name)


def _make_run(text: str) -> Any:
    from lxml import etree

    run = etree.Element(f"{WORD}r")
    etree.SubElement(run, f"{WORD}t", {SPACE: "preserve"}).text = text
    return run


def _move_behind(element: Any, *places: Any) -> None:
    """Move the content of an element behind the last of some elements, in its order."""
    if element is not None and places:
        for child in reversed(list(element)):
            places[-1].addnext(child)


def _find_replacement(run: Any, formats: Formats) -> str | None:
    """Return what a reader sees of a run that is hidden: nothing, or a gap; None for a visible run."""
    found = formats.list_for_run(run)
    if any(_is_on(_find(found, name)) for name in ("vanish", "webHidden", "specVanish")) or _is_outside(run, formats):
        return ""
    size, width = (_get_value(_find(found, name)) for name in ("sz", "w"))
    if size.isdecimal() and int(size) <= 2 * MAX_TINY_SIZE:
        return ""
    if width.rstrip("%").isdecimal() and int(width.rstrip("%")) < MIN_LETTER_WIDTH:
        return ""
    if abs(_read_number(_get_value(_find(found, "position")))) >= 2 * MIN_OFFSET:
        return ""
    is_clear = any(_name(e) == "textFill" and _is_clear(e) for each in found for e in each)
    return GAP if is_clear or are_alike(_read_colour(found), _find_background(run, found, formats)) else None


def _is_outside(run: Any, formats: Formats) -> bool:
    """Return True if a run is in a hidden row, or outside of the page."""
    for element in run.iterancestors():
        name = _name(element)
        if name == "tr" and element.find(f"{WORD}trPr/{WORD}hidden") is not None:
            return True
        if name == "p" and (indent := _find(formats.list_for_paragraph(element), "ind")) is not None:
            sides = (indent.get(f"{WORD}{side}") or "0" for side in ("left", "start", "right", "end"))
            if any(_read_number(side) <= -MIN_OFFSET * TWIPS for side in sides):
                return True
        if name == "anchor":
            offsets = (place.text or "" for place in element.iter("{*}posOffset"))
            return any(_read_number(offset) <= -MIN_OFFSET * EMU for offset in offsets)
        if name in ("shape", "rect") and is_moved_away(parse_declarations(element.get("style") or "")):
            return True
    return False


def _choose_style(paragraph: Any, formats: Formats) -> str:
    """Return the style for a paragraph with one for quotations, or that is indented and no item of a list, else ""."""
    if not any(text.text and text.text.strip() for text in paragraph.iter(f"{WORD}t")):
        return ""
    if any(map(names_quotation, formats.name_styles(paragraph))):
        return QUOTATION
    found = formats.list_for_paragraph(paragraph)
    if [_name(bar) for bar in _list_borders(found)] in (["left"], ["start"]):
        return QUOTATION
    if (indent := _find(found, "ind")) is None:
        return ""
    sides = (indent.get(f"{WORD}{side}") or indent.get(f"{WORD}{other}") or "" for side, other in SIDES)
    left, right = (_read_number(side) >= MIN_INDENT * TWIPS for side in sides)
    if left and right:
        return QUOTATION
    return INDENTED if left and _find(found, "numPr") is None else ""


def _list_borders(formats: list[Any]) -> list[Any]:
    """Return the lines around a paragraph."""
    borders = _find(formats, "pBdr")
    return [] if borders is None else [line for line in borders if _get_value(line) not in ("none", "nil")]


def _find(formats: list[Any], name: str) -> Any:
    """Return the nearest format of a name."""
    return next((each for each in (f.find(f"{WORD}{name}") for f in formats) if each is not None), None)


def _is_on(element: Any) -> bool:
    return element is not None and _get_value(element) not in ("0", "false", "off")


def _is_clear(fill: Any) -> bool:
    """Return True for a fill of letters that is none, or transparent."""
    return any(_name(e) == "noFill" or (_name(e) == "alpha" and "100000" in e.values()) for e in fill.iter())


def _name(element: Any) -> str:
    """Return the name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def _get_value(element: Any) -> str:
    return "" if element is None else str(element.get(f"{WORD}val") or "")


def _read_value(formats: Any, name: str) -> str:
    return "" if formats is None else _get_value(formats.find(f"{WORD}{name}"))


def _read_number(value: str) -> float:
    return int(value) if re.fullmatch(r"-?\d{1,9}", value) else 0.0


def _read_colour(formats: list[Any]) -> Colour | None:
    """Return the colour of letters; None: one that contrasts with the background."""
    fill = next((e for each in formats for e in each if _name(e) == "textFill"), None)
    if fill is not None:  # newer programs use it in place of the colour
        values = [next(iter(e.values()), "") for e in fill.iterfind("{*}solidFill/*")]
        return WHITE if values and values[0] in ("bg1", "lt1") else _parse_hex("".join(values))
    element = _find(formats, "color")
    if element is None:
        return None
    theme = element.get(f"{WORD}themeColor")
    if theme in ("background1", "light1") and element.get(f"{WORD}themeShade") is None:
        return WHITE
    return BLACK if theme in ("text1", "dark1") else _parse_hex(_get_value(element))


def _find_background(run: Any, found: list[Any], formats: Formats) -> Colour | None:
    """Return the colour behind a run; None: not known, such as that of a text box."""
    highlight = _get_value(_find(found, "highlight"))
    if highlight not in ("", "none"):
        return parse_colour(HIGHLIGHTS.get(highlight.lower(), highlight.lower()), None)
    if (fill := _read_fill(found)) is not None:
        return fill
    for element in run.iterancestors():
        name = _name(element)
        own = formats.list_for_paragraph(element) if name == "p" else element.iterchildren(f"{WORD}{name}Pr")
        if (fill := _read_fill(list(own))) is not None:
            return fill
        if (name == "tbl" and formats.has_shades(element)) or (name == "txbxContent" and _is_filled(element)):
            return None
        page = element.find(f"{WORD}background") if name == "document" and formats.shows_page_colour else None
        if page is not None:
            return _parse_hex(page.get(f"{WORD}color") or "")
    return WHITE


def _is_filled(box: Any) -> bool:
    """Return True for a text box whose shape has a colour of its own, or by its style."""
    names = ("wsp", "shape", "rect", "roundrect", "oval")
    shape = next((e for e in box.iterancestors() if _name(e) in names), None)
    if shape is None:
        return False
    fills = [shape.find(f"{{*}}spPr/{{*}}{kind}Fill") for kind in ("solid", "grad", "blip", "patt")]
    by_style = shape.find("{*}style/{*}fillRef") is not None and shape.find("{*}spPr/{*}noFill") is None
    return by_style or shape.get("fillcolor") is not None or any(fill is not None for fill in fills)


def _read_fill(formats: list[Any]) -> Colour | None:
    """Return the colour of the nearest shade; None without one."""
    shade = _find(formats, "shd")
    name = "color" if _get_value(shade) == "solid" else "fill"
    fill = "" if shade is None else str(shade.get(f"{WORD}{name}") or "auto")
    return None if fill in ("", "auto") else _parse_hex(fill)


def _parse_hex(value: str) -> Colour | None:
    return parse_colour(f"#{value.lower()}", None) if len(value) == 6 else None
