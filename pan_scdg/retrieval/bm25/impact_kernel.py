"""The hot loop of `bm25_impact`: the best documents of one unit. Plain functions that numba compiles.

Without numba the same search takes NumPy a dozen passes over every posting; with it one, and none for most postings of
common terms (see ``best``).
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

BINS = 1024
MARGIN = 1e-7
"""Rounding to 1e-9 and sums in floating point move a score by far less; whoever is so near the cut is kept."""
STRETCH = 4096
"""Documents whose norms and scores take 64 KiB."""
FEW = 256
"""So few postings are scored sooner than anything can be saved on them."""

Kernel = Callable[..., int]


@cache
def compiled() -> Kernel:
    """``best`` as machine code; compiling takes a second or two, once a process.

    Nothing is cached on disk: the package's folder may be read-only. Addresses are not checked in it: `bm25_impact`
    compares the digests of its files before it lets their numbers be addresses.
    """
    import numba

    # Divisors are never zero; a check of each would keep the loops from taking several documents at once.
    return kernel(partial(numba.njit, error_model="numpy"))


def kernel(jit: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Kernel:
    """The search and its parts, each through ``jit``."""
    least, narrowed, weigh, add, add_known, find = (
        jit(f) for f in (_least, _narrowed, _weigh, _add, _add_known, _find)
    )

    def best(
        spans: Any,
        weights: Any,
        peaks: Any,
        rows: Any,
        docs: Any,
        counts: Any,
        common: Any,
        norms: Any,
        k: float,
        depth: int,
        work: Any,
    ) -> int:
        """Score the documents of one unit exactly, and keep those that can be among the ``depth`` best.

        Terms of negative weight come first: they stand in most documents and only take away, so they make no document
        a candidate unless there are too few others. The rest comes rarest first. As soon as the terms that are left
        cannot lift a new document above the cut, only documents already found are scored any further, and whichever
        cannot reach the cut any more is dropped (MaxScore).

        Args:
            spans: first posting of each term and the one behind its last, ``[t, 2]``.
            weights: inverse document frequencies, ``[t]``, negative ones in front.
            peaks: largest saturation of each term in any document, ``[t]``.
            rows: where each term of negative weight stands in ``common``, ``[t]``.
            docs: document of each posting, ``[p]``.
            counts: how often the document holds the term, ``[p]``.
            common: how often each document holds each of the most common terms, ``[c, n]``.
            norms: length norms, ``[n]``.
            k: ``k1 + 1``.
            depth: how many documents are asked for.
            work: scores ``[n]`` and flags ``[n]``, both zero before and after; the documents kept ``[n]`` and their
                scores ``[n]``, of which as many count as are returned.

        Returns:
            How many documents were kept.
        """
        scores, flags, found, kept = work
        above = np.zeros(len(weights) + 1)  # what the terms from each on can add at most
        for t in range(len(weights) - 1, -1, -1):
            above[t] = above[t + 1] + max(0.0, weights[t] * peaks[t])
        size, closed, negative = 0, False, 0
        while negative < len(weights) and weights[negative] < 0:
            negative += 1
        if negative:
            weigh(common, rows, weights, negative, norms, k, scores)
        for t in range(negative, len(weights)):
            # No document has more than the terms so far can give, so before that the cut cannot be above what is left.
            if size > depth and spans[t, 1] - spans[t, 0] > FEW and (closed or above[t] < above[negative] - above[t]):
                cut = least(scores, found, size, depth, kept) - MARGIN
                closed = closed or above[t] < cut
                if closed:
                    size = narrowed(scores, flags, found, size, cut - above[t])
            if closed:
                add_known(spans[t], weights[t], docs, counts, norms, k, scores, flags)
            else:
                size = add(spans[t], weights[t], docs, counts, norms, k, scores, flags, found, size)
        if negative and not closed:
            needed = least(scores, found, size, depth, kept) - MARGIN if size > depth else -np.inf
            if needed < 0:
                size = find(scores, flags, found, size, needed)
        if size > depth:
            size = narrowed(scores, flags, found, size, least(scores, found, size, depth, kept) - MARGIN)
        for i in range(size):
            kept[i] = scores[found[i]]
            flags[found[i]] = 0
        scores[:] = 0.0
        return size

    return jit(best)


def _least(scores: Any, found: Any, size: int, depth: int, values: Any) -> float:
    """No more than the ``depth``-th best score so far, and hardly less: the edge of a bin of a bin of a histogram.

    ``values`` is room for the scores of those found.
    """
    for i in range(size):
        values[i] = scores[found[i]]
    low, high = values[:size].min(), values[:size].max()
    for _ in range(2):
        if not high > low:
            break
        scale = (BINS - 1) / (high - low)
        bins = np.zeros(BINS, np.int64)
        seen = 0  # counted anew: one at the very edge between two bins would be in both
        for i in range(size):
            if values[i] > high:
                seen += 1
            elif values[i] >= low:
                bins[int((values[i] - low) * scale)] += 1
        edge = BINS
        while edge > 0 and seen + bins[edge - 1] < depth:
            edge -= 1
            seen += bins[edge]
        if edge == 0:
            break  # by rounding at the lower end of the bin, which is low enough
        low, high = low + (edge - 1) / scale, low + edge / scale
    return float(low)


def _narrowed(scores: Any, flags: Any, found: Any, size: int, needed: float) -> int:
    """Drop the documents that have less than is needed; how many are left."""
    left = 0
    for i in range(size):
        doc = found[i]
        if scores[doc] >= needed:
            found[left] = doc
            left += 1
        else:
            flags[doc] = 0
    return left


def _weigh(common: Any, rows: Any, weights: Any, negative: int, norms: Any, k: float, scores: Any) -> None:
    """Add the parts of the first ``negative`` terms to the score of every document, a stretch at a time.

    Norms and scores of a stretch stay in the processor's cache while all terms pass over it.
    """
    for start in range(0, len(scores), STRETCH):
        end = min(start + STRETCH, len(scores))
        near_norms, near_scores = norms[start:end], scores[start:end]
        for t in range(negative):
            counts, weight = common[rows[t], start:end], weights[t]
            for doc in range(len(near_scores)):
                near_scores[doc] += weight * (k * counts[doc] / (near_norms[doc] + counts[doc]))


def _add(
    span: Any,
    weight: float,
    docs: Any,
    counts: Any,
    norms: Any,
    k: float,
    scores: Any,
    flags: Any,
    found: Any,
    size: int,
) -> int:
    """Add a term's part to the documents that hold it, and put them among those found; how many these are now."""
    for p in range(span[0], span[1]):
        doc, count = docs[p], counts[p]
        scores[doc] += weight * (k * count / (norms[doc] + count))
        if not flags[doc]:
            flags[doc] = 1
            found[size] = doc
            size += 1
    return size


def _add_known(span: Any, weight: float, docs: Any, counts: Any, norms: Any, k: float, scores: Any, flags: Any) -> None:
    """The same for documents that are found already, and for no others."""
    for p in range(span[0], span[1]):
        doc = docs[p]
        if flags[doc]:
            scores[doc] += weight * (k * counts[p] / (norms[doc] + counts[p]))


def _find(scores: Any, flags: Any, found: Any, size: int, needed: float) -> int:
    """Put the documents that hold terms of negative weight only among those found, where their score is enough."""
    for doc in range(len(scores)):
        if needed <= scores[doc] < 0 and not flags[doc]:
            flags[doc] = 1
            found[size] = doc
            size += 1
    return size
