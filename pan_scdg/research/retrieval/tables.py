"""The tables of the retrieval study."""

from collections.abc import Sequence

from pan_scdg.evaluation.report import Estimate
from pan_scdg.research.report.table import Cell, Column, Row, Table
from pan_scdg.research.retrieval.rerank_grid import GridRow
from pan_scdg.research.retrieval.study import METRICS, RetrievalRow

SHOWN = {"RR": "MRR", "AP": "MAP"}
"""The paper's names of means."""
HEADLINES = ("nDCG@10", "AP")
"""Measures whose differences stand on the page."""


def heading(metric: str) -> str:
    """The name of a measure's column."""
    return SHOWN.get(metric, metric)


def rows_table(name: str, caption: str, rows: Sequence[RetrievalRow], groups: Sequence[str] = ()) -> Table:
    """Every row with all measures; ``groups`` are headings, one a row."""
    columns = (Column("Row"), *(Column(heading(metric), "high") for metric in METRICS))
    lines = tuple(
        Row((row.name, *(row.metrics[metric] for metric in METRICS)), groups[i] if groups else "")
        for i, row in enumerate(rows)
    )
    return Table(name, caption, columns, lines)


def differences_table(name: str, caption: str, rows: Sequence[RetrievalRow]) -> Table:
    """Rows held against the row above: the headline measures, one line a row."""
    columns = [Column("Row")]
    for metric in HEADLINES:
        columns += [Column(f"{heading(metric)}, difference"), Column(f"{heading(metric)}, p")]
    lines = []
    for row in rows:
        cells: list[Cell] = [row.name]
        for metric in HEADLINES:
            found = row.above.get(metric)
            cells += [None, None] if found is None else [Estimate(*found[:3]), found.p_value]
        lines.append(Row(tuple(cells)))
    return Table(name, caption, tuple(columns), tuple(lines))


def all_differences_table(name: str, caption: str, rows: Sequence[RetrievalRow]) -> Table:
    """Rows held against the row above, one line a row and measure."""
    columns = (Column("Row"), Column("Above"), Column("Measure"), Column("Difference"), Column("p"))
    lines = [
        Row((row.name, above.name, heading(metric), Estimate(*found[:3]), found.p_value))
        for above, row in zip(rows, rows[1:])
        for metric, found in row.above.items()
    ]
    return Table(name, caption, columns, tuple(lines))


def grid_table(name: str, caption: str, grid: Sequence[GridRow]) -> Table:
    """All configurations, the best first."""
    columns = (
        Column("Place"),
        Column("Feature"),
        Column("N"),
        Column("Weight"),
        Column("nDCG@10", "high"),
        Column("R@10", "high"),
        Column("R@100", "high"),
    )
    lines = [
        Row((place, *row.configuration, row.ndcg, row.recall, row.deep_recall)) for place, row in enumerate(grid, 1)
    ]
    return Table(name, caption, columns, tuple(lines))
