"""Find what makes a text look otherwise than it is compared: controls of direction, and letters set apart by spaces."""

import re
import unicodedata
from collections.abc import Iterator

MIN_CONTROLS_SHARE = 0.02
"""Controls that set a direction, as a share of the characters; Hebrew and Arabic texts have fewer."""
MIN_LETTERS_APART = 40
"""Single letters in a row: more than an alphabet has."""
_OVERRIDES = re.compile("[\u202d\u202e]")
_CONTROLS = re.compile("[\u202a\u202b\u2066-\u2068]")
_UNSPACED = "\u0e00"
"""From here on there are scripts in which one character may be a word."""


def find_disguise(text: str) -> str:
    """Return the names of the characters that disguise a text, separated by commas; empty without any.

    An override of the direction shows letters in reverse order; so do many embeddings and isolates.
    """
    return ", ".join(_list_disguises(text))


def _list_disguises(text: str) -> Iterator[str]:
    controls = set(_OVERRIDES.findall(text))
    others = _CONTROLS.findall(text)
    if len(others) > MIN_CONTROLS_SHARE * len(text):
        controls |= set(others)
    yield from (f"U+{ord(sign):04X} {unicodedata.name(sign)}" for sign in sorted(controls))
    apart = 0
    for word in text.split():
        apart = apart + 1 if len(word) == 1 and word < _UNSPACED and word.isalpha() else 0
        if apart == MIN_LETTERS_APART:
            yield "spaces between letters"
            return
