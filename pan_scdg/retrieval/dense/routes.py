"""The dense routes of a first stage: encode the queries of a group and search for them together."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pan_scdg.models.encoder import Encoder
from pan_scdg.profile import DenseSettings, Route
from pan_scdg.retrieval.dense.ivf import IvfIndex, IvfSearch
from pan_scdg.retrieval.dense.nearest import find_nearest
from pan_scdg.retrieval.dense.rows import Rows
from pan_scdg.retrieval.dense.search import Find, Integers, search_chunks, search_chunks_by_sum, search_documents
from pan_scdg.retrieval.dense.vectors import Vectors, open_vectors, stack_vectors
from pan_scdg.retrieval.index import Part
from pan_scdg.retrieval.ranking import Ranking
from pan_scdg.retrieval.sentences import split_sentences
from pan_scdg.retrieval.units import cut_chunks, extract_title_abstract


class DenseRoutes:
    """Searches of one encoder in the vectors of a corpus.

    Args:
        folder: holds the indexes.
        shards: which ones of each shard, by purpose; see `index.list_shards`.
        memory: bytes that an exact search may use; it bounds the speed, not the result.
        settings: the profile's.
        encoder: for the queries; the corpus was encoded by the same.

    Raises:
        UserError: an index is missing, not complete or damaged, or a package is not installed.
    """

    def __init__(
        self, folder: Path, shards: Sequence[Mapping[str, Part]], settings: DenseSettings, encoder: Encoder, memory: int
    ) -> None:
        self._settings, self._encoder, self._memory = settings, encoder, memory
        self._vectors: dict[str, Vectors] = {}
        self._find: dict[str, Find] = {}
        for purpose in (name for name, part in shards[0].items() if part.manifest is not None):
            opened = [(part.name, part.manifest) for part in (parts[purpose] for parts in shards)]
            found = [open_vectors(folder / name, manifest) for name, manifest in opened if manifest is not None]
            self._vectors[purpose], self._find[purpose] = stack_vectors(found), find_nearest
            if settings.search == "ivf":
                lists = []
                for parts, vectors in zip(shards, found, strict=True):
                    count, width = vectors.chunks.shape
                    lists.append(IvfIndex(folder / parts[f"{purpose}-ivf"].name, count, width, settings.probes))
                self._find[purpose] = IvfSearch(lists)

    def search(self, route: Route, texts: Sequence[str]) -> list[Ranking]:
        """Return the ranking of each query text by one dense route.

        Raises:
            ValueError: ``route`` is not a dense one.
        """
        if route == "abstract":
            return self._search_abstracts(texts)
        if route == "dense-sentence":
            return self._search_sentences(texts)
        if route == "dense-full":
            return self._search_whole(texts)
        raise ValueError(f"{route} is no dense route")

    def _search_abstracts(self, texts: Sequence[str]) -> list[Ranking]:
        s, index = self._settings, self._vectors["abstracts"]
        # each alone: a vector depends on the others of its batch
        vectors = [self._encode([extract_title_abstract(text)], s.query_tokens) for text in texts]
        place = (index.chunks, index.doc_ids, s.depth, self._memory, self._encoder.device, self._find["abstracts"])
        return search_documents(np.concatenate(vectors), *place)

    def _search_sentences(self, texts: Sequence[str]) -> list[Ranking]:
        s = self._settings
        units = [self._encode(split_sentences(text) or [text], s.query_tokens) for text in texts]
        search = search_chunks_by_sum if s.sentences == "combsum" else search_chunks
        return search(units, *self._list_arguments(s.kept_chunks))

    def _search_whole(self, texts: Sequence[str]) -> list[Ranking]:
        s = self._settings
        cut = [cut_chunks(text, s.query_words, s.query_stride, s.query_chunks) or [text] for text in texts]
        return search_chunks(
            [self._encode(of, s.full_query_tokens) for of in cut], *self._list_arguments(s.full_kept_chunks)
        )

    def _list_arguments(self, kept: int) -> tuple[Rows, Integers, list[str], int, int, int, str, Find]:
        """Return the arguments that all searches in chunks share."""
        index = self._vectors["chunks"]
        place = (self._memory, self._encoder.device, self._find["chunks"])
        return index.chunks, index.owner, index.doc_ids, kept, self._settings.depth, *place

    def _encode(self, units: Sequence[str], tokens: int | None) -> npt.NDArray[np.float32]:
        return self._encoder.encode(units, tokens, self._settings.query_prompt)
