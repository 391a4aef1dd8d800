"""Divide pairs into training and test parts that share no document (paper, PAN25 Document-Linked Splits).

Where the paper leaves the order open: strata are taken by (positive pairs, negative pairs) ascending, one generator per
seed goes through all strata, the sorted component ids of a stratum are shuffled, and the first fifth of them, rounded
half up, is test.
"""

import csv
import io
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pan_scdg.errors import UserError
from pan_scdg.jobs.output.mark import dump
from pan_scdg.pan.untrusted import list_directory, read_utf8
from studies.data.pair_manifest import PairRecord, count_classes, digest_manifest
from studies.data.records import format_csv

SEEDS = tuple(range(20260714, 20260734))
INDEX = "manifest_index.json"
TRAIN, TEST = "train", "test"
PARTS = {"train": TRAIN, "training": TRAIN, "test": TEST, "testing": TEST}
PART_COLUMNS = ("split", "partition", "subset")
"""Names of the CSV column with the part, since the paper does not describe its files; we write the first."""
OVERLAPS = ("suspicious_overlap_count", "source_overlap_count", "component_overlap_count")


class PairSplit(NamedTuple):
    """One division; pair ids in the order of the manifest."""

    name: str
    """The name of its file without ``.csv``."""
    train: tuple[str, ...]
    test: tuple[str, ...]

    def leave_out(self, lost: Container[str]) -> "PairSplit":
        """Return the division without the pairs of these ids."""
        train, test = (tuple(pair for pair in part if pair not in lost) for part in (self.train, self.test))
        return PairSplit(self.name, train, test)


def name_components(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return the component of each pair ``(suspicious file, source file)`` that is linked by shared documents.

    The vertices of a bipartite graph are the suspicious and the source files, and each pair is an edge. A component is
    named by the smallest of its vertices, ``src:NAME`` or ``susp:NAME``; a file name on both sides is two vertices.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if not pairs:
        return []
    edges = [(f"src:{source}", f"susp:{suspicious}") for suspicious, source in pairs]
    vertices = sorted({vertex for edge in edges for vertex in edge})
    number = {vertex: index for index, vertex in enumerate(vertices)}
    rows, columns = np.array([[number[vertex] for vertex in edge] for edge in edges]).T
    graph = coo_array((np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=(len(vertices), len(vertices)))
    _, labels = connected_components(graph, directed=False)
    smallest = np.unique(labels, return_index=True)[1]  # vertices are sorted: the first of a label is its smallest
    return [vertices[smallest[labels[row]]] for row in rows]


def find_components(records: Sequence[PairRecord]) -> dict[str, str]:
    """Return the component of each pair, by pair id."""
    found = name_components([record.names for record in records])
    return {record.pair_id: component for record, component in zip(records, found, strict=True)}


def round_fifth(count: int) -> int:
    """Return 20 % of ``count``, rounded half up: always down or always up cannot give the paper's counts."""
    return (2 * count + 5) // 10


def make_splits(records: Sequence[PairRecord], seeds: Sequence[int] = SEEDS) -> tuple[PairSplit, ...]:
    """Return one division per seed.

    Raises:
        UserError: no test or no training pair is left, since there are too few components.
    """
    components = find_components(records)
    strata = _stratify(records, components)
    splits = tuple(_make_split(records, components, strata, seed) for seed in seeds)
    for split in splits:
        if not split.train or not split.test:
            raise UserError(
                "too few pairs for a training and a test part", "give more pairs, without documents in common"
            )
    return splits


def _stratify(records: Sequence[PairRecord], components: Mapping[str, str]) -> list[list[str]]:
    """Return sorted component ids, one list for each number of positive and negative pairs, in ascending order."""
    counts = Counter((components[record.pair_id], record.doc_label) for record in records)
    strata: dict[tuple[int, int], list[str]] = {}
    for component in sorted({*components.values()}):
        strata.setdefault((counts[component, 1], counts[component, 0]), []).append(component)
    return [strata[key] for key in sorted(strata)]


def _make_split(
    records: Sequence[PairRecord], components: Mapping[str, str], strata: Sequence[Sequence[str]], seed: int
) -> PairSplit:
    generator = np.random.default_rng(seed)
    test: set[str] = set()
    for stratum in strata:
        shuffled = list(stratum)
        generator.shuffle(shuffled)
        test.update(shuffled[: round_fifth(len(shuffled))])
    return _divide(f"split_seed{seed}", records, {p for p, component in components.items() if component in test})


def _divide(name: str, records: Sequence[PairRecord], test: set[str]) -> PairSplit:
    ids = [record.pair_id for record in records]
    return PairSplit(name, tuple(p for p in ids if p not in test), tuple(p for p in ids if p in test))


def count_shared(records: Sequence[PairRecord], components: Mapping[str, str], split: PairSplit) -> dict[str, int]:
    """Return the numbers of documents and components that are in both parts, which must be 0, by `OVERLAPS`."""
    test = set(split.test)
    facts = [(record.pair_id in test, *record.names, components[record.pair_id]) for record in records]
    shared = (len({f[i] for f in facts if f[0]} & {f[i] for f in facts if not f[0]}) for i in (1, 2, 3))
    return dict(zip(OVERLAPS, shared, strict=True))


def format_splits(records: Sequence[PairRecord], splits: Sequence[PairSplit]) -> dict[str, str]:
    """Return the texts of the split files and of their index, by file name."""
    components, by_id = find_components(records), {record.pair_id: record for record in records}
    files, entries = {}, []
    for split in splits:
        test = set(split.test)
        rows = ((r.pair_id, components[r.pair_id], TEST if r.pair_id in test else TRAIN) for r in records)
        files[f"{split.name}.csv"] = format_csv(("pair_id", "component_id", "split"), rows)
        parts = {TRAIN: split.train, TEST: split.test}
        counts = {name: count_classes([by_id[p] for p in part]) for name, part in parts.items()}
        entries.append({"file": f"{split.name}.csv", **counts, **count_shared(records, components, split)})
    index = {
        "manifest_sha256": digest_manifest(records),
        "components": len(set(components.values())),
        "splits": entries,
    }
    return {**files, INDEX: dump(index)}


def read_splits(folder: Path, records: Sequence[PairRecord]) -> tuple[PairSplit, ...]:
    """Return the splits in the CSV files of ``folder``, by name.

    Raises:
        UserError: no splits are found, or one belongs to another manifest, cannot be read, or divides a component.
    """
    ids, components = {record.pair_id for record in records}, find_components(records)
    files = [path for path in list_directory(folder) if path.suffix == ".csv"]
    if not files:
        raise UserError("contains no split files", "give a folder with CSV files of the columns pair_id, split", folder)
    splits = []
    for path in files:
        parts = read_parts(path, ids)
        split = _divide(path.stem, records, {pair_id for pair_id, part in parts.items() if part == TEST})
        if any((found := count_shared(records, components, split)).values()):
            shared = ", ".join(f"{name}={count}" for name, count in found.items())
            raise UserError(f"training and test have documents in common: {shared}", "give another split", path)
        splits.append(split)
    return tuple(splits)


def read_parts(path: Path, pair_ids: Set[str]) -> dict[str, str]:
    """Return ``train`` or ``test`` for each of ``pair_ids``, from a CSV file with the columns pair_id and split.

    Raises:
        UserError: the file is not CSV, lacks a column, repeats, lacks or adds a pair, has another part than train and
            test, or one of them is empty.
    """
    found: dict[str, str] = {}
    for number, pair_id, part in _read_rows(path):
        if pair_id in found:
            raise UserError(f"the pair {pair_id!r} occurs twice", "keep one line", path, number)
        if pair_id not in pair_ids:
            raise UserError(
                f"the pair {pair_id!r} is not in the manifest", "give the split of this manifest", path, number
            )
        if part.strip().lower() not in PARTS:
            raise UserError(f"{part!r} is neither train nor test", "correct the line", path, number)
        found[pair_id] = PARTS[part.strip().lower()]
    if missing := sorted(pair_ids - found.keys()):
        raise UserError(
            f"{len(missing)} pairs of the manifest are not in this split, {missing[0]!r} first",
            "give the split of this manifest",
            path,
        )
    if len(set(found.values())) < 2:
        raise UserError("all pairs are in the same part", "give a split with a training and a test part", path)
    return found


def _read_rows(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line number, pair and part of each row."""
    reader = csv.DictReader(io.StringIO(read_utf8(path).removeprefix("\ufeff"), newline=""), strict=True)
    try:
        names = reader.fieldnames or ()
        column = next((name for name in PART_COLUMNS if name in names), None)
        if "pair_id" not in names or column is None:
            raise UserError(f"lacks the column pair_id or {' or '.join(PART_COLUMNS)}", "correct the header", path, 1)
        for row in reader:
            if row["pair_id"] is None or row[column] is None or None in row:
                raise UserError("not as many columns as the header", "correct the line", path, reader.line_num)
            yield reader.line_num, row["pair_id"], row[column]
    except csv.Error as e:
        raise UserError(f"not CSV: {e}", "correct the line", path, max(1, reader.line_num)) from e
