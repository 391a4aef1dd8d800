"""What a run of job 2 will cost: queries are tokenised, documents sampled, a few of them scored for the speed.

Which documents are candidates of which queries is known only when the user gives them. Otherwise each query's list is
taken to be drawn from the corpus independently of the others: real lists share more, and sharing makes a run cheaper.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from pan_scdg.jobs.options import RunOptions
from pan_scdg.jobs.plan import Cost, Tokens, tokens_of
from pan_scdg.jobs.plan_disk import Place
from pan_scdg.jobs.plan_pairs import (
    ALONE_TOKEN,
    FEATURES,
    FILL,
    KEPT_TOKEN,
    NOTE_STATE,
    PACKED_TOKEN,
    PROBED,
    evenly,
    places,
    probing,
)
from pan_scdg.jobs.plan_probe import Speed, Work, probe
from pan_scdg.jobs.retrieve import RetrievalJob, read_job
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import stream_corpus
from pan_scdg.profile import Profile, RetrievalSettings
from pan_scdg.progress import Progress
from pan_scdg.records import Document
from pan_scdg.retrieval.corpus_index import parts_of
from pan_scdg.retrieval.units import chunks
from pan_scdg.scdg.sequences import ScoringInput
from pan_scdg.scoring.candidates import Target, scored_part
from pan_scdg.scoring.model import ScoringModel, devices_of
from pan_scdg.scoring.passes import ids_digest
from pan_scdg.scoring.works import QueryText, SourceWork

SAMPLED = 64
"""Documents whose tokens are counted, evenly over the corpus or over the given candidates."""
INDEX_PER_CHARACTER = {"fts5": 0.55, "impact": 1.25, "terrier": 1.6}
"""Bytes of an index while it is made, per character of the corpus: measured on 500 generated documents of 45,000."""
RANKED, SCORE_LINE = 40, 128
"""Bytes of a document in a stored ranking, and of a candidate's line in the results (measured on the examples)."""


class Overlap(NamedTuple):
    """How candidate lists meet: which documents have how many queries."""

    documents: float
    """Distinct candidates."""
    pairs: float
    """Candidates of all lists, those of queries with the same text once."""
    queries_of: Mapping[str, Sequence[Target]] | None
    """The queries of each candidate; None: unknown."""


class Counted(NamedTuple):
    """What the sampled documents show."""

    tokens: Tokens
    """Of the passes with a source, of all candidates."""
    targets: float
    """Target tokens of all candidates."""
    chunks: float
    """Chunks of an average document."""
    exact: bool
    """Whether the sample was everything."""
    largest: Work
    works: list[Work]


def cost_of_retrieval(profile: Profile, options: RunOptions) -> tuple[Cost, list[str]]:
    """What ``retrieve_sources`` would cost with these options, and the lines to show beside; nothing is written.

    Raises:
        UserError: the run would be refused.
    """
    job = read_job(profile, probing(options))
    complete = job.output.path.is_dir() and job.output.prepare(options.overwrite)
    if job.given is None:
        _check_jars(job.settings, options)
    if job.encoder is not None:
        job.encoder.release()
    overlap = _overlap(job)
    counted = _counted(options, job, overlap)
    tokens, speed = None, None
    alone = {ids_digest(target.unconditional): target.unconditional for target in job.targets}
    if job.model is not None:
        with closing(job.model):
            tokens = counted.tokens + _alone_tokens(alone.values(), job.model)
            speed = probe(job.model, counted.largest, counted.works) if counted.works else None
    devices = devices_of(options.device, options.workers)
    cost = Cost(
        task="retrieval",
        profile=profile.name,
        device=options.device,
        engine=options.engine,
        devices=len(devices) if options.device == "cuda" else 1,
        pairs=_pairs(job),
        queries=len(job.queries),
        documents=job.size.documents,
        tokens=tokens,
        counted="exactly" if counted.exact and job.given is not None else "by sampling",
        speed=speed,
        places=_places(options, job, counted, sum(len(item.target_ids) for item in alone.values())),
        partial=job.partial,
        notes=_notes(job, overlap, speed, complete),
    )
    return cost, [*job.notices.lines(), *job.told()]


def _check_jars(settings: RetrievalSettings, options: RunOptions) -> None:
    """Raise UserError where Terrier is needed and not there; a ready index of our own needs no jar."""
    if not any(route.startswith("bm25") for route in settings.routes):
        return
    from pan_scdg.retrieval.bm25.terrier_jars import start_terrier, terrier_jar

    if settings.bm25.engine == "terrier":
        start_terrier()
    elif settings.bm25.engine == "impact" and options.index is None:
        terrier_jar()


def _list_length(job: RetrievalJob) -> int:
    """Scored candidates of a query whose list is not known."""
    if not job.settings.rerank:
        return 0
    return min(job.settings.scored or job.settings.depth, job.settings.depth, job.size.documents)


def _pairs(job: RetrievalJob) -> int:
    """Queries with a candidate each, that are to be scored."""
    if job.given is None:
        return len(job.queries) * _list_length(job)
    return sum(len(scored_part(job.given[query.query_id], job.settings)) for query in job.queries)


def _overlap(job: RetrievalJob) -> Overlap:
    distinct = {target.text.digest: target for target in job.targets}
    if job.given is None:
        each, corpus = _list_length(job), job.size.documents
        met = corpus * (1 - (1 - each / corpus) ** len(distinct))
        return Overlap(met, each * len(distinct), None)
    found: dict[str, list[Target]] = defaultdict(list)
    for target in distinct.values():
        for candidate in scored_part(job.given[target.query_id], job.settings):
            found[candidate.doc_id].append(target)
    return Overlap(len(found), sum(map(len, found.values())), found)


def _counted(options: RunOptions, job: RetrievalJob, overlap: Overlap) -> Counted:
    """One pass over the corpus: documents at even distances, and the one that is longest with its queries."""
    known, model = overlap.queries_of, job.model
    total = len(known) if known is not None else job.size.documents
    chosen, number, met = set(evenly(SAMPLED, total)), 0, 0.0
    targets = list({target.text.digest: target for target in job.targets}.values())
    group = overlap.pairs / overlap.documents if overlap.documents else 0.0
    longest: tuple[int, Document | None, Sequence[Target]] = (-1, None, [])
    average = targets[: math.ceil(group)]
    tokens, target_tokens, pairs, cut, works = Tokens(0, 0), 0, 0, 0, list[Work]()
    with Progress("counting tokens", None) as progress:
        for document in stream_corpus(options.input, Notices()):
            if known is not None and document.doc_id not in known:
                continue
            queries = average if known is None else known[document.doc_id]
            size = len(document.text) * max(1, len(queries))
            longest = max(longest, (size, document, queries), key=lambda one: one[0])
            if number in chosen:
                if known is None:  # the queries take turns, as many as make the groups right on average
                    queries = _turn(targets, math.floor(met), math.floor(met + group))
                    met += group
                cut += _chunks(document, job)
                if model is not None and queries:
                    items = _inputs(document, queries, model, job.settings)
                    tokens += tokens_of(items, model.settings.pack_tokens)
                    target_tokens += sum(len(query.text.token_ids) for query in queries)
                    pairs += len(queries)
                    works.append(_shortened(items, model))
            number += 1
            progress.update()
    scale = overlap.pairs / pairs if pairs else 0.0
    largest = list[ScoringInput]()
    if model is not None and longest[1] is not None and longest[2]:
        largest = list(_shortened(_inputs(longest[1], longest[2], model, job.settings), model))
    probed = [works[i] for i in evenly(PROBED, len(works))]
    exact = total <= SAMPLED
    return Counted(tokens.times(scale), target_tokens * scale, cut / max(1, len(chosen)), exact, largest, probed)


def _turn(targets: Sequence[Target], start: int, end: int) -> list[Target]:
    """The targets from ``start`` to ``end`` of an endless repetition, each once."""
    return [targets[i % len(targets)] for i in range(start, min(end, start + len(targets)))]


def _inputs(
    document: Document, queries: Sequence[Target], model: ScoringModel, settings: RetrievalSettings
) -> list[ScoringInput]:
    texts: list[QueryText] = [query.text for query in queries]
    return SourceWork(document.text, texts, settings).inputs(model.tokenizer)


def _shortened(items: Sequence[ScoringInput], model: ScoringModel) -> Work:
    """So many inputs of a group as fill two calls: more takes no more memory, and the probe's time is short."""
    kept: list[ScoringInput] = []
    for item in items:
        kept.append(item)
        if tokens_of(kept, model.settings.pack_tokens).reused > 2 * model.settings.pack_tokens:
            break
    return kept


def _alone_tokens(items: Iterable[ScoringInput], model: ScoringModel) -> Tokens:
    """Of the queries without a source, each by itself."""
    return sum((tokens_of([item], model.settings.pack_tokens) for item in items), Tokens(0, 0))


def _chunks(document: Document, job: RetrievalJob) -> int:
    """Vectors of a document in an index of chunks."""
    dense = job.settings.dense
    if dense is None or job.encoder is None:
        return 0
    return max(1, len(chunks(document.text, dense.chunk_words, dense.chunk_stride, dense.chunks)))


def _places(options: RunOptions, job: RetrievalJob, counted: Counted, alone: int) -> list[Place]:
    pairs, settings = _pairs(job), job.settings
    kept = counted.targets if options.keep_gains else 0.0
    stored = counted.targets if options.keep_gains or settings.aggregation == "share" else 0.0
    routes = 0 if job.given is not None else len(settings.routes) * len(job.queries) * settings.depth
    state = FILL * (pairs * FEATURES + ALONE_TOKEN * alone + KEPT_TOKEN * stored + RANKED * routes)
    output = SCORE_LINE * len(job.queries) * min(settings.depth, job.size.documents) + PACKED_TOKEN * kept
    return places(options, output, state, _indexes(options, job, counted))


def _indexes(options: RunOptions, job: RetrievalJob, counted: Counted) -> float:
    """Bytes of the indexes that are not there yet."""
    if job.given is not None or options.index is not None:
        return 0
    folder, size = options.state or job.output.hidden, 0.0
    for purpose, part in parts_of(job.settings, job.encoder, job.corpus).items():
        if (folder / part.name).exists():
            continue
        if purpose == "bm25":
            size += INDEX_PER_CHARACTER[job.settings.bm25.engine] * job.size.characters
        elif job.encoder is not None:
            each = counted.chunks if purpose == "chunks" else 1
            size += 2 * job.encoder.dimension * each * job.size.documents  # float16
    return size


def _notes(job: RetrievalJob, overlap: Overlap, speed: Speed | None, complete: bool) -> list[str]:
    lists = overlap.pairs / overlap.documents if overlap.documents else 0.0
    notes = ["the output is already complete: the run would do nothing"] if complete else []
    if job.model is not None:
        notes += job.model.incidents()
        if overlap.queries_of is None:
            notes.append(f"candidates are not known yet: lists are taken to be independent, {lists:.1f} lists a source")
        else:
            notes.append(f"candidates as given, {lists:.1f} lists a source")
        notes.append(NOTE_STATE)
    if job.given is None:
        notes.append(f"{'hours are of scoring alone: ' if speed else ''}indexing and first stage are not estimated")
    return [
        *notes,
        "disk is estimated from numbers of documents, pairs and tokens, with bytes measured on small corpora",
    ]
