"""The page of source retrieval, made of the results that were written and of the first-stage rankings."""

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import groupby
from pathlib import Path
from typing import Any

from pan_scdg.jobs.retrieval.evidence import EVIDENCE
from pan_scdg.jobs.retrieval.results import GAINS, SCORES
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.align.align import Evidence
from pan_scdg.records import Passage, Query
from pan_scdg.report.query_page import ExplainedPassage, RankedSource, ReportQuery
from pan_scdg.report.records import TokenGains
from pan_scdg.report.view import LARGEST
from pan_scdg.retrieval.candidates import FirstStage

MOST_SOURCES = 10
"""Of each query; others are shown if they explain a passage."""


def list_report_queries(
    folder: Path, queries: Sequence[Query], found: Mapping[str, FirstStage]
) -> Iterator[ReportQuery]:
    """Yield the part of the page about each query that has candidates."""
    passages = _read_evidence(folder / EVIDENCE)
    gains = _read_gains(folder / GAINS, passages)
    texts = {query.query_id: query.text for query in queries}
    with gzip.open(folder / SCORES, "rt", encoding="utf-8") as file:
        for query_id, rows in groupby(map(json.loads, file), key=lambda row: str(row["query"])):
            explained = passages[query_id]
            shown = {passage.rank for passage in explained}
            kept = [row for row in rows if row["rank"] <= MOST_SOURCES or row["rank"] in shown]
            sources = _describe_sources(kept, found[query_id])
            yield ReportQuery(query_id, texts[query_id], sources, explained, gains.get(query_id))


def read_sources(corpus: Corpus, queries: Sequence[ReportQuery], most: int = LARGEST) -> dict[str, str]:
    """Return the texts that explain passages, by id; of more than ``most`` characters those of the first queries."""
    wanted = dict.fromkeys(passage.document for query in queries for passage in query.passages)
    places = {doc_id: place for place, doc_id in enumerate(wanted)}
    kept: dict[str, str] = {}
    last_first: list[tuple[int, str]] = []
    size = 0
    for document in corpus.select(places):
        kept[document.doc_id] = document.text
        heappush(last_first, (-places[document.doc_id], document.doc_id))
        size += len(document.text)
        while size > most:
            size -= len(kept.pop(heappop(last_first)[1]))
    return kept


def _read_evidence(path: Path) -> defaultdict[str, list[ExplainedPassage]]:
    passages: defaultdict[str, list[ExplainedPassage]] = defaultdict(list)
    if path.exists():
        with open(path, encoding="utf-8") as file:
            for row in map(json.loads, file):
                begin, begin2, end2 = row["begin"], row["begin2"] or 0, row["end2"] or 0
                place = Passage(begin, row["end"] - begin, begin2, end2 - begin2)
                evidence = Evidence(place, row["similarity"], row["verbatim"], row["gain"])
                explained = ExplainedPassage(evidence, row["document"], row["rank"], row["margin"])
                passages[row["query"]].append(explained)
    return passages


def _read_gains(path: Path, passages: Mapping[str, Sequence[ExplainedPassage]]) -> dict[str, TokenGains]:
    """Return by query the gains of the tokens that begin in passages, each with the source of the passage."""
    tokens: defaultdict[str, dict[tuple[int, int], float]] = defaultdict(dict)
    if path.exists():
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for row in map(json.loads, file):
                places = [(p.begin, p.end) for p, document, *_ in passages[row["query"]] if document == row["document"]]
                for (begin, end), gain in zip(row["offsets"], row["gains"]):
                    if any(first <= begin < last for first, last in places):
                        tokens[row["query"]][begin, end] = gain
    return {name: TokenGains(*zip(*sorted(found.items()), strict=True)) for name, found in tokens.items()}


def _describe_sources(rows: Sequence[Mapping[str, Any]], stage: FirstStage) -> list[RankedSource]:
    wanted = {row["document"] for row in rows}
    routes = {
        name: {r.doc_id: (rank, r.score) for rank, r in enumerate(ranking, 1) if r.doc_id in wanted}
        for name, ranking in stage.routes.items()
    }
    return [
        RankedSource(
            row["rank"],
            row["document"],
            row["final"],
            {name: places[row["document"]] for name, places in routes.items() if row["document"] in places},
        )
        for row in rows
    ]
