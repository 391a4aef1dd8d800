"""Dense search beside a plain matrix product: ``python -m benchmarks.dense [--vectors N --dimension D --queries S]``.

Both look for the 2,000 vectors most similar to each query vector among random unit vectors, some of which lie a
millionth apart. Ours reads float16 from disk and is exact to six decimals; the reference, a blocked float32 BLAS
product with ``argpartition``, has its float32 vectors in memory. They take turns in one process on the same threads
and the shortest time of each counts; the peak memory is that of a process that only searches.
"""

import json
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt

from pan_scdg.retrieval.dense import find_nearest

KEPT, BLOCK_ROWS = 2000, 8192
Float32s = npt.NDArray[np.float32]


def write_vectors(count: int, queries: Float32s, path: Path) -> None:
    """Write random unit vectors as float16; every 16th is near one of the queries, many of those near each other."""
    rng = np.random.default_rng(0)
    with open(path, "wb") as file:
        for start in range(0, count, BLOCK_ROWS):
            vectors = rng.standard_normal((min(BLOCK_ROWS, count - start), queries.shape[1]), dtype=np.float32)
            near = queries[rng.integers(len(queries), size=len(vectors[::16]))]
            # Differences of a few units in the last place of float16 move a similarity by about one step.
            vectors[::16] = near + 1e-4 * vectors[::16] + rng.integers(2, size=(len(near), 1)) * queries.mean(0)
            file.write((vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16).tobytes())


def draw_queries(count: int, dimension: int) -> Float32s:
    """Return random unit vectors."""
    queries = np.random.default_rng(1).standard_normal((count, dimension), dtype=np.float32)
    return np.asarray(queries / np.linalg.norm(queries, axis=1, keepdims=True), np.float32)


def search(queries: Float32s, path: Path, device: str = "cpu") -> list[set[int]]:
    """Return the positions that our search finds for each query vector."""
    vectors = np.memmap(path, np.float16, "r").reshape(-1, queries.shape[1])

    def read_blocks(rows: int) -> Iterator[npt.NDArray[np.float16]]:
        yield from (np.array(vectors[i : i + rows]) for i in range(0, len(vectors), rows))

    ties = np.arange(len(vectors))
    return [set(places.tolist()) for places, _ in find_nearest(queries, read_blocks, KEPT, ties, device)]


def multiply(queries: Float32s, vectors: Float32s) -> None:
    """Find the best of each block by float32 products, then the best of these."""
    scores, places = [], []
    for start in range(0, len(vectors), BLOCK_ROWS):
        products = queries @ vectors[start : start + BLOCK_ROWS].T
        chosen = np.argpartition(products, -min(KEPT, products.shape[1]), axis=1)[:, -KEPT:]
        scores.append(np.take_along_axis(products, chosen, axis=1))
        places.append(chosen + start)
    together, positions = np.concatenate(scores, axis=1), np.concatenate(places, axis=1)
    np.take_along_axis(positions, np.argpartition(together, -KEPT, axis=1)[:, -KEPT:], axis=1)


def define(queries: Float32s, vectors: Float32s) -> list[set[int]]:
    """Return what the search has to find: the best by float64 products rounded to six decimals, then by position."""
    nearest = []
    for query in queries.astype(np.float64):
        similarities = np.round(vectors.astype(np.float64) @ query, 6)
        nearest.append(set(np.argsort(-similarities, kind="stable")[:KEPT].tolist()))
    return nearest


def _measure_memory(queries: Float32s, path: Path) -> float:
    search(queries, path)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


def _measure_seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


@click.command(help=__doc__)
@click.option("--vectors", "count", default=100_000, show_default=True, type=click.IntRange(KEPT))
@click.option("--dimension", default=1024, show_default=True, type=click.IntRange(1))
@click.option("--queries", "units", default=150, show_default=True, type=click.IntRange(1))
@click.option("--repeats", default=5, show_default=True, type=click.IntRange(1))
def main(count: int, dimension: int, units: int, repeats: int) -> None:
    queries = draw_queries(units, dimension)
    # A process counts the peak of the one it was started from, so it starts while this one is small.
    with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(1) as alone:
        path = Path(folder) / "vectors.f16"
        write_vectors(count, queries, path)
        vectors = np.fromfile(path, np.float16).reshape(-1, dimension).astype(np.float32)
        actions = (lambda: search(queries, path), lambda: multiply(queries, vectors))
        ours, reference = np.array([[_measure_seconds(action) for action in actions] for _ in range(repeats)]).min(0)
        result = {
            "seconds": round(ours, 3),
            "reference_seconds": round(reference, 3),
            "ratio": round(ours / reference, 3),
            "right": search(queries[:10], path) == define(queries[:10], vectors),
            "peak_memory_gib": round(alone.apply(_measure_memory, (queries, path)), 3),
        }
    click.echo(json.dumps(result))


if __name__ == "__main__":
    main()
