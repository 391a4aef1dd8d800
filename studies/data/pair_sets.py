"""The labelled pairs that a study scores, with the files of their documents: PAN25 and news."""

from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.digests import hash_text
from pan_scdg.errors import UserErrors
from pan_scdg.records import DocumentPair, TextFile
from studies.data.corpora import PairDocuments, TruePair
from studies.data.news import NewsPair, find_clusters, read_articles
from studies.data.pair_manifest import PairRecord
from pan_scdg.scoring.baseline_scoring import TextFacts, read_facts

PAN25, NEWS = "pan25", "multinews"


class PairSet(NamedTuple):
    """Pairs of a manifest, in its order."""

    name: str
    ids: tuple[str, ...]
    labels: npt.NDArray[np.bool_]
    """True for a pair of reuse, ``[pairs]``."""
    pairs: tuple[DocumentPair, ...]
    facts: Mapping[str, TextFacts]
    """Digest and length of every document, by the ids of `rename_documents`."""

    def rename_documents(self) -> list[DocumentPair]:
        """Return the pairs with ids that no document of the other side has, whatever the files are called."""
        return [
            pair._replace(
                suspicious=pair.suspicious._replace(doc_id=f"susp/{pair.suspicious.doc_id}"),
                source=pair.source._replace(doc_id=f"src/{pair.source.doc_id}"),
            )
            for pair in self.pairs
        ]

    def leave_out(self, lost: Container[str]) -> "PairSet":
        """Return the pairs without those of these ids; the facts still cover all documents."""
        kept = [i for i, pair_id in enumerate(self.ids) if pair_id not in lost]
        ids, pairs = tuple(self.ids[i] for i in kept), tuple(self.pairs[i] for i in kept)
        return self._replace(ids=ids, labels=self.labels[kept], pairs=pairs)

    def digest(self) -> str:
        """Return the SHA-256 over the documents' names and digests."""
        return hash_text("".join(f"{facts.digest}  {name}\n" for name, facts in sorted(self.facts.items())))


def _make_set(name: str, records: Iterable[PairRecord | NewsPair], pairs: Iterable[DocumentPair]) -> PairSet:
    """Return the pairs with the facts of their texts; raise UserErrors if some cannot be read."""
    records = tuple(records)
    labels = np.array([record.doc_label == 1 for record in records], dtype=np.bool_)
    found = PairSet(name, tuple(record.pair_id for record in records), labels, tuple(pairs), {})
    facts, faults = read_facts(text for pair in found.rename_documents() for text in (pair.suspicious, pair.source))
    if faults:
        raise UserErrors(list(faults.values()))
    return found._replace(facts=facts)


def find_pan25_pairs(records: Iterable[PairRecord], corpus: Iterable[TruePair]) -> PairSet:
    """Return all pairs of the PAN25 manifest.

    Raises:
        UserError: a document is missing or cannot be read.
    """
    records, documents = tuple(records), PairDocuments(corpus)
    return _make_set(PAN25, records, [documents.find(record.names) for record in records])


def write_news_pairs(records: Iterable[NewsPair], directory: Path, scratch: Path) -> PairSet:
    """Return all pairs of the news manifest, with their articles written to files of their own.

    Args:
        records: the manifest.
        directory: the folder of the clusters.
        scratch: the folder of the new files.

    Raises:
        UserError: a cluster is missing or cannot be read.
    """
    records = tuple(records)
    articles = read_articles(find_clusters(directory), {record.cluster_id for record in records})
    files: dict[tuple[str, int], TextFile] = {}
    for record in records:
        for place in (record.susp_article, record.src_article):
            name = f"{record.cluster_id}-{place}"
            files[record.cluster_id, place] = TextFile(name, f"{name}.txt", scratch / f"{name}.txt")
    for (cluster_id, place), file in files.items():
        file.path.write_bytes(articles[cluster_id][place].encode())
    pairs = [DocumentPair(files[r.cluster_id, r.susp_article], files[r.cluster_id, r.src_article], 0) for r in records]
    return _make_set(NEWS, records, pairs)
