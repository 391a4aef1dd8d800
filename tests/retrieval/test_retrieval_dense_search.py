"""Exact dense search against literal loops over exact sums; on a CPU, and on a GPU where there is one."""

import os
import subprocess
import sys
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pan_scdg.retrieval.dense.nearest import ExactSearch, bound_error, count_steps
from pan_scdg.retrieval.dense.search import order_by_id, search_chunks

from pan_scdg.errors import UserError
from pan_scdg.retrieval.dense import nearest
from pan_scdg.retrieval.ranking import Ranked, Ranking

fuzzy = settings(max_examples=50, deadline=None)
devices = pytest.mark.parametrize("device", ["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
Vectors = npt.NDArray[np.float32]


def unit_vectors(rng: np.random.Generator, count: int, width: int = 8, distinct: int = 10_000) -> Vectors:
    """Random unit vectors, with doubles where fewer are distinct."""
    vectors = (
        rng.normal(size=(min(count, distinct), width))[rng.integers(min(count, distinct), size=count)]
        if count
        else rng.normal(size=(0, width))
    )
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def near_ties(rng: np.random.Generator, query: Vectors, count: int) -> npt.NDArray[np.float16]:
    """Vectors whose similarity with the query differs by about a step or not at all, their parts much larger.

    A number and its opposite are added where the query has two equal numbers: float32 products lose the order.
    """
    vectors = np.tile(query.astype(np.float16), (count, 1))
    width = len(query)
    large = rng.normal(size=(count, width // 4)).astype(np.float16)
    vectors[:, : width // 4] += large
    vectors[:, width // 4 : width // 2] -= large
    vectors[np.arange(count), rng.integers(width // 2, width, size=count)] += np.float16(2e-5)
    return vectors


def literal_kept(query, chunks, kept) -> dict[int, float]:
    similar = [
        round(round(fsum(float(a) * float(b) for a, b in zip(query, chunk)) / 1e-6) * 1e-6, 6) for chunk in chunks
    ]
    return {i: similar[i] for i in sorted(range(len(chunks)), key=lambda i: (-similar[i], i))[:kept]}


def literal_search(queries, chunks, owner, doc_ids, kept, depth) -> Ranking:
    """The rule in plain Python: keep, collapse by maximum, maximum over sentences, order."""
    best: dict[str, float] = {}
    for query in queries:
        for i, similar in literal_kept(query, chunks, kept).items():
            best[doc_ids[owner[i]]] = max(best.get(doc_ids[owner[i]], -9.0), similar)
    return [Ranked(*item) for item in sorted(best.items(), key=lambda item: (-item[1], item[0]))[:depth]]


def literal_comb_sum(queries, chunks, owner, doc_ids, kept, depth) -> Ranking:
    """Per sentence: keep, collapse by maximum, (s - min) / (max - min); then the sum."""
    parts: dict[str, list[float]] = {}
    for query in queries:
        best: dict[str, float] = {}
        for i, similar in literal_kept(query, chunks, kept).items():
            best[doc_ids[owner[i]]] = max(best.get(doc_ids[owner[i]], -9.0), similar)
        low, high = min(best.values()), max(best.values())
        for doc_id, similar in best.items():
            parts.setdefault(doc_id, []).append((similar - low) / (high - low) if high > low else 0.0)
    scores = {doc_id: fsum(values) for doc_id, values in parts.items()}
    return [Ranked(*item) for item in sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:depth]]


sizes = st.integers(1, 12)


def rank_by_maximum(queries: Vectors, chunks: Any, *place: Any) -> Ranking:
    """Search for one query."""
    return search_chunks([queries], ExactSearch(chunks), *place)[0]


def rank_by_sum(queries: Vectors, chunks: Any, *place: Any) -> Ranking:
    return search_chunks([queries], ExactSearch(chunks), *place, "combsum")[0]


def rank_documents(query: Vectors, vectors: Any, doc_ids: list[str], depth: int, device: str = "cpu") -> Ranking:
    """Search for one vector in one vector a document."""
    search, owner = ExactSearch(vectors, device=device), np.arange(len(doc_ids))
    return search_chunks([query[None, :]], search, owner, doc_ids, depth, depth, order=order_by_id(doc_ids))[0]


def set_plan(patch: pytest.MonkeyPatch, rows: int, block: int) -> None:
    """Let tiny data take several blocks and rows, and selections that must be cut."""
    patch.setattr(nearest, "plan_search", lambda *_: (rows, block))


@fuzzy
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 40), sizes, sizes, st.integers(1, 33))
def test_equals_a_literal_loop_whatever_the_block(seed: int, s: int, c: int, kept: int, depth: int, block: int) -> None:
    rng = np.random.default_rng(seed)
    queries, chunks = unit_vectors(rng, s), unit_vectors(rng, c, distinct=6)
    doc_ids = [f"d{i}" for i in rng.permutation(7)]
    owner = rng.integers(7, size=c)
    with pytest.MonkeyPatch.context() as patch:
        set_plan(patch, 3, block)
        found = rank_by_maximum(queries, chunks, owner, doc_ids, kept, depth)
    assert found == literal_search(queries, chunks, owner, doc_ids, kept, depth)
    assert found == rank_by_maximum(queries, chunks, owner, doc_ids, kept, depth)


@fuzzy
@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(2, 60), sizes, sizes, st.integers(1, 33))
def test_near_ties_that_float32_orders_wrongly(seed: int, s: int, c: int, kept: int, depth: int, block: int) -> None:
    rng = np.random.default_rng(seed)
    query = unit_vectors(rng, 1, 64)
    query[:, 16:32] = query[:, :16]  # equal numbers: see near_ties
    queries = np.tile(query, (s, 1))
    chunks = near_ties(rng, query[0], c)
    doc_ids, owner = [f"d{i}" for i in range(5)], rng.integers(5, size=c)
    with pytest.MonkeyPatch.context() as patch:
        set_plan(patch, 3, block)
        assert rank_by_maximum(queries, chunks, owner, doc_ids, kept, depth) == literal_search(
            queries, chunks, owner, doc_ids, kept, depth
        )
        assert rank_by_sum(queries, chunks, owner, doc_ids, kept, depth) == literal_comb_sum(
            queries, chunks, owner, doc_ids, kept, depth
        )
        ids = [f"d{i:02}" for i in rng.permutation(c)]
        assert rank_documents(query[0], chunks, ids, depth) == literal_search(query, chunks, range(c), ids, c, depth)


def test_float32_does_order_the_near_ties_wrongly() -> None:
    rng = np.random.default_rng(0)
    query = unit_vectors(rng, 1, 64)
    query[:, 16:32] = query[:, :16]
    chunks = near_ties(rng, query[0], 60)
    exact = count_steps(query[0], chunks, np.arange(60))
    products = chunks.astype(np.float32) @ query[0]
    assert len(set(exact.tolist())) > 10
    assert np.argsort(-products, kind="stable").tolist() != np.argsort(-exact, kind="stable").tolist()


@fuzzy
@given(st.integers(0, 10_000), st.integers(1, 30), st.integers(1, 40), st.integers(1, 33))
def test_one_to_one_equals_a_literal_sort(seed: int, n: int, depth: int, block: int) -> None:
    rng = np.random.default_rng(seed)
    query, documents = unit_vectors(rng, 1)[0], unit_vectors(rng, n, distinct=5)
    doc_ids = [f"d{i:02}" for i in rng.permutation(n)]
    with pytest.MonkeyPatch.context() as patch:
        set_plan(patch, 3, block)
        found = rank_documents(query, documents, doc_ids, depth)
    assert found == literal_search([query], documents, range(n), doc_ids, n, depth)


@fuzzy
@given(st.integers(0, 10_000), st.integers(1, 30), sizes, sizes)
def test_sentence_comb_sum_equals_a_literal_loop(seed: int, c: int, kept: int, depth: int) -> None:
    rng = np.random.default_rng(seed)
    queries, chunks = unit_vectors(rng, 3), unit_vectors(rng, c, distinct=9).astype(np.float16)
    doc_ids, owner = [f"d{i}" for i in range(7)], rng.integers(7, size=c)
    assert rank_by_sum(queries, chunks, owner, doc_ids, kept, depth) == literal_comb_sum(
        queries, chunks, owner, doc_ids, kept, depth
    )


def test_several_queries_are_searched_as_each_alone() -> None:
    rng = np.random.default_rng(3)
    queries = [unit_vectors(rng, count) for count in (2, 0, 5)]
    chunks, owner = unit_vectors(rng, 40), rng.integers(9, size=40)
    doc_ids = [f"d{i}" for i in range(9)]
    together = search_chunks(queries, ExactSearch(chunks), owner, doc_ids, 5, 4)
    assert together == [rank_by_maximum(query, chunks, owner, doc_ids, 5, 4) for query in queries]
    assert search_chunks([], ExactSearch(chunks), owner, doc_ids, 5, 4) == []


MEASURE = """
import resource, sys
import numpy as np
from pan_scdg.retrieval.dense.nearest import ExactSearch
from pan_scdg.retrieval.dense.search import search_chunks
path, dtype, memory = sys.argv[1], sys.argv[2], int(sys.argv[3])
chunks = np.memmap(path, dtype, "c").reshape(-1, 32)
queries, owner = chunks[:600].astype(np.float32), np.arange(len(chunks)) // 4
ids = [f"d{i}" for i in range(len(chunks) // 4)]
search_chunks([queries[:2]], ExactSearch(chunks[:200]), owner[:200], ids, 3, 5)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = search_chunks([queries], ExactSearch(chunks, memory), owner, ids, 300, 500)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, hash(tuple(found[0])))
"""


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float16", pytest.param("float32", marks=pytest.mark.long)])
def test_the_memory_bound_is_kept_and_changes_nothing(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "vectors"
    unit_vectors(np.random.default_rng(5), 20_000, 32, distinct=5000).astype(dtype).tofile(path)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONHASHSEED": "0"}
    found = {}
    for memory in (8 << 20, 64 << 20, 1 << 30):
        words = [sys.executable, "-c", MEASURE, str(path), dtype, str(memory)]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
        found[memory] = [int(word) for word in done.stdout.split()]
    assert len({digest for _, digest in found.values()}) == 1
    result = 600 * 300 * 3 * 8 + (5 << 20)  # what was found for each query vector, and the vectors themselves
    for memory in (8 << 20, 64 << 20):
        assert found[memory][0] * 1024 <= memory + result, found


def test_too_little_memory_is_the_users_error() -> None:
    vectors = np.eye(4, dtype=np.float32)
    with pytest.raises(UserError, match="^1000 bytes of memory are too few .*; .*--search-memory"):
        list(ExactSearch(vectors, 1000).find(vectors, 2))


@devices
def test_the_error_bound_holds_and_is_small(device: str) -> None:
    rng = np.random.default_rng(1)
    vectors, queries = unit_vectors(rng, 200, 2500), unit_vectors(rng, 20, 2500)
    found = (torch.from_numpy(vectors).to(device) @ torch.from_numpy(queries).to(device).T).cpu().numpy()
    exact = np.array([[fsum((v.astype(float) * q.astype(float)).tolist()) for q in queries] for v in vectors])
    assert np.abs(found - exact).max() < bound_error(2500) < 2e-4


def test_exactly_half_a_step() -> None:
    # 1/128 is 7812.5 steps, which rounds to the even 7812; a little less and a little more do not
    query = np.array([1 / 128, 2.0**-60, 1], np.float32)
    vectors = np.array([[1, 0, 0], [1, 1, 0], [1, -1, 0], [3, 0, 0]], np.float32)
    assert count_steps(query, vectors, np.arange(4)).tolist() == [
        round(fsum(row) / 1e-6) for row in (query * vectors).tolist()
    ]


def test_by_hand() -> None:
    queries = np.array([[1, 0], [0, 1]], np.float32)
    chunks = np.array([[0.6, 0.8], [1, 0], [0.8, 0.6], [0, -1]], np.float32)
    owner = np.array([0, 1, 0, 2])
    # With one chunk kept: sentence 1 keeps chunk 1 (1.0), sentence 2 keeps chunk 0 (0.8); document c has none.
    assert rank_by_maximum(queries, chunks, owner, ["a", "b", "c"], 1, 9) == [("b", 1.0), ("a", 0.8)]
    assert rank_by_maximum(queries, chunks, owner, ["a", "b", "c"], 9, 9) == [("b", 1.0), ("a", 0.8), ("c", 0.0)]
    assert rank_by_maximum(queries, chunks, owner, ["a", "b", "c"], 9, 1) == [("b", 1.0)]


def test_equal_chunks_are_kept_in_their_order_and_documents_by_id() -> None:
    query, chunks = np.ones((1, 1), np.float32), np.ones((3, 1), np.float32)
    assert rank_by_maximum(query, chunks, np.array([2, 1, 0]), ["a", "b", "c"], 2, 9) == [("b", 1.0), ("c", 1.0)]
    assert rank_documents(query[0], chunks, ["c", "b", "a"], 2) == [("a", 1.0), ("b", 1.0)]


def test_half_precision_vectors_and_empty_sides() -> None:
    query = np.array([[0.6, 0.8]], np.float32)
    found = rank_by_maximum(query, np.array([[0.5, 0.5]], np.float16), np.array([0]), ["a"], 1, 1)
    assert found == [("a", 0.7)]
    none = np.empty((0, 2), np.float32)
    assert rank_by_maximum(query, none, np.empty(0, np.int64), ["a"], 5, 5) == []
    assert rank_by_maximum(none, query, np.array([0]), ["a"], 5, 5) == []
    assert rank_documents(query[0], none, [], 5) == []


def test_misuse_is_refused() -> None:
    query, two = np.ones((1, 2), np.float32), np.ones((2, 2), np.float32)
    with pytest.raises(ValueError, match="owners"):
        rank_by_maximum(query, two, np.array([0]), ["a"], 1, 1)
    with pytest.raises(ValueError, match="do not fit"):
        rank_by_maximum(np.ones((1, 3)), two, np.array([0, 0]), ["a"], 1, 1)
    with pytest.raises(ValueError, match="not finite"):
        rank_documents(np.array([np.nan, 1.0]), two, ["a", "b"], 1)
    with pytest.raises(ValueError, match="not finite"):
        rank_by_maximum(query, two * np.inf, np.array([0, 0]), ["a"], 1, 1)
    with pytest.raises(ValueError, match="float16 or float32"):
        rank_by_maximum(query, two.astype(np.float64), np.array([0, 0]), ["a"], 1, 1)
    with pytest.raises(ValueError, match="owners"):
        rank_documents(query[0], two, ["a"], 1)
    with pytest.raises(ValueError, match="at least 1"):
        rank_by_maximum(query, two, np.array([0, 0]), ["a"], 0, 1)


@devices
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.integers(0, 4), max_size=4), st.integers(0, 60), sizes, sizes, sizes, sizes)
def test_similarities_between_two_steps(
    device: str, seed: int, units: list[int], c: int, kept: int, depth: int, block: int, rows: int
) -> None:
    rng = np.random.default_rng(seed)
    # numbers with few digits: many similarities are equal, and many lie exactly between two steps
    queries = [rng.integers(-3, 4, size=(count, 5)).astype(np.float32) / 128 for count in units]
    chunks = (rng.integers(-3, 4, size=(c, 5)) / 4).astype(np.float16)
    doc_ids, owner = [f"d{i}" for i in rng.permutation(7)], rng.integers(7, size=c)
    with pytest.MonkeyPatch.context() as patch:
        set_plan(patch, rows, block)
        found = search_chunks(queries, ExactSearch(chunks, device=device), owner, doc_ids, kept, depth)
    assert found == [literal_search(query, chunks, owner, doc_ids, kept, depth) for query in queries]


@devices
def test_more_doubles_than_are_kept(device: str) -> None:
    rng = np.random.default_rng(2)
    queries, chunks = unit_vectors(rng, 3, 16), np.tile(unit_vectors(rng, 4, 16), (50, 1))
    owner, doc_ids = rng.integers(30, size=200), [f"d{i}" for i in range(30)]
    with pytest.MonkeyPatch.context() as patch:
        set_plan(patch, 2, 9)
        found = search_chunks([queries], ExactSearch(chunks, device=device), owner, doc_ids, 6, 20)[0]
        ids = [f"d{-i:03}" for i in range(40)]
        alone = [rank_documents(query, chunks[:40], ids, 7, device) for query in queries]
    assert found == literal_search(queries, chunks, owner, doc_ids, 6, 20)
    assert alone == [literal_search([query], chunks[:40], range(40), ids, 40, 7) for query in queries]
