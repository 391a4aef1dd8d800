"""Folds of the retrieval queries, and auxiliary pairs of query and document (paper, Fixed query folds).

Fold 0 is the frozen hold-out, folds 1 to 4 are for development.
"""

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, AliasChoices, Field

from pan_scdg.errors import UserError
from pan_scdg.research.data.records import Count, Label, read_distinct

FOLDS = 5
SEED = 20260714
"""Ours: the paper gives its folds in a file and no seed; this is the first of those that it uses for splits."""
NEGATIVES = 20
"""Drawn pairs per query. The paper's manifest has 4,614 rows and does not say which: its 614 judgements and 200 times
20 others make as many. Ours is therefore not the paper's, and serves audits alone."""


@dataclass(frozen=True)
class QueryFold:
    """The fold of one query; files of others may have the field ``qid`` and numbers for ids."""

    query_id: Annotated[str | int, Field(validation_alias=AliasChoices("query_id", "qid")), AfterValidator(str)]
    fold: Annotated[int, Field(ge=0, lt=FOLDS)]

    @property
    def role(self) -> Literal["holdout", "development"]:
        """Return the purpose of the fold's queries."""
        return "development" if self.fold else "holdout"


def make_folds(query_ids: Sequence[str], count: int = FOLDS) -> tuple[QueryFold, ...]:
    """Return folds whose sizes differ by one at most, in the order of ``query_ids``.

    The sorted ids are shuffled and dealt out, fold by fold.

    Raises:
        UserError: there are fewer queries than folds.
    """
    if len(query_ids) < count:
        raise UserError(f"{len(query_ids)} queries cannot be put into {count} folds", "give more queries")
    shuffled = sorted(query_ids)
    np.random.default_rng(SEED).shuffle(shuffled)
    fold = {query_id: index % count for index, query_id in enumerate(shuffled)}
    return tuple(QueryFold(query_id, fold[query_id]) for query_id in query_ids)


def format_folds(folds: Sequence[QueryFold]) -> str:
    """Return the text of ``folds.jsonl``."""
    return "".join(json.dumps({**asdict(fold), "role": fold.role}) + "\n" for fold in folds)


def read_folds(path: Path, query_ids: Set[str]) -> tuple[QueryFold, ...]:
    """Return the folds of all ``query_ids``, in the order of the file.

    Raises:
        UserError: a line is invalid, a query is unknown, repeated or missing, or one of the roles has no query.
    """
    folds = read_distinct(path, QueryFold, "query", lambda fold: (fold.query_id,), query_ids)
    if missing := sorted(query_ids - {str(fold.query_id) for fold in folds}):
        what = f"{len(missing)} queries have no fold, {missing[0]!r} first"
        raise UserError(what, "give the folds of these queries", path)
    if len({fold.role for fold in folds}) < 2:
        raise UserError("fold 0 or all others are empty", "give at least one query to each role", path)
    return folds


@dataclass(frozen=True)
class QueryPair:
    """A query and a document."""

    pair_id: str
    query_id: str
    doc_id: str
    grade: Count
    doc_label: Label
    """1: the document is a source of the query."""


def make_query_pairs(
    qrels: Mapping[str, Mapping[str, int]],
    query_ids: Sequence[str],
    doc_ids: Sequence[str],
    where: Path | None = None,
) -> tuple[QueryPair, ...]:
    """Return the judged documents of each query and `NEGATIVES` drawn ones, all in the order of their ids.

    One generator goes through the queries in order.

    Args:
        qrels: grades by query and document; grades below 0 count as 0.
        query_ids: all queries.
        doc_ids: the whole corpus.
        where: the file of the qrels, for messages.

    Raises:
        UserError: a judged query or document does not exist.
    """
    corpus = sorted(set(doc_ids))
    known, queries = set(corpus), set(query_ids)
    for query_id, grades in qrels.items():
        if query_id not in queries or not known.issuperset(grades):
            unknown = query_id if query_id not in queries else min(set(grades) - known)
            raise UserError(f"{unknown!r} is judged, but not in the data", "give the qrels of this data", where)
    generator = np.random.default_rng(SEED)
    pairs: list[QueryPair] = []
    for query_id in sorted(queries):
        grades = qrels.get(query_id, {})
        pairs += [_make_pair(query_id, doc_id, max(0, grades[doc_id])) for doc_id in sorted(grades)]
        rest = [doc_id for doc_id in corpus if doc_id not in grades]
        drawn = generator.choice(len(rest), size=min(NEGATIVES, len(rest)), replace=False)
        pairs += [_make_pair(query_id, rest[index], 0) for index in sorted(drawn)]
    return tuple(pairs)


def _make_pair(query_id: str, doc_id: str, grade: int) -> QueryPair:
    return QueryPair(f"{query_id}-{doc_id}", query_id, doc_id, grade, 1 if grade else 0)


def read_query_pairs(path: Path) -> tuple[QueryPair, ...]:
    """Return the pairs of a file in our format.

    Raises:
        UserError: a record is invalid, a pair occurs twice, or the file holds no pair.
    """
    return read_distinct(path, QueryPair, "pair", lambda pair: ((pair.query_id, pair.doc_id),))


def check_query_pairs(
    pairs: Sequence[QueryPair], query_ids: Sequence[str], doc_ids: Sequence[str], where: Path
) -> None:
    """Raise UserError if a pair of the manifest ``where`` has a query or a document that is not in the data."""
    known, queries = frozenset(doc_ids), frozenset(query_ids)
    odd = [pair.pair_id for pair in pairs if pair.query_id not in queries or pair.doc_id not in known]
    if odd:
        what = f"{len(odd)} pairs are of queries or documents that are not in the data, {odd[0]!r} first"
        raise UserError(what, "give the pairs of this data", where)
