"""Candidates from a TREC run in the place of the first stage: the user's own, or the output of an earlier stage."""

import hashlib
import os
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from pan_scdg.digests import file_digest
from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from pan_scdg.pan.runs import RUN_NAMES, read_run, run_file
from pan_scdg.profile import RetrievalSettings
from pan_scdg.records import Query
from pan_scdg.retrieval import candidate_file
from pan_scdg.retrieval.candidate_file import CANDIDATES
from pan_scdg.retrieval.first_stage import FirstStage
from pan_scdg.retrieval.ranking import Ranking, top

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
    the routes. Those of another run are its own scores (see `foreign_scores`): best first, equal ones by document id,
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
    file = run_file(path)
    known = {query.query_id for query in queries} if known is None else known
    run = read_run(file)
    rankings = {query_id: top(dict(scored), max(1, len(scored))) for query_id, scored in run.items()}
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


def foreign_scores(path: Path) -> list[str]:
    """Return a line that says so where the scores of a run stand for coarse scores."""
    file = run_file(path)
    if _stages_file(file) is not None:
        return []
    return [f"{file}: no {CANDIDATES} beside this run, so that its own scores are the coarse scores"]


def candidates_digest(path: Path) -> str:
    """Return the digest of everything that `read_candidates` reads."""
    file = run_file(path)
    beside = _stages_file(file)
    if beside is None:
        return file_digest(file)
    return hashlib.sha256(f"{file_digest(file)} {file_digest(beside)}".encode()).hexdigest()


def _stages_file(run: Path) -> Path | None:
    """Return where the first stage of a run lies; only an output of this program, with the run's own name, has one."""
    beside = run.with_name(CANDIDATES)
    return beside if run.name in RUN_NAMES and os.path.lexists(beside) else None


def _read_stages(file: Path, rankings: Mapping[str, Ranking]) -> dict[str, FirstStage]:
    beside = _stages_file(file)
    if beside is None:
        return {query_id: FirstStage({}, ranking) for query_id, ranking in rankings.items()}
    stages = candidate_file.read_candidates(beside, _REMEDY)
    for query_id in sorted(stages.keys() | rankings.keys()):
        here = [c.doc_id for c in stages[query_id].candidates] if query_id in stages else []
        if here != [c.doc_id for c in rankings.get(query_id, [])]:
            raise UserError(f"has other candidates of the query {query_id!r} than {file.name}", _REMEDY, beside)
    return stages
