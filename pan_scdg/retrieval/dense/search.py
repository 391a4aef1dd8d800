"""Rank documents by the similarities of their vectors with those of the units of a query.

Similarities are exact inner products in steps of 1e-6 (`nearest`), so rankings are functions of the vectors alone.
The routes differ in what is encoded and how many chunks are kept: ``dense-full`` searches with chunks of the query,
``dense-sentence`` with its sentences, ``abstract`` with one vector in one vector a document.
"""

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from pan_scdg.retrieval.dense.nearest import STEP, ExactSearch, Floats, Nearest, Positions, Steps, count_steps
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
    order: Positions | None = None,
) -> list[Ranking]:
    """Rank documents by their best chunks for the units of each query.

    The chunks are read once for as many queries as the memory allows.

    Args:
        queries: for each query the unit vectors of its sentences, or of its chunks, ``[s, d]``; read as float32.
        search: finds the unit vectors of chunks.
        owner: for each chunk the position of its document in ``doc_ids``, ``[c]``.
        doc_ids: document ids, without repetition.
        kept: chunks kept per unit before the maximum per document.
        depth: documents returned, equal ones by document id.
        fusion: the maximum over the units (paper, Sentence1-Max and Full), or the sum of the similarities, min-max
            normalised for each unit (paper, sentence-level CombSUM).
        order: of equal chunks the one with the smaller number here is kept, ``[c]``. None: the earlier one.

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
    nearest = search.find(np.concatenate(vectors), kept, order)
    for query in vectors:
        found, parts = list(islice(nearest, len(query))), list[Ranking]()
        needed = _bound_needed(found if fusion == "max" else [], owner, len(doc_ids), depth)
        steps = np.full(len(doc_ids), ABSENT, np.int64)
        for vector, near in zip(query, found):
            decisive = near.positions[near.scores + near.error >= needed[owner[near.positions]]]
            np.maximum.at(steps, owner[decisive], count_steps(vector, search.vectors, decisive, search.device))
            if fusion == "combsum":
                parts.append([Ranked(*scored) for scored in _score_found(steps, doc_ids).items()])
                steps.fill(ABSENT)
        if fusion == "combsum":
            rankings.append(fuse_by_comb_sum(parts, depth))
        else:
            rankings.append(rank_best(_score_found(steps, doc_ids), depth))
    return rankings


def order_by_id(doc_ids: Sequence[str]) -> Positions:
    """Return the place of each document in the order of the ids, ``[n]``."""
    order = np.empty(len(doc_ids), np.int64)
    order[sorted(range(len(doc_ids)), key=doc_ids.__getitem__)] = np.arange(len(doc_ids))
    return order


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


def _score_found(steps: Steps, doc_ids: Sequence[str]) -> dict[str, float]:
    """Return the similarities of the documents that are not ``ABSENT``."""
    found = np.flatnonzero(steps > ABSENT)
    return {doc_ids[i]: round(s * STEP, 6) for i, s in zip(found.tolist(), steps[found].tolist())}
