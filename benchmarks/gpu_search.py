"""Dense search on the GPU beside that on the CPU: rankings must be the same to the last digit; a part of
``benchmarks.gpu``.

Vectors have the width of a shape's hidden states, in float16, and many lie near each other (see ``benchmarks.dense``).
The CPU searches for the first queries only.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.dense import CHUNKS_A_DOCUMENT, DEPTH, KEPT, mapped, planted
from benchmarks.gpu_rows import FAILED, OUTCOME, Part, Row, attempt, release
from benchmarks.scoring_models import SHAPES
from pan_scdg.retrieval.dense import search as dense
from pan_scdg.retrieval.dense.nearest import ExactSearch
from pan_scdg.retrieval.ranking import Ranking

VECTORS, TINY_VECTORS = 600_000, 3_000
GOAL = 5.0
"""Seconds in which an H200 should search for all queries."""
MEMORY = 8 << 30
"""Of the device."""
Float32s = npt.NDArray[np.float32]


class Search(NamedTuple):
    """Vectors of the units of each query, and the vectors to search."""

    queries: list[Float32s]
    vectors: npt.NDArray[np.float16]

    def run(self, device: str) -> tuple[list[Ranking], float]:
        """Return the rankings and the seconds they took; a small search before is not timed."""
        self._search(self.queries[:1], self.vectors[:64], device)
        began = time.perf_counter()
        return self._search(self.queries, self.vectors, device), time.perf_counter() - began

    def _search(self, queries: list[Float32s], vectors: npt.NDArray[np.float16], device: str) -> list[Ranking]:
        owner = np.arange(len(vectors)) // CHUNKS_A_DOCUMENT
        doc_ids = [f"d{i:07}" for i in range(-(-len(vectors) // CHUNKS_A_DOCUMENT))]
        return dense.search_chunks(queries, ExactSearch(vectors, MEMORY, device), owner, doc_ids, KEPT, DEPTH)


def measure_rows(shape: str, device: str) -> Iterator[Row]:
    """Yield the row of one shape."""
    yield attempt({"width": f"{SHAPES[shape]['hidden_size']:,}"}, lambda: _measure(shape, device))
    release(device)


def _measure(shape: str, device: str) -> Row:
    tiny, width = shape == "tiny", SHAPES[shape]["hidden_size"]
    units, count, compared = (4, 5, 3) if tiny else (50, 200, 20)
    rows = np.random.default_rng(1).standard_normal((units * count, width), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.f16"
        planted(TINY_VECTORS if tiny else VECTORS, rows, path, seed=0)
        search = Search(np.split(rows, count), mapped(path, width))
        ours, seconds = search.run(device)
        expected, cpu_seconds = search._replace(queries=search.queries[:compared]).run("cpu")
        vectors = len(search.vectors)
    different = sum(a != b for a, b in zip(ours, expected))  # there are more of ours
    over = ", above the goal of 5 s" if seconds > GOAL and device != "cpu" else ""
    return {
        "vectors": f"{vectors:,}",
        "queries": str(count),
        "query vectors": f"{len(rows):,}",
        "s": f"{seconds:.3g}",
        "compared": str(compared),
        "CPU s": f"{cpu_seconds:.3g}",
        OUTCOME: f"{FAILED}: {different} of {compared} rankings differ" if different else f"ok: identical{over}",
    }


PART = Part(("width", "vectors", "queries", "query vectors", "s", "compared", "CPU s"), measure_rows, every_shape=False)
