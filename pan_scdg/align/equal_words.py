"""Find the equal words of two passages, which a report marks: a reworded passage keeps names, numbers and terms."""

from collections.abc import Iterable, Iterator
from functools import cache

import numpy as np

from pan_scdg.align.seeds import find_runs
from pan_scdg.align.units import Integers, Words, normalise_word, read_words, stem_word

MIN_RUN_WORDS = 4
"""Equal words in a row that are marked as one stretch if one of them is no function word."""
MIN_WORD_LENGTH = 2
"""Characters of a single word that is marked, unless it is a number."""
FUNCTION_WORDS = """
a about above after again against all almost also although always am among amongst an and another any are around as at
away be because been before being below besides between both but by can cannot could did do does doing done down
during each either else enough even ever every few for from further get gets got had has have having he her here hers
herself him himself his how however if in into is it its itself just less made make makes making many may me might
more most much must my myself near neither never no none nor not now of off often on once one only onto or other
others our ours out over own per perhaps quite rather said same say says shall she should since so some still such
take taken takes than that the their theirs them themselves then there therefore these they thing things this those
though through thus to too took toward towards under until up upon us very was way ways we well were what whatever
when where whereas whether which while who whom whose why will with within without would yet you your yours

aber alle als auch auf aus bei beim bis da damit dann das dass dem den denn der des die diese diesem diesen dieser
dieses doch du durch ein eine einem einen einer eines er es für haben hat hatte hatten ich ihm ihn ihnen ihr ihre
ihrem ihren ihrer im ist ja jede jeder jedoch kann kein keine können mehr mit muss nach nicht noch nur ob oder ohne
schon sehr sein seine seinem seinen seiner sich sie sind soll über um und uns unter vom von vor waren weil wenn wer
werden wie wieder wir wird wo wurde wurden zu zum zur zwischen

au aux avec ce ces cette comme dans de du elle elles en est et était été être il ils je la le les leur leurs lui mais
même ne nos notre nous ont ou où par pas plus pour qu que qui sa sans se ses si sont sur tous tout très un une vous

al aunque como con cual cuando del desde donde el ella ellas ellos entre eran esa ese eso esta estaba están estas este
esto estos fue fueron había han hasta hay las lo los más mi muy otra otras otro otros para pero por porque sido sobre
su sus también tan tiene todo todos una uno unos ya
"""
"""Words of any English, German, French or Spanish text, without a few that have content in another, such as "war"."""

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
    words = (form for form in text.forms if form.isdigit() or len(form) >= MIN_WORD_LENGTH)
    return {stem_word(form) for form in words if form not in _fold_function_words()}


@cache
def _fold_function_words() -> frozenset[str]:
    return frozenset(map(normalise_word, FUNCTION_WORDS.split()))


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
