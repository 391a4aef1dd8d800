"""What a report says of its data and its models, the same in all studies."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pan_scdg.research.data.data_folders import GIVEN
from pan_scdg.research.data.pair_sets import PairSet
from pan_scdg.research.data.prepared import read_index
from pan_scdg.research.report.table import Column, Row, Table


def origin_table(prepared: Path) -> Table:
    """Each manifest and split with its counts, and whether it was made here or taken from a file."""
    rows = []
    for part, artefacts in read_index(prepared).items():
        for name, facts in artefacts.items():
            counts = ", ".join(f"{key} {value}" for key, value in facts.items() if isinstance(value, int))
            rows.append(Row((part, name, counts, _origin(facts))))
    columns = (Column("Data"), Column("Artefact"), Column("Counts"), Column("Origin"))
    return Table("data", "Manifests and splits", columns, tuple(rows))


def _origin(facts: Mapping[str, Any]) -> str:
    return "made here, not the paper's" if facts.get("origin") == "made" else f"from {facts.get('from')}"


def made_here(prepared: Path) -> list[str]:
    """One sentence that names the manifests and splits that no file was given for; none where all were given."""
    made = [
        (part, name)
        for part, artefacts in read_index(prepared).items()
        for name, facts in artefacts.items()
        if facts.get("origin") == "made" and not name.endswith("log")
    ]
    if not made:
        return []
    kinds = ", ".join(kind for kind in GIVEN if any(kind.startswith(f"{part}-") for part, _ in made))
    what = ", ".join(f"{part} {name}" for part, name in made)
    return [f"Made here, since no file was given: {what}. The authors' files are taken with --given ({kinds})."]


def class_table(sets: Iterable[PairSet]) -> Table:
    """Pairs by class and distinct documents of each set."""
    rows = [
        Row((pairs.name, len(pairs.ids), int(pairs.labels.sum()), int((~pairs.labels).sum()), len(pairs.facts)))
        for pairs in sets
    ]
    names = ("Data", "Pairs", "Positive", "Negative", "Documents")
    return Table("pairs", "Pairs that were scored", tuple(map(Column, names)), tuple(rows))
