"""Job 2, start to end: corpus and queries in, ``run.txt.gz`` and ``scores.jsonl.gz`` out (paper, PAN26)."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from pan_scdg.errors import UserError
from pan_scdg.jobs.options import Partial, RunOptions, job_of, limited
from pan_scdg.jobs.output import OutputDirectory
from pan_scdg.jobs.retrieval_results import RUN, write_ranking
from pan_scdg.jobs.run_metadata import run_metadata
from pan_scdg.jobs.shards import write_shard
from pan_scdg.logs import say
from pan_scdg.models.cache import FoundModel
from pan_scdg.models.encoder import Encoder, folder_fingerprint
from pan_scdg.models.places import models_line, origins_of
from pan_scdg.notices import Notices
from pan_scdg.pan.inputs import input_digest
from pan_scdg.pan.source_retrieval import read_queries, stream_corpus
from pan_scdg.profile import Profile, RetrievalSettings
from pan_scdg.records import Query
from pan_scdg.retrieval.corpus_index import check_catalogue, corpus_digest, parts_of
from pan_scdg.retrieval.first_stage import FirstStage, encoder_of, encoder_place, first_stage
from pan_scdg.retrieval.given_candidates import foreign_scores, read_candidates
from pan_scdg.scoring.candidates import Target, prepare_targets, score_candidates
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.store import Store


class CorpusSize(NamedTuple):
    """Which documents, and how many characters they have."""

    ids: frozenset[str]
    characters: int

    @property
    def documents(self) -> int:
        """How many there are."""
        return len(self.ids)


class RetrievalJob(NamedTuple):
    """What a run of job 2 needs, read and checked: nothing is computed or written yet."""

    settings: RetrievalSettings
    notices: Notices
    queries: Sequence[Query]
    partial: Partial | None
    model: ScoringModel | None
    targets: list[Target]
    given: dict[str, FirstStage] | None
    """The candidates, where the user gave them or shards found them."""
    encoder: Encoder | None
    corpus: str
    """Its digest."""
    size: CorpusSize
    output: OutputDirectory
    places: Mapping[str, FoundModel]
    """Where the models were found that the result depends on."""

    def models(self) -> list[str]:
        """A line about the models, where any is used."""
        return [models_line(list(self.places.values()))] if self.places else []

    def told(self) -> list[str]:
        """What is said of a result of a part of the input."""
        return [] if self.partial is None else [self.partial.warning()]


def read_job(profile: Profile, options: RunOptions) -> RetrievalJob:
    """Input, models and indexes of a run.

    Raises:
        UserError: input or settings are not usable.
    """
    settings = profile.need_retrieval()
    if options.stop_after is not None:
        settings = settings.model_copy(update={"rerank": False})
    notices = Notices(options.strict)
    asked = read_queries(options.input, notices)
    queries, partial = limited(asked, options, "queries")
    model, targets = None, []
    if settings.rerank:
        model = options.scoring_model(profile.need_model(), "retrieval")
        model.check_length(settings.context, "retrieval.context")
        targets = prepare_targets(queries, model, settings, options.input / "queries.jsonl")
    given = None
    if options.candidates is not None:
        known = {query.query_id for query in asked}
        given = read_candidates(options.candidates, queries, settings, notices, known)
    if options.shards is not None:
        given = options.shards.candidates(query.query_id for query in queries)
    size = check_corpus(options.input, notices)
    if given is not None:
        check_candidates(given, size, "give a run over this corpus", options.candidates)
    encoder = encoder_of(settings, options.device) if given is None else None
    corpus = corpus_digest(options.input)
    if options.index is not None and given is None:
        check_catalogue(options.index, corpus, parts_of(settings, encoder, corpus))
    models, places = {}, {}
    if model is not None:
        models["language_model"], places["language_model"] = model.identity(), model.found
    if encoder is not None or (options.shards is not None and "encoder" in options.shards.job["models"]):
        places["encoder"] = encoder_place(settings.need_dense())
        weights = encoder.fingerprint if encoder is not None else folder_fingerprint(places["encoder"].folder)
        models["encoder"] = {"weights": weights}
    job = job_of("retrieval", profile, options, input_digest(options.input, "retrieval"), models, partial)
    if options.shards is not None:
        options.shards.check(job)
    output = OutputDirectory(options.output, job)
    return RetrievalJob(
        settings, notices, queries, partial, model, targets, given, encoder, corpus, size, output, places
    )


def retrieve_sources(profile: Profile, options: RunOptions) -> list[str]:
    """Rank the corpus for every query and write the results; returns the lines to show the user.

    Raises:
        UserError: input, settings or output are not usable; nothing has its final name then.
    """
    job = read_job(profile, options)
    with job.output.locked():
        return _retrieve(job, options)


def _retrieve(job: RetrievalJob, options: RunOptions) -> list[str]:
    settings, notices, queries, partial, model, targets, given, encoder, corpus, size, output, places = job
    if output.prepare(options.overwrite):
        return [*job.told(), f"already complete: {options.output}"]
    if not output.publishing():
        output.start()
        say(job.models() if options.candidates is None else [*job.models(), *foreign_scores(options.candidates)])
        with (
            Store(options.state or output.hidden) as store,
            run_metadata(output.staged, output.job, options.metadata, model),
        ):
            if options.shards is not None:
                options.shards.restore(store)
            found = given or first_stage(
                options.input, queries, settings, encoder, store, corpus, options.index, options.search_memory << 20
            )
            if given is None:
                where = options.index or store.folder
                check_candidates(found, size, "make the index again, and delete the state", where)
            if encoder is not None:
                encoder.release()  # the language model needs the memory
            features = {}
            if model is not None:
                with closing(model):
                    features = score_candidates(
                        options.input, targets, found, model, settings, store, options.keep_gains, options.share
                    )
            if options.share is None:
                names = write_ranking(output.staged, queries, found, features, settings, store, options.keep_gains)
            else:
                names = write_shard(output.staged, store, [key for _, key in features.values()], found)
        incidents = [] if model is None else model.incidents()
        origins = origins_of(places) if options.shards is None else options.shards.origins
        output.seal(names, incidents, partial and partial._asdict(), origins)
    output.publish()
    incidents = [] if model is None else [f"warning: {incident}" for incident in model.incidents()]
    done = "ranked sources" if settings.rerank else "found candidates"
    done = f"{done} of {len(queries)} queries: {options.output / RUN}"
    if options.share is not None:
        done = f"{options.share} of the candidates of {len(queries)} queries: {options.output}"
    return [*notices.lines(), *incidents, *job.told(), done]


def check_corpus(directory: Path, notices: Notices) -> CorpusSize:
    """Read the corpus once, so that every line is checked, and every odd thing counted, before anything is computed.

    Raises:
        UserError: a line is not usable.
    """
    ids, characters = set(), 0
    for document in stream_corpus(directory, notices):
        ids.add(document.doc_id)
        characters += len(document.text)
    return CorpusSize(frozenset(ids), characters)


def check_candidates(
    stages: Mapping[str, FirstStage], corpus: CorpusSize, remedy: str, where: Path | None = None
) -> None:
    """Raise UserError when a candidate is not in the corpus: a run, an index or a state may say anything."""
    if unseen := {c.doc_id for stage in stages.values() for c in stage.candidates} - corpus.ids:
        what = f"{len(unseen)} candidates are not in the corpus, {min(unseen)!r} for one"
        raise UserError(what, remedy, where)
