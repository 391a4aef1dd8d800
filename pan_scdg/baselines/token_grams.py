"""N-grams of word-like tokens (paper, Pairwise Baselines: Max 4-token-gram containment; Hyperparameter Selection).

A token is a run of letters and digits in lower case; an apostrophe, underscore or hyphen stays where it joins two such
runs.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from pan_scdg.baselines.scorer import TextPair

TOKEN = re.compile(r"[^\W_]+(?:['’_-][^\W_]+)*")


class Overlap(NamedTuple):
    """How much two sets of n-grams, G(P) of the target and G(S) of the source, have in common; 0 where one is empty."""

    jaccard: float
    """``|G(P) & G(S)| / |G(P) | G(S)|``."""
    target_containment: float
    """``|G(P) & G(S)| / |G(P)|``."""
    source_containment: float
    """``|G(P) & G(S)| / |G(S)|``."""


class ContainmentScorer:
    """The covered share of the target's tokens; see `covered_tokens`."""

    features: tuple[str, ...] = ("score",)

    def __init__(self, n: int) -> None:
        self.n = n

    def identity(self) -> dict[str, Any]:
        """The method and its n."""
        return {"kind": "containment", "n": self.n}

    def score(self, pairs: Iterable[TextPair]) -> Iterator[tuple[float, ...]]:
        """One number a pair, from 0 to 1."""
        return ((covered_tokens(tokens_of(pair.target), tokens_of(pair.source), self.n),) for pair in pairs)


class GramOverlapScorer:
    """The three features of the logistic model of n-grams. Its weights are none of them: they are fitted later."""

    features: tuple[str, ...] = Overlap._fields

    def __init__(self, n: int) -> None:
        self.n = n

    def identity(self) -> dict[str, Any]:
        """The method and its n."""
        return {"kind": "gram-overlap", "n": self.n}

    def score(self, pairs: Iterable[TextPair]) -> Iterator[tuple[float, ...]]:
        """Three numbers a pair, each from 0 to 1."""
        return (overlap(tokens_of(pair.target), tokens_of(pair.source), self.n) for pair in pairs)


def tokens_of(text: str) -> list[str]:
    """The word-like tokens of ``text`` in their order."""
    return TOKEN.findall(text.lower())


def covered_tokens(target: Sequence[str], source: Sequence[str], n: int) -> float:
    """Share of target tokens inside an n-gram that the source has, too; each token counts once.

    A pair of which one text has fewer than ``n`` tokens scores 0.
    """
    if min(len(target), len(source)) < n:
        return 0.0
    known, covered = set(_grams(source, n)), np.zeros(len(target), dtype=np.bool_)
    for start, gram in enumerate(_grams(target, n)):
        if gram in known:
            covered[start : start + n] = True
    return float(covered.mean())


def overlap(target: Sequence[str], source: Sequence[str], n: int) -> Overlap:
    """What the distinct n-grams of both texts have in common.

    The paper names "4-gram Jaccard similarity and the two directional containment scores" and gives no formula; these
    are the usual ones, over sets. The covered share of tokens is another number.
    """
    ours, theirs = set(_grams(target, n)), set(_grams(source, n))
    common = len(ours & theirs)
    return Overlap(
        _share(common, len(ours) + len(theirs) - common), _share(common, len(ours)), _share(common, len(theirs))
    )


def _grams(tokens: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    return zip(*(islice(tokens, i, None) for i in range(n)), strict=False)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
