"""Exact dense search against literal loops over exact sums."""

import tracemalloc
from math import fsum
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.errors import UserError
from pan_scdg.retrieval.dense.search import (
    best_vectors,
    max_per_document,
    one_to_one,
    ones_to_ones,
    sentence_comb_sum,
    sentence_to_chunk,
    sentences_to_chunks,
)
from pan_scdg.retrieval.dense.similarity import as_float32, error_bound, exact_steps, float32_products
from pan_scdg.retrieval.ranking import Ranked, Ranking

fuzzy = settings(max_examples=50, deadline=None)
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


def block_of(patch: pytest.MonkeyPatch, block: int, width: int) -> None:
    """Blocks of so few vectors that tiny data takes several, and selections that must be cut."""
    patch.setattr(best_vectors, "LEAST_BLOCK", 1)
    patch.setattr(best_vectors, "BLOCK_BYTES", 4 * width * block)


@fuzzy
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 40), sizes, sizes, st.integers(1, 33))
def test_equals_a_literal_loop_whatever_the_block(seed: int, s: int, c: int, kept: int, depth: int, block: int) -> None:
    rng = np.random.default_rng(seed)
    queries, chunks = unit_vectors(rng, s), unit_vectors(rng, c, distinct=6)
    doc_ids = [f"d{i}" for i in rng.permutation(7)]
    owner = rng.integers(7, size=c)
    with pytest.MonkeyPatch.context() as patch:
        block_of(patch, block, 8)
        found = sentence_to_chunk(queries, chunks, owner, doc_ids, kept, depth)
    assert found == literal_search(queries, chunks, owner, doc_ids, kept, depth)
    assert found == sentence_to_chunk(queries, chunks, owner, doc_ids, kept, depth)


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
        block_of(patch, block, 64)
        assert sentence_to_chunk(queries, chunks, owner, doc_ids, kept, depth) == literal_search(
            queries, chunks, owner, doc_ids, kept, depth
        )
        assert sentence_comb_sum(queries, chunks, owner, doc_ids, kept, depth) == literal_comb_sum(
            queries, chunks, owner, doc_ids, kept, depth
        )
        ids = [f"d{i:02}" for i in rng.permutation(c)]
        assert one_to_one(query[0], chunks, ids, depth) == literal_search(query, chunks, range(c), ids, c, depth)


def test_float32_does_order_the_near_ties_wrongly() -> None:
    rng = np.random.default_rng(0)
    query = unit_vectors(rng, 1, 64)
    query[:, 16:32] = query[:, :16]
    chunks = near_ties(rng, query[0], 60)
    exact = exact_steps(query[0], chunks)
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
        block_of(patch, block, 8)
        found = one_to_one(query, documents, doc_ids, depth)
    assert found == literal_search([query], documents, range(n), doc_ids, n, depth)


@fuzzy
@given(st.integers(0, 10_000), st.integers(1, 30), sizes, sizes)
def test_sentence_comb_sum_equals_a_literal_loop(seed: int, c: int, kept: int, depth: int) -> None:
    rng = np.random.default_rng(seed)
    queries, chunks = unit_vectors(rng, 3), unit_vectors(rng, c, distinct=9).astype(np.float16)
    doc_ids, owner = [f"d{i}" for i in range(7)], rng.integers(7, size=c)
    assert sentence_comb_sum(queries, chunks, owner, doc_ids, kept, depth) == literal_comb_sum(
        queries, chunks, owner, doc_ids, kept, depth
    )


def test_several_queries_are_searched_as_each_alone() -> None:
    rng = np.random.default_rng(3)
    queries = [unit_vectors(rng, count) for count in (2, 0, 5)]
    chunks, owner = unit_vectors(rng, 40), rng.integers(9, size=40)
    doc_ids = [f"d{i}" for i in range(9)]
    together = sentences_to_chunks(queries, chunks, owner, doc_ids, 5, 4)
    assert together == [sentence_to_chunk(query, chunks, owner, doc_ids, 5, 4) for query in queries]
    assert sentences_to_chunks([], chunks, owner, doc_ids, 5, 4) == []
    ids = [f"d{i}" for i in range(40)]
    assert ones_to_ones(queries[2], chunks, ids, 7) == [one_to_one(query, chunks, ids, 7) for query in queries[2]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_memory_bound_is_kept_and_changes_nothing(
    tmp_path: Path, dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    # to count threads it lists the loaded libraries, and what that takes depends on the tests before this one
    monkeypatch.setattr(best_vectors, "blas_threads", lambda: 1)
    rng = np.random.default_rng(5)
    path, count, width = tmp_path / "vectors", 20_000, 32
    unit_vectors(rng, count, width, distinct=5000).astype(dtype).tofile(path)
    chunks = np.memmap(path, dtype, "r", shape=(count, width))
    queries, owner = unit_vectors(rng, 60, width), np.arange(count) // 4
    doc_ids = [f"d{i}" for i in range(count // 4)]
    list(best_vectors.best_vectors(queries, chunks, 300))  # what is imported and cached on the way counts for no search
    found, peaks = [], []
    for memory in (1 << 20, 4 << 20, 1 << 30):
        tracemalloc.start()
        found.append(list(best_vectors.best_vectors(queries, chunks, 300, memory)))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    rankings = [sentence_to_chunk(queries, chunks, owner, doc_ids, 300, 500, memory) for memory in (1 << 20, 1 << 30)]
    assert rankings[0] == rankings[1]
    for query, one, other in zip(queries, found[0], found[-1]):
        kept = [sorted(best_vectors.decided(query, chunks, best).positions) for best in (one, other)]
        assert kept[0] == kept[1]
    result = sum(best.positions.nbytes * 3 for best in found[0])
    assert peaks[0] <= (1 << 20) + result
    assert peaks[1] <= (4 << 20) + result


def test_too_little_memory_is_the_users_error() -> None:
    vectors = np.eye(4, dtype=np.float32)
    with pytest.raises(UserError, match="^1000 bytes of memory are too few .*; .*--search-memory"):
        list(best_vectors.best_vectors(vectors, vectors, 2, memory=1000))


def test_the_error_bound_holds_and_is_small() -> None:
    rng = np.random.default_rng(1)
    vectors, queries = unit_vectors(rng, 200, 2500), unit_vectors(rng, 20, 2500)
    out, part = np.empty((200, 20), np.float32), np.empty((200, 20), np.float32)
    float32_products(vectors, queries, out, part)
    exact = np.array([[fsum((v.astype(float) * q.astype(float)).tolist()) for q in queries] for v in vectors])
    assert np.abs(out - exact).max() < error_bound(2500) < 2e-4


def test_every_half_precision_number_is_widened_exactly() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = bits[np.isfinite(bits)].reshape(-1, 1)
    np.testing.assert_array_equal(as_float32(finite), finite.astype(np.float32))


def test_exactly_half_a_step() -> None:
    # 1/128 is 7812.5 steps, which rounds to the even 7812; a little less and a little more do not
    query = np.array([1 / 128, 2.0**-60, 1], np.float32)
    vectors = np.array([[1, 0, 0], [1, 1, 0], [1, -1, 0], [3, 0, 0]], np.float32)
    assert exact_steps(query, vectors).tolist() == [round(fsum(row) / 1e-6) for row in (query * vectors).tolist()]


def test_by_hand() -> None:
    queries = np.array([[1, 0], [0, 1]], np.float32)
    chunks = np.array([[0.6, 0.8], [1, 0], [0.8, 0.6], [0, -1]], np.float32)
    owner = np.array([0, 1, 0, 2])
    # With one chunk kept: sentence 1 keeps chunk 1 (1.0), sentence 2 keeps chunk 0 (0.8); document c has none.
    assert sentence_to_chunk(queries, chunks, owner, ["a", "b", "c"], 1, 9) == [("b", 1.0), ("a", 0.8)]
    assert sentence_to_chunk(queries, chunks, owner, ["a", "b", "c"], 9, 9) == [("b", 1.0), ("a", 0.8), ("c", 0.0)]
    assert sentence_to_chunk(queries, chunks, owner, ["a", "b", "c"], 9, 1) == [("b", 1.0)]


def test_equal_chunks_are_kept_in_their_order_and_documents_by_id() -> None:
    query, chunks = np.ones((1, 1), np.float32), np.ones((3, 1), np.float32)
    assert sentence_to_chunk(query, chunks, np.array([2, 1, 0]), ["a", "b", "c"], 2, 9) == [("b", 1.0), ("c", 1.0)]
    assert one_to_one(query[0], chunks, ["c", "b", "a"], 2) == [("a", 1.0), ("b", 1.0)]


def test_half_precision_vectors_and_empty_sides() -> None:
    query = np.array([[0.6, 0.8]], np.float32)
    found = sentence_to_chunk(query, np.array([[0.5, 0.5]], np.float16), np.array([0]), ["a"], 1, 1)
    assert found == [("a", 0.7)]
    none = np.empty((0, 2), np.float32)
    assert sentence_to_chunk(query, none, np.empty(0, np.int64), ["a"], 5, 5) == []
    assert sentence_to_chunk(none, query, np.array([0]), ["a"], 5, 5) == []
    assert one_to_one(query[0], none, [], 5) == []


def test_max_per_document() -> None:
    best = max_per_document(np.array([3, -5, 7]), np.array([0, 2, 0]), 3)
    assert best[0] == 7
    assert best[2] == -5
    assert best[1] < -1e15


def test_misuse_is_refused() -> None:
    query, two = np.ones((1, 2), np.float32), np.ones((2, 2), np.float32)
    with pytest.raises(ValueError, match="owners"):
        sentence_to_chunk(query, two, np.array([0]), ["a"], 1, 1)
    with pytest.raises(ValueError, match="do not fit"):
        sentence_to_chunk(np.ones((1, 3)), two, np.array([0, 0]), ["a"], 1, 1)
    with pytest.raises(ValueError, match="not finite"):
        one_to_one(np.array([np.nan, 1.0]), two, ["a", "b"], 1)
    with pytest.raises(ValueError, match="document ids"):
        one_to_one(query[0], two, ["a"], 1)
    with pytest.raises(ValueError, match="at least 1"):
        sentence_to_chunk(query, two, np.array([0, 0]), ["a"], 0, 1)
