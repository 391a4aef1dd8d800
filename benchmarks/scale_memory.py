"""Memory that grows with the corpus or with the candidates: ``python -m benchmarks.scale_memory``.

The functions of a run make what it keeps, from drawn numbers; the bytes are those that tracemalloc counts.
"""

import json
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

from pan_scdg.profile import load_profile
from pan_scdg.retrieval.bm25.impact_build import Block, _merge
from pan_scdg.retrieval.bm25.terrier_terms import LONGEST
from pan_scdg.retrieval.candidates import FirstStage, fuse, parse_ranking
from pan_scdg.scdg.aggregation import choose_aggregate, compute_statistics, list_stored
from pan_scdg.store import make_key

QUERIES, DEPTH, DOCUMENTS, SEED = 50, 1000, 2000, 20261124
BLOCKS, TERMS = 40, 50_000


def measure_candidates() -> None:
    """Print the bytes that the process of a retrieval run keeps for each candidate."""
    settings, rng = load_profile("pan26-qwen3-8b").need_retrieval(), np.random.default_rng(SEED)
    aggregate = choose_aggregate(settings)
    stored = list_stored("candidates", [] if aggregate is None else [aggregate])
    texts: list[list[str]] = []  # as the store has them
    for _ in range(QUERIES):
        drawn = [rng.permutation(DOCUMENTS)[:DEPTH] for _ in settings.routes]
        texts.append([json.dumps([(f"document-{i:07}", 1 / (1 + n)) for n, i in enumerate(of)]) for of in drawn])
    tracemalloc.start()
    found = {}
    for query, of in enumerate(texts):
        routes = dict(zip(settings.routes, (parse_ranking(json.loads(text)) for text in of)))
        found[f"query-{query}"] = FirstStage(routes, fuse(routes, settings))
    rankings, features = tracemalloc.get_traced_memory()[0], dict[tuple[str, str], Any]()
    used: dict[str, None] = {}  # of the store
    for query_id, stage in found.items():
        for ranked in stage.candidates:
            values = compute_statistics(rng.standard_normal(500), stored, 1000.0)
            key = make_key("candidate", {"names": [query_id, ranked.doc_id]})
            features[query_id, ranked.doc_id] = values, key
            used[key] = None
    both, count, routes_count = tracemalloc.get_traced_memory()[0], len(features), len(settings.routes)
    tracemalloc.stop()
    each, ranked_each = rankings / count, rankings / count / (routes_count + 1)
    print(f"{count} candidates of {routes_count} routes: {each:.0f} bytes for rankings, {ranked_each:.0f} a document;")
    print(f"{(both - rankings) / count:.0f} for statistics, keys and names")


def measure_vocabularies(new: float) -> None:
    """Print the most bytes for each term of each block while BM25 blocks are merged.

    Args:
        new: share of the terms of a block that no other block has.
    """
    rng, blocks = np.random.default_rng(SEED), []
    common = rng.integers(10**9, size=TERMS).astype(f"S{LONGEST}")
    with tempfile.TemporaryDirectory() as folder:
        for number in range(BLOCKS):
            listed = np.empty(TERMS, [("term", f"S{LONGEST}"), ("size", "i8")])
            own = (number * TERMS + np.arange(int(TERMS * new)) + 10**10).astype(f"S{LONGEST}")
            listed["term"], listed["size"] = np.sort(np.concatenate([own, common[len(own) :]])), 1
            blocks.append(Block(Path(folder, f"{number}.terms.npy"), Path(folder, f"{number}.postings.npy")))
            np.save(blocks[-1].terms, listed)
            np.save(blocks[-1].postings, np.stack([np.full(TERMS, number, np.uint32), np.ones(TERMS, np.uint32)]))
        del listed, own, common
        tracemalloc.start()
        _merge(blocks, [f"{number:03}" for number in range(BLOCKS)], np.full(BLOCKS, TERMS, np.int64), Path(folder))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    each = peak / (BLOCKS * TERMS)
    print(f"{BLOCKS} blocks of {TERMS} terms, {new:.0%} of them in no other: {each:.0f} bytes a term")


if __name__ == "__main__":
    measure_candidates()
    for share in (0.0, 0.2, 1.0):
        measure_vocabularies(share)
