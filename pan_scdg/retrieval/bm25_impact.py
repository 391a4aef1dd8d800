"""BM25 that ranks exactly as Terrier does, without Java and many times faster.

The index keeps counts and lengths as integers, and scores are computed from them in float64 with Terrier's order of
operations: nothing is quantised. numba compiles the one loop over postings. A folder contains ``documents.json`` and
arrays: ``terms`` (sorted), ``starts`` (of each term's postings), ``docs`` and ``counts`` (of each posting) and
``lengths`` (terms of each document). A posting takes six bytes as long as no count exceeds 65,535.

bm25s was considered instead: it stores scores (12 bytes a posting in float64), keeps all tokens in memory to build an
index, has no negative weights, and of its code only the loop over postings would be used.
"""

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pan_scdg.records import Document, Ranked, Ranking
from pan_scdg.retrieval.bm25 import (
    FULL_TERMS,
    K1,
    SCORE_STEPS,
    TERMS,
    LexicalIndex,
    compute_idf,
    compute_length_norms,
    order_terms,
    pick_rarest,
    round_to_steps,
)
from pan_scdg.retrieval.ranking import DEPTH, K
from pan_scdg.retrieval.terrier_terms import MAX_LENGTH, TermPipeline
from pan_scdg.text.sentences import split_sentences

BLOCK_POSTINGS = 1 << 20
"""Postings that are sorted together; it bounds the memory of building an index."""
ROUNDING_MARGIN = 1e-7
"""Rounding to steps of 1e-9 moves a score by far less: every document so near the cut is sorted."""
FUSION_DECIMALS = 12
"""Fused scores are rounded, so that documents with the same ranks in other sentences are equal."""

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]


def build_index(documents: Iterable[Document], folder: Path) -> None:
    """Write the index of a stream of documents into an empty folder.

    The postings (12 bytes each), the ids and the terms are in memory at once.
    """
    pipeline = TermPipeline()
    doc_ids, terms, blocks = list[str](), dict[str, int](), list[tuple[Array, Array]]()
    numbers, counts, sizes, lengths = array("I"), array("I"), array("q"), array("q")
    for document in documents:
        counted = pipeline.count_terms(document.text)
        numbers.extend([terms.setdefault(term, len(terms)) for term in counted])
        counts.extend(counted.values())
        sizes.append(len(counted))
        lengths.append(sum(counted.values()))
        doc_ids.append(document.doc_id)
        if len(numbers) >= BLOCK_POSTINGS:
            blocks.append(_make_block(numbers, counts))
            numbers, counts = array("I"), array("I")
    blocks.append(_make_block(numbers, counts))
    names = np.array(list(terms), f"S{MAX_LENGTH}")
    order = np.argsort(names)
    starts, docs, occurrences = _sort_postings(blocks, np.asarray(sizes), order)
    arrays: dict[str, Array] = {"terms": names[order], "starts": starts, "docs": docs, "counts": occurrences}
    arrays["lengths"] = np.array(lengths, np.int64)
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)
    (folder / "documents.json").write_text(json.dumps(doc_ids), encoding="ascii")


def _make_block(numbers: "array[int]", counts: "array[int]") -> tuple[Array, Array]:
    """Return the term and the count of each of some postings, document by document."""
    occurrences = np.asarray(counts)
    return np.asarray(numbers), occurrences.astype(np.uint16) if occurrences.max(initial=0) < 1 << 16 else occurrences


def _sort_postings(blocks: list[tuple[Array, Array]], sizes: Array, order: Array) -> tuple[Array, Array, Array]:
    """Return the start of each term's postings, and document and count of each posting; ``blocks`` is emptied.

    Args:
        blocks: terms and counts of the postings in the order of the documents.
        sizes: postings of each document, ``[n]``.
        order: the terms in their final order, ``[v]``.
    """
    places = np.empty(len(order), np.int32)
    places[order] = np.arange(len(order), dtype=np.int32)
    frequencies = np.zeros(len(order), np.int64)
    for numbers, _ in blocks:
        frequencies += np.bincount(places[numbers], minlength=len(order))
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(frequencies)])
    docs = np.empty(starts[-1], np.int32)
    counts = np.empty(starts[-1], np.result_type(*(c.dtype for _, c in blocks)))
    free, ends, first = starts[:-1].copy(), np.cumsum(sizes), 0
    while blocks:
        numbers, occurrences = blocks.pop(0)
        owners = np.searchsorted(ends, np.arange(first, first + len(numbers)), "right").astype(np.int32)
        own = places[numbers]
        by_term, added = np.argsort(own, kind="stable"), np.bincount(own, minlength=len(free))
        into = np.repeat(free - (np.cumsum(added) - added), added) + np.arange(len(own))
        docs[into], counts[into] = owners[by_term], occurrences[by_term]
        free += added
        first += len(numbers)
    return starts, docs, counts


class ImpactIndex(LexicalIndex):
    """An index written by `build_index`. Its postings are memory-mapped."""

    def __init__(self, folder: Path) -> None:
        self._terms, self._starts, self._docs, self._counts, lengths = (
            np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("terms", "starts", "docs", "counts", "lengths")
        )
        doc_ids = json.loads((folder / "documents.json").read_text(encoding="ascii"))
        order = sorted(range(len(doc_ids)), key=doc_ids.__getitem__)
        self._doc_ids = [doc_ids[i] for i in order]
        self._places = np.empty(len(order), np.int64)
        """Place of each document in the order of the ids, which decides between equal scores."""
        self._places[order] = np.arange(len(order))
        self._norms = compute_length_norms(np.asarray(lengths))
        self._pipeline = TermPipeline()

    def search_sentences(self, query: str, terms: int = TERMS, depth: int = DEPTH) -> Ranking:
        """Rank documents as every `LexicalIndex` does, several times faster: the rankings are fused as arrays."""
        rankings = [places for places, _ in self._rank(split_sentences(query), terms, depth)]
        places = np.concatenate([np.empty(0, np.int64), *rankings])
        parts = np.concatenate([np.empty(0), *(1 / (K + np.arange(1, len(r) + 1)) for r in rankings)])
        totals = np.bincount(places, parts, len(self._doc_ids)).round(FUSION_DECIMALS)
        best = np.argsort(-totals, kind="stable")[: min(depth, np.count_nonzero(totals))]
        return [Ranked(self._doc_ids[place], score) for place, score in zip(best.tolist(), totals[best].tolist())]

    def rank(self, units: Sequence[str], terms: int = FULL_TERMS, depth: int = DEPTH) -> list[Ranking]:
        """Return the ranking for each unit, in steps of 1e-9."""
        return [
            [Ranked(self._doc_ids[place], step / SCORE_STEPS) for place, step in zip(places.tolist(), steps.tolist())]
            for places, steps in self._rank(units, terms, depth)
        ]

    def close(self) -> None:
        """Release the files."""
        del self._terms, self._starts, self._docs, self._counts

    def _rank(self, units: Sequence[str], limit: int, depth: int) -> Iterator[tuple[Integers, Integers]]:
        """Yield the best documents of each unit, as places in the order of the ids, and their scores in steps."""
        counted = [self._pipeline.count_terms(unit) for unit in units]
        rows = self._find_rows(sorted(set().union(*counted)))
        for terms in counted:
            yield self._search({term: rows[term] for term in terms if term in rows}, limit, depth)

    def _find_rows(self, terms: list[str]) -> dict[str, int]:
        """Return the place in the vocabulary of each of the sorted terms that is indexed."""
        if not terms or not len(self._terms):
            return {}
        names = np.array(terms, self._terms.dtype)
        rows = np.minimum(np.searchsorted(self._terms, names), len(self._terms) - 1)
        return {terms[i]: int(rows[i]) for i in np.flatnonzero(self._terms[rows] == names)}

    def _search(self, rows: dict[str, int], limit: int, depth: int) -> tuple[Integers, Integers]:
        """Return the best documents by the rarest of these terms; see `_rank`."""
        count, starts = len(self._doc_ids), self._starts
        frequencies = {term: int(starts[row + 1] - starts[row]) for term, row in rows.items()}
        terms = order_terms({term: frequencies[term] for term in pick_rarest(frequencies, limit)}, count)
        weights = np.array([compute_idf(count, frequencies[term]) for term in terms])
        scores, matched = np.zeros(count), np.zeros(count, np.bool_)
        chosen = np.array([rows[term] for term in terms], np.int64)
        if terms:
            add_terms = compile_add_terms()
            add_terms(chosen, weights, starts, self._docs, self._counts, self._norms, K1 + 1, scores, matched)
        docs = np.flatnonzero(matched)
        if len(docs) > depth:
            cut = len(docs) - depth
            docs = docs[scores[docs] >= np.partition(scores[docs], cut)[cut] - ROUNDING_MARGIN]
        places, steps = self._places[docs], round_to_steps(scores[docs])
        best = np.lexsort((places, -steps))[:depth]
        return places[best], steps[best]


@cache
def compile_add_terms() -> Callable[..., None]:
    """Return ``_add_terms`` as machine code; compiling takes a second, once a process.

    Nothing is cached on disk: the package's folder may be read-only. No divisor is zero; with a check of each the loop
    would take twice the time.
    """
    import numba

    compiled: Callable[..., None] = numba.njit(_add_terms, error_model="numpy")
    return compiled


def _add_terms(
    rows: Any, weights: Any, starts: Any, docs: Any, counts: Any, norms: Any, k: float, scores: Any, matched: Any
) -> None:
    """Add each term's part to the scores of the documents with the term, and mark these as matched.

    Args:
        rows: places of the terms in the vocabulary, ``[t]``.
        weights: inverse document frequencies, ``[t]``.
        starts: first posting of each term of the vocabulary, and the number of postings, ``[v + 1]``.
        docs: document of each posting, ``[p]``.
        counts: occurrences of the term in the document, ``[p]``.
        norms: length norms, ``[n]``.
        k: ``k1 + 1``.
        scores: float64, ``[n]``; is added to.
        matched: bool, ``[n]``; is written.
    """
    for t in range(len(rows)):
        for p in range(starts[rows[t]], starts[rows[t] + 1]):
            doc, count = docs[p], counts[p]
            scores[doc] += weights[t] * (k * count / (norms[doc] + count))
            matched[doc] = True
