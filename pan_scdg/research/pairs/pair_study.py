"""Methods on the splits of the PAN25 pairs: chosen on training, measured on test (paper, Pair-Level Classification).

A method gives each pair one score for every value of its parameter. On the training part of each split the parameter
and the threshold are chosen, on the test part a pair is positive when its score is at least that threshold.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.baselines.official_threshold import official_threshold
from pan_scdg.evaluation.logistic import fit_logistic, probabilities
from pan_scdg.evaluation.pairs import PAIR_METRICS, pair_metrics
from pan_scdg.profile import PAPER_GRID
from pan_scdg.research.data.pair_splits import PairSplit
from pan_scdg.research.pairs.score_table import AVERAGE, Flags, ScoreTable, top_q
from pan_scdg.scdg.arrays import Floats
from pan_scdg.scdg.decision import Choice, choose

NO_PARAMETER = 0.0
"""Stands for the parameter of a method that has none."""
ScoresBy = Mapping[float, Floats]
"""Parameter -> scores ``[pairs]``."""
Rows = npt.NDArray[np.intp]
Rule = Callable[[ScoresBy, npt.NDArray[Any]], Choice]
"""Chooses parameter and threshold from scores and labels of the training pairs."""


class Method(NamedTuple):
    """One row of the table, with the scores of all pairs that it may be asked for."""

    name: str
    table: ScoreTable
    scores: Callable[[ScoreTable, Rows], ScoresBy]
    """Scores of all pairs of the table, given the training rows: only what is fitted looks at these."""
    rule: Rule = choose


class SplitResult(NamedTuple):
    """One method on one split."""

    method: str
    split: str
    choice: Choice
    """On the training part."""
    metrics: Mapping[str, float]
    """The eight measures on the test part; nan where one is undefined."""


class Summary(NamedTuple):
    """One method over all splits."""

    method: str
    medians: Mapping[str, float]
    """Of each measure over the splits where it is defined; nan where it is nowhere."""
    undefined: Mapping[str, int]
    """Measure -> number of splits where it is undefined."""


def one_score(name: str, table: ScoreTable, column: str = "score", rule: Rule = choose) -> Method:
    """A method that has one score and no parameter."""
    return with_parameter(name, table, {NO_PARAMETER: column}, rule)


def with_parameter(name: str, table: ScoreTable, columns: Mapping[float, str], rule: Rule = choose) -> Method:
    """A method whose parameter is chosen together with the threshold; ``columns``: parameter -> column."""
    return Method(name, table, lambda t, _training: {p: t.column(c) for p, c in columns.items()}, rule)


def average(name: str, table: ScoreTable) -> Method:
    """Average SCDG."""
    return one_score(name, table, AVERAGE)


def sparse(name: str, table: ScoreTable, grid: Iterable[float] = PAPER_GRID) -> Method:
    """Top-q SCDG, q from ``grid``."""
    return with_parameter(name, table, {float(q): top_q(q) for q in grid})


def logistic(name: str, table: ScoreTable, features: Sequence[str], rule: Rule = choose) -> Method:
    """The probability of a logistic model of some columns, fitted on the training part of each split."""

    def scores(of: ScoreTable, training: Rows) -> ScoresBy:
        values = of.features(features)
        return {NO_PARAMETER: probabilities(fit_logistic(values[training], of.labels[training]), values)}

    return Method(name, table, scores, rule)


def published(threshold: float) -> Rule:
    """The rule of a method without parameter whose threshold is given, as the paper's embedding baselines have it."""

    def rule(scores_by: ScoresBy, labels: npt.NDArray[Any]) -> Choice:
        return _judged(scores_by, labels, threshold)

    return rule


def official(scores_by: ScoresBy, labels: npt.NDArray[Any]) -> Choice:
    """The rule of the official embedding baseline: 100 values, sensitivity + specificity."""
    (scores,) = scores_by.values()
    return _judged(scores_by, labels, official_threshold(scores, labels).threshold)


def _judged(scores_by: ScoresBy, labels: npt.NDArray[Any], threshold: float) -> Choice:
    """What a threshold that F1 had no part in does on the training pairs."""
    ((parameter, scores),) = scores_by.items()
    decided = scores >= threshold
    found, both = int((decided & labels).sum()), int(decided.sum()) + int(labels.sum())
    return Choice(parameter, threshold, 2 * found / both if both else 0.0, float(np.mean(decided == labels)))


def pair_study(methods: Sequence[Method], splits: Sequence[PairSplit]) -> list[SplitResult]:
    """Every method on every split, in their order.

    Raises:
        UserError: a pair of a split has no score, a column is missing, or a training part has one class alone.
        ValueError: two methods have one name, or the parts of a split share a pair.
    """
    names = [method.name for method in methods]
    if len(set(names)) != len(names):
        raise ValueError(f"two methods have one name: {names}")
    return [_on_split(method, split) for method in methods for split in splits]


def _on_split(method: Method, split: PairSplit) -> SplitResult:
    table = method.table
    if set(split.train) & set(split.test):
        raise ValueError(f"a pair is in both parts of {split.name}")
    training, test = table.rows(split.train, method.name), table.rows(split.test, method.name)
    scores_by = method.scores(table, training)
    choice = method.rule({p: scores[training] for p, scores in scores_by.items()}, table.labels[training])
    scores, labels = scores_by[choice.parameter][test], table.labels[test]
    return SplitResult(method.name, split.name, choice, _measured(labels, scores, scores >= choice.threshold))


def _measured(labels: Flags, scores: Floats, decisions: Flags) -> dict[str, float]:
    """The eight measures; the correlation of decisions that are all alike is 0, as the paper's table has it."""
    found = pair_metrics(labels, scores, decisions)
    if math.isnan(found["mcc"]) and labels.any() and not labels.all():
        found["mcc"] = 0.0
    return found


def summaries(results: Sequence[SplitResult]) -> list[Summary]:
    """The medians of every method over its splits, each measure by itself, in the order of ``results``."""
    found = []
    for name in dict.fromkeys(result.method for result in results):
        values = {m: np.array([r.metrics[m] for r in results if r.method == name]) for m in PAIR_METRICS}
        defined = {m: column[~np.isnan(column)] for m, column in values.items()}
        medians = {m: float(np.median(column)) if len(column) else math.nan for m, column in defined.items()}
        found.append(Summary(name, medians, {m: len(values[m]) - len(defined[m]) for m in PAIR_METRICS}))
    return found
