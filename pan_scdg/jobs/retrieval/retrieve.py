"""Source retrieval: read corpus and queries, write ``run.txt.gz`` and ``scores.jsonl.gz`` (paper, PAN26)."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg import __version__
from pan_scdg.cluster.session import Cluster
from pan_scdg.errors import UserError
from pan_scdg.jobs.lifecycle import ReadyJob, Scored, carry_out
from pan_scdg.jobs.output.directory import OutputDirectory
from pan_scdg.jobs.output.mark import Partial
from pan_scdg.jobs.requests import PAGE, Computing, FirstStageOptions, Request, describe_job, take_first
from pan_scdg.jobs.retrieval.report import list_report_queries, read_sources
from pan_scdg.jobs.retrieval.results import RUN, ScoredCandidates, write_ranking
from pan_scdg.jobs.retrieval.small_model import SmallModel, open_small_model
from pan_scdg.jobs.shards import Shards
from pan_scdg.logs import say
from pan_scdg.models.encoder import Encoder
from pan_scdg.models.find import FoundModel, find_encoder
from pan_scdg.models.fingerprint import fingerprint_folder
from pan_scdg.notices import Notices
from pan_scdg.pan.corpus import Corpus
from pan_scdg.pan.inputs import hash_input
from pan_scdg.pan.source_retrieval import read_queries
from pan_scdg.profile import EncoderDtype, Profile, RetrievalSettings
from pan_scdg.progress import format_count
from pan_scdg.records import Query
from pan_scdg.report.query_page import write_query_page
from pan_scdg.report.setting import Setting, describe_setting
from pan_scdg.retrieval.candidate_files import CANDIDATES, explain_scores, hash_candidates, read_candidates
from pan_scdg.retrieval.candidates import FirstStage, find_candidates, load_retrieval_encoder
from pan_scdg.retrieval.catalogue import ReadyIndex, check_index
from pan_scdg.scdg.aggregation import choose_aggregate
from pan_scdg.scoring.baseline_registry import BaselineParts, find_encoder_parts
from pan_scdg.scoring.batches import Shard
from pan_scdg.scoring.candidates import Target, prepare_targets, score_candidates
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.sentence_match import SentenceMatcher
from pan_scdg.scoring.token_offsets import make_locator
from pan_scdg.store import Store


class Prepared(NamedTuple):
    """The checked input, models and settings of a run, before anything is computed or written."""

    profile: str
    settings: RetrievalSettings
    notices: Notices
    queries: Sequence[Query]
    partial: Partial | None
    model: ScoringModel | None
    targets: list[Target]
    given: dict[str, FirstStage] | None
    """Candidates of the user or of the shards; None: they are searched."""
    encoder: Encoder | None
    encoder_dtype: EncoderDtype | None
    """That of the shards in a merge."""
    corpus: Corpus
    places: Mapping[str, FoundModel]
    """The models that the result depends on, by their names in the job."""
    matching: BaselineParts | None = None
    """The encoder of the sentence match."""
    small: SmallModel | None = None
    """The small model of the cascade."""
    ready: ReadyIndex | None = None
    """The index of the user; None: indexes are built in the folder of the store."""

    def identify(self) -> dict[str, Any]:
        """Return the fields that identify the models in the job."""
        scoring = {"language_model": self.model, "small_model": None if self.small is None else self.small.model}
        found: dict[str, Any] = {name: model.identify() for name, model in scoring.items() if model is not None}
        if self.matching is not None:
            found["sentence_encoder"] = self.matching.identity["embedding_model"]
        if (place := self.places.get("encoder")) is not None:
            weights = fingerprint_folder(place.folder) if self.encoder is None else self.encoder.fingerprint
            found["encoder"] = {"weights": weights, "dtype": self.encoder_dtype}
        return found

    def make_matcher(self, store: Store) -> SentenceMatcher | None:
        """Return the matcher of sentences of queries and candidates, if the profile has one."""
        settings = self.settings.match
        if self.matching is None or settings is None:
            return None
        return SentenceMatcher(settings, self.matching.make_alignment(settings, store), store, self.queries)


def prepare(profile: Profile, request: Request, computing: Computing, stages: FirstStageOptions) -> Prepared:
    """Read the input, and find the models and the indexes.

    Raises:
        UserError: input or settings are not usable.
    """
    settings, shards = profile.need_retrieval(), computing.shards
    if stages.stop:
        settings = settings.model_copy(update={"rerank": False})
    notices = Notices(request.strict)
    asked = read_queries(request.input, notices)
    queries, partial = take_first(asked, request.limit, "queries")
    model, targets, small = None, [], None
    if settings.rerank:
        if settings.cascade is not None and request.shard is not None:
            raise UserError(
                f"profile {profile.name} has a cascade, whose second model waits for all scores of the first",
                "run it whole: without --shard",
            )
        model = computing.open_model(profile.need_model(), "retrieval")
        model.check_length(settings.context, "retrieval.context")
        where = request.input / "queries.jsonl"
        targets = prepare_targets(queries, model, settings, where, notices)
        small = open_small_model(profile, computing, queries, where, notices)
    given = _read_given(asked, queries, settings, stages, shards, notices)
    corpus = Corpus(request.input, notices)
    if given is not None:
        check_candidates(given, corpus, "give a run over this corpus", stages.candidates)
    encoder, matching, ready, dtype = None, None, None, shards.read_encoder_dtype()
    if not computing.gpus:  # a plan for them only counts
        if given is None:
            encoder = load_retrieval_encoder(settings, computing.device)
            dtype = None if encoder is None else encoder.dtype
            if stages.index is not None:
                ready = check_index(stages.index, corpus, settings, encoder)
        if settings.rerank and settings.match is not None:
            matching = find_encoder_parts(settings.match.model, computing.device, "retrieval")
    places = _list_places(model, small, matching)
    if dtype is not None:
        places["encoder"] = find_encoder(settings.need_dense().model)
    return Prepared(
        profile.name,
        settings,
        notices,
        queries,
        partial,
        model,
        targets,
        given,
        encoder,
        dtype,
        corpus,
        places,
        matching,
        small,
        ready,
    )


def _read_given(
    asked: Sequence[Query],
    queries: Sequence[Query],
    settings: RetrievalSettings,
    stages: FirstStageOptions,
    shards: Shards,
    notices: Notices,
) -> dict[str, FirstStage] | None:
    """Return the candidates of the user or of the shards; None: they are searched."""
    if stages.candidates is not None:
        return read_candidates(stages.candidates, queries, settings, notices, {query.query_id for query in asked})
    return shards.read_candidates([query.query_id for query in queries]) if shards.folders else None


def _list_places(
    model: ScoringModel | None, small: SmallModel | None, matching: BaselineParts | None
) -> dict[str, FoundModel]:
    """Return the models other than the encoder of the dense routes."""
    places = {} if model is None else {"language_model": model.found}
    places |= {} if small is None else {"small_model": small.model.found}
    return places | ({} if matching is None else {"sentence_encoder": matching.places["embedding_model"]})


def retrieve_sources(
    profile: Profile, request: Request, computing: Computing, stages: FirstStageOptions | None = None
) -> list[str]:
    """Rank the corpus for every query and write the results; return the lines to show the user.

    Args:
        profile: has the settings of a first stage and, to rerank, a model.
        request: input, output and options.
        computing: model folder, device and engine, or shards with all scores and candidates.
        stages: options of the first stage; None: defaults.

    Raises:
        UserError: input, settings or output are not usable; no result is published.
    """
    stages = stages or FirstStageOptions()
    prepared = prepare(profile, request, computing, stages)
    given = None if stages.candidates is None else hash_candidates(stages.candidates)
    small, count = prepared.small, format_count(len(prepared.queries), "query")
    done = "ranked sources" if prepared.settings.rerank else "found candidates"
    page = [f"report: {request.output / PAGE}"] if request.report else []
    job = ReadyJob(
        scoring=describe_job(
            "retrieval",
            profile,
            request=request,
            input_digest=hash_input(request.input, "retrieval", prepared.corpus.digest),
            models=prepared.identify(),
            device=computing.device,
            engine=computing.engine,
            stop_after="first-stage" if stages.stop else None,
            candidates=computing.shards.job.get("candidates", given),
            partial=prepared.partial,
        ),
        rest={"report": __version__} if request.report else {},
        metadata=request.metadata,
        places=prepared.places,
        models=[model for model in (prepared.model, small and small.model) if model is not None],
        inputs=f"the candidates of {count}",
        summary=[f"{done} of {count}: {request.output / RUN}", *page],
        notices=prepared.notices,
        score=lambda store, shard: _score(request, stages, prepared, store, computing.cluster, shard),
        write=lambda scored, store, result: _stage_results(request, prepared, scored.values, store, result),
        partial=prepared.partial,
    )
    return carry_out(job, request.output, request.overwrite, request.shard, computing.shards, computing.state)


def _score(
    request: Request, stages: FirstStageOptions, prepared: Prepared, store: Store, cluster: Cluster, shard: Shard
) -> Scored:
    """Find the candidates of all queries, and score those of a shard."""
    settings, corpus = prepared.settings, prepared.corpus
    if stages.candidates is not None:
        say(explain_scores(stages.candidates))
    found = prepared.given
    if found is None:
        memory = stages.search_memory << 20
        found = find_candidates(
            corpus, prepared.queries, settings, prepared.encoder, store, prepared.ready, memory, cluster
        )
        check_candidates(found, corpus, "rebuild the index, or delete the state", stages.index or store.folder)
    if prepared.encoder is not None:
        prepared.encoder.release()  # the language model needs the memory
    features, matcher, cascade = {}, prepared.make_matcher(store), None
    if prepared.small is not None:
        cascade = prepared.small.choose_heads(corpus, found, store, matcher)
    if prepared.model is not None:
        with closing(prepared.model) as model:
            scored = found if cascade is None else cascade.heads
            features = score_candidates(
                corpus, prepared.targets, scored, model, settings, store, request.keep_gains, shard, matcher
            )
    return Scored(ScoredCandidates(found, features, matcher, cascade), {CANDIDATES: found})


def _stage_results(
    request: Request, prepared: Prepared, scored: ScoredCandidates, store: Store, result: OutputDirectory
) -> list[str]:
    """Rank the candidates, and stage the results; return their names."""
    settings, model, aggregate = prepared.settings, prepared.model, choose_aggregate(prepared.settings)
    stored = request.keep_gains or (aggregate is not None and aggregate.entry.joint)
    locator = make_locator(model) if model is not None and stored else None
    files = write_ranking(
        result.staged, prepared.corpus, prepared.queries, scored, settings, store, locator, request.keep_gains
    )
    return [*([_write_page(prepared, scored.found, result)] if request.report else []), *files]


def _write_page(prepared: Prepared, found: Mapping[str, FirstStage], result: OutputDirectory) -> str:
    """Write the page about the staged results; return the name of the file."""
    facts = describe_setting(Setting(prepared.profile, None, prepared.places, result.job["models"]))
    warnings = [] if prepared.partial is None else [prepared.partial.format_warning().removeprefix("warning: ")]
    shown = list(list_report_queries(result.staged, prepared.queries, found))
    documents, page = read_sources(prepared.corpus, shown), result.staged / PAGE
    write_query_page(shown, documents, {**facts, "queries": len(prepared.queries)}, warnings, page)
    return PAGE


def check_candidates(stages: Mapping[str, FirstStage], corpus: Corpus, remedy: str, where: Path | None = None) -> None:
    """Raise UserError if a candidate is not in the corpus, since runs, indexes and states are untrusted."""
    if unseen := {c.doc_id for stage in stages.values() for c in stage.candidates} - corpus.ids:
        what = f"{len(unseen)} candidates are not in the corpus, for example {min(unseen)!r}"
        raise UserError(what, remedy, where)
