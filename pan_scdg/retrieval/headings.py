"""Lines that are headings: Markdown ones, and the bare ones of the PAN corpus (``default_text`` has no Markdown)."""

import re

MARKDOWN = re.compile(r"[ \t]{0,3}#{1,6}(?=\s|$)")
RULE = re.compile(r"[ \t]*([-*_=])(?:[ \t]*\1){2,}[ \t]*$")
_NUMBER = re.compile(r"(?:\d{1,2}|[IVX]{1,4})(?:\.\d{1,2})*[.)]?\s+")
_MARKS = " \t#*_>"

_SECTION_NAMES = """
abstract|acknowledgement|acknowledgements|acknowledgment|acknowledgments|appendix|background|conclusion|conclusions|
contents|data|discussion|evaluation|experiment|experiments|index terms|introduction|keywords|key words|limitations|
method|methodology|methods|motivation|overview|preliminaries|references|related work|results|summary
"""
SECTION_NAMES = frozenset(_SECTION_NAMES.replace("\n", "").split("|"))

MOST_CHARACTERS = 80
"""A longer line is not taken for a bare heading."""
PARAGRAPH_LINE = 100
"""A line of this many characters holds a whole paragraph: hard-wrapped text has shorter ones."""


def unmarked(line: str) -> str:
    """The line without the marks of Markdown headings and bold or italic type at its ends."""
    return line.strip().strip(_MARKS)


def section_name(line: str) -> str:
    """The usual name of a section, in lower case, if the line holds nothing else (``**1. Introduction**``), or ""."""
    if len(line) > MOST_CHARACTERS:
        return ""
    name = _NUMBER.sub("", unmarked(line), count=1).strip(_MARKS).rstrip(".:" + _MARKS).casefold()
    return name if name in SECTION_NAMES else ""


def is_bare_heading(line: str, following: str) -> bool:
    """Whether a line that opens a paragraph is a heading without Markdown marks.

    It is when it is the usual name of a section, or when it is short, ends like no sentence and the next line is a
    whole paragraph (``Enhanced Reheating`` above a line of 900 characters). Other short lines are hard-wrapped prose.
    """
    if section_name(line):
        return True
    words = line.strip()
    short = 0 < len(words) <= MOST_CHARACTERS and words[-1] not in ".,;:!?" and not words[0].islower()
    return short and len(following) >= PARAGRAPH_LINE
