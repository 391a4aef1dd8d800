"""``studies pairs``: every method on every split of the PAN25 pairs (paper, Pair-Level Binary Classification).

A method has one score per pair for every value of its parameter. On the training part of each split the parameter and
the threshold are chosen; on the test part a pair is positive if its score is at least that threshold.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.methods.cosine import choose_officially
from pan_scdg.evaluation.logistic import compute_probabilities, fit_logistic
from pan_scdg.evaluation.pairs import PAIR_METRICS, compute_pair_metrics
from pan_scdg.models.config import PUBLISHED
from pan_scdg.profile import PAPER_GRID, ModelSettings, PairSettings
from pan_scdg.profile.baseline import BaselineSettings, CharNgrams, Containment
from studies.data.pair_sets import PAN25
from studies.data.splits import SEEDS, PairSplit
from studies.pairs.job import PairWork, Tables, list_models
from studies.pairs.scores import (
    AVERAGE,
    LABEL,
    Baseline,
    find_windows,
    name_baselines,
    name_top,
    select_features,
)
from studies.report.page import Section, list_made, make_class_table, make_origin_table
from studies.report.table import Table, make_table
from pan_scdg.scdg.aggregation import Floats
from pan_scdg.scdg.decision import Choice, choose_threshold
from pan_scdg.scoring.baseline_registry import METHODS

if TYPE_CHECKING:
    from pandas import DataFrame, Series

DEFAULT = ("pan25-char-ngrams", "pan25-containment", "pan25-gram-logistic", "pan25-bm25")
"""Baselines that need no model."""
OFFLINE = "pan25-minilm"
"""A default baseline with the examples, for which the model is installed."""
HEADINGS = dict(zip(PAIR_METRICS, ("Prec.", "Rec.", "F1", "FPR", "BAcc.", "MCC", "AUROC", "AP"), strict=True))
"""The eight measures as the paper's table heads them."""
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


def describe_rule(settings: BaselineSettings) -> str:
    """Return in words how the threshold of a baseline is chosen in the pair study."""
    if not settings.official:
        return METHODS[type(settings)].rule
    if settings.threshold is None:
        return "100 values on [0, 1], sensitivity + specificity on training"
    return f"published threshold {settings.threshold:g}"


def write_sections(work: PairWork, tables: Tables) -> tuple[str, list[Section], dict[str, Any]]:
    """Return title, sections and seeds of the report."""
    splits, profile = work.pan25.splits, work.study.profile
    methods = list_methods(work.baselines, tables[PAN25], work.settings, list_models(work.study))
    results = evaluate_splits(methods, splits)
    sizes = sorted({(len(split.train), len(split.test)) for split in splits})
    studied = (
        "Every method gives each pair one score, or one for each value of its parameter. On the training part of a "
        "split, parameter and threshold are those with the largest F1, ties by accuracy; on its test part a pair is "
        "positive when its score is at least the threshold. What is reported is the median of each measure over the "
        f"{len(splits)} splits.",
        f"SCDG is profile {profile.name}: {profile.description}. Every pair was scored once, whatever "
        "the number of splits and parameters.",
    )
    data = f"Training and test pairs of a split: {', '.join(f'{train} and {test}' for train, test in sizes)}."
    parts, sets = work.parts, work.sets.values()
    sections = [
        Section("Method", studied),
        Section("Data", [data], tables=[make_origin_table(parts), make_class_table(sets)]),
        Section(
            "Results",
            tables=[make_median_table(results), _make_choice_table(results)],
            linked=[_make_split_table(results)],
        ),
        Section("Deviations from the paper", points=[*list_made(parts), *_list_differences(work)]),
    ]
    return "Pair-level classification", sections, {"splits": _name_seeds(splits)}


def _name_seeds(splits: Sequence[PairSplit]) -> list[int] | str:
    made = [f"split_seed{seed}" for seed in SEEDS]
    return list(SEEDS) if [split.name for split in splits] == made else "those of the given splits"


def _list_differences(work: PairWork) -> list[str]:
    found = [
        f"{name}: {describe_rule(baseline.settings)}."
        for name, baseline in zip(name_baselines(work.baselines), work.baselines, strict=True)
    ]
    kinds = {type(baseline.settings) for baseline in work.baselines}
    if {CharNgrams, Containment} <= kinds:
        found.append(
            "The paper's text names character n-grams, its appendix describes the containment of token 4-grams only; "
            "both are rows here."
        )
    found.append(f"q of Top-q is chosen from {', '.join(f'{q:g}' for q in PAPER_GRID)} percent, as in the paper.")
    if windows := find_windows(work.settings):
        widths = ", ".join(f"{w:g}" for w in windows)
        found.append(
            f"The row {work.settings.aggregation} is the aggregation of the profile, which the paper has not; "
            f"w is chosen from {widths} tokens."
        )
    for model in list_models(work.study).values():
        if model.positions != PUBLISHED:
            found.append(
                f"Positions of {model.name}: {model.positions}, {model.position_factor:g} times those of the "
                "checkpoint. The paper does not say how its model had them."
            )
    return [
        *found,
        *work.list_exceptions(),
        "The MCC of decisions that are all equal is 0, as the paper's table has it.",
    ]


def make_median_table(results: "DataFrame") -> Table:
    """Return the paper's table: one method a row, the median of each measure over the splits where it is defined."""
    medians = results.groupby(["method", "group"], sort=False)[list(PAIR_METRICS)].median()
    rows = [
        {"group": group, "Method": method, **{HEADINGS[name]: row[name] for name in PAIR_METRICS}}
        for (method, group), row in medians.iterrows()
    ]
    better = {heading: "low" if name == "fpr" else "high" for name, heading in HEADINGS.items()}
    return make_table("medians", "Medians over the test parts of all splits", rows, better)


def _make_choice_table(results: "DataFrame") -> Table:
    """Return the settings chosen on the training parts, and the test parts on which a measure is undefined."""
    rows = []
    for (method, group), own in results.groupby(["method", "group"], sort=False):
        counted = sorted(Counter(own["parameter"].dropna()).items())
        undefined = own[list(PAIR_METRICS)].isna().sum()
        rows.append(
            {
                "group": group,
                "Method": method,
                "Parameter (splits)": ", ".join(f"{p:g} ({count})" for p, count in counted) or None,
                "Lowest threshold": own["threshold"].min(),
                "Median": float(np.median(own["threshold"])),
                "Highest": own["threshold"].max(),
                "Undefined on splits": ", ".join(f"{HEADINGS[m]} {n}" for m, n in undefined.items() if n) or None,
            }
        )
    return make_table("choices", "Choices on the training parts", rows)


def _make_split_table(results: "DataFrame") -> Table:
    headings = {
        "method": "Method",
        "split": "Split",
        "parameter": "Parameter",
        "threshold": "Threshold",
        "training_f1": "Training F1",
        "training_accuracy": "Training accuracy",
        **HEADINGS,
    }
    return Table("per-split", "Every method on every split", results.rename(columns=headings), {})
