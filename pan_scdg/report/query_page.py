"""Make the page of source retrieval: each query with the sources that explain it, and its ranked sources."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import count, groupby
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import Corpus, read_queries
from pan_scdg.records import Query, Ranking, TokenGains
from pan_scdg.report.html import SHARED_SCRIPTS, render_page
from pan_scdg.report.texts import TextView
from pan_scdg.report.view import (
    MAX_PAGE_BYTES,
    PAGE_BYTES,
    TOKEN_BYTES,
    PassageView,
    locate_passage,
    mark_texts,
    measure_passage,
)
from pan_scdg.report.wording import describe_explanation, list_origins
from pan_scdg.results.files import (
    CANDIDATE_SCORES,
    CANDIDATES,
    EVIDENCE,
    GAINS,
    MAX_GAIN_VALUES,
    read_lines,
    read_optional,
)
from pan_scdg.results.job import JobFile
from pan_scdg.results.records import CandidateLine, EvidenceLine, GainsLine, QueryLine
from pan_scdg.text.units import count_words

MAX_QUERIES = 1_000
MAX_SOURCES = 10
"""Of each query; others are shown if they explain a passage."""
QUERY_BYTES, SOURCE_BYTES = 2_500, 1_000
"""Bytes, generously: of a query without its texts, and of a source's row."""


class RankedSource(NamedTuple):
    """A source of a query."""

    rank: int
    """In the run, from 1."""
    doc_id: str
    score: float | None
    """That decides the rank; None: not scored."""
    routes: Mapping[str, tuple[int, float]]
    """Rank and score in each first-stage ranking that contains it."""


class ReportQuery(NamedTuple):
    """A query, its best sources, and the passages that they explain."""

    query_id: str
    text: str
    sources: Sequence[RankedSource]
    passages: Sequence[EvidenceLine]
    gains: TokenGains | None = None
    """Of the tokens in passages, each with the source that explains the passage best; None: they were not kept."""


@dataclass(frozen=True, eq=False)
class QueryView:
    """A query as the page shows it; its texts have their marks once all queries are chosen."""

    number: int
    """On the page, from 1."""
    query: ReportQuery
    text: TextView
    documents: Mapping[str, TextView]
    """The sources that explain passages, by id."""

    @property
    def routes(self) -> list[str]:
        """Return the names of the first-stage rankings."""
        return sorted({route for source in self.query.sources for route in source.routes})

    @property
    def explained(self) -> dict[int, tuple[int, int, int]]:
        """Return by rank of a source: the number of its first passage, how many it has, and their characters."""
        parts: dict[int, tuple[int, int, int]] = {}
        for number, line in enumerate(self.query.passages, 1):
            first, passages, characters = parts.get(line.rank, (number, 0, 0))
            parts[line.rank] = first, passages + 1, characters + line.passage.target.length
        return parts

    @property
    def share(self) -> float:
        """Return the share of the query's characters inside passages."""
        return sum(p.passage.target.length for p in self.query.passages) / max(1, len(self.text.text))

    @cached_property
    def passages(self) -> list[PassageView]:
        """Return the rows of the passages."""
        rows = []
        for number, line in enumerate(self.query.passages, 1):
            passage, source = line.passage, self.documents[line.document]
            words = count_words(self.text.text[slice(*passage.target)])
            sentence, anchor = describe_explanation(passage, words, line.margin), self.name_anchor(number)
            rows.append(PassageView(number, passage, self.text, source, anchor, sentence, rank=line.rank))
        return rows

    @property
    def data(self) -> dict[str, Any]:
        """Return the script's data: numbers of texts, and passages with both places, text and rank of the source."""
        numbers = {doc_id: i for i, doc_id in enumerate(self.documents, 1)}
        passages = [
            [*locate_passage(p.passage, self.text, self.documents[p.document]), numbers[p.document], p.rank]
            for p in self.query.passages
        ]
        texts = [text.number for text in (self.text, *self.documents.values())]
        gains = {} if self.query.gains is None else self.text.pack_gains(self.query.gains)
        return {"texts": texts, "passages": passages, **gains}

    def name_anchor(self, passage: int) -> str:
        """Return the anchor of a passage's row."""
        return f"query-{self.number}-{passage}"

    def measure(self) -> int:
        """Return the size without that of the sources' texts, in bytes, rounded up."""
        size = self.text.measure() + QUERY_BYTES + SOURCE_BYTES * len(self.query.sources)
        if self.query.gains is not None:
            size += TOKEN_BYTES * (len(self.query.gains.gains) + len(self.text.sentences))
        return size + sum(
            measure_passage(p.passage, self.text, self.documents[p.document]) for p in self.query.passages
        )


def render_retrieval(folder: Path, job: JobFile, directory: Path) -> str:
    """Return the page of a result of source retrieval.

    Args:
        folder: of the result.
        job: its ``job.json``.
        directory: the input.
    """
    queries = list(_list_report_queries(folder, read_queries(directory, Notices())))
    documents = read_sources(Corpus(directory, Notices()), queries)
    warnings = [*filter(None, (job.partial, job.deadline))]
    return render_queries(queries, documents, {**list_origins(job), "queries": len(queries)}, warnings)


def _list_report_queries(folder: Path, queries: Sequence[Query]) -> Iterator[ReportQuery]:
    """Yield the part of the page about each query that has candidates."""
    passages: defaultdict[str, list[EvidenceLine]] = defaultdict(list)
    for one in read_optional(folder / EVIDENCE, EvidenceLine.from_json):
        passages[one.query].append(one)
    gains = _read_query_gains(folder / GAINS, passages)
    routes = {line.query: line.routes for line in read_lines(folder / CANDIDATES, QueryLine.from_json)}
    texts = {query.query_id: query.original or query.text for query in queries}
    candidates = read_lines(folder / CANDIDATE_SCORES, CandidateLine.from_json)
    for query_id, lines in groupby(candidates, key=lambda line: line.query):
        explaining = {line.rank for line in passages[query_id]}
        kept = [line for line in lines if line.rank <= MAX_SOURCES or line.rank in explaining]
        sources = _describe_sources(kept, routes.get(query_id, {}))
        yield ReportQuery(query_id, texts[query_id], sources, passages[query_id], gains.get(query_id))


def _read_query_gains(path: Path, passages: Mapping[str, Sequence[EvidenceLine]]) -> dict[str, TokenGains]:
    """Return by query the gains of the tokens that begin in passages, each with the source of the passage."""
    tokens: defaultdict[str, dict[tuple[int, int], float]] = defaultdict(dict)
    for (query, document), own, _ in read_optional(path, GainsLine.from_json, MAX_GAIN_VALUES):
        places = [line.passage.target for line in passages.get(query, ()) if line.document == document]
        for (begin, end), gain in zip(own.spans, own.gains):
            if any(first <= begin < last for first, last in places):
                tokens[query][begin, end] = gain
    return {name: TokenGains(*zip(*sorted(values.items()), strict=True)) for name, values in tokens.items() if values}


def _describe_sources(lines: Sequence[CandidateLine], routes: Mapping[str, Ranking]) -> list[RankedSource]:
    documents = {line.document for line in lines}
    places = {
        name: {doc_id: (rank, score) for rank, (doc_id, score) in enumerate(ranking, 1) if doc_id in documents}
        for name, ranking in routes.items()
    }
    return [
        RankedSource(
            line.rank,
            line.document,
            line.final,
            {name: ranks[line.document] for name, ranks in places.items() if line.document in ranks},
        )
        for line in lines
    ]


def read_sources(
    corpus: Corpus, queries: Sequence[ReportQuery], max_characters: int = MAX_PAGE_BYTES
) -> dict[str, str]:
    """Return the texts that explain passages, by id; if they are too long, those of the first queries."""
    doc_ids = dict.fromkeys(passage.document for query in queries for passage in query.passages)
    order = {doc_id: number for number, doc_id in enumerate(doc_ids)}
    texts: dict[str, str] = {}
    last_first: list[tuple[int, str]] = []
    size = 0
    for document in corpus.select(order):
        texts[document.doc_id] = document.original or document.text
        heappush(last_first, (-order[document.doc_id], document.doc_id))
        size += len(document.text)
        while size > max_characters:
            size -= len(texts.pop(heappop(last_first)[1]))
    return texts


def render_queries(
    queries: Iterable[ReportQuery],
    documents: Mapping[str, str],
    facts: Mapping[str, object],
    warnings: Sequence[str],
    max_bytes: int = MAX_PAGE_BYTES,
) -> str:
    """Return the page, of at most ``max_bytes``: queries that do not fit are counted.

    Args:
        queries: with their sources and passages.
        documents: the texts of sources by id; a query that lacks one does not fit.
        facts: how the result was made, by name.
        warnings: what the reader has to know.
        max_bytes: in UTF-8.
    """
    shown, left_out = _choose_queries(queries, documents, max_bytes - PAGE_BYTES)
    texts = [text for view in shown for text in (view.text, *view.documents.values())]
    mark_texts((passage for view in shown for passage in view.passages), texts)
    return render_page(
        "queries.html.j2",
        (*SHARED_SCRIPTS, "query.js"),
        queries=shown,
        sources=list(dict.fromkeys(text for view in shown for text in view.documents.values())),
        left_out=left_out,
        facts=[(name.replace("_", " "), value) for name, value in facts.items()],
        warnings=warnings,
    )


def _choose_queries(
    queries: Iterable[ReportQuery], documents: Mapping[str, str], space: int
) -> tuple[list[QueryView], int]:
    """Return the queries that fit with the texts of their sources, which are on the page once, and how many do not."""
    shown: list[QueryView] = []
    views: dict[str, TextView] = {}
    numbers, left_out = count(1), 0
    for query in queries:
        doc_ids = dict.fromkeys(passage.document for passage in query.passages)
        if len(shown) == MAX_QUERIES or not doc_ids.keys() <= documents.keys():
            left_out += 1
            continue
        new = {doc_id: TextView(next(numbers), doc_id, documents[doc_id]) for doc_id in doc_ids if doc_id not in views}
        explaining = {doc_id: new.get(doc_id) or views[doc_id] for doc_id in doc_ids}
        view = QueryView(len(shown) + 1, query, TextView(next(numbers), query.query_id, query.text), explaining)
        if (size := view.measure() + sum(text.measure() for text in new.values())) > space:
            left_out += 1
            continue
        shown.append(view)
        views |= new
        space -= size
    return shown, left_out
