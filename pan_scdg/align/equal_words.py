"""Find the equal words of two passages, which a report marks: a reworded passage keeps names, numbers and terms."""

from collections.abc import Iterable, Iterator

import numpy as np

from pan_scdg.align.seeds import find_runs
from pan_scdg.align.units import Integers, Words, read_words, stem_word

MIN_RUN_WORDS = 4
"""Equal words in a row that are marked as one stretch, whatever words they are."""
MIN_WORD_LENGTH = 2
"""Characters of a single word that is marked, unless it is a number."""
_FUNCTION_WORDS = """
a about above after again against all almost also although always am among amongst an and another any are around as at
away back be because been before being below besides between both but by can cannot could did do does doing done down
during each either else enough even ever every few for from further get gets got had has have having he her here hers
herself him himself his how however if in into is it its itself just less made make makes making many may me might
more most much must my myself near neither never no none nor not now of off often on once one only onto or other
others our ours out over own per perhaps quite rather said same say says shall she should since so some still such
take taken takes than that the their theirs them themselves then there therefore these they thing things this those
though through thus to too took toward towards under until up upon us very was way ways we well were what whatever
when where whereas whether which while who whom whose why will with within without would yet you your yours
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""Words of any English text, which are marked in runs only."""

Stretches = list[tuple[int, int]]


def find_equal_words(target: str, source: str) -> tuple[Stretches, Stretches]:
    """Return the stretches of two passages whose words are equal, in characters, in order and without overlap.

    Words are folded as for an alignment. Single words are equal if their stems are, unless they are `FUNCTION_WORDS`.
    """
    first, second = read_words(target), read_words(source)
    common = _list_stems(first) & _list_stems(second)
    runs = find_runs(first, second, MIN_RUN_WORDS)
    return (
        list(_mark(first, common, (run[:2] for run in runs))),
        list(_mark(second, common, (run[2:4] for run in runs))),
    )


def _list_stems(text: Words) -> set[str]:
    return {stem_word(form) for form in text.forms if _has_content(form)}


def _has_content(form: str) -> bool:
    return form.isdigit() or (len(form) >= MIN_WORD_LENGTH and form not in FUNCTION_WORDS)


def _mark(text: Words, common: set[str], runs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the stretches of words in runs and of those with common stems."""
    marked = np.array([_has_content(form) and stem_word(form) in common for form in text.forms], bool)
    for start, end in runs:
        marked[slice(*np.searchsorted(text.words[:, 0], (start, end)))] = True
    edges: Integers = np.flatnonzero(np.diff(marked, prepend=False, append=False)).reshape(-1, 2)
    for begin, end in edges.tolist():
        yield int(text.words[begin, 0]), int(text.words[end - 1, 1])
