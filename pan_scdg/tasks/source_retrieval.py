"""Job 2, start to end: corpus and queries in, ``run.txt.gz`` and ``scores.jsonl.gz`` out (paper, PAN26)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.digests import text_digest
from pan_scdg.errors import UserError, UserErrors
from pan_scdg.notices import Notices
from pan_scdg.pan.inputs import input_digest
from pan_scdg.pan.source_retrieval import Document, Query, read_queries, stream_corpus
from pan_scdg.profile import Profile, RetrievalSettings
from pan_scdg.progress import Progress
from pan_scdg.scdg.aggregation import aggregate_of
from pan_scdg.scdg.control import shuffled_source
from pan_scdg.scdg.gains import GainStatistics
from pan_scdg.scdg.sequences import (
    AlignmentError,
    Passes,
    prefix_budget,
    retrieval_conditional,
    retrieval_target,
    retrieval_unconditional,
)
from pan_scdg.scdg.windows import overlap_terms, source_prefix
from pan_scdg.store import Store, key_of
from pan_scdg.tasks.corpus_index import check_catalogue, corpus_digest, parts_of
from pan_scdg.tasks.features import Wanted, feature_grid, load_features, save_features
from pan_scdg.tasks.first_stage import FirstStage, encoder_of, first_stage
from pan_scdg.tasks.given_candidates import read_candidates
from pan_scdg.tasks.model_at_hand import ModelAtHand
from pan_scdg.tasks.options import RunOptions, job_of
from pan_scdg.tasks.output import OutputDirectory
from pan_scdg.tasks.passes import PassScorer
from pan_scdg.tasks.retrieval_results import RUN, scored_part, write_ranking


class Target(NamedTuple):
    """A query ready to be scored: its ids, its terms for choosing windows, and the tokens left for a source."""

    query: Query
    token_ids: npt.NDArray[np.int64]
    terms: set[str]
    budget: int
    digest: str


def retrieve_sources(profile: Profile, options: RunOptions) -> list[str]:
    """Rank the corpus for every query and write the results; returns the lines to show the user.

    Raises:
        UserError: input, settings or output are not usable; nothing has its final name then.
    """
    settings = profile.need_retrieval()
    if options.stop_after is not None:
        settings = settings.model_copy(update={"rerank": False})
    notices = Notices(options.strict)
    queries = read_queries(options.input, notices)
    model, targets = None, []
    if settings.rerank:
        model = ModelAtHand(profile.need_model(), options)
        model.check_length(settings.context, "retrieval.context")
        targets = prepare_targets(queries, model, settings, options.input / "queries.jsonl")
    given = None if options.candidates is None else read_candidates(options.candidates, queries, settings, notices)
    check_corpus(options.input, given, options.candidates, notices)
    encoder = encoder_of(settings, options.device) if given is None else None
    corpus = corpus_digest(options.input)
    if options.index is not None and given is None:
        check_catalogue(options.index, corpus, parts_of(settings, encoder, corpus))
    models = {
        **({} if model is None else {"language_model": model.identity()}),
        **({} if encoder is None else {"encoder": {"weights": encoder.fingerprint}}),
    }
    job = job_of("retrieval", profile, options, input_digest(options.input, "retrieval"), models)
    output = OutputDirectory(options.output, job)
    if output.prepare(options.overwrite):
        return [f"already complete: {options.output}"]
    if not output.publishing():
        output.start()
        with Store(options.state or output.hidden) as store:
            found = given or first_stage(
                options.input, queries, settings, encoder, store, corpus, options.index, options.search_memory << 20
            )
            features = {}
            if model is not None:
                features = score_candidates(options.input, targets, found, model, settings, store, options.keep_gains)
            names = write_ranking(output.staged, queries, found, features, settings, store, options.keep_gains)
        output.seal(names)
    output.publish()
    done = "ranked sources" if settings.rerank else "found candidates"
    return [*notices.lines(), f"{done} of {len(queries)} queries: {options.output / RUN}"]


def check_corpus(directory: Path, given: Mapping[str, FirstStage] | None, where: Path | None, notices: Notices) -> None:
    """Read the corpus once, so that every line is checked, and every odd thing counted, before anything is computed.

    Raises:
        UserError: a line is not usable, or a given candidate is not in the corpus.
    """
    unseen = {c.doc_id for stage in (given or {}).values() for c in stage.candidates}
    for document in stream_corpus(directory, notices):
        unseen.discard(document.doc_id)
    if unseen:
        raise UserError(
            f"{len(unseen)} candidates are not in the corpus, {min(unseen)!r} for one",
            "give a run over this corpus",
            where,
        )


def prepare_targets(
    queries: Sequence[Query], model: ModelAtHand, settings: RetrievalSettings, where: Path
) -> list[Target]:
    """Tokenise all queries.

    Raises:
        UserErrors: naming every query that leaves no room for a source.
    """
    targets, errors = [], []
    for query in queries:
        try:
            ids = retrieval_target(model.tokenizer, query.text)
            room = prefix_budget(model.tokenizer, ids, settings.context)
            budget = room if settings.source_tokens is None else min(room, settings.source_tokens)
            targets.append(Target(query, ids, overlap_terms(query.text), budget, text_digest(query.text)))
        except AlignmentError as e:
            errors.append(UserError(f"query {query.query_id}: {e}", "use a profile with a larger context", where))
    if errors:
        raise UserErrors(errors)
    return targets


def candidate_key(document: Document, target: Target, model: ModelAtHand, settings: RetrievalSettings) -> str:
    """The store's key of a candidate's features: neither the aggregation nor the fusion weight is.

    What the paper does not have is part of it only where the profile has it: what was stored without keeps its key.
    """
    control = {} if settings.control == "none" else {"control": settings.control}
    most = {} if settings.source_tokens is None else {"source_tokens": settings.source_tokens}
    parts = {
        **model.key_parts(),
        **control,
        **most,
        "context": settings.context,
        "windows": settings.windows.model_dump(mode="json"),
        "source": text_digest(document.text),
        "target": target.digest,
    }
    return key_of("candidate", parts)


def score_candidates(
    directory: Path,
    targets: Sequence[Target],
    found: Mapping[str, FirstStage],
    model: ModelAtHand,
    settings: RetrievalSettings,
    store: Store,
    keep_gains: bool,
) -> dict[tuple[str, str], tuple[GainStatistics, str]]:
    """Statistics and store key of the gains of every candidate that is to be scored, by (query, document).

    The corpus is streamed once more and each document meets all queries that have it among their candidates, so that
    one document's text is in memory at a time.
    """
    wanted: dict[str, list[Target]] = defaultdict(list)
    for target in targets:
        for candidate in scored_part(found[target.query.query_id], settings):
            wanted[candidate.doc_id].append(target)
    scorer, features = PassScorer(model, store), {}
    aggregate = aggregate_of(settings)
    asked = Wanted(feature_grid([settings.q]))
    if aggregate is not None:
        asked = Wanted(asked.grid, aggregate.windows, aggregate.medians, aggregate.bounded)
    keep_gains = keep_gains or settings.aggregation == "share"
    with Progress("scoring candidates", sum(map(len, wanted.values()))) as progress:
        for document in stream_corpus(directory, Notices()):
            for target in wanted.get(document.doc_id, ()):
                before = scorer.tokens
                key = candidate_key(document, target, model, settings)
                values = load_features(store, key, asked, keep_gains)
                if values is None:
                    passes = candidate_passes(document, target, model, settings)
                    gains = scorer.gains([passes], settings.control)
                    values = save_features(store, key, gains, asked, keep_gains)
                features[target.query.query_id, document.doc_id] = values, key
                progress.update(tokens=scorer.tokens - before)
    return features


def candidate_passes(document: Document, target: Target, model: ModelAtHand, settings: RetrievalSettings) -> Passes:
    """The inputs of a query and a candidate (paper, PAN26 source-prefix construction), with the profile's control."""

    def encode(text: str) -> list[int]:
        return list(model.tokenizer.encode(text, add_special_tokens=False))

    prefix = source_prefix(document.text, target.terms, target.budget, encode, settings.windows)
    passes = Passes(
        retrieval_unconditional(model.tokenizer, target.token_ids),
        retrieval_conditional(model.tokenizer, target.token_ids, prefix),
    )
    if settings.control == "none":
        return passes
    shuffled = shuffled_source(model.tokenizer, prefix, text_digest(document.text), target.digest)
    return replace(passes, control=retrieval_conditional(model.tokenizer, target.token_ids, shuffled))
