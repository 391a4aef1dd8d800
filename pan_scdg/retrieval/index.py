"""Build, list and open the indexes of a corpus; they are never used for another corpus or setting."""

import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pan_scdg.cluster.session import Cluster
from pan_scdg.models.encoder import Encoder
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.profile import Bm25Settings, DenseSettings, RetrievalSettings
from pan_scdg.progress import Progress
from pan_scdg.retrieval.bm25 import fts5, impact_build, terrier
from pan_scdg.retrieval.bm25.fts5 import Bm25Index
from pan_scdg.retrieval.bm25.impact import ImpactIndex
from pan_scdg.retrieval.bm25.lexical import LexicalIndex
from pan_scdg.retrieval.bm25.terrier import TerrierIndex
from pan_scdg.retrieval.dense.ivf import build_ivf
from pan_scdg.retrieval.dense.nearest import list_pieces
from pan_scdg.retrieval.dense.vector_files import FORMAT, Manifest
from pan_scdg.retrieval.dense.vectors import VectorWriter, open_vectors
from pan_scdg.retrieval.document_groups import Group, compute_groups, make_actors
from pan_scdg.retrieval.index_folder import LAYOUTS, Engine
from pan_scdg.store import make_key


class Part(NamedTuple):
    """One index: its kind, everything that its bytes depend on, and its name in the folder."""

    kind: str
    made_of: dict[str, Any]
    manifest: Manifest | None = None
    """The same for vectors, as they keep it themselves."""

    @property
    def name(self) -> str:
        """Return the name of the file or folder: the kind and a digest of ``made_of``."""
        return f"{self.kind}-{make_key('index', self.made_of)[:16]}"


def list_parts(settings: RetrievalSettings, encoder: Encoder | None, corpus: str) -> dict[str, Part]:
    """Return the indexes that the routes of a profile need, by purpose.

    They are ``bm25``, ``chunks`` and ``abstracts``; ``chunks-ivf`` and ``abstracts-ivf`` if these are not searched
    exactly.
    """
    found = {}
    if any(route.startswith("bm25") for route in settings.routes):
        found["bm25"] = _describe_bm25(settings.bm25.engine, corpus)
    if encoder is None:
        return found
    dense = settings.need_dense()
    cut: dict[str, int | str | None] = {"document_tokens": dense.document_tokens, "dtype": encoder.dtype}
    if any(route.startswith("dense") for route in settings.routes):
        words = {"chunk_words": dense.chunk_words, "chunk_stride": dense.chunk_stride, "chunks": dense.chunks}
        found["chunks"] = _describe_vectors("chunks", encoder, dense.batch, corpus, cut | words)
    if "abstract" in settings.routes:
        found["abstracts"] = _describe_vectors("abstracts", encoder, dense.batch, corpus, cut)
    if dense.search == "ivf":
        made = {"lists": dense.lists, "ivf": LAYOUTS["ivf"]}
        vectors = {name: part for name, part in found.items() if part.manifest is not None}
        found |= {f"{name}-ivf": Part(f"{name}-ivf", {**part.made_of, **made}) for name, part in vectors.items()}
    return found


def list_shards(settings: RetrievalSettings, encoder: Encoder | None, corpora: Sequence[str]) -> list[dict[str, Part]]:
    """Return the indexes of each shard by purpose; see `list_parts`.

    FTS5 and Terrier have no statistics over several indexes: they keep all documents in one, which is the last shard's.
    """
    shards = [list_parts(settings, encoder, corpus) for corpus in corpora]
    if settings.bm25.engine != "impact" and shards and "bm25" in shards[-1]:
        for parts in shards:
            parts.pop("bm25")
        shards[-1]["bm25"] = _describe_bm25(settings.bm25.engine, join_digests(corpora))
    return shards


def join_digests(corpora: Sequence[str]) -> str:
    """Return a name for the corpora of all shards together."""
    return corpora[0] if len(corpora) == 1 else make_key("corpora", {"corpora": list(corpora)})


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
    grown_from: Path | None = None,
) -> None:
    """Build the indexes that are missing or not complete, all in one pass over the corpus.

    Vectors that an earlier process has stored are not encoded again; a BM25 index and inverted lists are built as a
    whole. An index of FTS5 begins as a copy of the one in ``grown_from``. The devices of a cluster encode the documents
    and count the terms of engine "impact"; what they return is written here.

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
            _build_lists(folder, parts, dense)
            return
        counts_terms = lexical is not None and lexical.made_of["engine"] == "impact"
        stopwords = impact_build.find_stopwords() if counts_terms else frozenset[str]()
        several = cluster if writers or counts_terms else None
        actors = stack.enter_context(closing(make_actors(encoder if writers else None, stopwords, several)))
        progress = stack.enter_context(Progress("indexing the corpus", len(corpus), actors.count))
        groups = compute_groups(corpus, writers, dense, counts_terms, actors, progress)
        if lexical is not None:
            _build_bm25(groups, folder / lexical.name, lexical.made_of["engine"], stopwords, grown_from)
        deque(groups, maxlen=0)  # the vectors alone
        _build_lists(folder, parts, dense)


def _build_lists(folder: Path, parts: Mapping[str, Part], dense: DenseSettings | None) -> None:
    """Build the inverted lists that are missing, from complete vectors."""
    for purpose, part in parts.items():
        lists = parts.get(f"{purpose}-ivf")
        if dense is None or part.manifest is None or lists is None or os.path.lexists(folder / lists.name):
            continue
        with Progress("building inverted lists", None):
            ((_, vectors),) = list_pieces(open_vectors(folder / part.name, part.manifest).chunks)
            build_ivf(vectors, folder / lists.name, dense.lists)


def _build_bm25(
    groups: Iterable[Group], path: Path, engine: str, stopwords: frozenset[str], grown_from: Path | None
) -> None:
    """Build the BM25 index of a stream of documents."""
    documents = (document for group in groups for document in group.documents)
    if engine == "fts5":
        fts5.build_index(documents, path, grown_from)
    elif engine == "terrier":
        terrier.build_index(documents, path)
    else:
        found = (([document.doc_id for document in group.documents], group.postings) for group in groups)
        impact_build.build_from_postings(found, path, stopwords)


def open_bm25(folder: Path, shards: Sequence[Mapping[str, Part]], settings: Bm25Settings) -> LexicalIndex:
    """Open the BM25 indexes of all shards with the profile's engine."""
    path, *added = [folder / parts["bm25"].name for parts in shards if "bm25" in parts]
    if settings.engine == "fts5":
        return Bm25Index(path, settings)
    if settings.engine == "terrier":
        return TerrierIndex(path, settings)
    return ImpactIndex(path, settings, added)
