"""Draw the plots of evaluated pairs with matplotlib (extra ``studies``): ROC, precision and recall, and scores."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pan_scdg.evaluation.pairs import LabelledPairs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = (5.0, 4.0)
"""Inches."""
DOTS = 150
"""An inch."""
LONGEST_NAME = 30
Results = Mapping[str, LabelledPairs]
"""Evaluated pairs by the name of the result."""


def write_plots(folder: Path, results: Results) -> list[Path]:
    """Write ``roc.png``, ``precision-recall.png`` and a ``scores-N.png`` for each result; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    plots: dict[str, Callable[[Axes], None]] = {
        "roc.png": partial(draw_roc, results=results),
        "precision-recall.png": partial(draw_precision_recall, results=results),
    }
    for number, (name, pairs) in enumerate(results.items(), 1):
        plots[f"scores-{number}.png"] = partial(draw_scores, name=name, pairs=pairs)
    return [_write(folder / name, draw) for name, draw in plots.items()]


def draw_roc(axes: "Axes", results: Results) -> None:
    """Draw the true-positive rate over the false-positive rate of each result."""
    from sklearn.metrics import roc_auc_score, roc_curve

    for name, pairs in results.items():
        false, true, _ = roc_curve(pairs.labels, pairs.scores)
        axes.plot(false, true, label=f"{_escape(name)} (area {roc_auc_score(pairs.labels, pairs.scores):.3f})")
    axes.plot([0, 1], [0, 1], color="0.8", linewidth=0.8)
    axes.set(xlabel="false-positive rate", ylabel="true-positive rate", title="ROC")
    axes.legend(loc="lower right", frameon=False)


def draw_precision_recall(axes: "Axes", results: Results) -> None:
    """Draw precision over recall of each result."""
    from sklearn.metrics import average_precision_score, precision_recall_curve

    for name, pairs in results.items():
        precision, recall, _ = precision_recall_curve(pairs.labels, pairs.scores)
        mean = average_precision_score(pairs.labels, pairs.scores)
        axes.step(recall, precision, where="post", label=f"{_escape(name)} (average precision {mean:.3f})")
    axes.set(xlabel="recall", ylabel="precision", ylim=(0, 1.05), title="Precision and recall")
    axes.legend(loc="lower left", frameon=False)


def draw_scores(axes: "Axes", name: str, pairs: LabelledPairs) -> None:
    """Draw the histogram of the scores of both classes with the threshold."""
    labels, scores = np.array(pairs.labels, dtype=bool), np.array(pairs.scores, dtype=np.float64)
    edges = np.histogram_bin_edges(scores, bins=min(40, max(10, len(scores) // 5)))
    for wanted, label, colour in ((False, "no reuse", "#2166ac"), (True, "reuse", "#b2182b")):
        axes.hist(scores[labels == wanted], bins=edges.tolist(), alpha=0.6, color=colour, label=label)
    if pairs.threshold is not None:
        axes.axvline(pairs.threshold, color="black", linestyle="--", label=f"threshold {pairs.threshold:.3f}")
    axes.set(xlabel="score (nats per token)", ylabel="pairs", title=_escape(name))
    axes.legend(frameon=False)


def _escape(name: str) -> str:
    """Return a name as matplotlib shows it: short, no formula, and no hidden label."""
    short = name if len(name) <= LONGEST_NAME else f"...{name[-LONGEST_NAME:]}"
    return " " + short.replace("$", r"\$")


def _write(path: Path, draw: Callable[["Axes"], None]) -> Path:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure.subplots())
    figure.savefig(path, dpi=DOTS, metadata={"Software": None})
    return path
