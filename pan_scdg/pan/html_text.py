"""Extract the text of an HTML page: the words that a reader sees, in the order of the file."""

import re
from typing import Any

_LEFT_OUT = "head iframe noscript object script style svg template textarea title"
LEFT_OUT = frozenset(_LEFT_OUT.split())
"""Elements whose content is no part of the text."""
_PARAGRAPHS = """
address article aside blockquote body center dd details dialog div dl dt fieldset figcaption figure footer form h1 h2
h3 h4 h5 h6 header hr html main nav ol p pre section summary table tbody tfoot thead ul
"""
BREAKS = {**dict.fromkeys(_PARAGRAPHS.split(), "\n\n"), "li": "\n", "tr": "\n", "td": "\t", "th": "\t"}
"""Separator before and after an element, so that its words do not join those of its neighbour."""
BACK_LINK = "\u2191"
"""The link from a footnote back to its mark, as mammoth writes it."""

_SPACES = re.compile(r"[ \t\r\f\v]+")
_AROUND_BREAK = re.compile(r" ?\n ?")
_BREAKS = re.compile(r"\n{3,}")


def extract_html(html: str) -> str:
    """Return the text of an HTML page: paragraphs apart by a blank line, rows of a table by a line break.

    Nothing is fetched or run, and no entity is expanded but those of HTML. Markup that is not well-formed is read as a
    browser would.

    Raises:
        ValueError: elements are nested too deep, so that the rest would be lost.
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
    return "" if root is None else _tidy("".join(_list_pieces(root, etree)))


def _list_pieces(root: Any, etree: Any) -> list[str]:
    """Return the pieces of text below an element; walked without recursion, since nesting is the page's choice."""
    pieces: list[str] = []
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        tag = element.tag if isinstance(element.tag, str) else ""
        if event == "start" and tag in LEFT_OUT:
            walk.skip_subtree()
        elif event == "start":
            text = element.text or ""
            pieces += [
                "\n" if tag == "br" else BREAKS.get(tag, ""),
                "" if tag == "a" and text.strip() == BACK_LINK else _flatten(text),
            ]
        else:
            pieces += [BREAKS.get(tag, ""), _flatten(element.tail or "")]
    return pieces


def _flatten(text: str) -> str:
    return text.replace("\n", " ")


def _tidy(text: str) -> str:
    text = _AROUND_BREAK.sub("\n", _SPACES.sub(" ", text))
    return _BREAKS.sub("\n\n", text).strip()
