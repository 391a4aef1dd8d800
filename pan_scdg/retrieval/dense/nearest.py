"""The vectors most similar to each query vector, exactly, by blocks of float32 products within a memory bound.

One path for CPU and GPU. Products are off by at most an error that `similarity.bound_error` gives, so everything that
may be among the best is kept: what lies within that error of the last place, and no more. Where too much does, as in a
corpus of doubles, the query vector is searched once more in float64. The result is a function of the vectors alone;
block sizes, threads, libraries and devices cannot change it.
"""

import mmap
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserError
from pan_scdg.retrieval.dense.similarity import (
    STEP,
    Float32s,
    Floats,
    Positions,
    Steps,
    bound_error,
    count_steps,
    round_to_steps,
    settle_steps,
)

MEMORY = 1 << 30
"""Bytes that a search uses on its device, unless the caller sets another bound."""
BLOCK_BYTES = 32 << 20
"""Size of a block of vectors in float32."""
SMALLEST_BLOCK, MOST_ROWS = 64, 1 << 16
SLOT_BYTES, PRODUCT_BYTES = 48, 64
"""Bytes of a kept vector and of a product, copies and indices included."""
_NONE = np.iinfo(np.int64).min


class Nearest(NamedTuple):
    """What may be among the best vectors of one query vector, in no order."""

    positions: Positions
    least: Steps
    most: Steps
    """The least and the most steps that the similarity can have."""
    sure: npt.NDArray[np.bool_]
    """Which ones are among the best whatever the exact similarities are."""


class Plan(NamedTuple):
    """Query vectors that are searched together, and vectors of a block."""

    rows: int
    block: int


def find_nearest(
    queries: Float32s,
    vectors: Floats,
    kept: int,
    memory: int = MEMORY,
    device: str = "cpu",
    order: Positions | None = None,
) -> Iterator[Nearest]:
    """Yield for each query vector the vectors that may be among the ``kept`` most similar ones.

    Args:
        queries: ``[s, d]``.
        vectors: ``[c, d]``, float16 or float32; of a memory map one block is read at a time.
        kept: how many.
        memory: bytes to use on the device; it bounds the speed, not the result.
        device: a torch device.
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
    plan = plan_search(queries.shape, len(vectors), kept, memory)
    for start in range(0, len(queries), plan.rows):
        yield from _search_rows(queries[start : start + plan.rows], vectors, kept, plan.block, device, order)


def decide(query: Float32s, vectors: Floats, found: Nearest, kept: int, device: str = "cpu") -> Nearest:
    """Return exactly the ``kept`` best of what was found, equal ones by position."""
    if found.sure.all():
        return found
    doubtful = np.flatnonzero(~found.sure)
    steps = count_steps(query, vectors, found.positions[doubtful], device)
    free = kept - int(found.sure.sum())
    better = np.lexsort((found.positions[doubtful], -steps))[:free]
    least, most, sure = found.least.copy(), found.most.copy(), found.sure.copy()
    least[doubtful] = most[doubtful] = steps
    sure[doubtful[better]] = True
    return Nearest(found.positions[sure], least[sure], most[sure], sure[sure])


def plan_search(shape: tuple[int, ...], count: int, kept: int, memory: int) -> Plan:
    """Return the largest plan that fits in ``memory``: all rows if possible, then large blocks.

    Raises:
        UserError: not even one row and a small block fit.
    """
    rows, width = min(MOST_ROWS, max(1, shape[0])), shape[1]
    each = 2 * kept * SLOT_BYTES + 16 * width
    largest = max(SMALLEST_BLOCK, BLOCK_BYTES // (4 * max(1, width)))
    while True:
        block = (memory - rows * each) // (8 * width + rows * (SLOT_BYTES + PRODUCT_BYTES))
        if block >= min(largest, max(SMALLEST_BLOCK, count)) or (rows == 1 and block >= SMALLEST_BLOCK):
            return Plan(rows, min(largest, block))
        if rows == 1:
            what = f"{memory} bytes of memory are too few to search vectors of {width} dimensions, {kept} kept"
            raise UserError(what, "give the search more memory (--search-memory)")
        rows = -(-rows // 2)


def _search_rows(
    queries: Float32s, vectors: Floats, kept: int, block: int, device: str, order: Positions | None
) -> Iterator[Nearest]:
    """Yield the result of each of these query vectors."""
    running = _Running(queries, kept, min(block, max(1, len(vectors))), device)
    for _, part in _read_blocks(vectors, block, device):
        running.add_block(part)
    scores, positions, error = (found.cpu().numpy() for found in (running.scores, running.positions, running.error))
    exact = {}
    if again := running.overflown.nonzero()[:, 0].tolist():
        by = np.arange(len(vectors)) if order is None else order
        exact = dict(zip(again, _search_exactly(queries[again], vectors, kept, block, device, by)))
    for row in range(len(queries)):
        yield exact[row] if row in exact else _bound_steps(scores[row], positions[row], error[row], kept)


class _Running:
    """Products and positions of all that may be among the best so far, ``[s, slots]`` filled up with -inf."""

    def __init__(self, queries: Float32s, kept: int, block: int, device: str) -> None:
        import torch

        self._queries, self._kept, self._seen = torch.from_numpy(queries).to(device), kept, 0
        self._lengths = _measure_lengths(self._queries).double()
        self._products = torch.empty((len(queries), block), device=device)
        self.scores = torch.full((len(queries), 2 * kept + block), -torch.inf, device=device)
        self.positions = torch.zeros(self.scores.shape, dtype=torch.int64, device=device)
        self._filled = torch.zeros(len(queries), dtype=torch.int64, device=device)
        self.error = torch.zeros(len(queries), dtype=torch.float64, device=device)
        """Of each row's products, ``[s]``."""
        self._last = torch.full_like(self.error, -torch.inf)
        self.overflown = torch.zeros_like(self._filled, dtype=torch.bool)
        """Rows with more that may be among the best than fits."""

    def add_block(self, vectors: Any) -> None:
        """Keep of the next vectors what may be among the best."""
        import torch

        relative = 1.001 * bound_error(vectors.shape[1]) * self._lengths
        self.error = torch.maximum(self.error, relative * _measure_lengths(vectors).amax() + 1e-30)
        products = _multiply(self._queries, vectors, self._products[:, : len(vectors)])
        if not self._seen and len(vectors) > self._kept:
            self._raise_floor(products)
        rows, columns = (products > self._floor()).nonzero(as_tuple=True)
        self._append(rows, products[rows, columns], columns + self._seen)
        self._seen += len(vectors)
        if (most := int(self._filled.max())) > 2 * self._kept:
            self._raise_floor(self.scores[:, :most])
            rows, columns = (self.scores > self._floor()).nonzero(as_tuple=True)
            scores, positions = self.scores[rows, columns], self.positions[rows, columns]
            self.scores.fill_(-torch.inf)
            self._filled.zero_()
            self._append(rows, scores, positions)
            self._give_up(self._filled > 2 * self._kept)

    def _raise_floor(self, scores: Any) -> None:
        """Note the kept-th best product of each row."""
        import torch

        self._last = torch.maximum(self._last, scores.topk(self._kept, sorted=False).values.amin(1).double())

    def _floor(self) -> Any:
        """Return the product up to which a vector has surely fewer steps than the last of the best, ``[s, 1]``."""
        import torch

        floor = (self._last - 2 * self.error - 2 * STEP).float()
        return torch.nextafter(floor, torch.full_like(floor, -torch.inf))[:, None]

    def _append(self, rows: Any, scores: Any, positions: Any) -> None:
        """Put products, sorted by row, into each row's next free slots."""
        import torch

        counts = rows.bincount(minlength=len(self._filled))
        begins = torch.arange(len(counts), device=rows.device) * self.scores.shape[1] + self._filled
        offsets = (begins + counts - counts.cumsum(0)).repeat_interleave(counts)
        slots = offsets + torch.arange(len(rows), device=rows.device)
        self.scores.view(-1).scatter_(0, slots, scores)
        self.positions.view(-1).scatter_(0, slots, positions)
        self._filled += counts

    def _give_up(self, rows: Any) -> None:
        """Keep nothing more of these rows."""
        import torch

        self.overflown |= rows
        self._last[rows], self._filled[rows] = torch.inf, 0
        self.scores[rows] = -torch.inf


def _bound_steps(scores: Float32s, positions: Positions, error: float, kept: int) -> Nearest:
    """Return what may be among the best of a row's kept products, which -inf ends."""
    used = scores > -np.inf
    positions, wide = positions[used], scores[used].astype(np.float64)
    least, most = round_to_steps(wide - error), round_to_steps(wide + error)
    if len(positions) <= kept:
        return Nearest(positions, least, most, np.ones(len(positions), bool))
    place = len(positions) - kept
    # the last of the best has at least ``low`` and at most ``high`` steps
    low, high = np.partition(least, place)[place], np.partition(most, place)[place]
    possible = most >= low
    sure = (least > high)[possible] if possible.sum() > kept else np.ones(kept, bool)
    return Nearest(positions[possible], least[possible], most[possible], sure)


def _search_exactly(
    queries: Float32s, vectors: Floats, kept: int, block: int, device: str, order: Positions
) -> Iterator[Nearest]:
    """Yield exactly the ``kept`` best of each query vector, by float64 products.

    Steps and order are packed in one number each, "more similar first, then the earlier one", of which all differ.
    """
    import torch

    left, count = torch.from_numpy(queries).to(device).double(), len(vectors)
    keys = torch.full((len(queries), 0), _NONE, device=device)
    for start, part in _read_blocks(vectors, max(1, block // 2), device):
        longest = float(_measure_lengths(part).amax())
        steps = settle_steps(left @ part.double().T, queries, vectors[start : start + len(part)], longest)
        packed = steps * count + (count - 1 - order[start : start + len(part)])
        keys = torch.cat([keys, torch.from_numpy(packed).to(device)], dim=1)
        keys = keys.topk(min(kept, keys.shape[1]), sorted=False).values
    by_order = np.argsort(order)
    for row in keys.cpu().numpy():
        steps, places = np.divmod(row, count)
        yield Nearest(by_order[count - 1 - places], steps, steps, np.ones(len(row), bool))


def _read_blocks(vectors: Floats, block: int, device: str) -> Iterator[tuple[int, Any]]:
    """Yield start and float32 tensor of each block of vectors, which the next block overwrites."""
    import torch

    # new memory for each block would take longer than filling it
    wide = torch.empty((min(block, len(vectors)), vectors.shape[1]), device=device)
    for start in range(0, len(vectors), block):
        part = vectors[start : start + block]
        part = part if part.flags.writeable else part.copy()  # torch knows no memory that is only read
        yield start, wide[: len(part)].copy_(torch.from_numpy(part).to(device))
        if isinstance(vectors, np.memmap) and isinstance(vectors.base, mmap.mmap):
            vectors.base.madvise(mmap.MADV_DONTNEED)  # the pages stay in the system's cache while it has space


def _multiply(left: Any, right: Any, out: Any) -> Any:
    """Return ``left @ right.T``, which stands in ``out`` then."""
    import torch

    if out.device.type == "cpu":  # NumPy's library is faster than torch's on some processors, never much slower
        np.matmul(left.numpy(), right.numpy().T, out=out.numpy())
        return out
    return torch.mm(left, right.T, out=out)


def _measure_lengths(vectors: Any) -> Any:
    """Return the Euclidean length of each vector, ``[n]``.

    Raises:
        ValueError: a number is not finite.
    """
    lengths = vectors.norm(dim=1)
    if not bool(lengths.isfinite().all()):
        raise ValueError("a vector holds a value that is not finite")
    return lengths
