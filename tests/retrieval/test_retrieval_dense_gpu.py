"""Dense search with torch gives the rankings of NumPy's; on a CPU, and on a GPU where there is one."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.errors import UserError
from pan_scdg.retrieval.dense import search as dense
from pan_scdg.retrieval.dense import search_gpu as dense_gpu

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
sizes = st.integers(1, 12)


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.integers(0, 4), max_size=4), st.integers(0, 60), sizes, sizes, sizes, sizes)
def test_equals_the_search_with_numpy(
    device: str, seed: int, sentences: list[int], c: int, kept: int, depth: int, block: int, rows: int
) -> None:
    rng = np.random.default_rng(seed)
    # Numbers with few digits: many similarities are equal, and many lie exactly between two steps.
    queries = [rng.integers(-3, 4, size=(count, 5)).astype(np.float32) / 128 for count in sentences]
    chunks = (rng.integers(-3, 4, size=(c, 5)) / 4).astype(np.float16)
    doc_ids, owner = [f"d{i}" for i in rng.permutation(7)], rng.integers(7, size=c)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense_gpu, "_plan", lambda *_: (rows, block))
        found = dense_gpu.sentences_to_chunks(queries, chunks, owner, doc_ids, kept, depth, device)
    assert found == dense.sentences_to_chunks(queries, chunks, owner, doc_ids, kept, depth)


@pytest.mark.parametrize("device", DEVICES)
def test_random_vectors_within_a_little_memory(device: str) -> None:
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(5040, 64)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    queries, chunks = [vectors[:30], vectors[30:40]], vectors[40:].astype(np.float16)
    doc_ids, owner = [f"d{i}" for i in range(1250)], np.arange(5000) // 4
    found = dense_gpu.sentences_to_chunks(queries, chunks, owner, doc_ids, 200, 300, device, memory=1 << 20)
    assert found == dense.sentences_to_chunks(queries, chunks, owner, doc_ids, 200, 300)


def test_misuse_is_refused() -> None:
    query, two, owner = np.ones((1, 2), np.float32), np.ones((2, 2), np.float32), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="owners"):
        dense_gpu.sentences_to_chunks([query], two, owner[:1], ["a"], 1, 1, "cpu")
    with pytest.raises(ValueError, match="do not fit"):
        dense_gpu.sentences_to_chunks([np.ones((1, 3))], two, owner, ["a"], 1, 1, "cpu")
    with pytest.raises(ValueError, match="not finite"):
        dense_gpu.sentences_to_chunks([query * np.nan], two, owner, ["a"], 1, 1, "cpu")
    with pytest.raises(ValueError, match="not finite"):
        dense_gpu.sentences_to_chunks([query], two * np.inf, owner, ["a"], 1, 1, "cpu")
    with pytest.raises(ValueError, match="at least 1"):
        dense_gpu.sentences_to_chunks([query], two, owner, ["a"], 1, 0, "cpu")
    with pytest.raises(UserError, match="too few .*--search-memory"):
        dense_gpu.sentences_to_chunks([query], two, owner, ["a"], 1, 1, "cpu", memory=10)
