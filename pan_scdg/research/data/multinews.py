"""The source side of Multi-News: one cluster of news articles about one event a line (paper, Pair construction).

Articles are separated by ``|||||`` and hold the word ``NEWLINE_CHAR`` where a line ended. The raw files of the
dataset's repository have the separator behind the last article too, those on the hub do not; both are read.
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import gzip_lines, is_file

FILES = ("train.src.cleaned", "train.src", "train.src.txt", "train.txt.src")
"""Names of the training part's source side, each with or without ``.gz``."""
SEPARATOR = "|||||"
NEWLINE = "NEWLINE_CHAR"
FEWEST_CHARACTERS, MOST_CHARACTERS = 200, 32_000


class Cluster(NamedTuple):
    """A record: its number is in its id, so that ids sort as the lines of the file do."""

    cluster_id: str
    articles: tuple[str, ...]
    """All of them, with line ends and without white space around; possibly empty."""

    def eligible(self) -> tuple[int, ...]:
        """The places (from 0) of the articles with 200 to 32,000 characters."""
        sizes = enumerate(map(len, self.articles))
        return tuple(place for place, size in sizes if FEWEST_CHARACTERS <= size <= MOST_CHARACTERS)


def source_file(directory: Path) -> Path:
    """The file of the training clusters.

    Raises:
        UserError: there is none, or there are several.
    """
    found = [directory / f"{name}{end}" for name in FILES for end in ("", ".gz") if is_file(directory / f"{name}{end}")]
    if len(found) != 1:
        what = f"several files of clusters: {', '.join(p.name for p in found)}" if found else "no file of clusters"
        raise UserError(what, f"give one of {', '.join(FILES)}, with or without .gz", directory)
    return found[0]


def read_clusters(path: Path) -> Iterator[Cluster]:
    """The clusters of a file in its order; blank lines count in the numbers and are no clusters.

    Raises:
        UserError: not readable, see `gzip_lines`.
    """
    for number, line in gzip_lines(path):
        if line.strip():
            texts = tuple(text.strip() for text in line.replace(NEWLINE, "\n").split(SEPARATOR))
            yield Cluster(f"cluster-{number:06d}", texts)


def read_articles(path: Path, cluster_ids: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The articles of these clusters, by cluster id.

    Raises:
        UserError: the file cannot be read, or lacks a cluster.
    """
    wanted = frozenset(cluster_ids)
    found = {c.cluster_id: c.articles for c in read_clusters(path) if c.cluster_id in wanted}
    if missing := sorted(wanted - found.keys()):
        raise UserError(
            f"{len(missing)} clusters of the manifest are not there, {missing[0]} first", "give the same data", path
        )
    return found
