"""Recognise by its form what an author of prose did not write: verse, the menu of a site, a provision of law."""

import re

from pan_scdg.text.lines import MOST_LINES

MIN_GIVEN_LINES = 6
"""Lines of verse or a menu."""
MAX_LINE_SHARE = 0.75
"""Longest line of verse or of a menu, as a share of the longest line of the text: wrapped prose fills its lines."""
MAX_SENTENCE_SHARE = 0.5
"""Largest share of lines of verse that end a sentence: a text may have each sentence in a line of its own."""
MIN_CLAUSES = 2
"""Numbered clauses of a provision."""
_SENTENCE_END = re.compile(r"[.!?][\"'”’»)\]]*\Z")
_PROVISION = re.compile(r"(?:§ ?|\b(?:section|article|art\.|clause|rule) )\d", re.IGNORECASE)
_CLAUSE = re.compile(r"(?:^|[\n;:.] *)\((?:\d{1,2}|[a-z]{1,3})\) ")


def is_given(text: str, begin: int, end: int) -> bool:
    """Return True for a stretch of a text that is verse, the menu of a site or a provision of law."""
    part = text[begin:end]
    if len(_CLAUSE.findall(part)) >= MIN_CLAUSES and _PROVISION.search(text, text.rfind("\n", 0, begin) + 1, end):
        return True
    lines = [line.strip() for line in part.splitlines() if line.strip()]
    longest = MAX_LINE_SHARE * max(map(len, text.splitlines()), default=0)
    short = sum(len(line) <= longest for line in lines)
    sentences = sum(_SENTENCE_END.search(line) is not None for line in lines)
    return (
        len(lines) >= MIN_GIVEN_LINES
        and short >= MOST_LINES * len(lines)
        and sentences <= MAX_SENTENCE_SHARE * len(lines)
    )
