"""Write which source explains each passage of a query, and where in that source: ``evidence.jsonl``."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from pan_scdg.align.passages import find_counterparts
from pan_scdg.jobs.rerank import FinalRanking
from pan_scdg.normal_form import restore_spans
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.progress import Progress
from pan_scdg.records import Document, MeasuredPassage, Passage, Query, Span
from pan_scdg.results.files import EVIDENCE, write_lines
from pan_scdg.results.folder import ScoreFile
from pan_scdg.results.records import EvidenceLine, MeasuredCandidate
from pan_scdg.scdg.attribution import attribute_passages
from pan_scdg.scdg.sequences import Offsets
from pan_scdg.text.units import prepare_text

UNIT_WORDS = 25
"""Least number of words of a unit that is attributed to a source: a sentence, or several short ones."""
DECIMALS = 6
NOWHERE = Span(0, 0)
"""The place in the source of a passage that is like none of its parts."""


def write_evidence(
    folder: Path,
    corpus: Corpus,
    queries: Sequence[Query],
    rankings: Mapping[str, FinalRanking],
    scores: ScoreFile[MeasuredCandidate],
    offsets: Mapping[str, Offsets],
) -> str:
    """Write a JSON line per passage of a query that a scored source explains; return the name of the file.

    Passages and gains are those of `attribute_passages`; `find_counterparts` finds the place in the source that a
    passage is most like.
    """
    lines = {
        query.query_id: list(_attribute(query, rankings[query.query_id], scores, offsets[query.query_id]))
        for query in queries
    }
    located = _locate(corpus, queries, lines)
    return write_lines(folder, EVIDENCE, (line for query in queries for line in located[query.query_id]))


def _attribute(
    query: Query, ranking: FinalRanking, scores: ScoreFile[MeasuredCandidate], offsets: Offsets
) -> Iterator[EvidenceLine]:
    """Yield the passages of a query with their sources, without the place in these."""
    ids = [doc_id for doc_id, score in ranking if score is not None]
    if not ids:
        return
    gains = np.stack([np.array(scores.read_line((query.query_id, doc_id)).gains, np.float64) for doc_id in ids])
    units = prepare_text(query.text, UNIT_WORDS, keep_headings=True).spans
    for one in attribute_passages(gains, offsets[: gains.shape[1]], [(a, b) for a, b in units.tolist()]):
        passage = MeasuredPassage(Passage(Span(one.begin, one.end), NOWHERE), 0.0, 0.0, round(one.gain, DECIMALS))
        rank = one.best + 1  # scored sources are at the top of the ranking
        second = None if one.second is None else ids[one.second]
        margin = None if one.margin is None else round(one.margin, DECIMALS)
        yield EvidenceLine(query.query_id, ids[one.best], rank, passage, second, margin)


def _locate(
    corpus: Corpus, queries: Sequence[Query], lines: Mapping[str, Sequence[EvidenceLine]]
) -> dict[str, list[EvidenceLine]]:
    """Return the lines with the place in the source and the similarity of both sides; few texts are in memory."""
    by_id = {query.query_id: query for query in queries}
    located = {query_id: list(own) for query_id, own in lines.items()}
    by_source: defaultdict[str, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for query_id, own in lines.items():
        for number, line in enumerate(own):
            by_source[line.document][query_id].append(number)
    with Progress("locating passages", len(by_source)) as progress:
        for document in corpus.select(by_source):
            for query_id, numbers in by_source[document.doc_id].items():
                query, spans = by_id[query_id], [lines[query_id][number].passage.target for number in numbers]
                places = find_counterparts(query.text, document.text, spans, UNIT_WORDS)
                restored = restore_spans(query.original, spans).tolist()
                for number, span, place in zip(numbers, restored, places, strict=True):
                    line = located[query_id][number]
                    passage = _place(line.passage, Span(*span), place, document)
                    located[query_id][number] = line._replace(passage=passage)
            progress.update()
    return located


def _place(
    passage: MeasuredPassage, target: Span, place: MeasuredPassage | None, document: Document
) -> MeasuredPassage:
    """Return a passage in characters of the files, with its place in the source and the similarity of both sides."""
    if place is None:
        return passage._replace(passage=Passage(target, NOWHERE))
    (source,) = restore_spans(document.original, place.source).tolist()
    return passage._replace(
        passage=Passage(target, Span(*source)),
        similarity=round(place.similarity, DECIMALS),
        verbatim=round(place.verbatim, DECIMALS),
    )
