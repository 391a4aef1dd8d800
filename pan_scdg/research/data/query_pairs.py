"""The auxiliary pairs of query and document of PAN26, for audits alone (paper, Corpus and relevance judgments).

The paper's has 4,614 rows and it does not say which: its 614 judgments and 200 times 20 others make just as many. Ours
therefore are all judged documents and 20 drawn for each query from the rest of the corpus; it is not the paper's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from pan_scdg.errors import UserError
from pan_scdg.research.data.pair_manifest import Label
from pan_scdg.research.data.records import read_records

NEGATIVES = 20
SEED = 20260714


@dataclass(frozen=True)
class QueryPair:
    """A query and a document."""

    pair_id: str
    query_id: str
    doc_id: str
    grade: Annotated[int, Field(ge=0)]
    doc_label: Label
    """1: the document is a source of the query."""


def make_query_pairs(
    qrels: Mapping[str, Mapping[str, int]],
    query_ids: Sequence[str],
    doc_ids: Sequence[str],
    seed: int = SEED,
    where: Path | None = None,
) -> tuple[QueryPair, ...]:
    """Judged and drawn documents of each query, the former first; all in the order of their ids.

    Args:
        qrels: grades by query and document; grades below 0 count as 0.
        query_ids: all queries.
        doc_ids: the whole corpus.
        seed: of the draw, by one generator that goes through the queries in order.
        where: the file of the qrels, for a message.

    Raises:
        UserError: a judged query or document does not exist.
    """
    corpus = sorted(set(doc_ids))
    known, queries = set(corpus), set(query_ids)
    for query_id, grades in qrels.items():
        if query_id not in queries or not known.issuperset(grades):
            unknown = query_id if query_id not in queries else min(set(grades) - known)
            raise UserError(f"{unknown!r} is judged and not in the data", "take the qrels of this data", where)
    generator = np.random.default_rng(seed)
    pairs: list[QueryPair] = []
    for query_id in sorted(queries):
        grades = qrels.get(query_id, {})
        pairs += [_pair(query_id, doc_id, max(0, grades[doc_id])) for doc_id in sorted(grades)]
        rest = [doc_id for doc_id in corpus if doc_id not in grades]
        drawn = generator.choice(len(rest), size=min(NEGATIVES, len(rest)), replace=False)
        pairs += [_pair(query_id, rest[index], 0) for index in sorted(drawn)]
    return tuple(pairs)


def _pair(query_id: str, doc_id: str, grade: int) -> QueryPair:
    return QueryPair(f"{query_id}-{doc_id}", query_id, doc_id, grade, 1 if grade else 0)


def read_query_pairs(path: Path) -> tuple[QueryPair, ...]:
    """The pairs of a file in the format that we write.

    Raises:
        UserError: a line is no such record, or a pair is there twice; or there are none.
    """
    pairs: dict[tuple[str, str], QueryPair] = {}
    for number, pair in read_records(path, QueryPair):
        if (pair.query_id, pair.doc_id) in pairs:
            raise UserError(f"the pair {pair.pair_id!r} is there twice", "keep one line", path, number)
        pairs[pair.query_id, pair.doc_id] = pair
    if not pairs:
        raise UserError("the manifest holds no pairs", "add at least one", path)
    return tuple(pairs.values())


def check_query_pairs(
    pairs: Sequence[QueryPair], query_ids: Sequence[str], doc_ids: Sequence[str], where: Path
) -> None:
    """Raise UserError when a pair of the manifest ``where`` has a query or a document that the data has not."""
    known, queries = frozenset(doc_ids), frozenset(query_ids)
    odd = [pair.pair_id for pair in pairs if pair.query_id not in queries or pair.doc_id not in known]
    if odd:
        what = f"{len(odd)} pairs are of queries or documents that are not in the data, {odd[0]!r} first"
        raise UserError(what, "take the pairs of this data", where)
