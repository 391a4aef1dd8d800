"""Exact search with unit vectors: units of a query in the chunks of documents, or one vector in one vector a document.

Similarities are exact inner products in steps of 1e-6 (`similarity`), so rankings are functions of the vectors alone.
The routes differ in what is encoded and how many chunks are kept: ``dense-full`` searches with chunks of the query,
``dense-sentence`` with its sentences, both with `search_chunks`.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from pan_scdg.retrieval.dense.nearest import MEMORY, Nearest, find_nearest, select_best
from pan_scdg.retrieval.dense.rows import Floats, Rows
from pan_scdg.retrieval.dense.similarity import STEP, Float32s, Steps, count_steps
from pan_scdg.retrieval.ranking import Ranked, Ranking, fuse_by_comb_sum, rank_best

Integers = npt.NDArray[np.integer]
Find = Callable[..., Iterator[Nearest]]
"""A function with the arguments of `find_nearest`."""

ABSENT = np.iinfo(np.int64).min
"""Stands for the similarity of a document that has no chunk among those kept."""


def search_chunks(
    queries: Sequence[Floats],
    chunk_vectors: Rows,
    chunk_owner: Integers,
    doc_ids: Sequence[str],
    kept: int,
    depth: int,
    memory: int = MEMORY,
    device: str = "cpu",
    find: Find = find_nearest,
) -> list[Ranking]:
    """Rank documents by their best chunk for any unit of a query (paper, Sentence1-Max and Full).

    The chunks are read once for as many queries as the memory allows.

    Args:
        queries: for each query the unit vectors of its sentences, or of its chunks, ``[s, d]``; read as float32.
        chunk_vectors: unit vectors of all chunks, float16 or float32 ``[c, d]``; a memory map will do.
        chunk_owner: for each chunk the position of its document in ``doc_ids``, ``[c]``.
        doc_ids: document ids, without repetition.
        kept: chunks kept per unit before the maximum per document, equal ones by chunk position.
        depth: documents returned, equal ones by document id.
        memory: bytes to use on the device besides the arguments and the result; it bounds the speed, not the result.
        device: a torch device.
        find: finds the vectors; see `ivf.IvfSearch` for another than the exact one.

    Raises:
        ValueError: shapes disagree, a value is not finite, ``kept`` or ``depth`` is below 1.
        UserError: ``memory`` is too small.
    """
    owner, rankings = np.asarray(chunk_owner), []
    for vectors, found in _find_for_each(queries, chunk_vectors, owner, kept, depth, memory, device, find):
        needed = _bound_needed(found, owner, len(doc_ids), depth)
        steps = np.full(len(doc_ids), ABSENT, np.int64)
        for vector, near in zip(vectors, found):
            if (near.most >= needed[owner[near.positions]])[~near.sure].any():  # doubtful chunks may matter
                near = select_best(vector, chunk_vectors, near, kept, device)
            decisive = near.positions[near.sure & (near.most >= needed[owner[near.positions]])]
            np.maximum.at(steps, owner[decisive], count_steps(vector[None], chunk_vectors, decisive, device)[0])
        rankings.append(rank_best(dict(_list_present(steps, doc_ids)), depth))
    return rankings


def search_chunks_by_sum(
    queries: Sequence[Floats],
    chunk_vectors: Rows,
    chunk_owner: Integers,
    doc_ids: Sequence[str],
    kept: int,
    depth: int,
    memory: int = MEMORY,
    device: str = "cpu",
    find: Find = find_nearest,
) -> list[Ranking]:
    """Rank documents by the sum over sentences of their normalized similarity (paper, sentence-level CombSUM).

    The chunks kept of a sentence are collapsed to documents by maximum; the similarities of these documents are
    min-max normalized and summed across sentences. Arguments and errors are those of `search_chunks`.
    """
    owner, rankings = np.asarray(chunk_owner), []
    for vectors, found in _find_for_each(queries, chunk_vectors, owner, kept, depth, memory, device, find):
        parts = []
        for vector, near in zip(vectors, found):
            best = select_best(vector, chunk_vectors, near, kept, device)
            steps = np.full(len(doc_ids), ABSENT, np.int64)
            exact = count_steps(vector[None], chunk_vectors, best.positions, device)[0]
            np.maximum.at(steps, owner[best.positions], exact)
            parts.append(_list_present(steps, doc_ids))
        rankings.append(fuse_by_comb_sum(parts, depth))
    return rankings


def search_documents(
    query_vectors: Floats,
    doc_vectors: Rows,
    doc_ids: Sequence[str],
    depth: int,
    memory: int = MEMORY,
    device: str = "cpu",
    find: Find = find_nearest,
) -> list[Ranking]:
    """Rank documents for each query by the similarity of their one vector with its own (paper, Linq-Abstract).

    Args:
        query_vectors: one unit vector a query, ``[q, d]``; read as float32.
        doc_vectors: unit vectors, float16 or float32 ``[n, d]``; a memory map will do.
        doc_ids: ``n`` document ids, without repetition.
        depth: documents returned, equal ones by document id.
        memory: as for `search_chunks`.
        device: a torch device.
        find: finds the vectors; see `ivf.IvfSearch` for another than the exact one.

    Raises:
        ValueError: shapes disagree, a value is not finite, or ``depth`` is below 1.
        UserError: ``memory`` is too small.
    """
    if len(doc_vectors) != len(doc_ids):
        raise ValueError(f"{len(doc_vectors)} vectors but {len(doc_ids)} document ids")
    queries = query_vectors.astype(np.float32)
    order = np.empty(len(doc_ids), np.int64)
    order[sorted(range(len(doc_ids)), key=doc_ids.__getitem__)] = np.arange(len(doc_ids))
    rankings = []
    for vector, found in zip(queries, find(queries, doc_vectors, depth, memory, device, order)):
        steps = count_steps(vector[None], doc_vectors, found.positions, device)[0]
        rankings.append(rank_best({doc_ids[i]: _to_score(s) for i, s in zip(found.positions, steps)}, depth))
    return rankings


def _find_for_each(
    queries: Sequence[Floats],
    chunks: Rows,
    owner: Integers,
    kept: int,
    depth: int,
    memory: int,
    device: str,
    find: Find,
) -> Iterator[tuple[Float32s, list[Nearest]]]:
    """Yield for each query its vectors in float32, and the candidates for the ``kept`` best chunks of each."""
    if len(owner) != len(chunks):
        raise ValueError(f"{len(chunks)} chunks but {len(owner)} owners")
    if min(kept, depth) < 1:
        raise ValueError("kept and depth must be at least 1")
    vectors = [query.astype(np.float32) for query in queries]
    if not vectors:
        return
    found = find(np.concatenate(vectors), chunks, kept, memory, device)
    for query in vectors:
        yield query, list(islice(found, len(query)))


def _bound_needed(found: Sequence[Nearest], owner: Integers, documents: int, depth: int) -> npt.NDArray[np.float64]:
    """Return the similarity that a chunk needs to change its document's rank among the best, ``[documents]``.

    Few chunks reach it, and only the similarities of these have to be exact.
    """
    least = np.full(documents, -np.inf)
    for near in found:
        np.maximum.at(least, owner[near.positions[near.sure]], near.least[near.sure])
    if len(present := least[least > -np.inf]) > depth:
        # two steps less, since documents with as many steps as the last one are ordered by their ids
        least = np.maximum(least, np.partition(present, -depth)[-depth] - 2 * STEP)
    return least


def _list_present(steps: Steps, doc_ids: Sequence[str]) -> Ranking:
    """Return the documents that are not ``ABSENT`` with their similarities, in the order of ``doc_ids``."""
    return [Ranked(doc_ids[int(i)], _to_score(steps[i])) for i in np.flatnonzero(steps > ABSENT)]


def _to_score(steps: np.int64) -> float:
    """Return a similarity as a decimal number."""
    return round(int(steps) * STEP, 6)
