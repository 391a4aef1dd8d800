"""BM25 that ranks exactly as Terrier does, without Java and many times faster.

The index keeps counts and lengths as integers, and scores are computed from them in float64 with Terrier's order of
operations: nothing is quantised. numba compiles the one loop over postings; a sparse product in scipy takes 1.75
times as long, and gigabytes of memory (benchmarks/results/first-stage.md).
"""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from math import ceil, log2
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserError
from pan_scdg.models.terrier_jars import TERRIER
from pan_scdg.own_files import read_own_text
from pan_scdg.profile import Bm25Settings
from pan_scdg.retrieval.bm25.impact_arrays import Array, Arrays, read_arrays
from pan_scdg.retrieval.bm25.impact_build import DOC_IDS, STOPWORDS
from pan_scdg.retrieval.bm25.lexical import LexicalIndex
from pan_scdg.retrieval.bm25.terrier_formula import (
    K1,
    STEPS,
    compute_idf,
    compute_length_norms,
    order_terms,
    round_to_steps,
)
from pan_scdg.retrieval.bm25.terrier_terms import LONGEST, TermPipeline, pick_rarest
from pan_scdg.retrieval.index_folder import REDO, check_seal, read_ids
from pan_scdg.retrieval.ranking import K, Ranked, Ranking
from pan_scdg.retrieval.sentences import split_sentences

STOPWORDS_BYTES = 1 << 20
MARGIN = 1e-7
"""Rounding to steps of 1e-9 moves a score by far less: every document so near the cut is sorted."""

Docs = npt.NDArray[np.int64]


class Shard(NamedTuple):
    """An index of some of the documents: its arrays, and which of all documents it holds."""

    arrays: Arrays
    documents: slice


class ImpactIndex(LexicalIndex):
    """Indexes written by ``build_index``, opened for reading as one.

    Numbers of documents, frequencies of terms and the average length are those of all shards together, and parts are
    added in the same order, so rankings and scores are those of one index of all documents, to the last bit. The
    postings are memory-mapped; besides them it takes 25 bytes a document and the document ids.
    """

    def __init__(self, folder: Path, settings: Bm25Settings, added: Sequence[Path] = ()) -> None:
        """Open the index in ``folder`` and those ``added`` to it.

        Each is read through once, which finds damage and brings it into the system's cache.

        Raises:
            UserError: a folder is missing, damaged or no such index, or two of them do not belong together.
        """
        super().__init__(settings)
        self._shards: list[Shard] = []
        ids: list[str] = []
        stopwords = ""
        for place in (folder, *added):
            seal = check_seal(place, "impact", TERRIER)
            own = slice(len(ids), len(ids) + seal.documents)
            ids += read_ids(place / DOC_IDS, seal.documents)
            self._shards.append(Shard(read_arrays(place, seal.documents, seal.terms), own))
            found = read_own_text(place / STOPWORDS, STOPWORDS_BYTES)
            if place != folder and found != stopwords:
                raise UserError(f"was made with other stopwords than {folder}", REDO, place)
            stopwords = found
        order = sorted(range(len(ids)), key=ids.__getitem__)
        self._doc_ids = [ids[i] for i in order]
        if any(one == other for one, other in pairwise(self._doc_ids)):
            raise UserError("two shards of the index hold a document of the same id", REDO, folder)
        self._numbers = np.empty(len(ids), np.int64)
        self._numbers[order] = np.arange(len(ids))
        self._pipeline = TermPipeline(stopwords.split())
        self._norms = compute_length_norms(np.concatenate([shard.arrays["lengths"] for shard in self._shards]))
        self._threads = ThreadPoolExecutor(min(len(self._shards), len(os.sched_getaffinity(0))))

    def search_sentences(self, query_text: str) -> Ranking:
        """Rank documents as every `LexicalIndex` does, several times faster: the rankings are fused as arrays."""
        ranked = self._rank_numbers(split_sentences(query_text), self._settings.terms)
        return self._fuse([docs for docs, _ in ranked if len(docs)])

    def rank(self, units: Sequence[str], terms: int) -> list[Ranking]:
        """Return the ranking for each unit, in steps of 1e-9."""
        return [
            [Ranked(self._doc_ids[doc], step / STEPS) for doc, step in zip(docs.tolist(), steps.tolist())]
            for docs, steps in self._rank_numbers(units, terms)
        ]

    def close(self) -> None:
        """Let go of the files."""
        self._threads.shutdown()
        self._shards = []

    def _rank_numbers(self, units: Sequence[str], limit: int) -> list[tuple[Docs, Docs]]:
        """Return the best documents of each unit and their scores in steps of 1e-9."""
        counted = [self._pipeline.count_terms(unit) for unit in units]
        wanted = sorted(set().union(*counted))
        # the place of each indexed term in the vocabulary of each shard
        places = [_find_in(shard.arrays["terms"], wanted) for shard in self._shards]
        return [self._search(unit, places, limit) for unit in counted]

    def _search(self, unit: dict[str, int], places: list[dict[str, int]], limit: int) -> tuple[Docs, Docs]:
        """Return the best documents of a unit by its rarest terms, and their scores in steps of 1e-9."""
        count, sizes = len(self._doc_ids), self._count_documents(unit, places)
        terms = order_terms({term: sizes[term] for term in pick_rarest(sizes, limit)}, count)
        if not terms:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        weights = {term: compute_idf(count, sizes[term]) for term in terms}
        scores, found = np.zeros(count), np.zeros(count, np.bool_)
        add_terms = compile_add_terms()

        def add(shard: Shard, own: dict[str, int]) -> None:
            arrays, held = shard.arrays, [term for term in terms if term in own]
            rows = np.array([own[term] for term in held], np.int64)
            postings = arrays["starts"], arrays["docs"], arrays["counts"], self._norms[shard.documents]
            factors = np.array([weights[term] for term in held])
            add_terms(rows, factors, *postings, K1 + 1, scores[shard.documents], found[shard.documents])

        list((map if len(self._shards) == 1 else self._threads.map)(add, self._shards, places))
        docs = np.flatnonzero(found)
        if len(docs) > self._settings.depth:
            cut = len(docs) - self._settings.depth
            docs = docs[scores[docs] >= np.partition(scores[docs], cut)[cut] - MARGIN]
        numbers, steps = self._numbers[docs], round_to_steps(scores[docs])
        best = np.lexsort((numbers, -steps))[: self._settings.depth]
        return numbers[best], steps[best]

    def _count_documents(self, unit: Iterable[str], places: list[dict[str, int]]) -> dict[str, int]:
        """Return the number of documents, over all shards, that contain each indexed term of a unit."""
        sizes = dict.fromkeys(unit, 0)
        for shard, own in zip(self._shards, places):
            starts = shard.arrays["starts"]
            for term in sizes.keys() & own.keys():
                sizes[term] += int(starts[own[term] + 1] - starts[own[term]])
        return {term: size for term, size in sizes.items() if size}

    def _fuse(self, rankings: list[Docs]) -> Ranking:
        """Fuse by reciprocal ranks; the sums are exact, as those of `ranking.fuse_by_rrf` are."""
        if not rankings:
            return []
        docs = np.concatenate(rankings)
        ranks = np.concatenate([np.arange(1, len(ranking) + 1) for ranking in rankings])
        totals = sum_exactly(docs, 1 / (K + ranks), len(self._doc_ids), len(rankings))
        found = np.flatnonzero(totals)
        depth = self._settings.depth
        if len(found) > depth:
            found = found[totals[found] >= np.partition(totals[found], len(found) - depth)[len(found) - depth]]
        best = found[np.argsort(-totals[found], kind="stable")][:depth]
        return [Ranked(self._doc_ids[doc], score) for doc, score in zip(best.tolist(), totals[best].tolist())]


def _find_in(vocabulary: Array, wanted: list[str]) -> dict[str, int]:
    """Return the places of those sorted terms that a vocabulary has."""
    if not wanted or not len(vocabulary):
        return {}
    names = np.array(wanted, f"S{LONGEST}")
    places = np.minimum(np.searchsorted(vocabulary, names), len(vocabulary) - 1)
    return {wanted[i]: int(places[i]) for i in np.flatnonzero(vocabulary[places] == names)}


@cache
def compile_add_terms() -> Callable[..., None]:
    """Return ``_add_terms`` as machine code; compiling takes a second, once a process.

    Nothing is cached on disk: the package's folder may be read-only. The code checks no address: `impact_arrays` does
    before. No divisor is zero; with a check of each the loop would take twice the time.
    """
    import numba

    compiled: Callable[..., None] = numba.njit(_add_terms, error_model="numpy", nogil=True)
    return compiled


def _add_terms(
    rows: Any, weights: Any, starts: Any, docs: Any, counts: Any, norms: Any, k: float, scores: Any, found: Any
) -> None:
    """Add each term's part to the scores of the documents that hold it, and mark these as found.

    Args:
        rows: places of the terms in the vocabulary, ``[t]``.
        weights: inverse document frequencies, ``[t]``.
        starts: first posting of each term of the vocabulary, and the number of postings, ``[v + 1]``.
        docs: document of each posting, ``[p]``.
        counts: how often the document holds the term, ``[p]``.
        norms: length norms, ``[n]``.
        k: ``k1 + 1``.
        scores: float64, ``[n]``; is added to.
        found: bool, ``[n]``; is written.
    """
    for t in range(len(rows)):
        for p in range(starts[rows[t]], starts[rows[t] + 1]):
            doc, count = docs[p], counts[p]
            scores[doc] += weights[t] * (k * count / (norms[doc] + count))
            found[doc] = True


def sum_exactly(owners: Docs, values: npt.NDArray[np.float64], count: int, most: int) -> npt.NDArray[np.float64]:
    """Sum the values of each owner, rounded once at the end like ``math.fsum``, ``[count]``.

    Each value is split in two numbers with so few binary places that no sum of them is rounded.

    Args:
        owners: 0 to ``count - 1``, ``[v]``.
        values: between 0 and 1/61, ``[v]``.
        count: how many owners there are.
        most: most values of one owner.

    Raises:
        ValueError: there are too many values, or too small ones, for sums without rounding.
    """
    carry = ceil(log2(most))
    places = 1 - ceil(log2(values.min())) + carry
    if places + carry > 53:
        raise ValueError(f"sums of {most} values down to {values.min()} would be rounded")
    high = np.floor(np.ldexp(values, places))
    low = values - np.ldexp(high, -places)
    whole = np.bincount(owners, high, count)
    sums: npt.NDArray[np.float64] = np.ldexp(whole, -places) + np.bincount(owners, low, count)
    return sums
