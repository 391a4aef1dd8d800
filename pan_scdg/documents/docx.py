"""Read a DOCX as the page of HTML that a reader sees: its elements get the names of HTML, its formats those of CSS.

Elements and attributes are known by their names without namespaces, which strict files spell otherwise.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any
from zipfile import ZipFile

from pan_scdg.documents.html_text import extract_tree, list_unread
from pan_scdg.documents.styles import (
    MIN_LETTER_WIDTH,
    MIN_OFFSET,
    has_bar,
    is_indented,
    is_moved_away,
    names_quotation,
    parse_declarations,
)
from pan_scdg.pan.untrusted import parse_xml_bytes

EMBEDDED = ("word/diagrams/data", "word/embeddings/", "word/afchunk")
"""Beginnings of the names of parts whose text is not read."""
MARGINS = ("word/header", "word/footer")
COMMENTS = "word/comments.xml"
ELEMENTS = {"tbl": "table", "tr": "tr", "tc": "td", "br": "br", "cr": "br"}
"""Those of HTML; any other is a ``span``."""
CHARACTERS = {"tab": "\t", "ptab": "\t", "noBreakHyphen": "\u2011", "softHyphen": "\u00ad"}
SKIPPED_ELEMENTS = ("del", "moveFrom", "rt")
"""Deleted text, and how ruby says that words are spoken."""
UNWRAPPED_ELEMENTS = ("bdo", "dir", "ins", "moveTo", "fldSimple", "smartTag", "customXml", "sdt", "sdtContent")
"""Around runs, which stay runs of their paragraph."""
THEME_COLOURS = {
    **dict.fromkeys(("background1", "light1", "bg1", "lt1"), "#ffffff"),
    **dict.fromkeys(("text1", "dark1", "tx1", "dk1"), "#000000"),
}
HIGHLIGHTS = {"green": "lime", "darkgreen": "green", "darkyellow": "olive", "darkgray": "gray", "lightgray": "silver"}
"""Names of the colours of highlights that have another name in CSS, or one that is of another colour there."""
AUTOMATIC = {"color": "unknown"}
"""Letters without a colour have one that contrasts with what is behind them."""
SIDES = {"left": "start", "right": "end"}
TWIPS, EMU = 20, 12700
"""Units of a point."""

Properties = Mapping[str, Any]
"""The nearest format of each name."""


def convert_docx(path: Path) -> tuple[str, list[str]]:
    """Return the visible text of a DOCX, and warnings about what is hidden or was not read.

    Raises:
        Exception: whatever zipfile and lxml raise for a damaged file.
    """
    with ZipFile(path) as archive:
        names = archive.namelist()
        main = _list_relations(archive, "_rels/.rels").get("officeDocument", "word/document.xml")
        others = _list_relations(
            archive, str(PurePosixPath(main).parent / "_rels" / f"{PurePosixPath(main).name}.rels")
        )

        def read(kind: str) -> Any:
            name = others.get(kind, f"word/{kind}.xml")
            return parse_xml_bytes(archive.read(name) if name in names else b"<none/>")

        root = parse_xml_bytes(archive.read(main))
        margins = [archive.read(name) for name in names if name.startswith(MARGINS)]
        comments = parse_xml_bytes(archive.read(COMMENTS)).iter("{*}comment") if COMMENTS in names else ()
        embeds = any(name.startswith(EMBEDDED) for name in names) or _has(root, "altChunk", "subDoc")
        warnings = list_unread(
            (" ".join(parse_xml_bytes(data).itertext()) for data in margins if data),
            (" ".join(comment.itertext()) for comment in comments),
            embeds,
        )
        notes = {(kind, _read(note, "id")): note for kind in ("footnote", "endnote") for note in read(f"{kind}s")}
        page = _Page(Formats(read("styles")), notes)
        body = page.make(root.find("{*}body"))
        background = root.find("{*}background") if _has(read("settings"), "displayBackgroundShape") else None
    _set_style(body, AUTOMATIC | ({} if background is None else {"background-color": f"#{_read(background, 'color')}"}))
    return extract_tree(body, warnings), warnings


def _list_relations(archive: ZipFile, name: str) -> dict[str, str]:
    """Return the parts that another one refers to, by the last word of the kind."""
    if name not in archive.namelist():
        return {}
    folder = PurePosixPath(name).parent.parent
    relations = parse_xml_bytes(archive.read(name)).iter("{*}Relationship")
    return {
        (relation.get("Type") or "").rpartition("/")[2]: str(folder / (relation.get("Target") or "")).lstrip("/")
        for relation in relations
    }


class Formats:
    """The formats of runs and paragraphs: their own, and those of their styles.

    Args:
        styles: the root of ``word/styles.xml``.
    """

    def __init__(self, styles: Any) -> None:
        self._styles = {_read(style, "styleId"): style for style in styles.iter("{*}style")}
        usual = (
            name
            for name, style in self._styles.items()
            if _read(style, "type") == "paragraph" and _read(style, "default") in ("1", "true", "on")
        )
        self._usual = next(usual, "")
        self._defaults = _list_own(styles, "{*}docDefaults//{*}rPr")
        self._collect = cache(self._collect_of_style)

    def list_styles(self, name: str) -> Iterator[Any]:
        """Yield a style and those that it is based on."""
        seen: set[str] = set()
        while name in self._styles and name not in seen:
            seen.add(name)
            yield self._styles[name]
            name = _read(self._styles[name].find("{*}basedOn"))

    def declare_run(self, run: Any, paragraph: str) -> dict[str, str]:
        """Return the declarations of CSS for a run in a paragraph of a style."""
        style = _read(run.find("{*}rPr/{*}rStyle"))
        styles = self._collect(paragraph or self._usual, "rPr") | self._collect(style, "rPr")
        formats = self._defaults | styles | _list_own(run, "{*}rPr")
        declared = _declare_colours(formats)
        width, size = _read(formats.get("w")).rstrip("%"), _read(formats.get("sz"))
        if width.isdecimal() and int(width) < MIN_LETTER_WIDTH:
            declared["font-size"] = "0"
        elif size.isdecimal():
            declared["font-size"] = f"{int(size) / 2}pt"
        is_far = abs(_read_number(_read(formats.get("position")))) >= 2 * MIN_OFFSET
        if is_far or any(_is_on(formats.get(name)) for name in ("vanish", "webHidden", "specVanish")):
            declared["display"] = "none"
        if _is_on(formats.get("i")):
            declared["font-style"] = "italic"
        return declared

    def declare_paragraph(self, paragraph: Any, style: str) -> tuple[str, dict[str, str]]:
        """Return the name that a paragraph of a style has in HTML, and declarations of CSS."""
        formats = self._collect(style or self._usual, "pPr") | _list_own(paragraph, "{*}pPr")
        declared = _declare_colours(formats)
        indent, borders = formats.get("ind"), formats.get("pBdr")
        for side, other in SIDES.items() if indent is not None else ():
            width = _read_number(_read(indent, side) or _read(indent, other)) / TWIPS
            declared[f"margin-{side}"] = f"{width}pt"
            if width <= -MIN_OFFSET:
                declared["display"] = "none"
        lines = [] if borders is None else [_name(line) for line in borders if _read(line) not in ("none", "nil")]
        if lines in (["left"], ["start"]):
            declared["border-left"] = "3pt"  # a thin line is one, too
        labels = [style, *(_read(each.find("{*}name")) for each in self.list_styles(style or self._usual))]
        if any(map(names_quotation, labels)):
            return "blockquote", declared
        if any(label.lower().startswith("heading ") for label in labels):
            return "h1", declared
        number = formats.get("numPr")
        is_item = number is not None and _read(number.find("{*}numId")) != "0"
        return "li" if is_item and not has_bar(declared) and not is_indented(declared) else "p", declared

    def declare_table(self, element: Any) -> dict[str, str]:
        """Return the declarations of CSS for a table, a row or a cell."""
        formats = _list_own(element, f"{{*}}{_name(element)}Pr")
        declared = _declare_colours(formats)
        if _is_on(formats.get("hidden")):
            declared["display"] = "none"
        styles = self.list_styles(_read(formats.get("tblStyle")))
        if "background-color" not in declared and any(_has(style, "shd") for style in styles):
            declared["background-color"] = "unknown"  # of some of its cells
        return declared

    def _collect_of_style(self, style: str, kind: str) -> dict[str, Any]:
        formats: dict[str, Any] = {}
        for each in self.list_styles(style):
            formats = _list_own(each, f"{{*}}{kind}") | formats
        return formats


class _Page:
    """Builds the page of HTML.

    Args:
        formats: those of the document.
        notes: the notes by ``footnote`` or ``endnote`` and their numbers in the file.
    """

    def __init__(self, formats: Formats, notes: Mapping[tuple[str, str], Any]) -> None:
        from lxml import etree

        self._element, self._formats, self._notes = etree.SubElement, formats, notes
        self._body = etree.Element("body")
        self._boxes: list[Any] = []
        """Text boxes, which stand behind the paragraph whose words they would cut."""
        self._used_notes: list[Any] = []

    def make(self, body: Any) -> Any:
        """Return the page for the body of a document, with its notes behind it."""
        self._add_all(body, self._body)
        for note in self._used_notes:
            self._add_all(note, self._body)
        self._body.extend(self._boxes)
        return self._body

    def _add_all(self, elements: Iterable[Any], parent: Any, style: str = "") -> None:
        for element in elements:
            self._add(element, parent, style)

    def _add(self, element: Any, parent: Any, style: str) -> None:
        """Add what a reader sees of an element that is in a paragraph of a style."""
        name = _name(element)
        if name in SKIPPED_ELEMENTS or name.endswith("Pr"):
            return
        if name == "AlternateContent":  # the same for newer and older programs
            self._add_all(next((each for each in element if _has(each, "t")), ()), parent, style)
        elif name in UNWRAPPED_ELEMENTS:
            self._add_all(element, parent, style)
        elif name == "p":
            self._add_paragraph(element, parent)
        elif name == "r":
            self._add_run(element, parent, style)
        elif name in ("txbxContent", "textpath"):
            self._add_box(element)
        elif name in ("footnoteReference", "endnoteReference"):
            note = self._notes.get((name.removesuffix("Reference"), _read(element, "id")))
            if note is not None:
                self._used_notes.append(note)
                self._write(parent, f"[{len(self._used_notes)}]")
        elif (text := _read_text(element)) is not None:
            self._write(parent, text)
        else:
            child = self._element(parent, ELEMENTS.get(name, "span"))
            if name in ("tbl", "tr", "tc"):
                _set_style(child, self._formats.declare_table(element))
            self._add_all(element, child, style)

    def _add_paragraph(self, paragraph: Any, parent: Any) -> None:
        style = _read(paragraph.find("{*}pPr/{*}pStyle"))
        tag, declared = self._formats.declare_paragraph(paragraph, style)
        _set_style(child := self._element(parent, tag), declared)
        outer, self._boxes = self._boxes, []
        self._add_all(paragraph, child, style)
        self._hide_boxes(0, declared)
        parent.extend(self._boxes)
        self._boxes = outer

    def _add_run(self, run: Any, parent: Any, style: str) -> None:
        is_raised = _read(run.find("{*}rPr/{*}vertAlign")) == "superscript"  # such as the number of a note
        child = self._element(parent, "sup" if is_raised else "span")
        declared = self._formats.declare_run(run, style)
        _set_style(child, declared)
        first = len(self._boxes)
        self._add_all(run, child, style)
        self._hide_boxes(first, declared)

    def _hide_boxes(self, first: int, declared: Mapping[str, str]) -> None:
        """Hide the boxes from a number on if what they belong to is hidden."""
        if declared.get("display") == "none":
            for box in self._boxes[first:]:
                box.set("style", "display:none")

    def _add_box(self, content: Any) -> None:
        box = self._body.makeelement("div")
        _set_style(box, _declare_shape(content))
        self._boxes.append(box)
        if _name(content) == "textpath":
            self._element(box, "p").text = content.get("string")
        else:
            self._add_all(content, box)

    def _write(self, parent: Any, text: str) -> None:
        (parent if parent.text is None and not len(parent) else self._element(parent, "span")).text = text


def _declare_colours(formats: Properties) -> dict[str, str]:
    """Return the colours of letters and of what is behind them."""
    declared = {}
    if (colour := formats.get("color")) is not None:
        theme = "" if _read(colour, "themeShade") else THEME_COLOURS.get(_read(colour, "themeColor"), "")
        declared["color"] = theme or f"#{_read(colour)}"
    if (fill := formats.get("textFill")) is not None:  # newer programs use it in place of the colour
        is_clear = any(_name(e) == "noFill" or (_name(e) == "alpha" and "100000" in e.values()) for e in fill.iter())
        values = "".join(next(iter(e.values()), "") for e in fill.iterfind("{*}solidFill/*"))
        declared["-webkit-text-fill-color"] = "transparent" if is_clear else THEME_COLOURS.get(values, f"#{values}")
    if (shade := formats.get("shd")) is not None:
        value = _read(shade, "color" if _read(shade) == "solid" else "fill")
        if value not in ("", "auto"):
            declared["background-color"] = f"#{value}"
    if (highlight := _read(formats.get("highlight")).lower()) not in ("", "none"):
        declared["background-color"] = HIGHLIGHTS.get(highlight, highlight)
    return declared


def _declare_shape(box: Any) -> dict[str, str]:
    """Return the declarations of CSS for the shape around a text box."""
    declared: dict[str, str] = {}
    for element in box.iterancestors():
        name = _name(element)
        if name == "p":
            break
        offsets = element.iter("{*}posOffset") if name == "anchor" else ()
        is_away = any(_read_number(offset.text or "") <= -MIN_OFFSET * EMU for offset in offsets)
        if is_away or is_moved_away(parse_declarations(element.get("style") or "")):
            declared["display"] = "none"
        fills = (element.find(f"{{*}}spPr/{{*}}{kind}Fill") for kind in ("solid", "grad", "blip", "patt"))
        by_style = element.find("{*}style/{*}fillRef") is not None and element.find("{*}spPr/{*}noFill") is None
        if by_style or element.get("fillcolor") is not None or any(fill is not None for fill in fills):
            declared["background-color"] = "unknown"
    return declared


def _set_style(element: Any, declared: Mapping[str, str]) -> None:
    if declared:
        element.set("style", ";".join(f"{name}:{value}" for name, value in declared.items()))


def _read_text(element: Any) -> str | None:
    """Return the text of an element that is text or a character; None for another one."""
    name = _name(element)
    if name == "sym":
        code = _read(element, "char")
        # in the font's own places there are pictures
        return (
            chr(int(code, 16)) if re.fullmatch("[0-9A-Fa-f]{4}", code) and not "D800" <= code.upper() < "F900" else ""
        )
    return element.text or "" if name == "t" else CHARACTERS.get(name)


def _list_own(element: Any, path: str) -> dict[str, Any]:
    """Return the formats within an element that a path leads to, by their names."""
    return {_name(each): each for each in element.iterfind(f"{path}/*")}


def _has(element: Any, *names: str) -> bool:
    return next(element.iter(*(f"{{*}}{name}" for name in names)), None) is not None


def _name(element: Any) -> str:
    """Return the name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def _read(element: Any, attribute: str = "val") -> str:
    """Return an attribute, whatever its namespace; "" without one."""
    if element is None:
        return ""
    return next((value for key, value in element.items() if key.rpartition("}")[2] == attribute), "")


def _read_number(value: str) -> float:
    return int(value) if re.fullmatch(r"-?\d{1,9}", value) else 0.0


def _is_on(element: Any) -> bool:
    return element is not None and _read(element) not in ("0", "false", "off")
