"""Sentences and headings of papers in English, in plain text, Markdown or LaTeX.

Own rules and no library: on 386 hand-written sentences of papers they reach F1 .92 of the boundaries, as nupunkt does
(.90 to .93, Python 3.11 and later); blingfire, syntok, sentencex and pysbd reach .84 to .86, and syntok and pysbd take
quadratic time in hostile text.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from pan_scdg.text.lines import MAX_HEADING_LENGTH, MAX_WRAPPED_LENGTH

# No-break spaces belong to the words: they are written where a line, all the more a sentence, must not end, such as
# after abbreviations. After the full stop of a word of four letters they are what a program made of two spaces.
_TOKEN = re.compile(r"(?:\S|(?<![^\W\d_]{4}[.!?])[\xa0\u2007\u202f])+")
_BULLET = re.compile(r"[-*+•] ")
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

_TERMINATORS = ".!?…。！？．।"
_CLOSERS = "\"'”’»“‘«›‹)]}*_`$"
_OPENERS = "\"'“‘„‚«»‹›([{*_`$"
_FULL_WIDTH_END = re.compile(r"(?<=[^\W_])[。！？]+[」』）”’\"']*(?=\S)")
"""End of a sentence in Chinese or Japanese, which no white space follows."""
_CITATION = re.compile(
    r"(?:(?:\[\^?[\w, –-]{1,12}\])+|\(\d{1,3}\)|[*†‡§]{1,3}|[⁰¹²³⁴-⁹]{1,3}"
    r"|(?<=[^\W\d_]{3}[.!?])\d{1,3}(?:[,–-]\d{1,3})*|(?<=[.!?][\"”’»“‘«)])\d{1,3}(?:[,–-]\d{1,3})*)$"
)
"""A reference or the number of a footnote after a sentence."""
_INITIALS = re.compile(r"[^\W\d_](?:\.-?[^\W\d_])+$")
_ENUMERATOR = re.compile(r"(?:\d{1,3}(?:\.\d{1,3})*|[^\W\d_]|[ivxIVX]{1,5})\.$")

# A word of four letters may end a sentence even when the next begins in lower case ("... was used. mRNA was ...").
_WORD = re.compile(r"[^\W\d_]{4}$")

_TITLES = "capt cmdr col dr gen gov hon lt maj messrs mlle mme mr mrs prof rev sen sgt st"
_REFERENCES = "al cf ch chap ed eds eq eqn eqns eqs fig figs ibid incl op pp ref refs sect thm viz vol vols vs"
_OTHERS = "approx assoc ca dept mt prop pt resp stat supp syst tab univ"
NEVER_LAST = frozenset(f"{_TITLES} {_REFERENCES} {_OTHERS}".split())
"""Abbreviations that stand before something, without their full stop."""
_SOMETIMES = "a.m bros co corp dec etc feb inc jan jr ltd nov oct p.m ph.d sept sr"
SOMETIMES_LAST = frozenset(_SOMETIMES.split())
"""Abbreviations that end a sentence when a capital letter follows."""
_NUMBERED = "alg algs app ass assum cor def defs ex exp exs lem max min no nos nr p par rem sec secs suppl v ver"
BEFORE_NUMBER = frozenset(_NUMBERED.split())
"""Words that are abbreviations only when a number follows."""


class Gap(NamedTuple):
    """White space between two tokens, and where it stands (positions in the text)."""

    line_start: int
    opens_paragraph: bool
    """The line of the token before it is the first of its paragraph."""
    token_start: int
    start: int
    end: int
    newlines: int
    worded: bool
    """The token before it holds a letter or a digit."""


def split_sentences(text: str) -> list[str]:
    """Return the sentences of ``text`` in order, without surrounding white space; nothing but white space is lost."""
    return [sentence for start, end in find_sentence_spans(text) if (sentence := text[start:end].strip())]


def find_sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return the character spans of the sentences: contiguous, in order, together the whole text.

    White space between two sentences belongs to the later one, so that tokenizers which join a space with the word
    after it see the same words in every piece. A paragraph break, a heading (Markdown, or a bare line above a
    paragraph) and a bullet also end what stands before them. A piece without any letter or digit (a rule, a row
    of dots) is not a sentence of its own but joins the next one, or the last one at the end of the text. Without
    white space only a Chinese or Japanese full stop is a boundary. Time is linear in the length, whatever the text.
    """
    spans: list[tuple[int, int]] = []
    start, worded = 0, False
    for gap in _find_gaps(text):
        worded = worded or gap.worded
        if worded and _is_boundary(text, gap):
            spans.append((start, gap.start))
            start, worded = gap.start, False
    if start < len(text):
        if spans and not worded and not any(map(str.isalnum, text[start:])):
            start, _ = spans.pop()
        spans.append((start, len(text)))
    return [part for span in spans for part in _cut_at_full_width_ends(text, *span)]


def _cut_at_full_width_ends(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a span that end with a Chinese or Japanese full stop; each has a letter or a digit."""
    cuts = [match.end() for match in _FULL_WIDTH_END.finditer(text, start, end)]
    if cuts and not any(map(str.isalnum, text[cuts[-1] : end])):
        cuts.pop()
    yield from pairwise([start, *cuts, end])


def _find_gaps(text: str) -> Iterator[Gap]:
    """Yield the white space between any two tokens, in order."""
    line_start, opens = 0, True
    for token, following in pairwise(_TOKEN.finditer(text)):
        newlines = text.count("\n", token.end(), following.start())
        worded = any(map(str.isalnum, token[0]))
        yield Gap(line_start, opens, token.start(), token.end(), following.start(), newlines, worded)
        if newlines:
            line_start, opens = text.rfind("\n", token.end(), following.start()) + 1, newlines > 1


def _is_boundary(text: str, gap: Gap) -> bool:
    """Return True if the gap lies between two sentences."""
    if gap.newlines > 1 or (gap.newlines == 1 and _separates_lines(text, gap)):
        return True
    if text[gap.start - 1].isalpha():
        return False  # the usual case, detected in a fifth of the time
    indent = text[gap.line_start : min(gap.token_start, gap.line_start + 8)]
    begins_line = gap.token_start - gap.line_start <= 8 and not indent.strip(" \t>*_#")
    word = text[max(gap.token_start, gap.start - 64) : gap.start]
    return ends_sentence(word, text[gap.end : gap.end + 8], begins_line)


def _separates_lines(text: str, gap: Gap) -> bool:
    """Return True if the two lines around a line break belong to different sentences whatever their words."""
    following = text[text.rfind("\n", gap.start, gap.end) + 1 : gap.end + 100].partition("\n")[0]
    if MARKDOWN.match(following) or _BULLET.match(following.lstrip()) or MARKDOWN.match(text, gap.line_start):
        return True
    short = gap.start - gap.line_start <= MAX_HEADING_LENGTH
    return gap.opens_paragraph and short and is_bare_heading(text[gap.line_start : gap.start], following)


def ends_sentence(word: str, following: str, begins_line: bool) -> bool:
    """Return True if ``word`` (its last characters, closing quotes and brackets included) ends a sentence.

    Args:
        word: what stands before the white space.
        following: the first characters after it; not empty.
        begins_line: the word is the first of its line (``1.`` is then the number of a list item).
    """
    word = _CITATION.sub("", word)
    closed = word.rstrip(_CLOSERS)
    if not closed or closed[-1] not in _TERMINATORS:
        return False
    initial = following.lstrip(_OPENERS)[:1]
    stem = closed.rstrip(_TERMINATORS).lstrip(_OPENERS)
    if closed[-1] != "." or closed.endswith(".."):
        return not initial.islower()
    if begins_line and _ENUMERATOR.match(closed.lstrip(_OPENERS)):
        return False
    return not _is_abbreviation(stem, initial) and not _is_continued(stem, initial)


def _is_abbreviation(stem: str, initial: str) -> bool:
    """Return True if the full stop after ``stem`` belongs to an abbreviation or to initials and ends no sentence."""
    lower = re.split(r"[-/–—(\[~]", stem)[-1].casefold()
    # "ms." is a unit, "Ms." a title
    if lower in NEVER_LAST or stem == "Ms" or (lower in BEFORE_NUMBER and initial.isdigit()):
        return True
    if lower in SOMETIMES_LAST:
        return not initial.isupper()
    return bool(_INITIALS.match(lower)) or (len(lower) == 1 and stem[-1].isupper())


def _is_continued(stem: str, initial: str) -> bool:
    """Return True if a lower-case letter follows and the word is too short to be a reliable end of a sentence."""
    return initial.islower() and not _WORD.search(stem)


def strip_marks(line: str) -> str:
    """Return the line without the marks of Markdown headings and bold or italic type at its ends."""
    return line.strip().strip(_MARKS)


def find_section_name(line: str) -> str:
    """Return the usual name of a section in lower case if it fills the line (``**1. Introduction**``), else ""."""
    if len(line) > MAX_HEADING_LENGTH:
        return ""
    name = _NUMBER.sub("", strip_marks(line), count=1).strip(_MARKS).rstrip(".:" + _MARKS).casefold()
    return name if name in SECTION_NAMES else ""


def is_bare_heading(line: str, following: str) -> bool:
    """Return True if a line that opens a paragraph is a heading without Markdown marks.

    It is when it is the usual name of a section, or when it is short, ends like no sentence and the next line is a
    whole paragraph (``Enhanced Reheating`` above a line of 900 characters). Other short lines are hard-wrapped prose.
    """
    if find_section_name(line):
        return True
    words = line.strip()
    short = 0 < len(words) <= MAX_HEADING_LENGTH and words[-1] not in ".,;:!?" and not words[0].islower()
    return short and len(following) >= MAX_WRAPPED_LENGTH
