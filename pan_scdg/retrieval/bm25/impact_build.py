"""Write the index of `impact`: sorted blocks of postings on disk, then one merge.

A folder holds arrays for memory mapping: ``terms`` (sorted), ``starts`` (of each term's postings), ``docs`` and
``counts`` (of each posting), ``lengths`` (terms of each document). Documents are numbered in the order of their ids, so
equal scores stand in the right order. A posting takes six bytes as long as no count exceeds 65,535.
"""

import json
import os
import shutil
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.models.terrier_jars import TERRIER, find_terrier_jar
from pan_scdg.retrieval.bm25.terrier_terms import LONGEST, TermPipeline, read_stopwords
from pan_scdg.retrieval.index_folder import stage_folder, write_seal

if TYPE_CHECKING:
    from pan_scdg.records import Document

DOC_IDS, STOPWORDS = "documents.jsonl", "stopwords.txt"
BLOCK = 1 << 22
"""Postings that are sorted in memory at one time; some 300 MB with all that belongs to them."""
TOGETHER = 16
"""Documents whose terms are counted together."""

Array = npt.NDArray[Any]


class Postings(NamedTuple):
    """The terms of some documents: each posting names a term of one document, and how often it has it."""

    terms: list[str]
    rows: Array
    """Of each posting, its place in ``terms``, uint32 ``[p]``; documents one after the other."""
    counts: Array
    """Of each posting, uint32 ``[p]``."""
    sizes: Array
    """Postings of each document, int64 ``[n]``."""


class Block(NamedTuple):
    """Postings of some documents in the order of their terms, in files."""

    terms: Path
    postings: Path


def build_index(documents: Iterable["Document"], folder: Path, stopwords: frozenset[str] | None = None) -> None:
    """Write the index of a stream of documents; ``folder`` exists only once the index is complete.

    Besides one block, the ids of the documents and the vocabularies of all blocks lie in memory, some 120 bytes a term
    of each block: very large corpora are indexed in shards (docs/scale.md).
    ``stopwords`` is Terrier's list, from its jar, unless another is given.

    Raises:
        UserError: Terrier's jar, whose stopwords are needed, is missing, or the index cannot be written.
        ValueError: a document id comes twice.
    """
    stopwords = find_stopwords() if stopwords is None else stopwords
    pipeline, rest = TermPipeline(stopwords), iter(documents)
    groups = iter(lambda: list(islice(rest, TOGETHER)), [])
    counted = (([d.doc_id for d in g], count_postings((d.text for d in g), pipeline)) for g in groups)
    build_from_postings(counted, folder, stopwords)


def find_stopwords() -> frozenset[str]:
    """Return Terrier's stopwords, from its jar; raise UserError if it is missing."""
    return read_stopwords(find_terrier_jar())


def count_postings(texts: Iterable[str], pipeline: TermPipeline) -> Postings:
    """Return the terms of texts."""
    terms: dict[str, int] = {}
    rows, counts, sizes = array("I"), array("I"), array("q")
    for text in texts:
        found = pipeline.count_terms(text)
        rows.extend([terms.setdefault(term, len(terms)) for term in found])
        counts.extend(found.values())
        sizes.append(len(found))
    return Postings(list(terms), np.asarray(rows), np.asarray(counts), np.asarray(sizes))


def build_from_postings(groups: Iterable[tuple[list[str], Postings]], folder: Path, stopwords: frozenset[str]) -> None:
    """Write the index of a stream of document ids and the terms of these documents; see `build_index`."""
    with stage_folder(folder) as part:
        (part / "blocks").mkdir()
        doc_ids, lengths, blocks = _write_blocks(groups, part / "blocks")
        _merge(blocks, doc_ids, lengths, part)
        (part / STOPWORDS).write_text("\n".join(sorted(stopwords)), encoding="ascii")
        (part / DOC_IDS).write_text("".join(f"{json.dumps(i)}\n" for i in sorted(doc_ids)), encoding="ascii")
        shutil.rmtree(part / "blocks")
        write_seal(part, "impact", TERRIER, len(doc_ids), len(np.load(part / "terms.npy", mmap_mode="r")))


def _write_blocks(groups: Iterable[tuple[list[str], Postings]], folder: Path) -> tuple[list[str], Array, list[Block]]:
    """Return ids and lengths of the documents in the order of the stream; write their postings in blocks."""
    doc_ids: dict[str, None] = {}
    lengths = array("q")
    blocks: list[Block] = []
    terms: dict[str, int] = {}
    rows, docs, counts = array("I"), array("I"), array("I")
    for ids, found in groups:
        for doc_id in ids:
            if doc_id in doc_ids:
                raise ValueError(f"document {doc_id!r} comes twice")
            doc_ids[doc_id] = None
        places = np.array([terms.setdefault(term, len(terms)) for term in found.terms], np.uint32)
        owners = np.repeat(np.arange(len(ids)), found.sizes)
        rows.frombytes(places[found.rows].tobytes())
        docs.frombytes((owners + len(lengths)).astype(np.uint32).tobytes())
        counts.frombytes(found.counts.tobytes())
        lengths.frombytes(np.bincount(owners, found.counts, len(ids)).astype(np.int64).tobytes())
        if len(rows) >= BLOCK:
            blocks.append(_write_block(terms, rows, docs, counts, folder / str(len(blocks))))
            terms, rows, docs, counts = {}, array("I"), array("I"), array("I")
    if rows:
        blocks.append(_write_block(terms, rows, docs, counts, folder / str(len(blocks))))
    return list(doc_ids), np.array(lengths, np.int64), blocks


def _write_block(
    terms: dict[str, int], rows: "array[int]", docs: "array[int]", counts: "array[int]", path: Path
) -> Block:
    """Write postings sorted by term; documents stay in the order of the stream."""
    names = np.array(list(terms), f"S{LONGEST}")
    order = np.argsort(names)
    places = np.empty(len(order), np.int32)
    places[order] = np.arange(len(order), dtype=np.int32)
    by_row = places[np.asarray(rows)]
    by_term = np.argsort(by_row, kind="stable")
    block = Block(path.with_suffix(".terms.npy"), path.with_suffix(".postings.npy"))
    listed = np.empty(len(order), [("term", f"S{LONGEST}"), ("size", "i8")])
    listed["term"], listed["size"] = names[order], np.bincount(by_row, minlength=len(order))
    np.save(block.terms, listed)
    np.save(block.postings, np.stack([np.asarray(docs)[by_term], np.asarray(counts)[by_term]]))
    return block


def _merge(blocks: list[Block], doc_ids: list[str], lengths: Array, folder: Path) -> None:
    """Write the arrays of the folder."""
    numbers = np.empty(len(doc_ids), np.int32)
    numbers[sorted(range(len(doc_ids)), key=doc_ids.__getitem__)] = np.arange(len(doc_ids), dtype=np.int32)
    by_number = np.empty_like(lengths)
    by_number[numbers] = lengths
    listed = [np.load(block.terms) for block in blocks]
    none = np.empty(0, f"S{LONGEST}")
    terms, owners = np.unique(np.concatenate([none, *(part["term"] for part in listed)]), return_inverse=True)
    sizes = np.concatenate([np.empty(0, np.int64), *(part["size"] for part in listed)])
    starts = np.zeros(len(terms) + 1, np.int64)
    np.add.at(starts, owners + 1, sizes)
    np.cumsum(starts, out=starts)
    owned = np.split(owners, np.cumsum([len(part) for part in listed])[:-1])
    _join_postings(blocks, owned, listed, starts, numbers, folder)
    np.save(folder / "terms.npy", terms)
    np.save(folder / "starts.npy", starts)
    np.save(folder / "lengths.npy", by_number)
    _sort_postings(starts, len(doc_ids), folder)


def _join_postings(
    blocks: list[Block], owners: list[Array], listed: list[Array], starts: Array, numbers: Array, folder: Path
) -> None:
    """Copy each block's postings after those of earlier blocks for the same terms."""
    largest = max((int(np.load(block.postings, mmap_mode="r")[1].max()) for block in blocks), default=0)
    kind = np.uint16 if largest < 1 << 16 else np.uint32
    docs = _create_array(folder / "docs.npy", int(starts[-1]), np.int32)
    counts = _create_array(folder / "counts.npy", int(starts[-1]), kind)
    free = starts[:-1].copy()
    for block, terms, part in zip(blocks, owners, listed):
        sizes = part["size"]
        begins = np.cumsum(sizes) - sizes
        places = np.repeat(free[terms] - begins, sizes) + np.arange(sizes.sum())
        postings = np.load(block.postings)
        docs[places], counts[places] = numbers[postings[0]], postings[1]
        free[terms] += sizes


def _sort_postings(starts: Array, documents: int, folder: Path) -> None:
    """Put each term's postings in the order of the documents' numbers, in place."""
    docs, counts = _open_array(folder / "docs.npy"), _open_array(folder / "counts.npy")
    for first, last in _split_ranges(starts):
        begin, end = starts[first], starts[last]
        owners = np.repeat(np.arange(last - first), np.diff(starts[first : last + 1]))
        order = np.argsort(owners * documents + docs[begin:end])
        docs[begin:end], counts[begin:end] = docs[begin:end][order], counts[begin:end][order]


def _split_ranges(starts: Array) -> Iterator[tuple[int, int]]:
    """Yield ranges of terms with about a block of postings each, together all of them; every term has a posting."""
    first = 0
    while first < len(starts) - 1:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + BLOCK, "right")) - 1)
        yield first, last
        first = last


def _create_array(path: Path, length: int, kind: type[np.generic]) -> Array:
    """Return a new array of zeros, mapped from a file; an empty one cannot be mapped."""
    np.save(path, np.empty(0, kind))
    if length:
        create: Callable[..., Array] = np.lib.format.open_memmap
        create(path, "w+", kind, (length,))
        with path.open("r+b") as file:  # a full disk is an error here, and would end the process at a mapped page
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return _open_array(path)


def _open_array(path: Path) -> Array:
    """Return the array of a file for reading and writing, mapped if there is anything in it."""
    array: Array = np.load(path, mmap_mode="r+" if path.stat().st_size > 128 else None)
    return array
