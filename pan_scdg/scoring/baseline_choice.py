"""The threshold of a baseline, and its n or weights, that ``calibrate`` chooses; and its tables in a profile."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tomlkit

from pan_scdg.baselines.cosine import choose_official_threshold
from pan_scdg.evaluation.logistic import fit_logistic
from pan_scdg.evaluation.pairs import compute_pair_metrics
from pan_scdg.profile.baseline import (
    Alignment,
    BaselineSettings,
    CharNgrams,
    Cosine,
    GramLogistic,
    LogisticWeights,
    ModelBaseline,
    VectorCosine,
)
from pan_scdg.scdg.aggregation import Floats
from pan_scdg.scdg.decision import choose_threshold
from pan_scdg.scoring.baseline_scoring import choose_scores
from pan_scdg.scoring.pair_method import Calibrated, Labels, describe_quality

Score = Callable[[BaselineSettings], Sequence[tuple[float, ...]]]
"""Returns the values of each pair with these settings."""


def choose_settings(settings: BaselineSettings, score: Score, labels: Labels) -> tuple[BaselineSettings, Floats]:
    """Return the settings with the chosen values, and the scores with these settings, ``[pairs]``.

    The threshold of a cosine is chosen as in the official baseline, which the paper uses; every other one by the
    paper's rule: unique scores, F1, ties by accuracy. The n of character n-grams is chosen together with the threshold,
    like q; the larger n wins ties. A logistic model is first fitted on the same pairs.
    """
    if isinstance(settings, CharNgrams):
        by_n = {n: settings.model_copy(update={"n": n}) for n in settings.n_grid}
        table = {float(n): choose_scores(of_n, score(of_n)) for n, of_n in by_n.items()}
        choice = choose_threshold(table, labels)
        return by_n[int(choice.parameter)].model_copy(update={"threshold": choice.threshold}), table[choice.parameter]
    rows: Sequence[tuple[float, ...]] = score(settings)
    if isinstance(settings, GramLogistic):
        fit = fit_logistic(np.array(rows), labels)
        settings = settings.model_copy(update={"weights": LogisticWeights(**fit._asdict())})
    scores = choose_scores(settings, rows)
    if isinstance(settings, Cosine | VectorCosine):
        threshold = choose_official_threshold(scores, labels)
    else:
        allowed = settings.most_false_positives if isinstance(settings, Alignment) else 1.0
        threshold = choose_threshold({0.0: scores}, labels, allowed).threshold
    return settings.model_copy(update={"threshold": threshold}), scores


def describe_choice(chosen: BaselineSettings, scores: Floats, labels: Labels, digest: str) -> Calibrated:
    """Return the choice with its quality on pairs of the input with this digest.

    Raises:
        ValueError: no threshold was chosen.
    """
    threshold = chosen.threshold
    if threshold is None:
        raise ValueError("no threshold was chosen")
    decided = scores >= threshold
    n = {"n": chosen.n} if isinstance(chosen, CharNgrams) else {}
    words = f"{chosen.kind}{''.join(f' with n {value}' for value in n.values())}, threshold {threshold:.6f}"
    f1, accuracy = compute_pair_metrics(labels, scores, decided)["f1"], float(np.mean(decided == labels))
    pairs, positives = len(labels), int(labels.sum())
    comment = f"by calibrate: {describe_quality(f1, accuracy, pairs, positives)}, input {digest[:12]}"

    def edit(document: tomlkit.TOMLDocument) -> None:
        _write_choice(document, chosen, threshold, comment)

    return Calibrated({**n, "threshold": threshold}, words, f1, accuracy, pairs, positives, edit)


def _write_choice(document: tomlkit.TOMLDocument, chosen: BaselineSettings, threshold: float, comment: str) -> None:
    """Write the choice into a profile file, and its quality as a comment."""
    table: Any = document["baseline"]
    for name in ("threshold", "weights", "calibrated_with"):
        table.pop(name, None)
    if isinstance(chosen, CharNgrams):
        table["n"] = chosen.n
    item = tomlkit.item(threshold)
    item.comment(comment).trivia.comment_ws = "  "
    table.append("threshold", item)
    if isinstance(chosen, ModelBaseline):
        table["model"] = chosen.model
        table.append("calibrated_with", chosen.calibrated_with)
    if isinstance(chosen, GramLogistic) and chosen.weights is not None:
        weights = tomlkit.table()
        weights.update(chosen.weights.model_dump(mode="json"))
        table["weights"] = weights
