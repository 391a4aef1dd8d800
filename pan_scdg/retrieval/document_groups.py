"""Take a corpus in groups of documents: encode each group and count its terms, in this process or in actors."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from threading import Lock
from typing import NamedTuple

from pan_scdg.cluster.actor import SWITCH, Alone, Place
from pan_scdg.cluster.actors import AHEAD, Actors
from pan_scdg.cluster.session import Cluster
from pan_scdg.models.encoder import Encoder
from pan_scdg.models.encoding import EncodingOrders, Texts, Vectors, encode_all
from pan_scdg.models.memory import explain_memory
from pan_scdg.profile import DenseSettings
from pan_scdg.progress import Progress
from pan_scdg.records import Document
from pan_scdg.retrieval.bm25.impact_build import Postings, count_postings
from pan_scdg.retrieval.bm25.terrier_terms import TermPipeline
from pan_scdg.retrieval.dense.vectors import VectorWriter
from pan_scdg.retrieval.units import cut_chunks, extract_title_abstract

DOCUMENTS_A_GROUP = 64
"""Encoded together and stored together, since a document's vector depends on its neighbours in a batch."""


class GroupWork(NamedTuple):
    """The texts of a group of documents."""

    encoded: list[Texts]
    """For each index of vectors that lacks the group."""
    counted: list[str]
    """Of each document, or none."""


class GroupValues(NamedTuple):
    """The result of a `GroupWork`."""

    vectors: list[Vectors]
    """``[n, dimension]`` for each of ``encoded``."""
    postings: Postings
    """Of ``counted``."""


class Group(NamedTuple):
    """Documents that were computed together."""

    documents: list[Document]
    postings: Postings


Encode = Callable[[Sequence[Texts]], list[Vectors]]
GroupActors = Actors[GroupWork, GroupValues] | Alone[GroupWork, GroupValues]


@dataclass(frozen=True)
class GroupOrders:
    """The preparation of an actor that computes groups."""

    encoding: EncodingOrders | None
    """None: nothing is encoded."""
    stopwords: frozenset[str]

    def prepare(self) -> None:
        """Import the libraries."""
        if self.encoding is not None:
            self.encoding.prepare()

    def load(self, place: Place) -> Callable[[GroupWork], GroupValues]:
        """Return the function that computes a group; `AHEAD` threads may call it.

        Raises:
            UserError: the encoder is not at this path, or it is another one.
        """
        sys.setswitchinterval(SWITCH)
        encode = None if self.encoding is None else self.encoding.load(place)
        return explain_memory(_make_function(encode, self.stopwords))


def _make_function(encode: Encode | None, stopwords: frozenset[str]) -> Callable[[GroupWork], GroupValues]:
    pipeline, counting, encoding = TermPipeline(stopwords), Lock(), Lock()  # each is used by one thread at a time

    def compute(work: GroupWork) -> GroupValues:
        with counting:
            postings = count_postings(work.counted, pipeline)
        with encoding:
            return GroupValues([] if encode is None else encode(work.encoded), postings)

    return compute


def make_actors(encoder: Encoder | None, stopwords: frozenset[str], cluster: Cluster | None) -> GroupActors:
    """Return actors if the cluster has several devices, otherwise their substitute in this process; to be closed."""
    device = "cpu" if encoder is None else encoder.device
    if cluster is not None and cluster.needs_ray(device):
        orders = GroupOrders(None if encoder is None else EncodingOrders.make(encoder), stopwords)
        return Actors(cluster, orders, device, at_once=AHEAD)
    return Alone(_make_function(None if encoder is None else lambda work: encode_all(encoder, work), stopwords))


def compute_groups(
    documents: Iterable[Document],
    writers: Sequence[VectorWriter],
    dense: DenseSettings | None,
    counts_terms: bool,
    actors: GroupActors,
    progress: Progress,
) -> Iterator[Group]:
    """Yield groups of documents in order with their terms, and write their vectors where a process was stopped.

    Args:
        documents: all documents of a corpus.
        writers: those of the vectors that are not complete; they are finished at the end.
        dense: says how texts are cut; needed if there are writers.
        counts_terms: there are no postings otherwise.
        actors: compute.
        progress: counts the documents.

    Raises:
        UserError: a folder cannot be written.
    """
    stored = [writer.documents for writer in writers]
    pending: deque[tuple[list[Document], list[list[int]]]] = deque()
    """Groups under way, with the number of texts of each document for each writer; none if it has the group already."""

    def make_works() -> Iterator[GroupWork]:
        for start, group in _group_documents(iter(documents)):
            cuts: list[list[list[str]]] = [[] for _ in writers]
            for writer, count, cut in zip(writers, stored, cuts):
                if dense is not None and start >= count:
                    cut += [cut_texts(document, writer.manifest.kind, dense) for document in group]
            pending.append((group, [list(map(len, cut)) for cut in cuts]))
            limit = None if dense is None else dense.document_tokens
            texts = [document.text for document in group] if counts_terms else []
            yield GroupWork([Texts(list(chain(*cut)), limit) for cut in cuts if cut], texts)

    for found in actors.map(make_works()):
        group, sizes = pending.popleft()
        vectors = iter(found.vectors)
        for writer, counts in zip(writers, sizes):
            if counts:
                writer.append([document.doc_id for document in group], counts, next(vectors))
        yield Group(group, found.postings)
        progress.update(len(group))
    for writer in writers:
        writer.finish()


def cut_texts(document: Document, kind: str, dense: DenseSettings) -> list[str]:
    """Return the texts to encode of a document; an empty text without words, so that every document has a vector."""
    if kind == "abstracts":
        return [extract_title_abstract(document.text)]
    return cut_chunks(document.text, dense.chunk_words, dense.chunk_stride, dense.chunks) or [""]


def _group_documents(documents: Iterator[Document]) -> Iterator[tuple[int, list[Document]]]:
    """Yield groups of documents in order, each after the position of its first one in the corpus."""
    start = 0
    while group := list(islice(documents, DOCUMENTS_A_GROUP)):
        yield start, group
        start += len(group)
