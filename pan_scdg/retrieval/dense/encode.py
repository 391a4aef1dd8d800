"""The vectors of a corpus, encoded a group of documents at a time, on every GPU there is."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.models.encoder import Encoder
from pan_scdg.profile import DenseSettings
from pan_scdg.progress import Progress
from pan_scdg.records import Document
from pan_scdg.retrieval.dense.vector_files import Manifest
from pan_scdg.retrieval.dense.vectors import VectorWriter
from pan_scdg.retrieval.units import cut_chunks, extract_title_abstract

DOCUMENTS_A_GROUP = 64
"""Encoded together and kept together: what a document's vector is depends on its neighbours in a batch."""


class EncodedGroup(NamedTuple):
    """Documents, how many vectors each has, and the vectors one below the other."""

    doc_ids: list[str]
    counts: list[int]
    vectors: npt.NDArray[np.float32]


def build_vectors(
    documents: Iterator[Document], path: Path, manifest: Manifest, encoders: Sequence[Encoder], dense: DenseSettings
) -> None:
    """Encode a streamed corpus into a folder of vectors; goes on where an earlier process was stopped.

    Args:
        documents: the whole corpus.
        path: the folder of vectors.
        manifest: what the vectors depend on; its ``kind`` says what is encoded of a document.
        encoders: the same model once for each device; what is written does not depend on their number.
        dense: the profile's settings.

    Raises:
        UserError: the folder holds other vectors, is in use or cannot be written.
    """

    def encode(encoder: Encoder, group: list[Document]) -> EncodedGroup:
        cut = [_texts(document, manifest.kind, dense) for document in group]
        vectors = encoder.encode([text for of in cut for text in of], dense.document_tokens)
        return EncodedGroup([d.doc_id for d in group], [len(of) for of in cut], vectors)

    with VectorWriter(path, manifest) as writer, Progress(f"encoding {manifest.kind}", None) as progress:
        if writer.complete:
            return
        for encoded in side_by_side(encode, encoders, _groups(documents, writer.documents, progress)):
            writer.append(*encoded)
            progress.update(len(encoded.doc_ids))
        writer.finish()


def side_by_side(
    encode: Callable[[Encoder, list[Document]], EncodedGroup],
    encoders: Sequence[Encoder],
    groups: Iterator[list[Document]],
) -> Iterator[EncodedGroup]:
    """The encoded groups in their order, at most twice as many on the way as there are encoders.

    Each encoder works on one group at a time, in a thread of its own: the work is done outside of Python's lock.
    """
    if len(encoders) == 1:
        yield from (encode(encoders[0], group) for group in groups)
        return
    free: SimpleQueue[Encoder] = SimpleQueue()
    for encoder in encoders:
        free.put(encoder)

    def work(group: list[Document]) -> EncodedGroup:
        encoder = free.get()
        try:
            return encode(encoder, group)
        finally:
            free.put(encoder)

    under_way: deque[Future[EncodedGroup]] = deque()
    with ThreadPoolExecutor(len(encoders)) as pool:
        for group in groups:
            under_way.append(pool.submit(work, group))
            if len(under_way) == 2 * len(encoders):
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()


def _texts(document: Document, kind: str, dense: DenseSettings) -> list[str]:
    """What is encoded of a document; one without words has an empty chunk, so that every document has a vector."""
    if kind == "abstracts":
        return [extract_title_abstract(document.text)]
    return cut_chunks(document.text, dense.chunk_words, dense.chunk_stride, dense.chunks) or [""]


def _groups(documents: Iterator[Document], there: int, progress: Progress) -> Iterator[list[Document]]:
    """Groups of documents in order, without the first ``there`` documents (whole groups)."""
    group: list[Document] = []
    for number, document in enumerate(documents):
        if number < there:
            progress.update()
            continue
        group.append(document)
        if len(group) == DOCUMENTS_A_GROUP:
            yield group
            group = []
    if group:
        yield group
