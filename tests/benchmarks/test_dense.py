"""The benchmark of dense search: its table ends with one JSON object, and its sides agree."""

import json
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from benchmarks import dense


def test_the_last_line_holds_the_figures():
    small = ["--vectors", "5000", "--dimension", "16", "--queries", "3", "--repeats", "1", "--memory-gib", "0.01"]
    found = CliRunner().invoke(dense.main, small)
    assert found.exit_code == 0, found.output
    figures = json.loads(found.output.splitlines()[-1])
    assert figures["identical"] is True
    assert min(figures[name] for name in ("ratio", "seconds", "peak_memory_gib")) > 0


def test_ours_is_the_definition_among_planted_near_ties(tmp_path: Path):
    queries = np.random.default_rng(0).standard_normal((4, 32), dtype=np.float32)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    dense.planted(9000, queries, tmp_path / "v", seed=1)
    vectors = dense.mapped(tmp_path / "v", 32).astype(np.float32)
    assert dense.ours(queries, tmp_path / "v", 1 << 22) == dense.definition(queries, vectors)
    best = np.sort(vectors @ queries[0])[-100:]
    assert (np.diff(best) < 2e-6).any()


def test_the_reference_finds_the_best_chunks():
    rng = np.random.default_rng(2)
    queries, vectors = rng.normal(size=(2, 8)).astype(np.float32), rng.normal(size=(9000, 8)).astype(np.float32)
    for query, found in zip(queries, dense.reference(queries, vectors)):
        assert set(found.tolist()) == set(np.argsort(-(vectors @ query))[: dense.KEPT].tolist())
