"""Source retrieval: read corpus and queries, write ``run.txt.gz`` and ``scores.jsonl.gz`` (paper, PAN26)."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pan_scdg import __version__
from pan_scdg.errors import UserError
from pan_scdg.jobs.lifecycle import ReadyJob, Scored, carry_out
from pan_scdg.jobs.output.directory import OutputDirectory
from pan_scdg.jobs.output.mark import Partial
from pan_scdg.jobs.requests import PAGE, Computing, FirstStageOptions, Request, describe_job, take_first
from pan_scdg.jobs.retrieval.cascade import SmallModel, open_small_model
from pan_scdg.jobs.retrieval.report import list_report_queries, read_sources
from pan_scdg.jobs.retrieval.results import RUN, ScoredCandidates, write_ranking
from pan_scdg.logs import say
from pan_scdg.models.encoder import Encoder
from pan_scdg.models.find import FoundModel, find_encoder
from pan_scdg.models.fingerprint import fingerprint_folder
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.pan.inputs import hash_input
from pan_scdg.pan.source_retrieval import read_queries
from pan_scdg.profile import EncoderDtype, Profile, RetrievalSettings
from pan_scdg.progress import format_count
from pan_scdg.records import Query
from pan_scdg.report.query_page import write_query_page
from pan_scdg.report.wording import describe_method
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


@dataclass(frozen=True)
class Retrieval:
    """A job of source retrieval: the checked input, settings and models, before anything is computed or written."""

    profile: Profile
    request: Request
    computing: Computing
    stages: FirstStageOptions
    settings: RetrievalSettings
    """Those of the profile; without reranking if only the first stage is asked for."""
    queries: Sequence[Query]
    partial: Partial | None
    corpus: Corpus
    given: dict[str, FirstStage] | None
    """Candidates of the user or of the shards; None: they are searched."""
    model: ScoringModel | None
    targets: list[Target]
    """The queries as tokens of the model."""
    small: SmallModel | None
    """The small model of the cascade."""
    matching: BaselineParts | None
    """The encoder of the sentence match."""
    encoder: Encoder | None
    encoder_dtype: EncoderDtype | None
    """That of the shards in a merge."""
    ready: ReadyIndex | None
    """The index of the user; None: indexes are built in the folder of the store."""
    notices: Notices

    @property
    def models(self) -> dict[str, ScoringModel]:
        """Return the language models by their names in the job."""
        found = {"language_model": self.model, "small_model": None if self.small is None else self.small.model}
        return {name: model for name, model in found.items() if model is not None}

    @cached_property
    def places(self) -> dict[str, FoundModel]:
        """Return all models that the result depends on, by their names in the job."""
        found = {name: model.found for name, model in self.models.items()}
        if self.matching is not None:
            found["sentence_encoder"] = self.matching.places["embedding_model"]
        if self.encoder_dtype is not None:
            found["encoder"] = find_encoder(self.settings.need_dense().model)
        return found

    def identify(self) -> dict[str, Any]:
        """Return the fields that identify the models in the job."""
        found: dict[str, Any] = {name: model.identify() for name, model in self.models.items()}
        if self.matching is not None:
            found["sentence_encoder"] = self.matching.identity["embedding_model"]
        if (place := self.places.get("encoder")) is not None:
            weights = fingerprint_folder(place.folder) if self.encoder is None else self.encoder.fingerprint
            found["encoder"] = {"weights": weights, "dtype": self.encoder_dtype}
        return found

    def describe_job(self) -> dict[str, Any]:
        """Return all fields that scores and rankings depend on."""
        stages, computing = self.stages, self.computing
        given = None if stages.candidates is None else hash_candidates(stages.candidates)
        return describe_job(
            "retrieval",
            self.profile,
            request=self.request,
            input_digest=hash_input(self.request.input, "retrieval", self.corpus.digest),
            models=self.identify(),
            device=computing.device,
            engine=computing.engine,
            stop_after="first-stage" if stages.stop else None,
            candidates=computing.shards.job.get("candidates", given),
            partial=self.partial,
        )

    def make_matcher(self, store: Store) -> SentenceMatcher | None:
        """Return the matcher of sentences of queries and candidates, if the profile has one."""
        settings = self.settings.match
        if self.matching is None or settings is None:
            return None
        return SentenceMatcher(settings, self.matching.make_alignment(settings, store), store, self.queries)

    def score(self, store: Store, shard: Shard) -> Scored:
        """Find the candidates of all queries, and score those of a shard."""
        settings, corpus, stages, found = self.settings, self.corpus, self.stages, self.given
        if stages.candidates is not None:
            say(explain_scores(stages.candidates))
        if found is None:
            memory = stages.search_memory << 20
            found = find_candidates(
                corpus, self.queries, settings, self.encoder, store, self.ready, memory, self.computing.cluster
            )
            check_candidates(found, corpus, "rebuild the index, or delete the state", stages.index or store.folder)
        if self.encoder is not None:
            self.encoder.release()  # the language model needs the memory
        features, matcher, cascade = {}, self.make_matcher(store), None
        if self.small is not None:
            cascade = self.small.choose_heads(corpus, found, store, matcher)
        if self.model is not None:
            scored, keep = found if cascade is None else cascade.heads, self.request.keep_gains
            with closing(self.model) as model:
                features = score_candidates(corpus, self.targets, scored, model, settings, store, keep, shard, matcher)
        return Scored(ScoredCandidates(found, features, matcher, cascade), {CANDIDATES: found})

    def write(self, scored: Scored, store: Store, result: OutputDirectory) -> list[str]:
        """Rank the candidates, and stage the results; return their names."""
        aggregate, keep = choose_aggregate(self.settings), self.request.keep_gains
        stored = keep or (aggregate is not None and aggregate.entry.joint)
        locator = make_locator(self.model) if self.model is not None and stored else None
        files = write_ranking(
            result.staged, self.corpus, self.queries, scored.values, self.settings, store, locator, keep
        )
        return [*([self.write_page(scored.values.found, result)] if self.request.report else []), *files]

    def write_page(self, found: Mapping[str, FirstStage], result: OutputDirectory) -> str:
        """Write the page about the staged results; return the name of the file."""
        facts = describe_method(self.profile.name, self.places, result.job["models"])
        warnings = [] if self.partial is None else [self.partial.format_warning().removeprefix("warning: ")]
        shown = list(list_report_queries(result.staged, self.queries, found))
        documents, page = read_sources(self.corpus, shown), result.staged / PAGE
        write_query_page(shown, documents, {**facts, "queries": len(self.queries)}, warnings, page)
        return PAGE


def prepare(profile: Profile, request: Request, computing: Computing, stages: FirstStageOptions) -> Retrieval:
    """Read the input, and find the models and the indexes.

    Raises:
        UserError: input or settings are not usable.
    """
    settings, shards, notices = profile.need_retrieval(), computing.shards, Notices(request.strict)
    if stages.stop:
        settings = settings.model_copy(update={"rerank": False})
    asked = read_queries(request.input, notices)
    queries, partial = take_first(asked, request.limit, "queries")
    model, targets, small = None, [], None
    if settings.rerank:
        if settings.cascade is not None and request.shard is not None:
            raise UserError(
                f"profile {profile.name} has a cascade, whose second model waits for all scores of the first",
                "run it whole: without --shard",
            )
        model = computing.open_model(profile.need_model())
        model.check_length(settings.context, "retrieval.context")
        where = request.input / "queries.jsonl"
        targets = prepare_targets(queries, model, settings, where, notices)
        small = open_small_model(profile, computing, queries, where, notices)
    given = None
    if stages.candidates is not None:
        known = {query.query_id for query in asked}
        given = read_candidates(stages.candidates, queries, settings, notices, known)
    elif shards.folders:
        given = shards.read_candidates([query.query_id for query in queries])
    corpus = Corpus(request.input, notices)
    if given is not None:
        check_candidates(given, corpus, "give a run over this corpus", stages.candidates)
    encoder, matching, ready, dtype = None, None, None, shards.read_dtype("encoder")
    if not computing.gpus:  # a plan for them only counts
        if given is None:
            encoder = load_retrieval_encoder(settings, computing.device)
            dtype = None if encoder is None else encoder.dtype
            if stages.index is not None:
                ready = check_index(stages.index, corpus, settings, encoder)
        if settings.rerank and settings.match is not None:
            matching = find_encoder_parts(settings.match.model, computing.device)
    return Retrieval(
        profile,
        request,
        computing,
        stages,
        settings,
        queries,
        partial,
        corpus,
        given,
        model,
        targets,
        small,
        matching,
        encoder,
        dtype,
        ready,
        notices,
    )


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
    found = prepare(profile, request, computing, stages or FirstStageOptions())
    count = format_count(len(found.queries), "query")
    done = "ranked sources" if found.settings.rerank else "found candidates"
    page = [f"report: {request.output / PAGE}"] if request.report else []
    job = ReadyJob(
        scoring=found.describe_job(),
        rest={"report": __version__} if request.report else {},
        metadata=request.metadata,
        places=found.places,
        models=list(found.models.values()),
        inputs=f"the candidates of {count}",
        summary=[f"{done} of {count}: {request.output / RUN}", *page],
        notices=found.notices,
        score=found.score,
        write=found.write,
        partial=found.partial,
    )
    return carry_out(job, request.output, request.overwrite, request.shard, computing.shards, computing.state)


def check_candidates(stages: Mapping[str, FirstStage], corpus: Corpus, remedy: str, where: Path | None = None) -> None:
    """Raise UserError if a candidate is not in the corpus, since runs, indexes and states are untrusted."""
    if unseen := {c.doc_id for stage in stages.values() for c in stage.candidates} - corpus.ids:
        what = f"{len(unseen)} candidates are not in the corpus, for example {min(unseen)!r}"
        raise UserError(what, remedy, where)
