"""Artificial obfuscation of a passage, after the random operations of the PAN 2009 to 2012 corpora.

Those corpora move, delete, insert and replace words or short runs of words at random; no copy keeps its grammar.
"""

import random
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchmarks.development.texts import sentences
from training.alter import synonym

WORD = re.compile(r"[A-Za-z]{4,}")


class Strength(NamedTuple):
    """Share of words that get a synonym, are deleted, are inserted; share of moved sentences; span of the moves."""

    synonyms: float
    deleted: float
    inserted: float
    moved: float
    span: int


STRENGTHS: Mapping[int, Strength] = {
    1: Strength(0.15, 0.04, 0.04, 0.3, 4),
    2: Strength(0.35, 0.10, 0.10, 0.7, 8),
    3: Strength(0.60, 0.18, 0.18, 1.0, 40),
}


def obfuscate(
    text: str, level: int, foreign: Sequence[str], thesaurus: dict[str, list[str]], rng: random.Random
) -> str:
    """A copy of ``text`` with all operations at ``level`` 1 to 3; inserted words are drawn from ``foreign``."""
    s = STRENGTHS[level]
    parts = [_change(sentence, s, foreign, thesaurus, rng) for sentence in sentences(text)]
    for i in range(len(parts) - 1):
        if rng.random() < s.moved / 2:
            parts[i], parts[i + 1] = parts[i + 1], parts[i]
    return " ".join(p for p in parts if p)


def shuffle_words(text: str, span: int, rng: random.Random) -> str:
    """``text`` with the words of each sentence permuted within runs of ``span`` words; its last mark stays last."""
    return " ".join(_permute(sentence.split(), span, rng) for sentence in sentences(text))


def _change(
    sentence: str, s: Strength, foreign: Sequence[str], thesaurus: dict[str, list[str]], rng: random.Random
) -> str:
    words: list[str] = []
    for word in sentence.split():
        if rng.random() < s.inserted:
            words.append(rng.choice(foreign))
        if rng.random() < s.deleted:
            continue
        replaced = rng.random() < s.synonyms
        words.append(WORD.sub(lambda m: synonym(m[0], thesaurus, rng), word) if replaced else word)
    return _permute(words, s.span, rng) if rng.random() < s.moved else " ".join(words)


def _permute(words: list[str], span: int, rng: random.Random) -> str:
    mark = words[-1][-1] if words and words[-1][-1] in ".!?" else ""
    bare = [w.rstrip(".!?") if i == len(words) - 1 else w for i, w in enumerate(words)]
    runs = [bare[i : i + span] for i in range(0, len(bare), span)]
    for run in runs:
        rng.shuffle(run)
    return " ".join(w for run in runs for w in run if w) + mark
