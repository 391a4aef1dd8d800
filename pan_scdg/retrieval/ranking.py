"""A ranking: documents of one query, best first."""

import math
from collections.abc import Mapping
from typing import NamedTuple


class Ranked(NamedTuple):
    """A document and its score in one route; its rank is its position in the ranking, counted from 1."""

    doc_id: str
    score: float


Ranking = list[Ranked]


def top(scores: Mapping[str, float], depth: int) -> Ranking:
    """The ``depth`` best documents: score descending, equal scores by ascending document id.

    Raises:
        ValueError: ``depth`` is below 1 or a score is not a number.
    """
    if depth < 1:
        raise ValueError(f"depth must be at least 1, not {depth}")
    if any(math.isnan(score) for score in scores.values()):
        raise ValueError("a score is not a number")
    return [Ranked(*item) for item in sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:depth]]
