"""Exact search with unit vectors: units of a query in the chunks of documents, or one vector in one vector a document.

Similarities are exact inner products in steps of 1e-6 (`similarity`), so rankings are functions of the vectors alone.
The routes differ in what is encoded and how many chunks are kept: ``dense-full`` searches with chunks of the query,
``dense-sentence`` with its sentences, both with `search_chunks`.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from pan_scdg.retrieval.dense.nearest import MEMORY, Nearest, decide, find_nearest
from pan_scdg.retrieval.dense.similarity import STEP, Float32s, Floats, Steps, count_steps
from pan_scdg.retrieval.ranking import Ranked, Ranking, fuse_by_comb_sum, rank_best

Integers = npt.NDArray[np.integer]

ABSENT = np.iinfo(np.int64).min
"""Stands for the similarity of a document that has no chunk among those kept."""


def search_chunks(
    queries: Sequence[Floats],
    chunk_vectors: Floats,
    chunk_owner: Integers,
    doc_ids: Sequence[str],
    kept: int,
    depth: int,
    memory: int = MEMORY,
    device: str = "cpu",
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

    Raises:
        ValueError: shapes disagree, a value is not finite, ``kept`` or ``depth`` is below 1.
        UserError: ``memory`` is too small.
    """
    owner = np.asarray(chunk_owner)
    return [
        _rank_by_maximum(vectors, chunk_vectors, found, owner, doc_ids, kept, depth, device)
        for vectors, found in _find_for_each(queries, chunk_vectors, owner, kept, depth, memory, device)
    ]


def search_chunks_by_sum(
    queries: Sequence[Floats],
    chunk_vectors: Floats,
    chunk_owner: Integers,
    doc_ids: Sequence[str],
    kept: int,
    depth: int,
    memory: int = MEMORY,
    device: str = "cpu",
) -> list[Ranking]:
    """Rank documents by the sum over sentences of their normalized similarity (paper, sentence-level CombSUM).

    The chunks kept of a sentence are collapsed to documents by maximum; the similarities of these documents are
    min-max normalized and summed across sentences. Arguments and errors are those of `search_chunks`.
    """
    owner, rankings = np.asarray(chunk_owner), []
    for vectors, found in _find_for_each(queries, chunk_vectors, owner, kept, depth, memory, device):
        parts = []
        for vector, uncertain in zip(vectors, found):
            best = decide(vector, chunk_vectors, uncertain, kept, device)
            exact = count_steps(vector, chunk_vectors, best.positions, device)
            steps = np.full(len(doc_ids), ABSENT, np.int64)
            np.maximum.at(steps, owner[best.positions], exact)
            parts.append([Ranked(doc_ids[int(i)], _to_score(steps[i])) for i in np.flatnonzero(steps > ABSENT)])
        rankings.append(fuse_by_comb_sum(parts, depth))
    return rankings


def search_documents(
    query_vectors: Floats,
    doc_vectors: Floats,
    doc_ids: Sequence[str],
    depth: int,
    memory: int = MEMORY,
    device: str = "cpu",
) -> list[Ranking]:
    """Rank documents for each query by the similarity of their one vector with its own (paper, Linq-Abstract).

    Args:
        query_vectors: one unit vector a query, ``[q, d]``; read as float32.
        doc_vectors: unit vectors, float16 or float32 ``[n, d]``; a memory map will do.
        doc_ids: ``n`` document ids, without repetition.
        depth: documents returned, equal ones by document id.
        memory: as for `search_chunks`.
        device: a torch device.

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
    for vector, found in zip(queries, find_nearest(queries, doc_vectors, depth, memory, device, order)):
        # whatever may be among the best is ranked, so that nothing needs to be decided before
        steps = count_steps(vector, doc_vectors, found.positions, device)
        rankings.append(rank_best({doc_ids[int(i)]: _to_score(s) for i, s in zip(found.positions, steps)}, depth))
    return rankings


def _find_for_each(
    queries: Sequence[Floats], chunks: Floats, owner: Integers, kept: int, depth: int, memory: int, device: str
) -> Iterator[tuple[Float32s, list[Nearest]]]:
    """Yield for each query its vectors in float32 and what was found for each of them."""
    if len(owner) != len(chunks):
        raise ValueError(f"{len(chunks)} chunks but {len(owner)} owners")
    if min(kept, depth) < 1:
        raise ValueError("kept and depth must be at least 1")
    vectors = [query.astype(np.float32) for query in queries]
    if not vectors:
        return
    found = find_nearest(np.concatenate(vectors), chunks, kept, memory, device)
    for query in vectors:
        yield query, list(islice(found, len(query)))


def _rank_by_maximum(
    queries: Float32s,
    chunks: Floats,
    found: Sequence[Nearest],
    owner: Integers,
    doc_ids: Sequence[str],
    kept: int,
    depth: int,
    device: str,
) -> Ranking:
    """Return the ranking by the maximum over units; exact similarities are computed only where they can decide."""
    needed = _find_needed(found, owner, len(doc_ids), depth)
    # a chunk that may or may not be among those kept matters where it may raise its document
    found = [
        decide(query, chunks, best, kept, device)
        if (best.most >= needed[owner[best.positions]])[~best.sure].any()
        else best
        for query, best in zip(queries, found)
    ]
    needed = _find_needed(found, owner, len(doc_ids), depth)
    steps = np.full(len(doc_ids), ABSENT, np.int64)
    for query, best in zip(queries, found):
        matters = best.positions[best.sure & (best.most >= needed[owner[best.positions]])]
        np.maximum.at(steps, owner[matters], count_steps(query, chunks, matters, device))
    return _rank_best(steps, doc_ids, depth)


def _find_needed(found: Sequence[Nearest], owner: Integers, documents: int, depth: int) -> Steps:
    """Return the steps from which on a chunk can raise its document, or bring it among the best, ``[documents]``."""
    at_least = np.full(documents, ABSENT, np.int64)
    for best in found:
        np.maximum.at(at_least, owner[best.positions[best.sure]], best.least[best.sure])
    present = at_least[at_least > ABSENT]
    place = len(present) - depth
    return np.maximum(at_least, np.partition(present, place)[place] if place > 0 else ABSENT)


def _rank_best(steps: Steps, doc_ids: Sequence[str], depth: int) -> Ranking:
    """Return the ``depth`` documents of largest similarity (in steps, ``[documents]``) that are not ``ABSENT``."""
    found = np.flatnonzero(steps > ABSENT)
    if len(found) > depth:
        # the ids decide between equals, so everything as good as the last place stays in
        last = np.partition(steps[found], len(found) - depth)[len(found) - depth]
        found = found[steps[found] >= last]
    return rank_best({doc_ids[int(i)]: _to_score(steps[i]) for i in found}, depth)


def _to_score(steps: np.int64) -> float:
    return round(int(steps) * STEP, 6)
