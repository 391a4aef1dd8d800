"""Drop the text of a PDF page that no reader sees: in the colour of its background, tiny, or outside of the page."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pan_scdg.pan.html_text import GAP
from pan_scdg.pan.styles import BLACK, MAX_OPACITY, MAX_TINY_SIZE, MIN_OFFSET, WHITE, Colour, are_alike

Matrix = tuple[float, float, float, float, float, float]
IDENTITY: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
BLANK = frozenset(b"\x00\x03 ")
"""Bytes of a space in the usual encodings."""
INVISIBLE = (3, 7)
"""Modes of text that is only there to be searched for."""
SHOWING, FILLING = (b"Tj", b"TJ", b"'", b'"'), (b"f", b"F", b"f*", b"B", b"B*", b"b", b"b*")


class _State(NamedTuple):
    """The state of graphics that a page can save."""

    matrix: Matrix = IDENTITY
    colour: Colour | None = BLACK
    """None: not known."""
    opacity: float = 1.0
    size: float = 12.0
    mode: int = 0


class _Area(NamedTuple):
    """A part of the page with another background."""

    left: float
    bottom: float
    right: float
    top: float
    colour: Colour | None


def drop_hidden_text(page: Any) -> bool:
    """Replace text of a page that no reader sees by `GAP`, or by nothing; return True if there was any.

    Args:
        page: a page of pypdf.
    """
    from pypdf.generic import ContentStream, NameObject, TextStringObject

    if (contents := page.get_contents()) is None:
        return False
    content = ContentStream(contents, page.pdf, "bytes")  # its strings are codes of a font
    resources = page.get("/Resources") or {}
    reader = _Reader(page.cropbox, resources.get("/ExtGState") or {}, resources.get("/XObject") or {})
    operations, hides = [], False
    for operands, operator in content.operations:
        space = reader.read(operands, operator)
        if space is None:
            operations.append((operands, operator))
            continue
        hides = True
        if operator in (b"'", b'"'):
            operations.append(([], b"T*"))
        if space:
            operations.append(([TextStringObject(GAP)], b"Tj"))
    if hides:
        content.operations = operations
        page[NameObject("/Contents")] = content
    return hides


class _Reader:
    """Follows the operators of a page.

    Args:
        box: the visible part of the page.
        states: the named states of graphics.
        objects: the named pictures and forms.
    """

    def __init__(self, box: Any, states: Any, objects: Any) -> None:
        self._box, self._states, self._objects = box, states, objects
        self._state, self._saved = _State(), list[_State]()
        self._line: Matrix = IDENTITY
        self._leading = 0.0
        self._points: list[tuple[float, float]] = []
        self._areas: list[_Area] = []
        self._has_picture = False

    def read(self, operands: Any, operator: bytes) -> str | None:
        """Follow an operator; for text that no reader sees return what is seen instead, else None."""
        if operator in SHOWING:
            if operator in (b"'", b'"'):
                self._move(0.0, -self._leading)
            return None if _is_blank(operands) else self._find_replacement()
        numbers = [float(each) for each in operands if isinstance(each, int | float)] if len(operands) < 8 else []
        state = self._state
        match operator, numbers:
            case b"q", _:
                self._saved.append(state)
            case b"Q", _:
                self._state = self._saved.pop() if self._saved else state
            case b"cm", [a, b, c, d, e, f]:
                self._state = state._replace(matrix=multiply((a, b, c, d, e, f), state.matrix))
            case ((b"g" | b"rg" | b"k" | b"sc" | b"scn" | b"cs"), _):
                is_known = operator in (b"g", b"rg", b"k") or len(numbers) > 1
                self._state = state._replace(colour=mix(numbers) if is_known else None)
            case b"gs", _:
                named = self._states.get(operands[0]) if operands else None
                alpha = named.get_object().get("/ca") if named is not None else None
                self._state = state if alpha is None else state._replace(opacity=float(alpha))
            case b"Tf", [size]:
                self._state = state._replace(size=size)
            case b"Tr", [mode]:
                self._state = state._replace(mode=int(mode))
            case b"BT", _:
                self._line = IDENTITY
            case b"Tm", [a, b, c, d, e, f]:
                self._line = (a, b, c, d, e, f)
            case b"TL", [leading]:
                self._leading = leading
            case ((b"Td" | b"TD"), [x, y]):
                self._leading = -y if operator == b"TD" else self._leading
                self._move(x, y)
            case b"T*", _:
                self._move(0.0, -self._leading)
            case _:
                self._read_area(operands, operator, numbers)
        return None

    def _move(self, x: float, y: float) -> None:
        self._line = multiply((1.0, 0.0, 0.0, 1.0, x, y), self._line)

    def _read_area(self, operands: Any, operator: bytes, numbers: list[float]) -> None:
        """Follow an operator that makes a path, fills one, or paints a picture."""
        if operator == b"re" and len(numbers) == 4:
            x, y, width, height = numbers
            self._points += [self._place(x, y), self._place(x + width, y + height)]
        elif operator in (b"m", b"l", b"c", b"v", b"y") and len(numbers) >= 2:
            self._points.append(self._place(*numbers[-2:]))
        elif operator in FILLING or operator in (b"n", b"S", b"s"):
            if operator in FILLING and self._points:
                self._add_area(self._points, self._state.colour)
            self._points = []
        elif operator in (b"Do", b"INLINE IMAGE", b"sh"):
            named = self._objects.get(operands[0]) if operator == b"Do" and operands else None
            form = None if named is None else named.get_object()
            if form is not None and form.get("/Subtype") == "/Form":  # what it paints is not looked at
                box = [float(side) for side in form.get("/BBox") or (0, 0, 0, 0)]
                self._add_area([self._place(*box[:2]), self._place(*box[2:4])], None)
            else:
                self._has_picture = True
                self._add_area([self._place(0, 0), self._place(1, 1)], None)

    def _place(self, x: float, y: float) -> tuple[float, float]:
        return multiply((1.0, 0.0, 0.0, 1.0, x, y), self._state.matrix)[4:]

    def _add_area(self, points: Sequence[tuple[float, float]], colour: Colour | None) -> None:
        xs, ys = zip(*points, strict=True)
        self._areas.append(_Area(min(xs), min(ys), max(xs), max(ys), colour))

    def _find_replacement(self) -> str | None:
        state = self._state
        a, b, c, d, x, y = multiply(self._line, state.matrix)
        left, bottom, right, top = (float(side) for side in (*self._box.lower_left, *self._box.upper_right))
        if not (left - MIN_OFFSET <= x <= right and bottom <= y <= top):
            return ""
        if abs(state.size) * abs(a * d - b * c) ** 0.5 <= MAX_TINY_SIZE:
            return ""
        if state.mode in INVISIBLE:  # behind a scan, or instead of it
            return None if self._has_picture else GAP
        around = (area for area in reversed(self._areas) if area.left <= x <= area.right)
        background = next((area.colour for area in around if area.bottom <= y <= area.top), WHITE)
        return GAP if state.opacity <= MAX_OPACITY or are_alike(state.colour, background) else None


def multiply(first: Matrix, second: Matrix) -> Matrix:
    """Return the matrix that does first one transformation and then another."""
    a, b, c, d, e, f = first
    p, q, r, s, t, u = second
    return (a * p + b * r, a * q + b * s, c * p + d * r, c * q + d * s, e * p + f * r + t, e * q + f * s + u)


def mix(numbers: Sequence[float]) -> Colour | None:
    """Return red, green and blue of a grey, of these three, or of cyan, magenta, yellow and black."""
    shares = [min(1.0, max(0.0, number)) for number in numbers]
    if len(shares) == 4:
        shares = [(1 - share) * (1 - shares[3]) for share in shares[:3]]
    if len(shares) == 1:
        shares *= 3
    if len(shares) != 3:
        return None
    red, green, blue = (round(255 * share) for share in shares)
    return red, green, blue


def _is_blank(operands: Any) -> bool:
    """Return True if text is nothing but spaces."""
    parts = [part for each in operands for part in (each if isinstance(each, list) else [each])]
    return not any(
        set(part.encode("utf-8") if isinstance(part, str) else part) - BLANK
        for part in parts
        if isinstance(part, str | bytes)
    )
