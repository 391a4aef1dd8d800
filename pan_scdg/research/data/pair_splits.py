"""Twenty seed-locked divisions of a pair manifest into training and test that share no document (paper, Data Appendix).

Where the paper leaves the order open: strata are taken by (positive pairs, negative pairs) ascending, one generator a
seed goes through all strata, the sorted component ids of a stratum are shuffled and the first fifth of them, rounded
half up, is test.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pan_scdg.bounded_json import parse_json
from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import is_file, list_directory, read_utf8
from pan_scdg.research.data.components import component_ids
from pan_scdg.research.data.membership import TEST, TRAIN, csv_text, fifth_of, read_membership
from pan_scdg.research.data.pair_manifest import PairRecord, bare_name, class_counts, manifest_digest

SEEDS = tuple(range(20260714, 20260734))
INDEX = "manifest_index.json"
HEADER = ("pair_id", "component_id", "split")


class PairSplit(NamedTuple):
    """One division; pair ids in the order of the manifest."""

    name: str
    """The name of its file without ``.csv``."""
    train: tuple[str, ...]
    test: tuple[str, ...]


class Audit(NamedTuple):
    """What training and test have in common, which must be nothing."""

    suspicious_overlap_count: int
    source_overlap_count: int
    component_overlap_count: int


def make_splits(records: Sequence[PairRecord], seeds: Sequence[int] = SEEDS) -> tuple[PairSplit, ...]:
    """One division a seed, each audited.

    Raises:
        UserError: there are so few components that no test or no training pair is left.
    """
    components = components_of(records)
    strata = _strata(records, components)
    splits = tuple(_split(records, components, strata, seed) for seed in seeds)
    for split in splits:
        if not split.train or not split.test:
            raise UserError(
                "too few pairs for a training and a test part", "take more pairs, without documents in common"
            )
        if any(found := audit(records, components, split)):
            raise ValueError(f"{split.name} shares documents between training and test: {found}")
    return splits


def components_of(records: Sequence[PairRecord]) -> dict[str, str]:
    """The component of each pair, by pair id; a document is one whatever folder the manifest puts in front of it."""
    found = component_ids([(bare_name(record.susp_file), bare_name(record.src_file)) for record in records])
    return {record.pair_id: component for record, component in zip(records, found, strict=True)}


def _strata(records: Sequence[PairRecord], components: Mapping[str, str]) -> list[list[str]]:
    """Component ids in order, in one list for each number of positive and negative pairs, these in order too."""
    counts: dict[str, list[int]] = {}
    for record in records:
        counts.setdefault(components[record.pair_id], [0, 0])[1 - record.doc_label] += 1
    strata: dict[tuple[int, int], list[str]] = {}
    for component in sorted(counts):
        positive, negative = counts[component]
        strata.setdefault((positive, negative), []).append(component)
    return [strata[key] for key in sorted(strata)]


def _split(
    records: Sequence[PairRecord], components: Mapping[str, str], strata: Sequence[Sequence[str]], seed: int
) -> PairSplit:
    generator = np.random.default_rng(seed)
    test: set[str] = set()
    for stratum in strata:
        shuffled = list(stratum)
        generator.shuffle(shuffled)
        test.update(shuffled[: fifth_of(len(shuffled))])
    return _of_test(f"split_seed{seed}", records, {p for p, component in components.items() if component in test})


def _of_test(name: str, records: Sequence[PairRecord], test: set[str]) -> PairSplit:
    ids = [record.pair_id for record in records]
    return PairSplit(name, tuple(p for p in ids if p not in test), tuple(p for p in ids if p in test))


def audit(records: Sequence[PairRecord], components: Mapping[str, str], split: PairSplit) -> Audit:
    """The numbers of suspicious files, source files and components that are in both parts.

    Args:
        records: the manifest.
        components: from `components_of`.
        split: a division of the manifest.
    """
    test = set(split.test)
    facts = [(r.pair_id in test, bare_name(r.susp_file), bare_name(r.src_file), components[r.pair_id]) for r in records]
    return Audit(*(len({f[i] for f in facts if f[0]} & {f[i] for f in facts if not f[0]}) for i in (1, 2, 3)))


def split_files(records: Sequence[PairRecord], splits: Sequence[PairSplit]) -> dict[str, str]:
    """The texts of the split files and of their index, by file name; the splits are of these very records."""
    components, by_id = components_of(records), {record.pair_id: record for record in records}
    files, entries = {}, []
    for split in splits:
        test = set(split.test)
        rows = ((r.pair_id, components[r.pair_id], TEST if r.pair_id in test else TRAIN) for r in records)
        files[f"{split.name}.csv"] = csv_text(HEADER, rows)
        parts = {TRAIN: split.train, TEST: split.test}
        counts = {name: class_counts([by_id[p] for p in part]) for name, part in parts.items()}
        entries.append({"file": f"{split.name}.csv", **counts, **audit(records, components, split)._asdict()})
    index = {
        "manifest_sha256": manifest_digest(records),
        "components": len(set(components.values())),
        "splits": entries,
    }
    return {**files, INDEX: json.dumps(index, indent=1) + "\n"}


def read_splits(folder: Path, records: Sequence[PairRecord]) -> tuple[PairSplit, ...]:
    """The splits in ``folder`` of the manifest ``records``: ours, or CSV files from elsewhere, by name.

    Raises:
        UserError: there are none, one is of another manifest, cannot be read, or divides what belongs together.
    """
    ids, components = {record.pair_id for record in records}, components_of(records)
    splits = []
    for path in _csv_files(folder, records):
        parts = read_membership(path, ids)
        split = _of_test(path.stem, records, {pair_id for pair_id, part in parts.items() if part == TEST})
        if any(found := audit(records, components, split)):
            shared = ", ".join(f"{name}={count}" for name, count in found._asdict().items())
            raise UserError(f"training and test have documents in common: {shared}", "give another split", path)
        splits.append(split)
    return tuple(splits)


def _csv_files(folder: Path, records: Sequence[PairRecord]) -> list[Path]:
    """Those that our index names, or all CSV files where the index is not one of ours."""
    index = _index(folder)
    if index is not None:
        if index["manifest_sha256"] != manifest_digest(records):
            raise UserError("these splits are of another manifest", "take the splits of this one", folder / INDEX)
        return [folder / entry["file"] for entry in index["splits"]]
    found = [path for path in list_directory(folder) if path.suffix == ".csv"]
    if not found:
        raise UserError("holds no split files", "give a folder with CSV files of the columns pair_id, split", folder)
    return found


def _index(folder: Path) -> dict[str, Any] | None:
    path = folder / INDEX
    if not is_file(path):
        return None
    try:
        index = parse_json(read_utf8(path))
    except (ValueError, RecursionError) as e:
        raise UserError(f"not JSON: {e}", "make the splits again, or remove it", path) from e
    if not isinstance(index, dict) or "manifest_sha256" not in index:
        return None
    entries = index.get("splits")
    names = [e.get("file") if isinstance(e, dict) else None for e in entries] if isinstance(entries, list) else []
    if not names or any(not isinstance(name, str) or Path(name).name != name for name in names):
        raise UserError("does not say which files the splits are in", "make the splits again", path)
    return index
