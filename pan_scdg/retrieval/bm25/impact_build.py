"""Write the index of `impact`: first all postings as they come, then those of each term together.

A folder holds arrays for memory mapping: ``terms`` (sorted), ``starts`` (of each term's postings), ``docs`` and
``counts`` (of each posting), ``lengths`` (terms of each document). Documents are numbered in the order of their ids, so
equal scores stand in the right order. A posting takes six bytes as long as no count exceeds 65,535.
"""

import json
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
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

DOC_IDS, STOPWORDS, UNSORTED = "documents.jsonl", "stopwords.txt", "unsorted"
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


def build_index(documents: Iterable["Document"], folder: Path, stopwords: frozenset[str] | None = None) -> None:
    """Write the index of a stream of documents; ``folder`` exists only once the index is complete.

    Besides one block of postings, the ids of the documents and the terms lie in memory (docs/scale.md).
    ``stopwords`` is Terrier's list, from its jar, unless another is given.

    Raises:
        UserError: Terrier's jar, whose stopwords are needed, is missing, or the index cannot be written.
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
        doc_ids, lengths, terms = _store_postings(groups, part / UNSORTED)
        _write_arrays(doc_ids, lengths, np.array(terms, f"S{LONGEST}"), part)
        (part / UNSORTED).unlink()
        (part / STOPWORDS).write_text("\n".join(sorted(stopwords)), encoding="ascii")
        (part / DOC_IDS).write_text("".join(f"{json.dumps(i)}\n" for i in sorted(doc_ids)), encoding="ascii")
        write_seal(part, "impact", TERRIER, len(doc_ids), len(terms))


def _store_postings(groups: Iterable[tuple[list[str], Postings]], path: Path) -> tuple[list[str], Array, list[str]]:
    """Write the postings in the order of the stream; return ids and lengths of the documents, and the terms."""
    doc_ids: list[str] = []
    terms: dict[str, int] = {}
    lengths = array("q")
    with path.open("xb") as file:
        for ids, found in groups:
            places = np.array([terms.setdefault(term, len(terms)) for term in found.terms], np.uint32)
            owners = np.repeat(np.arange(len(ids)), found.sizes)
            postings = places[found.rows], owners + len(lengths), found.counts
            file.write(np.stack(postings, axis=1).astype(np.uint32).tobytes())
            doc_ids += ids
            lengths.extend(np.bincount(owners, found.counts, len(ids)).astype(np.int64).tolist())
    return doc_ids, np.array(lengths, np.int64), list(terms)


def _read_postings(folder: Path) -> Iterator[Array]:
    """Yield the stored postings a block at a time: term, document and count, ``[3, n]``."""
    with (folder / UNSORTED).open("rb") as file:
        while len(block := np.fromfile(file, np.uint32, 3 * BLOCK)):
            yield block.reshape(-1, 3).T


def _write_arrays(doc_ids: list[str], lengths: Array, terms: Array, folder: Path) -> None:
    """Write the arrays of the folder from the stored postings."""
    numbers = _number_in_order(sorted(range(len(doc_ids)), key=doc_ids.__getitem__))
    by_number = np.empty_like(lengths)
    by_number[numbers] = lengths
    order = np.argsort(terms)
    places, sizes, largest = _number_in_order(order), np.zeros(len(terms), np.int64), 0
    for rows, _, counts in _read_postings(folder):
        sizes += np.bincount(places[rows], minlength=len(terms))
        largest = max(largest, int(counts.max()))
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    np.save(folder / "terms.npy", terms[order])
    np.save(folder / "starts.npy", starts)
    np.save(folder / "lengths.npy", by_number)
    _create_array(folder / "docs.npy", int(starts[-1]), np.int32)
    _create_array(folder / "counts.npy", int(starts[-1]), np.uint16 if largest < 1 << 16 else np.uint32)
    _place_postings(places, numbers, starts, folder)
    _sort_postings(starts, len(doc_ids), folder)


def _number_in_order(order: Sequence[int] | Array) -> Array:
    """Return the place of each item in an order, int32."""
    places = np.empty(len(order), np.int32)
    places[order] = np.arange(len(order), dtype=np.int32)
    return places


def _place_postings(places: Array, numbers: Array, starts: Array, folder: Path) -> None:
    """Copy the postings of each block after those of earlier blocks for the same terms."""
    docs, counts = _open_array(folder / "docs.npy"), _open_array(folder / "counts.npy")
    free = starts[:-1].copy()
    for rows, owners, found in _read_postings(folder):
        own = places[rows]
        by_term, sizes = np.argsort(own), np.bincount(own, minlength=len(free))
        into = np.repeat(free - (np.cumsum(sizes) - sizes), sizes) + np.arange(len(own))
        docs[into], counts[into] = numbers[owners[by_term]], found[by_term]
        free += sizes


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


def _create_array(path: Path, length: int, kind: type[np.generic]) -> None:
    """Write an array of zeros; an empty one cannot be mapped."""
    np.save(path, np.empty(0, kind))
    if length:
        create: Callable[..., Array] = np.lib.format.open_memmap
        create(path, "w+", kind, (length,))
        with path.open("r+b") as file:  # a full disk is an error here, and would end the process at a mapped page
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


def _open_array(path: Path) -> Array:
    """Return the array of a file for reading and writing, mapped if there is anything in it."""
    array: Array = np.load(path, mmap_mode="r+" if path.stat().st_size > 128 else None)
    return array
