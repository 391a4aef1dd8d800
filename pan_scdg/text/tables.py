"""Find the tables of numbers of a text, which are no prose: many texts are given the same ones."""

import re

from pan_scdg.records import Span
from pan_scdg.text.lines import LINE, MAX_ENTRY_LENGTH, MAX_WRAPPED_LENGTH, MIN_LINES

MAX_CELL_WORDS = 6
"""Mean number of words in a cell of a table; prose in a table counts."""
_NUMBER = re.compile(r"[<>≈~(]{0,2}[\d.,:/%°€$£×+−±–-]+[^\W\d_]{0,2}[%*)]?")
"""A number with its unit, if it has a digit."""
_DIGIT = re.compile(r"\d")
_CELLS = re.compile(r"[|\t;]| {3,}")
_RULE = re.compile(r"[\s|:+=-]+")


def find_tables(text: str) -> list[Span]:
    """Return the tables of numbers, each with the line above it, in order; one line within may be no row."""
    tables: list[Span] = []
    begin = end = count = skipped = 0
    before: re.Match[str] | None = None
    for match in [*LINE.finditer(text), None]:
        if match is not None and len(match[0]) <= MAX_ENTRY_LENGTH and _is_row(match[0]):
            if not count:
                begin = (before if before is not None and _is_header(before[0]) else match).start()
            end, count, skipped = match.end(), count + 1, 0
        elif count and match is not None and skipped == 0 and len(match[0]) <= MAX_WRAPPED_LENGTH:
            skipped = 1
        else:
            if count >= MIN_LINES:
                tables.append(Span(begin, end))
            count = skipped = 0
        before = match
    return tables


def _is_row(line: str) -> bool:
    """Return True for a row of numbers, for one of short cells with lines between them, and for a rule."""
    if _RULE.fullmatch(line):
        return len(line) > 2
    tokens = [token for token in re.split(r"[\s|;]+", line) if token]
    numbers = sum(_NUMBER.fullmatch(token) is not None and _DIGIT.search(token) is not None for token in tokens)
    if numbers >= 2 and 2 * numbers >= len(tokens):
        return True
    cells = list(filter(str.strip, _CELLS.split(line)))
    return len(cells) >= 2 and len(tokens) <= MAX_CELL_WORDS * len(cells) and ("|" in line or numbers > 0)


def _is_header(line: str) -> bool:
    """Return True for a line that may be the header or the caption of the table below it."""
    return len(line) <= MAX_WRAPPED_LENGTH and line.rstrip()[-1] not in ".!?,;"
