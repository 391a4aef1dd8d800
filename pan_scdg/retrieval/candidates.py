"""First stage of source retrieval: run the routes of a profile, fuse and store them (paper, first-stage PAN26)."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Strict, TypeAdapter

from pan_scdg.cluster.session import Cluster
from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.logs import say
from pan_scdg.models.devices import can_compute, choose_encoder_dtype
from pan_scdg.models.encoder import Encoder, load_encoder
from pan_scdg.models.find import find_encoder
from pan_scdg.models.fit import check_encoder_fits
from pan_scdg.models.lock import list_lock_warnings
from pan_scdg.own_files import EXACT, parse_as
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.profile import RetrievalSettings, Route
from pan_scdg.progress import Progress
from pan_scdg.records import Query
from pan_scdg.retrieval.catalogue import ReadyIndex
from pan_scdg.retrieval.dense.nearest import MEMORY
from pan_scdg.retrieval.dense.routes import DenseRoutes
from pan_scdg.retrieval.index import Part, build_indexes, join_digests, list_parts, list_shards, open_bm25
from pan_scdg.retrieval.ranking import Ranked, Ranking, fuse_by_comb_sum, fuse_by_daac, fuse_by_rrf
from pan_scdg.store import Store, make_key

QUERIES_A_GROUP = 16
"""Queries that are searched together; results do not depend on it."""
RankedPair = Annotated[tuple[str, float], Strict(False)]
_RANKED = TypeAdapter(list[RankedPair], config=EXACT)


class FirstStage(NamedTuple):
    """Rankings of the routes for one query, and their fusion."""

    routes: dict[Route, Ranking]
    candidates: Ranking


def load_retrieval_encoder(settings: RetrievalSettings, device: str) -> Encoder | None:
    """Load the embedding model; return None if every route is one of BM25. Warn if it is not the pinned one.

    Raises:
        UserError: it is missing, larger than the memory of the device, or the device does not compute in its type.
    """
    if all(route.startswith("bm25") for route in settings.routes):
        return None
    dense = settings.need_dense()
    found = find_encoder(dense.model)
    say(list_lock_warnings(found))
    check_encoder_fits(dense.model, found.folder, device)
    if dense.dtype is not None and not can_compute(dense.dtype, device):
        raise UserError(f"{device} cannot compute in {dense.dtype}", "remove retrieval.dense.dtype from the profile")
    return load_encoder(found.folder, device, dense.batch, dense.dtype or choose_encoder_dtype(device))


def find_candidates(
    corpus: Corpus,
    queries: Sequence[Query],
    settings: RetrievalSettings,
    encoder: Encoder | None,
    store: Store,
    index: ReadyIndex | None = None,
    memory: int = MEMORY,
    cluster: Cluster | None = None,
) -> dict[str, FirstStage]:
    """Return the candidates of every query.

    Args:
        corpus: all documents.
        queries: all queries.
        settings: the profile's.
        encoder: the embedding model, for dense routes.
        store: rankings are stored here, and indexes in its folder.
        index: what `catalogue.check_index` returned; the folder is only read. None: indexes are built in the
            store's folder.
        memory: bytes that a dense search may use on the device.
        cluster: encodes the documents, if it has several devices.

    Raises:
        UserError: an index cannot be built or opened.
    """
    folder, corpora = (store.folder, [corpus.digest]) if index is None else index
    parts = list_parts(settings, encoder, join_digests(corpora))
    keys = {q.query_id: _make_route_keys(q, settings, parts) for q in queries}
    todo = {
        q.text: q for q in queries if any(store.get(key) is None for key in keys[q.query_id].values())
    }  # texts once
    if todo:
        if index is None:
            build_indexes(corpus, folder, parts, encoder, settings.dense, cluster)
        with Progress("first stage", len(todo)) as progress:
            for query, routes in _search(list(todo.values()), folder, settings, encoder, corpora, memory):
                values = [(keys[query.query_id][route], json.dumps(found).encode()) for route, found in routes.items()]
                store.put(values)
                progress.update()
    stages = {}
    for query_id, own in keys.items():
        routes = {route: store.read(key, _decode_ranking) or [] for route, key in own.items()}
        stages[query_id] = FirstStage(routes, fuse(routes, settings))
    return stages


def _decode_ranking(data: bytes) -> Ranking:
    pairs = parse_as(data, _RANKED)
    return parse_ranking(pairs)


def parse_ranking(pairs: Iterable[tuple[str, float]]) -> Ranking:
    """Return the ranking of pairs that were stored.

    Raises:
        ValueError: a document occurs twice.
    """
    ranking = [Ranked(*pair) for pair in pairs]
    if len({ranked.doc_id for ranked in ranking}) < len(ranking):
        raise ValueError("a document occurs twice in a ranking")
    return ranking


def fuse(routes: Mapping[Route, Ranking], settings: RetrievalSettings) -> Ranking:
    """Return the coarse ranking of a query."""
    rankings = [routes[route] for route in settings.routes]
    if settings.fusion == "daac":
        return fuse_by_daac(routes["bm25-sentence"], routes["dense-sentence"], routes["abstract"], settings.depth)
    if settings.fusion == "rrf":
        return fuse_by_rrf(rankings, settings.depth)
    if settings.fusion == "combsum":
        return fuse_by_comb_sum(rankings, settings.depth)
    return rankings[0][: settings.depth]


def _make_route_keys(query: Query, settings: RetrievalSettings, parts: Mapping[str, Part]) -> dict[Route, str]:
    """Return the store's key of each route: the index, what this route searches with, and the query's text."""
    keys: dict[Route, str] = {}
    for route in settings.routes:
        purpose = "bm25" if route.startswith("bm25") else "abstracts" if route == "abstract" else "chunks"
        searched = {"index": parts[purpose].made_of, "with": _list_search_settings(route, settings)}
        keys[route] = make_key("route", {"route": route, **searched, "query": hash_text(query.text)})
    return keys


def _list_search_settings(route: Route, settings: RetrievalSettings) -> dict[str, Any]:
    """Return the settings of a search that do not belong to its index."""
    bm25 = settings.bm25
    if route.startswith("bm25"):
        return {"terms": bm25.terms if route == "bm25-sentence" else bm25.full_terms, "depth": bm25.depth}
    dense = settings.need_dense().model_dump(mode="json")
    names = {
        "abstract": ("query_tokens",),
        "dense-sentence": ("query_tokens", "sentences", "kept_chunks"),
        "dense-full": ("query_words", "query_stride", "query_chunks", "full_query_tokens", "full_kept_chunks"),
    }[route]
    approximate = {name: dense[name] for name in ("search", "lists", "probes") if name in dense}
    return approximate | {name: dense[name] for name in ("query_prompt", "depth", *names)}


def _search(
    queries: Sequence[Query],
    folder: Path,
    settings: RetrievalSettings,
    encoder: Encoder | None,
    corpora: Sequence[str],
    memory: int,
) -> Iterator[tuple[Query, dict[Route, Ranking]]]:
    """Yield the rankings of each query in order, a group of queries at a time."""
    shards = list_shards(settings, encoder, corpora)
    with ExitStack() as stack:
        lexical: dict[Route, Callable[[str], Ranking]] = {}
        if any(route.startswith("bm25") for route in settings.routes):
            index = stack.enter_context(open_bm25(folder, shards, settings.bm25))
            lexical = {"bm25-sentence": index.search_sentences, "bm25-full": index.search_full}
        dense = None if encoder is None else DenseRoutes(folder, shards, settings.need_dense(), encoder, memory)
        for start in range(0, len(queries), QUERIES_A_GROUP):
            group = queries[start : start + QUERIES_A_GROUP]
            by_route: dict[Route, list[Ranking]] = {}
            if dense is not None:
                texts = [query.text for query in group]
                by_route = {route: dense.search(route, texts) for route in settings.routes if route not in lexical}
            for number, query in enumerate(group):
                found = {route: rankings[number] for route, rankings in by_route.items()}
                found |= {route: lexical[route](query.text) for route in settings.routes if route in lexical}
                yield query, found
