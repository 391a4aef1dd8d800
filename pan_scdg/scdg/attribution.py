"""Attribute the passages of a query to the source that makes each of them cheapest (not in the paper)."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.scdg.aggregation import Floats
from pan_scdg.scdg.sequences import Offsets


class Attribution(NamedTuple):
    """A passage of a target, the source that explains it best, and the second best."""

    begin: int
    end: int
    """The character after the last."""
    best: int
    """Row of the source."""
    gain: float
    """Mean over the passage's tokens, in nats per token."""
    second: int | None
    """Row of the source with the second largest mean; None if there is only one source."""
    margin: float | None
    """Difference between the first mean and the second."""


def attribute_passages(gains: Floats, offsets: Offsets, units: Sequence[tuple[int, int]]) -> list[Attribution]:
    """Return the passages that a source makes easier to predict, in the order of the target.

    Each unit belongs to the source with the largest mean gain over its tokens, and neighbouring units of one source are
    one passage. A unit without tokens, or whose largest mean is not positive, belongs to no source. The first of equal
    sources is chosen.

    Args:
        gains: the gains of each source, ``[k, n]`` nats, with ``k`` at least 1.
        offsets: the characters of each token, ``[n, 2]``; empty intervals belong to no unit.
        units: the characters of consecutive parts of the target, such as sentences.
    """
    passages = []
    for row, members in groupby(((_choose_source(gains, offsets, unit), unit) for unit in units), key=lambda x: x[0]):
        if row is not None:
            spans = [unit for _, unit in members]
            passages.append(_describe(gains, offsets, spans[0][0], spans[-1][1], row))
    return passages


def _choose_source(gains: Floats, offsets: Offsets, unit: tuple[int, int]) -> int | None:
    inside = _find_tokens(offsets, *unit)
    if not inside.any():
        return None
    means = gains[:, inside].mean(axis=1)
    best = int(means.argmax())
    return best if means[best] > 0 else None


def _describe(gains: Floats, offsets: Offsets, begin: int, end: int, row: int) -> Attribution:
    means = gains[:, _find_tokens(offsets, begin, end)].mean(axis=1)
    others = [i for i in range(len(means)) if i != row]
    if not others:
        return Attribution(begin, end, row, float(means[row]), None, None)
    second = max(others, key=lambda i: (means[i], -i))
    return Attribution(begin, end, row, float(means[row]), second, float(means[row] - means[second]))


def _find_tokens(offsets: Offsets, begin: int, end: int) -> npt.NDArray[np.bool_]:
    """Return True for the tokens whose middle lies in ``[begin, end)``."""
    middle = offsets.sum(axis=1)
    inside: npt.NDArray[np.bool_] = (offsets[:, 1] > offsets[:, 0]) & (middle >= 2 * begin) & (middle < 2 * end)
    return inside
