"""Rewrite a DOCX so that a converter reads its visible text, and only that.

What a converter skips (text boxes, fields, direction overrides, ruby) becomes plain runs; what no reader sees (hidden,
white or tiny letters) goes. Formatting by a style is not looked at.
"""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from pan_scdg.pan.html_text import HIDDEN, NOT_READ

PARTS = ("word/document.xml", "word/footnotes.xml", "word/endnotes.xml")
WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
COMPATIBILITY = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
WRAPPERS = [f"{WORD}{name}" for name in ("bdo", "dir", "fldSimple", "smartTag")]
SPACE = "{http://www.w3.org/XML/1998/namespace}space"
QUOTATION_STYLES = {"quote", "intensequote", "blocktext", "blockquote", "blockquotation", "zitat", "intensiveszitat"}
SIDES, MIN_INDENT = (("left", "start"), ("right", "end")), 280
"""Indentation of a block quotation at both sides, half a centimetre in twentieths of a point."""
MIN_WHITE = 0xF5
"""Least red, green and blue of a colour that is taken for white."""
MAX_TINY_SIZE = 4
"""Largest size of letters that no reader sees, in half points."""


def show_visible_text(path: Path) -> tuple[io.BytesIO, list[str]]:
    """Return a DOCX with its visible text in plain runs, and warnings about what it hides or embeds.

    Raises:
        Exception: whatever zipfile and lxml raise for a damaged file.
    """
    shown, warnings = io.BytesIO(), dict[str, None]()
    with ZipFile(path) as archive, ZipFile(shown, "w") as copy:
        for name in archive.namelist():
            data = archive.read(name)
            copy.writestr(name, _rewrite(data, warnings) if name in PARTS else data)
    shown.seek(0)
    return shown, list(warnings)


def _rewrite(data: bytes, warnings: dict[str, None]) -> bytes:
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    root = etree.fromstring(data, parser)
    for fallback in list(root.iter(f"{COMPATIBILITY}Fallback")):  # the same text once more, for older programs
        fallback.getparent().remove(fallback)
    for box in list(root.iter(f"{WORD}txbxContent")):
        _move_behind(box, *(ancestor for ancestor in box.iterancestors(f"{WORD}p")))
    for ruby in list(root.iter(f"{WORD}ruby")):
        _move_behind(ruby.find(f"{WORD}rubyBase"), ruby.getparent())
        ruby.getparent().remove(ruby)
    for wrapper in list(root.iter(*WRAPPERS)):
        _move_behind(wrapper, wrapper)
        wrapper.getparent().remove(wrapper)
    for run in list(root.iter(f"{WORD}r")):
        if (space := _find_replacement(run)) is not None and any(run.itertext()):
            warnings[HIDDEN] = None
            texts = list(run.iter(f"{WORD}t"))
            for text in texts:
                text.text = space if text is texts[0] else ""
    for paragraph in root.iter(f"{WORD}p"):
        if _is_block_quotation(paragraph):
            run = etree.Element(f"{WORD}r")
            etree.SubElement(run, f"{WORD}t", {SPACE: "preserve"}).text = "> "
            paragraph.insert(1, run)  # behind its properties
    if root.find(f".//{WORD}altChunk") is not None:
        warnings[NOT_READ] = None
    result: bytes = etree.tostring(root)
    return result


def _move_behind(element: Any, *places: Any) -> None:
    """Move the content of an element behind the last of some elements, in its order."""
    if element is not None and places:
        parent, index = places[-1].getparent(), places[-1].getparent().index(places[-1]) + 1
        for number, child in enumerate(list(element)):
            parent.insert(index + number, child)


def _find_replacement(run: Any) -> str | None:
    """Return what a reader sees of a run that is hidden: nothing, or a gap; None for a visible run."""
    formats = run.find(f"{WORD}rPr")
    if formats is None:
        return None
    if any(_is_on(formats.find(f"{WORD}{name}")) for name in ("vanish", "webHidden")):
        return ""
    size = _read_value(formats, "sz")
    if size.isdecimal() and int(size) <= MAX_TINY_SIZE:
        return ""
    return " " if _is_white(_read_value(formats, "color")) and not any(_list_backgrounds(run)) else None


def _is_block_quotation(paragraph: Any) -> bool:
    """Return True for a paragraph with a style for quotations, or one that is indented at both sides."""
    formats = paragraph.find(f"{WORD}pPr")
    if formats is None or not any(map(str.strip, paragraph.itertext())):
        return False
    indent = formats.find(f"{WORD}ind")
    sides = [] if indent is None else [indent.get(f"{WORD}{s}") or indent.get(f"{WORD}{o}") for s, o in SIDES]
    is_indented = all(side and side.isdecimal() and int(side) >= MIN_INDENT for side in sides) and bool(sides)
    return is_indented or _read_value(formats, "pStyle").casefold() in QUOTATION_STYLES


def _is_on(element: Any) -> bool:
    return element is not None and element.get(f"{WORD}val") not in ("0", "false", "off")


def _read_value(formats: Any, name: str) -> str:
    element = formats.find(f"{WORD}{name}")
    return "" if element is None else str(element.get(f"{WORD}val") or "")


def _is_white(colour: str) -> bool:
    try:
        return len(colour) == 6 and min(bytes.fromhex(colour)) >= MIN_WHITE
    except ValueError:
        return False


def _list_backgrounds(run: Any) -> Iterator[bool]:
    """Yield True for each colour behind a run that is not white."""
    for element in (run, *run.iterancestors()):
        for formats in element.iterchildren(*(f"{WORD}{name}" for name in ("rPr", "pPr", "tcPr", "tblPr"))):
            shade = formats.find(f"{WORD}shd")
            fill = "" if shade is None else str(shade.get(f"{WORD}fill") or "auto")
            yield bool(fill and fill != "auto" and not _is_white(fill))
            yield formats.find(f"{WORD}highlight") is not None
