"""Find the vectors most similar to each query vector, by blocks of float32 products within a memory bound.

One path for CPU and GPU. A product is off by at most the error that `similarity.bound_error` gives, so every vector
within that margin of the last place is kept as a candidate, and `select_best` decides between candidates in float64.
The result is a function of the vectors alone; block sizes, threads, libraries and devices cannot change it.
"""

import mmap
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserError
from pan_scdg.models.linear import has_onednn, multiply
from pan_scdg.retrieval.dense.rows import Rows, list_pieces
from pan_scdg.retrieval.dense.similarity import STEP, Float32s, Positions, Steps, bound_error, count_steps

MEMORY = 1 << 30
BLOCK_BYTES = 32 << 20
"""Size of a block of vectors in float32."""
SMALLEST_BLOCK, MOST_ROWS = 64, 1 << 16
SLOT_BYTES, PRODUCT_BYTES = 48, 64
"""Bytes of a product that was kept and of a new one, copies and indices included."""


class Nearest(NamedTuple):
    """Candidates for the best vectors of one query vector, in no order."""

    positions: Positions
    scores: npt.NDArray[np.float64]
    """Their similarities, each off by at most ``error``."""
    error: float
    sure: npt.NDArray[np.bool_]
    """True for those that are among the best whatever their exact similarities are."""


class ExactSearch(NamedTuple):
    """An exact search on one device."""

    memory: int = MEMORY
    """Bytes to use on the device; they bound the speed, not the result."""
    device: str = "cpu"

    def find(self, queries: Float32s, vectors: Rows, kept: int, order: Positions | None = None) -> Iterator[Nearest]:
        """Yield for each query vector all vectors that may be among the ``kept`` most similar ones.

        Args:
            queries: ``[s, d]``.
            vectors: ``[c, d]``, float16 or float32; of a memory map one block is read at a time.
            kept: number of vectors to find.
            order: of vectors with equal steps the one with the smaller number here is better, ``[c]``, all different.
                None: the earlier one.

        Raises:
            ValueError: shapes disagree, a value is not finite, or ``kept`` is below 1.
            UserError: ``memory`` is too small.
        """
        if queries.ndim != 2 or vectors.ndim != 2 or queries.shape[1] != vectors.shape[1]:
            raise ValueError(f"vectors of shapes {queries.shape} and {vectors.shape} do not fit")
        if vectors.dtype not in (np.float16, np.float32):
            raise ValueError(f"vectors are float16 or float32, not {vectors.dtype}")
        if kept < 1:
            raise ValueError(f"at least 1 vector must be kept, not {kept}")
        kept = min(kept, max(1, len(vectors)))
        rows, block = plan_search(len(vectors), queries.shape[1], kept, self.memory)
        for start in range(0, len(queries), rows):
            part = queries[start : start + rows]
            found = [_bound_places(*row, kept) for row in _select_top(part, vectors, 2 * kept, block, self.device)]
            overfull = [near.positions.size == 2 * kept < len(vectors) for near in found]
            exact = self._find_exactly(part[overfull], vectors, kept, order)
            yield from (next(exact) if full else near for near, full in zip(found, overfull))

    def _find_exactly(self, queries: Float32s, vectors: Rows, kept: int, order: Positions | None) -> Iterator[Nearest]:
        """Yield the ``kept`` best of each query vector, by the exact similarities with all vectors."""
        everything = np.arange(len(vectors))
        group = max(1, self.memory // (SLOT_BYTES * max(1, len(vectors))))
        for start in range(0, len(queries), group):
            for steps in count_steps(queries[start : start + group], vectors, everything, self.device):
                yield take_best(everything, steps, kept, order)


def take_best(positions: Positions, steps: Steps, kept: int, order: Positions | None = None) -> Nearest:
    """Return the ``kept`` best vectors by their exact similarities; ``order`` decides between equal ones."""
    best = np.lexsort((positions if order is None else order[positions], -steps))[:kept]
    return Nearest(positions[best], steps[best] * STEP, STEP, np.ones(len(best), bool))


def select_best(query: Float32s, vectors: Rows, found: Nearest, kept: int, device: str = "cpu") -> Nearest:
    """Return exactly the ``kept`` best candidates, equal ones by position."""
    positions, scores, error, sure = found
    if sure.all():
        return found
    doubtful = np.flatnonzero(~sure)
    steps = count_steps(query[None], vectors, positions[doubtful], device)[0]
    best = np.lexsort((positions[doubtful], -steps))[: kept - int(sure.sum())]
    chosen = np.concatenate([np.flatnonzero(sure), doubtful[best]])
    return Nearest(positions[chosen], scores[chosen], error, np.ones(len(chosen), bool))


def plan_search(count: int, width: int, kept: int, memory: int) -> tuple[int, int]:
    """Return the number of query vectors that are searched together, and of vectors in a block: the largest that fit.

    Raises:
        UserError: not even one query vector and a small block fit.
    """
    block = max(SMALLEST_BLOCK, min(count, BLOCK_BYTES // (4 * max(1, width))))
    while True:
        each = 2 * kept * SLOT_BYTES + 16 * width + block * (SLOT_BYTES + PRODUCT_BYTES)
        rows = (memory - 8 * width * block) // each
        if rows >= 1:
            return min(rows, MOST_ROWS), block
        if block == SMALLEST_BLOCK:
            what = f"{memory} bytes of memory are too few to search vectors of {width} dimensions, {kept} kept"
            raise UserError(what, "give the search more memory (--search-memory)")
        block = max(SMALLEST_BLOCK, block // 2)


def _select_top(
    queries: Float32s, vectors: Rows, count: int, block: int, device: str
) -> Iterator[tuple[Float32s, Positions, float]]:
    """Yield the ``count`` largest products of each query vector, filled up with -inf; their positions; their error."""
    import torch

    left, block = torch.from_numpy(queries).to(device), max(1, min(block, len(vectors)))
    relative = 1.001 * bound_error(queries.shape[1]) * _measure_lengths(left).double()
    error, onednn = torch.full_like(relative, 1e-30), device == "cpu" and has_onednn()
    # the best so far, followed by the next block
    scores = torch.full((len(queries), count + block), -torch.inf, device=device)
    positions = torch.zeros((len(queries), count), dtype=torch.int64, device=device)
    for start, right in _read_blocks(vectors, block, device):
        error = torch.maximum(error, relative * _measure_lengths(right).amax())
        end = count + len(right)
        if onednn:
            scores[:, count:end] = multiply(right, None, len(right), left)
        else:
            torch.mm(left, right.T, out=scores[:, count:end])
        top = _find_top(scores[:, :end], count)
        positions = torch.where(top < count, positions.gather(1, top.clamp(max=count - 1)), top + (start - count))
        scores[:, :count] = scores.gather(1, top)
    arrays = (scores[:, :count], positions, error)
    yield from zip(*(array.cpu().numpy() for array in arrays))


def _bound_places(scores: Float32s, positions: Positions, error: float, kept: int) -> Nearest:
    """Return the candidates among a query vector's largest products, and which of them are surely among the best."""
    used = scores > -np.inf
    positions, wide = positions[used], scores[used].astype(np.float64)
    if (last := len(wide) - kept) <= 0:
        return Nearest(positions, wide, error, np.ones(len(wide), bool))
    ranked, margin = np.partition(wide, [last - 1, last]), 2 * (error + STEP)
    possible = wide >= ranked[last] - margin
    return Nearest(positions[possible], wide[possible], error, wide[possible] > ranked[last - 1] + margin)


def _read_blocks(vectors: Rows, block: int, device: str) -> Iterator[tuple[int, Any]]:
    """Yield start and float32 tensor of each block of vectors, which the next block overwrites."""
    import torch

    # new memory for each block would take longer than filling it
    wide = torch.empty((min(block, len(vectors)), vectors.shape[1]), device=device)
    for first, piece in list_pieces(vectors):
        for start in range(0, len(piece), block):
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="The given NumPy array is not writable")  # and is not written
                part = torch.from_numpy(piece[start : start + block])
            yield first + start, wide[: len(part)].copy_(part.to(device))
            if isinstance(piece, np.memmap) and isinstance(piece.base, mmap.mmap):
                piece.base.madvise(mmap.MADV_DONTNEED)  # the pages stay in the system's cache while it has space


def _find_top(scores: Any, count: int) -> Any:
    """Return the columns of the ``count`` largest scores of each row, in no order."""
    import torch

    if scores.device.type != "cpu":
        return scores.topk(count, sorted=False).indices
    top = torch.empty((len(scores), count), dtype=torch.int64)

    def fill(rows: Positions) -> None:
        part = slice(rows[0], rows[-1] + 1)
        top.numpy()[part] = np.argpartition(scores.numpy()[part], -count, axis=1)[:, -count:]

    threads = min(torch.get_num_threads(), len(top))
    with ThreadPoolExecutor(threads) as pool:  # NumPy, five times as fast as topk, sorts without the interpreter's lock
        list(pool.map(fill, np.array_split(np.arange(len(top)), threads)))
    return top


def _measure_lengths(vectors: Any) -> Any:
    """Return the Euclidean length of each vector, ``[n]``.

    Raises:
        ValueError: a number is not finite.
    """
    lengths = vectors.norm(dim=1)
    if not bool(lengths.isfinite().all()):
        raise ValueError("a vector holds a value that is not finite")
    return lengths
