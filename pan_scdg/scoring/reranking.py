"""Rerank the candidates of queries by their coarse scores, gains and sentence matches (paper, PAN26)."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from pan_scdg.align.scorer import AlignmentScorer
from pan_scdg.profile import Profile, RetrievalSettings
from pan_scdg.records import Document, Query
from pan_scdg.retrieval.candidates import FirstStage
from pan_scdg.retrieval.ranking import Ranked
from pan_scdg.scdg.aggregation import choose_aggregate
from pan_scdg.scdg.decision import rerank, scale_min_max
from pan_scdg.scoring.candidates import Found, prepare_targets, score_candidates, select_scored
from pan_scdg.scoring.features import load_gains
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.sentence_match import SentenceMatcher
from pan_scdg.store import MemoryStore, Store

Ranking = Sequence[tuple[str, float | None]]
"""Documents, best first, with their final scores; None: not reranked."""


class RankedQueries(NamedTuple):
    """The reranked candidates of every query, and the scores by document that they are reranked by."""

    gains: dict[str, dict[str, float]]
    matches: dict[str, dict[str, float]]
    """Empty without ``[retrieval.match]``."""
    rankings: dict[str, Ranking]


def rank_queries(
    found: Mapping[str, FirstStage],
    features: Found,
    settings: RetrievalSettings,
    store: Store,
    matcher: SentenceMatcher | None = None,
) -> RankedQueries:
    """Return the reranked candidates of every query of ``found``; see `rank_candidates`."""
    ranked = RankedQueries({}, {}, {})
    for name, stage in found.items():
        ranked.gains[name] = gains = aggregate_query_gains(name, stage, features, settings, store)
        ranked.matches[name] = matches = {} if matcher is None else matcher.compute_shares(name, list(gains))
        ranked.rankings[name] = rank_candidates(stage, gains, settings, matches)
    return ranked


def aggregate_query_gains(
    query_id: str, stage: FirstStage, features: Found, settings: RetrievalSettings, store: Store
) -> dict[str, float]:
    """Return the score of each candidate of a query: its aggregated gain, or its share of the query."""
    head = [c.doc_id for c in select_scored(stage, settings)]
    aggregate = choose_aggregate(settings)
    if not head or aggregate is None:
        return {}
    if not aggregate.entry.joint:
        return {doc_id: features[query_id, doc_id][0].scores[aggregate] for doc_id in head}
    gains = np.stack([load_gains(store, features[query_id, doc_id][1], settings.control).gains for doc_id in head])
    return dict(zip(head, aggregate.compute(gains).tolist(), strict=True))


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
    tail = stage.candidates[len(head) :]
    ids = [c.doc_id for c in head]
    evidence = np.array([gain[doc_id] for doc_id in ids])
    if settings.match is not None:
        share = settings.match.weight
        matches = scale_min_max([match[doc_id] for doc_id in ids])
        evidence = (1 - share) * scale_min_max(evidence) + share * matches
    order = rerank(ids, np.array([c.score for c in head]), evidence, settings.weight)
    return [*order, *((c.doc_id, None) for c in tail)]


def rank_texts(
    query: str,
    documents: Iterable[tuple[str, str]],
    settings: RetrievalSettings,
    model: ScoringModel,
    matching: Callable[[], AlignmentScorer],
    store: MemoryStore,
) -> list[Ranked]:
    """Return the documents that a caller gives with their scores, best first; see `Scorer.rank`.

    Args:
        query: the suspicious text.
        documents: ids and texts of the candidates, all of which are scored.
        settings: the profile's, from `choose_settings`.
        model: the language model.
        matching: returns the encoder of ``[retrieval.match]``.
        store: is empty again afterwards.

    Raises:
        UserError: the query, its length or an id is not usable.
    """
    model.check_length(settings.context, "retrieval.context")
    asked, corpus = Query("query", query), _Candidates(documents)
    notices = Notices(strict=True, remedy="shorten the query, or use a profile with a larger context")
    targets = prepare_targets([asked], model, settings, Path("query"), notices)
    found = {asked.query_id: FirstStage({}, [Ranked(doc_id, 0.0) for doc_id in corpus.texts])}
    matcher = None if settings.match is None else SentenceMatcher(settings.match, matching(), store, [asked])
    try:
        scored = score_candidates(corpus, targets, found, model, settings, store, keep_gains=False, matcher=matcher)
        ranking = rank_queries(found, scored, settings, store, matcher).rankings[asked.query_id]
    finally:
        store.close()
    return [Ranked(doc_id, score) for doc_id, score in ranking if score is not None]


class _Candidates:
    """Candidates in memory.

    Raises:
        UserError: an id is repeated.
    """

    def __init__(self, documents: Iterable[tuple[str, str]]) -> None:
        self.texts: dict[str, str] = {}
        for doc_id, text in documents:
            if doc_id in self.texts:
                raise UserError(f"the document id {doc_id!r} is repeated", "give each document its own id")
            self.texts[doc_id] = text

    def select(self, wanted: Collection[str]) -> Iterator[Document]:
        """Yield the documents that ``wanted`` names, in the caller's order."""
        return (Document(doc_id, text) for doc_id, text in self.texts.items() if doc_id in wanted)


def choose_settings(profile: Profile) -> RetrievalSettings:
    """Return the settings of a profile with which all candidates are scored.

    Raises:
        UserError: the profile has no [retrieval] table, or cannot rank candidates without a first stage.
    """
    settings = profile.need_retrieval()
    if not settings.rerank or not settings.weight:
        raise UserError(f"profile {profile.name} ranks by the first stage alone", "use the command `run`")
    if settings.cascade is not None:
        raise UserError(
            f"profile {profile.name} has a cascade, whose small model is not used here",
            "use the command `run`, or remove [retrieval.cascade] from the profile",
        )
    return settings.model_copy(update={"scored": None})
