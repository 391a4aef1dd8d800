"""Rerank the candidates of queries by their coarse scores, gains and sentence matches (paper, PAN26)."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from pan_scdg.profile import RetrievalSettings
from pan_scdg.retrieval.candidates import FirstStage
from pan_scdg.scdg.aggregation import choose_aggregate
from pan_scdg.scdg.decision import rerank, scale_min_max
from pan_scdg.scoring.candidates import Found, select_scored
from pan_scdg.scoring.features import load_gains
from pan_scdg.scoring.sentence_match import SentenceMatcher
from pan_scdg.store import Store

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
