"""Encode the documents of a corpus on their way to the next index, in groups, on all devices."""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from pan_scdg.models.encoding import Encode, Texts
from pan_scdg.profile import DenseSettings
from pan_scdg.records import Document
from pan_scdg.retrieval.dense.vectors import VectorWriter
from pan_scdg.retrieval.units import cut_chunks, extract_title_abstract

DOCUMENTS_A_GROUP = 64
"""Encoded together and stored together, since a document's vector depends on its neighbours in a batch."""
Group = tuple[int, list[Document]]
"""Documents, after the position of the first one in the corpus."""


def encode_documents(
    documents: Iterator[Document], writers: Sequence[VectorWriter], encode: Encode, dense: DenseSettings
) -> Iterator[Document]:
    """Yield the documents of a corpus unchanged, and write their vectors; continue where a process was stopped.

    The writers are those of the vectors that are not complete.

    Raises:
        UserError: a folder cannot be written.
    """
    stored = [writer.documents for writer in writers]
    pending: deque[tuple[list[Document], list[list[list[str]]]]] = deque()
    """Groups under way, with the texts of each document for each writer; none if it has the group already."""

    def make_works() -> Iterator[list[Texts]]:
        for start, group in _group_documents(documents):
            kinds = [writer.manifest.kind if start >= count else None for writer, count in zip(writers, stored)]
            cuts = [[] if kind is None else [cut_texts(document, kind, dense) for document in group] for kind in kinds]
            pending.append((group, cuts))
            yield [Texts(list(chain(*cut)), dense.document_tokens) for cut in cuts if cut]

    for encoded in encode(make_works()):
        group, cuts = pending.popleft()
        vectors = iter(encoded)
        for writer, cut in zip(writers, cuts):
            if cut:
                writer.append([document.doc_id for document in group], list(map(len, cut)), next(vectors))
        yield from group
    for writer in writers:
        writer.finish()


def cut_texts(document: Document, kind: str, dense: DenseSettings) -> list[str]:
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
