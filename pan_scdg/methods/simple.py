"""What the simple methods have in common: no model, no check of a pair, and a decision about whole documents."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pan_scdg.methods import cover_both
from pan_scdg.models.find import FoundModel
from pan_scdg.records import Passage, TextPair

TOKEN = re.compile(r"[^\W_]+(?:['’_-][^\W_]+)*")
TEXTS_CACHED = 8
"""Texts whose tokens or letters are kept: the pairs of a target often follow each other."""


class SimpleMethod:
    """The parts of the protocol `methods.Method` that most simple methods share."""

    models: Mapping[str, FoundModel] = {}
    fingerprint: str = ""

    def identify(self) -> dict[str, Any]:
        """Return the fields of ``job.json`` that identify the models; none."""
        return {}

    def check(self, pair: TextPair) -> None:
        """Accept every pair."""

    def find_passages(self, pair: TextPair) -> tuple[Passage, ...]:
        """Return one passage over both documents: the decision is about the whole pair."""
        return cover_both(pair)


@lru_cache(TEXTS_CACHED)
def split_tokens(text: str) -> list[str]:
    """Return the word-like tokens of ``text`` in their order, which must not be changed.

    A token is a run of letters and digits in lower case; an apostrophe, underscore or hyphen stays where it joins two
    such runs.
    """
    return TOKEN.findall(text.lower())
