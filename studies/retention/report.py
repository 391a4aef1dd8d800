"""Report the retention study: tables with a row for each model, and the figure.

The same points give the same bytes of the figure: nothing of the user's settings, of the day or of the machine is in
its files, and no display is needed.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pan_scdg.evaluation.resampling import RESAMPLES
from studies.report.table import Cell, Table, make_table
from studies.retention.contexts import LEVELS
from studies.retention.statistics import Coefficient, Point, RetentionResults

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SMALLEST_P = 1e-4
STYLE = {"plagiarism": ("plagiarism-labelled content", "#b2182b", "o-"), "new": ("new content", "#2166ac", "s--")}
"""Name, colour and marker with line of each content; they can be distinguished without colours."""
SETTINGS = {
    "svg.hashsalt": "pan_scdg",
    "svg.fonttype": "path",
    "font.family": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
PANEL = (3.4, 2.8)
"""Inches."""
Results = Mapping[str, RetentionResults]
"""Results by the name of the model."""


def make_tables(models: Results) -> tuple[Table, Table, Table]:
    """Return the two tables of the paper, and the figure in numbers."""
    return _make_mixed_table(models), _make_slope_table(models), _make_point_table(models)


def list_fits(models: Results) -> list[str]:
    """Return lines on how each mixed model was fitted, with all warnings of the library."""
    return [
        f"{name}, mixed model: {line}"
        for name, results in models.items()
        for line in (
            f"{len(results.points) * results.points[0].pairs} observations of {results.points[0].pairs} pairs",
            f"optimiser {results.mixed.optimiser}",
            *results.mixed.warnings,
        )
    ]


def _make_mixed_table(models: Results) -> Table:
    rows = []
    for name, results in models.items():
        mixed = results.mixed
        slopes = {"new (b2)": mixed.new, "difference (b3)": mixed.difference, "plagiarism (b2 + b3)": mixed.plagiarism}
        rows += [{"Model": name, "Slope": slope, **_describe_test(found)} for slope, found in slopes.items()]
    caption = "Maximum-likelihood estimates of the mixed model, in nats per token per unit of retention (Wald tests)"
    return make_table("retention-mixed-model", caption, rows)


def _describe_test(found: Coefficient) -> dict[str, Cell]:
    p = f"{found.p:.4f}" if found.p >= SMALLEST_P else f"<{SMALLEST_P:.4f}"
    sides = "one-sided" if found.sides == 1 else "two-sided"
    return {"Estimate": found.estimate, "SE": found.standard_error, "p": p, "Test": sides}


def _make_slope_table(models: Results) -> Table:
    names = ("Plagiarism slope", "New slope", "Difference", "Pr(plagiarism slope > 0)")
    rows = [{"Model": name, **dict(zip(names, results.slopes, strict=True))} for name, results in models.items()]
    caption = (
        f"Slopes over {RESAMPLES} resamples of pairs: mean and 95 % interval, in nats per token per unit of retention"
    )
    return make_table("retention-slopes", caption, rows)


def _make_point_table(models: Results) -> Table:
    rows = [
        {"Model": name, "Content": p.content, "Retention": p.retention, "Pairs": p.pairs, "Gain": p.gain}
        for name, results in models.items()
        for p in results.points
    ]
    caption = "Mean gain by content and retention: mean of the resamples and 95 % interval, in nats per token"
    return make_table("retention-curves", caption, rows)


def draw(models: Mapping[str, Sequence[Point]]) -> dict[str, bytes]:
    """Draw mean gain over retained evidence with 95 % intervals, a panel for each model.

    Args:
        models: points of the curves, by the name of the model.

    Returns:
        The files: ``png`` (200 dots per inch) and ``svg``.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        figure = Figure(figsize=(PANEL[0] * len(models), PANEL[1]), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(1, len(models), sharey=True, squeeze=False)[0]
        for axes, (name, points) in zip(panels, models.items()):
            _draw_panel(axes, name, points)
        panels[0].set_ylabel("mean gain (nats per token)")
        panels[0].legend(frameon=False, loc="upper left")
        return dict(_save(figure))


def _draw_panel(axes: "Axes", name: str, points: Sequence[Point]) -> None:
    axes.axhline(0, color="0.8", linewidth=0.8, zorder=0)
    for content, (label, colour, line) in STYLE.items():
        chosen = sorted((p for p in points if p.content == content), key=lambda p: p.retention)
        values = [p.gain.value for p in chosen]
        below = [p.gain.value - p.gain.low for p in chosen]
        above = [p.gain.high - p.gain.value for p in chosen]
        # the mean of the resamples lies within their percentiles but for rounding
        errors = [[max(0.0, size) for size in side] for side in (below, above)]
        where = [p.retention for p in chosen]
        axes.errorbar(
            where, values, errors, fmt=line, color=colour, label=label, markersize=4, linewidth=1.2, capsize=2
        )
    axes.set_title(name.replace("$", r"\$"))
    axes.set_xlabel("retained source evidence")
    axes.set_xticks(LEVELS)


def _save(figure: "Figure") -> Iterator[tuple[str, bytes]]:
    """Yield the bytes of a figure by kind, without metadata that depends on the day or the machine."""
    for kind, omitted in (("png", "Software"), ("svg", "Date")):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, dpi=200, metadata={omitted: None})
        yield kind, buffer.getvalue()
