"""The first stage of job 2: three routes over the streamed corpus, kept in the store (paper, first-stage PAN26)."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.digests import text_digest
from pan_scdg.errors import UserError
from pan_scdg.model_cache import cache_folder
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import Document, Query, stream_corpus
from pan_scdg.profile import DenseSettings, RetrievalSettings
from pan_scdg.progress import Progress
from pan_scdg.retrieval.bm25_fts5 import Bm25Index, build_index
from pan_scdg.retrieval.dense import one_to_one, sentence_to_chunk
from pan_scdg.retrieval.encoder import Encoder, load_encoder
from pan_scdg.retrieval.fusion import daac, rrf
from pan_scdg.retrieval.ranking import Ranked, Ranking
from pan_scdg.retrieval.units import chunks, sentences, title_abstract
from pan_scdg.store import Store, key_of, pack_array, unpack_array

ROUTES = ("bm25", "dense", "abstract")
DOCUMENTS_A_GROUP = 64  # encoded and stored together


class FirstStage(NamedTuple):
    """What the routes found for one query, and their fusion."""

    routes: dict[str, Ranking]
    candidates: Ranking


class DenseIndex(NamedTuple):
    """Vectors of the corpus: ``chunks`` [chunks, d] with ``owner`` [chunks], ``abstracts`` [documents, d], all float16
    as the paper stores them."""

    doc_ids: list[str]
    chunks: npt.NDArray[np.float16]
    owner: npt.NDArray[np.int64]
    abstracts: npt.NDArray[np.float16]


def find_encoder(settings: DenseSettings, device: str) -> Encoder:
    """The embedding model of a profile: the bundled package, a folder of the model cache, or any folder.

    Raises:
        UserError: it is nowhere.
    """
    inside = cache_folder() / settings.model
    return load_encoder(inside if inside.is_dir() else settings.model, device, settings.batch)


def first_stage(
    directory: Path, queries: Sequence[Query], settings: RetrievalSettings, encoder: Encoder, store: Store, corpus: str
) -> dict[str, FirstStage]:
    """Candidates of every query.

    Args:
        directory: the input.
        queries: all queries.
        settings: the profile's.
        encoder: the embedding model.
        store: rankings, vectors and the index file are kept here.
        corpus: digest of the corpus file.
    """
    parts = {
        "corpus": corpus,
        "bm25": settings.bm25.model_dump(mode="json"),
        "dense": settings.dense.model_dump(mode="json"),
        "encoder": encoder.fingerprint,
        "device": encoder.device,
    }
    keys = {q.query_id: key_of("routes", {**parts, "query": text_digest(q.text)}) for q in queries}
    missing = {keys[q.query_id]: q for q in queries if store.get(keys[q.query_id]) is None}  # equal texts once
    if missing:
        index_file = bm25_file(directory, store, corpus)
        vectors = dense_index(directory, settings.dense, encoder, store)
        with Bm25Index(index_file, settings.bm25) as index, Progress("first stage", len(missing)) as progress:
            for key, query in missing.items():
                routes = _search(query, index, vectors, encoder, settings.dense)
                store.put([(key, json.dumps(routes).encode())])
                progress.update()
    found = {}
    for query in queries:
        stored = json.loads(store.get(keys[query.query_id]) or b"{}")
        routes = {name: [Ranked(doc_id, score) for doc_id, score in stored[name]] for name in ROUTES}
        found[query.query_id] = FirstStage(routes, fuse(routes, settings))
    return found


def fuse(routes: dict[str, Ranking], settings: RetrievalSettings) -> Ranking:
    """The coarse ranking: DAAC or RRF of the three routes."""
    if settings.fusion == "daac":
        return daac(routes["bm25"], routes["dense"], routes["abstract"], settings.depth)
    return rrf([routes[name] for name in ROUTES], settings.depth)


def bm25_file(directory: Path, store: Store, corpus: str) -> Path:
    """The FTS5 index of the corpus in the state folder, built when it is not there yet."""
    path = store.folder / f"bm25-{corpus[:32]}.sqlite"
    if not path.is_file():
        with Progress("indexing for BM25", None) as progress:
            build_index(_counted(stream_corpus(directory, Notices()), progress), path)
    return path


def _counted(documents: Iterator[Document], progress: Progress) -> Iterator[Document]:
    for document in documents:
        yield document
        progress.update()


def _groups(documents: Iterator[Document]) -> Iterator[list[Document]]:
    group: list[Document] = []
    for document in documents:
        group.append(document)
        if len(group) == DOCUMENTS_A_GROUP:
            yield group
            group = []
    if group:
        yield group


def dense_index(directory: Path, settings: DenseSettings, encoder: Encoder, store: Store) -> DenseIndex:
    """Vectors of all chunks and of all titles with abstracts; a group of documents is encoded and stored at a time."""
    doc_ids: list[str] = []
    owners, chunk_blocks, abstract_blocks = [], [], []
    with Progress("encoding the corpus", None) as progress:
        for group in _groups(stream_corpus(directory, Notices())):
            counts, vectors, abstracts = _encode_group(group, settings, encoder, store)
            owners.append(np.repeat(np.arange(len(doc_ids), len(doc_ids) + len(group)), counts))
            doc_ids += [d.doc_id for d in group]
            chunk_blocks.append(vectors)
            abstract_blocks.append(abstracts)
            progress.update(len(group))
    if not doc_ids:
        raise UserError("the corpus is empty", "check the corpus file", directory)
    return DenseIndex(
        doc_ids, np.concatenate(chunk_blocks), np.concatenate(owners).astype(np.int64), np.concatenate(abstract_blocks)
    )


def _encode_group(
    group: Sequence[Document], settings: DenseSettings, encoder: Encoder, store: Store
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float16], npt.NDArray[np.float16]]:
    texts = hashlib.sha256("".join(text_digest(d.text) for d in group).encode()).hexdigest()
    key = key_of(
        "vectors",
        {
            "encoder": encoder.fingerprint,
            "device": encoder.device,
            "batch": settings.batch,
            "texts": texts,
            "chunking": [settings.chunk_words, settings.chunk_stride, settings.chunks, settings.document_tokens],
        },
    )
    stored = [store.get(f"{key}/{part}") for part in ("counts", "chunks", "abstracts")]
    if all(part is not None for part in stored):
        counts, vectors, abstracts = (unpack_array(part) for part in stored if part is not None)
        return counts, vectors, abstracts
    # a document without words is represented by an empty chunk, so that every document has a vector
    cut = [chunks(d.text, settings.chunk_words, settings.chunk_stride, settings.chunks) or [""] for d in group]
    counts = np.array([len(c) for c in cut], dtype=np.int64)
    vectors = encoder.encode([c for of in cut for c in of], settings.document_tokens).astype(np.float16)
    abstracts = encoder.encode([title_abstract(d.text) for d in group], settings.document_tokens).astype(np.float16)
    arrays = {"counts": counts, "chunks": vectors, "abstracts": abstracts}
    store.put([(f"{key}/{part}", pack_array(array)) for part, array in arrays.items()])
    return counts, vectors, abstracts


def _search(
    query: Query, index: Bm25Index, vectors: DenseIndex, encoder: Encoder, settings: DenseSettings
) -> dict[str, list[Any]]:
    units = sentences(query.text) or [query.text]
    by_sentence = encoder.encode(units, settings.query_tokens, settings.query_prompt)
    abstract = encoder.encode([title_abstract(query.text)], settings.query_tokens, settings.query_prompt)
    return {
        "bm25": index.search(query.text),
        "dense": sentence_to_chunk(
            by_sentence, vectors.chunks, vectors.owner, vectors.doc_ids, settings.kept_chunks, settings.depth
        ),
        "abstract": one_to_one(abstract[0], vectors.abstracts, vectors.doc_ids, settings.depth),
    }
