"""The rule that ``calibrate`` chooses for gains: parameter or weights, and threshold; and its tables in a profile."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tomlkit

from pan_scdg.evaluation.logistic import fit_logistic
from pan_scdg.profile import Calibration, PairSettings
from pan_scdg.profile.baseline import LogisticWeights
from pan_scdg.scdg.aggregation import Aggregate, Floats, GainStatistics
from pan_scdg.scdg.decision import choose_threshold
from pan_scdg.scoring.pairs import compute_scores, select_statistics


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


def choose_rule(features: Sequence[GainStatistics], labels: npt.NDArray[np.bool_], settings: PairSettings) -> Rule:
    """Return the rule with the largest F1 for the aggregation of a profile (paper, Hyperparameter Selection).

    A logistic model is fitted on the same pairs before its threshold is chosen.

    Args:
        features: the statistics of the pairs.
        labels: True where the source was reused, ``[pairs]``.
        settings: aggregation, grid and the limit on false positives.

    Raises:
        UserError: all pairs have the same label, or every threshold calls too many negatives positive.
    """
    aggregates = {float(p): Aggregate(settings.aggregation, float(p)) for p in settings.grid}
    weights = None
    for aggregate in aggregates.values():
        if len(aggregate.entry.statistics) > 1:
            weights = LogisticWeights(**fit_logistic(select_statistics(features, aggregate), labels)._asdict())
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


def write_rule(document: tomlkit.TOMLDocument, rule: Rule, calibration: Calibration, over_long: str) -> None:
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
