"""Memory that grows with the corpus or with the candidates: ``python -m benchmarks.scale_memory``.

The functions of a run make what it keeps, from drawn numbers; the bytes are those that tracemalloc counts.
"""

import json
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pan_scdg.profile import load_profile
from pan_scdg.retrieval.bm25.impact_build import Postings, build_from_postings
from pan_scdg.retrieval.candidates import FirstStage, fuse, parse_ranking
from pan_scdg.scdg.aggregation import choose_aggregate, compute_statistics, list_stored
from pan_scdg.store import make_key

QUERIES, DEPTH, DOCUMENTS, SEED = 50, 1000, 2000, 20261124
POSTINGS, DOCUMENT_TERMS, TERMS = 2_000_000, 500, (100_000, 2_000_000)


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


def measure_terms() -> None:
    """Print the bytes for each term while an index of BM25 is built: two indexes of equally many postings."""
    peaks = []
    for terms in TERMS:
        groups = draw_postings(terms)
        with tempfile.TemporaryDirectory() as folder:
            tracemalloc.start()
            build_from_postings(groups, Path(folder, "index"), frozenset())
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    each = (peaks[1] - peaks[0]) / (TERMS[1] - TERMS[0])
    print(f"{POSTINGS} postings of {TERMS[0]} or {TERMS[1]} terms: {each:.0f} bytes a term")


def draw_postings(terms: int) -> Iterator[tuple[list[str], Postings]]:
    """Yield documents whose terms follow each other in the vocabulary, again from its start after its end."""
    ones, rows = np.ones(DOCUMENT_TERMS, np.uint32), np.arange(DOCUMENT_TERMS, dtype=np.uint32)
    for start in range(0, POSTINGS, DOCUMENT_TERMS):
        own = [f"term{(start + row) % terms}" for row in range(DOCUMENT_TERMS)]
        yield [f"{start:09}"], Postings(own, rows, ones, np.array([DOCUMENT_TERMS]))


if __name__ == "__main__":
    measure_candidates()
    measure_terms()
