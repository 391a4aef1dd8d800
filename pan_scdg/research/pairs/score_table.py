"""The scores of labelled pairs, pair by pair: what the studies of pairs compute their tables from.

A column is one number of every pair: a baseline's score, or a statistic of the gains. The file is JSON Lines, packed,
one pair a line, and holds ids, labels and numbers, no text. A float is written with all its digits, so that what is
read is what was written.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserError
from pan_scdg.pan.runs import open_gzip_text
from pan_scdg.pan.untrusted import check_id
from pan_scdg.profile import PAPER_GRID
from pan_scdg.research.data.records import json_lines, read_records
from pan_scdg.scdg.arrays import Floats
from pan_scdg.scdg.gains import GainStatistics

Flags = npt.NDArray[np.bool_]
AVERAGE, MEDIAN, POSITIVE_RATE = "mean", "median", "positive_gain_rate"


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Pairs in rows, numbers of the same kind in columns.

    Raises:
        ValueError: two pairs have one id, a column or the labels are not one value a pair, or one is not finite.
    """

    ids: tuple[str, ...]
    labels: Flags
    """True where the pair is one of reuse, ``[pairs]``."""
    columns: Mapping[str, Floats]
    """Name -> ``[pairs]``."""

    def __post_init__(self) -> None:
        if len(set(self.ids)) != len(self.ids) or self.labels.shape != (len(self.ids),):
            raise ValueError("needs different ids and one label for each of them")
        for name, values in self.columns.items():
            if values.shape != self.labels.shape or not np.isfinite(values).all():
                raise ValueError(f"column {name!r} does not hold {len(self.ids)} finite numbers")

    def rows(self, ids: Iterable[str], method: str) -> npt.NDArray[np.intp]:
        """Where the pairs ``ids`` are, in their order; ``method`` is what an error says has no scores of them.

        Raises:
            UserError: one is not in the table.
        """
        places = {pair_id: row for row, pair_id in enumerate(self.ids)}
        wanted = list(ids)
        missing = [pair_id for pair_id in wanted if pair_id not in places]
        if missing:
            raise UserError(
                f"{method}: {len(missing)} pairs have no scores, {missing[0]!r} first",
                "score all pairs of the manifest",
            )
        return np.array([places[pair_id] for pair_id in wanted], dtype=np.intp)

    def column(self, name: str) -> Floats:
        """The numbers of this name, ``[pairs]``.

        Raises:
            UserError: there are none.
        """
        if name not in self.columns:
            raise UserError(
                f"there is no score {name!r}, but {', '.join(sorted(self.columns))}", "score the pairs again"
            )
        return self.columns[name]

    def features(self, names: Sequence[str]) -> Floats:
        """The columns of these names, ``[pairs, names]``.

        Raises:
            UserError: one is missing.
        """
        return np.column_stack([self.column(name) for name in names])


def top_q(q: float) -> str:
    """The column of the mean of the top q percent, named as in ``scores.jsonl.gz``."""
    return f"top_{q:g}"


def gain_columns(statistics: Sequence[GainStatistics], grid: Iterable[float] = PAPER_GRID) -> dict[str, Floats]:
    """The columns of SCDG, from the stored statistics of every pair: Average, median, positive-gain rate, each Top-q.

    Raises:
        KeyError: a q of ``grid`` is not known of some pair.
    """
    values = {
        AVERAGE: [s.mean for s in statistics],
        MEDIAN: [s.median for s in statistics],
        POSITIVE_RATE: [s.positive_rate for s in statistics],
        **{top_q(q): [s.top[float(q)] for s in statistics] for q in grid},
    }
    return {name: np.array(column, dtype=np.float64) for name, column in values.items()}


@dataclass(frozen=True)
class _Row:
    """One line of the file."""

    pair_id: str
    doc_label: Literal[0, 1]
    scores: dict[str, float]


def write_scores(path: Path, table: ScoreTable) -> None:
    """Write the table to ``path``, which ends in ``.jsonl.gz``; the same table gives the same bytes."""
    columns = {name: values.tolist() for name, values in table.columns.items()}
    rows = (
        _Row(pair_id, 1 if label else 0, {name: values[row] for name, values in columns.items()})
        for row, (pair_id, label) in enumerate(zip(table.ids, table.labels, strict=True))
    )
    beside = path.with_name(f".{path.name}.part")
    with open_gzip_text(beside) as file:
        file.write(json_lines(rows))
    os.replace(beside, path)


def read_scores(path: Path) -> ScoreTable:
    """The table that `write_scores` wrote, or one from elsewhere.

    Raises:
        UserError: not readable, empty, a line is no such record or has other scores than the first, a pair is there
            twice, or a score is not finite.
    """
    rows: dict[str, _Row] = {}
    names: set[str] = set()
    for number, row in read_records(path, _Row):
        check_id(row.pair_id, path, number)
        names = names or set(row.scores)
        if row.pair_id in rows:
            raise UserError(f"the pair {row.pair_id!r} is there twice", "keep one line", path, number)
        if not row.scores or set(row.scores) != names:
            raise UserError("not the same scores as in the lines before, or none", "correct the line", path, number)
        if not np.isfinite(list(row.scores.values())).all():
            raise UserError("a score is not finite", "correct the line", path, number)
        rows[row.pair_id] = row
    if not rows:
        raise UserError("the file holds no pairs", "score the pairs again", path)
    first = next(iter(rows.values()))
    columns = {name: np.array([row.scores[name] for row in rows.values()]) for name in first.scores}
    return ScoreTable(tuple(rows), np.array([row.doc_label == 1 for row in rows.values()]), columns)
