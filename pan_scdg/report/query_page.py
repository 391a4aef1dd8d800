"""Write the page of source retrieval: each query beside the sources that explain it, and its ranked sources."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.align.passages import Evidence
from pan_scdg.align.units import count_words
from pan_scdg.report.html import BOTH, render_page
from pan_scdg.report.records import TokenGains
from pan_scdg.report.texts import TextView
from pan_scdg.report.view import GAIN, MAX_PAGE_BYTES, PAGE, PassageView, list_places, mark_texts, measure_passage
from pan_scdg.report.wording import describe_explanation

MAX_QUERIES = 1_000
SECTION, SOURCE = 2_500, 1_000
"""Bytes, generously: of a query without its texts, and of a source's row."""


class RankedSource(NamedTuple):
    """A source of a query."""

    rank: int
    """In the run, from 1."""
    doc_id: str
    score: float | None
    """That decides the rank; None: not scored."""
    routes: Mapping[str, tuple[int, float]]
    """Rank and score in each first-stage ranking that has found it."""


class ExplainedPassage(NamedTuple):
    """A passage of a query, and the source that explains it best."""

    evidence: Evidence
    """With the place of the source that it is most like, an empty one if none is like it by its words."""
    document: str
    rank: int
    """Of the source."""
    margin: float | None
    """Difference between its gain and that of the second-best source; None without a second source."""


class ReportQuery(NamedTuple):
    """A query, its best sources, and the passages that they explain."""

    query_id: str
    text: str
    sources: Sequence[RankedSource]
    passages: Sequence[ExplainedPassage]
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
        found: dict[int, tuple[int, int, int]] = {}
        for number, (passage, _, rank, _) in enumerate(self.query.passages, 1):
            first, passages, characters = found.get(rank, (number, 0, 0))
            found[rank] = first, passages + 1, characters + passage.end - passage.begin
        return found

    @property
    def share(self) -> float:
        """Return the share of the query's characters that lie in passages."""
        return sum(p.evidence.end - p.evidence.begin for p in self.query.passages) / max(1, len(self.text.text))

    @cached_property
    def passages(self) -> list[PassageView]:
        """Return the rows of the passages."""
        rows = []
        for number, (passage, document, rank, margin) in enumerate(self.query.passages, 1):
            words = count_words(self.text.text[passage.begin : passage.end])
            sentence, anchor = describe_explanation(passage, words, margin), self.name_anchor(number)
            rows.append(PassageView(number, passage, self.text, self.documents[document], anchor, sentence, rank=rank))
        return rows

    @property
    def data(self) -> dict[str, Any]:
        """Return the script's data: numbers of texts, and passages with both places, text and rank of the source."""
        numbers = {doc_id: i for i, doc_id in enumerate(self.documents, 1)}
        passages = [
            [*list_places(passage, self.text, self.documents[document]), numbers[document], rank]
            for passage, document, rank, _ in self.query.passages
        ]
        texts = [text.number for text in (self.text, *self.documents.values())]
        gains = {} if self.query.gains is None else self.text.pack_gains(self.query.gains)
        return {"texts": texts, "passages": passages, **gains}

    def name_anchor(self, passage: int) -> str:
        """Return the anchor of a passage's row."""
        return f"query-{self.number}-{passage}"

    def measure(self) -> int:
        """Return the size without that of the sources' texts, in bytes, rounded up."""
        size = self.text.measure() + SECTION + SOURCE * len(self.query.sources)
        if self.query.gains is not None:
            size += GAIN * (len(self.query.gains.gains) + len(self.text.sentences))
        return size + sum(
            measure_passage(p.evidence, self.text, self.documents[p.document]) for p in self.query.passages
        )


def write_query_page(
    queries: Iterable[ReportQuery],
    documents: Mapping[str, str],
    facts: Mapping[str, Any],
    warnings: Sequence[str],
    path: Path,
    largest: int = MAX_PAGE_BYTES,
) -> None:
    """Write the page to a new file, of at most ``largest`` bytes: queries that do not fit are counted.

    Args:
        queries: with their sources and passages.
        documents: the texts of sources by id; a query that lacks one does not fit.
        facts: how the result was made, by name.
        warnings: what the reader has to know.
        path: the file.
        largest: most bytes.

    Raises:
        OSError: the file cannot be written.
    """
    shown, left_out = _choose_queries(queries, documents, largest - PAGE)
    mark_texts(passage for view in shown for passage in view.passages)
    text = render_page(
        "queries.html.j2",
        (*BOTH, "query.js"),
        queries=shown,
        sources=list(dict.fromkeys(text for view in shown for text in view.documents.values())),
        left_out=left_out,
        facts=[(name.replace("_", " "), value) for name, value in facts.items()],
        warnings=warnings,
    )
    path.write_text(text, encoding="utf-8", newline="")


def _choose_queries(
    queries: Iterable[ReportQuery], documents: Mapping[str, str], space: int
) -> tuple[list[QueryView], int]:
    """Return the queries that fit with the texts of their sources, which are on the page once, and how many do not."""
    shown: list[QueryView] = []
    views: dict[str, TextView] = {}
    numbers, left_out = count(1), 0
    for query in queries:
        wanted = dict.fromkeys(passage.document for passage in query.passages)
        if len(shown) == MAX_QUERIES or not wanted.keys() <= documents.keys():
            left_out += 1
            continue
        new = {doc_id: TextView(next(numbers), doc_id, documents[doc_id]) for doc_id in wanted if doc_id not in views}
        explaining = {doc_id: new.get(doc_id) or views[doc_id] for doc_id in wanted}
        view = QueryView(len(shown) + 1, query, TextView(next(numbers), query.query_id, query.text), explaining)
        if (size := view.measure() + sum(text.measure() for text in new.values())) > space:
            left_out += 1
            continue
        shown.append(view)
        views |= new
        space -= size
    return shown, left_out
