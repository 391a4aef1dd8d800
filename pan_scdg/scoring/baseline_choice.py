"""The threshold of a baseline, and its n or weights, that ``calibrate`` chooses; and its tables in a profile."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import tomlkit

from pan_scdg.baselines.cosine import choose_officially
from pan_scdg.evaluation.pairs import compute_pair_metrics
from pan_scdg.profile.baseline import BaselineSettings
from pan_scdg.scdg.aggregation import Floats
from pan_scdg.scdg.decision import choose_threshold
from pan_scdg.scoring.baseline_registry import METHODS
from pan_scdg.scoring.pair_method import Calibrated, Labels, describe_quality

Score = Callable[[BaselineSettings], Sequence[tuple[float, ...]]]
"""Returns the values of each pair with these settings."""


def choose_settings(settings: BaselineSettings, score: Score, labels: Labels) -> tuple[BaselineSettings, Floats]:
    """Return the settings with the chosen values, and the scores with these settings, ``[pairs]``.

    The threshold of a cosine is chosen as in the official baseline, which the paper uses; every other one by the
    paper's rule: unique scores, F1, ties by accuracy. The n of character n-grams is chosen together with the threshold,
    like q; the larger n wins ties. A logistic model is first fitted on the same pairs.
    """
    baseline, fitted, scores_by = METHODS[type(settings)], dict[float, BaselineSettings](), dict[float, Floats]()
    for parameter, variant in settings.vary().items():
        rows = score(variant)
        fitted[parameter] = baseline.fit(variant, rows, labels)
        scores_by[parameter] = baseline.combine(fitted[parameter], rows)
    by_f1 = partial(choose_threshold, most_false_positives=settings.allowed_false_positives)
    rule = choose_officially if settings.official else by_f1
    choice = rule(scores_by, labels)
    chosen = fitted[choice.parameter].model_copy(update={"threshold": choice.threshold})
    return chosen, scores_by[choice.parameter]


def describe_choice(chosen: BaselineSettings, scores: Floats, labels: Labels, digest: str) -> Calibrated:
    """Return the choice with its quality on pairs of the input with this digest.

    Raises:
        ValueError: no threshold was chosen.
    """
    threshold = chosen.threshold
    if threshold is None:
        raise ValueError("no threshold was chosen")
    decided = scores >= threshold
    values = chosen.model_dump(include={*chosen.parameters})
    parameters = "".join(f" with {name} {value}" for name, value in values.items())
    f1, accuracy = compute_pair_metrics(labels, scores, decided)["f1"], float(np.mean(decided == labels))
    pairs, positives = len(labels), int(labels.sum())
    comment = f"by calibrate: {describe_quality(f1, accuracy, pairs, positives)}, input {digest[:12]}"
    edit = partial(_write_choice, chosen=chosen, comment=comment)
    words = f"{chosen.kind}{parameters}, threshold {threshold:.6f}"
    return Calibrated({**values, "threshold": threshold}, words, f1, accuracy, pairs, positives, edit)


def _write_choice(document: tomlkit.TOMLDocument, chosen: BaselineSettings, comment: str) -> None:
    """Write the choice into a profile file, and its quality as a comment."""
    table: Any = document["baseline"]
    values = chosen.model_dump(mode="json")
    values["threshold"] = threshold = tomlkit.item(chosen.threshold)
    threshold.comment(comment).trivia.comment_ws = "  "
    for name in ("threshold", "weights", "calibrated_with"):
        table.pop(name, None)
    for name in (*chosen.parameters, "threshold", "model", "calibrated_with", "weights"):
        if name in table and table[name] != values[name]:
            table[name] = values[name]
        elif name in values and name not in table:
            table.append(name, values[name])
