"""Exact search with unit vectors: units of a query against document chunks, one vector against one vector a document.

Similarities are exact inner products in steps of 1e-6 (`similarity`), so rankings are functions of the vectors alone.
The routes differ in what is encoded and how many chunks are kept: ``dense-full`` searches with chunks of the query,
``dense-sentence`` with its sentences, both with `sentences_to_chunks`.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from pan_scdg.retrieval.dense.best_vectors import MEMORY, Best, best_vectors, decided, exact_at
from pan_scdg.retrieval.dense.similarity import STEP, Float32s, Floats, Steps
from pan_scdg.retrieval.fusion import comb_sum
from pan_scdg.retrieval.ranking import Ranked, Ranking, top

Integers = npt.NDArray[np.integer]

ABSENT = np.iinfo(np.int64).min
"""Stands for the similarity of a document that has no chunk among those kept."""


def sentence_to_chunk(
    query_vectors: Floats,
    chunk_vectors: Floats,
    chunk_owner: Integers,
    doc_ids: Sequence[str],
    kept: int,
    depth: int,
    memory: int = MEMORY,
) -> Ranking:
    """Rank documents by their best chunk for any unit of one query: see `sentences_to_chunks`."""
    return sentences_to_chunks([query_vectors], chunk_vectors, chunk_owner, doc_ids, kept, depth, memory)[0]


def sentences_to_chunks(
    queries: Sequence[Floats],
    chunk_vectors: Floats,
    chunk_owner: Integers,
    doc_ids: Sequence[str],
    kept: int,
    depth: int,
    memory: int = MEMORY,
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
        memory: bytes that may be used besides the arguments and the result; it bounds the speed, not the result.

    Raises:
        ValueError: shapes disagree, a value is not finite, ``kept`` or ``depth`` is below 1.
        UserError: ``memory`` is too small.
    """
    return [
        _by_maximum(vectors, chunk_vectors, best, np.asarray(chunk_owner), doc_ids, depth)
        for vectors, best in _searched(queries, chunk_vectors, chunk_owner, kept, depth, memory)
    ]


def sentence_comb_sum(
    query_vectors: Floats,
    chunk_vectors: Floats,
    chunk_owner: Integers,
    doc_ids: Sequence[str],
    kept: int,
    depth: int,
    memory: int = MEMORY,
) -> Ranking:
    """Rank documents by the sum over sentences of their normalised similarity (paper, sentence-level CombSUM).

    The chunks kept of a sentence are collapsed to documents by maximum; the similarities of these documents are
    min-max normalised and summed across sentences. Arguments and errors are those of `sentences_to_chunks`.
    """
    owner = np.asarray(chunk_owner)
    rankings = []
    for vectors, best in _searched([query_vectors], chunk_vectors, owner, kept, depth, memory):
        for vector, bounded in zip(vectors, best):
            found = decided(vector, chunk_vectors, bounded)
            exact = _exact(vector, chunk_vectors, found)
            steps = max_per_document(exact, owner[found.positions], len(doc_ids))
            rankings.append([Ranked(doc_ids[int(i)], _score(steps[i])) for i in np.flatnonzero(steps > ABSENT)])
    return comb_sum(rankings, depth)


def one_to_one(
    query_vector: Floats, doc_vectors: Floats, doc_ids: Sequence[str], depth: int, memory: int = MEMORY
) -> Ranking:
    """Rank documents by the similarity of their one vector with a query's one vector: see `ones_to_ones`."""
    return ones_to_ones(query_vector[None, :], doc_vectors, doc_ids, depth, memory)[0]


def ones_to_ones(
    query_vectors: Floats, doc_vectors: Floats, doc_ids: Sequence[str], depth: int, memory: int = MEMORY
) -> list[Ranking]:
    """For each query rank documents by the similarity of their one vector with its own (paper, Linq-Abstract).

    Args:
        query_vectors: one unit vector a query, ``[q, d]``; read as float32.
        doc_vectors: unit vectors, float16 or float32 ``[n, d]``; a memory map will do.
        doc_ids: ``n`` document ids, without repetition.
        depth: documents returned, equal ones by document id.
        memory: bytes that may be used besides the arguments and the result; it bounds the speed, not the result.

    Raises:
        ValueError: shapes disagree, a value is not finite, or ``depth`` is below 1.
        UserError: ``memory`` is too small.
    """
    if len(doc_vectors) != len(doc_ids):
        raise ValueError(f"{len(doc_vectors)} vectors but {len(doc_ids)} document ids")
    queries = query_vectors.astype(np.float32)
    by_id = np.empty(len(doc_ids), np.int64)
    by_id[sorted(range(len(doc_ids)), key=doc_ids.__getitem__)] = np.arange(len(doc_ids))
    rankings = []
    for vector, bounded in zip(queries, best_vectors(queries, doc_vectors, depth, memory, by_id)):
        found = decided(vector, doc_vectors, bounded, by_id)
        steps = _exact(vector, doc_vectors, found)
        rankings.append(top({doc_ids[int(i)]: _score(s) for i, s in zip(found.positions, steps)}, depth))
    return rankings


def max_per_document(steps: Integers, owner: Integers, documents: int) -> Steps:
    """Largest similarity (in steps of 1e-6) of each document's chunks, ``[documents]``; ``ABSENT`` without any."""
    best = np.full(documents, ABSENT, np.int64)
    np.maximum.at(best, owner, steps)
    return best


def best_documents(steps: Steps, doc_ids: Sequence[str], depth: int) -> Ranking:
    """The ``depth`` documents of largest similarity (in steps, ``[documents]``) that are not ``ABSENT``."""
    found = np.flatnonzero(steps > ABSENT)
    if len(found) > depth:
        # The ids decide between equals, so everything as good as the last place stays in.
        last = np.partition(steps[found], len(found) - depth)[len(found) - depth]
        found = found[steps[found] >= last]
    return top({doc_ids[int(i)]: _score(steps[i]) for i in found}, depth)


def _searched(
    queries: Sequence[Floats], chunks: Floats, owner: Integers, kept: int, depth: int, memory: int
) -> Iterator[tuple[Float32s, list[Best]]]:
    """For each query its vectors in float32 and the chunks kept of each."""
    if len(owner) != len(chunks):
        raise ValueError(f"{len(chunks)} chunks but {len(owner)} owners")
    if min(kept, depth) < 1:
        raise ValueError("kept and depth must be at least 1")
    vectors = [query.astype(np.float32) for query in queries]
    if not vectors:
        return
    found = best_vectors(np.concatenate(vectors), chunks, kept, memory)
    for query in vectors:
        yield query, list(islice(found, len(query)))


def _by_maximum(
    queries: Float32s, chunks: Floats, best: Sequence[Best], owner: Integers, doc_ids: Sequence[str], depth: int
) -> Ranking:
    """The ranking by the maximum over units; exact similarities are computed only where they can decide."""
    at_least = np.full(len(doc_ids), ABSENT, np.int64)
    for found in best:
        np.maximum.at(at_least, owner[found.positions[: found.sure]], found.least[: found.sure])
    needed = np.maximum(at_least, _floor(at_least, depth))
    # A chunk that may or may not be among those kept matters where it may raise its document.
    best = [
        decided(query, chunks, found) if (found.most >= needed[owner[found.positions]])[found.sure :].any() else found
        for query, found in zip(queries, best)
    ]
    for found in best:
        np.maximum.at(at_least, owner[found.positions[: found.sure]], found.least[: found.sure])
    needed = np.maximum(at_least, _floor(at_least, depth))
    steps = np.full(len(doc_ids), ABSENT, np.int64)
    for query, found in zip(queries, best):
        owners = owner[found.positions]
        matters = np.flatnonzero((found.most >= needed[owners])[: found.sure])
        chosen = Best(found.positions[matters], found.least[matters], found.most[matters], len(matters), found.kept)
        np.maximum.at(steps, owners[matters], _exact(query, chunks, chosen))
    return best_documents(steps, doc_ids, depth)


def _floor(at_least: Steps, depth: int) -> int:
    """Steps that a document needs to be among the ``depth`` best, whatever the others have beyond ``at_least``."""
    present = at_least[at_least > ABSENT]
    place = len(present) - depth
    return int(np.partition(present, place)[place]) if place > 0 else int(ABSENT)


def _exact(query: Float32s, vectors: Floats, found: Best) -> Steps:
    """The steps of what was found, computed where they are not known."""
    steps, unknown = found.least.copy(), found.least < found.most
    steps[unknown] = exact_at(query, vectors, found.positions[unknown])
    return steps


def _score(steps: np.int64) -> float:
    return round(int(steps) * STEP, 6)
