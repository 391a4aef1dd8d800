"""Find the quotations and the lists of references of a target, which the score of an alignment does not count.

Words that an author marks as another's are not hidden reuse. Quotation marks around a whole text are no excuse,
however: a long quotation counts, and all quotations of a text count if they make up too much of it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.sentences import find_section_name, strip_marks

Integers = npt.NDArray[np.int64]
Span = tuple[int, int]
Kind = Literal["quotation", "references"]

MIN_SHARE_INSIDE = 0.5
"""A passage or sentence with at least this share of its characters in quotations is one; likewise in lists."""
MAX_QUOTATION_WORDS = 100
"""A longer quotation counts."""
MAX_SHARES: dict[Kind, float] = {"quotation": 1 / 3, "references": 1 / 2}
"""Largest share of a text's words in its quotations (lists) that is excluded; above it, all of them count."""

_MARKS = {"“": "”", "„": "“”", "«": "»", "‹": "›", "‚": "‘’", "「": "」", "『": "』"}
_EITHER_SIDE = {'"': '"', "”": "”“", "»": "»«", "›": "›‹", "‟": "”", "＂": "＂", "″": "″", "〝": "〞〟"}
"""Marks that also close a quotation: they open one at the beginning of a word only."""
_BEFORE = r"(?<![^\s\ufeff\u200b(\[{<—–/:*_-])"
_AFTER = r"(?!(?![\d¹²³⁰⁴-⁹]{1,3}(?!\w))\w)"
"""No letter, but perhaps the number of a footnote."""
_ELISION = r"(?i:(?:em|cause|cuz|cos|coz|til|till|tis|twas|bout|round|n|nuff)\b|\d)"
"""What an apostrophe also begins, as in 'em, 'cause and the '90s."""
_QUOTATION = re.compile(
    "|".join(
        [
            rf"{first}(?:[^{first}{last}]|{first}[^{first}{last}]*[{last}])+[{last}]"  # one within the other
            for first, last in _MARKS.items()
        ]
        + [rf"{_BEFORE}{first}(?=\S)[^{first}{last}]+[{last}]{_AFTER}" for first, last in _EITHER_SIDE.items()]
        # a keyboard has one of both marks only
        + [rf"{first}[^{first}\"]+\"{_AFTER}" for first in "“„"]
        + [rf"{_BEFORE}\"(?=\S)[^\"“”]+”"]
        # as in LaTeX; or typed for other marks
        + [r"``[^`]+?(?:''|\")", r"(?<![`\w])`(?![`\s])[^`]+?['´](?!\w)", r"´´[^´]+´´"]
        + [rf"{_BEFORE},,(?=[^\s,])(?:(?!,,)[^\"“”])+?(?:''|[\"“”])", r"<<(?=\s?[^\s<])[^<>]+>>"]
        # a single mark is an apostrophe, too, before a letter, or after the s of a plural
        + [r"‘[^‘’]+(?:(?:’(?=\w)|(?<=s)’(?= [a-z]))[^‘’]+)*’(?!\w)"]
        # a straight one also of a year or before a name: five words are a quotation
        + [
            rf"{_BEFORE}{mark}(?!{_ELISION})(?=(?:(?:[^\s']|'(?=\w))+\s+){{4}})[^']+(?:(?<=\w)'(?=\w)[^']+)*(?<=[\w.,;:!?…)]){mark}(?![\w'])"
            for mark in ("''", "'")
        ]
    )
)
_OPENER = re.compile(rf"[{''.join(_MARKS)}]|{_BEFORE}[{''.join(_EITHER_SIDE)}](?=\S)")
_PARAGRAPH_END = re.compile(r"\n(?=[ \t\r]*\n)|\Z")
MAX_PAGE_NUMBER = 12
"""Characters of a paragraph that is the number of a page."""
_BLOCK_QUOTATION = re.compile(
    r"^[ \t\ufeff]*(?:[-*+] )?>.*(?:\n[ \t]*>.*)*"
    r"|<blockquote\b[^<>]*>(?:(?!<blockquote)[\s\S])*?</blockquote>"
    r"|\\begin\{(quot\w+|displayquote)\}(?:(?!\\begin\{)[\s\S])*?\\end\{\1\}"
    r"|(?<=:\n\n)(?:([*_]{1,2})(?=\S)[^*_]+\2[ \t]*$|(?:(?: {2,}|\t)[^\W\d_].*(?:\n|\Z))+(?=\s|\Z))",
    re.MULTILINE,
)
_INDENTED = re.compile(r"(?<=\n\n)(?=[^\w\n]*[^\W\d_a-z])(?:(?: {4}|\t)[ \t]*\S.*(?:\n|\Z)){2,}(?=[ \t\r]*(?:\n|\Z))")
"""A paragraph that begins with a capital letter: program code rarely does."""

_LIST_NAME = re.compile(
    r"""(?:[\w-]+\ ){0,3}?(?:
    references?|referen\w{2,5}|referências|références|riferimenti|\w*bibliogra\w+|sito?gra\w+|webogra\w+|sources|resources
    |web\ ?sites?|works\ (?:cited|consulted)|further\ reading|(?:end|foot)?notes|citations|literatur\w*
    |litterat?ur\w*|literatuur\w*|\w*quellen\w*|bronnen\w*|fuentes|källor|källför\w+|kilde\w*|lähteet|lähdeluettelo
    |irodalom\w*|zdroje|źródła|piśmiennictwo|kaynak\w*|литература|литературы|источники|джерела|المراجع|מקורות
    |[\w・]*(?:参考文献|參考文獻|引用文献)|참고\ ?문헌
    )(?:\ \w+){0,3}""",
    re.VERBOSE,
)
"""A heading, in lower case; that of a review of literature may be one, too, since only entries make a list."""
_HEADING_NUMBER = re.compile(r"[\divx]{1,4}[.)]?\s+")
_LINE = re.compile(r"^[^\S\n]*\S[^\n]*", re.MULTILINE)
_FOUR_DIGITS, _LINK = r"(?:1[5-9]|20)\d\d", r"\bdoi\b|https?://|www\."
_YEAR = re.compile(rf"\b{_FOUR_DIGITS}[a-z]?\b|{_LINK}")
_LABEL = r"\s*(?:[-*•+]\s|\[[^\]\n]{1,12}\]|\(?\d{1,3}[.)])"
_SURNAME_FIRST = r"[^\W\d_a-z][\w'’-]*(?: [^\W\d_][\w'’-]*){0,2}(?:, [^\W\d_a-z]| [^\W\d_a-z]{1,2}[.,])"
_CAPITALS_FIRST = r"[^\W\d_a-z]{3,}(?:[ -][^\W\d_a-z]{2,})*,? [^\W\d_a-z][a-z.]"
_INITIALS_FIRST = r"[^\W\d_a-z]\.(?:[ -]?[^\W\d_a-z]\.){0,2} ?[^\W\d_a-z]"
_BY_AUTHOR = re.compile(rf"(?:{_LABEL})?\s*(?:{_SURNAME_FIRST}|{_CAPITALS_FIRST}|{_INITIALS_FIRST})")
_BY_LABEL = re.compile(rf"{_LABEL}|[^(\n]{{1,100}}\({_FOUR_DIGITS}")
_CLEAR_ENTRY = re.compile(rf"{_LABEL}|{_BY_AUTHOR.pattern}|.*(?:{_LINK})")
MAX_ENTRY_LENGTH = 400
"""Characters of an entry on one line."""
MAX_WRAPPED_LENGTH = 100
"""Characters of a line that can be one of several lines of an entry."""
MIN_ENTRIES = 3
"""Consecutive entries that make a list without a heading."""
MAX_CONTINUATION = 200
"""Characters of the lines of an entry after the one with its year."""


class Part(NamedTuple):
    """The quotations or the lists of references of a text."""

    kind: Kind
    spans: Integers
    """Start and exclusive end of each in characters, in order and without overlap, ``[n, 2]``."""
    excluded: Integers
    """Those that do not count, ``[m, 2]``."""


def find_parts(text: str, words: Integers) -> tuple[Part, ...]:
    """Return the quotations and the lists of references of a text; time is linear in its length.

    Args:
        text: the text.
        words: first character of each of its words, ``[w]``.
    """
    lists: list[tuple[int, int, Kind]] = [(*span, "references") for span in find_reference_lists(text)]
    quotations: list[tuple[int, int, Kind]] = [(*span, "quotation") for span in _list_quotations(text)]
    spans: dict[Kind, list[Span]] = {"quotation": [], "references": []}
    last = 0
    for begin, end, kind in sorted([*lists, *quotations], key=lambda part: (part[0], -part[1])):
        if begin >= last:
            spans[kind].append((begin, end))
            last = end
    return tuple(_exclude(kind, np.array(pairs, np.int64).reshape(-1, 2), words) for kind, pairs in spans.items())


def _exclude(kind: Kind, spans: Integers, words: Integers) -> Part:
    sizes = np.diff(np.searchsorted(words, spans), axis=1).ravel()
    if sizes.sum() > MAX_SHARES[kind] * len(words):
        return Part(kind, spans, spans[:0])
    return Part(kind, spans, spans[sizes <= MAX_QUOTATION_WORDS] if kind == "quotation" else spans)


def classify_passage(parts: Sequence[Part], begin: int, end: int) -> tuple[Kind | None, bool]:
    """Return the kind of part that contains most of a passage, and True if the passage counts."""
    passage, least = np.array([[begin, end]]), MIN_SHARE_INSIDE * max(1, end - begin)
    for kind, spans, excluded in parts:
        if _measure_overlaps(spans, passage)[0] >= least:
            return kind, bool(_measure_overlaps(excluded, passage)[0] < least)
    return None, True


def mark_counted(parts: Sequence[Part], places: Integers) -> npt.NDArray[np.bool_]:
    """Return True for the places of a text, ``[n, 2]``, that are not mostly in excluded parts, ``[n]``."""
    least = MIN_SHARE_INSIDE * np.diff(places, axis=1).ravel()
    overlaps = (_measure_overlaps(part.excluded, places) for part in parts)
    return np.asarray(np.logical_and.reduce([overlap < least for overlap in overlaps]), np.bool_)


def _measure_overlaps(spans: Integers, places: Integers) -> Integers:
    """Return the number of characters of each place that are in spans, which are in order and disjoint, ``[n]``."""
    lengths, ends = np.cumsum(spans[:, 1] - spans[:, 0]), spans[:, 1]
    lengths, ends = (np.concatenate([np.zeros(1, np.int64), values]) for values in (lengths, ends))
    number = np.searchsorted(spans[:, 0], places, "right")
    before = lengths[number] - np.maximum(0, ends[number] - places)
    return np.asarray(before[:, 1] - before[:, 0])


def _list_quotations(text: str) -> Iterator[Span]:
    """Yield block quotations, and quotations whose marks open and close in one paragraph, or on two pages."""
    yield from (match.span() for match in _BLOCK_QUOTATION.finditer(text))
    indented = [match.span() for match in _INDENTED.finditer(text)]
    if sum(end - begin for begin, end in indented) <= MAX_SHARES["quotation"] * len(text):
        yield from indented
    ends = [match.end() for match in _PARAGRAPH_END.finditer(text)]
    begin = 0
    for number, end in enumerate(ends):
        for match in _QUOTATION.finditer(text, begin, end):
            yield match.span()
            begin = match.end()
        if (opener := _OPENER.search(text, begin, end)) is not None:
            following = text[end : ends[number + 1]].strip() if number + 1 < len(ends) else ""
            last = min(number + (2 if len(following) <= MAX_PAGE_NUMBER else 1), len(ends) - 1)
            if opener[0] in _MARKS and following.startswith(opener[0]):
                yield opener.start(), end  # each paragraph of the quotation opens anew
            elif (over_pages := _QUOTATION.match(text, opener.start(), ends[last])) is not None:
                yield over_pages.span()
                begin = over_pages.end()
        begin = max(begin, end)


def find_reference_lists(text: str) -> list[Span]:
    """Return the lists of references: entries below a heading, or at least `MIN_ENTRIES` in a row.

    An entry begins with an author, a label or a year in brackets, and has a year or a link; more lines without one may
    follow. Below a heading a short line needs a year only; but one of them has to begin with an author or a label, or
    has a link, which prose that cites does not.
    """
    lists: list[Span] = []
    begin = end = entries = between = clear = 0
    headed = is_open = False

    def close() -> None:
        if is_open and entries >= (1 if headed else MIN_ENTRIES) and clear:
            lists.append((begin, end))

    for match in _LINE.finditer(text):
        line = match[0]
        opens = _is_heading(line)
        ends = not opens and (line.startswith("#") or bool(find_section_name(line)))
        is_entry = (
            not opens
            and not ends
            and _is_entry(line, text[match.end() : match.end() + MAX_WRAPPED_LENGTH], headed and is_open)
        )
        if opens or (is_entry and not is_open):
            close()
            begin, end, entries, between = match.start(), match.end(), int(is_entry), 0
            clear = int(is_entry and bool(_CLEAR_ENTRY.match(line)))
            headed, is_open = opens, True
        elif is_open and is_entry:
            end, entries, between = match.end(), entries + 1, 0
            clear += bool(_CLEAR_ENTRY.match(line))
        elif (
            is_open
            and not ends
            and len(line) <= MAX_WRAPPED_LENGTH
            and between + len(line) <= MAX_CONTINUATION
            and (headed or text.count("\n", end, match.start()) == 1)
        ):
            end, between = match.end(), between + len(line)
        else:
            close()
            is_open = False
    close()
    return lists


def _is_heading(line: str) -> bool:
    """Return True for a line that names a list, perhaps with a number or the name of a chapter before it."""
    if len(line) > MAX_WRAPPED_LENGTH:
        return False
    name = _HEADING_NUMBER.sub("", strip_marks(line).casefold(), count=1).rstrip(".: *_").rpartition(": ")[2]
    letters = name.split()
    name = "".join(letters) if len(letters) > 3 and max(map(len, letters)) == 1 else " ".join(letters)
    return _LIST_NAME.fullmatch(name) is not None


def _is_entry(line: str, following: str, below_heading: bool) -> bool:
    """Return True for a line that begins an entry; its year may be on the next line."""
    if len(line) > MAX_ENTRY_LENGTH:
        return False
    if below_heading and _YEAR.search(line):
        return len(line) <= MAX_WRAPPED_LENGTH or bool(_BY_LABEL.match(line) or _BY_AUTHOR.match(line))
    rest = following.partition("\n\n")[0] if len(line) <= MAX_WRAPPED_LENGTH else ""
    return bool(_BY_AUTHOR.match(line)) and bool(_YEAR.search(line + rest))
