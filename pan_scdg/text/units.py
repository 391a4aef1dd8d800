"""Split a text into words and into units, the sentences that are aligned.

Words are normalised for matching only: case, compatibility forms, letters of other alphabets that look Latin, soft
hyphens and hyphenation at line ends. Offsets are those of the text, or of what is left of it without headings: see
`PreparedText`.
"""

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import regex

from pan_scdg.normal_form import normalize
from pan_scdg.records import PartKind, Span
from pan_scdg.text.code import find_code
from pan_scdg.text.headings import find_headings, find_numbered
from pan_scdg.text.parts import Part, find_parts, is_program, mark_counted
from pan_scdg.text.quotations import blank_out
from pan_scdg.text.sentences import find_sentence_spans
from pan_scdg.text.stemming import stem_word

Integers = npt.NDArray[np.int64]

MIN_UNIT_WORDS = 3
"""A sentence with fewer words is joined to the next one."""
MAX_UNIT_WORDS, PART_WORDS = 60, 40
"""A sentence with more words, such as a transcript without full stops, is cut into parts of at most `PART_WORDS`."""

_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
"""Scripts without spaces between words."""
_CHARACTER = rf"[{_UNSPACED}]\p{{M}}*"
_LETTERS = rf"(?:[[\p{{Alphabetic}}\p{{N}}]--[{_UNSPACED}]]\p{{M}}*)+"
_NAMES = r"(?:b|i|u|s|em|strong|span|mark|font|su[bp])(?: [^<>]{0,200})?>"
_TAG = rf"</?{_NAMES}|<!--.{{0,200}}?-->"
_UNSEEN = rf"(?:\p{{DI}}+|\*{{1,3}}|{_TAG})"
"""What no reader sees between letters: default-ignorable characters, marks of bold and italic type."""
_HYPHEN = r"[-\u00ad\u2010\u2011\xac] ?(?:\r?\n|[\v\u2028])[ \t]*"
_WORD = regex.compile(rf"(?V1)(?!(?<=</?){_NAMES})(?:{_CHARACTER}|{_LETTERS}(?:(?:{_HYPHEN}|{_UNSEEN}){_LETTERS})*)")
"""Letters and digits with their combining marks; each character of scripts without spaces is a word."""
_UNSEEN_IN_WORD = regex.compile(rf"(?<=[\p{{L}}\p{{M}}]){_UNSEEN}(?=\p{{L}})|\p{{DI}}+")
_MARKS = regex.compile(r"\p{DI}+|(?<=[\p{Latin}\p{Greek}\p{Cyrillic}])\p{M}+")
"""What is left of letters that have no form with their marks, such as underlined ones and Russian ones with stress."""
_NOT_LETTERS = regex.compile(r"[^\p{Alphabetic}\p{N}\p{M}]+")
_LINES = regex.compile(r"(?:\s*\n)?")
"""The rest of a line and the blank lines after it."""
_BREAKS = regex.compile(r"[\v\f\x1c-\x1f\x85]")
"""White space that embedding models leave out, so that words would join."""
_LETTER_RUN = regex.compile(r"[\p{Alphabetic}\p{M}]+")
_LATIN = regex.compile(r"\p{Latin}")
_MIXED = regex.compile(
    r"\p{Latin}[\p{Greek}\p{Cyrillic}\p{Cherokee}\p{Armenian}]|[\p{Greek}\p{Cyrillic}\p{Cherokee}\p{Armenian}]\p{Latin}"
)
_VOWEL_POINTS = regex.compile(r"[\u0640\u0591-\u05c7\u064b-\u065f\u0670]+")
"""Of Hebrew and Arabic, which a writer may leave out, and the stroke that makes Arabic words longer."""
_BELOW = regex.compile(r"[\u0321-\u0333]")
"""Marks below a letter, by which an eta is an n."""
_SMALL_CAPITAL = regex.compile(r"LATIN LETTER SMALL CAPITAL ([A-Z])")


class _LatinLetters(dict[int, str]):
    """The Latin letter that each other letter looks like, by Unicode's list; any other character is kept."""

    def __missing__(self, code: int) -> str:
        letter = latin = chr(code)
        if code > 127 and letter.isalpha():
            from confusable_homoglyphs.confusables import confusables_data

            entries = (entry["c"] for entry in confusables_data.get(letter, ()))
            alike = [letter, *entries] if _LATIN.match(letter) else [_BELOW.sub("", entry) for entry in entries]
            latin = next((other for other in alike if len(other) == 1 and other.isascii() and other.isalpha()), letter)
            names = (unicodedata.name(other, "") for other in alike if len(other) == 1)
            if capital := next(filter(None, map(_SMALL_CAPITAL.fullmatch, names)), None):
                latin = capital[1].lower()
        self[code] = latin
        return latin


_LATIN_LETTERS = _LatinLetters({0x4CF: "l", 0x451: "e"})
"""The palochka is an i in Unicode's list, which the Ukrainian one is, too; the dots of a Russian e may be left out."""
MIN_MIXED_SHARE = 0.1
"""Places where two alphabets meet within a word, as a share of the letters, in text with look-alikes of Latin ones."""


class Words(NamedTuple):
    """The words of a text, in order."""

    forms: tuple[str, ...]
    """Normalised words."""
    words: Integers
    """Start and exclusive end of each word in characters, ``[w, 2]``."""


class PreparedText(NamedTuple):
    """The words and units of a text, in order; of a pair without headings and the like, see `headings`.

    All places are those of `text`, so that a heading between two sentences moves none of them apart.
    """

    text: str
    """The text without what is left out."""
    forms: tuple[str, ...]
    """Normalised words."""
    words: Integers
    """Start and exclusive end of each word in characters, ``[w, 2]``."""
    units: Integers
    """Start and exclusive end of each unit in words, ``[u, 2]``."""
    spans: Integers
    """Start and exclusive end of each unit in characters, ``[u, 2]``."""
    stems: tuple[str, ...]
    """Distinct stems, in order of first occurrence."""
    stem_places: Integers
    """The stem of each word, as an index into ``stems``, ``[w]``."""
    parts: tuple[Part, ...]
    """Quotations, lists of references, formal parts and listings."""
    counted: npt.NDArray[np.bool_]
    """True for the units that are not mostly in an excluded part, ``[u]``; see `parts`."""
    is_program: bool
    """The text is mostly program code, which is then a part; of other texts listings are left out as headings are."""
    omitted: Integers
    """Start and exclusive end of what is left out in characters of the whole text, ``[n, 2]``."""

    def restore(self, span: Span) -> Span:
        """Return a span in characters of the whole text."""
        sizes = np.diff(self.omitted, axis=1).ravel()
        places = self.omitted[:, 0] - np.cumsum(sizes) + sizes
        begin, last = (place + int(sizes[places <= place].sum()) for place in (span.begin, span.end - 1))
        return Span(begin, max(begin, last + 1))


def prepare_text(text: str, min_words: int = MIN_UNIT_WORDS, *, keep_headings: bool = False) -> PreparedText:
    """Split a text into words and units, without its headings and listings unless they are kept.

    A sentence of fewer than ``min_words`` words is joined to the next one, and at the end to the one before; one of
    more than `MAX_UNIT_WORDS` is cut into equal parts. White space around a unit does not belong to it. A text without
    words has no units.
    """
    forms, words = read_words(text)
    headings, parts = read_layout(text, words, keep_headings=keep_headings)
    (listings,) = (part.spans for part in parts if part.kind == "code")
    is_code = is_program(listings, words[_find_outside(headings, words), 0])
    omitted = headings if keep_headings or is_code else _merge([*headings.tolist(), *listings.tolist()])
    omitted = _with_blank_lines(text, omitted)
    parts = tuple(Part(kind, _move(spans, omitted), _move(excluded, omitted)) for kind, spans, excluded in parts)
    edges = [0, *omitted.ravel().tolist(), len(text)]
    text = "".join(text[begin:end] for begin, end in zip(edges[::2], edges[1::2]))
    forms, words = read_words(text) if len(omitted) else (forms, words)
    units: list[list[int]] = []
    spans: list[list[int]] = []
    is_short = False
    first = 0
    for start, end in find_sentence_spans(text):
        last = int(np.searchsorted(words[:, 0], end))
        if last == first:
            continue
        end = start + len(text[start:end].rstrip())
        start = end - len(text[start:end].lstrip())
        if is_short:
            first, start = units.pop()[0], spans.pop()[0]
        count = -(-(last - first) // PART_WORDS) if last - first > MAX_UNIT_WORDS else 1
        cuts = [first + (last - first) * part // count for part in range(count + 1)]
        units += [[begin, stop] for begin, stop in zip(cuts, cuts[1:])]
        inner = [(int(words[cut - 1, 1]), int(words[cut, 0])) for cut in cuts[1:-1]]
        spans += [[begin, stop] for begin, stop in zip([start, *(b for _, b in inner)], [*(a for a, _ in inner), end])]
        is_short = last - first < min_words
        first = last
    if is_short and len(units) > 1:
        units[-2][1], spans[-2][1] = units[-1][1], spans[-1][1]
        del units[-1], spans[-1]
    numbers: dict[str, int] = {}
    places = np.array([numbers.setdefault(stem_word(form), len(numbers)) for form in forms], np.int64)
    bounds, ends = (np.array(pairs, np.int64).reshape(-1, 2) for pairs in (units, spans))
    counted = mark_counted(parts, ends)
    return PreparedText(text, forms, words, bounds, ends, tuple(numbers), places, parts, counted, is_code, omitted)


def _find_outside(spans: Integers, words: Integers) -> npt.NDArray[np.bool_]:
    """Return True for the words, ``[w, 2]``, that do not begin in one of the spans, which are in order, ``[w]``."""
    return np.asarray(np.searchsorted(spans.ravel(), words[:, 0], "right") % 2 == 0, np.bool_)


def _with_blank_lines(text: str, spans: Integers) -> Integers:
    """Return spans of whole lines with the blank lines after them, where others remain before them, ``[n, 2]``."""
    wider: list[tuple[int, int]] = []
    last = 0
    for begin, end in spans.tolist():
        before, end = text[last:begin], max(last, end)
        if not (rest := before.rstrip()) or before.count("\n", len(rest)) > 1:
            end = _LINES.match(text, end).end()
        wider.append((max(last, begin), end))
        last = end
    return np.array(wider, np.int64).reshape(-1, 2)


def _move(places: Integers, omitted: Integers) -> Integers:
    """Return places of a text in characters of the text without the omitted spans, which are in order."""
    lengths = np.concatenate([[0], np.cumsum(omitted[:, 1] - omitted[:, 0])])
    number = np.searchsorted(omitted[:, 0], places, "right")
    return np.asarray(places - lengths[number] + np.maximum(0, np.concatenate([[0], omitted[:, 1]])[number] - places))


def _merge(spans: Sequence[tuple[int, int]]) -> Integers:
    """Return spans in order, joined where they overlap, ``[n, 2]``."""
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            begin, end = merged[-1][0], max(end, merged.pop()[1])
        merged.append((begin, end))
    return np.array(merged, np.int64).reshape(-1, 2)


def read_words(text: str) -> Words:
    """Return the words of a text."""
    matches = list(_WORD.finditer(text))
    spans = np.array([match.span() for match in matches], np.int64).reshape(-1, 2)
    return Words(tuple(normalise_word(match[0]) for match in matches), spans)


def find_excluded(text: str) -> list[tuple[int, int, PartKind]]:
    """Return begin, end and kind of the parts that do not count, such as quotations, in order."""
    _, parts = read_layout(text, read_words(text).words)
    return sorted((*span, part.kind) for part in parts for span in part.excluded.tolist())


def read_layout(text: str, words: Integers, *, keep_headings: bool = False) -> tuple[Integers, tuple[Part, ...]]:
    """Return the headings of a text, ``[n, 2]``, none if they are kept, and the parts of the rest."""
    numbered = [] if keep_headings else find_numbered(text, words[:, 0])
    plain = blank_out(text, numbered)
    others = words[_find_outside(_merge(numbered), words), 0]
    listings = np.array(find_code(plain, others), np.int64).reshape(-1, 2)
    headings = [] if keep_headings else find_headings(plain, others, listings)
    spans = _merge([*numbered, *headings])
    return spans, find_parts(text, plain, words[_find_outside(spans, words), 0], spans, listings)


def count_words(text: str) -> int:
    """Return the number of words that `prepare_text` finds."""
    return sum(1 for _ in _WORD.finditer(text))


@lru_cache(1 << 16)
def normalise_word(word: str) -> str:
    """Return the form of a word that is compared: see the module."""
    folded = normalize("NFKC", _NOT_LETTERS.sub("", _UNSEEN_IN_WORD.sub("", word))).casefold()
    return folded if folded.isascii() else _VOWEL_POINTS.sub("", _show_latin(folded).casefold())


def show_as_read(text: str) -> str:
    """Return a text as a reader sees it: without what is not seen, look-alikes in Latin text as Latin letters."""
    text = _BREAKS.sub(" ", text)
    if text.isascii() and "*" not in text and "<" not in text:
        return text
    text = _UNSEEN_IN_WORD.sub("", text)
    if text.isascii():
        return text
    text = _LETTER_RUN.sub(lambda run: _normalise(run[0]), text)
    letters, latin = sum(map(str.isalpha, text)), len(_LATIN.findall(text))
    is_latin = 2 * latin >= letters or len(_MIXED.findall(text)) > MIN_MIXED_SHARE * letters
    return _show_latin(text) if is_latin else text


@lru_cache(1 << 16)
def _normalise(letters: str) -> str:
    return letters if letters.isascii() else normalize("NFKC", letters)


def _show_latin(text: str) -> str:
    shown: str = _MARKS.sub("", text.translate(_LATIN_LETTERS))
    return shown
