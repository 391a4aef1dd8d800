"""Match the sentences of queries with those of their candidates, by the embeddings that also decide pairs."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from pan_scdg.digests import hash_text
from pan_scdg.align.scorer import AlignmentScorer
from pan_scdg.align.units import EncodedText
from pan_scdg.profile import MatchSettings
from pan_scdg.records import Query
from pan_scdg.scdg.aggregation import Floats
from pan_scdg.store import Store, make_key, pack_array, unpack_floats

ABSENT = -1.0
"""Stands for the cosine with a document that has no sentences."""
DECIMALS = 5
"""Precision of cosines; the last digits of a product depend on the processor."""


class SentenceMatcher:
    """Measures how well candidates match the sentences of their queries, and keeps it in the store."""

    def __init__(
        self, settings: MatchSettings, scorer: AlignmentScorer, store: Store, queries: Iterable[Query]
    ) -> None:
        self.settings, self._scorer, self._store = settings, scorer, store
        self._texts = {query.query_id: query.text for query in queries}
        self._keys: dict[tuple[str, str], str] = {}
        """The store's key of each measured candidate, by (query, document)."""

    def measure(self, names: Iterable[tuple[str, str]], document: str) -> None:
        """Compare a document with the queries that have it as a candidate, unless the store knows the result."""
        todo: dict[str, str] = {}
        for query_id, doc_id in names:
            text = self._texts[query_id]
            key = self._make_key(text, document)
            self._keys[query_id, doc_id] = key
            self._store.use([key])
            if self._store.get(key) is None:
                todo[key] = text
        if todo:
            source = self._scorer.prepare(document)
            found = {key: self._compare(self._scorer.prepare(text), source) for key, text in todo.items()}
            self._store.put([(key, pack_array(cosines)) for key, cosines in found.items()])

    def compute_shares(self, query_id: str, documents: Sequence[str]) -> dict[str, float]:
        """Return the share of a query that each of these measured documents explains; see `share_sentences`."""
        if not documents:
            return {}
        text = self._texts[query_id]
        spans = self._scorer.split(text).spans.tolist()
        words = np.array([len(text[start:end].split()) for start, end in spans], np.int64)
        cosines = np.stack([self._load(query_id, doc_id, len(words)) for doc_id in documents])
        shares = share_sentences(cosines, words, self.settings.temperature)
        return dict(zip(documents, shares.tolist(), strict=True))

    def _make_key(self, query: str, document: str) -> str:
        texts = {"query": hash_text(query), "document": hash_text(document)}
        return make_key("sentence match", {"with": self._scorer.identify(), **texts})

    def _load(self, query_id: str, doc_id: str, sentences: int) -> npt.NDArray[np.float32]:
        def unpack(data: bytes) -> npt.NDArray[np.float32]:
            cosines = unpack_floats(data, 1)
            if len(cosines) != sentences:
                raise ValueError(f"{len(cosines)} cosines of {sentences} sentences")
            return cosines

        found = self._store.read(self._keys[query_id, doc_id], unpack)
        if found is None:
            raise ValueError(f"the candidate {doc_id} of the query {query_id} was not measured")
        return found

    def _compare(self, query: EncodedText, document: EncodedText) -> npt.NDArray[np.float32]:
        """Return the cosine of each sentence of a query with the document's most similar one, ``[u]``."""
        if not query.vectors.size or not document.vectors.size:
            return np.full(len(query.prepared.spans), ABSENT, np.float32)
        cosines: npt.NDArray[np.float32] = (query.vectors @ document.vectors.T).max(axis=1)
        return np.round(cosines, DECIMALS)


def share_sentences(cosines: Floats, words: npt.NDArray[np.integer], temperature: float) -> npt.NDArray[np.float64]:
    """Return the share of a text's words that each document explains, ``[k]``; the shares sum up to 1.

    The words of a sentence are divided by the softmax of its cosines over the temperature: documents on the same topic
    match all sentences a little, and what counts is which one matches a sentence better than the others do.

    Args:
        cosines: of each sentence with the most similar one of each document, ``[k, u]``.
        words: number of words of each sentence, ``[u]``.
        temperature: differences of cosines that are small beside it count little.

    Raises:
        ValueError: there is no document, or shapes disagree.
    """
    if cosines.ndim != 2 or not len(cosines) or words.shape != cosines.shape[1:]:
        raise ValueError(f"cosines of shape {cosines.shape} and words of shape {words.shape} do not fit")
    if not words.sum():
        return np.full(len(cosines), 1 / len(cosines))
    scaled = cosines.astype(np.float64) / temperature
    weights = np.exp(scaled - scaled.max(axis=0))
    shares: npt.NDArray[np.float64] = (weights / weights.sum(axis=0)) @ (words / words.sum())
    return shares
