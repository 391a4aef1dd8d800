"""Rerank the candidates of queries by their gains and their sentence matches (paper, PAN26 source-prefix construction).

A candidate source is scored with all its queries at once, so that it is split, tokenised and computed once. A scored
candidate is a line of the score file: the statistics of its gains and, if they are needed, the gains of all tokens and
the cosines of the query's sentences.
"""

from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.align.vectors import EncodedText, SentenceEncoder
from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError, UserErrors
from pan_scdg.lm.model import ScoringModel
from pan_scdg.normal_form import compose
from pan_scdg.notices import Notices
from pan_scdg.profile import Profile
from pan_scdg.progress import Progress
from pan_scdg.records import Document, Query, Ranked, Ranking
from pan_scdg.results.folder import ScoreFile
from pan_scdg.results.records import GAIN_DECIMALS, MeasuredCandidate, QueryLine
from pan_scdg.scdg.aggregation import Aggregate, Floats, list_stored
from pan_scdg.scdg.gains import combine_passes
from pan_scdg.scdg.reranking import rerank, scale_min_max
from pan_scdg.scdg.sequences import (
    ScoringInput,
    TokenIds,
    Tokenizer,
    TokenMismatchError,
    build_retrieval_conditional,
    build_retrieval_unconditional,
    compute_prefix_budget,
    cut_target,
    encode_query,
)
from pan_scdg.scdg.windows import SourceWindows, extract_terms
from pan_scdg.settings import RetrievalSettings
from pan_scdg.text.units import prepare_text

TARGET_DIGITS = 16
"""Of the hash by which results know that they scored the same tokens of a query."""
COSINE_DECIMALS = 5
"""Precision of the cosines of sentences; the last digits of a product depend on the processor."""
STATISTICS = ("mean", "median", "positive_gain_rate", "positive_mean", "deviation")
"""Fields of a scored candidate."""
BAND_RANKS = 50
"""Coarse ranks that are scored before the next ones if time is limited."""
MATCH_TEMPERATURE = 0.05
"""Differences of cosines that are small beside it count little."""
NO_MATCH_COSINE = -1.0
"""Stands for the cosine with a document that has no sentences, or that the encoder cannot read."""

LogProbs = npt.NDArray[np.float32]
FinalRanking = Sequence[tuple[str, float | None]]
"""Documents, best first, with their final scores; None: not reranked."""


class Target(NamedTuple):
    """A query as it is scored."""

    text: str
    token_ids: TokenIds
    """Without special tokens; of a query that is too long, the first ones."""
    budget: int
    """Number of tokens that are left for a source."""


class SourceTask(NamedTuple):
    """A candidate source with all its queries; without a source, queries that are scored alone."""

    source: str | None
    targets: tuple[Target, ...]


class MeasuredTarget(NamedTuple):
    """The numbers that a worker computes for a query of a task."""

    log_probs: LogProbs
    """Of each token of the query, ``[n]`` nats."""
    cosines: Floats | None = None
    """Of each sentence of the query with the most similar one of the source, ``[u]``; None without a match."""
    incidents: tuple[str, ...] = ()
    """What may have changed the last digits since the task before."""


def prepare_targets(
    queries: Iterable[Query], model: ScoringModel, settings: RetrievalSettings, where: Path, notices: Notices
) -> dict[str, Target]:
    """Return all queries by id, tokenised. Of one that leaves no tokens for a source, only the beginning is scored.

    Raises:
        UserErrors: naming every query that has no tokens, or with which the context is too small for any source.
        UserError: a query is cut, and the notices are strict; or the context is longer than the model reads.
    """
    model.check_length(settings.context, "retrieval.context")
    targets, errors = dict[str, Target](), list[UserError]()
    for query in queries:
        try:
            whole = encode_query(model.tokenizer, query.text)
            ids = cut_target(model.tokenizer, whole, settings.context)
            budget = compute_prefix_budget(model.tokenizer, ids, settings.context)
        except TokenMismatchError as e:
            remedy = "use a profile with a larger context" if query.text.strip() else "give the query a text"
            errors.append(UserError(f"query {query.query_id}: {e}", remedy, where))
            continue
        if len(ids) < len(whole):
            notices.add(
                f"query leaves no tokens for a source in a context of {settings.context}: "
                f"truncated to its first {len(ids)} tokens",
                f"{where}, query {query.query_id} of {len(whole)} tokens",
            )
        targets[query.query_id] = Target(query.text, ids, min(budget, settings.source_tokens or budget))
    if errors:
        raise UserErrors(errors)
    return targets


class CandidateScorer:
    """Scores candidate sources with a language model and, for ``[retrieval.match]``, an encoder."""

    def __init__(self, settings: RetrievalSettings, model: ScoringModel, encoder: SentenceEncoder | None) -> None:
        self._settings, self._model, self._encoder = settings, model, encoder

    def score(self, task: SourceTask) -> list[MeasuredTarget]:
        """Return the numbers of each query of a task."""
        return self.compute(task, build_inputs(task, self._model.tokenizer, self._settings))

    def compute(self, task: SourceTask, inputs: Sequence[ScoringInput]) -> list[MeasuredTarget]:
        """Return the numbers of each query of a task, whose inputs are those of `build_inputs`."""
        log_probs = self._model.compute_log_probs(inputs)
        incidents = self._model.take_incidents()
        if task.source is None or self._encoder is None:
            return [MeasuredTarget(values, None, incidents) for values in log_probs]
        source = self._encoder.encode(task.source).vectors
        queries = [self._encoder.encode(target.text) for target in task.targets]
        cosines = [compare_sentences(query, source) for query in queries]
        return [MeasuredTarget(*both, incidents) for both in zip(log_probs, cosines, strict=True)]


def build_inputs(task: SourceTask, tokenizer: Tokenizer, settings: RetrievalSettings) -> list[ScoringInput]:
    """Return an input of the language model for each query of a task."""
    if task.source is None:
        return [build_retrieval_unconditional(tokenizer, target.token_ids) for target in task.targets]
    windows = SourceWindows(tokenizer, task.source, settings.windows)
    prefixes = (windows.build_prefix(extract_terms(target.text), target.budget) for target in task.targets)
    return [
        build_retrieval_conditional(tokenizer, target.token_ids, prefix)
        for target, prefix in zip(task.targets, prefixes, strict=True)
    ]


def compare_sentences(query: EncodedText, source: npt.NDArray[np.float32]) -> Floats:
    """Return the cosine of each sentence of a query with the source's most similar one, ``[u]``."""
    if not query.vectors.size or not source.size:
        return np.full(len(query.prepared.units), NO_MATCH_COSINE)
    cosines: Floats = (query.vectors @ source.T).max(axis=1).astype(np.float64).round(COSINE_DECIMALS)
    return cosines


def group_by_source(
    stages: Mapping[str, QueryLine], settings: RetrievalSettings, scored: Container[tuple[str, str]]
) -> dict[str, list[str]]:
    """Return the queries of each candidate source of which at least one has no score yet."""
    queries: dict[str, list[str]] = {}
    for query_id, stage in stages.items():
        for candidate in select_scored(stage, settings):
            queries.setdefault(candidate.doc_id, []).append(query_id)
    return {doc_id: ids for doc_id, ids in queries.items() if not all((name, doc_id) in scored for name in ids)}


def split_into_bands(
    queries: Mapping[str, list[str]], stages: Mapping[str, QueryLine], settings: RetrievalSettings
) -> list[dict[str, list[str]]]:
    """Return the sources with their queries by the best rank that a source has, `BAND_RANKS` ranks together.

    When the first bands are scored, all queries have scores down to the same rank, and each source is computed once.
    """
    best: dict[str, int] = {}
    for stage in stages.values():
        for rank, candidate in enumerate(select_scored(stage, settings)):
            best[candidate.doc_id] = min(rank, best.get(candidate.doc_id, rank))
    bands: dict[int, dict[str, list[str]]] = {}
    for doc_id, ids in queries.items():
        bands.setdefault(best[doc_id] // BAND_RANKS, {})[doc_id] = ids
    return [bands[number] for number in sorted(bands)]


def count_scored_ranks(
    stages: Mapping[str, QueryLine], settings: RetrievalSettings, scores: ScoreFile[MeasuredCandidate]
) -> int | None:
    """Return the number of coarse ranks whose candidates are scored for every query; None if all are scored."""
    missing = [
        rank
        for query_id, stage in stages.items()
        for rank, candidate in enumerate(select_scored(stage, settings))
        if (query_id, candidate.doc_id) not in scores
    ]
    return min(missing, default=None)


def score_candidates(
    read: Callable[[Sequence[Collection[str]]], Iterable[Document]],
    targets: Mapping[str, Target],
    stages: Mapping[str, QueryLine],
    settings: RetrievalSettings,
    compute: Callable[[Iterable[SourceTask]], Iterator[list[MeasuredTarget]]],
    scored: Container[tuple[str, str]] = (),
    keep_gains: bool = False,
    by_rank: bool = False,
) -> Iterator[list[MeasuredCandidate]]:
    """Score the candidates of all queries; yield the records of the score file, those of a source together.

    Each query is scored once without a source, as a task of its own, so that no gain depends on the other queries.

    Args:
        read: returns the documents of groups of ids, group by group.
        targets: the queries by id; those with the same text are scored once.
        stages: the first stage of each query.
        settings: the profile's.
        compute: computes tasks, in order; it may end before the last one.
        scored: pairs of query and document that have a line already.
        keep_gains: also return the gain of every token.
        by_rank: the best coarse ranks are scored first, since there may be no time for all.
    """
    queries = group_by_source(stages, settings, scored)
    groups = split_into_bands(queries, stages, settings) if by_rank else [queries]
    texts = {targets[query_id].text: targets[query_id] for ids in queries.values() for query_id in ids}
    with Progress("scoring queries", len(texts)) as progress:
        alone: dict[str, MeasuredTarget] = {}
        tasks = (SourceTask(None, (target,)) for target in texts.values())
        for text, (score,) in zip(texts, compute(tasks)):
            alone[text] = score
            progress.update()
    pending: deque[tuple[str, list[str]]] = deque()

    def make_tasks() -> Iterator[SourceTask]:
        for document in read(groups):
            ids = queries[document.doc_id]
            distinct = list(dict.fromkeys(targets[query_id].text for query_id in ids))
            pending.append((document.doc_id, distinct))
            yield SourceTask(document.text, tuple(texts[text] for text in distinct))

    with Progress("scoring candidates", sum(map(len, queries.values()))) as progress:
        for values in compute(make_tasks()):
            doc_id, distinct = pending.popleft()
            by_text = {
                text: make_score(texts[text], alone[text], score, settings, keep_gains)
                for text, score in zip(distinct, values, strict=True)
            }
            ids = queries[doc_id]
            yield [by_text[targets[name].text]._replace(query=name, document=doc_id) for name in ids]
            progress.update(len(ids))


def make_score(
    target: Target, alone: MeasuredTarget, score: MeasuredTarget, settings: RetrievalSettings, keep_gains: bool
) -> MeasuredCandidate:
    """Return the record of a scored candidate, without its ids, from its numbers without and with the source."""
    gains = combine_passes((target.token_ids, target.token_ids), alone.log_probs, score.log_probs)
    statistics = gains.summarise(list_stored("candidates", [Aggregate("top", settings.q), settings.aggregate]))
    values = {name: getattr(statistics, name) for name in STATISTICS}
    values |= {aggregate.field: float(value) for aggregate, value in sorted(statistics.scores.items())}
    return MeasuredCandidate(
        "",
        "",
        statistics.tokens,
        hash_text(" ".join(map(str, target.token_ids.tolist())))[:TARGET_DIGITS],
        float(gains.unconditional.mean()),
        values,
        None if score.cosines is None else score.cosines.tolist(),
        gains.gains.round(GAIN_DECIMALS).tolist() if keep_gains or compares_gains(settings) else None,
        tuple(dict.fromkeys(alone.incidents + score.incidents)),
    )


def compares_gains(settings: RetrievalSettings) -> bool:
    """Return True if the aggregation compares the gains of all candidates of a query."""
    return settings.aggregate.entry.joint


def aggregate_gains(
    doc_ids: Sequence[str], read_score: Callable[[str], MeasuredCandidate], settings: RetrievalSettings
) -> dict[str, float]:
    """Return the score of each scored candidate of a query: its aggregated gain, or its share of the query."""
    aggregate = settings.aggregate
    if not doc_ids:
        return {}
    if not aggregate.entry.joint:
        return {doc_id: read_score(doc_id).values[aggregate.field] for doc_id in doc_ids}
    gains = np.stack([np.array(read_score(doc_id).gains, np.float64) for doc_id in doc_ids])
    return dict(zip(doc_ids, aggregate.compute(gains).tolist(), strict=True))


def match_candidates(
    text: str, doc_ids: Sequence[str], read_score: Callable[[str], MeasuredCandidate]
) -> dict[str, float]:
    """Return the share of a query that the sentences of each scored candidate explain; see `share_sentences`."""
    if not doc_ids:
        return {}
    spans = prepare_text(text, keep_headings=True).spans.tolist()
    words = np.array([len(text[start:end].split()) for start, end in spans], np.int64)
    cosines = np.array([read_score(doc_id).cosines for doc_id in doc_ids], np.float64).reshape(len(doc_ids), -1)
    return dict(zip(doc_ids, share_sentences(cosines, words).tolist(), strict=True))


def share_sentences(cosines: Floats, words: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """Return the share of a text's words that each document explains, ``[k]``; the shares sum up to 1.

    The words of a sentence are divided by the softmax of its cosines over `MATCH_TEMPERATURE`: documents on the same
    topic match all sentences a little, and what counts is which one matches a sentence better than the others do.

    Args:
        cosines: of each sentence with the most similar one of each document, ``[k, u]``.
        words: number of words of each sentence, ``[u]``.

    Raises:
        ValueError: there is no document, or shapes disagree.
    """
    if cosines.ndim != 2 or not len(cosines) or words.shape != cosines.shape[1:]:
        raise ValueError(f"cosines of shape {cosines.shape} and words of shape {words.shape} do not fit")
    if not words.sum():
        return np.full(len(cosines), 1 / len(cosines))
    scaled = cosines.astype(np.float64) / MATCH_TEMPERATURE
    weights = np.exp(scaled - scaled.max(axis=0))
    shares: npt.NDArray[np.float64] = (weights / weights.sum(axis=0)) @ (words / words.sum())
    return shares


def select_scored(stage: QueryLine, settings: RetrievalSettings) -> Ranking:
    """Return the candidates of a query to rerank: the first ``scored``, or all, or none without reranking."""
    return stage.candidates[: settings.scored] if settings.rerank else []


def rank_candidates(
    stage: QueryLine,
    gain: Mapping[str, float],
    settings: RetrievalSettings,
    match: Mapping[str, float] = MappingProxyType({}),
) -> FinalRanking:
    """Return the reranked candidates, then those below ``scored`` in coarse order, without a score.

    With the ``match`` of the candidates, its normalised mean with the gain stands in place of the gain.
    """
    head = select_scored(stage, settings)
    ids = [c.doc_id for c in head]
    gains = np.array([gain[doc_id] for doc_id in ids])
    if settings.match is not None:
        matches = scale_min_max([match[doc_id] for doc_id in ids])
        gains = (1 - settings.match.weight) * scale_min_max(gains) + settings.match.weight * matches
    order = rerank(ids, np.array([c.score for c in head]), gains, settings.weight)
    return [*order, *((c.doc_id, None) for c in stage.candidates[len(head) :])]


class RankedQuery(NamedTuple):
    """The reranked candidates of a query, and the scores by document that they are reranked by."""

    ranking: FinalRanking
    gains: Mapping[str, float]
    matches: Mapping[str, float]
    """Empty without ``[retrieval.match]``."""


def rank_query(
    query: Query, stage: QueryLine, read_score: Callable[[str], MeasuredCandidate], settings: RetrievalSettings
) -> RankedQuery:
    """Return the reranked candidates of a query.

    Args:
        query: the suspicious text.
        stage: its candidates in coarse order.
        read_score: returns the record of a document from `score_candidates`.
        settings: the profile's.
    """
    ids = [c.doc_id for c in select_scored(stage, settings)]
    gains = aggregate_gains(ids, read_score, settings)
    matches = {} if settings.match is None else match_candidates(query.text, ids, read_score)
    return RankedQuery(rank_candidates(stage, gains, settings, matches), gains, matches)


def rank_texts(
    query: str,
    documents: Mapping[str, str],
    profile: Profile,
    model: ScoringModel,
    encoder: SentenceEncoder | None,
) -> list[Ranked]:
    """Return documents with their scores, best first, all of which are scored; see `Scorer.rank`.

    Args:
        query: the suspicious text.
        documents: text of each candidate by its id.
        profile: has a table ``[retrieval]``.
        model: the language model.
        encoder: of ``[retrieval.match]``; None for a profile without it.

    Raises:
        UserError: the profile cannot rank candidates without a first stage, or the query or its length is not usable.
    """
    settings = profile.need_retrieval()
    if not settings.rerank or not settings.weight:
        raise UserError(f"profile {profile.name} ranks by the first stage alone", "use the command `run`")
    settings = settings.model_copy(update={"scored": None})
    notices = Notices(strict=True, remedy="shorten the query, or use a profile with a larger context")
    one = Query("query", *compose(query, profile.raw_text))
    targets = prepare_targets([one], model, settings, Path("query"), notices)
    stage = QueryLine(one.query_id, {}, [Ranked(doc_id, 0.0) for doc_id in documents])
    scorer = CandidateScorer(settings, model, encoder)

    def read(groups: Iterable[Iterable[str]]) -> Iterator[Document]:
        ids = (doc_id for group in groups for doc_id in group)
        return (Document(doc_id, *compose(documents[doc_id], profile.raw_text)) for doc_id in ids)

    scored = score_candidates(read, targets, {one.query_id: stage}, settings, partial(map, scorer.score))
    by_document = {score.document: score for scores in scored for score in scores}
    ranking = rank_query(one, stage, by_document.__getitem__, settings).ranking
    return [Ranked(doc_id, score) for doc_id, score in ranking if score is not None]
