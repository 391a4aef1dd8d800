"""The candidates of every query: run the routes of a profile and fuse them, or read a TREC run (paper, PAN26).

``candidates.jsonl.gz`` has the first stage of each query, since a TREC run has no room for the rankings of the routes
and the coarse scores.
"""

import hashlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from pan_scdg.digests import hash_file
from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from pan_scdg.pan.runs import RUN_NAMES, find_run, read_run
from pan_scdg.pan.untrusted import is_file
from pan_scdg.progress import Progress, Stopwatch
from pan_scdg.records import Query, Ranking
from pan_scdg.results.files import CANDIDATES, read_lines, write_lines
from pan_scdg.results.records import QueryLine
from pan_scdg.retrieval.dense import Searched, SearchTask
from pan_scdg.retrieval.index import open_bm25
from pan_scdg.retrieval.ranking import (
    DEPTH,
    fuse_by_comb_sum,
    fuse_by_daac,
    fuse_by_rrf,
    rank_best,
)
from pan_scdg.settings import RetrievalSettings, Route

GROUP_QUERIES = 16
"""Queries that are searched together, for which the vectors are read once; results do not depend on it."""


def find_candidates(
    queries: Sequence[Query],
    folder: Path,
    settings: RetrievalSettings,
    search: Callable[[Iterable[SearchTask]], Iterator[Searched]],
    is_late: Callable[[], bool] = lambda: False,
    find_words: Callable[[], Path] | None = None,
    watch: Stopwatch | None = None,
) -> dict[str, QueryLine]:
    """Return the candidates of every query, by id.

    Args:
        queries: equal texts are searched once.
        folder: the indexes; see `index.build_indexes`.
        settings: the profile's.
        search: yields the rankings of each task by its dense routes, in order. What it ends before is searched by
            `limit_to_words` of the settings.
        is_late: returns True if all queries are to be searched so.
        find_words: returns a folder with a BM25 index for these; None: ``folder``.
        watch: measures each route by its name, with the encoding of the queries.

    Raises:
        UserError: an index cannot be read, or the encoder cannot be loaded.
    """
    texts = list(dict.fromkeys(query.text for query in queries))
    groups = [tuple(texts[start : start + GROUP_QUERIES]) for start in range(0, len(texts), GROUP_QUERIES)]
    dense_routes = tuple(route for route in settings.routes if not route.startswith("bm25"))
    stages: dict[str, tuple[dict[str, Ranking], Ranking]] = {}
    watch = watch or Stopwatch()
    with ExitStack() as stack:

        def open_words(place: Path) -> dict[Route, Callable[[str], Ranking]]:
            index = stack.enter_context(open_bm25(place, settings.bm25))
            return {"bm25-sentence": index.search_sentences, "bm25-full": index.search_full}

        late = is_late()
        lexical: dict[Route, Callable[[str], Ranking]] = {}
        if any(route.startswith("bm25") for route in settings.routes) and not late:
            lexical = open_words(folder)
        dense: Iterator[Searched] = iter(())
        if dense_routes and not late:
            dense = search(SearchTask(folder, dense_routes, group) for group in groups)
        progress = stack.enter_context(Progress("first stage", len(texts)))
        for group in groups:
            searched = next(dense, None)
            late = late or (searched is None and bool(dense_routes))
            if late and not lexical:
                lexical = open_words(folder if find_words is None else find_words())
            used = limit_to_words(settings) if late else settings
            by_route = {} if searched is None else searched.rankings
            for route, seconds in ({} if searched is None else searched.seconds).items():
                watch.add(route, seconds)
            for number, text in enumerate(group):
                routes: dict[str, Ranking] = {}
                for route in used.routes:
                    if route in by_route:
                        routes[route] = by_route[route][number]
                        continue
                    with watch.measure(route):
                        routes[route] = lexical[route](text)
                stages[text] = routes, fuse(routes, used)
                progress.update()
    return {query.query_id: QueryLine(query.query_id, *stages[query.text]) for query in queries}


def limit_to_words(settings: RetrievalSettings) -> RetrievalSettings:
    """Return settings with the BM25 routes alone, for lack of time; with that of sentences if there is none."""
    routes = tuple(route for route in settings.routes if route.startswith("bm25")) or ("bm25-sentence",)
    fusion = "none" if len(routes) == 1 else "rrf" if settings.fusion == "daac" else settings.fusion
    return settings.model_copy(update={"routes": routes, "fusion": fusion})


def fuse(routes: Mapping[str, Ranking], settings: RetrievalSettings) -> Ranking:
    """Return the coarse ranking of a query."""
    rankings = [routes[route] for route in settings.routes]
    if settings.fusion == "daac":
        return fuse_by_daac(routes["bm25-sentence"], routes["dense-sentence"], routes["abstract"], DEPTH)
    if settings.fusion == "rrf":
        return fuse_by_rrf(rankings, DEPTH)
    if settings.fusion == "combsum":
        return fuse_by_comb_sum(rankings, DEPTH)
    return rankings[0][:DEPTH]


def read_candidates(
    path: Path, queries: Sequence[Query], notices: Notices, all_ids: Container[str]
) -> dict[str, QueryLine]:
    """Return the candidates of each query from a TREC run of the user, which may be a result of this program.

    Where the run is the first stage of a result its coarse scores and the rankings of the routes are read from beside
    it. Those of another run are its own scores: best first, equal ones by document id, as evaluators do not agree on
    their order. A query without candidates, and candidates of an unknown query, are counted as odd.

    Args:
        path: the run or its folder.
        queries: those whose candidates are returned.
        notices: where odd things are counted.
        all_ids: ids of all queries of the input.

    Raises:
        UserError: the file is missing or no TREC run, or has no query of the input.
    """
    file = find_run(path)
    run = {query_id: rank_best(dict(scored), max(1, len(scored))) for query_id, scored in read_run(file).items()}
    if not any(query_id in all_ids for query_id in run):
        what = f"has no query of the input, but {next(iter(run))!r} and the like"
        raise UserError(what, "give candidates of these queries", file)
    for query_id in sorted(query_id for query_id in run if query_id not in all_ids):
        notices.add("candidates of a query that is not in the input, left out", f"{file}: {query_id!r}")
    stages = _read_first_stage(file, run)
    if stages is None:
        stages = {query_id: QueryLine(query_id, {}, ranking) for query_id, ranking in run.items()}
    candidates = {}
    for query in queries:
        if query.query_id not in run:
            notices.add("query without candidates", f"{file}: {query.query_id!r}")
        stage = stages.get(query.query_id, QueryLine(query.query_id, {}, []))
        candidates[query.query_id] = stage._replace(candidates=stage.candidates[:DEPTH])
    return candidates


def hash_candidates(path: Path) -> str:
    """Return the digest of everything that `read_candidates` reads."""
    file = find_run(path)
    beside = file.with_name(CANDIDATES)
    files = [file, *([beside] if is_file(beside) else [])]
    return hashlib.sha256(" ".join(map(hash_file, files)).encode()).hexdigest()


def _read_first_stage(run_file: Path, run: Mapping[str, Ranking]) -> dict[str, QueryLine] | None:
    """Return the first stage beside a run of this program; None if there is none, or the run is a reranked one."""
    beside = run_file.with_name(CANDIDATES)
    if run_file.name not in RUN_NAMES or not is_file(beside):
        return None
    stages = read_stages(beside)
    same = all([c.doc_id for c in stages[q].candidates] == [r.doc_id for r in run.get(q, [])] for q in stages)
    return stages if same and run.keys() <= stages.keys() else None


def write_stages(path: Path, stages: Mapping[str, QueryLine]) -> None:
    """Write the first stage of every query."""
    write_lines(path.parent, path.name, stages.values())


def read_stages(path: Path) -> dict[str, QueryLine]:
    """Return the first stages that `write_stages` wrote, by query.

    Raises:
        UserError: the file is not one of this program.
    """
    remedy = f"give the result as it was written, or remove {CANDIDATES}: then the run's scores count"
    return {line.query: line for line in read_lines(path, QueryLine.from_json, remedy)}
