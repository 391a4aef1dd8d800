"""Folds of the retrieval queries (paper, Fixed query folds).

Fold 0 is the frozen hold-out, folds 1 to 4 are for development.
"""

import json
from collections.abc import Sequence, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, AliasChoices, Field

from pan_scdg.errors import UserError
from studies.data.records import read_distinct

FOLDS = 5
SEED = 20260714
"""Ours: the paper gives its folds in a file and no seed; this is the first of those that it uses for splits."""


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
