"""Approximate dense search: an inverted file over the vectors of a corpus, made and searched by faiss.

k-means puts every vector in a list with its neighbours; a search reads the ``probes`` lists whose centroids are most
similar to the query. A list holds its vectors as 8 bits a number, relative to the centroid. What it finds is scored
again from the vectors themselves, so a score is that of the exact search, and only a document in a list that was not
read can be missing (benchmarks/results/ann.md).

faiss never reads a file of its own format, whose numbers it would believe: a folder holds plain arrays, which are
checked here, and ``lists.bin``, which it maps: of each list the codes, then the positions of the vectors.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserError, need_packages
from pan_scdg.retrieval.dense.nearest import STEP, Float32s, Floats, Nearest, Positions, Rows, count_steps, sort_steps
from pan_scdg.retrieval.index_folder import REDO, check_seal, read_array, stage_folder, write_seal

VERSION = "residual 8bit"
CENTROIDS, RANGES, SIZES, LISTS = "centroids.npy", "ranges.npy", "sizes.npy", "lists.bin"
SEED, ROUNDS = 20260714, 10
POINTS_A_LIST = 40
"""Vectors of each list that k-means sees."""
BLOCK = 4096
"""Vectors that one thread handles at a time; what is written may depend on it, but never on the number of threads."""
RANGE_BYTES = 1 << 30
"""Size of the lists that are filled in one pass over the vectors."""
PROBES = 64
"""Lists that a search reads."""
SPARE = 2
"""Times as many vectors are found by their codes as are kept by their exact similarities."""
ID_BYTES = 8


def load_faiss() -> Any:
    """Return the module faiss, or raise UserError if it is not installed."""
    need_packages("ann", "faiss")
    import faiss

    return faiss


def choose_lists(count: int) -> int:
    """Return the number of lists for ``count`` vectors: the root, or fewer if k-means would see too few of each."""
    return max(1, min(isqrt(count), count // POINTS_A_LIST))


def open_threads(faiss: Any) -> ThreadPoolExecutor:
    """Return a thread for each core in which faiss computes alone: products of several threads could differ."""
    return ThreadPoolExecutor(len(os.sched_getaffinity(0)), initializer=lambda: faiss.omp_set_num_threads(1))


def build_ivf(vectors: Floats, folder: Path, lists: int | None = None) -> None:
    """Write the inverted file of unit vectors; ``folder`` exists only once it is complete.

    Takes some 2 GiB, 24 bytes a vector, and six bytes for each number of the vectors that k-means sees: those of
    `POINTS_A_LIST` times ``lists`` vectors (benchmarks/results/ann.md).

    Args:
        vectors: ``[n, d]``, at least one; a memory map will do.
        folder: to be made.
        lists: number of lists; None: see `choose_lists`.

    Raises:
        UserError: faiss is missing, or the folder cannot be written.
    """
    faiss = load_faiss()
    lists = min(lists or choose_lists(len(vectors)), len(vectors))
    with open_threads(faiss) as threads, stage_folder(folder) as part:
        index = threads.submit(_train, faiss, vectors, lists).result()
        owners = np.concatenate(list(threads.map(lambda start: _assign(index, vectors, start), _starts(vectors))))
        sizes = np.bincount(owners, minlength=lists)
        with (part / LISTS).open("xb") as file:
            for codes, positions, ends in _fill(faiss, index, vectors, owners, sizes, threads):
                for begin, end in zip([0, *ends], ends):
                    codes[begin:end].tofile(file)
                    positions[begin:end].tofile(file)
        np.save(part / CENTROIDS, index.quantizer.reconstruct_n(0, lists))
        np.save(part / RANGES, faiss.vector_to_array(index.sq.trained))
        np.save(part / SIZES, sizes)
        write_seal(part, "ivf", VERSION, len(vectors), lists)


def _make_index(faiss: Any, width: int, lists: int) -> Any:
    """Return an empty index."""
    coarse = faiss.IndexFlatIP(width)
    kind = faiss.ScalarQuantizer.QT_8bit
    index = faiss.IndexIVFScalarQuantizer(coarse, width, lists, kind, faiss.METRIC_INNER_PRODUCT)
    index.own_fields = False
    index.referenced_objects = [coarse]
    return index


def _train(faiss: Any, vectors: Floats, lists: int) -> Any:
    """Return an index with centroids and ranges of codes, from a sample of the vectors."""
    index = _make_index(faiss, vectors.shape[1], lists)
    index.cp.niter, index.cp.seed, index.cp.min_points_per_centroid = ROUNDS, SEED, 1
    count = min(len(vectors), POINTS_A_LIST * lists)
    sample = np.sort(np.random.default_rng(SEED).choice(len(vectors), count, replace=False))
    index.train(np.ascontiguousarray(vectors[sample], np.float32))
    return index


def _starts(vectors: Floats) -> range:
    return range(0, len(vectors), BLOCK)


def _assign(index: Any, vectors: Floats, start: int) -> npt.NDArray[np.int32]:
    """Return the list of each vector of a block."""
    block = np.ascontiguousarray(vectors[start : start + BLOCK], np.float32)
    owners: npt.NDArray[np.int32] = index.quantizer.search(block, 1)[1][:, 0].astype(np.int32)
    return owners


def _fill(
    faiss: Any,
    index: Any,
    vectors: Floats,
    owners: npt.NDArray[np.int32],
    sizes: Positions,
    threads: ThreadPoolExecutor,
) -> Iterator[tuple[npt.NDArray[np.uint8], Positions, list[int]]]:
    """Yield codes, positions and the end of each list, of as many lists at a time as `RANGE_BYTES` hold."""
    order = np.argsort(owners, kind="stable")
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    ends = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        base = int(ends[first] - sizes[first])
        last = max(first + 1, int(np.searchsorted(ends, base + RANGE_BYTES // (index.code_size + ID_BYTES), "right")))
        codes = np.empty((int(ends[last - 1]) - base, index.code_size), np.uint8)

        def encode(start: int) -> None:
            own = owners[start : start + BLOCK]
            rows = start + np.flatnonzero((own >= first) & (own < last))  # noqa: B023
            block = np.ascontiguousarray(vectors[rows], np.float32)
            of, made = owners[rows].astype(np.int64), np.empty((len(rows), index.code_size), np.uint8)
            index.encode_vectors(len(rows), *(faiss.swig_ptr(array) for array in (block, of, made)), False)
            codes[places[rows] - base] = made  # noqa: B023

        list(threads.map(encode, _starts(vectors)))
        yield codes, order[base : int(ends[last - 1])], (ends[first:last] - base).tolist()
        first = last


class IvfIndex:
    """An inverted file written by ``build_ivf``, opened for searching.

    The lists are memory-mapped; besides them it takes four bytes a number of the centroids.
    """

    def __init__(self, folder: Path, count: int, width: int, probes: int | None = None) -> None:
        """Open the index of ``count`` vectors of ``width`` numbers and read it through once, which finds damage.

        Raises:
            UserError: the folder is missing, damaged or no such index, or faiss is not installed.
        """
        self._faiss = faiss = load_faiss()
        seal = check_seal(folder, "ivf", VERSION)
        lists, self._folder, self.count = seal.terms, folder, count
        centroids, ranges = read_array(folder / CENTROIDS, ("<f4",)), read_array(folder / RANGES, ("<f4",))
        sizes, total = read_array(folder / SIZES, ("<i8",)), count * (width + ID_BYTES)
        if not (
            seal.documents == count
            and 0 < lists <= count
            and centroids.shape == (lists, width)
            and ranges.shape == (2 * width,)
            and sizes.shape == (lists,)
            and np.isfinite(centroids).all()
            and np.isfinite(ranges).all()
            and sizes.min(initial=0) >= 0
            and sizes.max(initial=0) <= count == sizes.sum()
            and (folder / LISTS).stat().st_size == total
        ):
            raise UserError("damaged: not the inverted file of these vectors", REDO, folder)
        self._index = _make_index(faiss, width, lists)  # allocates memory for all lists
        self._index.quantizer.add(np.array(centroids))
        faiss.copy_array_to_vector(np.array(ranges), self._index.sq.trained)
        self._index.is_trained, self._index.ntotal = True, count
        self._lists = self._map_lists(folder / LISTS, sizes, total)
        self._index.replace_invlists(self._lists, False)
        self._probes = faiss.SearchParametersIVF(nprobe=min(lists, probes or PROBES))

    def find(self, query: Float32s, count: int) -> Positions:
        """Return the positions of the best vectors by their codes in the lists that are read, in ascending order.

        Raises:
            UserError: a position is not that of a vector.
        """
        found: Positions = self._index.search(query[None], min(count, self.count), params=self._probes)[1][0]
        positions: Positions = np.unique(found[found != -1])
        if len(positions) and not 0 <= positions[0] <= positions[-1] < self.count:
            raise UserError("damaged: a vector that does not exist", REDO, self._folder / LISTS)
        return positions

    def _map_lists(self, path: Path, sizes: Positions, total: int) -> Any:
        """Return the lists in a file as faiss maps them, one after the other."""
        mapped = self._faiss.OnDiskInvertedLists()
        mapped.nlist, mapped.code_size, mapped.filename = len(sizes), self._index.code_size, str(path)
        mapped.totsize, mapped.read_only = total, True
        mapped.lists.resize(len(sizes))
        held = sizes.astype(np.uint64)  # must outlive its pointer
        mapped.set_all_lists_sizes(self._faiss.swig_ptr(held))
        mapped.do_mmap()
        return mapped


class IvfSearch:
    """A search in the inverted files of all shards, in the order of their vectors, instead of an `ExactSearch`."""

    def __init__(self, vectors: Rows, shards: Sequence[IvfIndex], device: str = "cpu") -> None:
        self.vectors, self.device = vectors, device
        self._shards = list(zip(accumulate((shard.count for shard in shards), initial=0), shards))

    def find(self, queries: Float32s, kept: int, order: Positions | None = None) -> Iterator[Nearest]:
        """Yield for each query vector the ``kept`` best of the vectors in the lists that are read, by exact similarity.

        Each query and shard is searched alone, in one thread: no result depends on the others or on the threads.
        """

        def search(query: Float32s) -> Positions:
            return np.concatenate([start + shard.find(query, SPARE * kept) for start, shard in self._shards])

        with open_threads(load_faiss()) as threads:
            for query, positions in zip(queries, threads.map(search, queries)):
                steps = count_steps(query, self.vectors, positions, self.device)
                best = sort_steps(steps, positions, order)[:kept]
                yield Nearest(positions[best], steps[best] * STEP, STEP)
