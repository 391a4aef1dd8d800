"""Divide pairs, queries and news into parts that share nothing (paper, Data Appendix).

Where the paper leaves the order of pairs open: strata are taken by (positive pairs, negative pairs) ascending, one
generator per seed goes through all strata, the sorted component ids of a stratum are shuffled, and the first fifth of
them, rounded half up, is test. Its query folds are in a file without a seed; ours are dealt evenly.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import AfterValidator, AliasChoices, Field

from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import list_directory, read_utf8
from studies.results import ManifestPair, Names, read_records

SEEDS = tuple(range(20260714, 20260734))
FOLDS = 5
FOLD_SEED = NEWS_SEED = SEEDS[0]
"""That of the news is the paper's; that of the folds is ours."""
TRAIN, TEST = "train", "test"
PARTS = {"train": TRAIN, "training": TRAIN, "test": TEST, "testing": TEST}
PART_COLUMNS = ("split", "partition", "subset")
"""Names of the CSV column with the part, since the paper does not describe its files; we write the first."""


class Split(NamedTuple):
    """One division; pair ids in the order of the manifest."""

    name: str
    """The name of its file without ``.csv``."""
    train: tuple[str, ...]
    test: tuple[str, ...]


def name_components(pairs: Sequence[Names]) -> list[str]:
    """Return the component of each pair ``(suspicious, source)`` that is linked by shared documents.

    The vertices of a bipartite graph are the suspicious documents and the sources, and each pair is an edge. A
    component is named by the smallest of its vertices, ``src:NAME`` or ``susp:NAME``.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if not pairs:
        return []
    edges = [(f"src:{source}.txt", f"susp:{suspicious}.txt") for suspicious, source in pairs]
    vertices = sorted({vertex for edge in edges for vertex in edge})
    number = {vertex: index for index, vertex in enumerate(vertices)}
    rows, columns = np.array([[number[vertex] for vertex in edge] for edge in edges]).T
    graph = coo_array((np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=(len(vertices), len(vertices)))
    _, labels = connected_components(graph, directed=False)
    smallest = np.unique(labels, return_index=True)[1]  # vertices are sorted: the first of a label is its smallest
    return [vertices[smallest[labels[row]]] for row in rows]


def round_fifth(count: int) -> int:
    """Return 20 % of ``count``, rounded half up: always down or always up cannot give the paper's counts."""
    return (2 * count + 5) // 10


def make_splits(pairs: Sequence[ManifestPair], seeds: Sequence[int] = SEEDS) -> list[Split]:
    """Return one division of the pairs per seed; linked pairs stay together."""
    components = name_components([pair.names for pair in pairs])
    counts = Counter((component, pair.doc_label) for component, pair in zip(components, pairs, strict=True))
    strata: dict[tuple[int, int], list[str]] = {}
    for component in sorted({*components}):
        strata.setdefault((counts[component, 1], counts[component, 0]), []).append(component)
    splits = []
    for seed in seeds:
        generator = np.random.default_rng(seed)
        test: set[str] = set()
        for key in sorted(strata):
            shuffled = list(strata[key])
            generator.shuffle(shuffled)
            test.update(shuffled[: round_fifth(len(shuffled))])
        chosen = {pair.pair_id for pair, component in zip(pairs, components, strict=True) if component in test}
        splits.append(_divide(f"split_seed{seed}", pairs, chosen))
    return splits


def split_news(pairs: Sequence[ManifestPair], clusters: Mapping[str, str]) -> Split:
    """Return the division of the news pairs by their clusters (paper, Cluster-disjoint partition).

    ``clusters`` has the id of the cluster of each pair, by the pair's.
    """
    ids = sorted({*clusters.values()})
    np.random.default_rng(NEWS_SEED).shuffle(ids)
    test = {*ids[: round_fifth(len(ids))]}
    return _divide("split", pairs, {pair_id for pair_id, cluster in clusters.items() if cluster in test})


def count_shared_clusters(split: Split, clusters: Mapping[str, str]) -> dict[str, int]:
    """Return the numbers of clusters and pairs that are in both parts, by the paper's names."""
    own = ({clusters[pair_id] for pair_id in ids} for ids in (split.train, split.test))
    shared = (len(set.intersection(*own)), len({*split.train} & {*split.test}))
    return dict(zip(("cluster_overlap_count", "pair_overlap_count"), shared, strict=True))


def _divide(name: str, pairs: Sequence[ManifestPair], test: Set[str]) -> Split:
    ids = [pair.pair_id for pair in pairs]
    split = Split(name, tuple(i for i in ids if i not in test), tuple(i for i in ids if i in test))
    if not split.train or not split.test:
        raise UserError("too few pairs for a training and a test part", "give more pairs, without documents in common")
    return split


def count_shared(pairs: Sequence[ManifestPair], split: Split) -> dict[str, int]:
    """Return the numbers of suspicious documents, sources and components in both parts, by their names in the index."""
    test, components = {*split.test}, name_components([pair.names for pair in pairs])
    facts = [(pair.pair_id in test, *pair.names, component) for pair, component in zip(pairs, components, strict=True)]
    shared = (len({f[i] for f in facts if f[0]} & {f[i] for f in facts if not f[0]}) for i in (1, 2, 3))
    names = ("suspicious_overlap_count", "source_overlap_count", "component_overlap_count")
    return dict(zip(names, shared, strict=True))


def format_split(split: Split, pairs: Sequence[ManifestPair]) -> str:
    """Return the text of the CSV file of a division."""
    buffer, test = io.StringIO(), {*split.test}
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("pair_id", PART_COLUMNS[0]))
    writer.writerows((pair.pair_id, TEST if pair.pair_id in test else TRAIN) for pair in pairs)
    return buffer.getvalue()


def read_splits(folder: Path, pairs: Sequence[ManifestPair]) -> list[Split]:
    """Return the divisions in the CSV files of a folder, by name; raises UserError as `read_split`."""
    files = [path for path in list_directory(folder) if path.suffix == ".csv"]
    if not files:
        raise UserError("contains no split files", "give a folder with CSV files of the columns pair_id, split", folder)
    return [read_split(path, pairs) for path in files]


def read_split(path: Path, pairs: Sequence[ManifestPair]) -> Split:
    """Return the division in a CSV file with the columns pair_id and split, ours or one of the authors.

    Raises UserError if it is not CSV or not one of these pairs, or divides linked pairs.
    """
    parts: dict[str, str] = {}
    for number, pair_id, part in _read_rows(path):
        if pair_id in parts:
            raise UserError(f"the pair {pair_id!r} occurs twice", "keep one line", path, number)
        if part.strip().lower() not in PARTS:
            raise UserError(f"{part!r} is neither train nor test", "correct the line", path, number)
        parts[pair_id] = PARTS[part.strip().lower()]
    if different := sorted(parts.keys() ^ {pair.pair_id for pair in pairs}):
        what = f"has other pairs than the manifest, for example {different[0]!r}"
        raise UserError(what, "give the split of this manifest", path)
    split = _divide(path.stem, pairs, {pair_id for pair_id, part in parts.items() if part == TEST})
    if any((shared := count_shared(pairs, split)).values()):
        raise UserError(f"training and test have documents in common: {shared}", "give another split", path)
    return split


def _read_rows(path: Path) -> Iterable[tuple[int, str, str]]:
    """Yield line number, pair and part of each row."""
    reader = csv.DictReader(io.StringIO(read_utf8(path).removeprefix("\ufeff"), newline=""), strict=True)
    try:
        names = reader.fieldnames or ()
        column = next((name for name in PART_COLUMNS if name in names), None)
        if "pair_id" not in names or column is None:
            raise UserError(f"lacks the column pair_id or {' or '.join(PART_COLUMNS)}", "correct the header", path, 1)
        for row in reader:
            if row["pair_id"] is None or row[column] is None or None in row:
                raise UserError(
                    "the line and the header differ in their number of columns",
                    "correct the line",
                    path,
                    reader.line_num,
                )
            yield reader.line_num, row["pair_id"], row[column]
    except csv.Error as e:
        raise UserError(f"not CSV: {e}", "correct the line", path, max(1, reader.line_num)) from e


@dataclass(frozen=True)
class QueryFold:
    """The fold of one query; files of others may have the field ``qid`` and numbers for ids."""

    query_id: Annotated[str | int, Field(validation_alias=AliasChoices("query_id", "qid")), AfterValidator(str)]
    fold: Annotated[int, Field(ge=0, lt=FOLDS)]

    @property
    def role(self) -> Literal["holdout", "development"]:
        """Return the purpose of the fold's queries: fold 0 is the frozen hold-out."""
        return "development" if self.fold else "holdout"


def make_folds(query_ids: Sequence[str]) -> list[QueryFold]:
    """Return folds whose sizes differ by one at most, in the order of ``query_ids``, or raise UserError if too few."""
    if len(query_ids) < FOLDS:
        raise UserError(f"{len(query_ids)} queries cannot be put into {FOLDS} folds", "give more queries")
    shuffled = sorted(query_ids)
    np.random.default_rng(FOLD_SEED).shuffle(shuffled)
    fold = {query_id: index % FOLDS for index, query_id in enumerate(shuffled)}
    return [QueryFold(query_id, fold[query_id]) for query_id in query_ids]


def read_folds(path: Path, query_ids: Set[str]) -> dict[str, QueryFold]:
    """Return the fold of each query, from JSON Lines; raises UserError if they are of other queries."""
    folds = {str(fold.query_id): fold for fold in read_records(path, QueryFold, "query", lambda fold: (fold.query_id,))}
    if different := sorted(query_ids ^ folds.keys()):
        what = f"has other queries than the data, for example {different[0]!r}"
        raise UserError(what, "give the folds of these queries", path)
    return folds


def count_classes(pairs: Iterable[ManifestPair]) -> Mapping[str, int]:
    """Return the numbers of positive, negative and all pairs."""
    labels = [pair.doc_label for pair in pairs]
    return {"Positive": sum(labels), "Negative": len(labels) - sum(labels), "Total": len(labels)}
