r"""Query-aware source prefixes (paper, PAN26 source-prefix construction).

Where the paper is silent: overlap is the number of distinct lower-cased ``\w+`` terms a window shares with the query;
windows are taken greedily, ties to the earlier; one that overlaps a chosen one or exceeds the rest of the budget is
skipped; if none fits, the best one is cut to the budget; each window is tokenised alone.
"""

import re
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np

from pan_scdg.scdg.sequences import TokenIds, Tokenizer, encode_text
from pan_scdg.settings import WindowSettings

_WORD = re.compile(r"\S+")
_TERM = re.compile(r"\w+")


class Window(NamedTuple):
    """A window of the source: the index of its first word, its text, and the terms that it shares with the query."""

    start: int
    text: str
    overlap: int


def extract_terms(text: str) -> set[str]:
    r"""Return the distinct lower-cased ``\w+`` terms."""
    return set(_TERM.findall(text.lower()))


class SourceWindows:
    """A source with many queries or segments; its windows are split and tokenised once, when they are needed."""

    def __init__(self, tokenizer: Tokenizer, source: str, settings: WindowSettings) -> None:
        self._tokenizer, self._source, self._settings = tokenizer, source, settings
        self._ids: dict[int, TokenIds] = {}

    def build_prefix(self, query_terms: set[str], budget: int) -> TokenIds:
        """Return the whole source if it fits in ``budget`` tokens, else its chosen windows in source order (int64).

        Raises:
            ValueError: ``budget`` is below 1.
        """
        if budget < 1:
            raise ValueError(f"budget must be at least 1, not {budget}")
        if len(self._whole) <= budget:
            return self._whole
        chosen = self.choose_windows(query_terms, budget)
        if not chosen:  # white space alone has no windows, yet it can be longer than the budget
            return self._whole[:budget]
        return np.concatenate([self._encode_window(w) for w in chosen])[:budget]

    def choose_windows(self, query_terms: set[str], budget: int) -> list[Window]:
        """Return windows of a source that does not fit, in source order; a single one may exceed ``budget``: cut it."""
        ranked = self.rank_windows(query_terms)
        taken: list[Window] = []
        for window in ranked:
            # The order of the tests matters for speed: only a window that overlaps no other is tokenised.
            if not any(abs(window.start - other.start) < self._settings.words for other in taken):
                length = len(self._encode_window(window))
                if length <= budget:
                    taken.append(window)
                    budget -= length
            if not budget:
                break
        return sorted(taken) if taken else ranked[:1]

    def rank_windows(self, query_terms: set[str]) -> list[Window]:
        """Return the considered windows, most shared terms first, ties to the earlier."""
        stride = self._settings.stride
        windows = [Window(i * stride, text, len(terms & query_terms)) for i, (text, terms) in enumerate(self._texts)]
        return sorted(windows, key=lambda w: (-w.overlap, w.start))

    @cached_property
    def _whole(self) -> TokenIds:
        return encode_text(self._tokenizer, self._source)

    @cached_property
    def _texts(self) -> list[tuple[str, set[str]]]:
        """Return the windows with their terms."""
        return [(text, extract_terms(text)) for text in split_windows(self._source, self._settings)]

    def _encode_window(self, window: Window) -> TokenIds:
        if window.start not in self._ids:
            self._ids[window.start] = encode_text(self._tokenizer, window.text)
        return self._ids[window.start]


def split_windows(source: str, settings: WindowSettings) -> list[str]:
    """Return the first ``considered`` windows; window ``i`` begins at word ``i * stride``, the last may be shorter.

    There is no further window once one has reached the last word.
    """
    needed = (settings.considered - 1) * settings.stride + settings.words
    words = [m.span() for m in islice(_WORD.finditer(source), needed)]
    n = len(words)
    starts = range(0, min(n, max(1, n - settings.words + settings.stride)), settings.stride)
    ends = (min(start + settings.words, n) for start in starts)
    return [source[words[start][0] : words[end - 1][1]] for start, end in zip(starts, ends)]
