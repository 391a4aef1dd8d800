"""The retrieval study as the user asked for it, and its data: queries, judgements, folds, and runs from elsewhere."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from pan_scdg.errors import UserError
from pan_scdg.evaluation.retrieval import Qrels, compute_per_query
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.pan.runs import find_run, read_run
from pan_scdg.pan.source_retrieval import read_qrels, read_queries
from pan_scdg.profile import Profile
from pan_scdg.records import Query
from studies.data.folders import check_given
from studies.data.queries import QueryFold, make_folds, read_folds
from studies.retrieval.rows import Ranking
from studies.study import StudyOptions
from pan_scdg.retrieval.candidate_files import read_candidates
from pan_scdg.retrieval.candidates import FirstStage
from pan_scdg.scoring.reranking import Ranking as Ranked

QRELS = "qrels.txt"
Stages = Mapping[str, FirstStage]
"""The first stage of each query."""
Orders = Mapping[str, Sequence[str]]
"""Documents of each query, the best first."""


@dataclass(frozen=True)
class RetrievalStudy:
    """The study as the user asked for it."""

    profile: Profile
    """Its model and ``[retrieval]`` settings are those of the gains."""
    rows: Sequence[Ranking]
    search_on: str | None
    """See `rows.choose_rows`."""
    options: StudyOptions
    index: Path | None = None
    """Folder of indexes that the command index has built."""

    @property
    def folder(self) -> Path:
        """Return the folder of the retrieval data."""
        return self.options.folders.pan26


class GivenRun(NamedTuple):
    """A ranking from elsewhere."""

    stages: dict[str, FirstStage]
    """Its first candidates, which can be reranked."""
    order: dict[str, list[str]]
    """The whole run, as evaluators order it."""

    def leave_out(self, lost: Container[str]) -> "GivenRun":
        """Return the ranking of the other queries."""
        stages = {query: of for query, of in self.stages.items() if query not in lost}
        return GivenRun(stages, {query: of for query, of in self.order.items() if query not in lost})


class Data(NamedTuple):
    """The data, read and checked."""

    queries: Sequence[Query]
    qrels: dict[str, dict[str, int]]
    folds: Sequence[QueryFold]
    """Empty if nothing is reranked."""
    folds_file: Path | None
    corpus: Corpus
    runs: dict[str, GivenRun]
    lost: Mapping[str, str] = MappingProxyType({})
    """The reasons why queries cannot be scored and are in no row, by id."""

    def leave_out(self, lost: Mapping[str, str]) -> "Data":
        """Return the data without the queries of ``lost``.

        Raises:
            UserError: too few judged queries are left.
        """
        folds = [fold for fold in self.folds if fold.query_id not in lost]
        qrels = {query: of for query, of in self.qrels.items() if query not in lost}
        split_qrels(qrels, folds)
        queries = [query for query in self.queries if query.query_id not in lost]
        runs = {name: run.leave_out(lost) for name, run in self.runs.items()}
        return self._replace(queries=queries, qrels=qrels, folds=folds, runs=runs, lost=lost)


def read_data(study: RetrievalStudy, reranks: bool, notices: Notices) -> Data:
    """Read all data and check it before anything is computed; only ``reranks`` needs folds.

    Raises:
        UserError: data, folds or a run are missing, malformed or of other data, or there are too few judged queries.
    """
    options, folder = study.options, study.folder
    check_given(options.given, ("pan26",))
    queries, qrels = read_queries(folder, notices), read_qrels(folder / QRELS)
    asked, judged = {query.query_id for query in queries}, {doc_id for of in qrels.values() for doc_id in of}
    folds_file = options.given.get("pan26-folds") if reranks else None
    folds: Sequence[QueryFold] = ()
    if reranks:
        folds = make_folds([q.query_id for q in queries]) if folds_file is None else read_folds(folds_file, asked)
        split_qrels(qrels, folds)
    compute_per_query(qrels, {})  # refuses a grade that no run could be measured with
    corpus = Corpus(folder, notices)
    if unknown := sorted((qrels.keys() - asked) or (judged - corpus.ids)):
        raise UserError(f"{unknown[0]!r} is judged, but not in the data", "give the qrels of this data", folder / QRELS)
    runs = {}
    for row in study.rows:
        if row.run is not None:
            runs[row.name] = _read_run(row.run, study, queries, notices)
            check_documents(runs[row.name].order, corpus, row.run)
    return Data(queries, qrels, folds, folds_file, corpus, runs)


def split_qrels(qrels: Qrels, folds: Sequence[QueryFold]) -> tuple[Qrels, Qrels]:
    """Return the judgements of the development queries, and those of the hold-out.

    Raises:
        UserError: a role has fewer than two judged queries.
    """
    parts: list[Qrels] = []
    for role in ("development", "holdout"):
        queries = {fold.query_id for fold in folds if fold.role == role}
        parts.append({query: grades for query, grades in qrels.items() if query in queries})
        require_two(parts[-1])
    return parts[0], parts[1]


def require_two(qrels: Qrels) -> None:
    """Raise UserError if there are fewer than two judged queries."""
    if len(qrels) < 2:
        raise UserError(f"{len(qrels)} judged queries are too few to compare rankings", "give qrels of more queries")


def _read_run(path: Path, study: RetrievalStudy, queries: Sequence[Query], notices: Notices) -> GivenRun:
    """Return a TREC run; the first documents to the profile's depth can be reranked, as with ``run --candidates``."""
    stages = read_candidates(path, queries, study.profile.need_retrieval(), notices)
    wanted = {query.query_id for query in queries}
    run = {query_id: found for query_id, found in read_run(find_run(path)).items() if query_id in wanted}
    return GivenRun(stages, {query_id: _order_as_evaluators(found) for query_id, found in run.items()})


def _order_as_evaluators(scored: Sequence[tuple[str, float]]) -> list[str]:
    """Return the documents as trec_eval does: by score in single precision, equal ones by id, the last id first."""
    with np.errstate(over="ignore"):
        by_id = sorted(((np.float32(score), doc_id) for doc_id, score in scored), reverse=True)
    return [doc_id for _, doc_id in by_id]


def check_documents(orders: Orders, corpus: Corpus, path: Path) -> None:
    """Raise UserError if a document of a ranking from elsewhere is not in the corpus."""
    if unseen := {doc_id for order in orders.values() for doc_id in order} - corpus.ids:
        what = f"{len(unseen)} documents are not in the corpus, {min(unseen)!r} for one"
        raise UserError(what, "give a run over this corpus", path)


def list_documents(stages: Stages) -> dict[str, list[str]]:
    """Return the documents of every query in coarse order."""
    return {query_id: [c.doc_id for c in stage.candidates] for query_id, stage in stages.items()}


def list_ranked(rankings: Mapping[str, Ranked]) -> dict[str, list[str]]:
    """Return the documents of each ranking."""
    return {query_id: [doc_id for doc_id, _ in ranking] for query_id, ranking in rankings.items()}
