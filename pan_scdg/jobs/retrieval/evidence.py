"""Write which source explains each passage of a query, and where in that source: ``evidence.jsonl``."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.align.align import Evidence
from pan_scdg.align.counterpart import find_counterparts
from pan_scdg.align.units import prepare_text
from pan_scdg.profile import RetrievalSettings
from pan_scdg.progress import Progress
from pan_scdg.records import Query
from pan_scdg.scdg.attribution import attribute_passages
from pan_scdg.scdg.sequences import Offsets
from pan_scdg.scoring.candidates import Found
from pan_scdg.scoring.features import load_gains
from pan_scdg.scoring.reranking import Ranking
from pan_scdg.store import Store

EVIDENCE = "evidence.jsonl"
UNIT_WORDS = 25
"""Least number of words of a unit that is attributed to a source: a sentence, or several short ones."""


def write_evidence(
    folder: Path,
    corpus: Corpus,
    queries: Sequence[Query],
    rankings: Mapping[str, Ranking],
    features: Found,
    offsets: Mapping[str, Offsets],
    settings: RetrievalSettings,
    store: Store,
) -> str:
    """Write a JSON line per passage of a query that a scored source explains; return the name of the file.

    ``begin`` and ``end`` are characters of the query, ``rank`` is that of the source in the run, and ``gain`` and
    ``margin`` (to the second-best source) are in nats per token; see `attribute_passages`. ``begin2`` and ``end2`` are
    the characters of the source that the passage is most like, null if none is like it; see
    `find_counterparts`.
    """
    lines: dict[str, list[dict[str, Any]]] = {}
    for query in queries:
        name = query.query_id
        lines[name] = list(_attribute(query, rankings[name], features, offsets[name], settings, store))
    _locate(corpus, queries, lines)
    with open(folder / EVIDENCE, "w", encoding="utf-8", newline="\n") as file:
        for query in queries:
            file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines[query.query_id])
    return EVIDENCE


def _attribute(
    query: Query, ranking: Ranking, features: Found, offsets: Offsets, settings: RetrievalSettings, store: Store
) -> Iterator[dict[str, Any]]:
    """Yield the passages of a query with their sources, without the place in these."""
    ids = [doc_id for doc_id, _ in ranking if (query.query_id, doc_id) in features]
    if not ids:
        return
    gains = np.stack([load_gains(store, features[query.query_id, doc_id][1], settings.control).gains for doc_id in ids])
    units = prepare_text(query.text, UNIT_WORDS).spans
    ranks = {doc_id: rank for rank, (doc_id, _) in enumerate(ranking, 1)}
    for found in attribute_passages(gains, offsets[: gains.shape[1]], [(begin, end) for begin, end in units.tolist()]):
        document = ids[found.best]
        yield {
            "query": query.query_id,
            "begin": found.begin,
            "end": found.end,
            "document": document,
            "rank": ranks[document],
            "gain": round(found.gain, 6),
            "second": None if found.second is None else ids[found.second],
            "margin": None if found.margin is None else round(found.margin, 6),
        }


def _locate(corpus: Corpus, queries: Sequence[Query], lines: Mapping[str, list[dict[str, Any]]]) -> None:
    """Add to each line the place in its source and the similarity of both sides; few texts are in memory at a time."""
    texts = {query.query_id: query.text for query in queries}
    wanted: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for query_id, rows in lines.items():
        for row in rows:
            wanted.setdefault(row["document"], {}).setdefault(query_id, []).append(row)
    with Progress("locating passages", len(wanted)) as progress:
        for document in corpus.select(wanted):
            for query_id, rows in wanted[document.doc_id].items():
                passages = [(row["begin"], row["end"]) for row in rows]
                found = find_counterparts(texts[query_id], document.text, passages, UNIT_WORDS)
                for row, evidence in zip(rows, found, strict=True):
                    row.update(_describe_place(evidence))
            progress.update()


def _describe_place(evidence: Evidence | None) -> dict[str, int | float | str | None]:
    """Return the fields of ``passages.jsonl`` with the place in the source and the similarity of both sides."""
    if evidence is None:
        return {"begin2": None, "end2": None, "similarity": 0.0, "verbatim": 0.0}
    fields = evidence.to_json()
    return {
        "begin2": fields["begin2"],
        "end2": fields["end2"],
        "similarity": round(evidence.similarity, 6),
        "verbatim": round(evidence.verbatim, 6),
    }
