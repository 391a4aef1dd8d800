"""What job 2 writes: the run, a line of scores for every candidate, and the gains on request."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pan_scdg.pan.runs import open_gzip_text, run_lines
from pan_scdg.profile import RetrievalSettings
from pan_scdg.records import Query
from pan_scdg.retrieval.candidate_files import CANDIDATES, write_stages
from pan_scdg.retrieval.candidates import FirstStage
from pan_scdg.scdg.aggregation import aggregate_of
from pan_scdg.scdg.attribution import attribution_shares
from pan_scdg.scdg.gains import GainStatistics
from pan_scdg.scdg.rerank import rerank
from pan_scdg.scoring.candidates import select_scored
from pan_scdg.scoring.features import load_gains
from pan_scdg.scoring.pairs import describe_control
from pan_scdg.store import Store

RUN = "run.txt.gz"
SCORES = "scores.jsonl.gz"
GAINS = "gains.jsonl.gz"

Features = Mapping[tuple[str, str], tuple[GainStatistics, str]]
"""Statistics and store key of the gains of scored candidates, by (query, document)."""


def aggregate_query_gains(
    query_id: str, stage: FirstStage, features: Features, settings: RetrievalSettings, store: Store
) -> dict[str, float]:
    """What each scored candidate of a query is reranked by: its aggregated gain, or its share of the query."""
    head = [c.doc_id for c in select_scored(stage, settings)]
    aggregate = aggregate_of(settings)
    if aggregate is not None:
        return {doc_id: aggregate.of(features[query_id, doc_id][0]) for doc_id in head}
    if not head or settings.w is None:
        return {}
    gains = np.stack([load_gains(store, features[query_id, doc_id][1], settings.control) for doc_id in head])
    return dict(zip(head, attribution_shares(gains, settings.w).tolist(), strict=True))


def rank_candidates(
    stage: FirstStage, gain: Mapping[str, float], settings: RetrievalSettings
) -> list[tuple[str, float | None]]:
    """The reranked candidates, then those below ``scored`` in their coarse order, without a score."""
    head = select_scored(stage, settings)
    tail = stage.candidates[len(head) :]
    order = rerank(
        [c.doc_id for c in head],
        np.array([c.score for c in head]),
        np.array([gain[c.doc_id] for c in head]),
        settings.weight,
    )
    return [*order, *((c.doc_id, None) for c in tail)]


def write_ranking(
    folder: Path,
    queries: Sequence[Query],
    found: Mapping[str, FirstStage],
    features: Features,
    settings: RetrievalSettings,
    store: Store,
    keep_gains: bool,
) -> list[str]:
    """Write scores and run into ``folder``, and the gains on request; returns the files' names, the run's last.

    Without reranking the run is one of candidates, so that the first stage lies beside it for whoever reranks them.
    """
    gains = {
        q.query_id: aggregate_query_gains(q.query_id, found[q.query_id], features, settings, store) for q in queries
    }
    rankings = {q.query_id: rank_candidates(found[q.query_id], gains[q.query_id], settings) for q in queries}
    with open_gzip_text(folder / SCORES) as file:
        for query in queries:
            ranking, gain = rankings[query.query_id], gains[query.query_id]
            file.writelines(_score_lines(query.query_id, found[query.query_id], ranking, features, gain, settings))
    names = [SCORES]
    if keep_gains:
        with open_gzip_text(folder / GAINS) as file:
            for (query_id, doc_id), (_values, key) in sorted(features.items()):
                values = [round(float(g), 6) for g in load_gains(store, key, settings.control)]
                who = {"query": query_id, "document": doc_id, **describe_control(settings.control)}
                file.write(json.dumps({**who, "gains": values}) + "\n")
        names.append(GAINS)
    if not settings.rerank:
        write_stages(folder / CANDIDATES, {query.query_id: found[query.query_id] for query in queries})
        names.append(CANDIDATES)
    with open_gzip_text(folder / RUN) as file:
        for query in queries:
            file.writelines(run_lines(query.query_id, [doc_id for doc_id, _ in rankings[query.query_id]], settings.tag))
    return [*names, RUN]


def _score_lines(
    query_id: str,
    stage: FirstStage,
    ranking: Sequence[tuple[str, float | None]],
    features: Features,
    gain: Mapping[str, float],
    settings: RetrievalSettings,
) -> Iterator[str]:
    """One JSON line a candidate, in final order: ranks in the routes, coarse score, gain features, final score."""
    ranks = {name: {r.doc_id: i for i, r in enumerate(found, 1)} for name, found in stage.routes.items()}
    coarse = {c.doc_id: (i, c.score) for i, c in enumerate(stage.candidates, 1)}
    for position, (doc_id, final) in enumerate(ranking, 1):
        record: dict[str, Any] = {
            "query": query_id,
            "document": doc_id,
            "rank": position,
            "final": _rounded(final),
            "coarse_rank": coarse[doc_id][0],
            "coarse": _rounded(coarse[doc_id][1], 9),
            **{f"{name.replace('-', '_')}_rank": found.get(doc_id) for name, found in ranks.items()},
        }
        scored = features.get((query_id, doc_id))
        if scored is not None:
            values = scored[0]
            record |= {
                **describe_control(settings.control),
                "tokens": values.tokens,
                "mean": _rounded(values.mean),
                "median": _rounded(values.median),
                "positive_gain_rate": _rounded(values.positive_rate),
                **{f"top_{q:g}": _rounded(v) for q, v in sorted(values.top.items())},
                **{f"window_{w}": _rounded(v) for w, v in sorted(values.window.items())},
                **{f"window_bounded_{w}": _rounded(v) for w, v in sorted(values.window_bounded.items())},
                **{f"window_median_{w}": _rounded(v) for w, v in sorted(values.window_median.items())},
                **({f"share_{settings.w}": _rounded(gain[doc_id])} if settings.aggregation == "share" else {}),
            }
        yield json.dumps(record, ensure_ascii=True) + "\n"


def _rounded(value: float | None, digits: int = 6) -> float | None:
    return None if value is None else round(float(value), digits)
