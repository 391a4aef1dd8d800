"""The similarity of two vectors: their exact inner product in steps of 1e-6, and how far a float32 product is from it.

A matrix product sums in an order that depends on the library, the processor and the block size; its last bits differ
between them, and equal texts could change places. Similarities are therefore whole numbers of steps, defined by the
exact sum: whatever order a product is summed in, `error_bound` says how far it may be off, and where that leaves two
steps possible `exact_steps` decides.
"""

from collections.abc import Callable
from functools import cache
from math import fsum
from typing import Any

import numpy as np
import numpy.typing as npt

STEP = 1e-6
"""Similarities are multiples of this."""
PANEL = 4096
"""Dimensions whose products are summed in one go: shorter sums have smaller errors."""

Floats = npt.NDArray[np.floating]
Float32s = npt.NDArray[np.float32]
Steps = npt.NDArray[np.int64]


def steps_of(similarities: npt.NDArray[np.float64]) -> Steps:
    """Similarities rounded to whole steps; never decreasing in its argument."""
    steps: Steps = np.rint(similarities / STEP).astype(np.int64)
    return steps


def exact_steps(query: Float32s, vectors: Floats) -> Steps:
    """Steps of the exact inner products of one query vector ``[d]`` with each of ``vectors`` ``[n, d]``, ``[n]``.

    The products of two numbers of at most float32 precision are exact in float64, so only their sum is rounded. Where
    that can matter it is summed again without rounding.
    """
    left, right = query.astype(np.float64), as_float32(vectors).astype(np.float64)
    sums = right @ left
    error = 2.0**-52 * len(left) * np.linalg.norm(left) * np.linalg.norm(right, axis=1)
    steps = steps_of(sums)
    # about one product in a million is doubtful: error / STEP is below 1e-6 for unit vectors of 4,096 dimensions
    doubtful = np.abs(np.abs(sums / STEP - steps) - 0.5) <= 2 * error / STEP + 1e-9
    for i in np.flatnonzero(doubtful):
        steps[i] = steps_of(np.array([fsum((left * right[i]).tolist())]))[0]
    return steps


def error_bound(dimension: int) -> float:
    """Most that `float32_products` of vectors of length 1 can be off (Higham's bound for sums in any order)."""
    roundings = min(dimension, PANEL) + -(-dimension // PANEL) + 1
    unit = 2.0**-24
    return roundings * unit / (1 - roundings * unit)


def float32_products(vectors: Float32s, queries: Float32s, out: Float32s, part: Float32s) -> None:
    """``vectors @ queries.T`` into ``out`` ``[n, s]``, summed ``PANEL`` dimensions at a time; ``part`` is as large."""
    np.matmul(vectors[:, :PANEL], queries[:, :PANEL].T, out=out)
    for start in range(PANEL, queries.shape[1], PANEL):
        np.matmul(vectors[:, start : start + PANEL], queries[:, start : start + PANEL].T, out=part)
        np.add(out, part, out=out)


def blas_threads() -> int:
    """Threads that matrix products use; what prepares them should use as many."""
    from threadpoolctl import threadpool_info

    return max([int(found["num_threads"]) for found in threadpool_info() if found["user_api"] == "blas"], default=1)


def as_float32(vectors: Floats) -> Float32s:
    """The vectors in float32; what is float32 is not copied.

    Raises:
        ValueError: a number is not finite, or the vectors are of another type than float16 and float32.
    """
    return with_longest(vectors)[0]


def with_longest(vectors: Floats, out: Float32s | None = None) -> tuple[Float32s, float]:
    """The vectors ``[n, d]`` in float32, in ``out`` where conversion is needed, and the length of the longest.

    Raises:
        ValueError: as for `as_float32`.
    """
    if vectors.dtype == np.float32:
        same: Float32s = np.asarray(vectors, np.float32)
        return same, float(lengths(same).max(initial=0))
    if vectors.dtype != np.float16:
        raise ValueError(f"vectors are float16 or float32, not {vectors.dtype}")
    wide = np.empty(vectors.shape, np.float32) if out is None else out[: len(vectors)]
    square = float(half_kernel()(np.ascontiguousarray(vectors).view(np.int16), wide))
    return wide, float(_root(np.array([square], np.float32))[0])


def lengths(vectors: Float32s) -> Float32s:
    """Euclidean length of each vector, ``[n]``.

    Raises:
        ValueError: a number is not finite.
    """
    return _root(np.vecdot(vectors, vectors))


def _root(squares: Float32s) -> Float32s:
    # Infinite float16 numbers have become 65,536 or more; comparison with what is not a number is false.
    if not squares.size or squares.max() < 2.0**32:
        return np.sqrt(squares)
    raise ValueError("a vector holds a value that is not finite")


@cache
def half_kernel() -> Callable[[npt.NDArray[np.int16], Float32s], float]:
    """`_widen` as machine code, which lets other threads run; compiling takes half a second, once a process.

    NumPy converts float16 one number at a time; this is as fast as memory.
    """
    import numba

    half, single = numba.types.Array(numba.int16, 2, "C", readonly=True), numba.float32
    # Sums may be taken in any order; infinities must stay what they are.
    compiled: Callable[[npt.NDArray[np.int16], Float32s], float] = numba.njit(
        single(half, single[:, ::1]), nogil=True, fastmath={"reassoc", "contract"}
    )(_widen)
    return compiled


def _widen(half: Any, wide: Any) -> Any:
    """Bits of float16 numbers ``[n, d]`` as float32 numbers; the largest sum of squares of a row."""
    longest = np.float32(0)
    for i in range(half.shape[0]):
        total = np.float32(0)
        for j in range(half.shape[1]):
            bits = np.int32(half[i, j])
            size = bits & np.int32(0x7FFF)
            normal = np.int32((size << np.int32(13)) + np.int32(112 << 23))
            value = normal.view(np.float32) if size >= 1024 else np.float32(size) * np.float32(2.0**-24)
            value = -value if bits < 0 else value
            wide[i, j] = value
            total += value * value
        longest = max(longest, total)
    return longest
