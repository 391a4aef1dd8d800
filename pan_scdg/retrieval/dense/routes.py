"""The dense routes of a first stage: queries are encoded, and the vectors of a group meet the corpus together."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pan_scdg.models.encoder import Encoder
from pan_scdg.profile import DenseSettings, Route
from pan_scdg.retrieval.corpus_index import Part
from pan_scdg.retrieval.dense.search import ones_to_ones, sentence_comb_sum, sentences_to_chunks
from pan_scdg.retrieval.dense.vectors import Vectors, open_vectors
from pan_scdg.retrieval.ranking import Ranking
from pan_scdg.retrieval.units import chunks, sentences, title_abstract


class DenseRoutes:
    """Searches of one encoder in the vectors of a corpus.

    Args:
        folder: holds the indexes.
        parts: which ones; see `corpus_index.parts_of`.
        memory: bytes that a search may use; it bounds the speed, not the result.
        settings: the profile's.
        encoder: for the queries; the corpus was encoded by the same.

    Raises:
        UserError: an index is missing, not complete or damaged.
    """

    def __init__(
        self, folder: Path, parts: Mapping[str, Part], settings: DenseSettings, encoder: Encoder, memory: int
    ) -> None:
        self._settings, self._encoder, self._memory = settings, encoder, memory
        self._vectors: dict[str, Vectors] = {
            purpose: open_vectors(folder / part.name, part.manifest)
            for purpose, part in parts.items()
            if part.manifest is not None
        }

    def search(self, route: Route, texts: Sequence[str]) -> list[Ranking]:
        """The ranking of each query text by one dense route.

        Raises:
            ValueError: ``route`` is not a dense one.
        """
        if route == "abstract":
            return self._abstracts(texts)
        if route == "dense-sentence":
            return self._sentences(texts)
        if route == "dense-full":
            return self._whole_queries(texts)
        raise ValueError(f"{route} is no dense route")

    def _abstracts(self, texts: Sequence[str]) -> list[Ranking]:
        s, there = self._settings, self._vectors["abstracts"]
        vectors = [self._encoded([title_abstract(text)], s.query_tokens) for text in texts]  # alone: batches round
        return ones_to_ones(np.concatenate(vectors), there.chunks, there.doc_ids, s.depth, self._memory)

    def _sentences(self, texts: Sequence[str]) -> list[Ranking]:
        s, there = self._settings, self._vectors["chunks"]
        units = [self._encoded(sentences(text) or [text], s.query_tokens) for text in texts]
        if s.sentences == "combsum":
            where = (there.chunks, there.owner, there.doc_ids, s.kept_chunks, s.depth, self._memory)
            return [sentence_comb_sum(vectors, *where) for vectors in units]
        return self._by_maximum(units, s.kept_chunks)

    def _whole_queries(self, texts: Sequence[str]) -> list[Ranking]:
        s = self._settings
        cut = [chunks(text, s.query_words, s.query_stride, s.query_chunks) or [text] for text in texts]
        units = [self._encoded(of, s.full_query_tokens) for of in cut]
        return self._by_maximum(units, s.full_kept_chunks)

    def _by_maximum(self, units: Sequence[npt.NDArray[np.float32]], kept: int) -> list[Ranking]:
        there = self._vectors["chunks"]
        where = (there.chunks, there.owner, there.doc_ids, kept, self._settings.depth)
        if self._encoder.device == "cuda":
            from pan_scdg.retrieval.dense import search_gpu as dense_gpu

            return dense_gpu.sentences_to_chunks(units, *where, memory=self._memory)
        return sentences_to_chunks(units, *where, self._memory)

    def _encoded(self, units: Sequence[str], tokens: int | None) -> npt.NDArray[np.float32]:
        return self._encoder.encode(units, tokens, self._settings.query_prompt)
