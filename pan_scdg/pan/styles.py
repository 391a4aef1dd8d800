"""Read the styles of a page as far as they decide which of its text a reader sees.

These are the style sheets within the page, selectors by element, class and id, and the attributes of elements.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Colour = tuple[int, int, int]
Weight = tuple[int, int, int]
"""Numbers of ids, classes and elements in a selector."""
MAX_TINY_SIZE = 2.0
"""Largest size of letters that no reader sees, in points."""
MAX_COLOUR_DISTANCE = 10
"""Largest difference of red, green or blue between a background and letters that no reader sees."""
MIN_OFFSET = 300.0
"""Distance in points at which text lies outside of the page."""
MIN_INDENT = 14.0
"""Indentation of a block quotation at both sides in points, half a centimetre."""
MIN_BAR = 1.5
"""Width in points of the bar at the left of a block quotation."""
QUOTATION_STYLES = {"quote", "intensequote", "blocktext", "blockquote", "blockquotation", "quotation", "quotations"}
"""Names of the styles of word processors for block quotations, in lower case and without spaces."""
MAX_OPACITY = 0.05
MAX_STEPS = 1_000_000
"""Comparisons of selectors with elements."""

WHITE, BLACK = (255, 255, 255), (0, 0, 0)
_COLOURS: Mapping[str, Colour] = {
    "white": WHITE,
    "black": BLACK,
    "snow": (255, 250, 250),
    "whitesmoke": (245, 245, 245),
}
_UNITS = {"pt": 1.0, "px": 0.75, "in": 72.0, "cm": 72 / 2.54, "mm": 7.2 / 2.54, "pc": 12.0, "rem": 12.0}
_LENGTH = re.compile(r"(-?(?:\d+\.?\d*|\.\d+))([a-z]+|%)?(?:[\s/]|$)")
_MOVED = re.compile(r"translate(?:x|y|3d)?\((?:[^()]*,)?\s*(-[\w.]+)")
_RGB = re.compile(r"rgba?\(\s*(\d+)[\s,]+(\d+)[\s,]+(\d+)(.*)\)")
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)|<!--|-->", re.DOTALL)
_SCREEN = re.compile(r"@(?:media\s+(?:all|screen)|layer\b.*|supports\b.*)")
_PART = re.compile(r"([.#]?)([\w-]+)|\*")
_COMPOUND = re.compile(r"(?:[\w-]+|\*)?(?:[.#][\w-]+)*")
_PROPERTIES = """
background background-color clip clip-path color display font font-size font-style height left margin margin-left
margin-right max-height max-width opacity overflow position right text-indent top transform visibility width
border-inline-start border-left margin-inline margin-inline-end margin-inline-start padding padding-inline
padding-inline-end padding-inline-start padding-left padding-right
"""
PROPERTIES = frozenset(_PROPERTIES.split())


class Look(NamedTuple):
    """How the text of an element looks."""

    is_shown: bool = True
    """Its text takes space on the page."""
    is_visible: bool = True
    is_opaque: bool = True
    size: float = 12.0
    """Of its letters in points."""
    colour: Colour | None = BLACK
    background: Colour | None = WHITE
    """None, as for the colour: unknown, such as that of a picture."""

    @property
    def hides(self) -> bool:
        """Return True if a reader sees nothing, and no gap."""
        return not self.is_shown or self.size <= MAX_TINY_SIZE

    @property
    def leaves_gap(self) -> bool:
        """Return True if a reader sees a gap in place of the text."""
        return not self.is_visible or not self.is_opaque or are_alike(self.colour, self.background)

    def inherit(self, declared: Mapping[str, str]) -> "Look":
        """Return the look of an element within this one."""
        size = declared.get("font-size") or next(iter(re.findall(r"\S*\d\S*", declared.get("font", ""))), "")
        visibility = declared.get("visibility", "visible" if self.is_visible else "hidden")
        colour = self.colour if "color" not in declared else parse_colour(declared["color"], self.colour)
        background = declared.get("background-color") or declared.get("background", "transparent")
        opacity = _LENGTH.match(declared.get("opacity", "1"))
        return Look(
            self.is_shown and declared.get("display") != "none" and not is_moved_away(declared),
            visibility not in ("hidden", "collapse"),
            self.is_opaque
            and not _is_transparent(declared.get("color", ""))
            and (opacity is None or float(opacity[1]) * (0.01 if opacity[2] else 1) > MAX_OPACITY),
            measure(size, self.size, self.size),
            colour,
            parse_colour(background, self.background),
        )


def are_alike(colour: Colour | None, background: Colour | None) -> bool:
    """Return True if no reader can tell two colours from each other."""
    if colour is None or background is None:
        return False
    return max(abs(a - b) for a, b in zip(colour, background, strict=True)) <= MAX_COLOUR_DISTANCE


def parse_colour(value: str, inherited: Colour | None) -> Colour | None:
    """Return red, green and blue of a colour, None for one that is not known, such as a picture."""
    if value in ("", "inherit", "initial", "unset", "none", "auto") or _is_transparent(value):
        return inherited
    if numbers := _RGB.fullmatch(value):
        red, green, blue = (min(255, int(number[:3])) for number in numbers.groups()[:3])
        return red, green, blue
    digits = value.removeprefix("#") if re.fullmatch("#(?:[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})", value) else ""
    if len(digits) in (3, 4):
        digits = "".join(2 * digit for digit in digits)
    return (int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:6], 16)) if digits else _COLOURS.get(value)


def _is_transparent(value: str) -> bool:
    match = _RGB.fullmatch(value)
    alpha = _LENGTH.search(match[4]) if match else None
    if value.startswith("#") and len(value) in (5, 9):
        return value.endswith("0" * (len(value) // 4))
    return value == "transparent" or (alpha is not None and float(alpha[1]) <= MAX_OPACITY)


def measure(value: str, unit: float, otherwise: float) -> float:
    """Return a length in points.

    Args:
        value: a length of CSS.
        unit: that of ``em`` and 100 %, in points.
        otherwise: what is returned for a value that is no length.
    """
    match = _LENGTH.match(value)
    if match is None or (not match[2] and float(match[1])):
        return otherwise
    return float(match[1]) * {**_UNITS, "em": unit, "ex": unit / 2, "%": unit / 100}.get(match[2] or "pt", 1.0)


def is_indented(declared: Mapping[str, str], at_both_sides: bool = True, space: str = "margin") -> bool:
    """Return True if an element is indented as a block quotation is, at the left or at both sides.

    Args:
        declared: what is declared about it.
        at_both_sides: both sides are needed.
        space: what indents it, ``margin`` or ``padding``.
    """
    values, inline = declared.get(space, "").split(), declared.get(f"{space}-inline", "").split()
    right, left = (values[1 % len(values)], values[3 if len(values) == 4 else 1 % len(values)]) if values else ("", "")
    left, right = (inline[0], inline[-1]) if inline else (left, right)
    sides = [
        declared.get(f"{space}-{side}") or declared.get(f"{space}-inline-{other}") or usual
        for side, other, usual in (("left", "start", left), ("right", "end", right))
    ]
    return all(MIN_INDENT <= measure(side, 12, 0) < MIN_OFFSET for side in sides[: 1 + at_both_sides])


def has_bar(declared: Mapping[str, str]) -> bool:
    """Return True if an element has a bar at the left, as block quotations have on many pages."""
    value = declared.get("border-left") or declared.get("border-inline-start", "")
    return any(measure(width, 12, 0) >= MIN_BAR for width in value.split()) and "transparent" not in value


def names_quotation(style: str) -> bool:
    """Return True for the name of a style for block quotations, in which an ODT spells spaces out."""
    return style.replace("_20_", "").replace(" ", "").casefold() in QUOTATION_STYLES


def is_moved_away(declared: Mapping[str, str]) -> bool:
    """Return True for an element that lies outside of the page or has no room."""
    places = [declared.get(name, "") for name in ("left", "right", "top", "text-indent", "margin-left")]
    sizes = (declared.get(name, "") for name in ("width", "height", "max-width", "max-height"))
    return (
        any(measure(place, 12, 0) <= -MIN_OFFSET for place in places)
        or (declared.get("overflow") == "hidden" and any(0 <= measure(size, 12, 9) <= 1 for size in sizes))
        or bool(re.match(r"rect\((?:[01](?:px)?[\s,]*){4}\)", declared.get("clip", "")))
        or declared.get("clip-path", "").startswith(("inset(50%", "inset(100%", "circle(0"))
        or declared.get("transform", "").startswith("scale(0)")
        or any(measure(place, 12, 0) <= -MIN_OFFSET for place in _MOVED.findall(declared.get("transform", "")))
    )


class Styles:
    """The rules of a page.

    Args:
        sheets: the content of its ``style`` elements.
    """

    def __init__(self, sheets: str = "") -> None:
        self._rules: defaultdict[str, list[tuple[Weight, int, list[str], Mapping[str, str]]]] = defaultdict(list)
        self._steps = 0
        for number, (selectors, body) in enumerate(_list_blocks(_COMMENT.sub("", sheets))):
            declared = parse_declarations(body)
            for selector in selectors.split(",") if declared else ():
                compounds = selector.replace(">", " ").split()[::-1]
                if compounds and all(map(_COMPOUND.fullmatch, compounds)):
                    key = "".join(_PART.findall(compounds[0])[-1]) or "*"
                    self._rules[key].append((_weigh(compounds), number, compounds, declared))

    def find_declarations(self, element: Any) -> dict[str, str]:
        """Return what is declared about an element.

        Raises:
            ValueError: it takes too many comparisons.
        """
        rows: list[tuple[bool, Weight, int, str, str]] = []
        if self._rules:
            classes = (element.get("class") or "").split()
            for key in {"*", element.tag, f"#{element.get('id')}", *(f".{name}" for name in classes)}:
                for weight, number, compounds, declared in self._rules.get(key, ()):
                    self._steps += 1
                    if self._steps > MAX_STEPS:
                        raise ValueError("its styles are too many")
                    if self._matches(element, compounds):
                        rows += _rank(declared, weight, number)
        rows += _rank(parse_declarations(element.get("style") or ""), (1 << 20, 0, 0), 0)
        attributes = {"color": element.get("color"), "background-color": element.get("bgcolor")}
        declared = {name: value.lower() for name, value in attributes.items() if value}
        return declared | {name: value for *_, name, value in sorted(rows)}

    def _matches(self, element: Any, compounds: list[str]) -> bool:
        """Return True if an element has the first compound, and elements around it the others in this order."""
        if not _fits(element, compounds[0]):
            return False
        for compound in compounds[1:]:
            element = element.getparent()
            while element is not None and not _fits(element, compound):
                element, self._steps = element.getparent(), self._steps + 1
            if element is None:
                return False
        return True


def parse_declarations(style: str) -> dict[str, str]:
    """Return the declarations of a style that matter here, in lower case; of one property an important one wins."""
    pairs = (part.split(":", 1) for part in _COMMENT.sub("", style).lower().split(";") if ":" in part)
    ordered = sorted(pairs, key=lambda pair: pair[1].rstrip().endswith("important"))
    return {name.strip(): value.strip() for name, value in ordered if name.strip() in PROPERTIES}


def _rank(declared: Mapping[str, str], weight: Weight, number: int) -> Iterator[tuple[bool, Weight, int, str, str]]:
    for name, value in declared.items():
        plain = re.sub(r"\s*!\s*important$", "", value)
        yield plain != value, weight, number, name, plain


def _list_blocks(sheets: str) -> Iterator[tuple[str, str]]:
    """Yield selectors and declarations of each rule for every screen."""
    heads: list[str] = []
    parts = re.split(r"([{}])", sheets)
    for text, brace in zip(parts[::2], parts[1::2]):
        if brace == "{":
            heads.append(text.rpartition(";")[2].strip())
        elif heads:
            selectors = heads.pop()
            if not selectors.startswith("@") and len(heads) < 4 and all(map(_SCREEN.fullmatch, heads)):
                yield selectors, text


def _weigh(compounds: list[str]) -> Weight:
    marks = [match[1] for compound in compounds for match in _PART.finditer(compound) if match[2]]
    return marks.count("#"), marks.count("."), marks.count("")


def _fits(element: Any, compound: str) -> bool:
    for mark, name in _PART.findall(compound):
        if mark == ".":
            fits = name in (element.get("class") or "").split()
        else:
            fits = not name or (element.get("id") == name if mark else element.tag == name.lower())
        if not fits:
            return False
    return True
