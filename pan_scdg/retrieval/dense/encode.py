"""Encode the documents of a corpus on their way to the next index, in groups, on all GPUs."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from queue import SimpleQueue
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from pan_scdg.models.encoder import Encoder
from pan_scdg.profile import DenseSettings
from pan_scdg.records import Document
from pan_scdg.retrieval.dense.vectors import VectorWriter
from pan_scdg.retrieval.units import cut_chunks, extract_title_abstract

DOCUMENTS_A_GROUP = 64
"""Encoded together and stored together, since a document's vector depends on its neighbours in a batch."""
Group = tuple[int, list[Document]]
"""Documents, after the position of the first one in the corpus."""
Result = TypeVar("Result")


class EncodedGroup(NamedTuple):
    """Documents, the number of vectors of each, and the vectors one below the other."""

    doc_ids: list[str]
    counts: list[int]
    vectors: npt.NDArray[np.float32]


def encode_documents(
    documents: Iterator[Document], writers: Sequence[VectorWriter], encoders: Sequence[Encoder], dense: DenseSettings
) -> Iterator[Document]:
    """Yield the documents of a corpus unchanged, and write their vectors; continue where a process was stopped.

    Args:
        documents: the whole corpus.
        writers: of the folders of vectors that are not complete; the ``kind`` of each says what it stores.
        encoders: the same model once for each device; what is written does not depend on their number.
        dense: the profile's settings.

    Raises:
        UserError: a folder cannot be written.
    """
    stored = [writer.documents for writer in writers]

    def encode(encoder: Encoder, group: Group) -> list[EncodedGroup | None]:
        start, own = group
        return [
            None if start < count else _encode_group(encoder, own, writer.manifest.kind, dense)
            for writer, count in zip(writers, stored)
        ]

    for (_, own), encoded in map_in_parallel(encode, encoders, _group_documents(documents)):
        for writer, vectors in zip(writers, encoded):
            if vectors is not None:
                writer.append(*vectors)
        yield from own
    for writer in writers:
        writer.finish()


def map_in_parallel(
    encode: Callable[[Encoder, Group], Result], encoders: Sequence[Encoder], groups: Iterator[Group]
) -> Iterator[tuple[Group, Result]]:
    """Yield each group with its result, in order; at most twice as many groups as encoders are in memory.

    Each encoder works on one group at a time, in a thread of its own: the work is done outside of Python's lock.
    """
    if len(encoders) == 1:
        yield from ((group, encode(encoders[0], group)) for group in groups)
        return
    free: SimpleQueue[Encoder] = SimpleQueue()
    for encoder in encoders:
        free.put(encoder)

    def work(group: Group) -> tuple[Group, Result]:
        encoder = free.get()
        try:
            return group, encode(encoder, group)
        finally:
            free.put(encoder)

    pending: deque[Future[tuple[Group, Result]]] = deque()
    with ThreadPoolExecutor(len(encoders)) as pool:
        for group in groups:
            pending.append(pool.submit(work, group))
            if len(pending) == 2 * len(encoders):
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _encode_group(encoder: Encoder, group: Sequence[Document], kind: str, dense: DenseSettings) -> EncodedGroup:
    """Return the vectors of documents that are encoded together."""
    cut = [_cut_texts(document, kind, dense) for document in group]
    vectors = encoder.encode([text for texts in cut for text in texts], dense.document_tokens)
    return EncodedGroup([document.doc_id for document in group], [len(texts) for texts in cut], vectors)


def _cut_texts(document: Document, kind: str, dense: DenseSettings) -> list[str]:
    """Return the texts to encode of a document; an empty text without words, so that every document has a vector."""
    if kind == "abstracts":
        return [extract_title_abstract(document.text)]
    return cut_chunks(document.text, dense.chunk_words, dense.chunk_stride, dense.chunks) or [""]


def _group_documents(documents: Iterator[Document]) -> Iterator[Group]:
    """Yield groups of documents in order, each with the position of its first one."""
    start = 0
    while group := list(islice(documents, DOCUMENTS_A_GROUP)):
        yield start, group
        start += len(group)
