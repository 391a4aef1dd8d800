"""The figure of the retention study: mean gain over retained evidence, with 95 % intervals, a panel for each model.

The same points give the same bytes: nothing of the user's settings, of the day or of the machine gets into the files,
and no display is needed.
"""

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pan_scdg.research.retention.contexts import LEVELS
from pan_scdg.research.retention.statistics import Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE = {"plagiarism": ("plagiarism-labelled content", "#b2182b", "o-"), "new": ("new content", "#2166ac", "s--")}
"""Name, colour and marker with line of each content; told apart without colours too."""
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


class FigureFiles(NamedTuple):
    """The bytes of the figure as PNG (200 dots an inch) and as SVG."""

    png: bytes
    svg: bytes


def draw(models: Mapping[str, Sequence[Point]]) -> FigureFiles:
    """The figure of the curves of some models, by the name to be shown.

    Raises:
        ValueError: there is no model.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not models:
        raise ValueError("a figure needs the points of a model")
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        figure = Figure(figsize=(PANEL[0] * len(models), PANEL[1]), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(1, len(models), sharey=True, squeeze=False)[0]
        for axes, (name, points) in zip(panels, models.items()):
            _panel(axes, name, points)
        panels[0].set_ylabel("mean gain (nats per token)")
        panels[0].legend(frameon=False, loc="upper left")
        return FigureFiles(_bytes(figure, "png", {"Software": None}), _bytes(figure, "svg", {"Date": None}))


def _panel(axes: "Axes", name: str, points: Sequence[Point]) -> None:
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


def _bytes(figure: "Figure", kind: str, metadata: dict[str, None]) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=200, metadata=metadata)
    return buffer.getvalue()
