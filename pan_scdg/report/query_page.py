"""Write the page of source retrieval: each query coloured by the sources that explain it, and its ranked sources."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.report.html import STYLES, join_files, make_policy, open_templates, trust
from pan_scdg.report.text_view import Mark, Name, TextView
from pan_scdg.report.texts import clean_text
from pan_scdg.report.view import LARGEST, PAGE

SOURCE, PASSAGE = 1_000, 300
"""Bytes, generously: of a source's row, and of a passage's markup."""


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
    """A passage of a query, as offsets in characters, and the rank of the source that explains it best."""

    begin: int
    end: int
    rank: int
    gain: float
    """In nats per token."""
    margin: float | None
    """By how much the gain is larger than that of the second-best source; None: there is none."""


class ReportQuery(NamedTuple):
    """A query, its best sources, and the passages that they explain."""

    query_id: str
    text: str
    sources: Sequence[RankedSource]
    passages: Sequence[ExplainedPassage]


class QueryView(NamedTuple):
    """A query as the page shows it."""

    text: TextView
    sources: Sequence[RankedSource]
    passages: Sequence[ExplainedPassage]
    routes: Sequence[str]
    explained: Mapping[int, tuple[int, int]]
    """Number of passages and characters that a source explains, by its rank."""

    def measure(self) -> int:
        """Return the size in bytes, rounded up."""
        return self.text.measure() + SOURCE * len(self.sources) + PASSAGE * len(self.passages)


def write_query_page(
    queries: Iterable[ReportQuery],
    facts: Mapping[str, Any],
    warnings: Sequence[str],
    path: Path,
    largest: int = LARGEST,
) -> None:
    """Write the page to a new file, of at most ``largest`` bytes: queries that do not fit are counted.

    Raises:
        OSError: the file cannot be written.
    """
    room, left_out = largest - PAGE, 0
    shown: list[QueryView] = []
    for query in queries:
        view = _arrange(len(shown) + 1, query)
        if (size := view.measure()) <= room:
            shown.append(view)
            room -= size
        else:
            left_out += 1
    style = join_files(STYLES)
    text = (
        open_templates()
        .get_template("queries.html.j2")
        .render(
            queries=shown,
            left_out=left_out,
            facts=[(name.replace("_", " "), value) for name, value in facts.items()],
            warnings=warnings,
            style=trust(style),
            policy=make_policy(style, ""),
        )
    )
    path.write_text(text, encoding="utf-8", newline="")


def _arrange(number: int, query: ReportQuery) -> QueryView:
    view = TextView(Name(number, clean_text(query.query_id)), clean_text(query.text), ())
    view.mark([Mark(p.begin, p.end, f"source-{number}-{p.rank}") for p in query.passages])
    explained: dict[int, tuple[int, int]] = {}
    for passage in query.passages:
        count, characters = explained.get(passage.rank, (0, 0))
        explained[passage.rank] = (count + 1, characters + passage.end - passage.begin)
    routes = sorted({route for source in query.sources for route in source.routes})
    return QueryView(view, query.sources, query.passages, routes, explained)
