"""Report the study of a cascade: the choice of the head, agreement with the full run, and tokens."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pan_scdg.profile import Profile
from pan_scdg.research.report.page import Report, Section
from pan_scdg.research.report.table import Table, make_table
from pan_scdg.research.retrieval.data import Orders
from pan_scdg.research.retrieval.heads import ENOUGH, Agreement
from pan_scdg.research.study import describe_lost

Cost = tuple[float, float | None]
"""Tokens, and floating-point operations if they are known."""


class Costs(NamedTuple):
    """The costs of scoring the queries that are reported on."""

    full: Cost
    heads: Cost | None
    """Of the large model in the cascade; None: no head was chosen."""
    small: Cost

    @property
    def fewer_tokens(self) -> float | None:
        """Return the ratio of the tokens that the large model computes without and with the cascade."""
        return None if self.heads is None or not self.heads[0] else self.full[0] / self.heads[0]

    @property
    def operations(self) -> float | None:
        """Return the operations of both models in the cascade, as a share of those of the full run."""
        if self.heads is None or None in (self.full[1], self.heads[1], self.small[1]):
            return None
        return ((self.heads[1] or 0.0) + (self.small[1] or 0.0)) / (self.full[1] or 1.0)


class Findings(NamedTuple):
    """The figures of the study, for its report."""

    large: Profile
    small: Profile
    documents: int
    sizes: Mapping[str, float]
    """nDCG@10 on the queries of the choice, by head; all: the full run."""
    head: int | None
    chosen_on: int
    reported: int
    """The numbers of judged queries of both halves."""
    orders: Mapping[str, Orders]
    rows: Mapping[str, Agreement]
    """By the name of the row, on the queries that are reported on."""
    costs: Costs
    lost: Mapping[str, str]
    """The reasons why queries cannot be scored and are in no row, by id."""


def make_report(findings: Findings, files: Sequence[str], made_from: Mapping[str, Any]) -> Report:
    """Return the whole report; ``files`` are in its folder already."""
    reported = f"on the other {findings.reported} queries"
    sections = [
        Section("Method", list(_describe_study(findings))),
        Section("Choice of the head", [_describe_choice(findings)], tables=[_make_size_table(findings)]),
        Section(
            "Agreement with the full run",
            tables=[_make_row_table(findings, f"Means {reported}, with 95 % bootstrap intervals over queries")],
        ),
        Section("Cost", tables=[_make_cost_table(findings.costs, f"Scoring {reported}")]),
        Section("Limits", points=list(_list_limits(findings))),
    ]
    return Report("A small model before the large one", sections, files, made_from)


def _describe_study(findings: Findings) -> Iterator[str]:
    large, small = findings.large.need_model().name, findings.small.need_model().name
    yield (
        f"{small} and {large} score the same candidates, with the settings of the profile {findings.large.name}. In a "
        f"cascade {large} scores the head of the ranking by {small} only, and the other candidates keep the order of "
        f"{small}. Cascades are computed from the gains of the full runs: a run of the cascade computes other batches, "
        "so that last digits differ."
    )
    yield (
        f"{findings.documents} documents. The judged queries are halved at random with a fixed seed: the head is "
        f"chosen on {findings.chosen_on} of them and measured on the other {findings.reported}. nDCG has gains "
        "2^grade - 1; a judged query without candidates counts 0."
    )


def _describe_choice(findings: Findings) -> str:
    if findings.head is None:
        return f"No head keeps {ENOUGH:.0%} of the full run's nDCG@10: this small model is of no use here."
    return f"Chosen: head = {findings.head}, the smallest that keeps {ENOUGH:.0%} of the full run's nDCG@10."


def _make_size_table(findings: Findings) -> Table:
    full = findings.sizes["all"]
    lines = [
        {"Head": head, "nDCG@10": ndcg, "Share of the full run's": ndcg / full if full else None}
        for head, ndcg in findings.sizes.items()
    ]
    return make_table("heads", f"Heads on the {findings.chosen_on} queries of the choice", lines)


def _make_row_table(findings: Findings, caption: str) -> Table:
    lines = [
        {
            "Row": name,
            "nDCG@10": of.ndcg,
            "Difference from the full run": of.difference,
            "Overlap of the top 10": of.overlap,
            "Kendall's tau": of.correlation,
        }
        for name, of in findings.rows.items()
    ]
    return make_table("agreement", caption, lines)


def _make_cost_table(costs: Costs, caption: str) -> Table:
    tokens, head = round(costs.full[0]), None if costs.heads is None else round(costs.heads[0])
    columns = ("Row", "Tokens of the large model", "Times fewer", "Operations")
    cells = [("Full run", tokens, 1.0, 1.0), ("Cascade", head, costs.fewer_tokens, costs.operations)]
    more = "operations are those of both models, as a share of the full run's, and not known of every architecture"
    return make_table("cost", f"{caption}; {more}", [dict(zip(columns, row, strict=True)) for row in cells])


def _list_limits(findings: Findings) -> Iterator[str]:
    if findings.lost:
        yield describe_lost(findings.lost, f"{findings.chosen_on + findings.reported + len(findings.lost)} queries")
    yield "The candidates are one first stage's; another one, or more candidates of each query, may need another head."
    yield "Gains alone rerank, as in the other studies: a table [retrieval.match] of the profile is not used."
    yield "Tokens and operations are counted, and no time is measured."
