"""Find the equal words of two passages, which a report marks: a reworded passage keeps names, numbers and terms."""

from collections.abc import Iterable, Iterator
from functools import cache

import numpy as np

from pan_scdg.align.seeds import find_runs
from pan_scdg.text import languages
from pan_scdg.text.stemming import stem_word
from pan_scdg.text.units import Integers, Words, normalise_word, read_words

MIN_RUN_WORDS = 4
"""Equal words in a row that are marked as one stretch if one of them is no function word."""
MIN_WORD_LENGTH = 2
"""Characters of a single word that is marked, unless it is a number."""
Stretches = list[tuple[int, int]]


def find_equal_words(target: str, source: str) -> tuple[Stretches, Stretches]:
    """Return the stretches of two passages whose words are equal, in characters, in order and without overlap.

    Words are folded as for an alignment. Single words are equal if their stems are, unless they are function words.
    """
    first, second = read_words(target), read_words(source)
    common = _list_stems(first) & _list_stems(second)
    runs = find_runs(first, second, MIN_RUN_WORDS)
    return (
        list(_mark(first, common, (run.target for run in runs))),
        list(_mark(second, common, (run.source for run in runs))),
    )


def _list_stems(text: Words) -> set[str]:
    words = (form for form in text.forms if form.isdigit() or len(form) >= MIN_WORD_LENGTH)
    return {stem_word(form) for form in words if form not in _fold_function_words()}


@cache
def _fold_function_words() -> frozenset[str]:
    return frozenset(map(normalise_word, languages.list_words("function_words")))


def _mark(text: Words, common: set[str], runs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the stretches of words in runs and of those with common stems."""
    functions = _fold_function_words()
    marked = np.array([stem_word(form) in common and form not in functions for form in text.forms], bool)
    for start, end in runs:
        words = slice(*np.searchsorted(text.words[:, 0], (start, end)))
        marked[words] |= not functions.issuperset(text.forms[words])
    edges: Integers = np.flatnonzero(np.diff(marked, prepend=False, append=False)).reshape(-1, 2)
    for begin, end in edges.tolist():
        yield int(text.words[begin, 0]), int(text.words[end - 1, 1])
