"""Pairs of news articles about one event, and their division by clusters (paper, Multi-News Same-Topic Stress Test).

Where the paper leaves it open: the eligible clusters, in the order of the file, are shuffled by ``random.Random(42)``,
the first 8,000 of them give one pair each, and of a cluster two articles are drawn by the same generator, the first as
the suspicious one. The first fifth of the shuffled clusters, rounded half up, is the test part of the division.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import check_id
from pan_scdg.research.data.membership import TEST, TRAIN, csv_text, fifth_of, read_membership
from pan_scdg.research.data.multinews import Cluster
from pan_scdg.research.data.records import read_records

SEED = 42
SPLIT_SEED = 20260714
MOST_PAIRS = 8000
HEADER = ("pair_id", "cluster_id", "split")

Place = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class NewsPair:
    """Two articles of one cluster; ``doc_label`` is a convention and no verified absence of reuse."""

    pair_id: str
    cluster_id: str
    susp_article: Place
    """Its place in the cluster, from 0."""
    src_article: Place
    susp_characters: Place
    src_characters: Place
    doc_label: Annotated[int, Field(ge=0, le=0)]


def make_news_pairs(clusters: Iterable[Cluster], seed: int = SEED, most: int = MOST_PAIRS) -> tuple[NewsPair, ...]:
    """One pair of each of up to ``most`` clusters that have two eligible articles, in the order of their ids.

    Raises:
        UserError: no cluster has two.
    """
    sizes = {c.cluster_id: {place: len(c.articles[place]) for place in c.eligible()} for c in clusters}
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
    """The pairs of a manifest, in the order of the file.

    Raises:
        UserError: a line is no such record, pairs an article with itself, or repeats a pair; or there are none.
    """
    pairs: dict[str, NewsPair] = {}
    for number, pair in read_records(path, NewsPair):
        check_id(pair.pair_id, path, number)
        if pair.susp_article == pair.src_article:
            raise UserError("an article is paired with itself", "correct the line", path, number)
        if pair.pair_id in pairs:
            raise UserError(f"the pair {pair.pair_id!r} is there twice", "keep one line", path, number)
        pairs[pair.pair_id] = pair
    if not pairs:
        raise UserError("the manifest holds no pairs", "add at least one", path)
    return tuple(pairs.values())


def check_articles(pairs: Iterable[NewsPair], clusters: Iterable[Cluster], where: Path) -> None:
    """Raise UserError unless the articles of the manifest ``where`` are there and have the lengths that it says."""
    sizes = {c.cluster_id: tuple(map(len, c.articles)) for c in clusters}
    for pair in pairs:
        size = sizes.get(pair.cluster_id, ())
        articles = ((pair.susp_article, pair.susp_characters), (pair.src_article, pair.src_characters))
        if any(place >= len(size) or size[place] != characters for place, characters in articles):
            raise UserError(
                f"the articles of the pair {pair.pair_id!r} are not in the data as the manifest has them",
                "take the manifest of this data",
                where,
            )


def split_clusters(pairs: Sequence[NewsPair], seed: int = SPLIT_SEED) -> dict[str, str]:
    """``train`` or ``test`` of each pair, by pair id; the pairs of a cluster stay together.

    Raises:
        UserError: there are too few clusters for both parts.
    """
    clusters = sorted({pair.cluster_id for pair in pairs})
    np.random.default_rng(seed).shuffle(clusters)
    test = set(clusters[: fifth_of(len(clusters))])
    if not test or len(test) == len(clusters):
        raise UserError(f"{len(clusters)} clusters are too few for a training and a test part", "take more clusters")
    parts = {pair.pair_id: TEST if pair.cluster_id in test else TRAIN for pair in pairs}
    if any(audit(pairs, parts).values()):
        raise ValueError(f"the parts have something in common: {audit(pairs, parts)}")
    return parts


def audit(pairs: Sequence[NewsPair], parts: dict[str, str]) -> dict[str, int]:
    """The numbers of clusters and of pairs of articles that are in both parts, which must be 0."""
    train, test = ([p for p in pairs if parts[p.pair_id] == part] for part in (TRAIN, TEST))
    return {
        "cluster_overlap_count": len({p.cluster_id for p in train} & {p.cluster_id for p in test}),
        "pair_overlap_count": len(set(map(_articles, train)) & set(map(_articles, test))),
    }


def _articles(pair: NewsPair) -> tuple[str, frozenset[int]]:
    return pair.cluster_id, frozenset((pair.susp_article, pair.src_article))


def split_text(pairs: Sequence[NewsPair], parts: dict[str, str]) -> str:
    """The text of the CSV file of a division."""
    return csv_text(HEADER, ((pair.pair_id, pair.cluster_id, parts[pair.pair_id]) for pair in pairs))


def read_cluster_split(path: Path, pairs: Sequence[NewsPair]) -> dict[str, str]:
    """``train`` or ``test`` of each pair from a CSV file, by pair id.

    Raises:
        UserError: see `read_membership`; or a cluster is in both parts.
    """
    parts = read_membership(path, {pair.pair_id for pair in pairs})
    if any(found := audit(pairs, parts).values()):
        raise UserError(f"{max(found)} clusters are in training and test", "give another split", path)
    return parts
