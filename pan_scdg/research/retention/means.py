"""``document_token_means``: the mean gain of the reused and of the new tokens of a target behind one context."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserError
from pan_scdg.research.data.membership import csv_text
from pan_scdg.research.retention.contexts import LEVELS, Context
from pan_scdg.research.retention.token_labels import NEW, REUSED, Labels

MEANS = "document_token_means.csv"
CONTENT = {REUSED: "plagiarism", NEW: "new"}
"""What results call each label, in the order of `MeanTable`."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TokenMean:
    """One row: the mean over the tokens of one content, in nats per token."""

    pair_id: str
    retention: float
    seed: int
    content: str
    tokens: int
    mean_gain: float


class MeanTable(NamedTuple):
    """Means of each pair with its seeds averaged (paper, Pair-Level Bootstrap Confidence Intervals)."""

    pair_ids: tuple[str, ...]
    gains: Floats
    """Nats per token, ``[pairs, contents, levels]``, in the order of `CONTENT` and `LEVELS`."""


def means_of(context: Context, gains: Floats, labels: Labels) -> Iterator[TokenMean]:
    """The rows of one context.

    Args:
        context: what the target was scored behind.
        gains: of the scored tokens, ``[n]`` nats.
        labels: of the same tokens; those that are neither content are left out.

    Raises:
        ValueError: there are not as many gains as labels, or no token of a content.
    """
    if gains.shape != labels.shape:
        raise ValueError(f"{gains.shape} gains for {labels.shape} labels")
    for label, content in CONTENT.items():
        chosen = gains[labels == label]
        if not len(chosen):
            raise ValueError(f"{context.name}: no token of {content} content")
        mean = float(chosen.mean())
        yield TokenMean(context.pair_id, context.retention, context.seed, content, len(chosen), mean)


def means_text(rows: Iterable[TokenMean]) -> str:
    """The text of the CSV file with all rows; numbers with every digit."""
    header = [field.name for field in fields(TokenMean)]
    return csv_text(header, (map(str, astuple(row)) for row in rows))


def mean_table(rows: Sequence[TokenMean]) -> MeanTable:
    """The rows with the seeds of each pair averaged; pairs in the order in which they come first.

    Raises:
        UserError: a pair lacks a row, or has one twice.
    """
    pair_ids, seeds = (tuple(dict.fromkeys(getattr(row, name) for row in rows)) for name in ("pair_id", "seed"))
    contents = tuple(CONTENT.values())
    cells = {(row.pair_id, row.content, row.retention, row.seed): row.mean_gain for row in rows}
    keys = [(p, c, r, s) for p in pair_ids for c in contents for r in LEVELS for s in seeds]
    missing = next((key for key in keys if key not in cells), None)
    if not rows or missing or len(rows) != len(keys):
        what = f"{len(rows)} rows for {len(keys)} combinations of pair, content, retention and seed"
        raise UserError(what, "score every context of the manifest once", missing and missing[0])
    values = np.array([cells[key] for key in keys]).reshape(len(pair_ids), len(contents), len(LEVELS), len(seeds))
    return MeanTable(pair_ids, values.mean(axis=-1))
