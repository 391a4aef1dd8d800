"""``studies retrieval``, start to end: data and profile in, the report of first stages and reranked rows out."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.digests import file_digest, text_digest
from pan_scdg.errors import UserError
from pan_scdg.evaluation.retrieval import per_query
from pan_scdg.jobs.options import RunOptions
from pan_scdg.jobs.output import OutputDirectory
from pan_scdg.logs import say
from pan_scdg.models.find import FoundModel, describe_models
from pan_scdg.models.fingerprint import fingerprint_folder
from pan_scdg.models.lock import list_origins
from pan_scdg.notices import Notices
from pan_scdg.own_files import write_atomically
from pan_scdg.pan.inputs import input_digest
from pan_scdg.pan.source_retrieval import read_qrels, read_queries, stream_corpus
from pan_scdg.profile import Profile
from pan_scdg.records import Query
from pan_scdg.research.data.data_folders import DataFolders, ready_file
from pan_scdg.research.data.prepared import origin
from pan_scdg.research.data.query_folds import QueryFold, folds_text, make_folds, read_folds
from pan_scdg.research.report.page import write_report
from pan_scdg.research.retrieval.entries import Entry
from pan_scdg.research.retrieval.rankings import Scored, all_rankings
from pan_scdg.research.retrieval.report import FOLDS, Setting, report_of, write_gains, write_runs
from pan_scdg.research.retrieval.stages import (
    GivenRun,
    Search,
    Stages,
    check_documents,
    not_in,
    order_of,
    read_given,
    search_all,
)
from pan_scdg.research.retrieval.study import judged_parts, retrieval_rows
from pan_scdg.retrieval.candidates import locate_encoder
from pan_scdg.retrieval.index import hash_corpus
from pan_scdg.scdg.gains import GainStatistics
from pan_scdg.scoring.candidates import Target, prepare_targets, score_candidates
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.store import Store

QRELS, FOLDS_KIND = "qrels.txt", "pan26-folds"


class Request(NamedTuple):
    """What is asked for."""

    profile: Profile
    """Its model and ``[retrieval]`` settings are those of the gains."""
    entries: Sequence[Entry]
    search_on: str | None
    """See `retrieval_entries.all_entries`."""
    folders: DataFolders
    given: Mapping[str, Path]
    """The user's file of folds, if there is one."""
    options: RunOptions
    """With the folder of the retrieval data as input."""


class Data(NamedTuple):
    """What was read and checked."""

    queries: Sequence[Query]
    qrels: dict[str, dict[str, int]]
    folds: Sequence[QueryFold]
    """Empty where nothing is reranked."""
    folds_from: Path | None
    documents: int
    runs: dict[str, GivenRun]
    notices: Notices


def read_data(request: Request) -> Data:
    """Everything that is read, checked before anything is computed.

    Raises:
        UserError: data, folds or a run are missing, malformed or of other data, or there are too few judged queries.
    """
    folder, notices = request.options.input, Notices(request.options.strict)
    if unknown := sorted(request.given.keys() - {FOLDS_KIND}):
        raise UserError(f"{unknown[0]!r} has no part in this study", f"give {FOLDS_KIND}", "--given")
    queries, qrels = read_queries(folder, notices), read_qrels(folder / QRELS)
    asked, judged = {query.query_id for query in queries}, {doc_id for of in qrels.values() for doc_id in of}
    folds_from = ready_file(FOLDS_KIND, request.folders, request.given) if request.search_on else None
    folds: Sequence[QueryFold] = ()
    if request.search_on is not None:
        folds = make_folds([q.query_id for q in queries]) if folds_from is None else read_folds(folds_from, asked)
        judged_parts(qrels, folds)
    per_query(qrels, {})  # refuses a grade that no run could be measured with
    known = frozenset(document.doc_id for document in stream_corpus(folder, notices))
    if unknown := sorted((qrels.keys() - asked) or (judged - known)):
        raise UserError(f"{unknown[0]!r} is judged and not in the data", "take the qrels of this data", folder / QRELS)
    runs = {}
    for entry in request.entries:
        if entry.run is not None:
            runs[entry.name] = read_given(entry.run, queries, request.profile.need_retrieval(), notices)
            check_documents(runs[entry.name], known, entry.run)
    return Data(queries, qrels, folds, folds_from, len(known), runs, notices)


def study_retrieval(request: Request) -> list[str]:
    """Make the report; returns the lines to show the user.

    Raises:
        UserError: data, settings, models or output are not usable; nothing has its final name then.
    """
    options = request.options
    data = read_data(request)
    model, targets = _model(request, data)
    places = _places(request, model)
    job = _job(request, data, model, places)
    output = OutputDirectory(options.output, job)
    with output.locked():
        if output.prepare(options.overwrite):
            return [*data.notices.lines(), f"already complete: {options.output}"]
        if not output.publishing():
            output.start()
            say([describe_models(list(places.values()))] if places else [])
            with Store(options.state or output.hidden) as store:
                names = _computed(request, data, model, targets, store, output.staged, job)
            output.seal(names, [] if model is None else model.incidents(), None, list_origins(places))
        output.publish()
    incidents = [] if model is None else [f"warning: {incident}" for incident in model.incidents()]
    return [*data.notices.lines(), *incidents, f"studied {len(request.entries)} rankings: {options.output}"]


def _model(request: Request, data: Data) -> tuple[ScoringModel | None, list[Target]]:
    """The language model with the queries as targets, where any row is reranked."""
    if request.search_on is None:
        return None, []
    profile, options = request.profile, request.options
    profile.need_model()
    model, settings = options.scoring_model(profile.need_model(), "retrieval"), profile.need_retrieval()
    model.check_length(settings.context, "retrieval.context")
    return model, prepare_targets(data.queries, model, settings, options.input / "queries.jsonl")


def _places(request: Request, model: ScoringModel | None) -> dict[str, FoundModel]:
    """Where the models lie that the result depends on, by name.

    Raises:
        UserError: an encoder of a row is nowhere.
    """
    places = {} if model is None else {"language_model": model.found}
    for settings in (entry.settings for entry in request.entries if entry.settings is not None):
        if not all(route.startswith("bm25") for route in settings.routes):
            places[settings.need_dense().model] = locate_encoder(settings.need_dense())
    return places


def _job(request: Request, data: Data, model: ScoringModel | None, places: Mapping[str, FoundModel]) -> dict[str, Any]:
    """Everything that the bytes of the report depend on, and nothing of where it was made."""
    options = request.options
    encoders = {name: fingerprint_folder(of.folder) for name, of in places.items() if name != "language_model"}
    return {
        "task": "studies retrieval",
        "input": input_digest(options.input, "retrieval"),
        "qrels": file_digest(options.input / QRELS),
        "folds": {"sha256": text_digest(folds_text(data.folds)), **origin(data.folds_from)} if data.folds else None,
        "profile": request.profile.model_dump(mode="json", exclude={"needs_gpu"}),
        "rows": [entry.record() for entry in request.entries],
        "search_on": request.search_on,
        "models": {"language_model": None if model is None else model.identity(), "encoders": encoders},
        "device": options.device,
        "engine": options.engine,
    }


def _computed(
    request: Request,
    data: Data,
    model: ScoringModel | None,
    targets: Sequence[Target],
    store: Store,
    folder: Path,
    job: Mapping[str, Any],
) -> list[str]:
    """Search, score, rerank and measure; the names of the files that were written into ``folder``, the page last."""
    entries, options, settings = request.entries, request.options, request.profile.need_retrieval()
    corpus = hash_corpus(options.input)
    search = Search(options.input, corpus, options.index, options.device, options.search_memory << 20)
    found: dict[str, Stages] = {**search_all(entries, data.queries, search, store)}
    orders = {name: order_of(stages) for name, stages in found.items()}
    for name, run in data.runs.items():
        found[name], orders[name] = run.stages, run.order
    stages = {entry.name: found[entry.name] for entry in entries if entry.reranked}
    scored: Scored = {}
    if model is not None:
        with closing(model):
            scored = _scored(request, targets, stages, model, store)
    rankings = all_rankings(entries, orders, stages, scored, settings, store, data.qrels, data.folds, request.search_on)
    rows = retrieval_rows(data.qrels, rankings.runs)
    files = [*write_runs(folder, rankings.runs), *(write_gains(folder, scored) if scored else [])]
    if data.folds:
        (folder / FOLDS).parent.mkdir(exist_ok=True)
        write_atomically(folder / FOLDS, folds_text(data.folds))
        files.append(FOLDS)
    setting = Setting(
        request.profile,
        data.documents,
        len(data.queries),
        len(data.qrels),
        data.folds,
        data.folds_from is None,
        request.search_on,
        list(data.runs),
    )
    return write_report(folder, report_of(setting, rows, rankings, files, {"study": "retrieval", **job}))


def _scored(
    request: Request, targets: Sequence[Target], stages: Mapping[str, Stages], model: ScoringModel, store: Store
) -> Scored:
    """Gains of the candidates of all rows, each scored once.

    What is computed together moves the last digits, and is part of a stored score's name. So it goes row by row, that
    of the profile's own first stage before the others: its scores are those of ``run``, and each serves the other.
    """
    settings, scored = request.profile.need_retrieval(), dict[tuple[str, str], tuple[GainStatistics, str]]()
    whole = settings.model_copy(update={"rerank": True, "scored": None})
    reranked = [entry for entry in request.entries if entry.reranked]
    for entry in sorted(reranked, key=lambda entry: not entry.searches_as(settings)):
        rest = not_in(scored, stages[entry.name], settings.scored)
        scored |= score_candidates(
            request.options.input, targets, rest, model, whole, store, keep_gains=False, moments=True
        )
    return scored
