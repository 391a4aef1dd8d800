"""Several shards are searched as one index of all documents, to the last bit, and inverted lists find nearly all."""

import random
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from pan_scdg.retrieval.bm25.impact import ImpactIndex
from pan_scdg.retrieval.bm25.impact_build import build_index
from pan_scdg.retrieval.dense.ivf import LISTS, IvfIndex, IvfSearch, build_ivf
from pan_scdg.retrieval.dense.nearest import ExactSearch, Stacked
from pan_scdg.retrieval.dense.search import order_by_id, search_chunks

from pan_scdg.errors import UserError
from pan_scdg.profile import Bm25Settings

WORDS = [f"w{a}{b}" for a in "abcdfgkm" for b in range(6)]
WEIGHTS = [1 / (rank + 1) for rank in range(len(WORDS))]


class Doc(NamedTuple):
    doc_id: str
    text: str


def draw_documents(count: int, rng: random.Random) -> list[Doc]:
    """Return documents with ids in no order, some texts twice."""
    texts = [" ".join(rng.choices(WORDS, WEIGHTS, k=rng.randint(0, 40))) for _ in range(count)]
    texts[1::5] = texts[: len(texts[1::5])]
    return [Doc(f"doc/{i * 7919 % 100_003}", text) for i, text in enumerate(texts)]


@pytest.mark.parametrize("cuts", [(40,), (0, 1), (13, 14, 90), (100, 100, 140, 160)])
def test_bm25_of_shards_is_bm25_of_all(cuts: tuple[int, ...], tmp_path: Path) -> None:
    rng = random.Random(len(cuts))
    documents, settings = draw_documents(160, rng), Bm25Settings(engine="impact", depth=25, terms=5, full_terms=9)
    build_index(documents, tmp_path / "all", frozenset({"the"}))
    bounds = [0, *cuts, len(documents)]
    for number, (begin, end) in enumerate(zip(bounds, bounds[1:])):
        build_index(documents[begin:end], tmp_path / str(number), frozenset({"the"}))
    added = [tmp_path / str(number) for number in range(1, len(bounds) - 1)]
    with ImpactIndex(tmp_path / "all", settings) as one, ImpactIndex(tmp_path / "0", settings, added) as shards:
        for _ in range(10):
            query = " ".join(" ".join(rng.choices(WORDS, k=6)).capitalize() + "." for _ in range(4))
            assert shards.search_full(query) == one.search_full(query)
            assert shards.search_sentences(query) == one.search_sentences(query)


def test_shards_with_the_same_document_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        build_index([Doc("same", "wa1 wb2")], tmp_path / name, frozenset())
    with pytest.raises(UserError, match="same id"):
        ImpactIndex(tmp_path / "one", Bm25Settings(engine="impact"), [tmp_path / "two"])


def draw_vectors(count: int, width: int, seed: int) -> np.ndarray:
    """Return unit vectors around a few centres, some of them equal."""
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((50, width))[rng.integers(50, size=count)] + 0.4 * rng.standard_normal((count, width))
    vectors[1::9] = vectors[: len(vectors[1::9])]
    unit: np.ndarray = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)
    return unit


@pytest.mark.parametrize("cuts", [(100,), (1, 2, 250)])
def test_dense_search_in_shards_is_the_search_in_all(cuts: tuple[int, ...]) -> None:
    vectors, ids = draw_vectors(300, 16, 1), [f"d{i * 7 % 300:03}" for i in range(300)]
    stacked, whole = ExactSearch(Stacked(np.split(vectors, cuts))), ExactSearch(vectors)
    owner = np.arange(300) // 3
    queries = [draw_vectors(5, 16, seed).astype(np.float32) for seed in (2, 3)]
    for fusion in ("max", "combsum"):
        place = owner, ids[:100], 20, 15, fusion
        assert search_chunks(queries, stacked, *place) == search_chunks(queries, whole, *place)
    alone, place = list(queries[0][:, None]), (np.arange(300), ids, 20, 20, "max", order_by_id(ids))
    assert search_chunks(alone, stacked, *place) == search_chunks(alone, whole, *place)


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> tuple[np.ndarray, Path]:
    """Return vectors and the folder of their inverted lists."""
    pytest.importorskip("faiss")
    vectors, folder = draw_vectors(20_000, 32, 4), tmp_path_factory.mktemp("ivf") / "lists"
    build_ivf(vectors, folder, 100)
    return vectors, folder


def test_inverted_lists_find_nearly_what_an_exact_search_finds(lists: tuple[np.ndarray, Path]) -> None:
    vectors, folder = lists
    queries = draw_vectors(30, 32, 5).astype(np.float32)
    approximate = IvfSearch(vectors, [IvfIndex(folder, *vectors.shape, probes=30)]).find(queries, 20)
    shared = []
    for near, query, best in zip(approximate, queries, ExactSearch(vectors).find(queries, 20), strict=True):
        products = vectors[near.positions].astype(float) @ query.astype(float)
        assert near.scores == pytest.approx(products, abs=1e-6)
        top = best.positions[np.argsort(-best.scores)][:20]
        shared.append(len(set(near.positions) & set(top)) / 20)
    assert np.mean(shared) > 0.95


def test_inverted_lists_are_the_same_bytes_again(lists: tuple[np.ndarray, Path], tmp_path: Path) -> None:
    vectors, folder = lists
    build_ivf(vectors, tmp_path / "again", 100)
    for path in folder.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


def test_changed_lists_are_refused(lists: tuple[np.ndarray, Path], tmp_path: Path) -> None:
    vectors, folder = lists
    build_ivf(vectors[:500], tmp_path / "small", 5)
    with (tmp_path / "small" / LISTS).open("r+b") as file:
        file.seek(40)
        file.write(b"\xff" * 8)
    with pytest.raises(UserError):
        IvfIndex(tmp_path / "small", 500, 32)
    with pytest.raises(UserError, match="damaged"):
        IvfIndex(folder, 19_999, 32)
