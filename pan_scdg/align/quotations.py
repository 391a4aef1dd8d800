"""Find the quotations and the lists of references of a text, which a verdict by alignment does not count.

Words that an author marks as another's are no hidden reuse. But quotation marks around a whole text are no excuse, so
the exclusion is bounded: a long quotation counts, and all of them do in a text that has too many. One pair of texts is
not enough to recognise a shared notice.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.retrieval.sentences import find_section_name, strip_marks

Integers = npt.NDArray[np.int64]
Span = tuple[int, int]
Kind = Literal["quotation", "references"]

RULES = 1
"""Version of these rules, incremented when they exclude other parts; it is part of the store's keys."""
MOSTLY = 0.5
"""A passage or sentence with at least this share of its characters in quotations is one; likewise in lists."""
MOST_WORDS = 100
"""A longer quotation counts."""
LARGEST_SHARES: dict[Kind, float] = {"quotation": 1 / 3, "references": 1 / 2}
"""If more of the words of a text lie in quotations, all of them count; likewise in lists."""

_MARKS = {"“": "”", "„": "“”", "«": "»", "‹": "›", "‚": "‘’", "「": "」", "『": "』"}
_EITHER_SIDE = {'"': '"', "”": "”", "»": "»«", "›": "›‹"}
"""Marks that also close a quotation: they open one at the beginning of a word only."""
_QUOTATION = re.compile(
    "|".join(
        [rf"{first}[^{first}{last}]+[{last}]" for first, last in _MARKS.items()]
        + [rf"(?<![^\s(\[{{<—–/-]){first}(?=\S)[^{first}{last}]+[{last}](?!\w)" for first, last in _EITHER_SIDE.items()]
        # a single mark is an apostrophe, too, before a letter; straight ones cannot be distinguished from apostrophes
        + [r"‘[^‘’]+(?:’(?=\w)[^‘’]+)*’(?!\w)"]
    )
)
_PARAGRAPH_END = re.compile(r"\n(?=[ \t\r]*\n)|\Z")
_BLOCK = re.compile(r"^[ \t]*>.*(?:\n[ \t]*>.*)*", re.MULTILINE)

_LIST_NAMES = {
    *("references", "reference list", "list of references", "bibliography", "works cited", "literature"),
    *("literature cited", "sources", "literatur", "literaturverzeichnis", "quellen", "bibliographie", "références"),
    *("referencias", "bibliografía"),
}
_NUMBER = re.compile(r"[\divx]{1,4}[.)]?\s+")
_LINE = re.compile(r"[^\n]*\S[^\n]*")
_YEAR = re.compile(r"\b(?:1[5-9]|20)\d\d[a-z]?\b|\bdoi\b|https?://|www\.")
_LABEL = r"\s*(?:[-*•+]\s|\[[^\]\n]{1,12}\]|\(?\d{1,3}[.)])"
_SURNAME_FIRST = r"[^\W\d_a-z][\w'’-]*(?: [^\W\d_][\w'’-]*){0,2}, [^\W\d_a-z]"
_INITIALS_FIRST = r"[^\W\d_a-z]\.(?:[ -]?[^\W\d_a-z]\.){0,2} ?[^\W\d_a-z]"
_BY_AUTHOR = re.compile(rf"(?:{_LABEL})?\s*(?:{_SURNAME_FIRST}|{_INITIALS_FIRST})")
_BY_LABEL = re.compile(rf"{_LABEL}|[^(\n]{{1,100}}\((?:1[5-9]|20)\d\d")
LONGEST_ENTRY = 400
WRAPPED = 100
"""Characters of a line that can be a part of an entry."""
LEAST_ENTRIES = 3
"""Consecutive entries that are a list without a heading."""
MOST_BETWEEN = 2
"""Lines of one entry after the one with its year."""


class Part(NamedTuple):
    """The quotations or the lists of references of a text."""

    kind: Kind
    spans: Integers
    """Start and exclusive end of each in characters, in order and without overlap, ``[n, 2]``."""
    left_out: Integers
    """Those that do not count, ``[m, 2]``."""


def find_parts(text: str, words: Integers) -> tuple[Part, ...]:
    """Return the quotations and the lists of references of a text; time is linear in its length.

    Args:
        text: the text.
        words: first character of each of its words, ``[w]``.
    """
    lists: list[tuple[int, int, Kind]] = [(*span, "references") for span in find_reference_lists(text)]
    quotations: list[tuple[int, int, Kind]] = [(*span, "quotation") for span in _list_quotations(text)]
    places: dict[Kind, list[Span]] = {"quotation": [], "references": []}
    last = 0
    for begin, end, kind in sorted([*lists, *quotations], key=lambda place: (place[0], -place[1])):
        if begin >= last:
            places[kind].append((begin, end))
            last = end
    return tuple(_bound(kind, found, words) for kind, found in places.items())


def _bound(kind: Kind, found: Sequence[Span], words: Integers) -> Part:
    spans = np.array(found, np.int64).reshape(-1, 2)
    sizes = np.diff(np.searchsorted(words, spans), axis=1).ravel()
    kept = sizes <= (MOST_WORDS if kind == "quotation" else len(words))
    if sizes.sum() > LARGEST_SHARES[kind] * len(words):
        kept[:] = False
    return Part(kind, spans, spans[kept])


def classify_passage(parts: Sequence[Part], begin: int, end: int) -> tuple[Kind | None, bool]:
    """Return the kind of part that contains most of a passage, and True if the passage counts."""
    place, least = np.array([[begin, end]]), MOSTLY * max(1, end - begin)
    for kind, spans, left_out in parts:
        if _measure_overlaps(spans, place)[0] >= least:
            return kind, bool(_measure_overlaps(left_out, place)[0] < least)
    return None, True


def find_counted(parts: Sequence[Part], places: Integers) -> npt.NDArray[np.bool_]:
    """Return True for the places of a text, ``[n, 2]``, that lie mostly outside of the excluded parts, ``[n]``."""
    least = MOSTLY * np.diff(places, axis=1).ravel()
    overlaps = (_measure_overlaps(part.left_out, places) for part in parts)
    return np.asarray(np.logical_and.reduce([overlap < least for overlap in overlaps]), np.bool_)


def _measure_overlaps(spans: Integers, places: Integers) -> Integers:
    """Return the number of characters of each place that lie in spans, which are in order and disjoint, ``[n]``."""
    lengths, ends = np.cumsum(spans[:, 1] - spans[:, 0]), spans[:, 1]
    lengths, ends = (np.concatenate([np.zeros(1, np.int64), values]) for values in (lengths, ends))
    number = np.searchsorted(spans[:, 0], places, "right")
    before = lengths[number] - np.maximum(0, ends[number] - places)
    return np.asarray(before[:, 1] - before[:, 0])


def _list_quotations(text: str) -> Iterator[Span]:
    """Yield block quotations, and what stands in quotation marks that are opened and closed in one paragraph."""
    inside = chain.from_iterable(_QUOTATION.finditer(text, *paragraph) for paragraph in _list_paragraphs(text))
    yield from (match.span() for match in chain(_BLOCK.finditer(text), inside))


def _list_paragraphs(text: str) -> Iterator[Span]:
    begin = 0
    for match in _PARAGRAPH_END.finditer(text):
        yield begin, match.end()
        begin = match.end()


def find_reference_lists(text: str) -> list[Span]:
    """Return the lists of references: entries below a heading, or three or more one below the other.

    An entry has an author, a label or a year in brackets in front, and a year or a link. Below a heading a short line
    needs a year only, and an entry can have two more lines without one.
    """
    found: list[Span] = []
    begin = end = entries = between = 0
    headed = is_open = False

    def close() -> None:
        if is_open and entries >= (1 if headed else LEAST_ENTRIES):
            found.append((begin, end))

    for match in _LINE.finditer(text):
        line = match[0]
        opens = len(line) <= WRAPPED and _name_heading(line) in _LIST_NAMES
        ends = not opens and (line.startswith("#") or bool(find_section_name(line)))
        is_entry = not opens and not ends and _is_entry(line, headed and is_open)
        if opens or (is_entry and not is_open):
            close()
            begin, end, entries, between = match.start(), match.end(), int(is_entry), 0
            headed, is_open = opens, True
        elif is_open and is_entry:
            end, entries, between = match.end(), entries + 1, 0
        elif is_open and headed and not ends and len(line) <= WRAPPED and between < MOST_BETWEEN:
            end, between = match.end(), between + 1
        else:
            close()
            is_open = False
    close()
    return found


def _name_heading(line: str) -> str:
    return _NUMBER.sub("", strip_marks(line).casefold(), count=1).rstrip(".: *_")


def _is_entry(line: str, below_heading: bool) -> bool:
    if len(line) > LONGEST_ENTRY or not _YEAR.search(line):
        return False
    if below_heading:
        return len(line) <= WRAPPED or bool(_BY_LABEL.match(line) or _BY_AUTHOR.match(line))
    return bool(_BY_AUTHOR.match(line))
