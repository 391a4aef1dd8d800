"""The dense routes of a first stage: encode the queries of a group and search for them together."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pan_scdg.models.encoder import Encoder
from pan_scdg.profile import DenseSettings, Route
from pan_scdg.retrieval.dense.ivf import IvfIndex, IvfSearch
from pan_scdg.retrieval.dense.nearest import ExactSearch, Float32s, Positions
from pan_scdg.retrieval.dense.search import Search, order_by_id, search_chunks
from pan_scdg.retrieval.dense.vectors import Vectors, open_vectors, stack_vectors
from pan_scdg.retrieval.index import Part
from pan_scdg.retrieval.ranking import Ranking
from pan_scdg.retrieval.sentences import split_sentences
from pan_scdg.retrieval.units import cut_chunks, extract_title_abstract


class DenseRoutes:
    """Searches of one encoder in the vectors of a corpus.

    Raises:
        UserError: an index is missing, not complete or damaged, or a package is not installed.
    """

    def __init__(
        self, folder: Path, shards: Sequence[Mapping[str, Part]], settings: DenseSettings, encoder: Encoder, memory: int
    ) -> None:
        self._settings, self._encoder = settings, encoder
        self._vectors: dict[str, Vectors] = {}
        self._searches: dict[str, Search] = {}
        self._orders: dict[str, Positions] = {}
        for purpose in (name for name, part in shards[0].items() if part.manifest is not None):
            opened = [(part.name, part.manifest) for part in (parts[purpose] for parts in shards)]
            found = [open_vectors(folder / name, manifest) for name, manifest in opened if manifest is not None]
            self._vectors[purpose] = together = stack_vectors(found)
            self._searches[purpose] = ExactSearch(together.chunks, memory, encoder.device)
            if settings.search == "ivf":
                lists = []
                for parts, vectors in zip(shards, found, strict=True):
                    count, width = vectors.chunks.shape
                    lists.append(IvfIndex(folder / parts[f"{purpose}-ivf"].name, count, width, settings.probes))
                self._searches[purpose] = IvfSearch(together.chunks, lists, encoder.device)
            if purpose == "abstracts":
                self._orders[purpose] = order_by_id(together.doc_ids)

    def search(self, route: Route, texts: Sequence[str]) -> list[Ranking]:
        """Return the ranking of each query text by one dense route.

        Raises:
            ValueError: ``route`` is not a dense one.
        """
        s = self._settings
        if route == "abstract":
            # each alone: a vector depends on the others of its batch
            alone = [self._encode([extract_title_abstract(text)], s.query_tokens) for text in texts]
            return self._rank("abstracts", alone, s.depth)
        if route == "dense-sentence":
            units = [self._encode(split_sentences(text) or [text], s.query_tokens) for text in texts]
            return self._rank("chunks", units, s.kept_chunks, s.sentences)
        if route == "dense-full":
            cut = [cut_chunks(text, s.query_words, s.query_stride, s.query_chunks) or [text] for text in texts]
            return self._rank("chunks", [self._encode(of, s.full_query_tokens) for of in cut], s.full_kept_chunks)
        raise ValueError(f"{route} is no dense route")

    def _rank(
        self, purpose: str, units: Sequence[Float32s], kept: int, fusion: Literal["max", "combsum"] = "max"
    ) -> list[Ranking]:
        index, search, order = self._vectors[purpose], self._searches[purpose], self._orders.get(purpose)
        return search_chunks(units, search, index.owner, index.doc_ids, kept, self._settings.depth, fusion, order)

    def _encode(self, units: Sequence[str], tokens: int | None) -> Float32s:
        return self._encoder.encode(units, tokens, self._settings.query_prompt)
