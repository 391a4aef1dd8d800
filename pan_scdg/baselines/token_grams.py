"""N-grams of word-like tokens (paper, Pairwise Baselines: Max 4-token-gram containment; Hyperparameter Selection).

A token is a run of letters and digits in lower case; an apostrophe, underscore or hyphen stays where it joins two such
runs.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from pan_scdg.records import TextPair

TOKEN = re.compile(r"[^\W_]+(?:['’_-][^\W_]+)*")


class Overlap(NamedTuple):
    """Overlap of two sets of n-grams, G(P) of the target and G(S) of the source; 0 if one is empty."""

    jaccard: float
    """``|G(P) & G(S)| / |G(P) | G(S)|``."""
    target_containment: float
    """``|G(P) & G(S)| / |G(P)|``."""
    source_containment: float
    """``|G(P) & G(S)| / |G(S)|``."""


class ContainmentScorer:
    """The covered share of the target's tokens; see `measure_covered_tokens`."""

    features: tuple[str, ...] = ("score",)

    def __init__(self, n: int) -> None:
        self.n = n

    def identify(self) -> dict[str, Any]:
        """Return the method and its n."""
        return {"kind": "containment", "n": self.n}

    def score(self, pairs: Iterable[TextPair]) -> Iterator[tuple[float, ...]]:
        """Yield one tuple of numbers per pair, each from 0 to 1."""
        return (
            (measure_covered_tokens(split_tokens(pair.target), split_tokens(pair.source), self.n),) for pair in pairs
        )


class GramOverlapScorer:
    """The three features of the logistic model of n-grams. Its weights are fitted later."""

    features: tuple[str, ...] = Overlap._fields

    def __init__(self, n: int) -> None:
        self.n = n

    def identify(self) -> dict[str, Any]:
        """Return the method and its n."""
        return {"kind": "gram-overlap", "n": self.n}

    def score(self, pairs: Iterable[TextPair]) -> Iterator[tuple[float, ...]]:
        """Yield one tuple of numbers per pair, each from 0 to 1."""
        return (measure_overlap(split_tokens(pair.target), split_tokens(pair.source), self.n) for pair in pairs)


def split_tokens(text: str) -> list[str]:
    """Return the word-like tokens of ``text`` in their order."""
    return TOKEN.findall(text.lower())


def measure_covered_tokens(target: Sequence[str], source: Sequence[str], n: int) -> float:
    """Return the share of target tokens inside an n-gram that also occurs in the source; each token counts once.

    A pair of which one text has fewer than ``n`` tokens scores 0.
    """
    if min(len(target), len(source)) < n:
        return 0.0
    known, covered = set(_iterate_grams(source, n)), np.zeros(len(target), dtype=np.bool_)
    for start, gram in enumerate(_iterate_grams(target, n)):
        if gram in known:
            covered[start : start + n] = True
    return float(covered.mean())


def measure_overlap(target: Sequence[str], source: Sequence[str], n: int) -> Overlap:
    """Return the overlap of the distinct n-grams of both texts.

    The paper names "4-gram Jaccard similarity and the two directional containment scores" and gives no formula; these
    are the usual ones, over sets. The covered share of tokens is another number.
    """
    ours, theirs = set(_iterate_grams(target, n)), set(_iterate_grams(source, n))
    common = len(ours & theirs)
    return Overlap(
        _divide(common, len(ours) + len(theirs) - common), _divide(common, len(ours)), _divide(common, len(theirs))
    )


def _iterate_grams(tokens: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    return zip(*(islice(tokens, i, None) for i in range(n)), strict=False)


def _divide(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
