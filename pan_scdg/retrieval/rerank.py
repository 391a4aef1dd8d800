"""Rerank the candidates of queries by their gains and their sentence matches (paper, PAN26 source-prefix construction).

A candidate source is scored with all its queries at once, so that it is split, tokenised and computed once.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.align.units import prepare_text
from pan_scdg.errors import UserError, UserErrors
from pan_scdg.lm.model import ScoringModel
from pan_scdg.models.encoder import Encoder
from pan_scdg.notices import Notices
from pan_scdg.profile import MatchSettings, Profile, RetrievalSettings
from pan_scdg.records import Query
from pan_scdg.retrieval.candidates import FirstStage
from pan_scdg.retrieval.ranking import Ranked, Ranking
from pan_scdg.scdg.aggregation import Aggregate, Floats, GainStatistics, choose_aggregate, list_stored
from pan_scdg.scdg.decision import rerank, scale_min_max
from pan_scdg.scdg.gains import Gains, combine_passes
from pan_scdg.scdg.sequences import (
    AlignmentError,
    TokenIds,
    build_retrieval_conditional,
    build_retrieval_unconditional,
    compute_prefix_budget,
    cut_query,
    encode_query,
)
from pan_scdg.scdg.windows import SourceWindows, extract_terms

SCORE_DECIMALS = 6
"""Final scores are compared rounded, equal ones by document id."""
COSINE_DECIMALS = 5
"""Precision of the cosines of sentences; the last digits of a product depend on the processor."""
SENTENCE_WORDS = 3
"""A sentence of fewer words is joined to the next one."""
MATCH_TEMPERATURE = 0.05
"""Differences of cosines that are small beside it count little."""
ABSENT = -1.0
"""Stands for the cosine with a document that has no sentences."""

LogProbs = npt.NDArray[np.float32]
FinalRanking = Sequence[tuple[str, float | None]]
"""Documents, best first, with their final scores; None: not reranked."""


class Target(NamedTuple):
    """A query as it is scored."""

    token_ids: TokenIds
    text: str
    budget: int
    """Number of tokens that are left for a source."""


class SourceTask(NamedTuple):
    """A candidate source with all its queries; without a source, queries that are scored alone."""

    source: str | None
    targets: tuple[Target, ...]


class TargetScore(NamedTuple):
    """What a worker computes for a query of a task."""

    log_probs: LogProbs
    """Of each token of the query, ``[n]`` nats."""
    cosines: npt.NDArray[np.float64] | None = None
    """Of each sentence of the query with the most similar one of the source, ``[u]``."""


def prepare_targets(
    queries: Sequence[Query], model: ScoringModel, settings: RetrievalSettings, where: Path, notices: Notices
) -> dict[str, Target]:
    """Return all queries by id, tokenised. Of one that leaves no tokens for a source, only the beginning is scored.

    Raises:
        UserErrors: naming every query that has no tokens, or with which the context is too small for any source.
        UserError: a query is cut, and the notices are strict.
    """
    targets, errors = dict[str, Target](), list[UserError]()
    for query in queries:
        try:
            whole = encode_query(model.tokenizer, query.text)
            ids = cut_query(model.tokenizer, whole, settings.context)
            budget = compute_prefix_budget(model.tokenizer, ids, settings.context)
        except AlignmentError as e:
            remedy = "use a profile with a larger context" if query.text.strip() else "give the query a text"
            errors.append(UserError(f"query {query.query_id}: {e}", remedy, where))
            continue
        if len(ids) < len(whole):
            notices.add(
                f"query leaves no tokens for a source in a context of {settings.context}: "
                f"truncated to its first {len(ids)} tokens",
                f"{where}, query {query.query_id} of {len(whole)} tokens",
            )
        targets[query.query_id] = Target(ids, query.text, min(budget, settings.source_tokens or budget))
    if errors:
        raise UserErrors(errors)
    return targets


class CandidateScorer:
    """Scores candidate sources with a language model and, for ``[retrieval.match]``, an encoder."""

    def __init__(self, settings: RetrievalSettings, model: ScoringModel, encoder: Encoder | None) -> None:
        self._settings, self._model, self._encoder = settings, model, encoder
        self._vectors: dict[str, npt.NDArray[np.float32]] = {}
        """Of the sentences of each query."""

    def score(self, task: SourceTask) -> list[TargetScore]:
        """Return the scores of each query of a task."""
        tokenizer = self._model.tokenizer
        if task.source is None:
            inputs = [build_retrieval_unconditional(tokenizer, target.token_ids) for target in task.targets]
            return [TargetScore(log_probs) for log_probs in self._model.compute_log_probs(inputs)]
        windows = SourceWindows(tokenizer, task.source, self._settings.windows)
        inputs = [
            build_retrieval_conditional(
                tokenizer, target.token_ids, windows.build_prefix(extract_terms(target.text), target.budget)
            )
            for target in task.targets
        ]
        log_probs = self._model.compute_log_probs(inputs)
        return [TargetScore(*values) for values in zip(log_probs, self._match_sentences(task.source, task.targets))]

    def _match_sentences(self, source: str, targets: Iterable[Target]) -> Iterable[npt.NDArray[np.float64] | None]:
        """Return the cosines of each query; None without an encoder."""
        if self._encoder is None:
            return [None for _ in targets]
        source_vectors = encode_sentences(source, self._encoder)
        cosines = []
        for target in targets:
            if target.text not in self._vectors:
                self._vectors[target.text] = encode_sentences(target.text, self._encoder)
            cosines.append(_compare_sentences(self._vectors[target.text], source_vectors))
        return cosines


def encode_sentences(text: str, encoder: Encoder) -> npt.NDArray[np.float32]:
    """Return the unit vectors of a text's sentences in half precision, ``[u, d]``."""
    sentences = [text[start:end] for start, end in prepare_text(text, SENTENCE_WORDS).spans.tolist()]
    if not sentences:
        return np.zeros((0, encoder.dimension), np.float32)
    return encoder.encode(sentences).astype(np.float16).astype(np.float32)


def _compare_sentences(query: npt.NDArray[np.float32], source: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return the cosine of each sentence of a query with the source's most similar one, ``[u]``."""
    if not len(source):
        return np.full(len(query), ABSENT)
    cosines: npt.NDArray[np.float64] = (query @ source.T).max(axis=1).astype(np.float64).round(COSINE_DECIMALS)
    return cosines


def summarise_gains(alone: LogProbs, given: LogProbs, target: Target, settings: RetrievalSettings) -> tuple[Gains, GainStatistics]:
    """Return the gains of a candidate and their statistics, from the log-probabilities without and with the source."""
    gains = combine_passes((target.token_ids, target.token_ids), alone, given)
    own = choose_aggregate(settings)
    wanted = list_stored("candidates", [Aggregate("top", settings.q), *([own] if own else [])])
    return gains, gains.summarise(wanted)


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


def count_sentence_words(text: str) -> npt.NDArray[np.int64]:
    """Return the number of words of each sentence that is matched, ``[u]``."""
    spans = prepare_text(text, SENTENCE_WORDS).spans.tolist()
    return np.array([len(text[start:end].split()) for start, end in spans], np.int64)


def select_scored(stage: FirstStage, settings: RetrievalSettings) -> Ranking:
    """Return the candidates of a query to rerank: the first ``scored``, or all, or none without reranking."""
    return stage.candidates[: settings.scored] if settings.rerank else []


def rank_candidates(
    stage: FirstStage,
    gain: Mapping[str, float],
    settings: RetrievalSettings,
    match: Mapping[str, float] = MappingProxyType({}),
) -> list[tuple[str, float | None]]:
    """Return the reranked candidates, then those below ``scored`` in coarse order, without a score.

    With the ``match`` of the candidates, its normalised mean with the gain stands in place of the gain.
    """
    head = select_scored(stage, settings)
    ids = [c.doc_id for c in head]
    evidence = np.array([gain[doc_id] for doc_id in ids])
    if settings.match is not None:
        matches = scale_min_max([match[doc_id] for doc_id in ids])
        evidence = _mix(scale_min_max(evidence), matches, settings.match)
    scored = rerank(ids, np.array([c.score for c in head]), evidence, settings.weight)
    rounded = ((doc_id, round(score, SCORE_DECIMALS)) for doc_id, score in scored)
    order = sorted(rounded, key=lambda item: (-item[1], item[0]))
    return [*order, *((c.doc_id, None) for c in stage.candidates[len(head) :])]


def _mix(gains: Floats, matches: Floats, settings: MatchSettings) -> Floats:
    mixed: Floats = (1 - settings.weight) * gains + settings.weight * matches
    return mixed


def compute_shares(texts: str, cosines: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the share of a query that each document explains, from the cosines of its sentences."""
    words = count_sentence_words(texts)
    shares = share_sentences(np.array(list(cosines.values())).reshape(len(cosines), -1), words)
    return dict(zip(cosines, shares.tolist(), strict=True))


def rank_texts(
    query: str,
    documents: Iterable[tuple[str, str]],
    settings: RetrievalSettings,
    model: ScoringModel,
    encoder: Encoder | None,
) -> list[Ranked]:
    """Return the documents that a caller gives with their scores, best first; see `Scorer.rank`.

    Args:
        query: the suspicious text.
        documents: ids and texts of the candidates, all of which are scored.
        settings: the profile's, from `choose_settings`.
        model: the language model.
        encoder: that of ``[retrieval.match]``; None without this table.

    Raises:
        UserError: the query, its length or an id is not usable.
    """
    model.check_length(settings.context, "retrieval.context")
    texts: dict[str, str] = {}
    for doc_id, text in documents:
        if doc_id in texts:
            raise UserError(f"the document id {doc_id!r} is repeated", "give each document its own id")
        texts[doc_id] = text
    if not texts:
        return []
    notices = Notices(strict=True, remedy="shorten the query, or use a profile with a larger context")
    target = prepare_targets([Query("query", query)], model, settings, Path("query"), notices)["query"]
    scorer = CandidateScorer(settings, model, encoder)
    (alone,) = scorer.score(SourceTask(None, (target,)))
    gains, cosines = dict[str, Gains](), dict[str, Any]()
    statistics = dict[str, GainStatistics]()
    for doc_id, text in texts.items():
        (given,) = scorer.score(SourceTask(text, (target,)))
        gains[doc_id], statistics[doc_id] = summarise_gains(alone.log_probs, given.log_probs, target, settings)
        cosines[doc_id] = given.cosines
    aggregate = choose_aggregate(settings)
    if aggregate is None:
        raise ValueError("the profile has no aggregation")
    if aggregate.entry.joint:
        scores = aggregate.compute(np.stack([one.gains for one in gains.values()])).tolist()
    else:
        scores = [one.scores[aggregate] for one in statistics.values()]
    match = {} if encoder is None else compute_shares(query, cosines)
    stage = FirstStage({}, [Ranked(doc_id, 0.0) for doc_id in texts])
    ranking = rank_candidates(stage, dict(zip(texts, scores, strict=True)), settings, match)
    return [Ranked(doc_id, score) for doc_id, score in ranking if score is not None]


def choose_settings(profile: Profile) -> RetrievalSettings:
    """Return the settings of a profile with which all candidates are scored.

    Raises:
        UserError: the profile has no [retrieval] table, or cannot rank candidates without a first stage.
    """
    settings = profile.need_retrieval()
    if not settings.rerank or not settings.weight:
        raise UserError(f"profile {profile.name} ranks by the first stage alone", "use the command `run`")
    return settings.model_copy(update={"scored": None})
