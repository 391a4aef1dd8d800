"""Find the vectors most similar to each query vector: exactly, by blocks of float32 products within a memory bound.

A similarity is a whole number of steps of the exact inner product, since the last bits of a matrix product depend on
the library, the processor and the block size, and equal texts could change places. A product is off by at most
`bound_error`, so every vector within that margin of the last place is a candidate, and `count_steps` decides between
candidates. The result is a function of the vectors alone; block sizes, threads, libraries and devices, CPU or GPU,
cannot change it.
"""

import mmap
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from math import fsum, isfinite
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserError
from pan_scdg.models.linear import has_onednn, multiply

STEP = 1e-6
"""Similarities are multiples of this."""
MEMORY = 1 << 30
BLOCK_BYTES = 32 << 20
"""Size of a block of vectors in float32, and of the vectors that are converted to float64 at one time."""
SMALLEST_BLOCK, MOST_ROWS = 64, 1 << 16
SLOT_BYTES, PRODUCT_BYTES = 48, 64
"""Bytes of a product that was kept and of a new one, copies and indices included."""

Floats = npt.NDArray[np.floating]
Float32s = npt.NDArray[np.float32]
Steps = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int64]


class Stacked:
    """Arrays of equal width and type as one array of rows, without copying them: the vectors of several shards."""

    def __init__(self, parts: Sequence[Floats]) -> None:
        """Stack at least one array."""
        self.parts = list(parts)
        self.starts = [0, *accumulate(len(part) for part in parts)]
        """Row at which each part begins, and the number of rows."""
        self.dtype = parts[0].dtype
        self.shape = (self.starts[-1], *parts[0].shape[1:])

    def __len__(self) -> int:
        return self.starts[-1]

    def __getitem__(self, rows: Positions) -> npt.NDArray[Any]:
        """Return a copy of the rows at these positions, ``[n, d]``."""
        found = np.empty((len(rows), *self.shape[1:]), self.dtype)
        for start, part in zip(self.starts, self.parts):
            own = (rows >= start) & (rows < start + len(part))
            found[own] = part[rows[own] - start]
        return found


Rows = Floats | Stacked
"""Vectors, ``[n, d]``."""


class Nearest(NamedTuple):
    """The vectors most similar to a query vector, in no order."""

    positions: Positions
    scores: Floats
    """Their similarities, each off by at most ``error``."""
    error: float


class ExactSearch(NamedTuple):
    """An exact search in unit vectors, on one device."""

    vectors: Rows
    """``[c, d]``, float16 or float32; of a memory map one block is read at a time."""
    memory: int = MEMORY
    """Bytes to use on the device; they bound the speed, not the result."""
    device: str = "cpu"

    def find(self, queries: Float32s, kept: int, order: Positions | None = None) -> Iterator[Nearest]:
        """Yield for each query vector the ``kept`` most similar vectors.

        Args:
            queries: ``[s, d]``.
            kept: number of vectors to find.
            order: of vectors with equal steps the one with the smaller number here is better, ``[c]``, all different.
                None: the earlier one.

        Raises:
            ValueError: shapes disagree, a value is not finite, or ``kept`` is below 1.
            UserError: ``memory`` is too small.
        """
        count, width = self.vectors.shape
        if queries.shape[1:] != (width,):
            raise ValueError(f"vectors of shapes {queries.shape} and {self.vectors.shape} do not fit")
        if self.vectors.dtype not in (np.float16, np.float32):
            raise ValueError(f"vectors are float16 or float32, not {self.vectors.dtype}")
        if kept < 1:
            raise ValueError(f"at least 1 vector must be kept, not {kept}")
        if plan_search(count, width, min(2 * kept, count), self.memory)[0] < 1:
            what = f"{self.memory} bytes of memory are too few to search vectors of {width} dimensions, {kept} kept"
            raise UserError(what, "give the search more memory (--search-memory)")
        return self._find(queries, kept, 2 * kept, order)

    def _find(self, queries: Float32s, kept: int, asked: int, order: Positions | None) -> Iterator[Nearest]:
        """Yield the best vectors from the ``asked`` largest products, or from more where these leave a doubt."""
        asked = min(asked, len(self.vectors))
        rows, block = plan_search(len(self.vectors), queries.shape[1], asked, self.memory)
        rows = max(1, rows)  # whatever it takes: few query vectors are searched again
        for start in range(0, len(queries), rows):
            part, found = queries[start : start + rows], list[Nearest | None]()
            positions, scores, error = _select_top(part, self.vectors, asked, block, self.device)
            for number, query in enumerate(part):
                near = Nearest(positions[number], scores[number], error)
                found.append(self._choose_best(query, near, kept, order))
            more = self._find(part[[near is None for near in found]], kept, 4 * asked, order)
            yield from (next(more) if near is None else near for near in found)

    def _choose_best(self, query: Float32s, found: Nearest, kept: int, order: Positions | None) -> Nearest | None:
        """Return the best of the vectors that were found; None if others may be better."""
        positions, scores, error = found
        if len(scores) <= kept:
            return found
        first = len(scores) - kept
        ranked, margin = np.partition(scores, [first - 1, first]), 2 * (error + STEP)
        possible, sure = scores >= ranked[first] - margin, scores > ranked[first - 1] + margin
        if possible.all() and len(scores) < len(self.vectors):
            return None
        doubtful = np.flatnonzero(possible & ~sure)
        steps = count_steps(query, self.vectors, positions[doubtful], self.device)
        best = sort_steps(steps, positions[doubtful], order)[: kept - int(sure.sum())]
        chosen = np.concatenate([np.flatnonzero(sure), doubtful[best]])
        return Nearest(positions[chosen], scores[chosen], error)


def sort_steps(steps: Steps, positions: Positions, order: Positions | None = None) -> Positions:
    """Return the order of vectors by their similarities, the best first; see `ExactSearch.find`."""
    best_first: Positions = np.lexsort((positions if order is None else order[positions], -steps))
    return best_first


def list_pieces(vectors: Rows) -> list[tuple[int, Floats]]:
    """Return the arrays of which these rows consist, each with the position of its first row."""
    return list(zip(vectors.starts, vectors.parts)) if isinstance(vectors, Stacked) else [(0, vectors)]


def plan_search(count: int, width: int, asked: int, memory: int) -> tuple[int, int]:
    """Return the number of query vectors that are searched together, and of vectors in a block: the largest that fit.

    The first is 0 if not even one query vector fits.
    """
    block = max(SMALLEST_BLOCK, min(count, BLOCK_BYTES // (4 * max(1, width))))
    while True:
        each = asked * SLOT_BYTES + 16 * width + block * (SLOT_BYTES + PRODUCT_BYTES)
        rows = (memory - 8 * width * block) // each
        if rows >= 1 or block == SMALLEST_BLOCK:
            return max(0, min(rows, MOST_ROWS)), block
        block = max(SMALLEST_BLOCK, block // 2)


def bound_error(dimension: int) -> float:
    """Return the largest error of a float32 inner product of unit vectors, summed in any order (Higham's bound)."""
    unit = 2.0**-24
    return (dimension + 1) * unit / (1 - (dimension + 1) * unit)


def _select_top(
    queries: Float32s, vectors: Rows, count: int, block: int, device: str
) -> tuple[Positions, Floats, float]:
    """Return positions and values of the ``count`` largest products of each query vector; the error of all."""
    import torch

    left, block, longest = torch.from_numpy(queries).to(device), max(1, min(block, len(vectors))), 0.0
    onednn = device == "cpu" and has_onednn()
    # the best so far, followed by the next block
    scores = torch.full((len(queries), count + block), -torch.inf, device=device)
    positions = torch.zeros((len(queries), count), dtype=torch.int64, device=device)
    for start, right in _read_blocks(vectors, block, device):
        longest = max(longest, _measure_longest(right))
        end = count + len(right)
        if onednn:
            scores[:, count:end] = multiply(right, None, len(right), left)
        else:
            torch.mm(left, right.T, out=scores[:, count:end])
        top = _find_top(scores[:, :end], count)
        positions = torch.where(top < count, positions.gather(1, top.clamp(max=count - 1)), top + (start - count))
        scores[:, :count] = scores.gather(1, top)
    error = max(1e-30, 1.001 * bound_error(queries.shape[1]) * _measure_longest(left) * longest)
    return positions.cpu().numpy(), scores[:, :count].double().cpu().numpy(), error


def _read_blocks(vectors: Rows, block: int, device: str) -> Iterator[tuple[int, Any]]:
    """Yield start and float32 tensor of each block of vectors, which the next block overwrites."""
    import torch

    # new memory for each block would take longer than filling it
    wide = torch.empty((min(block, len(vectors)), vectors.shape[1]), device=device)
    for first, piece in list_pieces(vectors):
        for start in range(0, len(piece), block):
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


def _measure_longest(vectors: Any) -> float:
    """Return the largest Euclidean length of vectors ``[n, d]``.

    Raises:
        ValueError: a number is not finite.
    """
    longest = float(vectors.norm(dim=1).amax())
    if not isfinite(longest):
        raise ValueError("a vector holds a value that is not finite")
    return longest


def count_steps(query: Float32s, vectors: Rows, positions: Positions, device: str = "cpu") -> Steps:
    """Return the exact inner products of a query vector ``[d]`` with the vectors at ``positions``, in steps, ``[n]``.

    The products of two numbers of at most float32 precision are exact in float64, so only their sums are rounded.
    Those that rounding could move to the next step are summed exactly.
    """
    import torch

    width = max(1, len(query))
    piece = max(1, BLOCK_BYTES // (32 * width))
    wide = torch.from_numpy(query).to(device).double()
    found = np.empty(len(positions), np.int64)
    for start in range(0, len(positions), piece):
        part = vectors[positions[start : start + piece]]
        right = torch.from_numpy(part).to(device).double()
        scaled = right @ wide / STEP
        steps = scaled.round()
        found[start : start + piece] = steps.long().cpu().numpy()
        # about one product in a million: the error is below 1e-6 steps for unit vectors of 4,096 dimensions
        error = 2.0**-51 * width * float(wide.norm()) * float(right.norm(dim=1).amax()) / STEP
        for row in ((scaled - steps).abs() >= 0.5 - error - 1e-9).nonzero().flatten().tolist():
            products = query.astype(np.float64) * part[row].astype(np.float64)
            found[start + row] = np.rint(fsum(products.tolist()) / STEP)
    return found
