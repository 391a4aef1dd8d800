"""Exact search with unit vectors: query sentences against document chunks, one vector against one vector a document.

Similarities are inner products, taken in float64 and rounded to 1e-6 before anything is compared. The last bits of a
matrix product depend on how it is cut into blocks, so equal texts could otherwise differ in the 16th digit and change
places with the block size; in float32 that noise would be as large as the rounding step itself.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from pan_scdg.retrieval.ranking import Ranking, top

STEP = 1e-6
"""Similarities are multiples of this."""

Floats = npt.NDArray[np.floating]
Integers = npt.NDArray[np.integer]


def sentence_to_chunk(
    query_vectors: Floats,
    chunk_vectors: Floats,
    chunk_owner: Integers,
    doc_ids: Sequence[str],
    kept: int,
    depth: int,
    block: int = 8192,
) -> Ranking:
    """Rank documents by their best chunk for any sentence of the query (paper, Sentence1-Max).

    Args:
        query_vectors: unit vectors of the sentences, ``[s, d]``.
        chunk_vectors: unit vectors of all chunks, ``[c, d]``; a memory map will do, one block is read at a time.
        chunk_owner: for each chunk the position of its document in ``doc_ids``, ``[c]``.
        doc_ids: document ids, without repetition.
        kept: chunks kept per sentence before the maximum per document, equal ones by chunk position.
        depth: documents returned, equal ones by document id.
        block: chunks multiplied at a time; it bounds the memory (``8 * block * (d + s)`` bytes), not the result.

    Raises:
        ValueError: shapes disagree, a value is not finite, or ``kept``, ``depth`` or ``block`` is below 1.
    """
    if len(chunk_owner) != len(chunk_vectors):
        raise ValueError(f"{len(chunk_vectors)} chunks but {len(chunk_owner)} owners")
    if min(kept, depth) < 1:
        raise ValueError("kept and depth must be at least 1")
    steps, chunks = _best_chunks(query_vectors, chunk_vectors, kept, block)
    best = max_per_document(steps.ravel(), np.asarray(chunk_owner)[chunks.ravel()], len(doc_ids))
    return _best_documents(best, doc_ids, depth)


def one_to_one(
    query_vector: Floats, doc_vectors: Floats, doc_ids: Sequence[str], depth: int, block: int = 8192
) -> Ranking:
    """Rank documents by the similarity of their one vector with the query's one vector (paper, Linq-Abstract).

    Args:
        query_vector: unit vector, ``[d]``.
        doc_vectors: unit vectors, ``[n, d]``; a memory map will do.
        doc_ids: ``n`` document ids, without repetition.
        depth: documents returned, equal ones by document id.
        block: documents multiplied at a time; bounds the memory, not the result.

    Raises:
        ValueError: shapes disagree, a value is not finite, or ``depth`` or ``block`` is below 1.
    """
    if len(doc_vectors) != len(doc_ids):
        raise ValueError(f"{len(doc_vectors)} vectors but {len(doc_ids)} document ids")
    parts = [steps[0] for _, steps in _blocks(query_vector[None, :], doc_vectors, block)]
    return _best_documents(np.concatenate(parts) if parts else np.empty(0, np.int64), doc_ids, depth)


ABSENT = np.iinfo(np.int64).min
"""Stands for the similarity of a document that has no chunk among those kept."""


def max_per_document(steps: Integers, owner: Integers, documents: int) -> npt.NDArray[np.int64]:
    """Largest similarity (in steps of 1e-6) of each document's chunks, ``[documents]``; ``ABSENT`` without any."""
    best = np.full(documents, ABSENT, np.int64)
    np.maximum.at(best, owner, steps)
    return best


def _best_chunks(
    queries: Floats, chunks: Floats, kept: int, block: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Similarities (in steps) and positions of the ``kept`` best chunks of each query vector, in no order.

    Similarity and position are packed in one integer whose order is "more similar first, then earlier chunk": all
    keys differ, so the running selection is exact and cannot depend on the blocks.
    """
    count = max(1, len(chunks))
    keys: npt.NDArray[np.int64] = np.empty((len(queries), 0), np.int64)
    for start, steps in _blocks(queries, chunks, block):
        positions = np.arange(start, start + steps.shape[1])
        keys = np.concatenate([keys, positions - steps * count], axis=1)
        if keys.shape[1] > kept:
            keys = np.partition(keys, kept - 1, axis=1)[:, :kept]
    return -(keys // count), keys % count


def _blocks(queries: Floats, vectors: Floats, block: int) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Start of each block of ``vectors`` and its similarities with the queries in steps, ``[s, block]``."""
    if queries.ndim != 2 or vectors.ndim != 2 or queries.shape[1] != vectors.shape[1]:
        raise ValueError(f"vectors of shapes {queries.shape} and {vectors.shape} do not fit")
    if block < 1:
        raise ValueError(f"block must be at least 1, not {block}")
    left = queries.astype(np.float64)
    for start in range(0, len(vectors), block):
        products = left @ vectors[start : start + block].astype(np.float64).T
        if not np.isfinite(products).all():
            raise ValueError("a vector holds a value that is not finite")
        yield start, np.rint(products / STEP).astype(np.int64)


def _best_documents(steps: npt.NDArray[np.int64], doc_ids: Sequence[str], depth: int) -> Ranking:
    if depth < 1:
        raise ValueError(f"depth must be at least 1, not {depth}")
    found = np.flatnonzero(steps > ABSENT)
    if len(found) > depth:
        # The ids decide between equals, so everything as good as the last place stays in.
        last = np.partition(steps[found], len(found) - depth)[len(found) - depth]
        found = found[steps[found] >= last]
    return top({doc_ids[int(i)]: round(int(steps[i]) * STEP, 6) for i in found}, depth)
