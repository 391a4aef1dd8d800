"""What the first stage searches with and in: sentences, chunks, title with abstract."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pan_scdg.retrieval.abstracts import title_abstract
from pan_scdg.retrieval.boundaries import ends_sentence
from pan_scdg.retrieval.headings import MARKDOWN, MOST_CHARACTERS, is_bare_heading

__all__ = ["chunks", "sentence_spans", "sentences", "title_abstract"]

# No-break spaces belong to the words: they are written where a line, all the more a sentence, must not end.
_TOKEN = re.compile(r"[\S\xa0\u2007\u202f]+")
_BULLET = re.compile(r"[-*+•] ")


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


def sentences(text: str) -> list[str]:
    """The sentences of ``text`` in order, without surrounding white space; nothing but white space is lost."""
    return [sentence for start, end in sentence_spans(text) if (sentence := text[start:end].strip())]


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Character spans of the sentences: contiguous, in order, together the whole text.

    White space between two sentences belongs to the later one, so that tokenizers which join a space with the word
    behind it see the same words in every piece. A paragraph break, a heading (Markdown, or a bare line above a
    paragraph) and a bullet also end what stands before them. A piece without any letter or digit (a rule, a row
    of dots) is not a sentence of its own but joins the next one, or the last one at the end of the text. Without
    white space there is no boundary. Time is linear in the length, whatever the text.
    """
    spans: list[tuple[int, int]] = []
    start, worded = 0, False
    for gap in _gaps(text):
        worded = worded or gap.worded
        if worded and _is_boundary(text, gap):
            spans.append((start, gap.start))
            start, worded = gap.start, False
    if start < len(text):
        if spans and not worded and not any(map(str.isalnum, text[start:])):
            start, _ = spans.pop()
        spans.append((start, len(text)))
    return spans


def _gaps(text: str) -> Iterator[Gap]:
    """The white space between any two tokens, in order."""
    line_start, opens = 0, True
    for token, following in pairwise(_TOKEN.finditer(text)):
        newlines = text.count("\n", token.end(), following.start())
        worded = any(map(str.isalnum, token[0]))
        yield Gap(line_start, opens, token.start(), token.end(), following.start(), newlines, worded)
        if newlines:
            line_start, opens = text.rfind("\n", token.end(), following.start()) + 1, newlines > 1


def _is_boundary(text: str, gap: Gap) -> bool:
    """Whether the gap lies between two sentences."""
    if gap.newlines > 1 or (gap.newlines == 1 and _lines_part(text, gap)):
        return True
    indent = text[gap.line_start : min(gap.token_start, gap.line_start + 8)]
    begins_line = gap.token_start - gap.line_start <= 8 and not indent.strip(" \t>*_#")
    word = text[max(gap.token_start, gap.start - 64) : gap.start]
    return ends_sentence(word, text[gap.end : gap.end + 8], begins_line)


def _lines_part(text: str, gap: Gap) -> bool:
    """Whether the two lines around a line break belong to different sentences whatever their words."""
    following = text[text.rfind("\n", gap.start, gap.end) + 1 : gap.end + 100].partition("\n")[0]
    if MARKDOWN.match(following) or _BULLET.match(following.lstrip()) or MARKDOWN.match(text, gap.line_start):
        return True
    short = gap.start - gap.line_start <= MOST_CHARACTERS
    return gap.opens_paragraph and short and is_bare_heading(text[gap.line_start : gap.start], following)


def chunks(text: str, words: int, stride: int, limit: int) -> list[str]:
    """Overlapping stretches of ``words`` white-space delimited words, joined by single spaces.

    They start every ``stride`` words; the last is anchored at the end. Of more than ``limit`` chunks those at
    ``round(linspace(0, n - 1, limit))`` stay (paper, Sentence and chunk construction). A shorter text is one chunk,
    an empty one none.

    Raises:
        ValueError: ``words``, ``stride`` or ``limit`` is below 1.
    """
    if min(words, stride, limit) < 1:
        raise ValueError("words, stride and limit must be at least 1")
    tokens = text.split()
    if not tokens:
        return []
    last = max(0, len(tokens) - words)
    starts = [*range(0, last, stride), last]
    if len(starts) > limit:
        starts = [starts[i] for i in np.rint(np.linspace(0, len(starts) - 1, limit)).astype(int)]
    return [" ".join(tokens[start : start + words]) for start in starts]
