"""The data of the retrieval study: queries, judgements, folds, and rankings from elsewhere."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from pan_scdg.errors import UserError
from pan_scdg.evaluation.retrieval import compute_per_query
from pan_scdg.notices import Notices
from pan_scdg.pan.corpus import Corpus
from pan_scdg.pan.source_retrieval import read_qrels, read_queries
from pan_scdg.profile import RetrievalSettings
from pan_scdg.records import Query
from pan_scdg.research.data.folders import find_ready
from pan_scdg.research.data.queries import QueryFold, make_folds, read_folds
from pan_scdg.research.retrieval.comparison import split_qrels
from pan_scdg.research.retrieval.rankings import GivenRun, check_documents, read_given
from pan_scdg.research.retrieval.rows import Ranking
from pan_scdg.research.study import StudyOptions

QRELS, FOLDS_KIND = "qrels.txt", "pan26-folds"


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
    """Why queries cannot be scored and are in no row, by id."""

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


def read_data(
    options: StudyOptions, rows: Sequence[Ranking], settings: RetrievalSettings, reranks: bool, notices: Notices
) -> Data:
    """Read all data and check it before anything is computed.

    Args:
        options: those of all studies.
        rows: all rows of the study.
        settings: of the profile.
        reranks: a row is reranked, which needs folds.
        notices: collects unusual findings.

    Raises:
        UserError: data, folds or a run are missing, malformed or of other data, or there are too few judged queries.
    """
    folder = options.folders.pan26
    if needless := sorted(options.given.keys() - {FOLDS_KIND}):
        raise UserError(f"{needless[0]!r} is not used by this study", f"give {FOLDS_KIND}", "--given")
    queries, qrels = read_queries(folder, notices), read_qrels(folder / QRELS)
    asked, judged = {query.query_id for query in queries}, {doc_id for of in qrels.values() for doc_id in of}
    folds_file = find_ready(FOLDS_KIND, options.folders, options.given) if reranks else None
    folds: Sequence[QueryFold] = ()
    if reranks:
        folds = make_folds([q.query_id for q in queries]) if folds_file is None else read_folds(folds_file, asked)
        split_qrels(qrels, folds)
    compute_per_query(qrels, {})  # refuses a grade that no run could be measured with
    corpus = Corpus(folder, notices)
    if unknown := sorted((qrels.keys() - asked) or (judged - corpus.ids)):
        raise UserError(f"{unknown[0]!r} is judged, but not in the data", "give the qrels of this data", folder / QRELS)
    runs = {}
    for row in rows:
        if row.run is not None:
            runs[row.name] = read_given(row.run, queries, settings, notices)
            check_documents(runs[row.name].order, corpus, row.run)
    return Data(queries, qrels, folds, folds_file, corpus, runs)
