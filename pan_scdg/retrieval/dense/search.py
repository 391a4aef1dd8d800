"""Exact search with unit vectors: units of a query in the chunks of documents, or one vector in one vector a document.

Similarities are exact inner products in steps of 1e-6 (`nearest`), so rankings are functions of the vectors alone.
The routes differ in what is encoded and how many chunks are kept: ``dense-full`` searches with chunks of the query,
``dense-sentence`` with its sentences, both with `search_chunks`.
"""

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from pan_scdg.retrieval.dense.nearest import STEP, ExactSearch, Floats, Nearest, Steps, count_steps
from pan_scdg.retrieval.ranking import Ranked, Ranking, fuse_by_comb_sum, rank_best

if TYPE_CHECKING:
    from pan_scdg.retrieval.dense.ivf import IvfSearch

Integers = npt.NDArray[np.integer]
Search: TypeAlias = "ExactSearch | IvfSearch"
ABSENT = np.iinfo(np.int64).min
"""Stands for the similarity of a document that has no chunk among those kept."""


def search_chunks(
    queries: Sequence[Floats],
    search: Search,
    owner: Integers,
    doc_ids: Sequence[str],
    kept: int,
    depth: int,
    fusion: Literal["max", "combsum"] = "max",
) -> list[Ranking]:
    """Rank documents by their best chunks for the units of each query.

    The chunks are read once for as many queries as the memory allows.

    Args:
        queries: for each query the unit vectors of its sentences, or of its chunks, ``[s, d]``; read as float32.
        search: finds the unit vectors of chunks.
        owner: for each chunk the position of its document in ``doc_ids``, ``[c]``.
        doc_ids: document ids, without repetition.
        kept: chunks kept per unit before the maximum per document, equal ones by chunk position.
        depth: documents returned, equal ones by document id.
        fusion: the maximum over the units (paper, Sentence1-Max and Full), or the sum of the similarities, min-max
            normalised for each unit (paper, sentence-level CombSUM).

    Raises:
        ValueError: shapes disagree, a value is not finite, ``kept`` or ``depth`` is below 1.
        UserError: the memory of the search is too small.
    """
    if len(owner) != len(search.vectors):
        raise ValueError(f"{len(search.vectors)} chunks but {len(owner)} owners")
    if min(kept, depth) < 1:
        raise ValueError("kept and depth must be at least 1")
    if not queries:
        return []
    vectors, rankings = [query.astype(np.float32) for query in queries], []
    nearest = search.find(np.concatenate(vectors), kept)
    for query in vectors:
        found, parts = list(islice(nearest, len(query))), list[Ranking]()
        needed = _bound_needed(found if fusion == "max" else [], owner, len(doc_ids), depth)
        steps = np.full(len(doc_ids), ABSENT, np.int64)
        for vector, near in zip(query, found):
            decisive = near.positions[near.scores + near.error >= needed[owner[near.positions]]]
            np.maximum.at(steps, owner[decisive], count_steps(vector, search.vectors, decisive, search.device))
            if fusion == "combsum":
                parts.append(_list_present(steps, doc_ids))
                steps.fill(ABSENT)
        if fusion == "combsum":
            rankings.append(fuse_by_comb_sum(parts, depth))
        else:
            rankings.append(rank_best(dict(_list_present(steps, doc_ids)), depth))
    return rankings


def search_documents(queries: Floats, search: Search, doc_ids: Sequence[str], depth: int) -> list[Ranking]:
    """Rank documents for each query by the similarity of their one vector with its own (paper, Linq-Abstract).

    Args:
        queries: one unit vector a query, ``[q, d]``; read as float32.
        search: finds the unit vectors of documents.
        doc_ids: ``n`` document ids, without repetition.
        depth: documents returned, equal ones by document id.

    Raises:
        ValueError: shapes disagree, a value is not finite, or ``depth`` is below 1.
        UserError: the memory of the search is too small.
    """
    if len(search.vectors) != len(doc_ids):
        raise ValueError(f"{len(search.vectors)} vectors but {len(doc_ids)} document ids")
    queries = queries.astype(np.float32)
    order = np.empty(len(doc_ids), np.int64)
    order[sorted(range(len(doc_ids)), key=doc_ids.__getitem__)] = np.arange(len(doc_ids))
    rankings = []
    for vector, found in zip(queries, search.find(queries, depth, order)):
        steps = count_steps(vector, search.vectors, found.positions, search.device)
        rankings.append(rank_best({doc_ids[i]: _to_score(s) for i, s in zip(found.positions, steps)}, depth))
    return rankings


def _bound_needed(found: Sequence[Nearest], owner: Integers, documents: int, depth: int) -> npt.NDArray[np.float64]:
    """Return the similarity that a chunk needs to change its document's rank among the best, ``[documents]``.

    Few chunks reach it, and only the similarities of these have to be exact.
    """
    least = np.full(documents, -np.inf)
    for near in found:
        np.maximum.at(least, owner[near.positions], near.scores - near.error)
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
