"""The indexes of a corpus in one folder: those that the routes of a profile need, and a manifest.

``manifest.json`` says what the indexes were made of; the folder gets its name when they are complete. It contains
``bm25``, ``chunks`` and ``abstracts``, as far as the profile needs them.
"""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pan_scdg.errors import UserError
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.progress import Progress
from pan_scdg.records import Document, Identity
from pan_scdg.retrieval import bm25_fts5, bm25_impact, bm25_terrier
from pan_scdg.retrieval.bm25 import LexicalIndex
from pan_scdg.retrieval.dense import Encode, Kind, build_vectors
from pan_scdg.settings import RetrievalSettings

FORMAT = 2
"""Raised when the files of an index change their meaning."""
MANIFEST, BM25 = "manifest.json", "bm25"
UNFINISHED = ".part"
"""Ends the name of a folder whose indexes are not complete."""
BM25_ENGINES: dict[str, tuple[Callable[..., None], Callable[[Path], LexicalIndex]]] = {
    "fts5": (bm25_fts5.build_index, bm25_fts5.Fts5Index),
    "impact": (bm25_impact.build_index, bm25_impact.ImpactIndex),
    "terrier": (bm25_terrier.build_index, bm25_terrier.TerrierIndex),
}
"""The function that builds the index of an engine, and the one that opens it."""


class Manifest(NamedTuple):
    """The corpus and the settings that the indexes in a folder depend on."""

    corpus: str
    """The hash of the corpus."""
    parts: Mapping[str, Identity]
    """What each index depends on besides: ``bm25``, ``chunks``, ``abstracts``."""

    def to_json(self) -> dict[str, object]:
        """Return the fields of the file."""
        return {"format": FORMAT, "corpus": self.corpus, **self.parts}


def describe_index(settings: RetrievalSettings, corpus: Corpus, encoder: Identity | None) -> Manifest:
    """Return the manifest of the indexes that the routes of a profile need; ``encoder`` identifies that of vectors."""
    parts: dict[str, Identity] = {}
    if any(route.startswith("bm25") for route in settings.routes):
        parts["bm25"] = {"engine": settings.bm25, "raw_text": corpus.raw_text}
    if encoder is not None and settings.dense is not None:
        dense = settings.dense
        made = {**encoder, "document_tokens": dense.document_tokens, "raw_text": corpus.raw_text}
        if any(route.startswith("dense") for route in settings.routes):
            cut = {"chunk_words": dense.chunk_words, "chunk_stride": dense.chunk_stride, "chunks": dense.chunks}
            parts["chunks"] = made | cut
        if "abstract" in settings.routes:
            parts["abstracts"] = made
    return Manifest(corpus.digest, parts)


def check_index(folder: Path, manifest: Manifest) -> None:
    """Check that a folder has the indexes of a manifest; it may have more.

    Raises:
        UserError: it has none, or others; the text names what differs.
    """
    try:
        existing = json.loads((folder / MANIFEST).read_text(encoding="ascii"))
    except FileNotFoundError as e:
        raise UserError("is not an index of a corpus", "make one with the command index", folder) from e
    except (OSError, ValueError) as e:
        raise UserError(f"not a readable search index: {e}", "delete it and run again", folder) from e
    remedy = "make one for this input with the command index, with this profile, model and device"
    for name, expected, what in (("format", FORMAT, "version"), ("corpus", manifest.corpus, "corpus")):
        if existing.get(name) != expected:
            raise UserError(f"was made for another {what}", remedy, folder)
    for name, part in manifest.parts.items():
        if existing.get(name) == part:
            continue
        if name not in existing:
            raise UserError(f"has no {name} for this profile", remedy, folder)
        differ = [f"{k} is {existing[name].get(k)!r}, not {v!r}" for k, v in part.items() if existing[name].get(k) != v]
        raise UserError(f"has no {name} for this profile: {'; '.join(differ)}", remedy, folder)


def build_indexes(
    corpus: Corpus, folder: Path, settings: RetrievalSettings, manifest: Manifest, encode: Encode
) -> bool:
    """Build the indexes of a manifest in a folder, which exists only once they are complete; return False otherwise.

    What an earlier process has finished is kept: whole indexes, and the vectors of whole groups of documents.

    Args:
        corpus: all documents.
        folder: may exist if it has the indexes of this manifest.
        settings: the profile's.
        manifest: see `describe_index`.
        encode: yields the vectors of each task, in order; it may end before the last one, and is given the progress.

    Raises:
        UserError: the folder has other indexes or cannot be written, or an engine is not installed.
    """
    if folder.exists() and any(folder.iterdir()):
        check_index(folder, manifest)
        return True
    staged, text = folder.with_name(folder.name + UNFINISHED), json.dumps(manifest.to_json(), indent=1) + "\n"
    try:
        if not (staged / MANIFEST).exists() or (staged / MANIFEST).read_text(encoding="ascii") != text:
            shutil.rmtree(staged, ignore_errors=True)
            staged.mkdir(parents=True)
            (staged / MANIFEST).write_text(text, encoding="ascii")
        if "bm25" in manifest.parts:
            build_bm25(corpus, staged, settings.bm25)
        kinds: tuple[Kind, ...] = ("chunks", "abstracts")
        for kind in (kind for kind in kinds if kind in manifest.parts):
            with Progress(f"indexing the {kind}", len(corpus)) as progress:
                build_vectors(corpus, staged / kind, kind, settings.need_dense(), encode, progress)
                if progress.done < len(corpus):
                    return False
        if folder.exists():
            folder.rmdir()
        staged.rename(folder)
        return True
    except (OSError, sqlite3.OperationalError) as e:
        remedy = "check that its folder is writable and has free space"
        raise UserError(f"the search index cannot be written: {e}", remedy, folder) from e


def build_bm25(corpus: Corpus, staged: Path, engine: str) -> None:
    """Build the BM25 index of a corpus in ``staged/bm25``, unless it exists."""
    if (staged / BM25).exists():
        return
    part = staged / f"{BM25}{UNFINISHED}"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    build, _ = BM25_ENGINES[engine]
    with Progress("indexing the words", len(corpus)) as progress:
        build(_count_documents(corpus, progress), part)
    part.rename(staged / BM25)


def _count_documents(corpus: Corpus, progress: Progress) -> Iterator[Document]:
    for document in corpus:
        yield document
        progress.update()


def open_bm25(folder: Path, engine: str) -> LexicalIndex:
    """Open the BM25 index in a folder of indexes.

    Raises:
        UserError: it cannot be read, or the engine cannot be started.
    """
    _, open_index = BM25_ENGINES[engine]
    try:
        return open_index(folder / BM25)
    except (OSError, ValueError, LookupError) as e:
        raise UserError(f"not a readable search index: {e}", "delete it and run again", folder) from e
