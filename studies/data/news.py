"""Pairs of Multi-News articles about one event, and their division by clusters (paper, Same-Topic Stress Test).

A line of the source side holds one cluster. Articles are separated by ``|||||`` and have the word ``NEWLINE_CHAR``
where a line ended; the raw files of the dataset's repository have the separator after the last article, too.

Where the paper leaves it open: the eligible clusters, in the order of the file, are shuffled by ``random.Random(42)``,
the first 8,000 of them give one pair each, and the same generator draws two articles of a cluster, the first as the
suspicious one. The first fifth of the shuffled clusters, rounded half up, is the test part.
"""

import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import is_file, stream_lines
from studies.data.records import Count, Id, format_csv, read_distinct
from studies.data.splits import TEST, TRAIN, read_parts, round_fifth

FILES = ("train.src.cleaned", "train.src", "train.src.txt", "train.txt.src")
"""Names of the training part's source side, each with or without ``.gz``."""
SEPARATOR = "|||||"
NEWLINE = "NEWLINE_CHAR"
FEWEST_CHARACTERS, MOST_CHARACTERS = 200, 32_000
SEED = 42
SPLIT_SEED = 20260714
MOST_PAIRS = 8000


class Cluster(NamedTuple):
    """The articles about one event; its id holds the line number, so that ids sort as the lines of the file."""

    cluster_id: str
    articles: tuple[str, ...]
    """With line ends and without white space around; possibly empty."""

    def measure_eligible(self) -> dict[int, int]:
        """Return the lengths of the articles with 200 to 32,000 characters, by position (from 0)."""
        sizes = enumerate(map(len, self.articles))
        return {place: size for place, size in sizes if FEWEST_CHARACTERS <= size <= MOST_CHARACTERS}


def find_clusters(directory: Path) -> Path:
    """Return the file of the training clusters.

    Raises:
        UserError: no file is found, or several are.
    """
    found = [directory / f"{name}{end}" for name in FILES for end in ("", ".gz") if is_file(directory / f"{name}{end}")]
    if len(found) != 1:
        what = f"several files of clusters: {', '.join(p.name for p in found)}" if found else "no file of clusters"
        raise UserError(what, f"give one of {', '.join(FILES)}, with or without .gz", directory)
    return found[0]


def read_clusters(path: Path) -> Iterator[Cluster]:
    """Yield the clusters of a file in its order; blank lines count in the ids and are no clusters.

    Raises:
        UserError: the file is not readable, see `stream_lines`.
    """
    for number, line in stream_lines(path):
        if line.strip():
            texts = tuple(text.strip() for text in line.replace(NEWLINE, "\n").split(SEPARATOR))
            yield Cluster(f"cluster-{number:06d}", texts)


def read_articles(path: Path, cluster_ids: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return the articles of these clusters, by cluster id.

    Raises:
        UserError: the file cannot be read, or lacks a cluster.
    """
    wanted = frozenset(cluster_ids)
    found = {c.cluster_id: c.articles for c in read_clusters(path) if c.cluster_id in wanted}
    if missing := sorted(wanted - found.keys()):
        what = f"{len(missing)} clusters of the manifest are not in the file, {missing[0]} first"
        raise UserError(what, "give the same data", path)
    return found


@dataclass(frozen=True)
class NewsPair:
    """Two articles of one cluster; ``doc_label`` is a convention and no verified absence of reuse.

    Raises:
        ValueError: an article is paired with itself.
    """

    pair_id: Id
    cluster_id: str
    susp_article: Count
    """Its position in the cluster, from 0."""
    src_article: Count
    susp_characters: Count
    src_characters: Count
    doc_label: Annotated[int, Field(ge=0, le=0)]

    def __post_init__(self) -> None:
        if self.susp_article == self.src_article:
            raise ValueError("an article is paired with itself")


def make_news_pairs(clusters: Iterable[Cluster], seed: int = SEED, most: int = MOST_PAIRS) -> tuple[NewsPair, ...]:
    """Return one pair of each of up to ``most`` clusters with two eligible articles, in the order of their ids.

    Raises:
        UserError: no cluster has two.
    """
    sizes = {cluster.cluster_id: cluster.measure_eligible() for cluster in clusters}
    eligible = [cluster_id for cluster_id in sizes if len(sizes[cluster_id]) > 1]
    if not eligible:
        raise UserError("no cluster has two articles of 200 to 32,000 characters", "give the Multi-News source side")
    generator = random.Random(seed)
    generator.shuffle(eligible)
    pairs = []
    for cluster_id in eligible[:most]:
        susp, src = generator.sample(sorted(sizes[cluster_id]), 2)
        size = sizes[cluster_id]
        pairs.append(NewsPair(f"{cluster_id}-{susp}-{src}", cluster_id, susp, src, size[susp], size[src], 0))
    return tuple(sorted(pairs, key=lambda pair: pair.cluster_id))


def read_news_pairs(path: Path) -> tuple[NewsPair, ...]:
    """Return the pairs of a manifest, in the order of the file.

    Raises:
        UserError: a record is invalid, a pair occurs twice, or the file holds no pair.
    """
    return read_distinct(path, NewsPair, "pair", lambda pair: (pair.pair_id,))


def check_articles(pairs: Iterable[NewsPair], clusters: Iterable[Cluster], where: Path) -> None:
    """Raise UserError unless the articles of the manifest ``where`` exist and have the recorded lengths."""
    sizes = {c.cluster_id: tuple(map(len, c.articles)) for c in clusters}
    for pair in pairs:
        size = sizes.get(pair.cluster_id, ())
        articles = ((pair.susp_article, pair.susp_characters), (pair.src_article, pair.src_characters))
        if any(place >= len(size) or size[place] != characters for place, characters in articles):
            raise UserError(
                f"the articles of the pair {pair.pair_id!r} are not in the data as recorded in the manifest",
                "give the manifest of this data",
                where,
            )


def split_clusters(pairs: Sequence[NewsPair], seed: int = SPLIT_SEED) -> dict[str, str]:
    """Return ``train`` or ``test`` of each pair, by pair id; the pairs of a cluster stay together.

    Raises:
        UserError: there are too few clusters for both parts.
    """
    clusters = sorted({pair.cluster_id for pair in pairs})
    np.random.default_rng(seed).shuffle(clusters)
    test = set(clusters[: round_fifth(len(clusters))])
    if not test or len(test) == len(clusters):
        raise UserError(f"{len(clusters)} clusters are too few for a training and a test part", "give more clusters")
    return {pair.pair_id: TEST if pair.cluster_id in test else TRAIN for pair in pairs}


def count_shared_clusters(pairs: Sequence[NewsPair], parts: Mapping[str, str]) -> dict[str, int]:
    """Count the clusters and the pairs of articles that are in both parts, which must be 0."""
    train, test = ([p for p in pairs if parts[p.pair_id] == part] for part in (TRAIN, TEST))
    return {
        "cluster_overlap_count": len({p.cluster_id for p in train} & {p.cluster_id for p in test}),
        "pair_overlap_count": len(set(map(_name_articles, train)) & set(map(_name_articles, test))),
    }


def _name_articles(pair: NewsPair) -> tuple[str, frozenset[int]]:
    return pair.cluster_id, frozenset((pair.susp_article, pair.src_article))


def format_news_split(pairs: Sequence[NewsPair], parts: Mapping[str, str]) -> str:
    """Return the text of the CSV file of a division."""
    rows = ((pair.pair_id, pair.cluster_id, parts[pair.pair_id]) for pair in pairs)
    return format_csv(("pair_id", "cluster_id", "split"), rows)


def read_news_split(path: Path, pairs: Sequence[NewsPair]) -> dict[str, str]:
    """Return ``train`` or ``test`` of each pair from a CSV file, by pair id.

    Raises:
        UserError: see `read_parts`; or a cluster is in both parts.
    """
    parts = read_parts(path, {pair.pair_id for pair in pairs})
    if any(found := count_shared_clusters(pairs, parts).values()):
        raise UserError(f"{max(found)} clusters are in training and test", "give another split", path)
    return parts
