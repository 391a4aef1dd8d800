"""Exact dense search against a literal loop."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.retrieval.dense import max_per_document, one_to_one, sentence_to_chunk
from pan_scdg.retrieval.ranking import Ranked, Ranking

fuzzy = settings(max_examples=50, deadline=None)


def unit_vectors(
    rng: np.random.Generator, count: int, width: int = 8, distinct: int = 10_000
) -> npt.NDArray[np.float32]:
    """Random unit vectors, with doubles where fewer are distinct."""
    vectors = (
        rng.normal(size=(min(count, distinct), width))[rng.integers(min(count, distinct), size=count)]
        if count
        else rng.normal(size=(0, width))
    )
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def literal_search(queries, chunks, owner, doc_ids, kept, depth) -> Ranking:
    """The rule in plain Python: keep, collapse by maximum, maximum over sentences, order."""
    best: dict[str, float] = {}
    for query in queries:
        similar = [round(sum(float(a) * float(b) for a, b in zip(query, chunk)), 6) for chunk in chunks]
        for i in sorted(range(len(chunks)), key=lambda i: (-similar[i], i))[:kept]:
            doc_id = doc_ids[owner[i]]
            best[doc_id] = max(best.get(doc_id, -9.0), similar[i])
    return [Ranked(*item) for item in sorted(best.items(), key=lambda item: (-item[1], item[0]))[:depth]]


@fuzzy
@given(
    st.integers(0, 10_000),
    st.integers(1, 4),
    st.integers(1, 30),
    st.integers(1, 12),
    st.integers(1, 8),
    st.integers(1, 33),
)
def test_equals_a_literal_loop_whatever_the_block(seed: int, s: int, c: int, kept: int, depth: int, block: int) -> None:
    rng = np.random.default_rng(seed)
    queries, chunks = unit_vectors(rng, s), unit_vectors(rng, c, distinct=6)
    doc_ids = [f"d{i}" for i in rng.permutation(7)]
    owner = rng.integers(7, size=c)
    found = sentence_to_chunk(queries, chunks, owner, doc_ids, kept, depth, block)
    assert found == literal_search(queries, chunks, owner, doc_ids, kept, depth)
    assert found == sentence_to_chunk(queries, chunks, owner, doc_ids, kept, depth)


@fuzzy
@given(st.integers(0, 10_000), st.integers(1, 30), st.integers(1, 40), st.integers(1, 33))
def test_one_to_one_equals_a_literal_sort(seed: int, n: int, depth: int, block: int) -> None:
    rng = np.random.default_rng(seed)
    query, documents = unit_vectors(rng, 1)[0], unit_vectors(rng, n, distinct=5)
    doc_ids = [f"d{i:02}" for i in rng.permutation(n)]
    found = one_to_one(query, documents, doc_ids, depth, block)
    assert found == literal_search([query], documents, range(n), doc_ids, n, depth)


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
