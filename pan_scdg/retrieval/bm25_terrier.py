"""BM25 on PyTerrier 0.13 and Terrier 5.11 (paper, BM25 retrieval): the reference for `bm25_impact`.

No shipped profile chooses it. It needs the extra ``terrier``, Java and the jars that ``models fetch terrier`` fetches.

Queries are tokenised here and reach Terrier as lists of terms: its query parser splits words elsewhere than its indexer
does (``Zürich`` is indexed as ``rich`` and found by no query), and it would take operators for what they are.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pan_scdg.errors import UserError
from pan_scdg.records import Document, Ranking
from pan_scdg.retrieval.bm25 import K1, SCORE_STEPS, B, Floats, LexicalIndex, order_terms, pick_rarest, round_to_steps
from pan_scdg.retrieval.ranking import rank_best
from pan_scdg.retrieval.terrier_jars import MEMORY_VARIABLE, start_terrier
from pan_scdg.retrieval.terrier_terms import TermPipeline

DOC_IDS, INDEX = "documents.json", "index"
EXTRA_RANKS = 64
"""Documents first requested beyond the cut: enough unless more of them share the score of the last place."""


def build_index(documents: Iterable[Document], folder: Path) -> None:
    """Write Terrier's index of a stream of documents into an empty folder.

    Raises:
        UserError: Terrier cannot be started, or cannot index the documents.
    """
    pt = start_terrier()
    from jnius import JavaException

    doc_ids: list[str] = []
    finished = False

    def number_documents() -> Iterator[dict[str, str]]:
        nonlocal finished
        for document in documents:
            doc_ids.append(document.doc_id)
            yield {"docno": str(len(doc_ids) - 1), "text": document.text}  # the number is Terrier's own id
        finished = True

    path = folder / INDEX
    path.mkdir()
    indexer = pt.IterDictIndexer(
        str(path.resolve()), meta={"docno": 20}, tokeniser="english", stemmer="porter", stopwords="terrier"
    )
    try:
        index = pt.IndexFactory.of(indexer.index(number_documents()))
        empty = index.getCollectionStatistics().getNumberOfUniqueTerms() == 0
        index.close()
    except JavaException as e:
        remedy = f"check the free space there, or raise ${MEMORY_VARIABLE}"
        raise UserError(f"Terrier cannot index: {e}", remedy, folder) from e
    if not finished:  # PyTerrier reads the documents in a thread of its own, which hides an error
        raise UserError("Terrier did not read all documents", "run again", folder)
    (folder / DOC_IDS).write_text(json.dumps({"ids": doc_ids, "empty": empty}), encoding="ascii")


class TerrierIndex(LexicalIndex):
    """An index written by `build_index`.

    Raises:
        UserError: Terrier cannot be started, or cannot open the index.
    """

    def __init__(self, folder: Path) -> None:
        self._pt = start_terrier()
        from jnius import JavaException

        self._pipeline = TermPipeline()
        self._frequencies: dict[str, int] = {}
        described = json.loads((folder / DOC_IDS).read_text(encoding="ascii"))
        self._doc_ids: list[str] = described["ids"]
        self._index: Any = None
        if not described["empty"]:  # Terrier cannot open an index without terms
            try:
                self._index = self._pt.IndexFactory.of(str((folder / INDEX).resolve()))
            except (JavaException, ValueError) as e:
                raise UserError(f"not a readable Terrier index: {e}", "delete it and run again", folder) from e

    def rank(self, units: Sequence[str], terms: int, depth: int) -> list[Ranking]:
        """Return the ranking of each unit that has indexed terms, in steps of 1e-9, ties at the cut by document id.

        Terrier cuts inside a tie wherever its internal order says. So more is requested until what follows the last
        place that is needed scores less, or nothing follows.
        """
        requested = depth + EXTRA_RANKS
        chosen = [self._pick_rarest(unit, terms) for unit in units]
        waiting = dict(enumerate(words for words in chosen if words))
        rankings: dict[int, Ranking] = {}
        while waiting:
            undecided: dict[int, list[str]] = {}
            for unit, (docs, scores) in self._retrieve(waiting, requested).items():
                steps = round_to_steps(scores)
                if len(steps) == requested < len(self._doc_ids) and steps[-1] == np.sort(steps)[-depth]:
                    undecided[unit] = waiting[unit]
                else:
                    by_id = {self._doc_ids[d]: int(s) / SCORE_STEPS for d, s in zip(docs, steps)}
                    rankings[unit] = rank_best(by_id, depth)
            waiting, requested = undecided, requested * 4
        return [rankings[unit] for unit in sorted(rankings)]

    def close(self) -> None:
        """Close Terrier's files; Java itself runs until the process ends."""
        if self._index is not None:
            self._index.close()

    def _pick_rarest(self, unit: str, limit: int) -> list[str]:
        """Return the rarest indexed terms of a unit, in the order in which Terrier sums them."""
        terms = pick_rarest({term: self._count_documents(term) for term in self._pipeline.count_terms(unit)}, limit)
        return order_terms({term: self._count_documents(term) for term in terms}, len(self._doc_ids))

    def _count_documents(self, term: str) -> int:
        """Return the number of documents with the term, 0 if it is not indexed."""
        if self._index is not None and term not in self._frequencies:
            entry = self._index.getLexicon().getLexiconEntry(term)
            self._frequencies[term] = 0 if entry is None else int(entry.getDocumentFrequency())
        return self._frequencies.get(term, 0)

    def _retrieve(self, units: dict[int, list[str]], count: int) -> dict[int, tuple[list[int], Floats]]:
        """Return at most ``count`` of Terrier's document ids and scores for each unit."""
        import pandas as pd

        retriever = self._pt.terrier.Retriever(
            self._index,
            wmodel="BM25",
            num_results=count,
            metadata=["docno"],
            # The terms are stemmed already: a second time would make others of them.
            controls={"bm25.k_1": str(K1), "bm25.b": str(B), "applypipeline": "off"},
        )
        rows = [{"qid": str(unit), "query_toks": dict.fromkeys(terms, 1.0)} for unit, terms in units.items()]
        results = retriever.transform(pd.DataFrame(rows, columns=["qid", "query_toks"]))
        empty: tuple[list[int], Floats] = ([], np.empty(0))
        groups = {int(qid): (list(g["docid"]), g["score"].to_numpy(float)) for qid, g in results.groupby("qid")}
        return {unit: groups.get(unit, empty) for unit in units}
