"""Tell whether a text is English, the only language that the thresholds were calibrated on."""

import re

_WORD = re.compile(r"[^\W\d_]+")
_FREQUENT = """
the of and to in a is that was it for on with as be at by this are from or have an not which were they their but has had
his her its we you can all one there been if more when who will would so what about into than them these
"""
FREQUENT = frozenset(_FREQUENT.split())
"""Words of every English text, about two of five; of other languages that share some, at most one of eight."""
LEAST_SHARE = 0.2
LEAST_WORDS = 20
"""A shorter text is not judged."""
WARNING = "not calibrated for this language: the text does not seem to be English"


def seems_english(text: str) -> bool:
    """Return whether enough words of a text are frequent English ones; True for a very short text."""
    words = _WORD.findall(text.lower())
    return len(words) < LEAST_WORDS or sum(word in FREQUENT for word in words) >= LEAST_SHARE * len(words)
