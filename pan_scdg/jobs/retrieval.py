"""Source retrieval: rank the documents of a corpus for every query, and build the indexes for that (paper, PAN26).

A query goes through this file from top to bottom: read, tokenised, searched for by the first stage, scored with each of
its candidates by a worker, reranked, and written as lines of a TREC run and of ``scores.jsonl.gz``.
"""

import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pan_scdg.align.vectors import SentenceEncoder
from pan_scdg.errors import UserError
from pan_scdg.jobs.cluster import Workers, open_same_models, open_workers
from pan_scdg.jobs.evidence import write_evidence
from pan_scdg.jobs.options import RunOptions, choose_items, make_job
from pan_scdg.jobs.rerank import (
    CandidateScorer,
    RankedQuery,
    SourceTask,
    Target,
    build_inputs,
    compares_gains,
    count_scored_ranks,
    prepare_targets,
    rank_query,
    score_candidates,
    select_scored,
)
from pan_scdg.jobs.runner import Clock, Run, Task, run_task
from pan_scdg.lm.model import ScoringModel
from pan_scdg.logs import say
from pan_scdg.models.devices import Devices, choose_encoder_dtype
from pan_scdg.models.encoder import Encoder, EncoderUse, TokenisedTexts, knows_script, load_encoder_tokenizer
from pan_scdg.models.find import FoundModel, find_encoder
from pan_scdg.models.fingerprint import fingerprint_folder
from pan_scdg.normal_form import restore_spans
from pan_scdg.notices import Notices
from pan_scdg.pan.inputs import hash_input
from pan_scdg.pan.runs import format_run, open_gzip_text
from pan_scdg.pan.source_retrieval import Corpus, find_queries, read_queries
from pan_scdg.profile import Profile
from pan_scdg.progress import Progress, Stopwatch, format_count
from pan_scdg.records import Document, Identities, Identity, Query, Ranking, TokenGains
from pan_scdg.report.wording import UNREAD_SCRIPT
from pan_scdg.results.files import CANDIDATE_SCORES, CANDIDATES, GAINS, RUN, write_lines
from pan_scdg.results.folder import ScoreFile, WorkFolder
from pan_scdg.results.records import CANDIDATE_KEY, CandidateLine, GainsLine, MeasuredCandidate, QueryLine
from pan_scdg.retrieval.candidates import (
    find_candidates,
    hash_candidates,
    read_candidates,
    read_stages,
    write_stages,
)
from pan_scdg.retrieval.dense import DenseSearch, EncodeTask, Searched, SearchTask, open_encoder, release_encoders
from pan_scdg.retrieval.index import BM25, UNFINISHED, Manifest, build_bm25, build_indexes, check_index, describe_index
from pan_scdg.scdg.sequences import Offsets, ScoringInput, TokenLocator
from pan_scdg.settings import EngineName, RetrievalSettings, Route
from pan_scdg.text.units import show_as_read

INDEX = "index"
"""Folder of the indexes in the work folder of a run without --index."""
TEXTS = "texts"
"""Name, in the work folder, of a file with the texts of candidates that are scored later."""

RetrievalTask = EncodeTask | SearchTask | SourceTask
"""A task of a `RetrievalWorker`."""


class RetrievalWorker:
    """Computes the tasks of source retrieval; each process finds and loads its models.

    Args:
        profile: has a table ``[retrieval]``.
        device: "cpu" or "cuda".
        model: folder of the language model; None: found by its name in the profile.
        engine: computes log-probabilities; None: packed if the model can be.
        searches: there is a first stage, whose dense routes need an encoder.
    """

    def __init__(
        self,
        profile: Profile,
        device: str,
        model: Path | None = None,
        engine: EngineName | None = None,
        searches: bool = True,
    ) -> None:
        self._arguments = (profile, device, model, engine, searches)
        self.settings, self._device, self._raw_text = profile.need_retrieval(), device, profile.raw_text
        self.model: ScoringModel | None = None
        self.matcher: SentenceEncoder | None = None
        self.encoder: FoundModel | None = None
        """The encoder of the dense routes."""
        self._searches: dict[Path, DenseSearch] = {}
        """By the folder of the indexes."""
        self.models: dict[str, FoundModel] = {}
        """All models that the result depends on, by their names in the job."""
        if self.settings.rerank:
            raw_text = profile.raw_text
            self.model = ScoringModel(profile.need_model(), device, folder=model, engine=engine, raw_text=raw_text)
            self.models["language_model"] = self.model.found
            if self.settings.match is not None:
                self.matcher = SentenceEncoder(self.settings.match.model, device, keep_headings=True)
                self.models["sentence_encoder"] = self.matcher.model
        if searches and any(not route.startswith("bm25") for route in self.settings.routes):
            self.models["encoder"] = self.encoder = find_encoder(self.settings.need_dense().model)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what finds the same models in another process."""
        return open_same_models, (type(self), self._arguments, self.identify())

    def __call__(self, task: RetrievalTask) -> Any:
        """Return the vectors of texts, the rankings of queries, or the scores of a source."""
        return self.compute(self.prepare(task))

    def prepare(self, task: RetrievalTask) -> TokenisedTexts | SearchTask | tuple[SourceTask, list[ScoringInput]]:
        """Return what `compute` needs of a task; see `open_workers`."""
        if isinstance(task, SearchTask):
            return task
        if isinstance(task, EncodeTask):
            return self.load_encoder().tokenise(task.texts, task.max_tokens)
        if self.model is None:
            raise ValueError("the profile scores nothing")
        return task, build_inputs(task, self.model.tokenizer, self.settings)

    def compute(self, prepared: TokenisedTexts | SearchTask | tuple[SourceTask, list[ScoringInput]]) -> Any:
        """Return the result of a prepared task."""
        if isinstance(prepared, SearchTask):
            return self._search(prepared)
        if isinstance(prepared, TokenisedTexts):
            return self.load_encoder().compute(prepared)
        return self._scorer.compute(*prepared)

    def _search(self, task: SearchTask) -> Searched:
        """Return the rankings of the queries of a task by each of its routes."""
        if task.folder not in self._searches:
            self._searches[task.folder] = DenseSearch(task.folder, self.settings.need_dense(), self.load_encoder())
        search = self._searches[task.folder]
        rankings, watch = dict[Route, list[Ranking]](), Stopwatch()
        for route in task.routes:
            with watch.measure(route):
                rankings[route] = search.search(route, task.texts)
        return Searched(rankings, watch.seconds)

    def list_encoders(self) -> dict[str, EncoderUse]:
        """Return how the encoders are loaded, by their names in the job."""
        uses = {} if self.matcher is None else {"sentence_encoder": self.matcher.use}
        if self.encoder is None:
            return uses
        dtype, limit = choose_encoder_dtype(self._device), self.settings.need_dense().document_tokens
        return uses | {"encoder": EncoderUse(self.encoder.folder, dtype=dtype, max_tokens=limit)}

    def load_encoder(self) -> Encoder:
        """Return the encoder of the dense routes, loaded once in a process."""
        if self.encoder is None:
            raise ValueError("no route needs an encoder")
        return open_encoder(self.list_encoders()["encoder"], self._device, self._raw_text)

    def release_encoder(self) -> None:
        """Free a GPU's memory that the encoder of the dense routes takes, since the language model needs it."""
        if self._device != "cpu":
            self._searches.clear()
            release_encoders()

    def knows_script(self, text: str) -> bool:
        """Return False if the encoder does not know the script of a text; True without an encoder."""
        if self.matcher is not None:
            return knows_script(self._script_tokenizer, show_as_read(text))
        return self.encoder is None or knows_script(self._script_tokenizer, text)

    @cached_property
    def _script_tokenizer(self) -> Any:
        """Return the tokenizer alone: this process may be another one than that of the device."""
        encoder = self.encoder if self.matcher is None else self.matcher.model
        if encoder is None:
            raise ValueError("the profile has no encoder")
        return load_encoder_tokenizer(encoder.folder)

    @cached_property
    def _scorer(self) -> CandidateScorer:
        if self.model is None:
            raise ValueError("the profile scores nothing")
        self.release_encoder()
        return CandidateScorer(self.settings, self.model, self.matcher)

    def list_models(self) -> dict[str, FoundModel]:
        """Return the models that the result depends on, by their names in the job."""
        return self.models

    def identify(self) -> Identities:
        """Return the fields of ``job.json`` about the models."""
        return self._identity

    @cached_property
    def _identity(self) -> Identities:
        fields: dict[str, Identity] = {} if self.model is None else {"language_model": self.model.identify()}
        if self.matcher is not None:
            fields["sentence_encoder"] = {"weights": self.matcher.fingerprint}
        if self.encoder is not None:
            dtype = choose_encoder_dtype(self._device)
            fields["encoder"] = {"weights": fingerprint_folder(self.encoder.folder), "dtype": dtype}
        return fields


def retrieve_sources(profile: Profile, options: RunOptions) -> list[str]:
    """Rank the corpus for every query and write the results; return the lines to show the user.

    Raises:
        UserError: input, settings or output are not usable; no result is published.
    """
    return run_task(SourceRetrieval(profile, options))


class SourceRetrieval(Task[MeasuredCandidate]):
    """The queries of a PAN folder: a run, and the scores of its candidates.

    Args:
        profile: has a table ``[retrieval]``.
        options: of ``run``.
    """

    parse = staticmethod(MeasuredCandidate.from_json)
    worker: RetrievalWorker

    def __init__(self, profile: Profile, options: RunOptions) -> None:
        super().__init__(options)
        self.settings = settings = profile.need_retrieval()
        if options.keep_gains and not settings.rerank:
            what = "--keep-gains needs a profile that scores sources"
            raise UserError(what, f"choose such a profile instead of {profile.name}, or leave it out")
        all_queries = read_queries(options.input, self.notices, profile.raw_text)
        self.queries, part = choose_items(tuple(all_queries), options, "queries")
        given, queries = options.candidates, find_queries(options.input)
        self.worker = RetrievalWorker(profile, options.device, options.model, options.engine, searches=given is None)
        self.targets: dict[str, Target] = {}
        if self.worker.model is not None:
            self.targets = prepare_targets(self.queries, self.worker.model, settings, queries, self.notices)
        self.stages: dict[str, QueryLine] = {}
        if given is not None:
            self.stages = read_candidates(given, self.queries, self.notices, {query.query_id for query in all_queries})
        self.corpus = Corpus(options.input, self.notices, profile.raw_text, self.queries)
        if given is not None:
            _check_candidates(self.stages, self.corpus, "give a run over this corpus", given)
            if not any(stage.routes for stage in self.stages.values()):
                say([f"{given}: the scores of this run serve as coarse scores"])
        models = self.worker.identify()
        self.manifest = describe_index(settings, self.corpus, models.get("encoder"))
        if options.index is not None and given is None:
            check_index(options.index, self.manifest)
        digest = hash_input(options.input, "retrieval", self.corpus.digest)
        self.job = replace(
            make_job("retrieval", profile, options, digest, models),
            candidates=None if given is None else hash_candidates(given),
            documents=len(self.corpus),
        )
        self.note_part(part)
        self.lines += _warn_about_queries(self.corpus, len(self.queries))

    def compute(self, run: Run[MeasuredCandidate]) -> None:
        """Search the first stage, and score its candidates."""
        settings, scores = self.settings, run.work.scores
        if self.options.candidates is None:
            given = (run.work, self.options.index, self.manifest, run.workers, self.clock, self.watch)
            self.stages = _search(self.corpus, self.queries, self.worker, *given)
        _note_scripts(self.queries, self.worker, self.notices)
        if settings.rerank:
            read = partial(_read_documents, self.corpus, run.work.path / TEXTS)
            common = (read, self.targets, self.stages, settings, run.compute, scores, self.options.keep_gains)
            scores.total = sum(len(select_scored(stage, settings)) for stage in self.stages.values())
            with self.watch.measure("score"):
                for lines in score_candidates(*common, by_rank=self.clock is not None):
                    scores.append(lines)
        late = []
        if self.options.candidates is None and (limited := _list_limited(self.stages, settings)):
            late.append(f"for lack of time {format_count(len(limited), 'query')} had a first stage of BM25 alone")
            self.job = replace(self.job, searched_by_words=limited)
        if (ranks := count_scored_ranks(self.stages, settings, scores)) is not None:
            hours = self.options.deadline
            late.append(f"the first {ranks} candidates of each query were scored within {hours:g} h")
            self.job = replace(self.job, scored_ranks=ranks)
            self.settings = settings.model_copy(update={"scored": ranks})
        self.note_deadline(late)

    def write(self, work: WorkFolder[MeasuredCandidate]) -> list[str]:
        """Stage the run, scores, candidates and evidence."""
        keep_gains = self.options.keep_gains
        return write_results(work, self.corpus, self.queries, self.stages, self.worker, self.settings, keep_gains)

    def summarise(self) -> list[str]:
        """Return the line about the number of queries."""
        done = "ranked sources" if self.settings.rerank else "found candidates"
        return [f"{done} of {format_count(len(self.queries), 'query')}: {self.options.output / RUN}"]


def _warn_about_queries(corpus: Corpus, count: int) -> list[str]:
    """Return a warning about queries that are documents of the corpus."""
    inside = corpus.queries_in_it
    if not inside:
        return []
    verb = "are documents of the corpus and their own best sources"
    if len(inside) == 1:
        verb = "is a document of the corpus and its own best source"
    return [f"warning: {len(inside)} of {format_count(count, 'query')} {verb}: first {inside[0]!r}"]


def _search(
    corpus: Corpus,
    queries: Sequence[Query],
    worker: RetrievalWorker,
    work: WorkFolder[MeasuredCandidate],
    index: Path | None,
    manifest: Manifest,
    workers: Workers[RetrievalTask, Any],
    clock: Clock | None,
    watch: Stopwatch,
) -> dict[str, QueryLine]:
    """Return the first stage of every query, which the work folder may have already.

    What is late is searched by BM25 alone, and not kept in the work folder: another run may have more time.
    """
    settings, path = worker.settings, work.path / CANDIDATES
    if path.exists():
        return read_stages(path)
    is_late = None if clock is None else clock.is_late_to_score if settings.rerank else clock.is_late
    folder = index or work.path / INDEX

    def compute(tasks: Iterable[RetrievalTask]) -> Iterator[Any]:
        return workers.map(tasks, is_late)

    def encode(tasks: Iterable[EncodeTask], progress: Progress) -> Iterator[Any]:
        return workers.map(tasks, None if clock is None else clock.watch(progress, settings.rerank))

    complete = index is not None
    if not complete:
        with watch.measure("index"):
            complete = build_indexes(corpus, folder, settings, manifest, encode)

    def find_words() -> Path:
        place = folder if complete else folder.with_name(f"{folder.name}{UNFINISHED}")
        if (place / BM25).exists():
            return place
        build_bm25(corpus, work.path, settings.bm25)
        return work.path

    late = (lambda: True) if not complete else is_late or (lambda: False)
    stages = find_candidates(queries, folder.absolute(), settings, compute, late, find_words, watch)
    _check_candidates(stages, corpus, "build the index again", folder)
    if _list_limited(stages, settings):
        return stages
    part = path.with_name(f"part-{path.name}")
    write_stages(part, stages)
    os.replace(part, path)
    return read_stages(path)


def _list_limited(stages: Mapping[str, QueryLine], settings: RetrievalSettings) -> list[str]:
    """Return the queries that not all routes of the profile have searched for."""
    return [query_id for query_id, stage in stages.items() if not stage.routes.keys() >= {*settings.routes}]


def _read_documents(corpus: Corpus, spool: Path, groups: Sequence[Collection[str]]) -> Iterator[Document]:
    return corpus.select(groups[0]) if len(groups) == 1 else corpus.read_in_order(groups, spool)


def _note_scripts(queries: Sequence[Query], worker: RetrievalWorker, notices: Notices) -> None:
    """Count the queries in a script that the encoder does not know."""
    for query in queries:
        if not query.text.isascii() and not worker.knows_script(query.text):
            notices.add(f"{UNREAD_SCRIPT} of a query", query.query_id)


def _check_candidates(stages: Mapping[str, QueryLine], corpus: Corpus, remedy: str, where: Path | None) -> None:
    """Raise UserError if a candidate is not in the corpus."""
    if unknown := {c.doc_id for stage in stages.values() for c in stage.candidates} - corpus.ids:
        what = f"{len(unknown)} candidates are not in the corpus, for example {min(unknown)!r}"
        raise UserError(what, remedy, where)


def write_results(
    work: WorkFolder[MeasuredCandidate],
    corpus: Corpus,
    queries: Sequence[Query],
    stages: Mapping[str, QueryLine],
    worker: RetrievalWorker,
    settings: RetrievalSettings,
    keep_gains: bool,
) -> list[str]:
    """Write run, scores, candidates, and the evidence if gains are known; return the names of the files."""
    scores, folder = work.scores, work.staged
    whole = compares_gains(settings) or settings.match is not None
    read = scores.read_line if whole else scores.__getitem__

    def rank(query: Query) -> RankedQuery:
        return rank_query(query, stages[query.query_id], lambda doc_id: read((query.query_id, doc_id)), settings)

    ranked = {query.query_id: rank(query) for query in queries}
    files = [RUN, CANDIDATE_SCORES, CANDIDATES]
    with open_gzip_text(folder / RUN) as run:
        for query_id, result in ranked.items():
            run.writelines(format_run(query_id, [doc_id for doc_id, _ in result.ranking], settings.tag))
    lines = (
        line
        for query_id, result in ranked.items()
        for line in _describe_candidates(query_id, stages[query_id], result, scores, settings)
    )
    write_lines(folder, CANDIDATE_SCORES, lines)
    if (work.path / CANDIDATES).exists():
        shutil.copyfile(work.path / CANDIDATES, folder / CANDIDATES)
    else:
        write_stages(folder / CANDIDATES, stages)
    if worker.model is not None and (keep_gains or compares_gains(settings)):
        locator = TokenLocator(worker.model.tokenizer)
        offsets = {query.query_id: locator.locate_query(query.text).offsets for query in queries}
        rankings = {query_id: result.ranking for query_id, result in ranked.items()}
        files.append(write_evidence(folder, corpus, queries, rankings, scores, offsets))
        if keep_gains:
            restored = {query.query_id: restore_spans(query.original, offsets[query.query_id]) for query in queries}
            files.append(_write_gains(folder, scores, restored))
    return files


def _write_gains(folder: Path, scores: ScoreFile[MeasuredCandidate], offsets: Mapping[str, Offsets]) -> str:
    """Write a line per candidate: the gain of each token, its first character and the one after its last."""
    lines = (
        # of a query that was cut, the beginning
        GainsLine(key, TokenGains(offsets[key[0]][: len(own)].tolist(), tuple(own)), CANDIDATE_KEY)
        for key in sorted(scores)
        for own in [scores.read_line(key).gains or ()]
    )
    return write_lines(folder, GAINS, lines)


def _describe_candidates(
    query_id: str,
    stage: QueryLine,
    result: RankedQuery,
    scores: ScoreFile[MeasuredCandidate],
    settings: RetrievalSettings,
) -> Iterator[CandidateLine]:
    """Yield a line per candidate, in final order."""
    aggregate = settings.aggregate
    ranks = {name: {r.doc_id: i for i, r in enumerate(ranking, 1)} for name, ranking in stage.routes.items()}
    coarse = {c.doc_id: (rank, c.score) for rank, c in enumerate(stage.candidates, 1)}
    for position, (doc_id, final) in enumerate(result.ranking, 1):
        rank, score = coarse[doc_id]
        measured = None if final is None else scores[query_id, doc_id]
        if measured is not None and aggregate.entry.joint:
            measured = measured._replace(values={**measured.values, aggregate.field: result.gains[doc_id]})
        routes = {name: by_id.get(doc_id) for name, by_id in ranks.items()}
        match = result.matches.get(doc_id)
        yield CandidateLine(query_id, doc_id, position, final, rank, score, routes, measured, match)


def make_index(profile: Profile, directory: Path, folder: Path, devices: Devices) -> list[str]:
    """Build the indexes that a profile needs of the corpus in ``directory``; return a line about them.

    Raises:
        UserError: see `build_indexes`; or the profile retrieves nothing, or its encoder is not usable.
    """
    settings = profile.need_retrieval().model_copy(update={"rerank": False})
    worker = RetrievalWorker(profile.model_copy(update={"retrieval": settings}), devices.device)
    corpus = Corpus(directory, Notices(), profile.raw_text)
    manifest = describe_index(settings, corpus, worker.identify().get("encoder"))
    with open_workers(worker, devices) as workers:
        build_indexes(corpus, folder, settings, manifest, lambda tasks, _: workers.map(tasks))
    return [f"indexed {format_count(len(corpus), 'document')} ({', '.join(manifest.parts)}): {folder}"]
