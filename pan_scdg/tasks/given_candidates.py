"""Candidates from a TREC run in the place of the first stage: the user's own, or the output of an earlier stage."""

from collections.abc import Sequence
from pathlib import Path

from pan_scdg.notices import Notices
from pan_scdg.pan.runs import read_run, run_file
from pan_scdg.pan.source_retrieval import Query
from pan_scdg.profile import RetrievalSettings
from pan_scdg.retrieval.ranking import top
from pan_scdg.tasks.first_stage import FirstStage


def read_candidates(
    path: Path, queries: Sequence[Query], settings: RetrievalSettings, notices: Notices
) -> dict[str, FirstStage]:
    """The ``settings.depth`` best documents of each query: by score, equal ones by document id, as evaluators do not
    agree on their order. A query without candidates, and candidates of an unknown query, are counted as odd.

    Raises:
        UserError: the file is missing or no TREC run.
    """
    file = run_file(path)
    run = read_run(file)
    for query_id in sorted(run.keys() - {q.query_id for q in queries}):
        notices.add("candidates of a query that is not in the input, left out", f"{file}: {query_id!r}")
    found = {}
    for query in queries:
        if query.query_id not in run:
            notices.add("query without candidates", f"{file}: {query.query_id!r}")
        found[query.query_id] = FirstStage({}, top(dict(run.get(query.query_id, ())), settings.depth))
    return found
