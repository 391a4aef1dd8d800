"""``studies retrieval``: first stages on the PAN26 data, before and after reranking."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.digests import hash_file, hash_text
from pan_scdg.errors import UserError, UserErrors
from pan_scdg.jobs.plan.estimate import NOT_KNOWN, Plan, make_plan
from pan_scdg.jobs.plan.inputs import count_candidates, group_by_source
from pan_scdg.jobs.requests import Computing
from pan_scdg.jobs.shards import write_shard
from pan_scdg.models.find import FoundModel, find_encoder
from pan_scdg.models.fingerprint import fingerprint_folder
from pan_scdg.models.fit import choose_search_memory
from pan_scdg.notices import Notices
from pan_scdg.pan.corpus import Corpus
from pan_scdg.pan.inputs import hash_input
from pan_scdg.profile import Profile, RetrievalSettings
from pan_scdg.records import Query
from pan_scdg.research.data.prepared import describe_origin
from pan_scdg.research.data.queries import format_folds
from pan_scdg.research.report.page import write_report
from pan_scdg.research.retrieval.comparison import compare_rows
from pan_scdg.research.retrieval.data import QRELS, Data, read_data
from pan_scdg.research.retrieval.grid import Scored
from pan_scdg.research.retrieval.rankings import (
    Search,
    Stages,
    check_documents,
    drop_scored,
    list_documents,
    make_rankings,
    search_all,
)
from pan_scdg.research.retrieval.report import FOLDS, Setting, make_report, write_gains, write_runs
from pan_scdg.research.retrieval.rows import Ranking
from pan_scdg.research.study import StudyOptions, produce_report, warn_about_lost, write_files
from pan_scdg.retrieval.candidate_files import write_stages
from pan_scdg.retrieval.candidates import FirstStage
from pan_scdg.scdg.aggregation import GainStatistics
from pan_scdg.scoring.candidates import Target, plan_targets, score_candidates
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.store import Store


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


class Reranker(NamedTuple):
    """The language model, with the queries as targets."""

    model: ScoringModel
    targets: Sequence[Target]


class Prepared(NamedTuple):
    """The data and models of the study, checked, before anything is computed or written."""

    data: Data
    reranker: Reranker | None
    computing: Computing


def _prepare(study: RetrievalStudy, notices: Notices) -> Prepared:
    """Read the data, find the model, and tokenise the queries.

    Raises:
        UserError: data or model are not usable, or a shard or a plan is asked for where nothing is reranked.
    """
    options, settings = study.options, study.profile.need_retrieval()
    computing = options.choose_computing(study.profile)
    data = read_data(options, study.rows, settings, study.search_on is not None, notices)
    if study.search_on is None:
        if not options.reports or options.shards is not None:
            raise UserError("no row is reranked, so that the model scores nothing", "name a row with --rerank")
        return Prepared(data, None, computing)
    reranker, lost = open_reranker(study, computing, data.queries, notices)
    return Prepared(data.leave_out(lost) if lost else data, reranker, computing)


def open_reranker(
    study: RetrievalStudy,
    computing: Computing,
    queries: Sequence[Query],
    notices: Notices,
    name: str = "language_model",
) -> tuple[Reranker, dict[str, str]]:
    """Find the model and tokenise the queries; return also why some of these cannot be scored.

    Args:
        study: its profile has the model.
        computing: how it computes.
        queries: all queries.
        notices: collects the queries that are cut.
        name: the name of the model in the job.

    Raises:
        UserError: the model is not usable, or a query cannot be scored and none may be left out.
    """
    options, settings = study.options, study.profile.need_retrieval()
    model = options.open_model(study.profile.need_model(), computing, name, "retrieval")
    model.check_length(settings.context, "retrieval.context")
    targets, errors = plan_targets(queries, model, settings, study.folder / "queries.jsonl", notices)
    if errors and options.on_error == "stop":
        raise UserErrors(list(errors.values()))
    return Reranker(model, targets), {query: error.what for query, error in errors.items()}


def study_retrieval(study: RetrievalStudy) -> list[str]:
    """Carry out the study, or score one shard of it; return the lines to show the user.

    Raises:
        UserError: data, settings, models or output are not usable; the output is unchanged then.
    """
    options, notices = study.options, Notices()
    prepared = _prepare(study, notices)
    places = find_places(study, prepared.reranker)
    identity = options.identify(describe_scoring(study, prepared, places), {})
    models = [] if prepared.reranker is None else [prepared.reranker.model]
    lines = produce_report(
        options,
        identity,
        places,
        models,
        lambda store, folder, job: _compute(study, prepared, store, folder, job),
        f"{len(study.rows)} rankings",
    )
    return [*notices.list_warnings(), *warn_about_lost(len(prepared.data.lost), "queries"), *lines]


def plan_retrieval(study: RetrievalStudy) -> tuple[list[Plan], list[str]]:
    """Return the cost of the model, and the lines to show; nothing is written.

    Candidates of a first stage are not known yet: each query is assumed to have its own sources.

    Raises:
        UserError: the study would be refused.
    """
    notices, whole = Notices(), _score_all(study)
    prepared = _prepare(study, notices)
    data, reranker = prepared.data, prepared.reranker
    if reranker is None:
        raise ValueError("a plan of nothing")
    given = {name: run.stages for name, run in data.runs.items()}
    candidates = {query.query_id: FirstStage({}, []) for query in data.queries}
    for rest in _list_new_candidates(study, {row: given[row] for row in given}):
        for query, stage in rest.items():
            candidates[query].candidates.extend(stage.candidates)
    searched = [row for row in study.rows if row.reranked and row.run is None]
    targets = list({target.text.digest: target for target in reranker.targets}.values())
    wanted = None if searched else group_by_source(targets, candidates, whole)
    each = min(study.profile.need_retrieval().scored or whole.depth, whole.depth, len(data.corpus))
    pairs = sum(len(of.candidates) for of in candidates.values()) + len(searched) * len(data.queries) * each
    in_all = pairs if wanted is None else sum(map(len, wanted.values()))
    notes = [f"{len(data.lost)} queries cannot be scored and will be left out"] if data.lost else []
    notes += list(NOT_KNOWN) if searched else []
    with closing(reranker.model) as model:
        counted = count_candidates(data.corpus, targets, wanted, in_all, whole, model)
        found = make_plan("studies retrieval", study.profile.name, prepared.computing, model, counted, pairs, notes)
    return [replace(found, queries=len(data.queries), documents=len(data.corpus))], notices.list_warnings()


def find_places(study: RetrievalStudy, reranker: Reranker | None) -> dict[str, FoundModel]:
    """Return the folders of the models that the result depends on, by name.

    Raises:
        UserError: an encoder of a row is missing.
    """
    places = {} if reranker is None else {"language_model": reranker.model.found}
    for settings in (row.settings for row in study.rows if row.settings is not None):
        if not all(route.startswith("bm25") for route in settings.routes):
            places[settings.need_dense().model] = find_encoder(settings.need_dense().model)
    return places


def describe_scoring(study: RetrievalStudy, prepared: Prepared, places: Mapping[str, FoundModel]) -> dict[str, Any]:
    """Return everything that the bytes of the report, or of a shard, depend on, without paths."""
    data, reranker = prepared.data, prepared.reranker
    folds = {"sha256": hash_text(format_folds(data.folds)), **describe_origin(data.folds_file)}
    encoders = {name: fingerprint_folder(of.folder) for name, of in places.items() if name != "language_model"}
    model = None if reranker is None else reranker.model.identify()
    return {
        "task": "studies retrieval",
        "input": hash_input(study.folder, "retrieval", data.corpus.digest),
        "qrels": hash_file(study.folder / QRELS),
        "folds": folds if data.folds else None,
        "profile": study.profile.model_dump(mode="json", exclude={"needs_gpu"}),
        "rows": [row.identify() for row in study.rows],
        "search_on": study.search_on,
        "models": {"language_model": model, "encoders": encoders},
        "device": prepared.computing.device,
        "engine": prepared.computing.engine,
        "on_error": study.options.on_error,
    }


def _compute(
    study: RetrievalStudy, prepared: Prepared, store: Store, folder: Path, job: Mapping[str, Any]
) -> list[str]:
    """Search, score, rerank and evaluate; return the names of the files written into ``folder``, the page last.

    A shard has the first stages and its scores.
    """
    data, reranker = prepared.data, prepared.reranker
    found = find_stages(study, prepared, store)
    searched = dict(found)
    orders = {name: list_documents(stages) for name, stages in found.items()}
    for name, run in data.runs.items():
        found[name], orders[name] = run.stages, run.order
    stages = {row.name: found[row.name] for row in study.rows if row.reranked}
    scored: Scored = {}
    if reranker is not None:
        with closing(reranker.model):
            scored = score_rows(study, data.corpus, reranker, stages, store)
    if study.options.share is not None:
        return [*write_first_stages(study, searched, folder), *write_shard(folder, store)]
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
        len(data.corpus),
        len(data.queries),
        len(data.qrels),
        data.folds,
        data.folds_file is None,
        study.search_on,
        list(data.runs),
        data.lost,
    )
    return write_report(folder, make_report(setting, rows, rankings, files, {"study": "retrieval", **job}))


def find_stages(study: RetrievalStudy, prepared: Prepared, store: Store) -> dict[str, Stages]:
    """Return the first stage of each row that has one: searched, or from the shards."""
    queries, shards = prepared.data.queries, study.options.shards
    if shards is None:
        memory = choose_search_memory() << 20
        computing = prepared.computing
        search = Search(prepared.data.corpus, study.index, computing.device, memory, computing.cluster)
        return {**search_all(study.rows, queries, search, store)}
    found: dict[str, Stages] = {}
    for name, file in _name_stage_files(study).items():
        found[name] = shards.read_candidates((query.query_id for query in queries), file)
        check_documents(list_documents(found[name]), prepared.data.corpus, shards.folders[0] / file)
    return found


def write_first_stages(study: RetrievalStudy, found: Mapping[str, Stages], folder: Path) -> list[str]:
    """Write the first stages, which every shard has; return the names of the files."""
    files = _name_stage_files(study)
    for name, file in files.items():
        write_stages(folder / file, found[name])
    return list(files.values())


def _name_stage_files(study: RetrievalStudy) -> dict[str, str]:
    """Return the file of each row's first stage in a shard."""
    searched = [row.name for row in study.rows if row.settings is not None]
    return {name: f"candidates-{number:02d}.jsonl.gz" for number, name in enumerate(searched, 1)}


def _score_all(study: RetrievalStudy) -> RetrievalSettings:
    """Return the profile's settings such that every given candidate is scored."""
    return study.profile.need_retrieval().model_copy(update={"rerank": True, "scored": None})


def _list_new_candidates(study: RetrievalStudy, stages: Mapping[str, Stages]) -> Iterator[dict[str, FirstStage]]:
    """Yield, for each reranked row of ``stages``, the candidates to score that no row before it has.

    The row of the profile's own first stage is the first: its scores are those of ``run``, and each serves the other.
    """
    settings, known = study.profile.need_retrieval(), set[tuple[str, str]]()
    reranked = [row for row in study.rows if row.reranked and row.name in stages]
    for row in sorted(reranked, key=lambda row: not row.searches_as(settings)):
        rest = drop_scored(known, stages[row.name], settings.scored)
        known |= {(query_id, c.doc_id) for query_id, stage in rest.items() for c in stage.candidates}
        yield rest


def score_rows(
    study: RetrievalStudy, corpus: Corpus, reranker: Reranker, stages: Mapping[str, Stages], store: Store
) -> Scored:
    """Return the gains of the candidates of all rows, each scored once; with a shard, those of its documents.

    The batch moves the last digits and is part of a stored score's key. Therefore rows are scored one after the other.
    """
    scored, share = dict[tuple[str, str], tuple[GainStatistics, str]](), study.options.share
    for rest in _list_new_candidates(study, stages):
        scored |= score_candidates(
            corpus, reranker.targets, rest, reranker.model, _score_all(study), store, False, share
        )
    return scored
