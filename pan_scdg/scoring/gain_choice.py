"""The rule that ``calibrate`` chooses for gains: parameter or weights, and threshold; and its tables in a profile."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tomlkit

from pan_scdg.evaluation.logistic import fit_logistic
from pan_scdg.profile import Calibration, PairSettings
from pan_scdg.profile.baseline import LogisticWeights
from pan_scdg.scdg.aggregation import Aggregate, Floats, GainStatistics
from pan_scdg.scdg.calibration_range import find_range, thin_scores
from pan_scdg.scdg.decision import choose_threshold
from pan_scdg.scoring.calibration import find_noise, measure_targets
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_method import Calibrated, Labels
from pan_scdg.scoring.pairs import ScoredPair, compute_scores, select_statistics


class Rule(NamedTuple):
    """A chosen rule and its quality on the calibration pairs."""

    aggregate: Aggregate
    weights: LogisticWeights | None
    """Of an aggregation of several statistics."""
    threshold: float
    f1: float
    accuracy: float
    scores: Floats
    """The scores of the calibration pairs, ``[pairs]``."""

    @property
    def parameter(self) -> dict[str, float]:
        """Return the parameter of the aggregation by its name in a profile; empty if it has none."""
        name, value = self.aggregate.entry.parameter, self.aggregate.parameter
        return {} if name is None else {name: float(value) if name == "q" else int(value)}


def calibrate_gains(
    settings: PairSettings, scored: Sequence[ScoredPair], labels: Labels, digest: str, model: ScoringModel
) -> Calibrated:
    """Return the choice on the scored pairs, and their properties for later verdicts; see `choose_rule`."""
    choice = choose_rule([item.features for item in scored], labels, settings)
    facts = list(measure_targets(scored, model.tokenizer))
    calibration = Calibration(
        model=model.fingerprint,
        dtype=model.settings.dtype,
        noise=None if choice.aggregate.entry.statistics else find_noise(settings.calibration, model),
        digest=digest,
        pairs=len(labels),
        positives=int(labels.sum()),
        f1=round(choice.f1, 6),
        accuracy=round(choice.accuracy, 6),
        negatives=thin_scores(choice.scores[~labels]),
        negative_pairs=int((~labels).sum()),
        range=find_range(facts),
    )

    def edit(document: tomlkit.TOMLDocument) -> None:
        if model.found.where == "--model":  # the threshold is of this model, not of the one in the profile
            table: Any = document["model"]
            table["name"] = model.found.name
        _write_rule(document, choice, calibration, settings.over_long)

    words = f"{choice.aggregate.name}, threshold {choice.threshold:.6f}"
    chosen = {**choice.parameter, "threshold": choice.threshold}
    return Calibrated(chosen, words, choice.f1, choice.accuracy, len(labels), int(labels.sum()), edit)


def choose_rule(features: Sequence[GainStatistics], labels: Labels, settings: PairSettings) -> Rule:
    """Return the rule with the largest F1 for the aggregation of a profile (paper, Hyperparameter Selection).

    A logistic model is fitted on the same pairs before its threshold is chosen.

    Raises:
        UserError: all pairs have the same label, or every threshold calls too many negatives positive.
    """
    aggregates = {float(p): Aggregate(settings.aggregation, float(p)) for p in settings.grid}
    weights = None
    for aggregate in aggregates.values():
        if len(aggregate.entry.statistics) > 1:
            weights = fit_logistic(select_statistics(features, aggregate), labels)
    table = {p: compute_scores(features, aggregate, weights) for p, aggregate in aggregates.items()}
    choice = choose_threshold(table, labels, settings.most_false_positives)
    return Rule(
        aggregates[choice.parameter],
        weights,
        float(choice.threshold),
        choice.f1,
        choice.accuracy,
        table[choice.parameter],
    )


def _write_rule(document: tomlkit.TOMLDocument, rule: Rule, calibration: Calibration, over_long: str) -> None:
    """Write a rule and its calibration into the table ``[pairs]`` of a profile."""
    pairs: Any = document["pairs"]
    pairs.update({**rule.parameter, "threshold": rule.threshold})
    if pairs.get("over_long", "error") != over_long:  # the threshold depends on it
        pairs["over_long"] = over_long
    if rule.weights is not None:
        pairs["weights"] = _make_table(rule.weights.model_dump(mode="json"))
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
