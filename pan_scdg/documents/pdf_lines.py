"""Join the characters of a page to lines, from where they are drawn."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from pan_scdg.documents.html_text import GAP, MIN_QUOTED_WORDS, close_gaps, names_source
from pan_scdg.documents.styles import MIN_INDENT

MAX_RAISE = 0.5
"""Largest distance of a raised character from its line, as a share of its size."""
MIN_SPACE, MIN_SPACE_REVERSED, MIN_DISTANCES = 0.18, 0.24, 8
"""Least distance of two words, as a share of the size of letters, and from right to left, where letters are joined;
distances that tell how far apart letters are."""
MIN_MARGIN_LINES, MAX_SHIFT, MAX_INDENT = 3, 2.0, 100.0
"""Lines that begin at a margin, and in points how far from it those of a paragraph and of a quotation begin at most."""
MIN_FIRST_INDENT, MAX_FIRST_INDENT = 6.0, 40.0
"""How far the first line of a paragraph may be indented."""
MIN_GUTTER, MIN_COLUMN_LINES, MIN_COLUMN_LETTERS = 1.0, 4, 15
"""Least distance of two columns, as a share of the size of letters; rows in which both have text, and letters of a row
of each: a table has fewer."""
MIN_LINE_WORDS, MAX_SHORT_WORDS = 12, 0.7
"""Words of a line in which letters may stand apart, and the largest share of one or two letters in other lines."""
_RIGHT_TO_LEFT, _LEFT_TO_RIGHT = {"R", "AL"}, {"L", "EN", "AN"}


class Glyph(NamedTuple):
    """A character, or several that are drawn as one; lengths are in points."""

    text: str
    left: float
    right: float
    base: float
    """Height of its line."""
    size: float
    """Of its font."""
    is_italic: bool = False


class Line(NamedTuple):
    """A line of a page."""

    text: str
    left: float
    right: float
    is_italic: bool
    """Most of it is in italics."""


def join_page(signs: Sequence[Glyph]) -> str:
    """Return the text of a page, line by line."""
    rows = split_columns(list(group_lines(signs)))
    lines = [line for line in map(join_signs, rows) if line.text.strip()]
    text = "\n".join(mark_quotations(lines))
    return close_words(text) if has_letters_apart(text) else "\n".join(" ".join(e.split()) for e in text.split("\n"))


def group_lines(signs: Sequence[Glyph]) -> Iterator[list[Glyph]]:
    """Yield the characters of each line; a raised one, such as the number of a footnote, is in its line."""
    line: list[Glyph] = []
    base = size = 0.0
    for sign in signs:
        if line and abs(sign.base - base) > MAX_RAISE * max(size, sign.size):
            yield line
            line = []
        if not line or sign.size >= size:
            base, size = sign.base, sign.size
        line.append(sign)
    if line:
        yield line


def split_columns(rows: list[list[Glyph]]) -> list[list[Glyph]]:
    """Return the lines of columns one after the other, where they are drawn row by row.

    A gutter is a gap at the same place of consecutive rows that have text on both sides.
    """
    gaps = [list(_list_gaps(row)) for row in rows]
    place = _find_gutter(gaps)
    if place is None:
        return rows
    ordered: list[list[Glyph]] = []
    block: list[list[Glyph]] = []

    def end_block() -> None:
        """Add the rows of a block, column by column if it has some."""
        sides = [[[s for s in row if (s.left > place) == is_right] for row in block] for is_right in (False, True)]
        both = [pair for pair in zip(*sides) if all(map(_has_text, pair))]
        letters = [sum(sign.text.isalnum() for pair in both for sign in pair[side]) for side in (0, 1)]
        if len(both) >= MIN_COLUMN_LINES and min(letters) >= MIN_COLUMN_LETTERS * len(both):
            for side in sides:
                ordered.extend(split_columns([row for row in side if row]))
        else:
            ordered.extend(block)
        block.clear()

    for row, own in zip(rows, gaps):
        is_split = any(begin < place < end for begin, end in own)
        if not is_split and min(s.left for s in row) < place < max(s.right for s in row):
            end_block()
            ordered.append(row)
        else:
            block.append(row)
    end_block()
    return ordered


def _has_text(row: Sequence[Glyph]) -> bool:
    return any(not sign.text.isspace() for sign in row)


def _list_gaps(row: Sequence[Glyph]) -> Iterator[tuple[float, float]]:
    """Yield the ends of the gaps of a row that are as wide as one between columns."""
    signs = sorted((sign for sign in row if not sign.text.isspace()), key=lambda sign: sign.left)
    right = float("inf")
    for sign in signs:
        if sign.left - right >= MIN_GUTTER * sign.size:
            yield right, sign.left
        right = max(right, sign.right) if right < float("inf") else sign.right


def _find_gutter(gaps: Sequence[Sequence[tuple[float, float]]]) -> float | None:
    """Return the place that is in a gap of most rows; None if it is in fewer than `MIN_COLUMN_LINES`."""
    ends = sorted(end for own in gaps for begin, stop in own for end in ((begin, 1), (stop, -1)))
    depth = best = 0
    place = None
    for (at, step), (following, _) in pairwise(ends):
        depth += step
        if depth > best and following > at:
            best, place = depth, (at + following) / 2
    return place if best >= MIN_COLUMN_LINES else None


def join_signs(signs: Sequence[Glyph]) -> Line:
    """Return the characters of a line in the order of reading, with spaces where words are apart."""
    directions = [unicodedata.bidirectional(sign.text) for sign in signs if sign.text.isalpha()]
    is_reversed = 2 * sum(each in _RIGHT_TO_LEFT for each in directions) >= max(1, len(directions))
    if is_reversed:  # PDFium does not say where their spaces are
        signs = [sign for sign in signs if sign.right > sign.left or not sign.text.isspace()]
    pieces = _join_marks(signs, is_reversed)
    if is_reversed or any(b.left < a.right - max(a.size, b.size) for a, b in pairwise(pieces)):
        pieces.sort(key=lambda piece: piece.left + piece.right)
    distances = [b.left - a.right for a, b in pairwise(pieces) if not (a.text + b.text).isspace()]
    usual = max(0.0, sorted(distances)[len(distances) // 4]) if len(distances) >= MIN_DISTANCES else 0.0
    texts: list[str] = []
    for before, piece in zip([None, *pieces], pieces):
        if before is not None and not (before.text.isspace() or piece.text.isspace()):
            space = usual + (MIN_SPACE_REVERSED if is_reversed else MIN_SPACE) * min(before.size, piece.size)
            if piece.left - before.right > space and not (_is_ideograph(before) and _is_ideograph(piece)):
                texts.append(" ")
        if piece.text != GAP or texts[-1:] != [GAP]:
            texts.append(piece.text)
    text = order_pieces(texts) if is_reversed else "".join(texts)
    italic = sum(sign.is_italic for sign in signs)
    left, right = min(sign.left for sign in signs), max(sign.right for sign in signs)
    return Line(close_gaps(text), left, right, 2 * italic > len(signs))


def _is_ideograph(sign: Glyph) -> bool:
    """Return True for a character of a script without spaces between words."""
    return unicodedata.east_asian_width(sign.text[0]) in "WF" and not unicodedata.name(sign.text[0], "").startswith(
        "HANGUL"
    )


def _join_marks(signs: Sequence[Glyph], is_reversed: bool) -> list[Glyph]:
    """Return characters with their marks, and those of one ligature, as one."""
    pieces: list[Glyph] = []
    for sign in signs:
        before = pieces[-1] if pieces else None
        is_mark = unicodedata.category(sign.text).startswith("M")
        is_ligature = before is not None and (before.left, before.right) == (sign.left, sign.right)
        if before is None or not (is_mark or is_ligature) or GAP in (before.text, sign.text) or sign.text.isspace():
            pieces.append(sign)
        elif is_mark or not is_reversed:
            pieces[-1] = before._replace(text=before.text + sign.text, right=max(before.right, sign.right))
        else:  # PDFium turns its letters round, too
            pieces[-1] = before._replace(text=sign.text + before.text)
    return pieces


def order_pieces(pieces: Sequence[str]) -> str:
    """Return a line of text from right to left, with what runs from left to right in it.

    Args:
        pieces: the pieces of the line from left to right, each within itself in the order of reading.
    """
    ordered: list[str] = []
    run: list[str] = []

    def end_run() -> None:
        """Add the pieces from left to right; signs at their left end follow them."""
        count = next((i for i, piece in enumerate(reversed(run)) if _find_directions(piece) & _LEFT_TO_RIGHT), 0)
        ordered.extend([*reversed(run[: len(run) - count]), *run[len(run) - count :]])
        run.clear()

    for piece in reversed(pieces):
        directions = _find_directions(piece)
        if directions & _RIGHT_TO_LEFT or not (run or directions & _LEFT_TO_RIGHT):
            end_run()
            ordered.append(piece)
        else:
            run.append(piece)
    end_run()
    return "".join(ordered)


def _find_directions(piece: str) -> set[str]:
    return set(map(unicodedata.bidirectional, piece))


def close_words(text: str) -> str:
    """Return the text of a page without the gaps between its letters, where words have wider gaps."""
    lines = []
    for line in text.split("\n"):
        words = [word.replace(" ", "") for word in re.split(r" {2,}", line.strip())]
        is_apart = has_letters_apart(line) and len(words) >= 2 and max(map(len, words)) < 40
        lines.append(" ".join(words if is_apart else line.split()))
    return "\n".join(lines).strip()


def has_letters_apart(text: str) -> bool:
    """Return True if most words of a line are one or two letters."""
    lines = ([word for word in line.split() if word.isalpha()] for line in text.split("\n"))
    return any(
        len(words) >= MIN_LINE_WORDS and sum(len(word) <= 2 for word in words) > MAX_SHORT_WORDS * len(words)
        for words in lines
    )


def mark_quotations(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the lines of a page, and block quotations as Markdown has them.

    They are indented at both sides; or in italics or indented, and announced by a colon or end with a source.
    """
    margins = Counter(round(line.left) for line in lines)
    begin = 0
    while begin < len(lines):
        first, rest, end = lines[begin], _find_second(lines, begin), begin + 1
        before = lines[begin - 1].text.rstrip() if begin else ""
        while end < len(lines) and _goes_on(rest, lines[begin:end], lines[end], before.endswith(":")):
            end += 1
        outer = [
            margin
            for margin, count in margins.items()
            if count >= MIN_MARGIN_LINES and MIN_INDENT <= rest.left - margin <= MAX_INDENT
        ]
        is_indented = end - begin > 1 and bool(outer)
        body = max((line.right for line in lines if round(line.left) in outer), default=0.0)
        is_inside = end - begin > 2 and max(line.right for line in lines[begin:end]) <= body - MIN_INDENT
        text = " ".join(line.text for line in lines[begin:end])
        is_announced = before.endswith(":") or (names_source(text) and not before[-1:].isalnum())
        is_long = len(text.split()) >= MIN_QUOTED_WORDS
        is_set_off = is_inside or (is_announced and (is_indented or first.is_italic))
        is_quotation = is_long and is_set_off
        if is_quotation:
            yield from ("", *(f"> {line.text}" for line in lines[begin:end]), "")
        else:
            yield from (line.text for line in lines[begin:end])
        begin = end


def _find_second(lines: Sequence[Line], begin: int) -> Line:
    """Return the second line of a paragraph if its first line is indented, otherwise its first line."""
    first, *others = lines[begin : begin + 2]
    if not others or not MIN_FIRST_INDENT <= first.left - others[0].left <= MAX_FIRST_INDENT:
        return first
    before = lines[begin - 1] if begin else first
    # otherwise this is the rest of an entry of a list, and another one follows
    is_new = before.text.rstrip().endswith(":") or abs(before.left - others[0].left) > MAX_SHIFT
    return others[0] if is_new else first


def _goes_on(first: Line, block: Sequence[Line], line: Line, is_announced: bool) -> bool:
    """Return True if a line belongs to a block whose lines begin where ``first`` does.

    An announced quotation ends before a paragraph with wider lines that begins where it does.
    """
    if abs(line.left - first.left) > MAX_SHIFT or line.is_italic != first.is_italic or block[-1].text.endswith(":"):
        return False
    body = max(each.right for each in block)
    is_short, is_wider = block[-1].right <= body - MIN_INDENT, line.right >= body + MIN_INDENT
    return not (is_announced and is_short and is_wider)
