"""Write the results of source retrieval: the run, the scores of every candidate, the evidence, and the gains."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.jobs.retrieval.cascade import Cascade
from pan_scdg.jobs.retrieval.evidence import write_evidence
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.pan.runs import format_run, open_gzip_text
from pan_scdg.profile import RetrievalSettings
from pan_scdg.records import Query
from pan_scdg.retrieval.candidate_files import CANDIDATES, write_stages
from pan_scdg.retrieval.candidates import FirstStage
from pan_scdg.scdg.aggregation import choose_aggregate
from pan_scdg.scdg.sequences import Offsets
from pan_scdg.scoring.calibration import describe_control
from pan_scdg.scoring.candidates import Found
from pan_scdg.scoring.features import load_gains
from pan_scdg.scoring.reranking import Ranking, rank_queries
from pan_scdg.scoring.sentence_match import SentenceMatcher
from pan_scdg.scoring.token_offsets import TokenLocator
from pan_scdg.store import Store

RUN = "run.txt.gz"
SCORES = "scores.jsonl.gz"
GAINS = "gains.jsonl.gz"


class ScoredCandidates(NamedTuple):
    """The candidates of every query, and the scores that rerank them."""

    found: Mapping[str, FirstStage]
    features: Found
    """With a ``cascade``, of its heads only."""
    matcher: SentenceMatcher | None
    cascade: Cascade | None


def write_ranking(
    folder: Path,
    corpus: Corpus,
    queries: Sequence[Query],
    candidates: ScoredCandidates,
    settings: RetrievalSettings,
    store: Store,
    locator: TokenLocator | None,
    keep_gains: bool,
) -> list[str]:
    """Write scores and run into ``folder``; return the names of the files, the run last.

    With a ``locator`` the evidence is also written, and with ``keep_gains`` the gains. Without reranking, the first
    stage is written, so that a later run can rerank these candidates.
    """
    found, features, matcher, cascade = candidates
    scored = found if cascade is None else cascade.heads
    ranked = rank_queries({q.query_id: scored[q.query_id] for q in queries}, features, settings, store, matcher)
    rankings = ranked.rankings if cascade is None else cascade.append_tails(ranked.rankings)
    with open_gzip_text(folder / SCORES) as file:
        for query in queries:
            name = query.query_id
            file.writelines(
                _format_scores(
                    name,
                    found[name],
                    rankings[name],
                    features,
                    ranked.gains[name],
                    ranked.matches[name],
                    settings,
                    None if cascade is None else cascade.rankings[name],
                )
            )
    names = [SCORES]
    if locator is not None:
        located = {query.query_id: locator.locate_query(query.text).offsets for query in queries}
        names.append(write_evidence(folder, corpus, queries, rankings, features, located, settings, store))
        if keep_gains:
            _write_gains(folder / GAINS, features, located, settings, store)
            names.append(GAINS)
    if not settings.rerank:
        write_stages(folder / CANDIDATES, {query.query_id: found[query.query_id] for query in queries})
        names.append(CANDIDATES)
    with open_gzip_text(folder / RUN) as file:
        for query in queries:
            file.writelines(
                format_run(query.query_id, [doc_id for doc_id, _ in rankings[query.query_id]], settings.tag)
            )
    return [*names, RUN]


def _write_gains(
    path: Path, features: Found, located: Mapping[str, Offsets], settings: RetrievalSettings, store: Store
) -> None:
    """Write a line per candidate: the gain of each token, its first character and the one after its last."""
    with open_gzip_text(path) as file:
        for (query_id, doc_id), (_values, key) in sorted(features.items()):
            values = [round(float(g), 6) for g in load_gains(store, key, settings.control).gains]
            who = {"query": query_id, "document": doc_id, **describe_control(settings.control)}
            places = located[query_id][: len(values)].tolist()  # of a query that was cut, the beginning
            file.write(json.dumps({**who, "gains": values, "offsets": places}) + "\n")


def _format_scores(
    query_id: str,
    stage: FirstStage,
    ranking: Ranking,
    features: Found,
    gain: Mapping[str, float],
    match: Mapping[str, float],
    settings: RetrievalSettings,
    small: Ranking | None,
) -> Iterator[str]:
    """Yield a JSON line per candidate, in final order, with its ranks, coarse score, gain features and final score.

    With the ranking of a ``small`` model, also with its rank and score there, and with the stage that placed it.
    """
    own = choose_aggregate(settings)
    by_small = {doc_id: (rank, score) for rank, (doc_id, score) in enumerate(small or (), 1)}
    ranks = {name: {r.doc_id: i for i, r in enumerate(found, 1)} for name, found in stage.routes.items()}
    coarse = {c.doc_id: (i, c.score) for i, c in enumerate(stage.candidates, 1)}
    for position, (doc_id, final) in enumerate(ranking, 1):
        record: dict[str, Any] = {
            "query": query_id,
            "document": doc_id,
            "rank": position,
            "final": _round(final),
            "coarse_rank": coarse[doc_id][0],
            "coarse": _round(coarse[doc_id][1], 9),
            **{f"{name.replace('-', '_')}_rank": found.get(doc_id) for name, found in ranks.items()},
        }
        if doc_id in by_small:
            rank, score = by_small[doc_id]
            stage_name = "large" if final is not None else "coarse" if score is None else "small"
            record |= {"stage": stage_name, "small_rank": rank, "small": _round(score)}
        scored = features.get((query_id, doc_id))
        if scored is not None:
            values = scored[0]
            record |= {
                **describe_control(settings.control),
                "tokens": values.tokens,
                "mean": _round(values.mean),
                "median": _round(values.median),
                "positive_gain_rate": _round(values.positive_rate),
                **{aggregate.field: _round(v) for aggregate, v in sorted(values.scores.items())},
                **({own.field: _round(gain[doc_id])} if own is not None and own.entry.joint else {}),
                **({"match": _round(match[doc_id])} if doc_id in match else {}),
            }
        yield json.dumps(record, ensure_ascii=True) + "\n"


def _round(value: float | None, digits: int = 6) -> float | None:
    return None if value is None else round(float(value), digits)
