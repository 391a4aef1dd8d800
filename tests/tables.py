"""Write a table as CSV, JSON Lines or Parquet."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest


def write_table(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows in the format of a file's name; without the extra ``parquet`` a test of its format is skipped."""
    if path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, [*rows[0]])
            writer.writeheader()
            writer.writerows(rows)
