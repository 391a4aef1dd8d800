"""Dense search: exact inner products of unit vectors, computed in blocks (paper, dense retrieval).

Similarities are compared rounded to six decimals, since the last bits of a product depend on the processor and the
block; equal ones go by document id. ``dense-full`` searches with chunks of the query, ``dense-sentence`` with its
sentences, and ``abstract`` with one vector in one vector a document.

A folder of vectors contains ``vectors.f16``, the bare matrix in little-endian float16, and ``documents.jsonl``, with a
line for each group of documents that were encoded together: their ids and numbers of vectors, and where the vectors
end. Both only grow, so that a build that was stopped continues after the last whole group.
"""

import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.models.encoder import Encoder, EncoderUse
from pan_scdg.progress import Progress
from pan_scdg.records import Document, Ranked, Ranking
from pan_scdg.retrieval.ranking import DEPTH, fuse_by_comb_sum, rank_best
from pan_scdg.retrieval.units import cut_chunks, cut_query, extract_title_abstract, split_query
from pan_scdg.settings import DenseSettings, Route

KEPT_CHUNKS, FULL_KEPT_CHUNKS = 2000, 5000
"""Chunks that are kept of a sentence, and of a chunk of a whole query, before the maximum of each document."""
QUERY_CHUNK_TOKENS = 4096
"""Longest chunk of a whole query for the encoder, if it reads as many."""
DECIMALS = 6
GROUP_DOCUMENTS = 64
"""Documents that are encoded together: a vector depends on the others of its batch."""
MEMORY_BYTES = 1 << 30
"""Memory for the products of a search; it bounds the speed, not the result."""
BLOCK_BYTES = 32 << 20
"""Size of a block of vectors in float32."""
TIE_MARGIN = 64
"""Vectors kept beyond the cut while blocks are searched, among which rounding may find ties."""
VECTORS, DOCUMENTS = "vectors.f16", "documents.jsonl"

Kind = Literal["chunks", "abstracts"]
Floats = npt.NDArray[np.floating]
Float32s = npt.NDArray[np.float32]
Positions = npt.NDArray[np.int64]


class EncodeTask(NamedTuple):
    """Texts that are encoded together."""

    texts: list[str]
    max_tokens: int | None
    """Where a text is cut; None: the limit of the encoder."""


class SearchTask(NamedTuple):
    """Queries that are searched together."""

    folder: Path
    """The indexes."""
    routes: tuple[Route, ...]
    texts: tuple[str, ...]


class Searched(NamedTuple):
    """The rankings of the queries of a task by each route, and the seconds that each route took."""

    rankings: dict[Route, list[Ranking]]
    seconds: dict[str, float]


Encode = Callable[[Iterable[EncodeTask], Progress], Iterator[Float32s]]
"""Yields the vectors of each task, in order, and is given the progress of the index."""

_encoders: dict[tuple[EncoderUse, str, bool], Encoder] = {}
_loading = Lock()


def open_encoder(use: EncoderUse, device: str, raw_text: bool) -> Encoder:
    """Return an encoder, loaded once in a process."""
    key = use, device, raw_text
    with _loading:  # one thread prepares texts while another computes
        if key not in _encoders:
            _encoders[key] = use.load(device, raw_text)
        return _encoders[key]


def release_encoders() -> None:
    """Free the memory of the encoders that are loaded."""
    while _encoders:
        _encoders.popitem()[1].release()


def cut_document(document: Document, kind: Kind, settings: DenseSettings) -> list[str]:
    """Return the texts to encode of a document; an empty text without words, so that every document has a vector."""
    if kind == "abstracts":
        return [extract_title_abstract(document.text)]
    return cut_chunks(document.text, settings.chunk_words, settings.chunk_stride, settings.chunks) or [""]


def build_vectors(
    documents: Iterable[Document],
    folder: Path,
    kind: Kind,
    settings: DenseSettings,
    encode: Encode,
    progress: Progress,
) -> None:
    """Encode the documents of a corpus into a folder, beginning after those that an earlier process stored."""
    folder.mkdir(exist_ok=True)
    stored = _resume(folder)
    progress.update(stored)
    pending: deque[list[tuple[str, int]]] = deque()

    def make_tasks() -> Iterator[EncodeTask]:
        remaining = islice(documents, stored, None)
        while group := list(islice(remaining, GROUP_DOCUMENTS)):
            texts = [cut_document(document, kind, settings) for document in group]
            pending.append([(document.doc_id, len(cut)) for document, cut in zip(group, texts)])
            yield EncodeTask(list(chain(*texts)), settings.document_tokens)

    with open(folder / VECTORS, "ab") as vectors, open(folder / DOCUMENTS, "a", encoding="ascii") as lines:
        for encoded in encode(make_tasks(), progress):
            vectors.write(encoded.astype("<f2").tobytes())
            vectors.flush()
            group = pending.popleft()
            lines.write(json.dumps({"documents": group, "end": vectors.tell()}) + "\n")
            lines.flush()
            progress.update(len(group))


def _resume(folder: Path) -> int:
    """Cut both files after the last group that is whole; return the number of stored documents."""
    (folder / VECTORS).touch()
    (folder / DOCUMENTS).touch()
    size = (folder / VECTORS).stat().st_size
    count = end = line_end = 0
    with open(folder / DOCUMENTS, "rb") as lines:
        for line in lines:
            group = json.loads(line) if line.endswith(b"\n") else None
            if group is None or group["end"] > size:
                break
            count, end, line_end = count + len(group["documents"]), group["end"], line_end + len(line)
    os.truncate(folder / VECTORS, end)
    os.truncate(folder / DOCUMENTS, line_end)
    return count


class Vectors:
    """The vectors of a corpus, read from disk block by block."""

    def __init__(self, folder: Path) -> None:
        with open(folder / DOCUMENTS, encoding="ascii") as lines:
            groups = [json.loads(line) for line in lines]
        documents = [document for group in groups for document in group["documents"]]
        counts = np.array([count for _, count in documents], np.int64)
        self._path = folder / VECTORS
        self._width = groups[-1]["end"] // (2 * int(counts.sum()))
        self.doc_ids = [doc_id for doc_id, _ in documents]
        self.owner: Positions = np.repeat(np.arange(len(counts)), counts)
        """For each vector the position of its document in ``doc_ids``, ``[c]``."""

    def read_blocks(self, rows: int) -> Iterator[Floats]:
        """Yield all vectors in order, at most ``rows`` each time, float16 ``[n, d]``."""
        with open(self._path, "rb") as file:
            while len(block := np.fromfile(file, "<f2", rows * self._width)):
                yield block.reshape(-1, self._width)


class DenseSearch:
    """Searches of one encoder in the vectors of a corpus."""

    def __init__(self, folder: Path, settings: DenseSettings, encoder: Encoder) -> None:
        self._settings, self._encoder, self._folder = settings, encoder, folder
        self._vectors: dict[Kind, Vectors] = {}

    def search(self, route: Route, queries: Sequence[str]) -> list[Ranking]:
        """Return the ranking of each query text by one dense route.

        Raises:
            ValueError: ``route`` is not a dense one.
        """
        tokens = self._settings.query_tokens
        if route == "abstract":
            # each alone: a vector depends on the others of its batch
            return self._rank("abstracts", [[extract_title_abstract(text)] for text in queries], tokens, DEPTH)
        if route == "dense-sentence":
            sentences = [split_query(text) for text in queries]
            return self._rank("chunks", sentences, tokens, KEPT_CHUNKS, self._settings.sentences)
        if route == "dense-full":
            tokens = min(QUERY_CHUNK_TOKENS, self._encoder.max_tokens)
            return self._rank("chunks", [cut_query(text) for text in queries], tokens, FULL_KEPT_CHUNKS)
        raise ValueError(f"{route} is no dense route")

    def _rank(
        self,
        kind: Kind,
        units: Sequence[list[str]],
        tokens: int | None,
        kept: int,
        fusion: Literal["max", "combsum"] = "max",
    ) -> list[Ranking]:
        if kind not in self._vectors:
            self._vectors[kind] = Vectors(self._folder / kind)
        encoded = [self._encoder.encode(texts, tokens, self._settings.query_prompt) for texts in units]
        return rank_documents(encoded, self._vectors[kind], kept, fusion=fusion, device=self._encoder.device)


def rank_documents(
    queries: Sequence[Float32s],
    vectors: Vectors,
    kept: int,
    depth: int = DEPTH,
    fusion: Literal["max", "combsum"] = "max",
    device: str = "cpu",
) -> list[Ranking]:
    """Rank documents by their best vectors for the units of each query.

    Args:
        queries: for each query the unit vectors of its sentences, or of its chunks, ``[s, d]``.
        vectors: unit vectors of the corpus.
        kept: vectors kept per unit before the maximum of each document.
        depth: documents returned, equal ones by document id.
        fusion: the maximum over the units (paper, Sentence1-Max and Full), or the sum of the similarities, min-max
            normalised for each unit (paper, sentence-level CombSUM).
        device: computes the products.
    """
    doc_ids, owner, rankings = vectors.doc_ids, vectors.owner, []
    places = np.empty(len(doc_ids), np.int64)
    places[sorted(range(len(doc_ids)), key=doc_ids.__getitem__)] = np.arange(len(doc_ids))
    nearest = find_nearest(np.concatenate(queries), vectors.read_blocks, kept, places[owner], device)
    for query in queries:
        best, parts = np.full(len(doc_ids), -np.inf), list[Ranking]()
        for positions, similarities in islice(nearest, len(query)):
            np.maximum.at(best, owner[positions], similarities)
            if fusion == "combsum":
                parts.append([Ranked(*item) for item in _list_scores(best, doc_ids).items()])
                best.fill(-np.inf)
        ranking = (
            fuse_by_comb_sum(parts, depth) if fusion == "combsum" else rank_best(_list_scores(best, doc_ids), depth)
        )
        rankings.append(ranking)
    return rankings


def _list_scores(best: Floats, doc_ids: Sequence[str]) -> dict[str, float]:
    """Return the similarities of the documents that have one."""
    scored = np.flatnonzero(best > -np.inf)
    return {doc_ids[i]: score for i, score in zip(scored.tolist(), best[scored].tolist())}


def find_nearest(
    queries: Float32s,
    read_blocks: Callable[[int], Iterator[Floats]],
    kept: int,
    ties: Positions,
    device: str = "cpu",
) -> Iterator[tuple[Positions, Floats]]:
    """Yield for each query vector the ``kept`` most similar vectors, in no order, and their rounded similarities.

    Args:
        queries: ``[s, d]``.
        read_blocks: yields all vectors in order, at most as many as its argument each time, ``[n, d]``.
        kept: number of vectors to find.
        ties: of equal vectors the one with the smaller number here is better, then the earlier one, ``[c]``.
        device: computes the products.
    """
    kept = min(kept, len(ties))
    count = min(kept + TIE_MARGIN, len(ties))
    block = min(len(ties), max(1, BLOCK_BYTES // (4 * max(1, queries.shape[1]))))
    rows = max(1, MEMORY_BYTES // (16 * (count + block) + 8 * count))
    for start in range(0, len(queries), rows):
        all_scores, all_positions = _select_top(queries[start : start + rows], read_blocks(block), count, block, device)
        for scores, positions in zip(all_scores, all_positions):
            similarities = np.round(scores.astype(np.float64), DECIMALS) + 0.0  # no negative zero
            least = np.partition(similarities, -kept)[-kept]
            better, equal = np.flatnonzero(similarities > least), np.flatnonzero(similarities == least)
            order = np.lexsort((positions[equal], ties[positions[equal]]))
            chosen = np.concatenate([better, equal[order[: kept - len(better)]]])
            yield positions[chosen], similarities[chosen]


def _select_top(
    queries: Float32s, blocks: Iterator[Floats], count: int, block: int, device: str
) -> tuple[Float32s, Positions]:
    """Return the ``count`` largest products of each query vector with all vectors, and their positions, in no order."""
    import torch

    left = torch.from_numpy(queries).to(device)
    # the best so far, followed by the next block
    scores = torch.full((len(queries), count + block), -torch.inf, device=device)
    positions = torch.zeros((len(queries), count), dtype=torch.int64, device=device)
    start = 0
    for vectors in blocks:
        end = count + len(vectors)
        torch.mm(left, torch.from_numpy(vectors).to(device, torch.float32).T, out=scores[:, count:end])
        top = _find_top(scores[:, :end], count)
        positions = torch.where(top < count, positions.gather(1, top.clamp(max=count - 1)), top + (start - count))
        scores[:, :count] = scores.gather(1, top)
        start += len(vectors)
    return scores[:, :count].cpu().numpy(), positions.cpu().numpy()


def _find_top(scores: Any, count: int) -> Any:
    """Return the columns of the ``count`` largest scores of each row, in no order."""
    import torch

    if scores.device.type != "cpu":
        return scores.topk(count, sorted=False).indices
    parts = np.array_split(scores.numpy(), torch.get_num_threads())
    with ThreadPoolExecutor(len(parts)) as pool:  # NumPy is five times as fast as topk on a CPU
        tops = pool.map(lambda part: np.argpartition(part, -count, axis=1)[:, -count:], parts)
        return torch.from_numpy(np.concatenate(list(tops)))
