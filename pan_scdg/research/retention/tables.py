"""What the retention study reports: curves, slopes of the mixed model, resampled slopes; a row for each model."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pan_scdg.research.report.table import Cell, Column, Row, Table
from pan_scdg.research.retention.means import TokenMean, mean_table
from pan_scdg.research.retention.mixed_model import Coefficient, MixedFit, fit_mixed
from pan_scdg.research.retention.statistics import RESAMPLES, Point, Slopes, bootstrap_slopes, curves

SMALLEST_P = 1e-4


class RetentionResults(NamedTuple):
    """The results of one language model."""

    points: tuple[Point, ...]
    mixed: MixedFit
    slopes: Slopes


def results_of(means: Sequence[TokenMean]) -> RetentionResults:
    """The results of the rows of every context, as `score_contexts` gives them.

    Raises:
        UserError: a combination of pair, content, retention and seed is missing.
        ValueError: there are fewer than two pairs.
    """
    table = mean_table(means)
    return RetentionResults(curves(table), fit_mixed(table), bootstrap_slopes(table))


def retention_tables(models: Mapping[str, RetentionResults]) -> tuple[Table, Table, Table]:
    """The two tables of the paper, and the figure in numbers; by the name of each model."""
    return _mixed(models), _slopes(models), _points(models)


def notes_of(models: Mapping[str, RetentionResults]) -> list[str]:
    """How each mixed model was fitted, with all that the library warned of."""
    return [
        f"{name}, mixed model: {line}"
        for name, results in models.items()
        for line in (
            f"{results.mixed.observations} observations of {results.mixed.groups} pairs",
            f"optimiser {results.mixed.optimiser}",
            *results.mixed.warnings,
        )
    ]


def _mixed(models: Mapping[str, RetentionResults]) -> Table:
    rows = []
    for name, results in models.items():
        mixed = results.mixed
        slopes = {"new (b2)": mixed.new, "difference (b3)": mixed.difference, "plagiarism (b2 + b3)": mixed.plagiarism}
        rows += [Row((name, slope, *_wald(found))) for slope, found in slopes.items()]
    return Table(
        "retention-mixed-model",
        "Maximum-likelihood estimates of the mixed model, in nats per token per unit of retention (Wald tests)",
        tuple(map(Column, ("Model", "Slope", "Estimate", "SE", "p", "Test"))),
        tuple(rows),
    )


def _wald(found: Coefficient) -> tuple[Cell, ...]:
    p = f"{found.p:.4f}" if found.p >= SMALLEST_P else f"<{SMALLEST_P:.4f}"
    return found.estimate, found.standard_error, p, "one-sided" if found.sides == 1 else "two-sided"


def _slopes(models: Mapping[str, RetentionResults]) -> Table:
    return Table(
        "retention-slopes",
        f"Slopes over {RESAMPLES} resamples of pairs: mean and 95 % interval, in nats per token per unit of retention",
        tuple(map(Column, ("Model", "Plagiarism slope", "New slope", "Difference", "Pr(plagiarism slope > 0)"))),
        tuple(Row((name, *results.slopes)) for name, results in models.items()),
    )


def _points(models: Mapping[str, RetentionResults]) -> Table:
    return Table(
        "retention-curves",
        "Mean gain by content and retention: mean of the resamples and 95 % interval, in nats per token",
        tuple(map(Column, ("Model", "Content", "Retention", "Pairs", "Gain"))),
        tuple(
            Row((name, p.content, p.retention, p.pairs, p.gain))
            for name, results in models.items()
            for p in results.points
        ),
    )
