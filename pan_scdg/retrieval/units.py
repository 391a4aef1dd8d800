"""Units that the routes search with and in: sentences, overlapping chunks, and title with abstract."""

import re
from itertools import dropwhile, takewhile
from typing import NamedTuple

import numpy as np

from pan_scdg.text.sentences import (
    MARKDOWN,
    RULE,
    find_section_name,
    is_bare_heading,
    split_sentences,
    strip_marks,
)

QUERY_WORDS, QUERY_STRIDE, QUERY_CHUNKS = 2048, 1536, 3
"""Words of a chunk of a whole query, words between the starts of two, and number of chunks that are kept."""
OPENING_WORDS = 250
"""Words of the text that stand for an abstract where none is marked."""
ABSTRACT_WORDS = 500
"""A marked abstract that no heading ends is cut here."""
TITLE_WORDS = 40
_LABEL = re.compile(r"[\s*_]*abstract[\s*_]*(?:[.:—–][\s*_]*|-+\s+)(?=\S)", re.IGNORECASE)


def cut_chunks(text: str, words: int, stride: int, limit: int) -> list[str]:
    """Return overlapping stretches of ``words`` white-space delimited words, joined by single spaces.

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


def cut_query(text: str) -> list[str]:
    """Return the chunks of a whole query that ``dense-full`` searches with; at least one."""
    return cut_chunks(text, QUERY_WORDS, QUERY_STRIDE, QUERY_CHUNKS) or [text]


def split_query(text: str) -> list[str]:
    """Return the sentences of a query that ``dense-sentence`` searches with; at least one."""
    return split_sentences(text) or [text]


class Line(NamedTuple):
    """A line that is not blank: a heading (without its marks), or a line of text."""

    heading: bool
    text: str


def extract_title_abstract(text: str) -> str:
    """Return title and abstract, each in one line, the title first; whichever is not found is left out.

    The abstract is what stands between a heading ``Abstract`` (Markdown, bare, numbered or in bold; or the label
    ``Abstract:`` in front of a paragraph) and the next heading or horizontal rule, at most 500 words. A heading is a
    Markdown heading, the usual name of a section alone in its line, or a short line above a line of 100 characters
    or more. Without such a heading the first 250 words of the text stand for it, headings left out.

    The title is the first line of the document if it stands before the abstract, has at most 40 words and is no
    usual section name. Where no abstract is marked it must also be a heading, or a line that does not end like a
    sentence. So a text of one sentence has no title, one line without a full stop is a title alone, and a Markdown
    query that starts with ``## Abstract`` gives its abstract alone.
    """
    lines = _split_lines(text)
    marked = next(
        (i for i, line in enumerate(lines) if line.heading and find_section_name(line.text) == "abstract"), None
    )
    if marked is None:
        title = _extract_title(lines[:1]) if lines and (lines[0].heading or lines[0].text[-1] not in ".;,") else ""
        body = [line.text for line in lines[1 if title else 0 :] if not line.heading]
        abstract = _take_words(body, OPENING_WORDS)
    else:
        title = _extract_title(lines[: min(marked, 1)])
        abstract = _take_words(_extract_section(lines[marked + 1 :]), ABSTRACT_WORDS)
    return "\n".join(part for part in (title, abstract) if part)


def _split_lines(text: str) -> list[Line]:
    """Return the lines that are not blank. A rule is a nameless heading; ``Abstract: We`` is a heading and a line."""
    raw = text.split("\n")
    lines: list[Line] = []
    for i, line in enumerate(raw):
        opens = i == 0 or not raw[i - 1].strip() or (bool(lines) and lines[-1].heading)
        following = raw[i + 1] if i + 1 < len(raw) else ""
        if not line.strip():
            continue
        if RULE.match(line):
            lines.append(Line(True, ""))
        elif (
            MARKDOWN.match(line)
            or find_section_name(line) == "abstract"
            or (opens and is_bare_heading(line, following))
        ):
            lines.append(Line(True, strip_marks(line)))
        elif opens and (label := _LABEL.match(line)):
            lines += [Line(True, "abstract"), Line(False, line[label.end() :].strip())]
        else:
            lines.append(Line(False, line.strip()))
    return lines


def _extract_title(lines: list[Line]) -> str:
    """Return the title, if this line (at most one) can be one, or ""."""
    words = strip_marks(lines[0].text).split() if lines and not find_section_name(lines[0].text) else []
    return "" if len(words) > TITLE_WORDS else " ".join(words)


def _extract_section(lines: list[Line]) -> list[str]:
    """Return the lines up to the next heading; headings and rules before the first line of text do not count."""
    body = dropwhile(lambda line: line.heading, lines)
    return [line.text for line in takewhile(lambda line: not line.heading, body)]


def _take_words(lines: list[str], count: int) -> str:
    """Return the first ``count`` words of the lines, in one line."""
    return " ".join(" ".join(lines).split()[:count])
