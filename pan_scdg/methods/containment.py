"""Score pairs by common n-grams of word-like tokens (paper, Max 4-token-gram containment and logistic features)."""

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from pan_scdg.methods import Measurements, Method, MethodOptions, MethodSettings, Values
from pan_scdg.methods.logistic import LogisticWeights
from pan_scdg.methods.simple import SimpleMethod, split_tokens
from pan_scdg.records import TextPair
from pan_scdg.settings import ProfileTables


class ContainmentSettings(MethodSettings):
    """Share of the target's tokens inside a token n-gram that the source also has (Max 4-token-gram containment)."""

    n: int = Field(default=4, ge=1)

    def open(self, profile: ProfileTables, options: MethodOptions, statistics: Any = None) -> Method:
        """Return the method."""
        return ContainmentMethod(self, options)


class GramLogisticSettings(MethodSettings):
    """Logistic model of token n-gram Jaccard similarity and the two directional containments."""

    features = ("jaccard", "target_containment", "source_containment")
    n: int = Field(default=4, ge=1)
    weights: LogisticWeights | None = None
    """The paper gives no coefficients; None: not fitted, decides nothing."""

    @model_validator(mode="after")
    def _has_weights_of_three(self) -> "GramLogisticSettings":
        if self.weights is not None and len(self.weights.coefficients) != len(self.features):
            raise ValueError("weights must have three numbers: Jaccard similarity and the two containments")
        return self

    def compute_score(self, values: Values) -> float:
        """Return the probability of reuse; nan until the weights are fitted."""
        if self.weights is None:
            return math.nan
        return self.weights.compute_probability([values[name] for name in self.features])

    def open(self, profile: ProfileTables, options: MethodOptions, statistics: Any = None) -> Method:
        """Return the method."""
        return GramLogisticMethod(self, options)


class ContainmentMethod(SimpleMethod):
    """Scores a pair by the share of target tokens in common n-grams; see `methods.Method`."""

    def __init__(self, settings: ContainmentSettings, options: MethodOptions) -> None:
        self._n = settings.n

    def score(self, pairs: Sequence[TextPair]) -> list[Measurements]:
        """Return ``score`` of each pair, from 0 to 1."""
        tokens = ((split_tokens(pair.target), split_tokens(pair.source)) for pair in pairs)
        return [Measurements({"score": measure_covered_tokens(target, source, self._n)}) for target, source in tokens]


class GramLogisticMethod(SimpleMethod):
    """Measures the features of the logistic model, whose weights are part of the settings; see `methods.Method`."""

    def __init__(self, settings: GramLogisticSettings, options: MethodOptions) -> None:
        self._n = settings.n

    def score(self, pairs: Sequence[TextPair]) -> list[Measurements]:
        """Return the values of `Overlap` for each pair."""
        tokens = ((split_tokens(pair.target), split_tokens(pair.source)) for pair in pairs)
        return [Measurements(measure_overlap(target, source, self._n)._asdict()) for target, source in tokens]


class Overlap(NamedTuple):
    """Overlap of two sets of n-grams, G(P) of the target and G(S) of the source; 0 if one is empty."""

    jaccard: float
    """``|G(P) & G(S)| / |G(P) | G(S)|``."""
    target_containment: float
    """``|G(P) & G(S)| / |G(P)|``."""
    source_containment: float
    """``|G(P) & G(S)| / |G(S)|``."""


def measure_covered_tokens(target: Sequence[str], source: Sequence[str], n: int) -> float:
    """Return the share of target tokens inside an n-gram that also occurs in the source; each token counts once.

    A pair of which one text has fewer than ``n`` tokens scores 0.
    """
    if min(len(target), len(source)) < n:
        return 0.0
    source_grams, covered = set(_iterate_grams(source, n)), np.zeros(len(target), dtype=np.bool_)
    for start, gram in enumerate(_iterate_grams(target, n)):
        if gram in source_grams:
            covered[start : start + n] = True
    return float(covered.mean())


def measure_overlap(target: Sequence[str], source: Sequence[str], n: int) -> Overlap:
    """Return the overlap of the distinct n-grams of both texts.

    The paper names "4-gram Jaccard similarity and the two directional containment scores" and gives no formula; these
    are the usual ones, over sets. The covered share of tokens is another number.
    """
    target_grams, source_grams = set(_iterate_grams(target, n)), set(_iterate_grams(source, n))
    common = len(target_grams & source_grams)
    sizes = len(target_grams) + len(source_grams) - common, len(target_grams), len(source_grams)
    return Overlap(*(common / size if size else 0.0 for size in sizes))


def _iterate_grams(tokens: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    return zip(*(islice(tokens, i, None) for i in range(n)), strict=False)
