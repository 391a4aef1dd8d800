"""Find the tables of numbers and the program code of a text, which are no prose: many texts are given the same ones."""

import re
from collections.abc import Callable

from pan_scdg.align.quotations import Span
from pan_scdg.align.references import LINE

MIN_ROWS, MIN_CODE_LINES = 3, 4
"""Lines of a table, and of code, that are not prose."""
MAX_CELL_WORDS = 6
"""Mean number of words in a cell of a table; prose in a table counts."""
MIN_CODE_SIGNS = 0.08
"""Least share of signs in a line of code; prose has half of it."""
MAX_LINE = 400
"""Characters of a row or a line of code."""
_NUMBER = re.compile(r"[<>≈~(]{0,2}[\d.,:/%°€$£×+−±–-]+[^\W\d_]{0,2}[%*)]?")
"""A number with its unit, if it has a digit."""
_DIGIT = re.compile(r"\d")
_CELLS = re.compile(r"[|\t;]| {3,}")
_RULE = re.compile(r"[\s|:+=-]+")
_SIGNS = re.compile(r"[{}=<>()\[\];+/&|$\\#]")
_CODE_SIGN = re.compile(r"[{}=]|\w\(|</\w|->|::")
"""What prose does not have."""
_KEYWORD = re.compile(
    r"\s*(?:(?:import|from|return|else|elif|try|except|finally|break|continue|pass|end|begin|endif|fi|done|then)\b(?:\s\S+){0,6}:?"
    r"|(?:def|class|for|while|if|function|public|private|static|void|int|float|var|let|const|print|SELECT|WHERE)\b.*[:;{()]"
    r"|(?://|/\*|\*/|#include|@\w).*|[{}()\[\];,]+)\s*"
)


def find_tables(text: str) -> list[Span]:
    """Return the tables of numbers, each with the line above it, and the stretches of program code, in order."""
    tables = _find_blocks(text, _is_row, MIN_ROWS, with_header=True)
    code = _find_blocks(text, _is_code, MIN_CODE_LINES, with_header=False)
    return sorted([*tables, *(span for span in code if not any(b < span[1] and span[0] < e for b, e in tables))])


def _find_blocks(text: str, belongs: Callable[[str], bool], least: int, with_header: bool) -> list[Span]:
    """Return the blocks of at least so many lines that belong, with one other line between two of them at most."""
    blocks: list[Span] = []
    begin = end = count = skipped = 0
    before: re.Match[str] | None = None
    for match in [*LINE.finditer(text), None]:
        if match is not None and len(match[0]) <= MAX_LINE and belongs(match[0]):
            if not count:
                header = before if with_header and before is not None and _is_header(before[0]) else match
                begin = header.start()
            end, count, skipped = match.end(), count + 1, 0
        elif count and match is not None and skipped == 0 and len(match[0]) <= MAX_LINE / 4:
            skipped = 1
        else:
            if count >= least:
                blocks.append((begin, end))
            count = skipped = 0
        before = match
    return blocks


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
    return len(line) <= MAX_LINE / 4 and line.rstrip()[-1] not in ".!?,;"


def _is_code(line: str) -> bool:
    stripped = line.strip()
    if _KEYWORD.fullmatch(line) is not None:
        return True
    return _CODE_SIGN.search(line) is not None and len(_SIGNS.findall(stripped)) >= MIN_CODE_SIGNS * len(stripped)
