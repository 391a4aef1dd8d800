"""Take the text out of an HTML page as a reader sees it."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pan_scdg.documents.styles import Styles, TextStyle, has_bar, is_indented, names_quotation

HIDDEN = "hidden text was left out"
NOT_READ = "an embedded file was not read"
MARGIN_NOT_READ, MIN_MARGIN_WORDS = "a long header, footer or aside was not read", 40
"""Warning, and the words of such a part that are worth it."""
_SKIPPED_ELEMENTS = "datalist head iframe noscript object rp rt script style svg template title"
SKIPPED_ELEMENTS = frozenset(_SKIPPED_ELEMENTS.split())
"""Elements whose content is not part of the text."""
MARGINS = frozenset(["nav", "aside", "footer"])
MARGIN_ROLES = frozenset(["banner", "complementary", "contentinfo", "navigation", "search"])
"""Elements, and values of ``role``, of what a platform shows around a text."""
COMMENT_NOT_READ, MIN_COMMENT_WORDS = "a long comment was not read", 20
"""Warning, and the words of a comment that are worth it."""
MIN_EMBEDDED_WORDS = 20
"""Words of such an element that are worth a warning."""
_PARAGRAPHS = """
address article aside blockquote body caption center dd details dialog div dl dt fieldset figcaption figure footer form
h1 h2 h3 h4 h5 h6 header hr html legend main nav ol optgroup option p pre section summary table tbody textarea tfoot
thead ul
"""
SEPARATORS = {**dict.fromkeys(_PARAGRAPHS.split(), "\n\n"), "li": "\n", "tr": "\n", "td": "\t", "th": "\t"}
"""Separator before and after an element, so that its words do not join those of its neighbour."""
BLOCKS = frozenset(["block", "flex", "grid", "list-item", "table", "table-row"])
"""Values of ``display`` that set an element apart."""
_NOTE, _BEFORE_NOTE = re.compile(r"\d{1,3}(?:[,–-]\d{1,3})*"), re.compile(r"[^\W\d_]{3}[.,;:!?]?$|[.!?,;:”\")]$")
"""The number of a footnote, which would change the word that it follows."""
GAP = "\ufdd0"
"""Stands for text that leaves a gap; no character of a text."""
MAX_MEAN_WORD = 9
"""Mean length of words, above which gaps must be spaces."""
MAX_MEAN_PIECE = 2
"""Mean length of what is between two gaps, up to which they are between the letters of words."""
MIN_QUOTED_WORDS, MAX_SOURCE_WORDS = 8, 8
"""Words of a quotation that is a paragraph in italics or indented, and of its source, which need not be in italics."""
_SOURCE = re.compile(r"(?:\([^()]{3,80}\)|\[\d{1,3}\]|[.!?”\"]\d{1,3})[.\s]*\Z")


def extract_html(html: str, warnings: list[str] | None = None) -> str:
    """Return the text of an HTML page, as a reader sees it: paragraphs apart by a blank line, rows by a line break.

    Text that styles hide is left out, and ``warnings`` says so. Nothing is fetched or run, and no entity is expanded
    but those of HTML. Markup that is not well-formed is read as a browser would.

    Raises:
        ValueError: elements are nested too deep, so that the rest would be lost, or styles take too long.
    """
    from lxml import etree

    # libxml2 ends a page at a NUL character
    data = html.replace("\0", "\ufffd").encode("utf-8")
    if not data.strip():
        return ""
    parser = etree.HTMLParser(
        encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True, huge_tree=True, recover=True
    )
    root = etree.fromstring(data, parser)
    if any(error.type_name == "ERR_RESOURCE_LIMIT" for error in parser.error_log):
        raise ValueError("elements are nested too deep")
    return "" if root is None else extract_tree(root, [] if warnings is None else warnings)


def extract_tree(root: Any, warnings: list[str]) -> str:
    """Return the text of the elements of a page; see `extract_html`."""
    text = close_gaps("".join(_list_pieces(root, warnings)))
    text = re.sub(r" ?\n ?", "\n", re.sub(r"[ \t\r\f\v]+", " ", text))
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def list_unread(margins: Iterable[str], comments: Iterable[str], embeds: bool) -> list[str]:
    """Return warnings about what was not read of a document of a word processor.

    Args:
        margins: the texts of its headers and footers.
        comments: the texts of its comments.
        embeds: it contains other files with text.
    """
    parts = {
        NOT_READ: embeds,
        MARGIN_NOT_READ: any(len(text.split()) >= MIN_MARGIN_WORDS for text in margins),
        COMMENT_NOT_READ: any(len(text.split()) >= MIN_COMMENT_WORDS for text in comments),
    }
    return [warning for warning, is_there in parts.items() if is_there]


class _Place(NamedTuple):
    """The style of an element, what it is part of, and what sets it apart."""

    look: TextStyle
    is_quoted: bool
    separator: str
    keeps_lines: bool = False


def _list_pieces(root: Any, warnings: list[str]) -> list[str]:
    """Return the pieces of text below an element; walked without recursion, since nesting is the page's choice."""
    from lxml import etree

    styles = Styles(root, "\n".join(style.text or "" for style in root.iter("style") if _is_for_screens(style)))
    pieces: list[str] = []
    places = [_Place(TextStyle(), False, "")]

    def add(text: str | None) -> None:
        """Add text as it is read at the last place."""
        look, is_quoted, _, keeps_lines = places[-1]
        if not text:
            return
        if (look.hides or look.leaves_gap) and not text.isspace():
            if HIDDEN not in warnings:
                warnings.append(HIDDEN)
            if look.hides:
                return
            text = GAP
        begins = not pieces or pieces[-1] in ("\n\n", "\n")
        if begins and text.isspace():
            return
        if begins and is_quoted:
            pieces.append("> ")  # as in Markdown, so that a block quotation is one
        pieces.append(text.replace("\n", " " if not keeps_lines else "\n> " if is_quoted else "\n"))

    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        tag = element.tag if isinstance(element.tag, str) else ""
        if event == "end":
            pieces += filter(None, ["”" if tag == "q" else "", places.pop().separator])
            add(element.tail)
            continue
        if tag in SKIPPED_ELEMENTS:
            walk.skip_subtree()
            if tag in ("iframe", "object", "svg") and NOT_READ not in warnings and _embeds_text(element):
                warnings.append(NOT_READ)
            places.append(places[-1]._replace(separator=SEPARATORS.get(tag, "")))
            continue
        if _is_margin(element):
            walk.skip_subtree()
            if MARGIN_NOT_READ not in warnings and _count_margin_words(element) >= MIN_MARGIN_WORDS:
                warnings.append(MARGIN_NOT_READ)
            places.append(places[-1]._replace(separator="\n\n"))
            continue
        declared = styles.find_declarations(element, places[-1].look.variables)
        look = places[-1].look.inherit(declared)
        separator = "\n\n" if declared.get("display") in BLOCKS else SEPARATORS.get(tag, "")
        is_closed = tag == "dialog" and element.get("open") is None
        is_skipped = declared.get("content-visibility") == "hidden" and (separator or "display" in declared)
        if element.get("hidden") is not None or is_closed or is_skipped:
            look = look._replace(is_shown=False)
        is_quotation = tag == "blockquote" or any(map(names_quotation, (element.get("class") or "").split()))
        is_quotation = is_quotation or (tag in ("p", "div") and is_indented(declared))
        is_quotation = is_quotation or (_is_set_off(declared) and _is_paragraph(element))
        if tag == "p" and not is_quotation:
            seen = [each for each in element if not look.inherit(styles.find_declarations(each, look.variables)).hides]
            is_quotation = _is_announced_quotation(element, seen, declared, pieces)
        keeps_lines = places[-1].keeps_lines or tag in ("pre", "textarea")
        places.append(_Place(look, places[-1].is_quoted or is_quotation, separator, keeps_lines))
        line = "\n> " if places[-1].is_quoted else "\n"
        pieces += filter(None, [line if tag == "br" else separator, "“" if tag == "q" else ""])
        is_note = (
            tag == "sup" and _NOTE.fullmatch(element.text or "") and _BEFORE_NOTE.search("".join(pieces[-2:])[-9:])
        )
        add(f"[{element.text}]" if is_note else element.text)
    return pieces


def close_gaps(text: str) -> str:
    """Return a text with a space, or nothing, for each gap.

    Text that leaves a gap may stand in place of spaces, or between the letters of words.
    """
    lines = text.split("\n") if GAP in text else []
    for number, line in enumerate(lines):
        words, gaps = line.replace(GAP, "").split(), line.count(GAP)
        letters = sum(map(len, words))
        lacks_spaces = letters > MAX_MEAN_WORD * len(words) or 4 * (len(words) - 1) < gaps
        if lacks_spaces and letters > MAX_MEAN_PIECE * (gaps + 1):
            lines[number] = line.replace(GAP, " ")
        else:
            lines[number] = re.sub(f" (?:{GAP} )+", " ", line).replace(GAP, "")
    return "\n".join(lines) if lines else text


def _is_for_screens(style: Any) -> bool:
    return (style.get("media") or "all").strip().lower() in ("", "all", "screen")


def _embeds_text(element: Any) -> bool:
    return bool(element.get("srcdoc")) or len("".join(element.itertext()).split()) >= MIN_EMBEDDED_WORDS


def _is_margin(element: Any) -> bool:
    """Return True for an element around the text of a page; footnotes and the source of a quotation are its text."""
    role = element.get("role", "").strip().lower()
    if role in MARGIN_ROLES or role.startswith("doc-"):  # such as doc-endnotes
        return role in MARGIN_ROLES
    return element.tag in MARGINS and next(element.iterancestors("blockquote"), None) is None


def _count_margin_words(element: Any) -> int:
    """Return the words of an element outside of links, of which menus are made."""
    texts = element.xpath(".//text()[not(ancestor::a or ancestor::button or ancestor::script or ancestor::style)]")
    return len(" ".join(texts).split())


def names_source(text: str) -> bool:
    """Return True for a text that ends with a source in brackets, or with the number of a note."""
    return bool(_SOURCE.search(text))


def _is_set_off(declared: Mapping[str, str]) -> bool:
    """Return True if an element looks like a block quotation, unless it is the frame of a page."""
    return has_bar(declared) or is_indented(declared, space="padding")


def _is_paragraph(element: Any) -> bool:
    if element.tag == "div":
        return next(element.iterdescendants("div", "p"), None) is None
    return bool(element.tag == "p")


def _is_announced_quotation(
    paragraph: Any, children: Iterable[Any], declared: Mapping[str, str], pieces: list[str]
) -> bool:
    """Return True for a paragraph that is announced by a colon, or ends with a source or its number.

    It is in italics, or indented at the left and no item of a list.

    Args:
        paragraph: the paragraph.
        children: its elements that a reader sees.
        declared: what is declared about it.
        pieces: the text before it.
    """
    is_item = next(paragraph.iterancestors("li"), None) is not None
    is_set_off = "italic" in declared.get("font-style", "") or (
        any(is_indented(declared, False, space) for space in ("margin", "padding")) and not is_item
    )
    inner = {child: "".join(child.itertext()) for child in children}
    others = [child for child in inner if child.tag not in ("em", "i") and "italic" not in child.get("style", "")]
    between = [paragraph.text or "", *(child.tail or "" for child in paragraph)]
    text = "".join([between[0], *(inner.get(child, "") + (child.tail or "") for child in paragraph)])
    upright = "".join([*between, *(inner[child] for child in others)])
    rest = 0 if is_set_off else len(upright.split())
    if len(text.split()) - rest < MIN_QUOTED_WORDS or rest > MAX_SOURCE_WORDS:
        return False
    return "".join(pieces[-20:]).rstrip().endswith(":") or bool(_SOURCE.search(text))
