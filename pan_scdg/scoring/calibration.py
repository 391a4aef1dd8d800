"""The rule that decides by gains: chosen by ``calibrate``, and applied to pairs like those that it was chosen on."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import tomlkit

from pan_scdg.evaluation.logistic import compute_probabilities, fit_logistic
from pan_scdg.models.find import SHORT
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.profile import Calibration, Control, PairSettings
from pan_scdg.profile.baseline import LogisticWeights
from pan_scdg.scdg.aggregation import AGGREGATIONS, Aggregate, Floats, GainStatistics, choose_aggregate
from pan_scdg.scdg.calibration_range import (
    TargetFacts,
    compute_share_at_least,
    find_range,
    list_range_warnings,
    measure_common_words,
    thin_scores,
)
from pan_scdg.scdg.decision import choose_threshold
from pan_scdg.scdg.sequences import Tokenizer
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_method import Calibrated, Labels, Threshold
from pan_scdg.scoring.pair_plan import ScoredPair


def explain_foreign_model(calibration: Calibration | None, model: ScoringModel) -> str | None:
    """Return the reason why a calibrated threshold does not apply to this model's scores; None if it does.

    A threshold without a calibration applies to every model.
    """
    if calibration is None or calibration.model in (None, model.fingerprint):
        return None
    return (
        f"nothing is decided: the profile was calibrated with a model {str(calibration.model)[:SHORT]}, and "
        f"{model.found.shown} is {model.fingerprint[:SHORT]}; calibrate with this model, or use that one"
    )


def warn_about_model(settings: PairSettings, model: ScoringModel) -> list[str]:
    """Return the warnings about a threshold that is used with this model."""
    calibration = settings.calibration
    if calibration is None or settings.threshold is None:
        return []
    if (foreign := explain_foreign_model(calibration, model)) is not None:
        return [f"warning: {foreign}"]
    if calibration.model is None:
        return ["warning: the profile does not name the model it was calibrated with; `calibrate` records it"]
    if calibration.dtype not in (None, model.settings.dtype):
        return [
            f"warning: calibrated in {calibration.dtype} and computed in {model.settings.dtype}: scores next to the "
            "threshold may lie on its other side"
        ]
    return []


class GainRule:
    """The rule of a profile for gains, if it applies to the scores of a model."""

    def __init__(self, settings: PairSettings, model: ScoringModel) -> None:
        self._settings = settings
        self.foreign = explain_foreign_model(settings.calibration, model)
        """The reason why nothing is decided, if the threshold was calibrated with another model."""
        self.calibration = None if self.foreign else settings.calibration
        least = None if self.foreign else settings.threshold
        self.threshold = Threshold(least, _find_noise(self.calibration, model))
        chosen = choose_aggregate(settings)
        lacks_weights = chosen is not None and len(chosen.entry.statistics) > 1 and settings.weights is None
        self.aggregate = Aggregate("top", 100.0) if chosen is None or lacks_weights else chosen
        """The average, for a profile without q, w or weights."""

    def compute_score(self, values: GainStatistics) -> float:
        """Return the score of a pair that is compared with the threshold."""
        return float(compute_scores([values], self.aggregate, self._settings.weights)[0])

    def describe(self) -> dict[str, str]:
        """Return the fields of a record that name the aggregation and the control."""
        return {"aggregation": self.aggregate.name, **describe_control(self._settings.control)}

    def describe_negatives(self, score: float | None) -> dict[str, Any]:
        """Return the share of known negative pairs that score at least as high, and their number."""
        if self.calibration is None or not self.calibration.negatives:
            return {}
        share = None if score is None else compute_share_at_least(self.calibration.negatives, score)
        return {"negatives_at_least": share, "negatives": self.calibration.negative_pairs}

    def warn_about_targets(self, scored: Sequence[ScoredPair], tokenizer: Tokenizer) -> Iterator[list[str]]:
        """Yield the warnings about each pair's target, in order; none if the range of the calibration is not known."""
        known = None if self.calibration is None else self.calibration.range
        if known is None:
            yield from ([] for _ in scored)
            return
        for facts in measure_targets(scored, tokenizer):
            yield list_range_warnings(facts, known, self.aggregate)


def _find_noise(calibration: Calibration | None, model: ScoringModel) -> float | None:
    """Return the noise of scores in nats, None unless it was measured for this model in this dtype."""
    if calibration is None or (calibration.model, calibration.dtype) != (model.fingerprint, model.settings.dtype):
        return None
    return calibration.noise


def describe_control(control: Control) -> dict[str, str]:
    """Return the field of results that names the control; empty without a control, as in the paper."""
    return {} if control == "none" else {"control": control}


def describe_gains(values: GainStatistics) -> dict[str, float]:
    """Return the fields of a record about the gains of a pair."""
    return {
        "tokens": values.tokens,
        "mean": values.mean,
        "median": values.median,
        "positive_gain_rate": values.positive_rate,
    }


def compute_scores(features: Sequence[GainStatistics], aggregate: Aggregate, weights: LogisticWeights | None) -> Floats:
    """Return the score of each pair that is compared with the threshold, ``[pairs]``.

    Raises:
        ValueError: the logistic model was not fitted.
    """
    names = aggregate.entry.statistics
    if not names:
        return np.array([of.scores[aggregate] for of in features], dtype=np.float64)
    rows = _select_statistics(features, names)
    if len(names) == 1:
        return rows[:, 0]
    if weights is None:
        raise ValueError("the weights were not fitted")
    return compute_probabilities(weights, rows)


def _select_statistics(features: Sequence[GainStatistics], names: Sequence[str]) -> Floats:
    return np.array([[getattr(of, name) for name in names] for of in features], dtype=np.float64)


def measure_targets(scored: Sequence[ScoredPair], tokenizer: Tokenizer) -> Iterator[TargetFacts]:
    """Yield what is compared with the calibration's range of each pair's target, in order; each target is read once.

    Raises:
        ValueError: the features were stored without a code length.
    """
    seen: dict[str, tuple[int, float]] = {}
    for item in scored:
        document = item.plan.pair.suspicious
        if document.doc_id not in seen:
            text = read_text(document)
            seen[document.doc_id] = (
                len(text.encode("utf-8")),
                measure_common_words(tokenizer, item.plan.encode_target(tokenizer, text)),
            )
        size, words = seen[document.doc_id]
        yield TargetFacts(item.features.tokens, item.features.code_length / size, words)


def calibrate_gains(
    settings: PairSettings, scored: Sequence[ScoredPair], labels: Labels, digest: str, model: ScoringModel
) -> Calibrated:
    """Choose the rule with the largest F1 for the aggregation of a profile (paper, Hyperparameter Selection).

    A logistic model is fitted on the same pairs before its threshold is chosen. Properties of the pairs are part of
    the choice; later verdicts refer to them.

    Raises:
        UserError: all pairs have the same label, or every threshold calls too many negatives positive.
    """
    features, statistics = [item.features for item in scored], AGGREGATIONS[settings.aggregation].statistics
    weights = fit_logistic(_select_statistics(features, statistics), labels) if len(statistics) > 1 else None
    aggregates = {float(p): Aggregate(settings.aggregation, float(p)) for p in settings.grid}
    scores_by = {p: compute_scores(features, aggregate, weights) for p, aggregate in aggregates.items()}
    choice = choose_threshold(scores_by, labels, settings.most_false_positives)
    scores, threshold = scores_by[choice.parameter], float(choice.threshold)
    calibration = Calibration(
        model=model.fingerprint,
        dtype=model.settings.dtype,
        noise=None if statistics else _find_noise(settings.calibration, model),
        digest=digest,
        pairs=len(labels),
        positives=int(labels.sum()),
        f1=round(choice.f1, 6),
        accuracy=round(choice.accuracy, 6),
        negatives=thin_scores(scores[~labels]),
        negative_pairs=int((~labels).sum()),
        range=find_range(list(measure_targets(scored, model.tokenizer))),
    )
    chosen: dict[str, float] = {"threshold": threshold}
    if settings.parameter is not None:
        number = float if settings.parameter == "q" else int
        chosen = {settings.parameter: number(choice.parameter), **chosen}
    # the threshold is of the model that gave the scores, not of the one in the profile
    name = model.found.name if model.found.where == "--model" else None
    edit = partial(
        _write_choice, chosen=chosen, weights=weights, calibration=calibration, over_long=settings.over_long, model=name
    )
    words = f"{aggregates[choice.parameter].name}, threshold {threshold:.6f}"
    return Calibrated(chosen, words, choice.f1, choice.accuracy, len(labels), int(labels.sum()), edit)


def _write_choice(
    document: tomlkit.TOMLDocument,
    *,
    chosen: dict[str, float],
    weights: LogisticWeights | None,
    calibration: Calibration,
    over_long: str,
    model: str | None,
) -> None:
    """Write a choice into the table ``[pairs]`` of a profile, and the name of its model unless the profile has it."""
    if model is not None:
        table: Any = document["model"]
        table["name"] = model
    pairs: Any = document["pairs"]
    pairs.update(chosen)
    if pairs.get("over_long", "error") != over_long:  # the threshold depends on it
        pairs["over_long"] = over_long
    if weights is not None:
        pairs["weights"] = _make_table(weights.model_dump(mode="json"))
    pairs["calibration"] = _make_calibration_table(calibration)


def _make_calibration_table(calibration: Calibration) -> tomlkit.items.Table:
    last = table = _make_table(calibration.model_dump(mode="json", exclude={"range"}, exclude_none=True))
    if calibration.range is not None:
        last = table["range"] = _make_table(calibration.range.model_dump(mode="json"))
    last.add(tomlkit.nl())
    return table


def _make_table(values: dict[str, Any]) -> tomlkit.items.Table:
    table = tomlkit.table()
    table.update(values)
    return table
