"""Find the lists of references of a text, and single references."""

import re

from pan_scdg.records import Span
from pan_scdg.text.languages import Kind, compile_words
from pan_scdg.text.lines import LINE, MAX_ENTRY_LENGTH, MAX_WRAPPED_LENGTH, MIN_LINES
from pan_scdg.text.sentences import find_section_name, strip_marks

_LIST_NAME = r"(?:[\w-]+ ){0,3}?{}(?: \w+){0,3}"
"""A heading of a list, which may also be that of a review of literature, since only entries make a list."""
_HEADING_NUMBER = re.compile(r"[\divx]{1,4}[.)]?\s+")
_FOUR_DIGITS, _LINK = r"(?:1[5-9]|20)\d\d", r"\bdoi\b|https?://|www\."
_YEAR = re.compile(rf"\b{_FOUR_DIGITS}[a-z]?\b|{_LINK}")
_LABEL = r"\s*(?:[-*•+]\s|\[[^\]\n]{1,12}\]|\(?\d{1,3}[.)])"
_SURNAME_FIRST = r"[^\W\d_a-z][\w'’-]*(?: [^\W\d_][\w'’-]*){0,2}(?:, [^\W\d_a-z]| [^\W\d_a-z]{1,2}[.,]| et al\b)"
_CAPITALS_FIRST = r"[^\W\d_a-z]{3,}(?:[ -][^\W\d_a-z]{2,})*,? [^\W\d_a-z][a-z.]"
_INITIALS_FIRST = r"[^\W\d_a-z]\.(?:[ -]?[^\W\d_a-z]\.){0,2} ?[^\W\d_a-z]"
_BY_AUTHOR = re.compile(rf"(?:{_LABEL})?\s*(?:{_SURNAME_FIRST}|{_CAPITALS_FIRST}|{_INITIALS_FIRST})")
_BY_LABEL = re.compile(rf"{_LABEL}|[^(\n]{{1,100}}\({_FOUR_DIGITS}")
_BY_PARTIES = rf".*\bv\.? [^\W\d_a-z].*[\[(]{_FOUR_DIGITS}[\])]"
_CLEAR_ENTRY = re.compile(rf"{_LABEL}|{_BY_AUTHOR.pattern}|{_BY_PARTIES}|.*(?:{_LINK})")
_NAME = (
    r"(?:{0}[\w'’-]*(?: [^\W\d_][\w'’-]*){{0,2}},? {0}[\w'’-]*\.?|{0}\.(?:[ -]?{0}\.){{0,2}} ?{0}[\w'’-]+)"
    r"(?: {0}[\w'’-]*\.?){{0,2}}\s*(?:[.,;:(&]|(?<=\.)|(?:and|und|et|e|y|en|i|og|och)\b)"
).format(r"[^\W\d_a-z]")
_ORGANISATION = rf"(?:(?:[^\W\d_a-z][\w'’&.-]*|of|for|the|and|für|und|der|de|des|du|la|et|&) ){{1,9}}\({_FOUR_DIGITS}"
_SINGLE_ENTRY = re.compile(
    rf"(?:{_LABEL}|\d{{1,3}})?\s*(?:(?=[\s\S]*\b{_FOUR_DIGITS}[a-z]?\b){_NAME}|{_ORGANISATION})[\s\S]*"
    r"(?:https?://|www\.|\bdoi\b:?\s?|\bISBN[-\d: ]*\d)(?=(?P<link>\S*))(?P=link)[^\n]{0,40}\Z"
)
"""An entry that needs neither a heading nor others: it begins with its author and ends with its link or number."""
_NOTE = re.compile(
    rf"(?:{_LABEL}|\d{{1,3}}\s)?\s*(?:(?:[Ss]ee|[Cc]f\.?|[Vv]gl\.?|[Ss]iehe|[Vv]oir)(?: also| auch)? )?"
    r"(?:(?:[Ii]bid|[Ee]bd|[Ee]benda|[Oo]p\. [Cc]it|[Ll]oc\. [Cc]it|[Ii]d|[Ii]dem)\b|[^\W\d_a-z].{1,80}?,)"
    r".{0,9}?\s(?:pp?|S|s|str|стр|c)\. ?\d[\d\s,–-]*f{0,2}\.?\s*"
)
"""A footnote that is nothing but a source that was named before, and a page."""


def find_reference_lists(text: str) -> list[Span]:
    """Return the lists of references: entries below a heading, at least `MIN_LINES` in a row, or a clear one.

    An entry begins with an author, a label or a year in brackets, and has a year or a link; more lines without one may
    follow. Below a heading a short line needs a year only; but one of them has to begin with an author or a label, or
    has a link, which prose that cites does not.
    """
    lists: list[Span] = []
    begin = end = entries = between = clear = 0
    headed = is_open = has_single = False

    def close() -> None:
        if is_open and entries >= (1 if headed or has_single else MIN_LINES) and clear:
            lists.append(Span(begin, end))

    for match in LINE.finditer(text):
        line = match[0]
        opens = is_list_heading(line)
        ends = not opens and (line.startswith("#") or bool(find_section_name(line)))
        is_single = (
            not opens
            and not ends
            and _is_single_entry(line, text[match.start() : match.start() + MAX_ENTRY_LENGTH + 1])
        )
        is_note = len(line) <= MAX_WRAPPED_LENGTH and bool(_NOTE.fullmatch(line))
        is_entry = (
            not opens
            and not ends
            and (
                is_single
                or is_note
                or _is_entry(line, text[match.end() : match.end() + MAX_WRAPPED_LENGTH], headed and is_open)
            )
        )
        is_clear = is_entry and (is_note or is_single or bool(_CLEAR_ENTRY.match(line)))
        if opens or (is_entry and not is_open):
            close()
            begin, end, entries, between = match.start(), match.end(), int(is_entry), 0
            clear = int(is_clear)
            headed, is_open, has_single = opens, True, is_single
        elif is_open and is_entry:
            end, entries, between = match.end(), entries + 1, 0
            clear, has_single = clear + is_clear, has_single or is_single
        elif (
            is_open
            and not ends
            and len(line) <= MAX_WRAPPED_LENGTH
            and between + len(line) <= MAX_ENTRY_LENGTH
            and (headed or text.count("\n", end, match.start()) == 1)
        ):
            end, between = match.end(), between + len(line)
        else:
            close()
            is_open = False
    close()
    return lists


def name_heading(line: str) -> str:
    """Return the name that a heading gives, in lower case, without its number and the name of a chapter before it."""
    name = _HEADING_NUMBER.sub("", strip_marks(line).casefold(), count=1).rstrip(".: *_").rpartition(": ")[2]
    letters = name.split()
    return "".join(letters) if len(letters) > 3 and max(map(len, letters)) == 1 else " ".join(letters)


def is_list_heading(line: str) -> bool:
    """Return True for a line that names a list."""
    return is_named(line, "references", _LIST_NAME)


def is_named(line: str, kind: Kind, template: str = "{}") -> bool:
    """Return True for a short line whose name is one of a kind of part."""
    return len(line) <= MAX_WRAPPED_LENGTH and compile_words(kind, template).fullmatch(name_heading(line)) is not None


def _is_entry(line: str, following: str, below_heading: bool) -> bool:
    """Return True for a line that begins an entry; its year may be on the next line."""
    if len(line) > MAX_ENTRY_LENGTH:
        return False
    if below_heading and _YEAR.search(line):
        return len(line) <= MAX_WRAPPED_LENGTH or bool(_BY_LABEL.match(line) or _BY_AUTHOR.match(line))
    rest = following.partition("\n\n")[0] if len(line) <= MAX_WRAPPED_LENGTH else ""
    return bool(_BY_AUTHOR.match(line)) and bool(_YEAR.search(line + rest))


def _is_single_entry(line: str, following: str) -> bool:
    """Return True if a line, or the paragraph that it begins, is an entry that needs no heading.

    Args:
        line: the line.
        following: the text from the line on, at least `MAX_ENTRY_LENGTH` characters and one more if there are any.
    """
    parts = (line, following.partition("\n\n")[0])
    return any(len(part) <= MAX_ENTRY_LENGTH and _SINGLE_ENTRY.match(part.rstrip()) for part in parts)
