"""BM25 on PyTerrier 0.13 and Terrier 5.11 (paper, BM25 retrieval): the reference for `bm25.impact`.

Queries are tokenised here and reach Terrier as lists of terms: its query parser splits words elsewhere than its indexer
does (``Zürich`` is indexed as ``rich`` and found by no query), and it would take operators for what they are.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pan_scdg.errors import UserError
from pan_scdg.models.terrier_jars import MEMORY_VARIABLE, TERRIER, find_terrier_jar, start_terrier
from pan_scdg.profile import Bm25Settings
from pan_scdg.retrieval.bm25.lexical import LexicalIndex
from pan_scdg.retrieval.bm25.terrier_formula import K1, STEPS, B, order_terms, round_to_steps
from pan_scdg.retrieval.bm25.terrier_terms import TermPipeline, pick_rarest, read_stopwords
from pan_scdg.retrieval.index_folder import REDO, check_seal, read_ids, stage_folder, write_seal
from pan_scdg.retrieval.ranking import Ranking, rank_best

if TYPE_CHECKING:
    from pan_scdg.records import Document

DOC_IDS, INDEX = "documents.jsonl", "index"
MARGIN = 64
"""Documents first requested beyond the cut: enough unless more of them share the score of the last place."""


def build_index(documents: Iterable["Document"], folder: Path) -> None:
    """Write Terrier's index of a stream of documents; ``folder`` exists only once the index is complete.

    Terrier holds one document and its own buffers in memory, and this process the ids of all documents.

    Raises:
        UserError: Terrier cannot be started, or the index cannot be written.
    """
    pt = start_terrier()
    with stage_folder(folder) as part:
        (part / INDEX).mkdir()
        feed = _Feed(documents)
        terms = _index(pt, feed, part / INDEX)
        lines = "".join(json.dumps(doc_id) + "\n" for doc_id in feed.doc_ids)
        (part / DOC_IDS).write_text(lines, encoding="ascii")
        write_seal(part, "terrier", TERRIER, len(feed.doc_ids), terms)


class _Feed:
    """Documents on their way to PyTerrier's writer thread, which would swallow an error of reading them."""

    def __init__(self, documents: Iterable["Document"]) -> None:
        self.doc_ids: list[str] = []
        self.failure: BaseException | None = None
        self._documents = documents

    def __iter__(self) -> Iterator[dict[str, str]]:
        """Yield the documents, named by their positions in the stream, which are Terrier's own ids."""
        try:
            for number, document in enumerate(self._documents):
                self.doc_ids.append(document.doc_id)
                yield {"docno": str(number), "text": document.text}
        except BaseException as e:
            self.failure = e


def _index(pt: Any, feed: _Feed, folder: Path) -> int:
    """Let Terrier index all documents and return the number of terms. Without any it leaves a part of an index."""
    from jnius import JavaException

    indexer = pt.IterDictIndexer(
        str(folder.resolve()), meta={"docno": 20}, tokeniser="english", stemmer="porter", stopwords="terrier"
    )
    try:
        reference = indexer.index(iter(feed))
        if feed.failure is not None:
            raise feed.failure
        index = pt.IndexFactory.of(reference)
        terms = int(index.getCollectionStatistics().getNumberOfUniqueTerms())
        index.close()
    except JavaException as e:
        raise feed.failure or UserError(
            f"Terrier cannot index: {e}", f"check the free space there, or raise ${MEMORY_VARIABLE}", folder
        ) from e
    return terms


class TerrierIndex(LexicalIndex):
    """An index written by ``build_index``."""

    def __init__(self, folder: Path, settings: Bm25Settings) -> None:
        """Open the index.

        Raises:
            UserError: Terrier cannot be started, or the folder is missing, damaged or no such index.
        """
        super().__init__(settings)
        self._pt = start_terrier()
        self._pipeline = TermPipeline(read_stopwords(find_terrier_jar()))
        self._frequencies: dict[str, int] = {}
        seal = check_seal(folder, "terrier", TERRIER)
        self._doc_ids = read_ids(folder / DOC_IDS, seal.documents)
        self._index: Any = _open(self._pt, folder, seal.documents, seal.terms) if seal.terms else None

    def rank(self, units: Sequence[str], terms: int) -> list[Ranking]:
        """Return the ranking of each unit that has indexed terms, in steps of 1e-9, ties at the cut by document id.

        Terrier cuts inside a tie wherever its internal order says. So more is asked for until what follows the last
        place that is needed scores less, or nothing follows.
        """
        asked, depth = self._settings.depth + MARGIN, self._settings.depth
        chosen = [self._pick_rarest(unit, terms) for unit in units]
        waiting = dict(enumerate(words for words in chosen if words))
        rankings: dict[int, Ranking] = {}
        while waiting:
            undecided: dict[int, list[str]] = {}
            for unit, (docs, scores) in self._retrieve(waiting, asked).items():
                steps = round_to_steps(scores)
                if len(steps) == asked and asked < len(self._doc_ids) and steps[-1] == np.sort(steps)[-depth]:
                    undecided[unit] = waiting[unit]
                else:
                    rankings[unit] = rank_best({self._doc_ids[d]: int(s) / STEPS for d, s in zip(docs, steps)}, depth)
            waiting, asked = undecided, asked * 4
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

    def _retrieve(self, units: dict[int, list[str]], count: int) -> dict[int, tuple[list[int], Any]]:
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
        found = retriever.transform(pd.DataFrame(rows, columns=["qid", "query_toks"]))
        empty: tuple[list[int], Any] = ([], np.empty(0))
        groups = {int(qid): (list(g["docid"]), g["score"].to_numpy(float)) for qid, g in found.groupby("qid")}
        return {unit: groups.get(unit, empty) for unit in units}


def _open(pt: Any, folder: Path, documents: int, terms: int) -> Any:
    """Return Terrier's index, or raise UserError if it is not the one that was written."""
    from jnius import JavaException

    try:
        index = pt.IndexFactory.of(str((folder / INDEX).resolve()))
        statistics = index.getCollectionStatistics()
        found = (statistics.getNumberOfDocuments(), statistics.getNumberOfUniqueTerms())
        complete = all(index.hasIndexStructure(name) for name in ("inverted", "lexicon", "document", "meta"))
    except (JavaException, ValueError, AttributeError) as e:
        raise UserError(f"not a readable Terrier index: {e}", REDO, folder) from e
    if found != (documents, terms) or not complete:
        raise UserError(
            f"the index holds {found[0]} documents and {found[1]} terms, not {documents} and {terms}",
            REDO,
            folder,
        )
    return index
