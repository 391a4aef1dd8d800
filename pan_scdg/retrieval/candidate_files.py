"""Candidates in files: the user's TREC run instead of the first stage, and the program's own first stage.

A TREC run cannot hold the coarse scores and the rankings of the routes, so they lie in a file beside it.
"""

import hashlib
import json
import os
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from pan_scdg.digests import hash_file
from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from pan_scdg.own_files import OwnRecord, parse_record
from pan_scdg.pan.runs import RUN_NAMES, find_run, open_gzip_text, read_run
from pan_scdg.pan.untrusted import stream_lines
from pan_scdg.profile import RetrievalSettings, Route
from pan_scdg.records import Query
from pan_scdg.retrieval.candidates import FirstStage, RankedPair, parse_ranking
from pan_scdg.retrieval.ranking import Ranking, rank_best

CANDIDATES = "candidates.jsonl.gz"
_REMEDY = f"give the output of the first stage as it was written, or remove {CANDIDATES}: then the run's scores count"


def read_candidates(
    path: Path,
    queries: Sequence[Query],
    settings: RetrievalSettings,
    notices: Notices,
    known: Container[str] | None = None,
) -> dict[str, FirstStage]:
    """Return the ``settings.depth`` best documents of each query.

    Where the run lies in an output of this program its first stage lies beside it, with coarse scores and rankings of
    the routes. Those of another run are its own scores (see `explain_scores`): best first, equal ones by document id,
    as evaluators do not agree on their order. A query without candidates, and candidates of an unknown query, are
    counted as odd.

    Args:
        path: the run or its folder.
        queries: those that candidates are asked for.
        settings: the profile's.
        notices: where odd things are counted.
        known: ids of all queries of the input; None: those of ``queries``.

    Raises:
        UserError: the file is missing or no TREC run, or what lies beside it is not its first stage.
    """
    file = find_run(path)
    known = {query.query_id for query in queries} if known is None else known
    run = read_run(file)
    rankings = {query_id: rank_best(dict(scored), max(1, len(scored))) for query_id, scored in run.items()}
    for query_id in sorted(query_id for query_id in run if query_id not in known):
        notices.add("candidates of a query that is not in the input, left out", f"{file}: {query_id!r}")
    stages = _read_stages(file, rankings)
    found = {}
    for query in queries:
        if query.query_id not in stages:
            notices.add("query without candidates", f"{file}: {query.query_id!r}")
        routes, candidates = stages.get(query.query_id, FirstStage({}, []))
        found[query.query_id] = FirstStage(routes, candidates[: settings.depth])
    return found


def explain_scores(path: Path) -> list[str]:
    """Return a line that says so if the scores of a run are used as coarse scores."""
    file = find_run(path)
    if _find_stages_file(file) is not None:
        return []
    return [f"{file}: no {CANDIDATES} beside this run, so that its own scores are the coarse scores"]


def hash_candidates(path: Path) -> str:
    """Return the digest of everything that `read_candidates` reads."""
    file = find_run(path)
    beside = _find_stages_file(file)
    if beside is None:
        return hash_file(file)
    return hashlib.sha256(f"{hash_file(file)} {hash_file(beside)}".encode()).hexdigest()


def _find_stages_file(run: Path) -> Path | None:
    """Return the file with the first stage of a run; None unless the run is an output of this program."""
    beside = run.with_name(CANDIDATES)
    return beside if run.name in RUN_NAMES and os.path.lexists(beside) else None


def _read_stages(file: Path, rankings: Mapping[str, Ranking]) -> dict[str, FirstStage]:
    beside = _find_stages_file(file)
    if beside is None:
        return {query_id: FirstStage({}, ranking) for query_id, ranking in rankings.items()}
    stages = read_stages(beside, _REMEDY)
    for query_id in sorted(stages.keys() | rankings.keys()):
        here = [c.doc_id for c in stages[query_id].candidates] if query_id in stages else []
        if here != [c.doc_id for c in rankings.get(query_id, [])]:
            raise UserError(f"has other candidates of the query {query_id!r} than {file.name}", _REMEDY, beside)
    return stages


class _Line(OwnRecord):
    """The first stage of one query."""

    query: str
    routes: dict[Route, list[RankedPair]]
    candidates: list[RankedPair]


def write_stages(path: Path, stages: Mapping[str, FirstStage]) -> None:
    """Write the first stage of every query; scores keep all their digits."""
    with open_gzip_text(path) as file:
        for query_id, (routes, candidates) in stages.items():
            file.write(json.dumps({"query": query_id, "routes": routes, "candidates": candidates}) + "\n")


def read_stages(path: Path, remedy: str) -> dict[str, FirstStage]:
    """Return the first stages that `write_stages` wrote, by query.

    Raises:
        UserError: the file is missing, damaged, or holds anything else.
    """
    found: dict[str, FirstStage] = {}
    for number, text in stream_lines(path):
        try:
            line = parse_record(text, _Line)
            routes = {route: parse_ranking(pairs) for route, pairs in line.routes.items()}
            stage = FirstStage(routes, parse_ranking(line.candidates))
        except ValueError as e:
            raise UserError(f"not the candidates of a query: {e}", remedy, path, number) from e
        if found.setdefault(line.query, stage) is not stage:
            raise UserError(f"the query {line.query!r} occurs twice", remedy, path, number)
    return found
