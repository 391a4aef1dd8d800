"""``studies retrieval``: first stages on the PAN26 data, before and after reranking."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.digests import hash_file, hash_text
from pan_scdg.errors import UserError
from pan_scdg.evaluation.retrieval import compute_per_query
from pan_scdg.jobs.lifecycle import produce_result
from pan_scdg.logs import say
from pan_scdg.models.find import FoundModel, describe_models
from pan_scdg.models.fingerprint import fingerprint_folder
from pan_scdg.models.fit import choose_device, choose_search_memory
from pan_scdg.models.lock import list_origins
from pan_scdg.notices import Notices
from pan_scdg.pan.inputs import hash_input
from pan_scdg.pan.source_retrieval import read_qrels, read_queries, stream_corpus
from pan_scdg.profile import Profile
from pan_scdg.records import Query
from pan_scdg.research.data.folders import find_ready
from pan_scdg.research.data.prepared import describe_origin
from pan_scdg.research.data.queries import QueryFold, format_folds, make_folds, read_folds
from pan_scdg.research.report.page import write_report
from pan_scdg.research.retrieval.comparison import compare_rows, split_qrels
from pan_scdg.research.retrieval.grid import Scored
from pan_scdg.research.retrieval.rankings import (
    GivenRun,
    Search,
    Stages,
    check_documents,
    drop_scored,
    list_documents,
    make_rankings,
    read_given,
    search_all,
)
from pan_scdg.research.retrieval.report import FOLDS, Setting, make_report, write_gains, write_runs
from pan_scdg.research.retrieval.rows import Ranking
from pan_scdg.research.study import StudyOptions, write_files
from pan_scdg.retrieval.candidates import locate_encoder
from pan_scdg.retrieval.index import hash_corpus
from pan_scdg.scdg.aggregation import GainStatistics
from pan_scdg.scoring.candidates import Target, prepare_targets, score_candidates
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.store import Store

QRELS, FOLDS_KIND = "qrels.txt", "pan26-folds"


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


class _Data(NamedTuple):
    """The data, read and checked."""

    queries: Sequence[Query]
    qrels: dict[str, dict[str, int]]
    folds: Sequence[QueryFold]
    """Empty if nothing is reranked."""
    folds_file: Path | None
    documents: int
    runs: dict[str, GivenRun]


class _Reranker(NamedTuple):
    """The language model, with the queries as targets."""

    model: ScoringModel
    targets: Sequence[Target]


def study_retrieval(study: RetrievalStudy) -> list[str]:
    """Carry out the study; return the lines to show the user.

    Raises:
        UserError: data, settings, models or output are not usable; the output is unchanged then.
    """
    options, notices = study.options, Notices()
    device = choose_device(study.profile, options.device)
    data = _read_data(study, notices)
    reranker = _find_model(study, data, device, notices)
    places = _find_places(study, reranker)
    identity = _identify(study, data, reranker, places, device)
    with produce_result(options.output, identity, options.overwrite) as result:
        if result.complete:
            return [*notices.list_warnings(), f"already complete: {options.output}"]
        if result.needed:
            say([describe_models(list(places.values()))] if places else [])
            with result.compute(options.state) as store:
                names = _compute(study, data, reranker, store, device, result.staged, result.job)
            incidents = [] if reranker is None else reranker.model.incidents()
            result.seal(names, incidents, origins=list_origins(places))
    warnings = [] if reranker is None else [f"warning: {incident}" for incident in reranker.model.incidents()]
    return [*notices.list_warnings(), *warnings, f"studied {len(study.rows)} rankings: {options.output}"]


def _read_data(study: RetrievalStudy, notices: Notices) -> _Data:
    """Read all data and check it before anything is computed.

    Raises:
        UserError: data, folds or a run are missing, malformed or of other data, or there are too few judged queries.
    """
    folder, options = study.folder, study.options
    if needless := sorted(options.given.keys() - {FOLDS_KIND}):
        raise UserError(f"{needless[0]!r} is not used by this study", f"give {FOLDS_KIND}", "--given")
    queries, qrels = read_queries(folder, notices), read_qrels(folder / QRELS)
    asked, judged = {query.query_id for query in queries}, {doc_id for of in qrels.values() for doc_id in of}
    folds_file = find_ready(FOLDS_KIND, options.folders, options.given) if study.search_on else None
    folds: Sequence[QueryFold] = ()
    if study.search_on is not None:
        folds = make_folds([q.query_id for q in queries]) if folds_file is None else read_folds(folds_file, asked)
        split_qrels(qrels, folds)
    compute_per_query(qrels, {})  # refuses a grade that no run could be measured with
    known = frozenset(document.doc_id for document in stream_corpus(folder, notices))
    if unknown := sorted((qrels.keys() - asked) or (judged - known)):
        raise UserError(f"{unknown[0]!r} is judged, but not in the data", "give the qrels of this data", folder / QRELS)
    runs = {}
    for row in study.rows:
        if row.run is not None:
            runs[row.name] = read_given(row.run, queries, study.profile.need_retrieval(), notices)
            check_documents(runs[row.name], known, row.run)
    return _Data(queries, qrels, folds, folds_file, len(known), runs)


def _find_model(study: RetrievalStudy, data: _Data, device: str, notices: Notices) -> _Reranker | None:
    """Return the language model, None if no row is reranked."""
    if study.search_on is None:
        return None
    settings, options = study.profile.need_retrieval(), study.options
    model = ScoringModel(study.profile.need_model(), device, folder=options.model, state=options.state, job="retrieval")
    model.check_length(settings.context, "retrieval.context")
    return _Reranker(model, prepare_targets(data.queries, model, settings, study.folder / "queries.jsonl", notices))


def _find_places(study: RetrievalStudy, reranker: _Reranker | None) -> dict[str, FoundModel]:
    """Return the folders of the models that the result depends on, by name.

    Raises:
        UserError: an encoder of a row is missing.
    """
    places = {} if reranker is None else {"language_model": reranker.model.found}
    for settings in (row.settings for row in study.rows if row.settings is not None):
        if not all(route.startswith("bm25") for route in settings.routes):
            places[settings.need_dense().model] = locate_encoder(settings.need_dense())
    return places


def _identify(
    study: RetrievalStudy, data: _Data, reranker: _Reranker | None, places: Mapping[str, FoundModel], device: str
) -> dict[str, Any]:
    """Return everything that the bytes of the report depend on, without paths."""
    folds = {"sha256": hash_text(format_folds(data.folds)), **describe_origin(data.folds_file)}
    encoders = {name: fingerprint_folder(of.folder) for name, of in places.items() if name != "language_model"}
    model = None if reranker is None else reranker.model.identify()
    return {
        "task": "studies retrieval",
        "input": hash_input(study.folder, "retrieval"),
        "qrels": hash_file(study.folder / QRELS),
        "folds": folds if data.folds else None,
        "profile": study.profile.model_dump(mode="json", exclude={"needs_gpu"}),
        "rows": [row.identify() for row in study.rows],
        "search_on": study.search_on,
        "models": {"language_model": model, "encoders": encoders},
        "device": device,
        "engine": "packed",
    }


def _compute(
    study: RetrievalStudy,
    data: _Data,
    reranker: _Reranker | None,
    store: Store,
    device: str,
    folder: Path,
    job: Mapping[str, Any],
) -> list[str]:
    """Search, score, rerank and evaluate; return the names of the files written into ``folder``, the page last."""
    search = Search(study.folder, hash_corpus(study.folder), study.index, device, choose_search_memory() << 20)
    found: dict[str, Stages] = {**search_all(study.rows, data.queries, search, store)}
    orders = {name: list_documents(stages) for name, stages in found.items()}
    for name, run in data.runs.items():
        found[name], orders[name] = run.stages, run.order
    stages = {row.name: found[row.name] for row in study.rows if row.reranked}
    scored: Scored = {}
    if reranker is not None:
        with closing(reranker.model):
            scored = _score(study, reranker, stages, store)
    settings = study.profile.need_retrieval()
    rankings = make_rankings(
        study.rows, orders, stages, scored, settings, store, data.qrels, data.folds, study.search_on
    )
    rows = compare_rows(data.qrels, rankings.runs)
    files = [*write_runs(folder, rankings.runs), *(write_gains(folder, scored) if scored else [])]
    if data.folds:
        files += write_files(folder, {FOLDS: format_folds(data.folds)})
    setting = Setting(
        study.profile,
        data.documents,
        len(data.queries),
        len(data.qrels),
        data.folds,
        data.folds_file is None,
        study.search_on,
        list(data.runs),
    )
    return write_report(folder, make_report(setting, rows, rankings, files, {"study": "retrieval", **job}))


def _score(study: RetrievalStudy, reranker: _Reranker, stages: Mapping[str, Stages], store: Store) -> Scored:
    """Return the gains of the candidates of all rows, each scored once.

    The batch moves the last digits and is part of a stored score's key. Therefore rows are scored one after the other,
    that of the profile's own first stage first: its scores are those of ``run``, and each serves the other.
    """
    settings, scored = study.profile.need_retrieval(), dict[tuple[str, str], tuple[GainStatistics, str]]()
    whole = settings.model_copy(update={"rerank": True, "scored": None})
    reranked = [row for row in study.rows if row.reranked]
    for row in sorted(reranked, key=lambda row: not row.searches_as(settings)):
        rest = drop_scored(scored, stages[row.name], settings.scored)
        scored |= score_candidates(study.folder, reranker.targets, rest, reranker.model, whole, store, keep_gains=False)
    return scored
