"""Find the parts of a text whose words are those of everyone: title page, contents, declarations, acknowledgements."""

import re
from collections.abc import Container
from functools import cache
from itertools import chain, pairwise, product
from string import ascii_lowercase

from pan_scdg.records import Span
from pan_scdg.text.languages import compile_words, list_words
from pan_scdg.text.lines import (
    LINE,
    MAX_ENTRY_LENGTH,
    MAX_HEADING_LENGTH,
    MAX_ITEM_WORDS,
    MAX_WRAPPED_LENGTH,
    MIN_LINES,
)
from pan_scdg.text.quotations import PARAGRAPH_END
from pan_scdg.text.references import is_list_heading, is_named, name_heading
from pan_scdg.text.sentences import find_section_name, is_bare_heading

_CONTENTS_ENTRY = re.compile(r"(?:\A\s*\S|[^\s.…·_])(?P<gap>[\s.…·_]+)(?P<page>\d{1,3}|[ivxlIVXL]{1,6})\Z")
_LEADER = re.compile(r"(?:[.…·_]\s?){3}")
"""What leads to a number of a page; below a heading a space does."""
_SENTENCE = re.compile(r"(?:[^\W\d_A-Z]{4}[.!?…][\"'”’»)\]]*\s|[.!?…][\"'”’»)\]]*\Z)")
"""The end of a sentence; no abbreviation."""
_ITEM = re.compile(r"^[ \t]*[-*+•–▪◦][ \t]", re.MULTILINE)
_CHINESE_END = re.compile(r"[。！？]")
_COMMENT = re.compile(r"^[ \t]*\[([a-z]{1,2})\](?=[ \t]*\S)", re.MULTILINE)
_MARK = re.compile(r"\[[a-z]{1,2}\]")
_COMMENT_NAMES = f" {' '.join([*ascii_lowercase, *map(''.join, product(ascii_lowercase, repeat=2))])} "
"""Names of comments in Google Docs, in order."""


def find_contents(text: str) -> list[Span]:
    """Return the tables of contents: at least `MIN_LINES` lines that end with the number of a page, in order.

    Dots lead to the number, or a heading stands above the table. One line in between may be the first half of an entry.
    """
    found: list[Span] = []
    begin = end = entries = page = 0
    headed = is_wrapped = False

    for match in chain(LINE.finditer(text), [None]):
        line = match[0] if match is not None and len(match[0]) <= MAX_ENTRY_LENGTH else ""
        entry = _CONTENTS_ENTRY.search(line.rstrip())
        number = int(entry["page"]) if entry and entry["page"].isdecimal() else 0
        opens = bool(line) and compile_words("contents", "{}").fullmatch(name_heading(line)) is not None
        if match and entry and not opens and (headed or _LEADER.match(entry["gap"].lstrip())) and number >= page:
            begin = match.start() if not entries and not headed else begin
            end, entries, page, is_wrapped = match.end(), entries + 1, number, False
        elif line and not opens and entries and not is_wrapped:
            is_wrapped = True
        else:
            if entries >= MIN_LINES:
                found.append(Span(begin, end))
            begin, entries, page, headed, is_wrapped = match.start() if match else 0, 0, 0, opens, False
    return found


def find_comments(text: str) -> list[Span]:
    """Return the comments at the end of a text that was saved as plain text: [a], [b] and so on, as in the text."""
    begin, marks = len(text), list[str]()
    for match in reversed(list(_COMMENT.finditer(text))):
        name = match[1]
        if marks and _COMMENT_NAMES.find(f" {name} {marks[-1]} ") < 0:
            break
        begin = match.start()
        marks.append(name)
    is_whole = marks[-1:] == ["a"] and {f"[{name}]" for name in marks} <= set(_MARK.findall(text, 0, begin))
    return [Span(begin, len(text))] if is_whole else []


def find_title_page(text: str, headings: Container[int]) -> int:
    """Return the end of the title page: the paragraphs before the first one with a long line or a sentence.

    0: there is none, for a title alone is no page, and a list is no title. Nor is the heading of a short paragraph a
    line of one.

    Args:
        text: the text.
        headings: first characters of its headings.
    """
    begin = 0
    are_names: list[bool] = []
    for match in PARAGRAPH_END.finditer(text):
        lines = text[begin : match.end()].split("\n")
        paragraph = text[begin : match.end()].strip()
        is_prose = len(paragraph.split()) > MAX_ITEM_WORDS and _SENTENCE.search(paragraph)
        if is_prose or max(map(len, lines)) > MAX_WRAPPED_LENGTH or _CHINESE_END.search(paragraph):
            number = sum(not name or below for name, below in pairwise([*are_names, False]))
            return begin if number >= MIN_LINES and not _ITEM.search(text, 0, begin) else 0
        are_names += [line.start() in headings for line in LINE.finditer(text, begin, match.end())]
        begin = match.end()
    return 0


def find_declarations(text: str) -> list[Span]:
    """Return the declarations and acknowledgements, each with its heading and up to the next one."""
    found: list[Span] = []
    begin = end = 0
    is_open = False
    lines = list(LINE.finditer(text))
    for match, following in zip(lines, [*(line[0] for line in lines[1:]), ""]):
        line = match[0]
        opens = is_named(line, "declarations")
        if is_open and (opens or _ends_declaration(text, match, following)):
            found.append(Span(begin, end))
            is_open = False
        if opens:
            begin, is_open = match.start(), True
        end = match.end()
    if is_open:
        found.append(Span(begin, end))
    return [span for span in found if _compile_first_person().search(text, *span)]


@cache
def _compile_first_person() -> re.Pattern[str]:
    """Return the pattern of the words; in Chinese, Japanese and Korean other letters may stand next to them."""
    words = (word if word[0] >= "\u1100" else rf"\b(?:{word})\b" for word in list_words("first_person"))
    return re.compile("|".join(words), re.IGNORECASE)


def _ends_declaration(text: str, line: re.Match[str], following: str) -> bool:
    """Return True for a line that is the heading of another part, or looks like one."""
    words = line[0].strip()
    if words.startswith("#") or find_section_name(words) or is_list_heading(words):
        return True
    if not text.endswith("\n\n", 0, line.start()) or words[-1] in ".,;:!?":
        return False
    is_alone = len(words) <= MAX_HEADING_LENGTH and text.startswith("\n\n", line.end())
    return is_alone or is_bare_heading(words, following)
