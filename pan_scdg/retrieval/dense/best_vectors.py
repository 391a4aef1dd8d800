"""The vectors most similar to each query vector, exactly, by blocked float32 products within a memory bound.

A float32 product is off by at most ``error`` (`similarity.error_bound`). The running selection of a query vector keeps
what may be among its best: everything not surely worse than the ``kept``-th best so far. Only what is left in doubt
at the end is computed exactly. The result is therefore a function of the vectors alone: block sizes, threads and the
BLAS library cannot change it.
"""

import mmap
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserError
from pan_scdg.retrieval.dense.similarity import (
    STEP,
    Float32s,
    Floats,
    Steps,
    blas_threads,
    error_bound,
    exact_steps,
    float32_products,
    lengths,
    steps_of,
    with_longest,
)

MEMORY = 1 << 30
"""Working memory of a search in bytes, unless the caller sets another."""
BLOCK_BYTES = 32 << 20
"""Size of a block of vectors in float32: smaller ones let threads wait for each other more often."""
MORE_MEMORY = "give the search more memory (--search-memory)"
LEAST_BLOCK, MOST_ROWS = 64, 1 << 16
SLOT, PRODUCT = 48, 64
Positions = npt.NDArray[np.int64]


class Best(NamedTuple):
    """The best vectors of one query vector, in no order; `decided` when their similarities leave no doubt."""

    positions: Positions
    least: Steps
    most: Steps
    """The least and the most steps that the similarity can have."""
    sure: int
    """The first so many are surely among the best ..."""
    kept: int
    """... which are so many, or all if there are fewer."""


def best_vectors(
    queries: Float32s, vectors: Floats, kept: int, memory: int = MEMORY, ties: Positions | None = None
) -> Iterator[Best]:
    """For each query vector the ``kept`` most similar vectors, and those that may be among them: see `decided`.

    Args:
        queries: ``[s, d]``.
        vectors: ``[c, d]``, float16 or float32; a memory map will do, a block is read at a time.
        kept: how many.
        memory: bytes that the search may use besides its arguments; more query vectors fit in one pass with more.
        ties: of vectors with equal steps the one with the smaller number here is better, ``[c]``; all differ.
            None: the earlier one.

    Raises:
        ValueError: shapes disagree, a value is not finite, or ``kept`` is below 1.
        UserError: ``memory`` is too small.
    """
    if queries.ndim != 2 or vectors.ndim != 2 or queries.shape[1] != vectors.shape[1]:
        raise ValueError(f"vectors of shapes {queries.shape} and {vectors.shape} do not fit")
    if kept < 1:
        raise ValueError(f"at least 1 vector must be kept, not {kept}")
    rows, block = _plan(queries.shape, len(vectors), kept, memory)
    for start in range(0, len(queries), rows):
        yield from _Selection(queries[start : start + rows], vectors, kept, block, ties).best()


def _plan(shape: tuple[int, ...], count: int, kept: int, memory: int) -> tuple[int, int]:
    """Query vectors a pass and vectors a block for this much memory: all rows if possible, then large blocks."""
    rows, width = min(MOST_ROWS, max(1, shape[0])), shape[1]
    kept = min(kept, max(1, count))
    while True:
        # Bytes of a slot and of a product, with the copies and indices that moving them takes (measured: see the test).
        block = (memory - rows * (2 * kept * SLOT + 16 * width)) // (4 * width + rows * (SLOT + PRODUCT))
        most = max(LEAST_BLOCK, BLOCK_BYTES // (4 * max(1, width)))
        if block >= min(most, max(LEAST_BLOCK, count)) or (rows == 1 and block >= LEAST_BLOCK):
            return rows, min(most, block)
        if rows == 1:
            raise UserError(
                f"{memory} bytes of memory are too few to search vectors of {width} dimensions, {kept} kept",
                MORE_MEMORY,
            )
        rows = -(-rows // 2)


class _Selection:
    """The running selection for some query vectors: slots with a float32 product and a position, [s, slots]."""

    def __init__(self, queries: Float32s, vectors: Floats, kept: int, block: int, ties: Positions | None) -> None:
        self._queries, self._vectors, self._block, self._ties = queries, vectors, block, ties
        self._kept = min(kept, max(1, len(vectors)))
        self._most = 2 * self._kept + block
        self._scores = np.full((len(queries), self._most), -np.inf, np.float32)
        self._positions = np.zeros((len(queries), self._most), np.int64)
        self._filled = np.zeros(len(queries), np.int64)
        self._floor = np.full(len(queries), -np.inf, np.float32)
        self._relative_error = 1.001 * error_bound(queries.shape[1]) * lengths(queries).astype(np.float64)
        self._error: npt.NDArray[np.float64] = np.zeros(len(queries))
        self._longest = 0.0

    def best(self) -> Iterator[Best]:
        """Go through all vectors; then the result for each query vector."""
        for start, products in self._products():
            if start == 0 and len(products) > self._kept:
                self._raise_floor(np.partition(products.T, -self._kept, axis=1)[:, -self._kept])
            self._add(start, products)
        for row in range(len(self._queries)):
            yield self._bounded(row)

    def _products(self) -> Iterator[tuple[int, Float32s]]:
        """Start of each block of vectors and its products with the query vectors, [block, s]."""
        block, count = min(self._block, max(1, len(self._vectors))), len(self._queries)
        wide = np.empty((block, self._queries.shape[1]), np.float32)
        out, part = np.empty((block, count), np.float32), np.empty((block, count), np.float32)
        with ThreadPoolExecutor(blas_threads()) as pool:
            for start in range(0, len(self._vectors), block):
                found, longest = self._read(start, wide, pool)
                leave(self._vectors)
                self._longest = max(self._longest, longest)
                self._error = self._relative_error * self._longest * 1.001 + 1e-30
                float32_products(found, self._queries, out[: len(found)], part[: len(found)])
                yield start, out[: len(found)]

    def _read(self, start: int, wide: Float32s, pool: Executor) -> tuple[Float32s, float]:
        """The block of vectors that begins at ``start``, in float32, and the length of the longest."""
        block = self._vectors[start : start + len(wide)]
        share = max(1, (1 << 20) // max(1, wide.shape[1]))
        slices = [slice(i, min(i + share, len(block))) for i in range(0, len(block), share)]

        def longest(part: slice) -> float:
            return with_longest(block[part], wide[part])[1]

        found = max(pool.map(longest, slices))
        return (np.asarray(block, np.float32) if block.dtype == np.float32 else wide[: len(block)]), found

    def _raise_floor(self, kth: Float32s) -> None:
        """What is below the floor has surely fewer steps than ``kept`` others; ``kth`` is the kept-th best product."""
        floor = (kth.astype(np.float64) - 2 * self._error - 1.01 * STEP).astype(np.float32)
        self._floor = np.maximum(self._floor, np.nextafter(floor, np.float32(-np.inf)))

    def _add(self, start: int, products: Float32s) -> None:
        places = np.flatnonzero(products >= self._floor)
        columns, rows = np.divmod(places, len(self._queries))
        by_row = np.argsort(rows.astype(np.uint16), kind="stable")  # of short integers NumPy sorts ten times as fast
        self._append(rows[by_row], products.ravel()[places[by_row]], start + columns[by_row])
        if int(self._filled.max(initial=0)) > 2 * self._kept:
            self._cut()

    def _append(self, rows: Positions, scores: Float32s, positions: Positions) -> None:
        """Put the entries, sorted by row, behind those of their rows."""
        counts = np.bincount(rows, minlength=len(self._queries))
        slots = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts) + self._filled[rows]
        self._scores[rows, slots], self._positions[rows, slots] = scores, positions
        self._filled += counts

    def _cut(self) -> None:
        """Drop what is surely not among the best; where too much is in doubt, decide it."""
        used = int(self._filled.max())
        scores = self._scores[:, :used]
        self._raise_floor(np.partition(scores, used - self._kept, axis=1)[:, used - self._kept])
        rows, slots = np.nonzero(scores >= np.maximum(self._floor, np.float32(-3e38))[:, None])
        self._refill(rows, scores[rows, slots], self._positions[rows, slots])
        for row in np.flatnonzero(self._filled > 2 * self._kept):
            self._cut_exactly(int(row))

    def _refill(self, rows: Positions, scores: Float32s, positions: Positions) -> None:
        self._filled[:] = 0
        self._scores.fill(-np.inf)
        self._append(rows, scores, positions)

    def _cut_exactly(self, row: int) -> None:
        found = decided(self._queries[row], self._vectors, self._bounded(row), self._ties)
        used = slice(self._filled[row])
        kept = np.isin(self._positions[row, used], found.positions)
        scores, positions = self._scores[row, used][kept], self._positions[row, used][kept]
        self._scores[row].fill(-np.inf)
        self._scores[row, : len(scores)], self._positions[row, : len(scores)] = scores, positions
        self._filled[row] = len(scores)

    def _bounded(self, row: int) -> Best:
        """What may be among the ``kept`` best of a row's entries, the sure ones first."""
        positions = self._positions[row, : self._filled[row]]
        scores = self._scores[row, : self._filled[row]].astype(np.float64)
        least, most = steps_of(scores - self._error[row]), steps_of(scores + self._error[row])
        if len(positions) <= self._kept:
            return Best(positions.copy(), least, most, len(positions), self._kept)
        place = len(positions) - self._kept
        # The kept-th best has at least ``low`` and at most ``high`` steps.
        low, high = np.partition(least, place)[place], np.partition(most, place)[place]
        sure, doubtful = np.flatnonzero(least > high), np.flatnonzero((least <= high) & (most >= low))
        chosen = np.concatenate([sure, doubtful])
        known = len(chosen) if len(chosen) <= self._kept else len(sure)
        return Best(positions[chosen], least[chosen], most[chosen], known, self._kept)


def decided(query: Float32s, vectors: Floats, found: Best, ties: Positions | None = None) -> Best:
    """The same without doubt about what is among the best; ``ties`` as for `best_vectors`."""
    if found.sure == len(found.positions):
        return found
    doubtful = found.positions[found.sure :]
    steps = exact_at(query, vectors, doubtful)
    better = np.lexsort((doubtful if ties is None else ties[doubtful], -steps))[: found.kept - found.sure]
    positions = np.concatenate([found.positions[: found.sure], doubtful[better]])
    least = np.concatenate([found.least[: found.sure], steps[better]])
    most = np.concatenate([found.most[: found.sure], steps[better]])
    return Best(positions, least, most, len(positions), found.kept)


def exact_at(query: Float32s, vectors: Floats, positions: Positions) -> Steps:
    """Exact steps of one query vector with the vectors at ``positions``."""
    part = max(1, BLOCK_BYTES // (32 * max(1, len(query))))  # float64 and its sources take more room than a block
    parts = [exact_steps(query, vectors[positions[i : i + part]]) for i in range(0, len(positions), part)]
    leave(vectors)
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def leave(vectors: Floats) -> None:
    """Let go of the pages of a memory map that were read; they stay in the system's cache while there is room."""
    if isinstance(vectors, np.memmap) and isinstance(vectors.base, mmap.mmap):
        vectors.base.madvise(mmap.MADV_DONTNEED)
