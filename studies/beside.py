"""The paper beside us: its figures, ours with their intervals, and whether each is reproduced.

A figure is reproduced if the paper's lies within our 95 % interval, to half a unit of its last printed digit. Where the
data has other counts than the paper's, nothing is compared. ``paper.toml`` has the figures.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.evaluation.report import Estimate
from pan_scdg.profile import read_toml
from studies.tables import Interval, Percent, Row, Table

FIGURES = Path(__file__).with_name("paper.toml")
REPRODUCED, DIFFERS = "reproduced", "differs"
OTHER_COUNTS = "not comparable: other counts"
NO_SUCH_ROW = "not comparable: no such row in the paper"
BASELINES, OURS = "Baselines", "SCDG (Ours)"
"""Headings of groups of rows."""
HYPERPARAMETERS = "tab:supp-hyperparameters"
SPLIT_COUNTS, CONTEXTS = "tab:supp-pan25-split-statistics", "eq:supp-retention-manifest-size"
"""Labels in the paper."""
HALF_UNIT = 0.5e-4
"""Half a unit of the last digit that the paper prints."""
SLACK = 1e-12
"""For a decimal that has no exact binary form."""
WARNING = "warning: other counts than the paper's"
SHOWN = 3
"""Counts that a warning names."""
COMPARISON, VERDICTS = "comparison", "verdicts"
"""Names of the tables in a report."""
PRINTED = "Printed in"
Figure = int | float | str | Estimate


class PaperTable(NamedTuple):
    """A table of the paper."""

    label: str
    title: str
    study: str | None
    """The command that computes it; None, without a title: counts and settings."""
    columns: Sequence[str]
    rows: Mapping[str, Mapping[str, Figure]]
    """Figures by row and column; shares are from 0 to 1."""
    percent: Sequence[str]
    """Columns that the paper prints in percent."""


@cache
def read_paper() -> Mapping[str, PaperTable]:
    """Return the tables of the paper by the labels of its source."""
    tables = {}
    for table in read_toml(FIGURES).unwrap()["table"]:
        percent, columns = table.get("percent", ()), table["columns"]
        rows = {
            row["row"]: {
                name: _parse_figure(figure, name in percent)
                for name, figure in zip(columns, row["figures"], strict=True)
            }
            for row in table["rows"]
        }
        tables[table["label"]] = PaperTable(
            table["label"], table.get("title", ""), table.get("study"), columns, rows, percent
        )
    return tables


def _parse_figure(figure: Any, in_percent: bool) -> Figure:
    parsed: Figure = Estimate(*figure) if isinstance(figure, list) else figure / 100 if in_percent else figure
    return parsed


@cache
def read_texts() -> Mapping[str, float]:
    """Return the figures of the paper's running text, by their names."""
    return {text["name"]: text["value"] for text in read_toml(FIGURES).unwrap()["text"]}


def list_hyperparameters(chosen: Mapping[str, str]) -> list[Row]:
    """Return rows of the paper's table of hyperparameters, with what was chosen here by their names."""
    paper = read_paper()[HYPERPARAMETERS].rows
    spaces = ("Search space", "Selection criterion")
    return [
        {
            "Hyperparameter": name,
            **{column: str(paper[name][column]) for column in spaces if name in paper},
            "Paper": str(paper[name]["Final value"] if name in paper else read_texts()[name]),
            "Here": value,
        }
        for name, value in chosen.items()
    ]


def list_paper_rows(study: str) -> list[tuple[str, str]]:
    """Return the title of the table and the name of each row of the paper's tables that a study computes."""
    own = [table for table in read_paper().values() if table.study == study]
    return [(table.title, row) for table in own for row in table.rows]


class Counts(NamedTuple):
    """Counts of our data, in the form of a table of the paper."""

    label: str
    rows: Mapping[str, Mapping[str, int]]
    """By row and column; what is not counted is left out."""

    def list_others(self) -> list[str]:
        """Return the counts that are not the paper's, in words."""
        paper = read_paper()[self.label]
        return [
            f"{row}{'' if len(paper.columns) == 1 else f' ({column})'} {count:,}, in the paper {expected:,}"
            for row, columns in self.rows.items()
            for column, count in columns.items()
            if isinstance(expected := paper.rows.get(row, {}).get(column, 0), int) and count != expected
        ]

    def list_rows(self, key: str) -> list[Row]:
        """Return rows with the paper's count after each of ours; ``key`` heads the names of the rows."""
        paper = read_paper()[self.label]
        wide: list[Row] = []
        for name, columns in self.rows.items():
            cells: dict[str, Any] = {key: name}
            for column, count in columns.items():
                heading = "Paper" if len(paper.columns) == 1 else f"{column}, paper"
                cells |= {column: count, heading: paper.rows.get(name, {}).get(column)}
            wide.append(cells)
        return wide


def count_quantities(label: str, quantities: Mapping[str, int]) -> Counts:
    """Return counts that have one column."""
    return Counts(label, {name: {"Count": count} for name, count in quantities.items()})


def count_contexts(pairs: int, records: Iterable[Mapping[str, Any]]) -> Counts:
    """Return the counts of the paper's equation: of pairs that are in all results, and of contexts that were made."""
    made = list(records)
    counts = {
        "Pairs": pairs,
        "Retention levels": len({record["retention"] for record in made}),
        "Seed indices": len({record["seed"] for record in made}),
        "Contexts": len(made),
    }
    return count_quantities(CONTEXTS, counts)


def warn_about_counts(counts: Iterable[Counts]) -> list[str]:
    """Return one line that names the first counts that are not the paper's, if there are any."""
    others = list(dict.fromkeys(text for one in counts for text in one.list_others()))
    more = f"; and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
    return [f"{WARNING}: {'; '.join(others[:SHOWN])}{more}."] if others else []


class OwnRow(NamedTuple):
    """A row of one of our tables that the paper has, too."""

    name: str
    values: Mapping[str, Estimate | float]
    """By the paper's columns; what has no interval is shown without a verdict."""
    paper: str | None = None
    """The paper's row, if it has another name."""


def compare(label: str, rows: Sequence[OwnRow], counts: Sequence[Counts]) -> list[Row]:
    """Return a line for each figure: the paper's, ours, the difference, our interval, and the verdict."""
    paper, other = read_paper()[label], any(one.list_others() for one in counts)
    lines: list[Row] = []
    for row in rows:
        figures = paper.rows.get(row.paper or row.name, {})
        for column, value in row.values.items():
            here = Estimate(value, math.nan, math.nan) if not isinstance(value, Estimate) else value
            printed = figures.get(column)
            theirs = printed.value if isinstance(printed, Estimate) else printed
            shown, half = (Percent, HALF_UNIT / 100) if column in paper.percent else (float, HALF_UNIT)
            lines.append(
                {
                    "Row": row.name,
                    "Measure": column,
                    "Paper": shown(printed) if isinstance(printed, int | float) else printed,
                    "Here": shown(here.value),
                    "Difference": shown(here.value - theirs) if isinstance(theirs, int | float) else None,
                    "Interval": None if math.isnan(here.low) else Interval(shown(here.low), shown(here.high)),
                    "Verdict": _judge(theirs, here, half, other),
                    PRINTED: paper.title,
                }
            )
    return lines


def _judge(theirs: Figure | None, here: Estimate, half: float, other_counts: bool) -> str | None:
    """Return the verdict on a figure; None without an interval, or of a p-value that is below a bound."""
    if theirs is None:
        return NO_SUCH_ROW
    if other_counts:
        return OTHER_COUNTS
    if not isinstance(theirs, int | float) or math.isnan(here.low):
        return None
    return REPRODUCED if here.low - half - SLACK <= theirs <= here.high + half + SLACK else DIFFERS


def make_tables(lines: Sequence[Row]) -> list[Table]:
    """Return a verdict for each row, and all figures beside the paper's; none without lines."""
    if not lines:
        return []
    verdicts: list[Row] = [
        {"Row": row, "Verdict": verdict, PRINTED: title} for (title, row), verdict in _judge_rows(lines).items()
    ]
    caption = "Reproduced: each figure of the paper lies within our 95 % interval"
    return [
        Table(VERDICTS, caption, verdicts),
        Table(COMPARISON, "The paper's figures and ours, with our 95 % intervals", lines),
    ]


def _judge_rows(lines: Sequence[Row]) -> dict[tuple[str, str], str]:
    """Return the verdict on each row of each table, which is that of all its figures."""
    by_row: dict[tuple[str, str], list[Row]] = {}
    for line in lines:
        by_row.setdefault((str(line[PRINTED]), str(line["Row"])), []).append(line)
    verdicts = {}
    for key, own in by_row.items():
        given = [line["Verdict"] for line in own if line["Verdict"] is not None]
        if DIFFERS in given:
            different = [str(line["Measure"]) for line in own if line["Verdict"] == DIFFERS]
            verdicts[key] = f"{DIFFERS}: {', '.join(different)}"
        else:
            verdicts[key] = str(next((one for one in given if one != REPRODUCED), REPRODUCED))
    return verdicts
