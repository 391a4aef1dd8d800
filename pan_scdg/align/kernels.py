"""The two inner loops of the first stage, which numba compiles: how well sentences match, and whether words do.

They are not exact to the last digit, since sums have another order; who calls them leaves a margin.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from pan_scdg.align.match import CORRECTION, NEARBY, NEIGHBOURS, NO_MATCH, SENTENCES


def measure_matches(cosines: Any, bounds: Any, found: Any) -> None:
    """Write `match.measure_match` of a target and each source into ``found``.

    Args:
        cosines: of the target's sentences with those of all sources, ``[t, n]``.
        bounds: first column of each source, and the number of columns, ``[s + 1]``.
        found: ``[s]``.
    """
    t = cosines.shape[0]
    together = min(SENTENCES, t)
    for k in range(len(found)):
        first, n = bounds[k], bounds[k + 1] - bounds[k]
        found[k] = NO_MATCH
        largest = np.full((t + n, NEIGHBOURS), -2.0)  # of each row, then of each column, in descending order
        for i in range(t):
            for j in range(n):
                cosine = cosines[i, first + j]
                for side in (i, t + j):
                    if cosine > largest[side, NEIGHBOURS - 1]:
                        place = NEIGHBOURS - 1
                        while place and largest[side, place - 1] < cosine:
                            largest[side, place] = largest[side, place - 1]
                            place -= 1
                        largest[side, place] = cosine
        near = np.empty(t + n)
        for side in range(t + n):
            near[side] = CORRECTION * largest[side, : min(NEIGHBOURS, n if side < t else t)].mean()
        width = min(NEARBY, n)
        before = np.zeros(n)
        for i in range(t):
            for place in range(n - width + 1 if n else 0):
                best = -9.0
                for j in range(place, place + width):
                    best = max(best, cosines[i, first + j] - near[i] - near[t + j])
                if together == 1:
                    found[k] = max(found[k], best)
                elif i:
                    found[k] = max(found[k], (before[place] + best) / 2)
                before[place] = best


def has_seed(target: Any, source: Any, least_cosine: float, least_dice: float) -> bool:
    """Return True if any unit of a target and any of a source are as similar as `Comparison.find_seeds` asks.

    Args:
        target: the arrays of a `reachable.WordCounts`.
        source: the same.
        least_cosine: of the weighted stems.
        least_dice: of the distinct stems.
    """
    stems, starts, units, counts, sizes = target
    stems2, starts2, units2, counts2, sizes2 = source
    total = len(sizes) + len(sizes2)
    norms, norms2 = np.zeros(len(sizes)), np.zeros(len(sizes2))
    dots = np.zeros((len(sizes), len(sizes2)))
    common = np.zeros((len(sizes), len(sizes2)), np.int32)
    a = b = 0
    while a < len(stems) or b < len(stems2):
        here = a < len(stems) and (b == len(stems2) or stems[a] <= stems2[b])
        there = b < len(stems2) and (a == len(stems) or stems2[b] <= stems[a])
        frequency = (starts[a + 1] - starts[a] if here else 0) + (starts2[b + 1] - starts2[b] if there else 0)
        weight = np.log(total / frequency) ** 2
        if here:
            for i in range(starts[a], starts[a + 1]):
                norms[units[i]] += weight * counts[i] * counts[i]
        if there:
            for j in range(starts2[b], starts2[b + 1]):
                norms2[units2[j]] += weight * counts2[j] * counts2[j]
        if here and there:
            for i in range(starts[a], starts[a + 1]):
                for j in range(starts2[b], starts2[b + 1]):
                    dots[units[i], units2[j]] += weight * counts[i] * counts2[j]
                    common[units[i], units2[j]] += 1
        a, b = a + here, b + there
    for i in range(len(sizes)):
        for j in range(len(sizes2)):
            if (
                2 * common[i, j] >= least_dice * (sizes[i] + sizes2[j])
                and dots[i, j] > 0
                and dots[i, j] >= least_cosine * np.sqrt(norms[i] * norms2[j])
            ):
                return True
    return False


@cache
def compile_kernels() -> tuple[Callable[..., None], Callable[..., bool]]:
    """Return `measure_matches` and `has_seed` as machine code; compiling takes some seconds, once a process.

    Threads run them side by side.
    """
    import numba

    return numba.njit(nogil=True)(measure_matches), numba.njit(nogil=True)(has_seed)
