"""Read an ODT as the page of HTML that a reader sees: its elements get the names of HTML, its formats those of CSS."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from pan_scdg.documents.html_text import extract_tree, list_unread
from pan_scdg.documents.styles import MIN_LETTER_WIDTH, MIN_OFFSET, measure, names_quotation
from pan_scdg.pan.untrusted import parse_xml_bytes

_NAMES = ("text", "table", "drawing", "office", "style", "form", "svg-compatible")
TEXT, TABLE, DRAW, OFFICE, STYLE, FORM, SVG = (f"{{urn:oasis:names:tc:opendocument:xmlns:{n}:1.0}}" for n in _NAMES)
ELEMENTS = {
    **{f"{TEXT}p": "p", f"{TEXT}h": "h1", f"{TEXT}list": "ul", f"{TEXT}list-item": "li", f"{TEXT}list-header": "li"},
    **{f"{TEXT}span": "span", f"{TEXT}a": "span", f"{TEXT}line-break": "br", f"{TEXT}section": "section"},
    **{f"{TABLE}table": "table", f"{TABLE}table-row": "tr", f"{TABLE}table-cell": "td", f"{DRAW}text-box": "div"},
}
"""Those of HTML; any other is a ``span``."""
FAMILIES = {"span": "text", "a": "text", "section": "section"}
"""Kinds of styles of the elements of text that are no paragraphs."""
SKIPPED_ELEMENTS = (
    *(f"{TEXT}{name}" for name in ("tracked-changes", "ruby-text", "hidden-text", "sequence-decls", "variable-decls")),
    *(f"{OFFICE}{name}" for name in ("annotation", "annotation-end", "event-listeners", "scripts")),
    *(f"{SVG}title", f"{SVG}desc"),
)
"""Deleted text, comments and names: no part of the text."""
_PROPERTIES = "background-color border-left color display fill fill-color font-size font-style margin-left"
_PROPERTIES += " margin-right opacity text-position text-scale"
PROPERTIES = frozenset(_PROPERTIES.split())
"""Attributes of formats that decide what a reader sees; CSS has the same names and values for all but three."""


def convert_odt(path: Path) -> tuple[str, list[str]]:
    """Return the visible text of an ODT, and warnings about what is hidden or was not read.

    Raises:
        Exception: whatever zipfile and lxml raise for a damaged file.
    """
    with ZipFile(path) as archive:
        names = archive.namelist()
        root, styles = (
            parse_xml_bytes(archive.read(name) if name in names else b"<none/>")
            for name in ("content.xml", "styles.xml")
        )
    warnings = list_unread(
        ("".join(margin.itertext()) for margin in styles.iter(f"{STYLE}header", f"{STYLE}footer")),
        (" ".join(comment.itertext()) for comment in root.iter(f"{OFFICE}annotation")),
        any(re.match(r"Object \d+/content\.xml", name) for name in names),
    )
    body = root.find(f"{OFFICE}body/{OFFICE}text")
    if body is None:
        raise ValueError("it has no text")
    _make_page(body, Formats(root, styles))
    pages = (page.items() for page in styles.iter(f"{STYLE}page-layout-properties"))
    colours = (value for page in pages for key, value in page if key.endswith("}background-color"))
    body.set("style", f"background:{next(colours, 'none')}")
    return extract_tree(body, warnings), warnings


class Formats:
    """The formats of a document by the names of its styles.

    Args:
        parts: the roots of ``content.xml`` and ``styles.xml``.
    """

    def __init__(self, *parts: Any) -> None:
        self._styles: dict[tuple[str, str], Any] = {}
        for part in reversed(parts):
            for style in part.iter(f"{STYLE}style", f"{STYLE}default-style"):
                self._styles[style.get(f"{STYLE}family") or "", style.get(f"{STYLE}name") or ""] = style

    def list_styles(self, family: str, name: str) -> Iterator[Any]:
        """Yield a style, those that it is made from, and the default one."""
        seen: set[str] = set()
        while (family, name) in self._styles and name not in seen:
            seen.add(name)
            yield self._styles[family, name]
            name = self._styles[family, name].get(f"{STYLE}parent-style-name") or ""

    def declare(self, family: str, name: str) -> dict[str, str]:
        """Return the declarations of CSS for a style."""
        declared: dict[str, str] = {}
        for style in self.list_styles(family, name):
            if names_quotation(label := style.get(f"{STYLE}name") or ""):
                declared["quoted"] = label
            for properties in style:
                own = {key.rpartition("}")[2]: value for key, value in properties.items()}
                if own.get("use-window-font-color") == "true":  # LibreOffice writes an opacity of 0 % beside it
                    own |= {"color": "unknown", "opacity": "100%"}
                declared = {key: value for key, value in own.items() if key in PROPERTIES} | declared
        shares = [declared.pop("text-scale", ""), *declared.pop("text-position", "").split()[1:]]
        if any(measure(share, 100, 100) < MIN_LETTER_WIDTH for share in shares):
            declared["font-size"] = "0"
        colour, fill = declared.pop("fill-color", ""), declared.pop("fill", "none")
        if fill != "none":
            declared["background-color"] = colour if fill == "solid" else "unknown"
        return declared


def _make_page(body: Any, formats: Formats) -> None:
    """Give all elements the names of HTML and styles of CSS."""
    from lxml import etree

    etree.strip_elements(body, *SKIPPED_ELEMENTS, with_tail=False)
    notes = list(body.iter(f"{TEXT}note"))
    for number, note in enumerate(notes, 1):
        for part in list(note):
            if part.tag == f"{TEXT}note-body":
                body.append(part)
            else:
                note.remove(part)
        note.text = f"[{number}]"
    for frame in reversed(list(body.iter(f"{DRAW}frame", f"{DRAW}custom-shape"))):
        _move_behind_paragraph(frame)
    for mark in body.iter(f"{TEXT}hidden-paragraph"):
        if mark.get(f"{TEXT}is-hidden") == "true":
            next(mark.iterancestors(f"{TEXT}p", f"{TEXT}h"), mark).set(f"{TEXT}display", "none")
    for field in list(body.iter(f"{FORM}textarea", f"{FORM}text")):
        etree.SubElement(body, f"{TEXT}p").text = field.get(f"{FORM}current-value") or field.get(f"{FORM}value")
    for element in body.iter():
        if element.tag in (f"{TEXT}s", f"{TEXT}tab"):
            element.text = " "
        declared = _declare(element, formats)
        is_quoted = declared.pop("quoted", None) is not None
        element.tag = "blockquote" if is_quoted else ELEMENTS.get(element.tag, "span")
        element.attrib.clear()
        if declared:
            element.set("style", ";".join(f"{name}:{value}" for name, value in declared.items()))


def _declare(element: Any, formats: Formats) -> dict[str, str]:
    """Return the declarations of CSS for an element."""
    namespace, _, tag = str(element.tag).rpartition("}")
    family = FAMILIES.get(tag) or {TEXT: "paragraph", DRAW: "graphic"}.get(f"{namespace}}}", tag)
    name = next((value for key, value in element.items() if key.endswith("}style-name")), "")
    declared = formats.declare(family, name)
    is_collapsed = element.get(f"{TABLE}visibility") in ("collapse", "filter")
    if is_collapsed or element.get(f"{TEXT}display") == "none" or element.get(f"{TEXT}is-hidden") == "true":
        declared["display"] = "none"
    places = (element.get(f"{SVG}{axis}") or "" for axis in "xy")
    if any(measure(place, 12, 0) <= -MIN_OFFSET for place in places):
        declared["display"] = "none"
    return declared


def _move_behind_paragraph(frame: Any) -> None:
    """Move a frame out of its paragraph, whose words it would cut."""
    paragraph = next(frame.iterancestors(f"{TEXT}p", f"{TEXT}h"), None)
    if paragraph is not None:
        place = frame.makeelement(f"{TEXT}span")
        place.tail, frame.tail = frame.tail, None
        frame.getparent().replace(frame, place)
        paragraph.addnext(frame)
