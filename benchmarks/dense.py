"""Dense search beside a plain matrix product: ``python -m benchmarks.dense [--vectors N --dimension D --queries S]``.

Both look for the 2,000 chunks most similar to each sentence of one query among random unit vectors, some of which lie
a millionth apart. Ours reads float16 from disk within the memory bound, ranks documents and is exact; the reference,
a blocked float32 BLAS product with ``argpartition``, has its float32 vectors in memory and ends with the chunks. A
naive float16 NumPy product stands beside them. They take turns in one process on the same threads and the shortest
time of each counts; peak memory is that of a process that does nothing but our search, imports included.
"""

import json
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt

from pan_scdg.retrieval.dense.nearest import ExactSearch
from pan_scdg.retrieval.dense.search import search_chunks
from pan_scdg.retrieval.ranking import Ranked, Ranking

KEPT, DEPTH, BLOCK, CHUNKS_A_DOCUMENT = 2000, 1000, 8192, 8
NAIVE_VECTORS = 1000
"""The naive product is so slow that it is timed on this many vectors."""
Float32s = npt.NDArray[np.float32]


def planted(count: int, queries: Float32s, path: Path, seed: int) -> None:
    """Write random unit vectors as float16; every 16th is near one of the queries, many of those near each other."""
    rng = np.random.default_rng(seed)
    with open(path, "wb") as file:
        for start in range(0, count, BLOCK):
            vectors = rng.standard_normal((min(BLOCK, count - start), queries.shape[1]), dtype=np.float32)
            near = queries[rng.integers(len(queries), size=len(vectors[::16]))]
            # Differences of a few units in the last place of float16 move a similarity by about one step.
            vectors[::16] = near + 1e-4 * vectors[::16] + rng.integers(2, size=(len(near), 1)) * queries.mean(0)
            file.write((vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16).tobytes())


def mapped(path: Path, dimension: int) -> npt.NDArray[np.float16]:
    """The vectors of ``planted`` as a memory map."""
    return np.memmap(path, np.float16, "c").reshape(-1, dimension)


def ours(queries: Float32s, path: Path, memory: int) -> Ranking:
    """Documents of eight chunks ranked by our search."""
    vectors = mapped(path, queries.shape[1])
    owner = np.arange(len(vectors)) // CHUNKS_A_DOCUMENT
    return search_chunks([queries], ExactSearch(vectors, memory), owner, _doc_ids(len(vectors)), KEPT, DEPTH)[0]


def reference(queries: Float32s, vectors: Float32s) -> npt.NDArray[np.int64]:
    """The best chunks of each sentence by float32 products: the best of each block, then the best of these."""
    scores, places = [], []
    for start in range(0, len(vectors), BLOCK):
        products = queries @ vectors[start : start + BLOCK].T
        kept = min(KEPT, products.shape[1])
        chosen = np.argpartition(products, -kept, axis=1)[:, -kept:]
        scores.append(np.take_along_axis(products, chosen, axis=1))
        places.append(chosen + start)
    all_scores, all_places = np.concatenate(scores, axis=1), np.concatenate(places, axis=1)
    kept = min(KEPT, all_scores.shape[1])
    best = np.argpartition(all_scores, -kept, axis=1)[:, -kept:]
    return np.take_along_axis(all_places, best, axis=1)


def definition(queries: Float32s, vectors: Float32s) -> Ranking:
    """The ranking by the rule: float64, rounded to 1e-6, sorted, maximum per document, sorted."""
    left = queries.astype(np.float64)
    blocks = [left @ vectors[i : i + BLOCK].astype(np.float64).T for i in range(0, len(vectors), BLOCK)]
    best: dict[int, float] = {}
    for steps in np.rint(np.concatenate(blocks, axis=1) / 1e-6):
        kept = np.argsort(-steps, kind="stable")[:KEPT]
        for document, step in zip((kept // CHUNKS_A_DOCUMENT).tolist(), steps[kept].tolist()):
            best[document] = max(best.get(document, -np.inf), step)
    doc_ids = _doc_ids(len(vectors))
    ranked = [Ranked(doc_ids[document], round(step * 1e-6, 6)) for document, step in best.items()]
    return sorted(ranked, key=lambda item: (-item.score, item.doc_id))[:DEPTH]


def naive(queries: Float32s, vectors: npt.NDArray[np.float16]) -> npt.NDArray[np.float16]:
    """The float16 product that NumPy computes without BLAS."""
    products: npt.NDArray[np.float16] = queries.astype(np.float16) @ vectors.T
    return products


def _search_and_measure(queries: Float32s, path: Path, memory: int) -> float:
    """Largest resident memory in GiB of a process that only searches."""
    ours(queries, path, memory)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


def _doc_ids(vectors: int) -> list[str]:
    return [f"d{i:07}" for i in range(-(-vectors // CHUNKS_A_DOCUMENT))]


def _seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


@click.command(help=__doc__)
@click.option("--vectors", default=100_000, show_default=True, type=click.IntRange(1))
@click.option("--dimension", default=1024, show_default=True, type=click.IntRange(1))
@click.option("--queries", "sentences", default=150, show_default=True, type=click.IntRange(1), help="sentences")
@click.option("--memory-gib", default=1.0, show_default=True, type=click.FloatRange(0.001))
@click.option("--repeats", default=5, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
def main(vectors: int, dimension: int, sentences: int, memory_gib: float, repeats: int, seed: int) -> None:
    queries = np.random.default_rng([seed, 1]).standard_normal((sentences, dimension), dtype=np.float32)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    memory = int(memory_gib * (1 << 30))
    # A process counts the peak of the one it was started from, so it starts while this one is small.
    with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(1) as alone:
        path = Path(folder) / "vectors.f16"
        planted(vectors, queries, path, seed)
        half = mapped(path, dimension)
        wide = half.astype(np.float32)
        times = np.array(
            [
                (_seconds(lambda: ours(queries, path, memory)), _seconds(lambda: reference(queries, wide)))
                for _ in range(repeats)
            ]
        ).min(axis=0)
        few = np.array(half[:NAIVE_VECTORS])
        naive_seconds = _seconds(lambda: naive(queries, few)) * vectors / len(few)
        result = {
            "ratio": round(times[0] / times[1], 3),
            "identical": ours(queries, path, memory) == definition(queries, wide),
            "peak_memory_gib": round(alone.apply(_search_and_measure, (queries, path, memory)), 3),
            "seconds": round(times[0], 3),
            "reference_seconds": round(times[1], 3),
            "naive_fp16_seconds": round(naive_seconds, 1),
            "vectors": vectors,
            "dimension": dimension,
            "queries": sentences,
            "memory_gib": memory_gib,
        }
    click.echo(f"{'exact search, float16 on disk':<44}{times[0]:>9.3f} s")
    click.echo(f"{'float32 BLAS and argpartition, in memory':<44}{times[1]:>9.3f} s")
    click.echo(f"{f'NumPy float16 (from {len(few)} vectors)':<44}{naive_seconds:>9.1f} s")
    click.echo(json.dumps(result))


if __name__ == "__main__":
    main()
