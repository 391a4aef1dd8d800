"""Read scores that another program wrote: ``pair_id,score[,top_1,top_2,...]`` as CSV, or the same in JSON Lines.

``score`` is Average SCDG, or that of any other method; ``top_q`` is the mean of the largest q percent of the gains.
"""

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pan_scdg.digests import hash_file
from pan_scdg.errors import UserError
from pan_scdg.methods.gains import GainSettings
from pan_scdg.pan.untrusted import parse_json_object, stream_lines
from pan_scdg.scdg.aggregation import Aggregate
from studies.results import ManifestPair, Names, Values, split_name

PAIR, SCORE = "pair_id", "score"
TOP = re.compile(r"top_(\d+(?:\.\d+)?)")
SHORTEST_LIMIT = 8
"""The settings of gains demand a limit of tokens, which scores that exist already do not need."""


@dataclass(frozen=True)
class Archive:
    """The scores of a file."""

    folder: Path
    """The file, which identifies the scores as the folder of a result does."""
    name: str
    by_id: Mapping[str, Values]
    """Numbers as a result with gains has them, by the pair."""
    percentages: Sequence[float]
    """The q of the columns ``top_q``."""

    def describe(self) -> dict[str, Any]:
        """Return what identifies the file."""
        return {"name": self.name, "file": self.folder.name, "sha256": hash_file(self.folder)}

    def read_values(self, manifest: Sequence[ManifestPair]) -> dict[Names, Values]:
        """Return the numbers of the pairs of a manifest, or raise UserError if the file has others."""
        ids = {pair.pair_id: pair.names for pair in manifest}
        if others := sorted(self.by_id.keys() - ids.keys()):
            what = f"has other pairs than the manifest, for example {others[0]!r}"
            raise UserError(what, "give the scores of this manifest", self.folder)
        return {ids[pair_id]: values for pair_id, values in self.by_id.items()}

    @property
    def average(self) -> GainSettings:
        """Return the settings by which ``score`` decides."""
        return GainSettings(limit=SHORTEST_LIMIT, q=100.0)

    @property
    def top(self) -> Mapping[float, GainSettings]:
        """Return the settings of each ``top_q``, by q."""
        return GainSettings(limit=SHORTEST_LIMIT, grid=tuple(self.percentages)).vary() if self.percentages else {}


def read_archive(argument: str) -> Archive:
    """Return the scores of ``[NAME=]FILE``, or raise UserError naming the line that is none."""
    name, path = split_name(argument)
    by_id: dict[str, Values] = {}
    percentages: list[float] | None = None
    for number, record in _read_records(path):
        names = [column for column in record if column not in (PAIR, SCORE)]
        matches = [TOP.fullmatch(column) for column in names]
        if PAIR not in record or SCORE not in record or None in matches:
            what = f"has the columns {', '.join(map(str, record))}"
            raise UserError(what, f"give {PAIR}, {SCORE} and, of gains, top_1, top_2 and so on", path, number)
        values = {column: _parse_number(record[column], column, path, number) for column in (SCORE, *names)}
        own = {float(match[1]): match[0] for match in matches if match}
        if percentages is not None and sorted(own) != percentages:
            raise UserError("the line has other columns than the first", "give one form of lines", path, number)
        percentages = sorted(own)
        tops = {Aggregate("top", q).field: values[column] for q, column in own.items()}
        pair_id = str(record[PAIR])
        if pair_id in by_id:
            raise UserError(f"the pair {pair_id!r} occurs twice", "keep one line", path, number)
        by_id[pair_id] = {Aggregate("top", 100.0).field: values[SCORE], **tops}
    if not by_id:
        raise UserError("contains no score", f"give lines of {PAIR} and {SCORE}", path)
    return Archive(path, name or path.name.partition(".")[0], by_id, percentages or ())


def _read_records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the fields of each line."""
    lines = ((number, line.removeprefix("\ufeff")) for number, line in stream_lines(path) if line.strip())
    header: list[str] | None = None
    for number, line in lines:
        if header is None and line.lstrip().startswith("{"):
            yield number, parse_json_object(line, path, number)
            continue
        try:
            (cells,) = csv.reader(io.StringIO(line), strict=True)
        except (csv.Error, ValueError) as e:
            raise UserError(f"not CSV: {e}", "correct the line", path, number) from e
        if header is None:
            header = [cell.strip() for cell in cells]
        elif len(cells) != len(header):
            what = "the line and the header differ in their number of columns"
            raise UserError(what, "correct the line", path, number)
        else:
            yield number, dict(zip(header, cells))


def _parse_number(value: Any, column: str, path: Path, number: int) -> float:
    try:
        parsed = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        parsed = math.nan
    if not math.isfinite(parsed):
        raise UserError(f"{column}: {str(value)[:40]!r} is not a finite number", "correct the line", path, number)
    return parsed
