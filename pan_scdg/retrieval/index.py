"""Build, list and open the indexes of a corpus; they are never used for another corpus or setting."""

import json
import os
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from pydantic import Field

from pan_scdg.cluster.session import Cluster
from pan_scdg.errors import UserError
from pan_scdg.models.encoder import Encoder
from pan_scdg.models.encoding import open_encoding
from pan_scdg.own_files import OwnRecord, read_record, write_atomically
from pan_scdg.pan.corpus import Corpus
from pan_scdg.profile import Bm25Settings, DenseSettings, RetrievalSettings
from pan_scdg.progress import Progress
from pan_scdg.records import Document
from pan_scdg.retrieval.dense.encode import encode_documents
from pan_scdg.retrieval.dense.vector_files import FORMAT, Manifest
from pan_scdg.retrieval.dense.vectors import VectorWriter
from pan_scdg.retrieval.index_folder import LAYOUTS, Engine
from pan_scdg.retrieval.ranking import Ranking
from pan_scdg.store import lock_folder, make_key

CATALOGUE = "index.json"
CATALOGUE_BYTES = 1 << 20
REMAKE = "make one with the command index"
MOST_TOLD = 8
"""Differences that an error names."""
Short = Annotated[str, Field(max_length=256)]


class Entry(OwnRecord):
    """An index in the catalogue."""

    kind: Short
    made_of: dict[Short, int | Short | None]


class Catalogue(OwnRecord):
    """``index.json``: the indexes of a folder, by name."""

    corpus: Short
    indexes: dict[Short, Entry]


class Lexical(Protocol):
    """A BM25 engine: see `bm25.fts5`, `bm25.terrier`, `bm25.impact`."""

    def search_sentences(self, query_text: str) -> Ranking:
        """Rank by the fused rankings of the query's sentences."""

    def search_full(self, query_text: str) -> Ranking:
        """Rank by the rarest terms of the whole query."""

    def __enter__(self) -> Any: ...

    def __exit__(self, kind: Any, error: Any, trace: Any, /) -> None: ...


class Part(NamedTuple):
    """One index: what kind it is, everything that its bytes depend on, and its name in the folder."""

    kind: str
    made_of: dict[str, Any]
    manifest: Manifest | None = None
    """The same for vectors, as they keep it themselves."""

    @property
    def name(self) -> str:
        """File or folder name: the kind and a digest of ``made_of``."""
        return f"{self.kind}-{make_key('index', self.made_of)[:16]}"


def list_parts(settings: RetrievalSettings, encoder: Encoder | None, corpus: str) -> dict[str, Part]:
    """Return the indexes that the routes of a profile need, by purpose: ``bm25``, ``chunks``, ``abstracts``."""
    found = {}
    if any(route.startswith("bm25") for route in settings.routes):
        found["bm25"] = _describe_bm25(settings.bm25.engine, corpus)
    if encoder is None:
        return found
    dense = settings.need_dense()
    cut: dict[str, int | str | None] = {"document_tokens": dense.document_tokens}
    if any(route.startswith("dense") for route in settings.routes):
        words = {"chunk_words": dense.chunk_words, "chunk_stride": dense.chunk_stride, "chunks": dense.chunks}
        found["chunks"] = _describe_vectors("chunks", encoder, dense.batch, corpus, cut | words)
    if "abstract" in settings.routes:
        found["abstracts"] = _describe_vectors("abstracts", encoder, dense.batch, corpus, cut)
    return found


def _describe_bm25(engine: Engine, corpus: str) -> Part:
    """Return the description of a BM25 index."""
    return Part(f"bm25-{engine}", {"corpus": corpus, "engine": engine, "layout": LAYOUTS[engine]})


def _describe_vectors(
    kind: Literal["chunks", "abstracts"], encoder: Encoder, batch: int, corpus: str, cut: Mapping[str, int | str | None]
) -> Part:
    """Return the description of an index of vectors."""
    manifest = Manifest(
        kind=kind,
        model=encoder.fingerprint,
        device=encoder.device,
        batch=batch,
        corpus=corpus,
        dimension=encoder.dimension,
        settings=dict(cut),
        format=FORMAT,
        sealed=None,
    )
    return Part(kind, manifest.list_fields(), manifest)


def build_indexes(
    corpus: Corpus,
    folder: Path,
    parts: Mapping[str, Part],
    encoder: Encoder | None,
    dense: DenseSettings | None,
    cluster: Cluster | None = None,
) -> None:
    """Build the indexes that are missing or not complete, all in one pass over the corpus.

    Vectors that an earlier process has stored are not encoded again; a BM25 index is built as a whole.

    Raises:
        UserError: the folder cannot be written or is in use, the corpus is empty, or an engine is not installed.
    """
    with ExitStack() as stack:
        writers = [
            stack.enter_context(VectorWriter(folder / part.name, part.manifest))
            for part in parts.values()
            if part.manifest is not None
        ]
        writers = [writer for writer in writers if not writer.complete]
        lexical = parts.get("bm25")
        if lexical is not None and os.path.lexists(folder / lexical.name):  # checked when it is opened
            lexical = None
        if not writers and lexical is None:
            return
        progress = stack.enter_context(Progress("indexing the corpus", len(corpus)))
        documents = iter(corpus)
        if writers and encoder is not None and dense is not None:
            encode = stack.enter_context(open_encoding(encoder, cluster))
            documents = encode_documents(documents, writers, encode, dense)
        documents = _count_documents(documents, progress)
        if lexical is not None:
            _build_bm25(documents, folder / lexical.name, lexical.made_of["engine"])
        deque(documents, maxlen=0)  # the vectors alone


def _build_bm25(documents: Iterator[Document], path: Path, engine: str) -> None:
    """Build the BM25 index of a stream of documents."""
    if engine == "fts5":
        from pan_scdg.retrieval.bm25.fts5 import build_index as build_fts5

        build_fts5(documents, path)
    elif engine == "terrier":
        from pan_scdg.retrieval.bm25.terrier import build_index as build_terrier

        build_terrier(documents, path)
    else:
        from pan_scdg.retrieval.bm25.impact import build_index as build_impact

        build_impact(documents, path)


def open_bm25(path: Path, settings: Bm25Settings) -> Lexical:
    """Open the BM25 index at ``path`` with the profile's engine."""
    if settings.engine == "fts5":
        from pan_scdg.retrieval.bm25.fts5 import Bm25Index

        return Bm25Index(path, settings)
    if settings.engine == "terrier":
        from pan_scdg.retrieval.bm25.terrier import TerrierIndex

        return TerrierIndex(path, settings)
    from pan_scdg.retrieval.bm25.impact import ImpactIndex

    return ImpactIndex(path, settings)


def _count_documents(documents: Iterator[Document], progress: Progress) -> Iterator[Document]:
    """Yield the documents and count them as done."""
    for document in documents:
        yield document
        progress.update()


def write_catalogue(folder: Path, corpus: str, parts: Mapping[str, Part]) -> None:
    """Add these indexes to the list of what a folder holds.

    Raises:
        UserError: the folder's indexes are of another corpus.
    """
    known = Catalogue(corpus=corpus, indexes={})
    if os.path.lexists(folder / CATALOGUE):
        known = read_catalogue(folder)
    if known.corpus != corpus:
        raise UserError("holds indexes of another corpus", "choose another --index folder", folder)
    indexes = {part.name: Entry(kind=part.kind, made_of=part.made_of) for part in parts.values()}
    known = Catalogue(corpus=corpus, indexes={**known.indexes, **indexes})
    write_atomically(folder / CATALOGUE, json.dumps(known.model_dump(), indent=1, sort_keys=True) + "\n")


def read_catalogue(folder: Path) -> Catalogue:
    """Return the list of what an index folder holds.

    Raises:
        UserError: there is none, or it cannot be read.
    """
    found = read_record(folder / CATALOGUE, Catalogue, REMAKE, CATALOGUE_BYTES)
    if found is None:
        raise UserError("no index of a corpus", REMAKE, folder / CATALOGUE)
    return found


def check_catalogue(folder: Path, corpus: str, parts: Mapping[str, Part]) -> None:
    """Raise UserError if an index folder is of another corpus or other settings, and name what differs."""
    known = read_catalogue(folder)
    if known.corpus != corpus:
        raise UserError("was made for another corpus", "make one for this input with the command index", folder)
    for part in parts.values():
        if part.name in known.indexes:
            continue
        alike = [other.made_of for other in known.indexes.values() if other.kind == part.kind]
        differ = [(k, other.get(k), v) for other in alike for k, v in part.made_of.items() if other.get(k) != v]
        why = [f"{name} is {there!r}, not {wanted!r}" for name, there, wanted in differ]
        raise UserError(
            f"has no {part.kind} for this profile{': ' if why else ''}{'; '.join(why[:MOST_TOLD])}",
            "run the command index with this profile, model and device",
            folder,
        )


def index_corpus(
    corpus: Corpus,
    folder: Path,
    settings: RetrievalSettings,
    encoder: Encoder | None,
    cluster: Cluster | None = None,
) -> list[str]:
    """Build the indexes of a profile in an index folder; return a line for each.

    Raises:
        UserError: see `build_indexes`; or the folder holds indexes of another corpus, or is in use.
    """
    parts = list_parts(settings, encoder, corpus.digest)
    with lock_folder(folder):
        write_catalogue(folder, corpus.digest, {})
        build_indexes(corpus, folder, parts, encoder, settings.dense, cluster)
        write_catalogue(folder, corpus.digest, parts)
    return [f"{part.kind}: {folder / part.name}" for part in parts.values()]
