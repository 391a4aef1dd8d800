"""``index.json``: the corpora that an index folder covers, one shard each, and the indexes that it holds.

A shard is never changed. To add one, its indexes are built beside the others, and then this file is replaced, so a
folder is always searched as it was before or as it is after. Indexes that this file does not name have no meaning.
"""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from pan_scdg.cluster.session import Cluster
from pan_scdg.errors import UserError
from pan_scdg.models.encoder import Encoder
from pan_scdg.own_files import OwnRecord, read_record, write_atomically
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.profile import RetrievalSettings
from pan_scdg.retrieval.index import Part, build_indexes, list_shards
from pan_scdg.retrieval.index_folder import Count, read_ids
from pan_scdg.store import ARITHMETIC

CATALOGUE, CATALOGUE_BYTES = "index.json", 16 << 20
REMAKE = "make one with the command index"
MOST_TOLD = 8
"""Differences that an error names."""
Short = Annotated[str, Field(max_length=256)]


class Entry(OwnRecord):
    """An index in the catalogue."""

    kind: Short
    made_of: dict[Short, int | Short | None]


class Shard(OwnRecord):
    """A corpus that the folder covers; the ids of its documents stand in a file beside the catalogue."""

    corpus: Short
    """Digest of the corpus file."""
    documents: Count
    content: Short
    """Digest of ids and texts, which is the same where the corpus is a part of a larger file."""

    @property
    def ids(self) -> str:
        """Return the name of the file of its document ids."""
        return f"documents-{self.corpus[:16]}.jsonl"


class Catalogue(OwnRecord):
    """The shards of a folder in the order in which they were added, and its indexes by name."""

    shards: list[Shard]
    indexes: dict[Short, Entry]
    version: int = ARITHMETIC
    """Of the computations, which the names of the indexes depend on as well."""

    @property
    def corpora(self) -> list[str]:
        """Return the digests of the corpora."""
        return [shard.corpus for shard in self.shards]


class ReadyIndex(NamedTuple):
    """An index folder and the digests of the corpora that it covered when it was checked: more may be added."""

    folder: Path
    corpora: list[str]


def read_catalogue(folder: Path) -> Catalogue:
    """Return the list of the contents of an index folder.

    Raises:
        UserError: it is missing, was written by another version, or cannot be read.
    """
    found = read_record(folder / CATALOGUE, Catalogue, REMAKE, CATALOGUE_BYTES)
    if found is None or not found.shards:
        raise UserError("no index of a corpus", REMAKE, folder / CATALOGUE)
    if found.version != ARITHMETIC:
        raise UserError("was written by another version", "build it again in a new folder", folder)
    return found


def write_catalogue(folder: Path, known: Catalogue) -> None:
    """Replace the list of the contents of an index folder, in one step."""
    write_atomically(folder / CATALOGUE, _to_text(known, folder))


def check_index(folder: Path, corpus: Corpus, settings: RetrievalSettings, encoder: Encoder | None) -> ReadyIndex:
    """Return the indexes in a folder that a run may search.

    Raises:
        UserError: it is of other settings or another corpus, which must consist of those of the shards in the order in
            which they were added; what differs is named.
    """
    known = read_catalogue(folder)
    if known.corpora != [corpus.digest]:
        counts = [shard.documents for shard in known.shards]
        contents = [shard.content for shard in known.shards]
        if sum(counts) != len(corpus) or corpus.hash_parts(counts) != contents:
            order = "" if len(counts) == 1 else f" ({len(counts)} corpora, in the order in which they were added)"
            raise UserError(
                f"was made for another corpus{order}", "make one for this input with the command index", folder
            )
    for parts in list_shards(settings, encoder, known.corpora):
        check_parts(known, folder, parts)
    return ReadyIndex(folder, known.corpora)


def check_parts(known: Catalogue, folder: Path, parts: Mapping[str, Part]) -> None:
    """Raise UserError if a folder lacks one of these indexes, and name the difference."""
    for part in parts.values():
        if part.name in known.indexes:
            continue
        corpus = part.made_of["corpus"]
        candidates = [e.made_of for e in known.indexes.values() if e.kind == part.kind]
        candidates = [of for of in candidates if of.get("corpus") == corpus] or candidates
        differ = [(k, other.get(k), v) for other in candidates for k, v in part.made_of.items() if other.get(k) != v]
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
    add: bool = False,
) -> list[str]:
    """Build the indexes of a profile in an index folder, which the caller has locked; return a line for each.

    With ``add``, the documents come to those that the folder covers already.

    Raises:
        UserError: see `build_indexes`; or the folder holds indexes of another corpus, or cannot be added to.
    """
    known = read_catalogue(folder) if os.path.lexists(folder / CATALOGUE) else Catalogue(shards=[], indexes={})
    shards = list(known.shards)
    if corpus.digest not in known.corpora:
        if shards and not add:
            what = "holds indexes of another corpus"
            raise UserError(what, "choose another --index folder, or add to that one with --add", folder)
        _check_new(corpus, folder, known, list_shards(settings, encoder, known.corpora))
        content = corpus.hash_parts([len(corpus)])[0]
        shards.append(Shard(corpus=corpus.digest, documents=len(corpus), content=content))
    corpora = [shard.corpus for shard in shards]
    number = corpora.index(corpus.digest)
    parts = list_shards(settings, encoder, corpora)[number]
    indexes, grown_from = dict(known.indexes), None
    if number and "bm25" in parts and settings.bm25.engine == "fts5":
        # it keeps all documents in one index, which the new one takes the place of
        former = list_shards(settings, encoder, corpora[:-1])[-1]["bm25"]
        if not {former.name, parts["bm25"].name} & indexes.keys():
            what = f"has no index {former.kind} of the documents that were there before"
            raise UserError(what, "make an index of all documents in another folder", folder)
        indexes.pop(former.name, None)
        grown_from = folder / former.name
    indexes |= {part.name: Entry(kind=part.kind, made_of=part.made_of) for part in parts.values()}
    text = _to_text(Catalogue(shards=shards, indexes=indexes), folder)
    if len(shards) > len(known.shards):
        ids = "".join(f"{json.dumps(doc_id)}\n" for doc_id in corpus.ids)
        write_atomically(folder / shards[-1].ids, ids)
    if not known.shards:
        write_catalogue(folder, Catalogue(shards=shards, indexes={}))
    build_indexes(corpus, folder, parts, encoder, settings.dense, cluster, grown_from)
    write_atomically(folder / CATALOGUE, text)
    if grown_from is not None:
        shutil.rmtree(grown_from, ignore_errors=True)
    return [f"{part.kind}: {folder / part.name}" for part in parts.values()]


def _check_new(corpus: Corpus, folder: Path, known: Catalogue, shards: Sequence[Mapping[str, Part]]) -> None:
    """Raise UserError if the folder lacks this profile's indexes of its shards, or holds a document of the corpus."""
    for parts in shards:
        check_parts(known, folder, parts)
    if any(part.kind == "bm25-terrier" for parts in shards for part in parts.values()):
        raise UserError(
            'an index of engine "terrier" cannot grow', 'use engine = "impact", which ranks equally', folder
        )
    for shard in known.shards:
        if twice := corpus.ids & set(read_ids(folder / shard.ids, shard.documents)):
            what = f"{len(twice)} documents of the new corpus are in the index already, for example {min(twice)!r}"
            raise UserError(what, "remove them from the new corpus, or make another index", folder)


def _to_text(known: Catalogue, folder: Path) -> str:
    """Return the content of a catalogue's file; raise UserError if it is too long to be read again."""
    text = json.dumps(known.model_dump(), indent=1, sort_keys=True) + "\n"
    if len(text) > CATALOGUE_BYTES:
        what = f"would be larger than {CATALOGUE_BYTES} bytes with {len(known.shards)} corpora"
        raise UserError(what, "make an index of all documents in another folder", folder / CATALOGUE)
    return text
