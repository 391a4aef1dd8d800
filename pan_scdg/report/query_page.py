"""Write the page of source retrieval: each query beside the sources that explain it, and its ranked sources."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.passages.align import Evidence
from pan_scdg.passages.units import count_words
from pan_scdg.records import Passage
from pan_scdg.report.grades import pack_gains
from pan_scdg.report.html import BOTH, render_page
from pan_scdg.report.records import TokenGains
from pan_scdg.report.text_view import Mark, Name, TextView
from pan_scdg.report.texts import clean_text
from pan_scdg.report.view import GAIN, LARGEST, PAGE, PassageView, make_side, measure_side
from pan_scdg.report.wording import describe_explanation

MOST_QUERIES = 1_000
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
    """A passage of a query, the source that explains it best, and the place of this that it is most like.

    Places are offsets in characters.
    """

    begin: int
    end: int
    document: str
    rank: int
    """Of the source."""
    gain: float
    """In nats per token."""
    margin: float | None
    """Difference between this gain and that of the second-best source; None without a second source."""
    begin2: int | None
    """In the source; None: no place is like it by its words."""
    end2: int | None
    similarity: float
    verbatim: float
    """See `Evidence`."""


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
        for number, passage in enumerate(self.query.passages, 1):
            first, passages, characters = found.get(passage.rank, (number, 0, 0))
            found[passage.rank] = first, passages + 1, characters + passage.end - passage.begin
        return found

    @property
    def share(self) -> float:
        """Return the share of the query's characters that lie in passages."""
        return sum(p.end - p.begin for p in self.query.passages) / max(1, len(self.text.text))

    @property
    def passages(self) -> list[PassageView]:
        """Return the rows of the passages."""
        return [self._show_passage(i, passage) for i, passage in enumerate(self.query.passages, 1)]

    @property
    def data(self) -> dict[str, Any]:
        """Return the script's data: numbers of texts, and passages with both places, text and rank of the source.

        Offsets are in UTF-16 units; a passage without a place in its source has an empty one.
        """
        places = {doc_id: i for i, doc_id in enumerate(self.documents, 1)}
        passages = []
        for p in self.query.passages:
            source = self.documents[p.document]
            here, there = map(self.text.to_units, (p.begin, p.end)), map(source.to_units, (p.begin2 or 0, p.end2 or 0))
            passages.append([*here, *there, places[p.document], p.rank])
        texts = [text.name.number for text in (self.text, *self.documents.values())]
        gains = {} if self.query.gains is None else pack_gains(self.query.gains, self.text)
        return {"texts": texts, "passages": passages, **gains}

    def name_anchor(self, passage: int) -> str:
        """Return the anchor of a passage's row."""
        return f"query-{self.number}-{passage}"

    def measure(self) -> int:
        """Return the size without that of the sources' texts, in bytes, rounded up."""
        size = self.text.measure() + SECTION + SOURCE * len(self.query.sources)
        if self.query.gains is not None:
            size += GAIN * (len(self.query.gains.gains) + len(self.text.sentences))
        for p in self.query.passages:
            size += measure_side(self.text.text, p.begin, p.end)
            size += measure_side(self.documents[p.document].text, p.begin2 or 0, p.end2 or 0)
        return size

    def _show_passage(self, number: int, passage: ExplainedPassage) -> PassageView:
        source, (begin, end) = self.documents[passage.document], (passage.begin2 or 0, passage.end2 or 0)
        place = Passage(passage.begin, passage.end - passage.begin, begin, end - begin)
        shown = Evidence(place, passage.similarity, passage.verbatim, passage.gain)
        words = count_words(self.text.text[passage.begin : passage.end])
        return PassageView(
            number,
            passage.rank,
            describe_explanation(shown, words, passage.margin),
            make_side(self.text.text, (passage.begin, passage.end)),
            make_side(source.text, (begin, end)),
            self.name_anchor(number),
            self.text.find_anchor(passage.begin),
            source.find_anchor(begin) if begin < end else f"text-{source.name.number}",
            source.name,
        )


def write_query_page(
    queries: Iterable[ReportQuery],
    documents: Mapping[str, str],
    facts: Mapping[str, Any],
    warnings: Sequence[str],
    path: Path,
    largest: int = LARGEST,
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
    text = render_page(
        "queries.html.j2",
        (*BOTH, "query.js"),
        queries=shown,
        sources=_mark_texts(shown),
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
        if len(shown) == MOST_QUERIES or not wanted.keys() <= documents.keys():
            left_out += 1
            continue
        new = {doc_id: _make_view(numbers, doc_id, documents[doc_id]) for doc_id in wanted if doc_id not in views}
        explaining = {doc_id: new.get(doc_id) or views[doc_id] for doc_id in wanted}
        view = QueryView(len(shown) + 1, query, _make_view(numbers, query.query_id, query.text), explaining)
        if (size := view.measure() + sum(text.measure() for text in new.values())) > space:
            left_out += 1
            continue
        shown.append(view)
        views |= new
        space -= size
    return shown, left_out


def _make_view(numbers: Iterable[int], name: str, text: str) -> TextView:
    return TextView(Name(next(iter(numbers)), clean_text(name)), clean_text(text), ())


def _mark_texts(queries: Sequence[QueryView]) -> list[TextView]:
    """Mark the passages in the queries and in their sources; return the sources."""
    marks: dict[TextView, list[Mark]] = {}
    for view in queries:
        own = []
        for number, p in enumerate(view.query.passages, 1):
            source = marks.setdefault(view.documents[p.document], [])
            own.append(Mark(p.begin, p.end, view.name_anchor(number)))
            source.append(Mark(p.begin2 or 0, p.end2 or 0, view.name_anchor(number)))
        view.text.mark(own)
    for text, found in marks.items():
        text.mark(found)
    return list(marks)
