"""Read the styles of a page as far as they decide which of its text a reader sees.

These are the style sheets within the page and the attributes of elements, as a browser with a wide window reads them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from types import MappingProxyType
from typing import Any, NamedTuple

import tinycss2
from cssselect2 import ElementWrapper, Matcher, SelectorError, compile_selector_list
from tinycss2.color4 import parse_color

Colour = tuple[int, int, int]
Layer = tuple[dict[str, str], dict[str, str]]
"""The declarations of a rule that matter here, and those of them that are important."""
MAX_TINY_SIZE = 2.0
"""Largest size of letters that no reader sees, in points."""
MIN_LETTER_WIDTH = 10
"""Least width of letters that a reader sees, in percent."""
MAX_COLOUR_DISTANCE = 15
"""Largest difference of red, green or blue between a background and letters that no reader sees; ivory on white."""
MIN_OFFSET = 300.0
"""Distance in points at which text lies outside of the page."""
MIN_INDENT = 14.0
"""Indentation of a block quotation at both sides in points, half a centimetre."""
MIN_BAR = 1.5
"""Width in points of the bar at the left of a block quotation."""
QUOTATION_STYLES = {"quote", "intensequote", "blocktext", "blockquote", "blockquotation", "quotation", "quotations"}
"""Names of the styles of word processors for block quotations, in lower case and without spaces."""
MAX_OPACITY = 0.05
MAX_STEPS = 3_000_000
"""Steps, of about a microsecond each, in which styles are read and their selectors compared with elements."""
MAX_VALUE, MAX_REFERENCES = 200, 8
"""Longest value that may refer to others, and how often it may."""

WHITE, BLACK = (255, 255, 255), (0, 0, 0)
MAX_WINDOW = 3000.0
"""Largest width and height of a window in points."""
_UNITS = {"pt": 1.0, "px": 0.75, "in": 72.0, "cm": 72 / 2.54, "mm": 7.2 / 2.54, "pc": 12.0, "rem": 12.0}
_UNITS |= {"vw": 9.6, "vh": 5.4}  # of a usual window
_LENGTH = re.compile(r"(-?(?:\d+(?:\.\d*)?|\.\d+))([a-z]+|%)?(?:[\s/]|$)")
_MOVED = re.compile(r"translate(?:x|y|3d)?\((?:[^()]*,)?\s*(-[\w.]+)")
_SCALED = re.compile(r"scale(?:x|y|3d)?\((?:[^()]*,)?\s*(?=[\d.])0?(?:\.0\d*)?\s*[,)]")
"""By less than a tenth."""
_ENDS = [f"{name}{end}" for name in ("inset", "inset-block", "inset-inline") for end in ("", "-start", "-end")]
_ENDS += ["left", "top", "right", "bottom"]
_WIDE = re.compile(r"\((?:min-width:|width\s*>=?)\s*([\d.]+[a-z]*)\)")
_FILTER = re.compile(r"opacity\(([^()]*)\)")
_VARIABLE = re.compile(r"var\(\s*(--[\w-]+)\s*(?:,([^()]*))?\)")
_LOOKS_AROUND = re.compile(r"-of-type|\bof\b")
"""In selectors that compare an element with others in a way that cannot be counted."""
_DATA = re.compile(r"data:[^\"')]*")
_INHERITED = ("", "inherit", "initial", "unset", "none", "auto")
_PROPERTIES = """
-webkit-background-clip -webkit-text-fill-color background background-clip background-color border-inline-start
border-left bottom clip clip-path color content-visibility display filter font font-size font-style height inset
inset-block inset-block-end inset-block-start inset-inline inset-inline-end inset-inline-start left margin margin-inline
margin-inline-end margin-inline-start margin-left margin-right max-height max-width opacity overflow padding
padding-inline padding-inline-end padding-inline-start padding-left padding-right position right scale text-indent top
transform translate visibility width zoom
"""
PROPERTIES = frozenset(_PROPERTIES.split())


class TextStyle(NamedTuple):
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
    variables: Mapping[str, str] = MappingProxyType({})

    @property
    def hides(self) -> bool:
        """Return True if a reader sees nothing, and no gap."""
        return not self.is_shown or self.size <= MAX_TINY_SIZE

    @property
    def leaves_gap(self) -> bool:
        """Return True if a reader sees a gap in place of the text."""
        return not self.is_visible or not self.is_opaque or are_alike(self.colour, self.background)

    def inherit(self, declared: Mapping[str, str]) -> "TextStyle":
        """Return the look of an element within this one."""
        if not declared:
            return self
        numbers = (part for part in declared.get("font", "").split() if re.search(r"\d", part))
        size = declared.get("font-size") or next(numbers, "")
        visibility = declared.get("visibility", "visible" if self.is_visible else "hidden")
        background = declared.get("background-color") or declared.get("background", "")
        below = parse_colour(background, self.background)
        clip = declared.get("background-clip") or declared.get("-webkit-background-clip")
        value = declared.get("-webkit-text-fill-color") or declared.get("color", "")
        colour = None if clip == "text" else self.colour if value in _INHERITED else parse_colour(value, below)
        opacities = [declared.get("opacity", ""), *_FILTER.findall(declared.get("filter", ""))]
        variables = {name: value for name, value in declared.items() if name.startswith("--")}
        return TextStyle(
            self.is_shown and declared.get("display") != "none" and not is_moved_away(declared),
            visibility not in ("hidden", "collapse"),
            self.is_opaque
            and (clip == "text" or not _is_transparent(value))
            and all(_read_share(opacity) > MAX_OPACITY for opacity in opacities),
            # of 0 a browser makes 1
            measure(size, self.size, self.size) * (_read_share(declared.get("zoom", "")) or 1),
            colour,
            below,
            {**self.variables, **variables} if variables else self.variables,
        )


def are_alike(colour: Colour | None, background: Colour | None) -> bool:
    """Return True if no reader can tell two colours from each other."""
    if colour is None or background is None:
        return False
    return max(abs(a - b) for a, b in zip(colour, background, strict=True)) <= MAX_COLOUR_DISTANCE


def parse_colour(value: str, below: Colour | None) -> Colour | None:
    """Return red, green and blue of a colour above another one, None for one that is not known, such as a picture."""
    if value in _INHERITED:
        return below
    colour = _read_colour(value)
    if colour is None or (colour.alpha < 1 and below is None):
        return None
    if colour.space in ("srgb", "hsl", "hwb"):
        shares = colour.to("srgb").coordinates
    else:  # of the others, which screens show differently, only white and black are alike everywhere
        lightness = colour.coordinates[:1] if colour.space.endswith(("lab", "lch")) else colour.coordinates
        shares = [(share or 0) / (100 if colour.space in ("lab", "lch") else 1) for share in lightness]
        if not (min(shares) > 0.98 or max(shares) < 0.02):
            return None
        shares = shares[:1] * 3
    channels = (255 * min(1.0, max(0.0, share)) for share in shares)
    red, green, blue = (
        round(channel * colour.alpha + other * (1 - colour.alpha))
        for channel, other in zip(channels, below or BLACK, strict=True)
    )
    return red, green, blue


def _read_colour(value: str) -> Any:
    try:
        colour = parse_color(value)
    except ValueError:  # such as one without numbers
        return None
    return None if isinstance(colour, str) else colour


def _is_transparent(value: str) -> bool:
    colour = _read_colour(value)
    return colour is not None and colour.alpha <= MAX_OPACITY


def _read_share(value: str) -> float:
    """Return a number or a percentage as a share, else 1."""
    match = _LENGTH.match(value.strip())
    return 1.0 if match is None else float(match[1]) * (0.01 if match[2] else 1)


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
    """Return True for the name of a style for block quotations, also as an ODT or a page that Word saved spells it."""
    return style.replace("_20_", "").replace(" ", "").casefold().removeprefix("mso") in QUOTATION_STYLES


def _is_for_wide_window(condition: str) -> bool:
    """Return True for the condition of a sheet that a screen with a wide window meets."""
    parts = condition.removeprefix("only ").split(" and ")
    widths = map(_WIDE.fullmatch, parts)
    return all(
        part in ("all", "screen") or (width is not None and measure(width[1], 12, MAX_WINDOW) <= 100 * _UNITS["vw"])
        for part, width in zip(parts, widths, strict=True)
    )


def is_moved_away(declared: Mapping[str, str]) -> bool:
    """Return True for an element that lies outside of the page or has no room."""
    position = declared.get("position", "static")
    ends = [end for name in _ENDS if position != "static" for end in declared.get(name, "").split()]
    places = [*ends, *declared.get("translate", "").split()]
    places += [declared.get(name, "") for name in ("text-indent", "margin-left")]
    sizes = (declared.get(name, "") for name in ("width", "height", "max-width", "max-height"))
    return (
        any(_is_beyond(place[1:], MIN_OFFSET) for place in places if place.startswith("-"))
        # what is fixed cannot be scrolled to
        or (position == "fixed" and any(_is_beyond(end, MAX_WINDOW) for end in ends))
        or (declared.get("overflow") in ("hidden", "clip") and any(0 <= measure(size, 12, 9) <= 1 for size in sizes))
        or bool(re.match(r"rect\((?:[01](?:px)?[\s,]*){4}\)", declared.get("clip", "")))
        or declared.get("clip-path", "").startswith(("inset(50%", "inset(100%", "circle(0"))
        or bool(_SCALED.search(f"{declared.get('transform', '')} scale({declared.get('scale', 'none')})"))
        or any(_is_beyond(place[1:], MIN_OFFSET) for place in _MOVED.findall(declared.get("transform", "")))
    )


def _is_beyond(distance: str, points: float) -> bool:
    """Return True for a distance of so many points, or of a whole window."""
    unit = distance[-2:]
    return measure(distance, 12, 0) >= (100 * _UNITS[unit] if unit in ("vw", "vh") else points)


class Styles:
    """The declarations about the elements of a page.

    Args:
        root: the outermost element.
        sheets: the content of its ``style`` elements.

    Raises:
        ValueError: it takes too many steps.
    """

    def __init__(self, root: Any, sheets: str = "") -> None:
        class Element(ElementWrapper):  # type: ignore[misc]
            ancestors = property(lambda element: self._follow(element, "parent"))
            previous_siblings = property(lambda element: self._follow(element, "previous"))

            def iter_children(element) -> Iterator[Any]:  # noqa: N805 - self is the styles
                for child in super().iter_children():
                    self._take(8 * self._weight)
                    yield child

        self._steps, self._weight = 0, 1
        self._attributes: dict[str, Layer] = {}
        self._layers: dict[Any, list[Layer]] = {}
        if sheets:
            matcher = self._read_sheets(_DATA.sub("", sheets), sum(1 for _ in root.iter()))
            try:
                for element in Element.from_html_root(root).iter_subtree():
                    if layers := [layer for *_, layer in matcher.match(element)]:
                        self._layers[element.etree_element] = layers
            except RecursionError as e:
                raise ValueError("elements are nested too deep") from e

    def _take(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise ValueError("its styles are too many")

    def _follow(self, element: Any, name: str) -> Iterator[Any]:
        """Yield the elements that one after another are named by an attribute, for a step each."""
        while (element := getattr(element, name)) is not None:
            self._take(self._weight)
            yield element

    def _read_sheets(self, sheets: str, elements: int) -> Matcher:
        matcher = Matcher()
        self._take(2 * len(sheets))
        for rule in _list_rules(tinycss2.parse_stylesheet(sheets, skip_comments=True, skip_whitespace=True)):
            layer = _read_layer(rule.content)
            for is_comma, tokens in groupby(rule.prelude, lambda token: token == ",") if any(layer) else ():
                if not is_comma and (selector := self._compile(list(tokens), elements)) is not None:
                    matcher.add_selector(selector, layer)
        return matcher

    def _compile(self, tokens: list[Any], elements: int) -> Any:
        """Return a selector, None for one that is not valid, not known, or of no element; a browser passes over it."""
        try:
            text = _write(tokens)
            self._take(20 + 2 * len(text))
            (selector,) = compile_selector_list(tokens)
        except (SelectorError, NotImplementedError):
            return None
        except (RecursionError, MemoryError, SyntaxError) as e:  # of the expression that is made of it
            raise ValueError("its styles are nested too deep") from e
        test, weight = selector.test, (1 + len(text) // 32) * (1 + elements // 16 if _LOOKS_AROUND.search(text) else 1)

        def test_in_steps(element: Any) -> bool:
            self._weight = weight
            self._take(weight)
            result, self._weight = bool(test(element)), 1
            return result

        selector.test = test_in_steps
        return selector if selector.pseudo_element is None else None

    def find_declarations(self, element: Any, variables: Mapping[str, str]) -> dict[str, str]:
        """Return what is declared about an element, in lower case.

        Args:
            element: the element.
            variables: those of the element around it.

        Raises:
            ValueError: it takes too many steps.
        """
        style = element.get("style") or ""
        if style not in self._attributes:
            self._take(20 + 2 * len(style))
            self._attributes[style] = _read_layer(style)
        layers = [*self._layers.get(element, ()), self._attributes[style]]
        attributes = {"color": element.get("color"), "background-color": element.get("bgcolor")}
        declared = {name: value.lower() for name, value in attributes.items() if value}
        for is_important in (False, True):
            for layer in layers:
                declared |= layer[is_important]
        if any(name.startswith("--") for name in declared):
            self._take(len(variables) // 16)
        return {name: self._fill(value, declared, variables) for name, value in declared.items()}

    def _fill(self, value: str, *variables: Mapping[str, str]) -> str:
        """Return a value with those of the variables that it refers to."""

        def find(match: re.Match[str]) -> str:
            found = next((own[match[1]] for own in variables if match[1] in own), match[2] or "")
            return found if len(found) <= MAX_VALUE else ""

        for _ in range(MAX_REFERENCES):
            if "var(" not in value or len(value) > MAX_VALUE:
                break
            self._take(len(value) // 4)
            value = _VARIABLE.sub(find, value).strip()
        return value


def parse_declarations(style: str) -> dict[str, str]:
    """Return the declarations of a style that matter here, in lower case; of one property an important one wins."""
    usual, important = _read_layer(style)
    return usual | important


def _write(tokens: Iterable[Any]) -> str:
    try:
        return str(tinycss2.serialize(tokens)).strip()
    except RecursionError as e:
        raise ValueError("its styles are nested too deep") from e


def _read_layer(content: Any) -> Layer:
    layer: Layer = ({}, {})
    for node in tinycss2.parse_blocks_contents(content, skip_comments=True, skip_whitespace=True):
        if node.type == "declaration" and (node.lower_name in PROPERTIES or node.name.startswith("--")):
            layer[node.important][node.lower_name] = _write(node.value).lower()
    return layer


def _list_rules(nodes: Iterable[Any], depth: int = 0) -> Iterator[Any]:
    """Yield the rules for every screen."""
    for node in nodes:
        if node.type == "qualified-rule":
            yield node
        elif node.type == "at-rule" and node.content is not None and depth < 4:
            name, condition = node.lower_at_keyword, _write(node.prelude).lower()
            if name in ("layer", "supports") or (name == "media" and _is_for_wide_window(condition)):
                inner = tinycss2.parse_rule_list(node.content, skip_comments=True, skip_whitespace=True)
                yield from _list_rules(inner, depth + 1)
