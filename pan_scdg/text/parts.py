"""Find the parts of a target that the score of an alignment does not count.

Words that an author marks as another's are not hidden reuse: quotations and lists of references. Nor are formal parts,
whose words are those of everyone: title pages, tables of contents, declarations of authorship, acknowledgements and
comments of a teacher; tables of numbers and program code are no prose. Of a text that is mostly code only copies count.
Quotation marks around a whole text are no excuse, however: a long quotation counts, and all quotations of a text count
if they make up too much of it; so does a long declaration.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.records import PartKind, Span
from pan_scdg.text.formal_parts import find_comments, find_contents, find_declarations, find_title_page
from pan_scdg.text.quotations import MAX_EXCLUDED_SHARE, list_quotations
from pan_scdg.text.references import find_reference_lists
from pan_scdg.text.tables import find_tables

Integers = npt.NDArray[np.int64]

MIN_SHARE_INSIDE = 0.5
"""A passage with at least this share of its characters in quotations is one; likewise in lists."""
QUOTING_SHARE = 1 / 3
"""A sentence with at least this share in such a part does not count: its other words introduce what is quoted, and so
resemble the source."""
MAX_QUOTATION_WORDS = 100
"""A longer quotation counts, and so do all declarations of a text but the shortest, if they are longer together."""
MAX_LISTED_SHARE = 1 / 2
"""Largest share of a text's words in its lists of references, its tables, and in listings if it is no program."""


class Part(NamedTuple):
    """The quotations, lists of references, formal parts, tables or listings of a text."""

    kind: PartKind
    spans: Integers
    """Start and exclusive end of each in characters, in order and without overlap, ``[n, 2]``."""
    excluded: Integers
    """Those that do not count, ``[m, 2]``."""


def find_parts(text: str, plain: str, words: Integers, headings: Integers, listings: Integers) -> tuple[Part, ...]:
    """Return the quotations, references, formal parts, tables and listings of a text; time is linear in its length.

    Args:
        text: the text.
        plain: the text with blanks for numbered headings, which are in no title page.
        words: first character of each of its words that is in no heading, ``[w]``.
        headings: start and exclusive end of its headings, in order, ``[n, 2]``.
        listings: start and exclusive end of its program code, ``[n, 2]``.
    """
    declarations = find_declarations(text)
    sizes = np.diff(np.searchsorted(words, np.array(declarations, np.int64).reshape(-1, 2)), axis=1).ravel()
    shortest = np.argsort(sizes, kind="stable")
    shortest = shortest[np.cumsum(sizes[shortest]) <= MAX_QUOTATION_WORDS]
    formal = [*find_contents(text), *find_comments(text), *(declarations[number] for number in shortest)]
    references = find_reference_lists(text)
    code = [Span(begin, end) for begin, end in listings.tolist()]
    page = find_title_page(plain, set(headings[:, 0].tolist()))
    page = min([page, *(begin for begin, _ in [*formal, *references, *code])])
    if page and np.searchsorted(words, page) <= MAX_QUOTATION_WORDS:
        formal.append(Span(0, page))
    found: dict[PartKind, Iterable[Span]] = {
        "quotation": list_quotations(text, [Span(begin, end) for begin, end in headings.tolist()]),
        "references": references,
        "formal": formal,
        "code": code,
        "table": find_tables(text),
    }
    spans: dict[PartKind, list[Span]] = {kind: [] for kind in found}
    parts = [(*span, kind) for kind, pairs in found.items() for span in pairs]
    last = 0
    for begin, end, kind in sorted(parts, key=lambda part: (part[0], -part[1])):
        if begin >= last:
            spans[kind].append(Span(begin, end))
            last = end
    return tuple(_exclude(kind, np.array(pairs, np.int64).reshape(-1, 2), words) for kind, pairs in spans.items())


def _exclude(kind: PartKind, spans: Integers, words: Integers) -> Part:
    sizes = np.diff(np.searchsorted(words, spans), axis=1).ravel()
    largest = MAX_EXCLUDED_SHARE if kind in ("quotation", "formal") else MAX_LISTED_SHARE
    if kind != "code" and sizes.sum() > largest * len(words):
        return Part(kind, spans, spans[:0])
    return Part(kind, spans, spans[sizes <= MAX_QUOTATION_WORDS] if kind == "quotation" else spans)


def is_program(listings: Integers, words: Integers) -> bool:
    """Return True if more than `MAX_LISTED_SHARE` of the words of a text, ``[w]``, are in its listings, ``[n, 2]``."""
    return bool(np.diff(np.searchsorted(words, listings), axis=1).sum() > MAX_LISTED_SHARE * len(words))


def classify_passage(parts: Sequence[Part], begin: int, end: int) -> tuple[PartKind | None, bool]:
    """Return the kind of part that contains most of a passage, and True if the passage counts."""
    passage, least = np.array([[begin, end]]), MIN_SHARE_INSIDE * max(1, end - begin)
    for kind, spans, excluded in parts:
        if measure_overlaps(spans, passage)[0] >= least:
            return kind, bool(measure_overlaps(excluded, passage)[0] < least)
    return None, True


def mark_counted(parts: Sequence[Part], places: Integers) -> npt.NDArray[np.bool_]:
    """Return True for the sentences, ``[n]``, that count; less than `QUOTING_SHARE` of each is excluded.

    Args:
        parts: of the text.
        places: of the sentences in characters, ``[n, 2]``.
    """
    least = QUOTING_SHARE * np.diff(places, axis=1).ravel()
    overlaps = (measure_overlaps(part.excluded, places) for part in parts)
    return np.asarray(np.logical_and.reduce([overlap < least for overlap in overlaps]), np.bool_)


def measure_overlaps(spans: Integers, places: Integers) -> Integers:
    """Return the number of characters of each place that are in spans, which are in order and disjoint, ``[n]``."""
    lengths, ends = np.cumsum(spans[:, 1] - spans[:, 0]), spans[:, 1]
    lengths, ends = (np.concatenate([np.zeros(1, np.int64), values]) for values in (lengths, ends))
    number = np.searchsorted(spans[:, 0], places, "right")
    before = lengths[number] - np.maximum(0, ends[number] - places)
    return np.asarray(before[:, 1] - before[:, 0])
