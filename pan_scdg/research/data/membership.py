"""The CSV files that say which pair is in the training and which in the test part of a split."""

import csv
import io
from collections.abc import Iterable, Iterator, Set
from pathlib import Path

from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import read_utf8

TRAIN, TEST = "train", "test"
PARTS = {"train": TRAIN, "training": TRAIN, "test": TEST, "testing": TEST}
COLUMNS = ("split", "partition", "subset")
"""Under one of these names the part is looked for; we write the first."""


def fifth_of(count: int) -> int:
    """20 % of ``count``, rounded half up: always down or always up cannot give the counts of the paper's splits."""
    return (2 * count + 5) // 10


def csv_text(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    r"""The text of a CSV file with a header and ``\n`` ends."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue()


def read_membership(path: Path, pair_ids: Set[str]) -> dict[str, str]:
    """``train`` or ``test`` for each of ``pair_ids``, from a CSV file with the columns pair_id and split.

    Other columns are left out, and the column of the part may have any name of `COLUMNS`, since the paper does not
    describe its files.

    Raises:
        UserError: no CSV, a column is missing, a part is neither train nor test, a pair is there twice, is not one of
            ``pair_ids``, or is missing; or a part is empty.
    """
    found: dict[str, str] = {}
    for number, pair_id, part in _rows(path):
        if pair_id in found:
            raise UserError(f"the pair {pair_id!r} is there twice", "keep one line", path, number)
        if pair_id not in pair_ids:
            raise UserError(
                f"the pair {pair_id!r} is not in the manifest", "take the split of this manifest", path, number
            )
        if part.strip().lower() not in PARTS:
            raise UserError(f"{part!r} is neither train nor test", "correct the line", path, number)
        found[pair_id] = PARTS[part.strip().lower()]
    if missing := sorted(pair_ids - found.keys()):
        raise UserError(
            f"{len(missing)} pairs of the manifest are not in this split, {missing[0]!r} first",
            "take the split of this manifest",
            path,
        )
    if len(set(found.values())) < 2:
        raise UserError("all pairs are in the same part", "give a split with a training and a test part", path)
    return found


def _rows(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line number, pair and part of each row."""
    reader = csv.DictReader(io.StringIO(read_utf8(path).removeprefix("\ufeff"), newline=""), strict=True)
    try:
        names = reader.fieldnames or ()
        column = next((name for name in COLUMNS if name in names), None)
        if "pair_id" not in names or column is None:
            raise UserError(f"lacks the column pair_id or {' or '.join(COLUMNS)}", "correct the header", path, 1)
        for row in reader:
            if row["pair_id"] is None or row[column] is None or None in row:
                raise UserError("not as many columns as the header", "correct the line", path, reader.line_num)
            yield reader.line_num, row["pair_id"], row[column]
    except csv.Error as e:
        raise UserError(f"not CSV: {e}", "correct the line", path, max(1, reader.line_num)) from e
