"""Methods on the splits of the PAN25 pairs: chosen on training, evaluated on test (paper, Pair-Level Classification).

A method has one score per pair for every value of its parameter. On the training part of each split the parameter and
the threshold are chosen; on the test part a pair is positive if its score is at least that threshold.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.baselines.cosine import choose_officially
from pan_scdg.evaluation.logistic import compute_probabilities, fit_logistic
from pan_scdg.evaluation.pairs import PAIR_METRICS, compute_pair_metrics
from pan_scdg.profile import PAPER_GRID, ModelSettings, PairSettings
from pan_scdg.profile.baseline import BaselineSettings
from pan_scdg.research.data.splits import PairSplit
from pan_scdg.research.pairs.scores import AVERAGE, LABEL, Baseline, find_windows, name_top, select_features
from pan_scdg.scdg.aggregation import Floats
from pan_scdg.scdg.decision import Choice, choose_threshold
from pan_scdg.scoring.baseline_registry import METHODS

if TYPE_CHECKING:
    from pandas import DataFrame, Series

NO_PARAMETER = 0.0
"""Stands for the parameter of a method that has none."""
BASELINES, OURS = "Baselines", "SCDG"
ScoresBy = Mapping[float, Floats]
"""Scores ``[pairs]`` by parameter."""
Rule = Callable[[ScoresBy, npt.NDArray[Any]], Choice]
"""Chooses parameter and threshold from scores and labels of the training pairs."""


class Method(NamedTuple):
    """One row of the table."""

    name: str
    group: str
    table: "DataFrame"
    """The scores of all pairs, see `pairs.scores`."""
    columns: Mapping[float, str]
    """Parameter -> column of the table; not read for a logistic model."""
    features: Sequence[str] = ()
    """Columns of a logistic model, which is fitted on the training part of each split."""
    rule: Rule = choose_threshold

    def score(self, training: Sequence[str]) -> "dict[float, Series]":
        """Return the scores of all pairs by parameter; only a logistic model reads ``training``."""
        if not self.features:
            return {parameter: self.table[column] for parameter, column in self.columns.items()}
        from pandas import Series

        fitted = select_features(self.table, self.features, training)
        fit = fit_logistic(fitted, self.table.loc[training, LABEL])
        everything = select_features(self.table, self.features, self.table.index)
        return {NO_PARAMETER: Series(compute_probabilities(fit, everything), index=self.table.index)}


def evaluate_splits(methods: Sequence[Method], splits: Sequence[PairSplit]) -> "DataFrame":
    """Return one row for every method on every split, in their order.

    Returns:
        Columns method, group, split, parameter (nan without one), threshold, training_f1, training_accuracy, and
        `PAIR_METRICS` on the test part, nan where one is undefined.

    Raises:
        UserError: a training part has one class alone.
    """
    import pandas

    return pandas.DataFrame([_evaluate(method, split) for method in methods for split in splits])


def _evaluate(method: Method, split: PairSplit) -> dict[str, Any]:
    training, test = list(split.train), list(split.test)
    labels, scores_by = method.table[LABEL], method.score(training)
    own = {parameter: scores.loc[training].to_numpy() for parameter, scores in scores_by.items()}
    choice = method.rule(own, labels.loc[training].to_numpy())
    scores = scores_by[choice.parameter].loc[test].to_numpy()
    return {
        "method": method.name,
        "group": method.group,
        "split": split.name,
        "parameter": math.nan if choice.parameter == NO_PARAMETER else choice.parameter,
        "threshold": choice.threshold,
        "training_f1": choice.f1,
        "training_accuracy": choice.accuracy,
        **measure(labels.loc[test].to_numpy(), scores, choice.threshold),
    }


def measure(labels: npt.NDArray[np.bool_], scores: Floats, threshold: float) -> dict[str, float]:
    """Return the eight measures; the correlation of decisions that are all equal is 0, as in the paper's table."""
    found = compute_pair_metrics(labels, scores, scores >= threshold)
    if math.isnan(found["mcc"]) and labels.any() and not labels.all():
        found["mcc"] = 0.0
    return {name: found[name] for name in PAIR_METRICS}


def list_methods(
    baselines: Sequence[Baseline],
    tables: "Mapping[str, DataFrame]",
    settings: PairSettings,
    models: Mapping[str, ModelSettings],
) -> list[Method]:
    """Return the rows of the pair study in the paper's order.

    Args:
        baselines: the baselines with their settings.
        tables: scores by the name of the baseline's profile, or of a model in ``models``.
        settings: pair settings of SCDG; its windows, if any, are a row that the paper does not have.
        models: the language model under each position rule; several are rows of their own.
    """
    rows = [
        _make_method(name, baseline.settings, tables[baseline.profile.name])
        for name, baseline in zip(name_baselines(baselines), baselines, strict=True)
    ]
    for name, model in models.items():
        backend = f"SCDG & {model.name}" if len(models) == 1 else f"SCDG & {model.name} ({model.positions})"
        rows += _make_gain_methods(backend, tables[name], settings)
    return rows


def _make_gain_methods(backend: str, own: "DataFrame", settings: PairSettings) -> list[Method]:
    rows = [
        Method(f"{backend}, Average", OURS, own, {NO_PARAMETER: AVERAGE}),
        Method(f"{backend}, Top-q", OURS, own, {float(q): name_top(q) for q in PAPER_GRID}),
    ]
    if windows := find_windows(settings):
        columns = {w: aggregate.name for w, aggregate in windows.items()}
        rows.append(Method(f"{backend}, {settings.aggregation}", OURS, own, columns))
    return rows


def _make_method(name: str, settings: BaselineSettings, table: "DataFrame") -> Method:
    columns = {parameter: variant.column for parameter, variant in settings.vary().items()}
    rule = partial(choose_officially, published=settings.threshold) if settings.official else choose_threshold
    return Method(name, BASELINES, table, columns, settings.fitted, rule)


def name_baselines(baselines: Sequence[Baseline]) -> list[str]:
    """Return the paper's names, with that of the profile where two baselines would have the same."""
    names = [METHODS[type(baseline.settings)].name(baseline.settings) for baseline in baselines]
    return [
        f"{name} ({baseline.profile.name})" if names.count(name) > 1 else name
        for name, baseline in zip(names, baselines, strict=True)
    ]


def describe_rule(settings: BaselineSettings) -> str:
    """Return in words how the threshold of a baseline is chosen in the pair study."""
    if not settings.official:
        return METHODS[type(settings)].rule
    if settings.threshold is None:
        return "100 values on [0, 1], sensitivity + specificity on training"
    return f"published threshold {settings.threshold:g}"
