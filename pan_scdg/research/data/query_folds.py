"""The folds of retrieval queries: 0 is the frozen hold-out, 1 to 4 are for development (paper, Fixed query folds)."""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import gzip_lines, json_object
from pan_scdg.research.data.records import json_lines

FOLDS = 5
SEED = 20260714
"""Ours: the paper gives its folds in a file and no seed; this is the first of those that it uses for splits."""
Role = Literal["holdout", "development"]


@dataclass(frozen=True)
class QueryFold:
    """The fold of one query."""

    query_id: str
    fold: int
    role: Role


def role_of(fold: int) -> Role:
    """What the queries of a fold are for."""
    return "development" if fold else "holdout"


def make_folds(query_ids: Sequence[str], seed: int = SEED, count: int = FOLDS) -> tuple[QueryFold, ...]:
    """Folds whose sizes differ by one at most, in the order of ``query_ids``.

    The sorted ids are shuffled and dealt out, fold by fold.

    Raises:
        UserError: there are fewer queries than folds.
    """
    if len(query_ids) < count:
        raise UserError(f"{len(query_ids)} queries cannot be put into {count} folds", "take more queries")
    shuffled = sorted(query_ids)
    np.random.default_rng(seed).shuffle(shuffled)
    fold = {query_id: index % count for index, query_id in enumerate(shuffled)}
    return tuple(QueryFold(query_id, fold[query_id], role_of(fold[query_id])) for query_id in query_ids)


def folds_text(folds: Sequence[QueryFold]) -> str:
    """The text of ``folds.jsonl``."""
    return json_lines(folds)


def read_folds(path: Path, query_ids: Set[str]) -> tuple[QueryFold, ...]:
    """The folds of all ``query_ids``, in the order of the file: objects with ``query_id`` (or ``qid``) and ``fold``.

    Raises:
        UserError: a line is not like that, a query is unknown, there twice or missing, or there is no query for
            development or none held out.
    """
    folds: dict[str, QueryFold] = {}
    for number, line in gzip_lines(path):
        if not line.strip():
            continue
        found = _fold(json_object(line, path, number), path, number)
        if found.query_id not in query_ids:
            raise UserError(f"there is no query {found.query_id!r}", "take the folds of these queries", path, number)
        if found.query_id in folds:
            raise UserError(f"the query {found.query_id!r} is there twice", "keep one line", path, number)
        folds[found.query_id] = found
    if missing := sorted(query_ids - folds.keys()):
        raise UserError(
            f"{len(missing)} queries have no fold, {missing[0]!r} first", "take the folds of these queries", path
        )
    if len({fold.role for fold in folds.values()}) < 2:
        raise UserError("fold 0 or all others are empty", "give at least one query to each role", path)
    return tuple(folds.values())


def _fold(record: dict[str, Any], path: Path, number: int) -> QueryFold:
    query_id, fold = record.get("query_id", record.get("qid")), record.get("fold")
    if isinstance(query_id, bool) or not isinstance(query_id, str | int):
        raise UserError("no query_id", "{'query_id': ..., 'fold': ...} a line", path, number)
    if isinstance(fold, bool) or not isinstance(fold, int) or not 0 <= fold < FOLDS:
        raise UserError(f"the fold is no whole number from 0 to {FOLDS - 1}", "correct the line", path, number)
    return QueryFold(str(query_id), fold, role_of(fold))
