"""``studies retrieval``: first stages on the PAN26 data, before and after reranking."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple

from pan_scdg.digests import hash_file, hash_text
from pan_scdg.errors import UserError, UserErrors
from pan_scdg.jobs.lifecycle import Scored
from pan_scdg.jobs.output.directory import OutputDirectory
from pan_scdg.jobs.plan.count import count_candidates
from pan_scdg.jobs.plan.estimate import NOT_KNOWN, Plan, make_plan
from pan_scdg.models.encoder import Encoder
from pan_scdg.models.find import FoundModel, find_encoder
from pan_scdg.models.fingerprint import fingerprint_folder
from pan_scdg.models.fit import choose_search_memory
from pan_scdg.notices import Notices
from pan_scdg.pan.inputs import hash_input
from pan_scdg.profile import RetrievalSettings
from pan_scdg.records import Query
from studies.data.prepared import describe_origin
from studies.data.queries import format_folds
from studies.report.page import write_report
from studies.retrieval.comparison import compare_rows, make_rankings
from studies.retrieval.data import (
    QRELS,
    Data,
    RetrievalStudy,
    Stages,
    check_documents,
    list_documents,
    read_data,
)
from studies.retrieval.report import FOLDS, TITLE, make_sections, write_gains, write_runs
from studies.study import ReadyStudy, note_lost, write_files
from pan_scdg.retrieval.candidates import FirstStage, find_candidates, load_retrieval_encoder
from pan_scdg.retrieval.catalogue import ReadyIndex, check_index
from pan_scdg.scoring.batches import Shard
from pan_scdg.scoring.candidates import Found, Target, plan_targets, score_candidates
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.store import Store


class Reranker(NamedTuple):
    """The language model of a study, with the queries as targets."""

    study: RetrievalStudy
    model: ScoringModel
    targets: Sequence[Target]

    @property
    def score_all(self) -> RetrievalSettings:
        """Return the profile's settings such that every given candidate is scored."""
        return self.study.profile.need_retrieval().model_copy(update={"rerank": True, "scored": None})


def prepare_retrieval(study: RetrievalStudy, stack: ExitStack, notices: Notices) -> ReadyStudy:
    """Read the data, find the model, and tokenise the queries.

    Raises:
        UserError: data or model are not usable, or a shard or a plan is asked for where nothing is reranked.
    """
    options = study.options
    data, reranker = read_data(study, study.search_on is not None, notices), None
    if study.search_on is not None:
        reranker, lost = open_reranker(study, data.queries, stack, notices)
        data = data.leave_out(lost) if lost else data
    elif not options.reports:
        raise UserError("no row is reranked, so that the model scores nothing", "name a row with --rerank")
    places = find_places(study, reranker)
    return ReadyStudy(
        scoring=describe_scoring(study, data, reranker, places),
        places=places,
        models=[] if reranker is None else [reranker.model],
        inputs=f"{len(study.rows)} rankings",
        summary=[f"studied {len(study.rows)} rankings: {options.output}"],
        notices=notices,
        notes=note_lost(len(data.lost), "queries"),
        score=lambda store, shard: _score(study, data, reranker, store, shard),
        write=lambda scored, store, result: _write(study, data, scored.values, store, result),
        plan=lambda: [] if reranker is None else [plan_scoring(data, reranker)],
    )


def open_reranker(
    study: RetrievalStudy,
    queries: Sequence[Query],
    stack: ExitStack,
    notices: Notices,
    name: str = "language_model",
) -> tuple[Reranker, dict[str, str]]:
    """Find the model, whose name in the job is ``name``, and tokenise the queries; return why some cannot be scored.

    Raises:
        UserError: the model is not usable, or a query cannot be scored and none may be left out.
    """
    options, settings = study.options, study.profile.need_retrieval()
    model = options.open_model(study.profile.need_model(), stack, name)
    model.check_length(settings.context, "retrieval.context")
    targets, errors = plan_targets(queries, model, settings, study.folder / "queries.jsonl", notices)
    if errors and options.on_error == "stop":
        raise UserErrors(list(errors.values()))
    return Reranker(study, model, targets), {query: error.what for query, error in errors.items()}


def plan_scoring(data: Data, reranker: Reranker, task: str = "studies retrieval") -> Plan:
    """Return the cost of the model.

    Candidates of a first stage are not known yet: each query is assumed to have its own sources.
    """
    study, whole = reranker.study, reranker.score_all
    candidates = {query.query_id: FirstStage({}, []) for query in data.queries}
    for rest in _list_new_candidates(study, {name: run.stages for name, run in data.runs.items()}):
        for query, stage in rest.items():
            candidates[query].candidates.extend(stage.candidates)
    searched = [row for row in study.rows if row.reranked and row.run is None]
    each = min(study.profile.need_retrieval().scored or whole.depth, whole.depth, len(data.corpus))
    pairs = sum(len(of.candidates) for of in candidates.values()) + len(searched) * len(data.queries) * each
    notes = [*note_lost(len(data.lost), "queries"), *(NOT_KNOWN if searched else ())]
    known = None if searched else candidates
    counted = count_candidates(data.corpus, reranker.targets, known, pairs, whole, reranker.model)
    plan = make_plan(task, study.profile.name, study.options.computing, reranker.model, counted, pairs, notes)
    return replace(plan, queries=len(data.queries), documents=len(data.corpus))


def find_places(study: RetrievalStudy, reranker: Reranker | None) -> dict[str, FoundModel]:
    """Return the folders of the models that the result depends on, by name; a plan searches with no encoder.

    Raises:
        UserError: an encoder of a row is missing.
    """
    places = {} if reranker is None else {"language_model": reranker.model.found}
    rows = () if study.options.plan else study.rows
    for settings in (row.settings for row in rows if row.settings is not None):
        if not all(route.startswith("bm25") for route in settings.routes):
            places[settings.need_dense().model] = find_encoder(settings.need_dense().model)
    return places


def describe_scoring(
    study: RetrievalStudy, data: Data, reranker: Reranker | None, places: Mapping[str, FoundModel]
) -> dict[str, Any]:
    """Return everything that the bytes of the report, or of a shard, depend on, without paths."""
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
        **study.options.describe(),
    }


def _score(study: RetrievalStudy, data: Data, reranker: Reranker | None, store: Store, shard: Shard) -> Scored:
    """Search, and score the candidates of a shard."""
    found = find_stages(study, data, store)
    stages = {row.name: found[row.name] for row in study.rows if row.reranked}
    scored = {} if reranker is None else score_rows(data, reranker, stages, store, shard)
    return Scored((found, stages, scored), {file: found[name] for name, file in name_stage_files(study).items()})


def _write(study: RetrievalStudy, data: Data, values: Any, store: Store, result: OutputDirectory) -> list[str]:
    """Rerank and evaluate; return the names of the staged files, the page last."""
    (found, stages, scored), folder = values, result.staged
    orders = {name: list_documents(of) for name, of in found.items()}
    orders |= {name: run.order for name, run in data.runs.items()}
    runs, frozen = make_rankings(study, data, orders, stages, scored, store)
    rows = compare_rows(data.qrels, runs)
    files = [*write_runs(folder, runs), *(write_gains(folder, scored) if scored else [])]
    if data.folds:
        files += write_files(folder, {FOLDS: format_folds(data.folds)})
    sections = make_sections(study, data, rows, frozen)
    return write_report(folder, TITLE, sections, files, {"study": "retrieval", **result.job})


def find_stages(study: RetrievalStudy, data: Data, store: Store) -> dict[str, Stages]:
    """Return the candidates of each row: those of a run, of the shards, or of a search."""
    shards = study.options.computing.shards
    found: dict[str, Stages] = {name: run.stages for name, run in data.runs.items()}
    if not shards.folders:
        return found | search_all(study, data, store)
    queries = [query.query_id for query in data.queries]
    for name, file in name_stage_files(study).items():
        found[name] = shards.read_candidates(queries, file)
        check_documents(list_documents(found[name]), data.corpus, shards.folders[0] / file)
    return found


def search_all(study: RetrievalStudy, data: Data, store: Store) -> dict[str, Stages]:
    """Return the first stage of every row that has settings, by name; one encoder is in memory at a time.

    Raises:
        UserError: an encoder is missing, or an index does not exist or cannot be made.
    """
    computing, memory = study.options.computing, choose_search_memory() << 20

    def search(settings: RetrievalSettings, encoder: Encoder | None, index: ReadyIndex | None) -> dict[str, FirstStage]:
        return find_candidates(data.corpus, data.queries, settings, encoder, store, index, memory, computing.cluster)

    settings_by = [(row.name, row.settings) for row in study.rows if row.settings is not None]
    found: dict[str, Stages] = {}
    for key in dict.fromkeys(_name_encoder(settings) for _, settings in settings_by):
        same = [(name, settings) for name, settings in settings_by if _name_encoder(settings) == key]
        encoder = load_retrieval_encoder(same[0][1], computing.device)
        for name, settings in same:
            index = None if study.index is None else check_index(study.index, data.corpus, settings, encoder)
            # route by route, so that one that another row has searched already is not searched again
            for route in settings.routes:
                alone = settings.model_copy(update={"routes": (route,), "fusion": "none"})
                search(alone, None if route.startswith("bm25") else encoder, index)
            found[name] = search(settings, encoder, index)
        if encoder is not None:
            encoder.release()
    return found


def _name_encoder(settings: RetrievalSettings) -> tuple[str, int, str | None] | None:
    if all(route.startswith("bm25") for route in settings.routes):
        return None
    dense = settings.need_dense()
    return dense.model, dense.batch, dense.dtype


def name_stage_files(study: RetrievalStudy) -> dict[str, str]:
    """Return the file of each row's first stage in a shard."""
    searched = [row.name for row in study.rows if row.settings is not None]
    return {name: f"candidates-{number:02d}.jsonl.gz" for number, name in enumerate(searched, 1)}


def _list_new_candidates(study: RetrievalStudy, stages: Mapping[str, Stages]) -> Iterator[dict[str, FirstStage]]:
    """Yield, for each reranked row of ``stages``, the candidates to score that no row before it has.

    The row of the profile's own first stage is the first: its scores are those of ``run``, and each serves the other.
    """
    settings, known = study.profile.need_retrieval(), set[tuple[str, str]]()
    reranked = [row for row in study.rows if row.reranked and row.name in stages]
    for row in sorted(reranked, key=lambda row: not row.searches_as(settings)):
        rest = {
            query_id: FirstStage({}, [c for c in of.candidates[: settings.scored] if (query_id, c.doc_id) not in known])
            for query_id, of in stages[row.name].items()
        }
        known |= {(query_id, c.doc_id) for query_id, stage in rest.items() for c in stage.candidates}
        yield rest


def score_rows(data: Data, reranker: Reranker, stages: Mapping[str, Stages], store: Store, shard: Shard) -> Found:
    """Return the gains of the candidates of all rows, each scored once; with a shard, those of its documents.

    The batch moves the last digits and is part of a stored score's key. Therefore rows are scored one after the other.
    """
    scored, settings = Found(), reranker.score_all
    for rest in _list_new_candidates(reranker.study, stages):
        scored |= score_candidates(data.corpus, reranker.targets, rest, reranker.model, settings, store, False, shard)
    reranker.model.unload()  # another model may need the memory
    return scored
