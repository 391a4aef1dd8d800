"""The first stage of job 2 as a file: what a TREC run cannot hold, the coarse scores and the rankings of the routes."""

import json
from collections.abc import Mapping
from pathlib import Path

from pan_scdg.errors import UserError
from pan_scdg.own_files import OwnRecord, parse_record
from pan_scdg.pan.runs import open_gzip_text
from pan_scdg.pan.untrusted import gzip_lines
from pan_scdg.profile import Route
from pan_scdg.retrieval.first_stage import FirstStage, RankedPair, ranking_of

CANDIDATES = "candidates.jsonl.gz"


class _Line(OwnRecord):
    """The first stage of one query."""

    query: str
    routes: dict[Route, list[RankedPair]]
    candidates: list[RankedPair]


def write_candidates(path: Path, stages: Mapping[str, FirstStage]) -> None:
    """Write the first stage of every query; scores keep all their digits."""
    with open_gzip_text(path) as file:
        for query_id, (routes, candidates) in stages.items():
            file.write(json.dumps({"query": query_id, "routes": routes, "candidates": candidates}) + "\n")


def read_candidates(path: Path, remedy: str) -> dict[str, FirstStage]:
    """Return what `write_candidates` wrote, by query.

    Raises:
        UserError: the file is missing, damaged, or holds anything else.
    """
    found: dict[str, FirstStage] = {}
    for number, text in gzip_lines(path):
        try:
            line = parse_record(text, _Line)
            routes = {route: ranking_of(pairs) for route, pairs in line.routes.items()}
            stage = FirstStage(routes, ranking_of(line.candidates))
        except ValueError as e:
            raise UserError(f"not the candidates of a query: {e}", remedy, path, number) from e
        if found.setdefault(line.query, stage) is not stage:
            raise UserError(f"the query {line.query!r} occurs twice", remedy, path, number)
    return found
