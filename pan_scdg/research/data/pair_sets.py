"""The labelled pairs that a study scores, with the files of their documents: those of PAN25, and those of news."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pan_scdg.digests import text_digest
from pan_scdg.errors import UserErrors
from pan_scdg.notices import Notices
from pan_scdg.records import DocumentPair, TextFile
from pan_scdg.research.data.data_folders import DataFolders
from pan_scdg.research.data.multinews import read_articles, source_file
from pan_scdg.research.data.pair_corpus import PairDocuments, read_corpora
from pan_scdg.research.data.pair_manifest import read_manifest
from pan_scdg.research.data.prepare import MANIFEST
from pan_scdg.research.data.same_topic_pairs import read_news_pairs
from pan_scdg.research.pairs.score_table import Flags
from pan_scdg.scoring.baseline_scoring import TextFacts, read_facts

PAN25, NEWS = "pan25", "multinews"


class PairSet(NamedTuple):
    """Pairs of a manifest, in its order."""

    name: str
    ids: tuple[str, ...]
    labels: Flags
    """True where the pair is one of reuse, ``[pairs]``."""
    pairs: tuple[DocumentPair, ...]
    facts: Mapping[str, TextFacts]
    """Of every document, by the ids of `lazy`."""

    def lazy(self) -> list[DocumentPair]:
        """The pairs as baselines take them."""
        return [_lazy(pair) for pair in self.pairs]

    def digest(self) -> str:
        """SHA-256 over the documents' names and digests."""
        return text_digest("".join(f"{facts.digest}  {name}\n" for name, facts in sorted(self.facts.items())))


def _lazy(pair: DocumentPair) -> DocumentPair:
    """Return the pair with ids that no document of the other side has, whatever the files are called."""
    susp, src = pair.suspicious, pair.source
    return DocumentPair(
        susp._replace(doc_id=f"susp/{susp.doc_id}"), src._replace(doc_id=f"src/{src.doc_id}"), pair.line
    )


def _pair_set(name: str, ids: Iterable[str], labels: Iterable[int], pairs: Iterable[DocumentPair]) -> PairSet:
    """The pairs with the facts of their texts.

    Raises:
        UserErrors: naming every document that cannot be read.
    """
    found = PairSet(name, tuple(ids), np.array([bool(label) for label in labels], dtype=np.bool_), tuple(pairs), {})
    facts, faults = read_facts(text for pair in found.lazy() for text in (pair.suspicious, pair.source))
    if faults:
        raise UserErrors(list(faults.values()))
    return found._replace(facts=facts)


def pan25_pairs(prepared: Path, folders: DataFolders) -> PairSet:
    """All pairs of the PAN25 manifest.

    Args:
        prepared: written by `pan_scdg.research.data.prepare`.
        folders: where the documents are.

    Raises:
        UserError: a document is missing or cannot be read.
    """
    records = read_manifest(prepared / PAN25 / MANIFEST)
    documents = PairDocuments(read_corpora(folders.pan25, Notices()))
    pairs = [documents.pair(record) for record in records]
    return _pair_set(PAN25, (r.pair_id for r in records), (r.doc_label for r in records), pairs)


def news_pairs(prepared: Path, folders: DataFolders, scratch: Path) -> PairSet:
    """All pairs of the news manifest, with their articles in files of their own below ``scratch``.

    Raises:
        UserError: a cluster is missing or cannot be read.
    """
    records = read_news_pairs(prepared / NEWS / MANIFEST)
    articles = read_articles(source_file(folders.multinews), {record.cluster_id for record in records})
    files: dict[tuple[str, int], TextFile] = {}
    for record in records:
        for place in (record.susp_article, record.src_article):
            if (record.cluster_id, place) not in files:
                file = _article_file(f"{record.cluster_id}-{place}", scratch)
                file.path.write_bytes(articles[record.cluster_id][place].encode())
                files[record.cluster_id, place] = file
    pairs = [DocumentPair(files[r.cluster_id, r.susp_article], files[r.cluster_id, r.src_article], 0) for r in records]
    return _pair_set(NEWS, (r.pair_id for r in records), (r.doc_label for r in records), pairs)


def _article_file(name: str, scratch: Path) -> TextFile:
    return TextFile(name, f"{name}.txt", scratch / f"{name}.txt")
