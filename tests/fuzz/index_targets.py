"""Readers of search indexes, which the program has made itself and finds again; the valid ones are made by its writers.

Checksums stop most changes of bulk data; so that what lies behind them is read too, two targets go around them.
"""

import json
from pathlib import Path

import numpy as np
from formats import BYTES, JSON, gzipped
from pan_scdg.retrieval.bm25.impact import ImpactIndex
from pan_scdg.retrieval.bm25.impact_build import build_index
from pan_scdg.retrieval.candidate_files import read_candidates
from pan_scdg.retrieval.dense.vector_files import FORMAT, Manifest
from target import Target

from pan_scdg.notices import Notices
from pan_scdg.profile import Bm25Settings, load_profile
from pan_scdg.records import Document, Query
from pan_scdg.retrieval import catalogue, index_folder
from pan_scdg.retrieval.bm25 import fts5 as bm25_fts5
from pan_scdg.retrieval.bm25 import impact_arrays
from pan_scdg.retrieval.dense import vectors
from pan_scdg.retrieval.index import Part

DOCUMENTS = [
    Document("d/1", "The ferry left at six. Nobody waved."),
    Document("d/2", "A lamp was lit in the tower; the ferry came back."),
    Document("d/3", "Salt stays when water goes."),
]
SETTINGS = Bm25Settings(terms=4, full_terms=8, depth=2)
MADE_OF = Manifest(
    kind="chunks",
    model="a" * 64,
    device="cpu",
    batch=2,
    corpus="b" * 64,
    dimension=4,
    settings={"chunks": 2, "chunk_words": 40, "document_tokens": None},
    format=FORMAT,
    sealed=None,
)
PARTS = {"bm25": Part("bm25-fts5", {"corpus": "b" * 64, "engine": "fts5", "layout": 1})}
RETRIEVAL = load_profile("offline").need_retrieval()


def _make_catalogue(folder: Path) -> None:
    shard = catalogue.Shard(corpus="b" * 64, documents=3, content="c" * 64)
    indexes = {part.name: catalogue.Entry(kind=part.kind, made_of=part.made_of) for part in PARTS.values()}
    catalogue.write_catalogue(folder, catalogue.Catalogue(shards=[shard], indexes=indexes))


def _catalogue(folder: Path) -> None:
    catalogue.check_parts(catalogue.read_catalogue(folder), folder, PARTS)


def _write_vectors(folder: Path, finish: bool) -> None:
    rng = np.random.default_rng(1)
    with vectors.VectorWriter(folder, MADE_OF) as writer:
        writer.append(["d/1", "d/2"], [2, 1], rng.random((3, 4)))
        writer.append(["d/3"], [1], rng.random((1, 4)))
        if finish:
            writer.finish()


def _make_vectors(folder: Path) -> None:
    _write_vectors(folder, finish=True)


def _make_part(folder: Path) -> None:
    _write_vectors(folder, finish=False)


def _vectors(folder: Path) -> None:
    found = vectors.open_vectors(folder, MADE_OF)
    if len(found.chunks) != len(found.owner) or not np.isfinite(found.chunks).all():
        raise AssertionError("vectors that do not fit their documents")


def _go_on(folder: Path) -> None:
    with vectors.VectorWriter(folder, MADE_OF) as writer:
        if writer.documents < len(DOCUMENTS):
            left = DOCUMENTS[writer.documents :]
            writer.append([document.doc_id for document in left], [1] * len(left), np.ones((len(left), 4)))
        if not writer.complete:
            writer.finish()
    _vectors(folder)


def _make_impact(folder: Path) -> None:
    build_index(DOCUMENTS, folder / "index", frozenset({"the", "at"}))


def _impact(folder: Path) -> None:
    with ImpactIndex(folder / "index", SETTINGS):
        pass


def _arrays(folder: Path) -> None:
    seal = json.loads((folder / "index" / index_folder.MANIFEST).read_text())
    impact_arrays.read_arrays(folder / "index", seal["documents"], seal["terms"])


def _make_fts5(folder: Path) -> None:
    bm25_fts5.build_index(DOCUMENTS, folder / "index")


def _fts5(folder: Path) -> None:
    with bm25_fts5.Bm25Index(folder / "index", SETTINGS) as index:
        index.search_full("the ferry")
        index.search_sentences("The lamp was lit. Salt!")


def _fts5_sealed_again(folder: Path) -> None:
    index = folder / "index"
    if (index / "index.sqlite").exists():  # a link to nowhere cannot be sealed
        (index / index_folder.MANIFEST).unlink()
        index_folder.write_seal(index, "fts5", bm25_fts5.VERSION, len(DOCUMENTS))
    _fts5(folder)


def _candidates(folder: Path) -> None:
    read_candidates(folder, [Query("q1", "text"), Query("q2", "text")], RETRIEVAL, Notices())


OWN, FILES = "pan_scdg.own_files", "pan_scdg.retrieval.dense.vector_files"
VECTOR_FILES = {"manifest.json": JSON, "documents.jsonl": JSON, "vectors.f16": BYTES}
ARRAYS = {f"index/{name}.npy": BYTES for name in impact_arrays.KINDS}
INDEXES = (
    Target("catalogue", _catalogue, {"index.json": JSON}, ("pan_scdg.retrieval.catalogue", OWN), made=_make_catalogue),
    Target(
        "vectors", _vectors, VECTOR_FILES, (FILES, "pan_scdg.retrieval.dense.vectors"), made=_make_vectors, rate=0.5
    ),
    Target(
        "vectors-in-part",
        _go_on,
        VECTOR_FILES,
        (FILES, "pan_scdg.retrieval.dense.vectors"),
        made=_make_part,
        writes=True,
        rate=0.2,
    ),
    Target(
        "impact",
        _impact,
        {"index/manifest.json": JSON, "index/documents.jsonl": JSON, "index/docs.npy": BYTES},
        ("pan_scdg.retrieval.index_folder",),
        made=_make_impact,
        rate=0.2,
    ),
    Target(
        "impact-arrays",
        _arrays,
        ARRAYS,
        ("pan_scdg.retrieval.bm25.impact_arrays",),
        made=_make_impact,
        rate=0.3,
        documented=(FileNotFoundError,),  # of the opener: it is the seal, which is passed by here, that finds it first
    ),
    Target(
        "fts5",
        _fts5,
        {"index/manifest.json": JSON, "index/index.sqlite": BYTES},
        ("pan_scdg.retrieval.index_folder",),
        made=_make_fts5,
        rate=0.1,
    ),
    Target(
        "fts5-sealed-again",
        _fts5_sealed_again,
        {"index/index.sqlite": BYTES},
        ("pan_scdg.retrieval.bm25.fts5",),
        made=_make_fts5,
        writes=True,
        rate=0.1,
    ),
    Target(
        "candidates",
        _candidates,
        {"candidates.jsonl.gz": JSON.packed_by(gzipped)},
        ("pan_scdg.retrieval.candidate_files",),
    ),
)
