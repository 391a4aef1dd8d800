"""BM25-Sentence1 as a sparse product: ``python -m benchmarks.bm25_sparse --index DIR [--documents N --queries M]``.

The index of the engine ``impact`` adds up the weights of postings in one compiled loop. Here scipy multiplies the terms
of all sentences of a query with a sparse matrix of the same weights, and selection and fusion stay those of the engine.
The product lacks a document whose weights add up to zero, as that of a term in half of all documents does. Both take
turns on one thread; the first query is a warm-up. Corpus and queries come from ``benchmarks.corpus``. The index is
built in DIR unless it is there.
"""

import time
from pathlib import Path
from statistics import mean

import click
import numpy as np
from scipy import sparse

from benchmarks.corpus import generate, queries
from pan_scdg.profile import Bm25Settings
from pan_scdg.retrieval.bm25.impact import MARGIN, ImpactIndex, _find_in
from pan_scdg.retrieval.bm25.impact_build import build_index
from pan_scdg.retrieval.bm25.terrier_formula import K1, compute_idf, order_terms, round_to_steps
from pan_scdg.retrieval.bm25.terrier_terms import pick_rarest
from pan_scdg.retrieval.ranking import Ranking
from pan_scdg.retrieval.sentences import split_sentences


class SparseIndex:
    """The weights of an opened index as a matrix of terms and documents."""

    def __init__(self, index: ImpactIndex, settings: Bm25Settings) -> None:
        self._index, self._settings = index, settings
        (shard,) = index._shards
        starts, docs, counts = (np.asarray(shard.arrays[name]) for name in ("starts", "docs", "counts"))
        self._count = len(index._doc_ids)
        idf = np.array([compute_idf(self._count, int(size)) for size in np.diff(starts)])
        weights = (K1 + 1) * counts / (index._norms[docs] + counts)
        weights *= np.repeat(idf, np.diff(starts))
        self._matrix = sparse.csr_array((weights, docs, starts), (len(starts) - 1, self._count))

    def search_sentences(self, text: str) -> Ranking:
        """Rank documents for a query, as ``ImpactIndex.search_sentences`` does."""
        index = self._index
        units = [index._pipeline.count_terms(sentence) for sentence in split_sentences(text)]
        places = [_find_in(index._shards[0].arrays["terms"], sorted(set().union(*units)))]
        columns, ends = list[int](), [0]
        for unit in units:
            sizes = index._count_documents(unit, places)
            picked = {term: sizes[term] for term in pick_rarest(sizes, self._settings.terms)}
            columns += [places[0][term] for term in order_terms(picked, self._count)]
            ends.append(len(columns))
        shape = len(units), self._matrix.shape[0]
        wanted = sparse.csr_array((np.ones(len(columns)), np.array(columns, np.int64), np.array(ends)), shape)
        found = wanted @ self._matrix
        rankings = []
        for row in range(len(units)):
            part = slice(found.indptr[row], found.indptr[row + 1])
            docs, scores = found.indices[part].astype(np.int64), found.data[part]
            if len(docs) > self._settings.depth:
                cut = len(docs) - self._settings.depth
                kept = scores >= np.partition(scores, cut)[cut] - MARGIN
                docs, scores = docs[kept], scores[kept]
            if len(docs):
                numbers = index._numbers[docs]
                best = np.lexsort((numbers, -round_to_steps(scores)))[: self._settings.depth]
                rankings.append(numbers[best])
        return index._fuse(rankings)


@click.command(help=__doc__)
@click.option("--index", "folder", type=click.Path(path_type=Path), required=True)
@click.option("--documents", default=2000, show_default=True, type=click.IntRange(1))
@click.option("--queries", "count", default=5, show_default=True, type=click.IntRange(1))
def main(folder: Path, documents: int, count: int) -> None:
    if not folder.exists():
        build_index(generate(documents, 0), folder)
    settings = Bm25Settings()
    texts = [query.text for query in queries(count + 1, documents, 0)]
    with ImpactIndex(folder, settings) as index:
        began = time.process_time()
        product = SparseIndex(index, settings)
        click.echo(f"{product._matrix.nnz:,} postings; matrix: {time.process_time() - began:.1f} processor s")
        spent: dict[str, list[float]] = {"impact": [], "scipy": []}
        same = True
        for text in texts:
            rankings = []
            for name, search in (("impact", index.search_sentences), ("scipy", product.search_sentences)):
                began = time.process_time()
                rankings.append([ranked.doc_id for ranked in search(text)])
                spent[name].append(time.process_time() - began)
            same = same and rankings[0] == rankings[1]
    means = {name: mean(times[1:]) for name, times in spent.items()}
    for name, times in spent.items():
        click.echo(f"{name}: {means[name]:.3f} processor s a query ({min(times[1:]):.3f} to {max(times[1:]):.3f})")
    click.echo(f"same rankings: {same}; scipy takes {means['scipy'] / means['impact']:.2f} times as long")


if __name__ == "__main__":
    main()
