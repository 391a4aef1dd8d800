"""What the simple methods have in common: they score each pair by itself, without a language model."""

import re
from functools import lru_cache

from pan_scdg.methods import Method

TOKEN = re.compile(r"[^\W_]+(?:['’_-][^\W_]+)*")
TEXTS_CACHED = 8
"""Texts whose tokens or letters are kept: the pairs of a target often follow each other."""


class SimpleMethod(Method):
    """A method that decides about whole documents, and accepts every pair."""


@lru_cache(TEXTS_CACHED)
def split_tokens(text: str) -> list[str]:
    """Return the word-like tokens of ``text`` in their order, which must not be changed.

    A token is a run of letters and digits in lower case; an apostrophe, underscore or hyphen stays where it joins two
    such runs.
    """
    return TOKEN.findall(text.lower())
