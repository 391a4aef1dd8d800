"""Exact search with unit vectors on a GPU: the rankings of `dense.sentences_to_chunks`, to the last digit.

Products are taken in float64, which accelerators of data centres compute at the rate of float32. Rounded to steps they
are then exact but for about one in a million, which lies so near half a step that the CPU decides. Similarity and
position of a chunk are packed in one number whose order is "more similar first, then the earlier chunk"; as all these
numbers differ, the running selection needs no margins.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pan_scdg.errors import UserError
from pan_scdg.retrieval.dense.best_vectors import MORE_MEMORY, leave
from pan_scdg.retrieval.dense.search import ABSENT, Integers, best_documents
from pan_scdg.retrieval.dense.similarity import STEP, Float32s, Floats, exact_steps, lengths, with_longest
from pan_scdg.retrieval.ranking import Ranking

MEMORY = 8 << 30
"""Memory of the device in bytes that a search may use, unless the caller sets another."""
LEAST_BLOCK, MOST_BLOCK = 64, 8192
_NONE = np.iinfo(np.int64).min


def sentences_to_chunks(
    queries: Sequence[Floats],
    chunk_vectors: Floats,
    chunk_owner: Integers,
    doc_ids: Sequence[str],
    kept: int,
    depth: int,
    device: str = "cuda",
    memory: int = MEMORY,
) -> list[Ranking]:
    """Rank documents by their best chunk for any unit of a query: see `dense.sentences_to_chunks`.

    Args:
        queries: for each query its unit vectors, ``[s, d]``; read as float32.
        chunk_vectors: unit vectors of all chunks, float16 or float32 ``[c, d]``; a memory map will do.
        chunk_owner: for each chunk the position of its document in ``doc_ids``, ``[c]``.
        doc_ids: document ids, without repetition.
        kept: chunks kept per unit before the maximum per document, equal ones by chunk position.
        depth: documents returned, equal ones by document id.
        device: a torch device that computes in float64.
        memory: bytes of the device's memory that may be used; it bounds the speed, not the result.

    Raises:
        ValueError: shapes disagree, a value is not finite, ``kept`` or ``depth`` is below 1.
        UserError: ``memory`` is too small.
    """
    import torch

    if len(chunk_owner) != len(chunk_vectors):
        raise ValueError(f"{len(chunk_vectors)} chunks but {len(chunk_owner)} owners")
    if min(kept, depth) < 1:
        raise ValueError("kept and depth must be at least 1")
    if not queries:
        return []
    rows = np.concatenate([query.astype(np.float32) for query in queries])
    number = np.repeat(np.arange(len(queries)), [len(query) for query in queries])
    owner = torch.as_tensor(np.asarray(chunk_owner, np.int64), device=device)
    best = np.full((len(queries), len(doc_ids)), ABSENT, np.int64)
    for start, keys in _kept_keys(rows, chunk_vectors, kept, device, memory):
        for query in np.unique(number[start : start + len(keys)]):
            own = torch.as_tensor(number[start : start + len(keys)] == query, device=device)
            found = _max_per_document(keys[own], len(chunk_vectors), owner, len(doc_ids))
            np.maximum(best[query], found, out=best[query])
    return [best_documents(steps, doc_ids, depth) for steps in best]


def _max_per_document(keys: Any, count: int, owner: Any, documents: int) -> Any:
    import torch

    keys = keys[keys != _NONE]
    positions = count - 1 - torch.remainder(keys, count)
    steps = torch.div(keys, count, rounding_mode="floor")
    best = torch.full((documents,), ABSENT, dtype=torch.int64, device=keys.device)
    return best.scatter_reduce_(0, owner[positions], steps, "amax").cpu().numpy()


def _plan(shape: tuple[int, ...], kept: int, memory: int) -> tuple[int, int]:
    """Query vectors a pass and chunks a block: a product takes 8 bytes, a slot 8, moving them three times as much."""
    rows, width = max(1, shape[0]), shape[1]
    while True:
        block = (memory - rows * (8 * width + 64 * kept)) // (14 * width + 64 * rows)
        if block >= min(MOST_BLOCK, 1024) or (rows == 1 and block >= LEAST_BLOCK):
            return rows, min(MOST_BLOCK, block)
        if rows == 1:
            raise UserError(
                f"{memory} bytes of device memory are too few for vectors of {width} dimensions", MORE_MEMORY
            )
        rows = -(-rows // 2)


def _kept_keys(queries: Float32s, vectors: Floats, kept: int, device: str, memory: int) -> Iterator[tuple[int, Any]]:
    """Start of each pass over the chunks and the keys of the chunks kept in it, int64 ``[rows, at most 2 * kept]``."""
    if vectors.ndim != 2 or queries.shape[1] != vectors.shape[1]:
        raise ValueError(f"vectors of shapes {queries.shape} and {vectors.shape} do not fit")
    lengths(queries)
    kept = min(kept, max(1, len(vectors)))
    rows, block = _plan(queries.shape, kept, memory)
    for start in range(0, len(queries), rows):
        yield start, _pass(queries[start : start + rows], vectors, kept, block, device)


def _pass(queries: Float32s, vectors: Floats, kept: int, block: int, device: str) -> Any:
    """The keys of the ``kept`` best chunks of each query vector, int64 ``[s, slots]``; ``_NONE`` in unused slots."""
    import torch

    left = torch.as_tensor(queries, device=device).double()
    keys = torch.full((len(queries), 2 * kept + min(block, len(vectors))), _NONE, device=device)
    filled = torch.zeros(len(queries), dtype=torch.int64, device=device)
    floor = torch.full((len(queries), 1), -np.inf, dtype=torch.float64, device=device)
    for start in range(0, len(vectors), block):
        part = np.array(vectors[start : start + block])
        leave(vectors)
        products = left @ torch.from_numpy(part).to(device).double().T
        if not bool(torch.isfinite(products).all()):
            raise ValueError("a vector holds a value that is not finite")
        at_rows, at_columns = torch.nonzero(products > floor, as_tuple=True)
        steps = _steps(products[at_rows, at_columns], at_rows, at_columns, queries, part)
        counts = torch.bincount(at_rows, minlength=len(queries))
        slots = torch.arange(len(at_rows), device=device) - (torch.cumsum(counts, 0) - counts - filled)[at_rows]
        keys[at_rows, slots] = steps * len(vectors) + (len(vectors) - 1 - start - at_columns)
        filled += counts
        if int(filled.max()) > 2 * kept or start + block >= len(vectors):
            best = torch.topk(keys, kept, dim=1, sorted=False).values
            keys.fill_(_NONE)[:, :kept] = best
            filled.clamp_(max=kept)
            floor = _floor(best.amin(1, keepdim=True), len(vectors))
    return keys[:, :kept]


def _floor(keys: Any, count: int) -> Any:
    """A product that is not above this has fewer steps than the last chunk kept; without ``kept`` chunks all are."""
    import torch

    steps = torch.div(keys, count, rounding_mode="floor").double()
    return torch.where(keys == _NONE, -np.inf, (steps - 1) * STEP)


def _steps(products: Any, rows: Any, columns: Any, queries: Float32s, vectors: Floats) -> Any:
    """Steps of the products, ``[n]``, those near half a step from exact sums; also the arguments are ``[n]``."""
    import torch

    steps = torch.round(products / STEP)
    longest = with_longest(queries)[1] * with_longest(vectors)[1]
    error = 2.0**-51 * queries.shape[1] * longest / STEP
    doubtful = torch.nonzero((products / STEP - steps).abs() >= 0.5 - error - 1e-9)[:, 0]
    for i in doubtful.tolist():
        row, column = int(rows[i]), int(columns[i])
        steps[i] = float(exact_steps(queries[row], vectors[column : column + 1])[0])
    return steps.long()
