"""Dense search against literal loops; vectors on disk; on a CPU, and on a GPU where there is one."""

from collections.abc import Iterable, Iterator, Sequence
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.progress import Progress
from pan_scdg.records import Document
from pan_scdg.retrieval import dense
from pan_scdg.retrieval.dense import DOCUMENTS, VECTORS, DenseSearch, EncodeTask, Vectors, build_vectors
from pan_scdg.retrieval.dense import rank_documents as rank
from pan_scdg.retrieval.ranking import Ranked, Ranking
from pan_scdg.retrieval.units import cut_chunks, extract_title_abstract
from pan_scdg.settings import DenseSettings

fuzzy = settings(max_examples=60, deadline=None)
devices = pytest.mark.parametrize("device", ["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
Float32s = npt.NDArray[np.float32]
SETTINGS = DenseSettings(model="m", chunk_words=4, chunk_stride=3, chunks=3)


class Stored:
    """Vectors in memory in the place of `Vectors`."""

    def __init__(self, vectors: Any, owner: Any, doc_ids: list[str]) -> None:
        self.vectors, self.owner, self.doc_ids = vectors, np.asarray(owner, np.int64), doc_ids

    def read_blocks(self, rows: int) -> Iterator[Any]:
        for start in range(0, len(self.vectors), rows):
            yield self.vectors[start : start + rows]


def rank_documents(queries: Sequence[Float32s], stored: Stored, *more: Any, **options: Any) -> list[Ranking]:
    return rank(queries, stored, *more, **options)  # type: ignore[arg-type]


def similar(query: Float32s, vector: Any) -> float:
    """The exact inner product, rounded."""
    return round(fsum(float(a) * float(b) for a, b in zip(query, vector)), 6) + 0.0


def literal_best(query: Float32s, stored: Stored, kept: int) -> dict[str, float]:
    """The kept chunks, and the largest similarity of each document."""
    ids = [stored.doc_ids[i] for i in stored.owner]
    scores = [similar(query, vector) for vector in stored.vectors]
    best: dict[str, float] = {}
    for i in sorted(range(len(scores)), key=lambda i: (-scores[i], ids[i], i))[:kept]:
        best[ids[i]] = max(best.get(ids[i], -9.0), scores[i])
    return best


def literal_rank(queries: Float32s, stored: Stored, kept: int, depth: int, fusion: str) -> Ranking:
    total: dict[str, list[float]] = {}
    for query in queries:
        best = literal_best(query, stored, kept)
        low, high = min(best.values()), max(best.values())
        for doc_id, score in best.items():
            scaled = (score - low) / (high - low) if high > low else 0.0
            total.setdefault(doc_id, []).append(score if fusion == "max" else scaled)
    scores = {doc_id: max(values) if fusion == "max" else fsum(values) for doc_id, values in total.items()}
    return [Ranked(*item) for item in sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:depth]]


@devices
@pytest.mark.parametrize("fusion", ["max", "combsum"])
@fuzzy
@given(
    seed=st.integers(0, 10_000),
    units=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    count=st.integers(1, 60),
    kept=st.integers(1, 12),
    depth=st.integers(1, 12),
    block=st.integers(1, 33),
)
def test_equals_a_literal_loop(
    device: str, fusion: Any, seed: int, units: list[int], count: int, kept: int, depth: int, block: int
) -> None:
    rng = np.random.default_rng(seed)
    # numbers with few digits: products are exact, and many are equal
    queries = [rng.integers(-3, 4, size=(n, 8)).astype(np.float32) / 128 for n in units]
    vectors = (rng.integers(-3, 4, size=(count, 8)) / 4).astype(np.float16)
    stored = Stored(vectors, rng.integers(7, size=count), [f"d{i}" for i in rng.permutation(7)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense, "BLOCK_BYTES", 32 * block)
        patch.setattr(dense, "MEMORY_BYTES", 1 << 12)
        rankings = rank_documents(queries, stored, kept, depth, fusion, device)
    for query, ranking in zip(queries, rankings, strict=True):
        expected = literal_rank(query, stored, kept, depth, fusion)
        assert [r.doc_id for r in ranking] == [r.doc_id for r in expected]
        assert [r.score for r in ranking] == pytest.approx([r.score for r in expected], abs=1e-9)


def test_by_hand() -> None:
    queries = [np.array([[1, 0], [0, 1]], np.float32)]
    stored = Stored(np.array([[0.6, 0.8], [1, 0], [0.8, 0.6], [0, -1]], np.float16), [0, 1, 0, 2], ["a", "b", "c"])
    # With one chunk kept: sentence 1 keeps chunk 1 (1.0), sentence 2 keeps chunk 0 (0.8); document c has none.
    assert [[d for d, _ in r] for r in rank_documents(queries, stored, 1)] == [["b", "a"]]
    assert [[d for d, _ in r] for r in rank_documents(queries, stored, 9)] == [["b", "a", "c"]]
    assert [[d for d, _ in r] for r in rank_documents(queries, stored, 9, 1)] == [["b"]]


def test_equal_documents_go_by_id() -> None:
    rng = np.random.default_rng(2)
    vector = rng.normal(size=384)
    copies = np.tile((vector / np.linalg.norm(vector)).astype(np.float16), (200, 1))
    ids = [f"d{i:03}" for i in rng.permutation(200)]
    (ranking,) = rank_documents([copies[:1].astype(np.float32)], Stored(copies, range(200), ids), 150, 10)
    assert [r.doc_id for r in ranking] == sorted(ids)[:10]
    assert len({r.score for r in ranking}) == 1


# -- vectors on disk

DOCUMENTS_OF = [Document(f"é{i}\n", " ".join(f"w{i}x{j}" for j in range(i % 11))) for i in range(150)]


def encode(tasks: Iterable[EncodeTask]) -> Iterator[Float32s]:
    """Vectors that tell the text and the number of texts that were encoded together."""
    for texts, _ in tasks:
        yield np.array([[len(text), sum(map(ord, text)) % 97, len(texts)] for text in texts], np.float32)


def build(folder: Path, kind: Any = "chunks", stop_after: int | None = None) -> int:
    """Build the vectors, or encode only so many groups; return the number of groups that were encoded."""
    groups = 0

    def count(tasks: Iterable[EncodeTask], _: Progress) -> Iterator[Float32s]:
        nonlocal groups
        for vectors in encode(tasks):
            if groups == stop_after:
                raise KeyboardInterrupt
            groups += 1
            yield vectors

    build_vectors(iter(DOCUMENTS_OF), folder, kind, SETTINGS, count, Progress("", None))
    return groups


def read(folder: Path) -> tuple[bytes, bytes]:
    return (folder / VECTORS).read_bytes(), (folder / DOCUMENTS).read_bytes()


@pytest.mark.parametrize("kind", ["chunks", "abstracts"])
def test_what_is_read_back_are_the_vectors_of_the_texts(tmp_path: Path, kind: Any) -> None:
    assert build(tmp_path / "v", kind) == 3
    vectors = Vectors(tmp_path / "v")
    assert vectors.doc_ids == [document.doc_id for document in DOCUMENTS_OF]
    cut = [
        [extract_title_abstract(d.text)] if kind == "abstracts" else cut_chunks(d.text, 4, 3, 3) or [""]
        for d in DOCUMENTS_OF
    ]
    assert vectors.owner.tolist() == [i for i, texts in enumerate(cut) for _ in texts]
    rows = np.concatenate(list(vectors.read_blocks(7)))
    assert rows[:, 0].tolist() == [len(text) for texts in cut for text in texts]


@pytest.mark.parametrize("groups", [0, 1, 2])
@pytest.mark.parametrize("cut", [0, 1, 30])
@pytest.mark.parametrize("name", [VECTORS, DOCUMENTS])
def test_a_build_that_was_stopped_continues_after_the_last_whole_group(
    tmp_path: Path, groups: int, cut: int, name: str
) -> None:
    build(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "v", stop_after=groups)
    path = tmp_path / "v" / name
    path.write_bytes(path.read_bytes()[: max(0, path.stat().st_size - cut)])
    encoded = build(tmp_path / "v")
    assert read(tmp_path / "v") == read(tmp_path / "whole")
    assert encoded == 3 - max(0, groups - (cut > 0))


class FewTokens:
    """An encoder that records what it is asked for."""

    device, max_tokens = "cpu", 256

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], int | None, str]] = []

    def encode(self, texts: list[str], tokens: int | None, prompt: str) -> Float32s:
        self.calls.append((texts, tokens, prompt))
        return np.ones((len(texts), 3), np.float32)


def test_each_route_encodes_its_units(tmp_path: Path) -> None:
    for kind in ("chunks", "abstracts"):
        build(tmp_path / kind, kind)
    encoder, chosen = FewTokens(), SETTINGS.model_copy(update={"query_prompt": "q: ", "query_tokens": 64})
    search = DenseSearch(tmp_path, chosen, encoder)  # type: ignore[arg-type]
    text = "# A title\n\nOne sentence here. Another one there."
    for route in ("dense-sentence", "dense-full", "abstract"):
        (ranking,) = search.search(route, [text])  # type: ignore[arg-type]
        assert len(ranking) == 150
    sentences, full, abstract = encoder.calls
    assert sentences == (["# A title", "One sentence here.", "Another one there."], 64, "q: ")
    assert full == ([" ".join(text.split())], 256, "q: ")
    assert abstract == ([extract_title_abstract(text)], 64, "q: ")
    with pytest.raises(ValueError, match="no dense route"):
        search.search("bm25-full", [text])
