"""Write which source explains each passage of a query, and where in that source: ``evidence.jsonl``."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pan_scdg.align.passages import find_counterparts
from pan_scdg.jobs.rerank import FinalRanking
from pan_scdg.normal_form import restore_spans
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.progress import Progress
from pan_scdg.records import Document, MeasuredPassage, Query
from pan_scdg.results.files import EVIDENCE, write_lines
from pan_scdg.results.folder import ScoreFile
from pan_scdg.scdg.attribution import attribute_passages
from pan_scdg.scdg.sequences import Offsets
from pan_scdg.text.units import prepare_text

UNIT_WORDS = 25
"""Least number of words of a unit that is attributed to a source: a sentence, or several short ones."""
DECIMALS = 6


def write_evidence(
    folder: Path,
    corpus: Corpus,
    queries: Sequence[Query],
    rankings: Mapping[str, FinalRanking],
    scores: ScoreFile,
    offsets: Mapping[str, Offsets],
) -> str:
    """Write a JSON line per passage of a query that a scored source explains; return the name of the file.

    ``begin`` and ``end`` are characters of the query, ``rank`` is that of the source in the run, and ``gain`` and
    ``margin`` (to the second-best source) are in nats per token; see `attribute_passages`. ``begin2`` and ``end2`` are
    the characters of the source that the passage is most like, null if none is like it; see `find_counterparts`.
    """
    lines = {
        query.query_id: list(_attribute(query, rankings[query.query_id], scores, offsets[query.query_id]))
        for query in queries
    }
    _locate(corpus, queries, lines)
    return write_lines(folder, EVIDENCE, (line for query in queries for line in lines[query.query_id]))


def _attribute(query: Query, ranking: FinalRanking, scores: ScoreFile, offsets: Offsets) -> Iterator[dict[str, Any]]:
    """Yield the passages of a query with their sources, without the place in these."""
    ids = [doc_id for doc_id, score in ranking if score is not None]
    if not ids:
        return
    gains = np.stack([scores.read_gains((query.query_id, doc_id)) for doc_id in ids])
    units = prepare_text(query.text, UNIT_WORDS, keep_headings=True).spans
    for passage in attribute_passages(gains, offsets[: gains.shape[1]], [(a, b) for a, b in units.tolist()]):
        yield {
            "query": query.query_id,
            "begin": passage.begin,
            "end": passage.end,
            "document": ids[passage.best],
            "rank": passage.best + 1,  # scored sources are at the top of the ranking
            "gain": round(passage.gain, DECIMALS),
            "second": None if passage.second is None else ids[passage.second],
            "margin": None if passage.margin is None else round(passage.margin, DECIMALS),
        }


def _locate(corpus: Corpus, queries: Sequence[Query], lines: Mapping[str, list[dict[str, Any]]]) -> None:
    """Add to each line the place in its source and the similarity of both sides; few texts are in memory at a time."""
    by_id = {query.query_id: query for query in queries}
    by_source: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for query_id, rows in lines.items():
        for row in rows:
            by_source.setdefault(row["document"], {}).setdefault(query_id, []).append(row)
    with Progress("locating passages", len(by_source)) as progress:
        for document in corpus.select(by_source):
            for query_id, rows in by_source[document.doc_id].items():
                query, spans = by_id[query_id], [(row["begin"], row["end"]) for row in rows]
                counterparts = find_counterparts(query.text, document.text, spans, UNIT_WORDS)
                restored = restore_spans(query.original, spans).tolist()
                for row, (begin, end), evidence in zip(rows, restored, counterparts, strict=True):
                    row.update(begin=begin, end=end, **_describe_place(evidence, document))
            progress.update()


def _describe_place(evidence: MeasuredPassage | None, document: Document) -> dict[str, int | float | None]:
    """Return the place in the source and the similarity of both sides."""
    if evidence is None:
        return {"begin2": None, "end2": None, "similarity": 0.0, "verbatim": 0.0}
    ((begin, end),) = restore_spans(document.original, evidence.source).tolist()
    return {
        "begin2": begin,
        "end2": end,
        "similarity": round(evidence.similarity, DECIMALS),
        "verbatim": round(evidence.verbatim, DECIMALS),
    }
