"""The terms that Terrier 5.11 indexes, without Java: English tokeniser, stopwords, Porter's stemmer.

The stopword list is Terrier's own file, which names its licence.
"""

import re
from collections import Counter
from functools import cache
from itertools import groupby
from pathlib import Path

from pan_scdg.text.stemming import stem_porter

MAX_LENGTH, MAX_EQUAL, MAX_DIGITS = 20, 3, 4
"""Characters, equal characters in a row, and digits that a token may have."""
STOPWORD_FILE = Path(__file__).with_name("terrier_stopwords.txt")
CACHE_SIZE = 1_000_000
"""Largest number of tokens whose terms are cached; then the cache is cleared (about 150 MB)."""

_TOKEN = re.compile(r"[A-Za-z0-9]+")


def _is_kept(token: str) -> bool:
    """Return True unless Terrier's English tokeniser drops the token, a longest run of ASCII letters and digits.

    It drops those that are longer than 20 characters, or hold more than 4 digits or more than 3 equal characters in a
    row, where ``a`` and ``A`` differ.
    """
    if len(token) > MAX_LENGTH or sum(map(str.isdigit, token)) > MAX_DIGITS:
        return False
    return len(token) <= MAX_EQUAL or max(len(list(run)) for _, run in groupby(token)) <= MAX_EQUAL


@cache
def read_stopwords() -> frozenset[str]:
    """Return Terrier's stopword list."""
    lines = STOPWORD_FILE.read_text(encoding="ascii").splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))


class TermPipeline:
    """Converts text to Terrier's terms; the term of each token is cached."""

    def __init__(self) -> None:
        self._stopwords = read_stopwords()
        self._terms: dict[str, str] = {}

    def count_terms(self, text: str) -> dict[str, int]:
        """Return the number of times that each term occurs in the text."""
        cached = self._terms
        counts: dict[str, int] = {}
        for token, count in Counter(_TOKEN.findall(text)).items():
            term = cached.get(token)
            if term is None:
                term = self._cache_term(token)
            if term:
                counts[term] = counts.get(term, 0) + count
        return counts

    def _cache_term(self, token: str) -> str:
        """Cache and return the term of a token; "" for a stopword or a token that Terrier drops."""
        if not _is_kept(token):
            return ""
        word = token.lower()
        term = "" if word in self._stopwords else stem_porter(word)
        if len(self._terms) >= CACHE_SIZE:
            self._terms.clear()
        self._terms[token] = term
        return term
