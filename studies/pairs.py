"""``pairs``: every method on every split of the PAN25 pairs (paper, Pair-Level Binary Classification).

A method has one score per pair for every value of its parameter. On the training part of each split the parameter and
the threshold are chosen; on the test part a pair is positive if its score is at least that threshold. The table has the
median of each measure over the splits.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pan_scdg.evaluation.pairs import PAIR_METRICS, compute_pair_metrics
from pan_scdg.evaluation.report import Estimate
from pan_scdg.evaluation.resampling import find_interval
from pan_scdg.methods import MethodSettings
from pan_scdg.methods.cosine import CosineSettings, choose_officially
from pan_scdg.methods.gains import GainSettings
from pan_scdg.methods.logistic import compute_probabilities
from pan_scdg.methods.vectors import VectorSettings
from pan_scdg.profile import Profile
from pan_scdg.scdg.thresholds import Choice, choose_threshold
from studies.archived import Archive
from studies.beside import (
    BASELINES,
    OURS,
    SPLIT_COUNTS,
    Counts,
    OwnRow,
    compare,
    list_hyperparameters,
    make_tables,
    warn_about_counts,
)
from studies.results import (
    MANIFEST,
    Flags,
    Floats,
    Numbers,
    PairScores,
    Result,
    Values,
    describe_scorers,
    read_manifest,
    read_scores,
    warn_about_inputs,
)
from studies.splits import Split, count_classes, read_splits
from studies.tables import Cell, Row, Section, Table, check_output, name_missing, write_report

HEADINGS = dict(zip(PAIR_METRICS, ("Prec.", "Rec.", "F1", "FPR", "BAcc.", "MCC", "AUROC", "AP"), strict=True))
"""The eight measures as the paper's table heads them."""
OFFICIAL = CosineSettings, VectorSettings
"""Methods whose threshold is chosen as the official baseline chooses it, or published."""
NO_PARAMETER = 0.0
"""Stands for the parameter of a method that has none."""
LABEL, SPLITS = "tab:pair_classification", "subsec:supp-pan25-splits"
"""Labels in the paper."""
THRESHOLDS = {
    "GainSettings": "PAN25 SCDG: Decision threshold",
    "ContainmentSettings": "4-token-gram containment: Decision threshold",
    "Bm25PairSettings": "BM25 baseline: Decision threshold",
    "CosineSettings": "PAN25 embedding baseline: Cosine threshold",
    "VectorSettings": "PAN25 embedding baseline: Cosine threshold",
}
"""The paper's names of thresholds by the settings of methods."""
NAMES = {
    "alignment": "{0.model} sentence alignment",
    "bm25": "BM25 pair score",
    "char-ngrams": "PAN12-style n-gram overlap",
    "containment": "Max {0.n}-token-gram containment",
    "cosine": "{0.model} cosine",
    "gram-logistic": "{0.n}-token-gram logistic",
    "vectors": "{0.model} cosine",
}
"""The paper's names of methods, with fields of their settings."""


class Method(NamedTuple):
    """A row of a table of pairs."""

    name: str
    group: str
    values: Sequence[Values]
    """Of all pairs."""
    variants: Mapping[float, MethodSettings]
    """The settings to choose from, by their parameter."""
    published: float | None = None

    def compute_scores(self, labels: Flags, training: Numbers) -> dict[float, Floats]:
        """Return the scores of all pairs by parameter; only a logistic model reads labels and training pairs."""
        values, own = [self.values[i] for i in training], labels[training].tolist()
        return {p: compute_scores(settings.fit(values, own), self.values) for p, settings in self.variants.items()}

    def choose(self, scores_by: Mapping[float, Floats], labels: Flags) -> Choice:
        """Return the parameter and threshold that the training pairs give."""
        if isinstance(next(iter(self.variants.values())), OFFICIAL):
            return choose_officially(scores_by, labels, self.published)
        return choose_threshold(scores_by, labels)


def compute_scores(settings: MethodSettings, values: Sequence[Values]) -> Floats:
    """Return the score of each pair, ``[pairs]``."""
    weights = getattr(settings, "weights", None)
    if settings.features and weights is not None:
        return compute_probabilities(weights, [[pair[name] for name in settings.features] for pair in values])
    return np.array([settings.compute_score(pair) for pair in values], dtype=np.float64)


def name_method(profile: Profile) -> str:
    """Return the paper's name of the method of a profile."""
    method: str = profile.need_decide().method
    settings: Any = profile.method_settings
    if method == "gains":
        return f"SCDG & {profile.need_model().name}"
    if method == "prompt":
        return f"PlagBench {settings.shots}-shot ({'CoT' if settings.chain_of_thought else 'vanilla'})"
    return NAMES.get(method, method).format(settings)


def name_results(results: Sequence[Result]) -> list[str]:
    """Return the names that the user gave, else the paper's, with the profile where two would be equal."""
    names = [result.name or name_method(result.profile) for result in results]
    return [
        f"{name} ({result.profile.name})" if names.count(name) > 1 else name
        for name, result in zip(names, results, strict=True)
    ]


def vary_gains(settings: GainSettings, aggregation: str, **fields: Any) -> GainSettings:
    """Return settings of gains with another aggregation."""
    own = {"aggregation": aggregation, "q": None, "w": None, "weights": None, "grid": None, **fields}
    return settings.model_copy(update=own)


def list_methods(results: Sequence[Result | Archive], scores: PairScores) -> list[Method]:
    """Return the rows in the order of the results, those of SCDG last."""
    baselines, ours = list[Method](), list[Method]()
    own = _keep_results(results)
    names = {result.folder: name for result, name in zip(own, name_results(own), strict=True)}
    for result in results:
        values = scores.values[result.folder]
        if isinstance(result, Archive):
            rows = _list_archived(result, values)
            (ours if result.percentages else baselines).extend(rows)
            continue
        name, profile = names[result.folder], result.profile
        settings = profile.method_settings
        if not isinstance(settings, GainSettings):
            baselines.append(Method(name, BASELINES, values, settings.vary(), profile.need_decide().threshold))
            continue
        average, top = vary_gains(settings, "top", q=100.0), vary_gains(settings, "top")
        ours.append(Method(f"{name}, Average", OURS, values, {NO_PARAMETER: average}))
        ours.append(Method(f"{name}, Top-q", OURS, values, top.vary()))
        if settings.aggregation != "top":
            ours.append(Method(f"{name}, {settings.aggregation}", OURS, values, settings.vary()))
    return [*baselines, *ours]


def _keep_results(results: Sequence[Result | Archive]) -> list[Result]:
    return [result for result in results if isinstance(result, Result)]


def _list_archived(archive: Archive, values: Sequence[Values]) -> list[Method]:
    """Return the rows of an archive: Average and Top-q with the columns of gains, else one."""
    average = {NO_PARAMETER: archive.average}
    if not archive.percentages:
        return [Method(archive.name, BASELINES, values, average)]
    return [
        Method(f"{archive.name}, Average", OURS, values, average),
        Method(f"{archive.name}, Top-q", OURS, values, archive.top),
    ]


class Outcome(NamedTuple):
    """A method on a split."""

    split: str
    choice: Choice
    """On the training part."""
    measures: Mapping[str, float]
    """`PAIR_METRICS` on the test part, nan where one is undefined."""
    at_threshold: int
    """Test scores that equal the threshold; none: it makes no difference whether a pair must exceed it."""

    @property
    def parameter(self) -> float | None:
        """Return the chosen parameter, None for a method without one."""
        return None if self.choice.parameter == NO_PARAMETER else self.choice.parameter


def evaluate(method: Method, splits: Sequence[Split], scores: PairScores) -> list[Outcome]:
    """Return the outcome of a method on each split; pairs without scores are in neither part."""
    labels = scores.labels
    fitted = any(settings.features for settings in method.variants.values())
    scores_by: dict[float, Floats] = {}
    outcomes = []
    for split in splits:
        training, test = scores.select(split.train), scores.select(split.test)
        if fitted or not scores_by:
            scores_by = method.compute_scores(labels, training)
        choice = method.choose(
            {parameter: column[training] for parameter, column in scores_by.items()}, labels[training]
        )
        own = scores_by[choice.parameter][test]
        measures = measure(labels[test], own, choice.threshold)
        outcomes.append(Outcome(split.name, choice, measures, int((own == choice.threshold).sum())))
    return outcomes


def measure(labels: Flags, scores: Floats, threshold: float) -> dict[str, float]:
    """Return the eight measures; the correlation of decisions that are all equal is 0, as in the paper's table."""
    measures = compute_pair_metrics(labels, scores, scores >= threshold)
    if math.isnan(measures["mcc"]) and labels.any() and not labels.all():
        measures["mcc"] = 0.0
    return {name: measures[name] for name in PAIR_METRICS}


def study_pairs(
    prepared: Path, results: Sequence[Result | Archive], missing: Sequence[str], output: Path, overwrite: bool
) -> None:
    """Write the report of the study on results of ``run`` on the folder ``pan25`` of ``prepared``, or scores of others.

    ``missing`` are names of rows without a result.
    """
    check_output(output, overwrite)
    folder = prepared / "pan25"
    manifest = read_manifest(folder / MANIFEST)
    divisions = read_splits(folder / "splits", manifest)
    scores = read_scores(results, manifest)
    own, archives = _keep_results(results), [result for result in results if isinstance(result, Archive)]
    methods = list_methods(results, scores)
    rows = [(method, evaluate(method, divisions, scores)) for method in methods]
    classes = Table("pairs", "Pairs that were scored", [count_classes(scores.pairs)])
    medians = name_missing(make_median_table(rows), missing)
    counts = [Counts(SPLITS, {"Splits": {"Count": len(divisions)}})]
    counts += [count_parts(scores, split) for split in divisions]
    beside = make_tables(compare(LABEL, [estimate_row(*row) for row in rows], counts))
    chosen = Table("hyperparameters", "Hyperparameters, with the paper's choice", list_chosen(rows))
    more = [make_choice_table(rows), chosen, *_list_longest(own, scores), make_split_table(rows)]
    sections = [
        Section("Results", [*warn_about_counts(counts), *warn_about_inputs(own)], [classes, medians, *beside, *more]),
        Section(
            "Deviations from the paper",
            [
                *scores.describe_missing("PAN25"),
                *describe_scorers((name, result.job) for name, result in zip(name_results(own), own, strict=True)),
                *(f"{archive.name}: scores of {archive.folder.name}." for archive in archives),
                *_list_choices(methods),
                *_list_equal_scores(rows),
            ],
        ),
    ]
    sources = {"results": [result.describe() for result in results], "splits": [s.name for s in divisions]}
    write_report(output, "Pair-level classification", sections, sources)


def count_parts(scores: PairScores, split: Split) -> Counts:
    """Return the classes of both parts of a split, and of all scored pairs, as the paper's table has them."""
    by_id = {pair.pair_id: pair for pair in scores.pairs}
    parts = {"All": by_id, "Training": split.train, "Test": split.test}
    return Counts(SPLIT_COUNTS, {n: count_classes([by_id[i] for i in ids if i in by_id]) for n, ids in parts.items()})


def estimate_row(method: Method, outcomes: Sequence[Outcome]) -> OwnRow:
    """Return the medians over the splits, with the 2.5th and 97.5th percentile over them."""
    values = {}
    for name, heading in HEADINGS.items():
        column = [outcome.measures[name] for outcome in outcomes]
        values[heading] = Estimate(_compute_median(column), *find_interval(np.array(column)))
    return OwnRow(method.name, values)


def _list_choices(methods: Sequence[Method]) -> list[str]:
    points = []
    for method in methods:
        settings = next(iter(method.variants.values()))
        if isinstance(settings, OFFICIAL):
            searched = "100 values on [0, 1] by sensitivity + specificity on training"
            points.append(f"{method.name}: {searched if method.published is None else 'the published threshold'}.")
        elif len(method.variants) > 1:
            values = ", ".join(f"{parameter:g}" for parameter in method.variants)
            points.append(f"{method.name}: {settings.parameters[0]} is chosen from {values}.")
    return [*points, "The MCC of decisions that are all equal is 0, as the paper's table has it."]


Rows = Sequence[tuple[Method, Sequence[Outcome]]]


def _list_equal_scores(rows: Rows) -> list[str]:
    """Return a sentence on the test scores that equal their threshold, for which the paper has > and >=."""
    counts = {method.name: sum(outcome.at_threshold for outcome in outcomes) for method, outcomes in rows}
    if equal := {name: count for name, count in counts.items() if count}:
        listed = ", ".join(f"{name}: {count}" for name, count in equal.items())
        return [f"Test scores that equal the threshold of their split, and are positive: {listed}."]
    return ["No test score equals the threshold of its split, so that > would decide as >= does."]


def _list_longest(results: Sequence[Result], scores: PairScores) -> list[Table]:
    """Return a table of the longest input of each language model, if there is one."""
    rows: list[Row] = []
    for name, result in zip(name_results(results), results, strict=True):
        lengths = [int(values["input_tokens"]) for values in scores.values[result.folder] if "input_tokens" in values]
        if lengths:
            rows.append({"Model": name, "Longest input (tokens)": max(lengths)})
    return [Table("longest-inputs", "Longest inputs with both documents", rows)] if rows else []


def make_median_table(rows: Rows) -> Table:
    """Return the paper's table: one method a row, the median of each measure over the splits where it is defined."""
    cells: list[Row] = []
    for method, outcomes in rows:
        columns = {name: [outcome.measures[name] for outcome in outcomes] for name in PAIR_METRICS}
        medians = {HEADINGS[name]: _compute_median(column) for name, column in columns.items()}
        cells.append({"Method": method.name, **medians})
    better = {heading: min if name == "fpr" else max for name, heading in HEADINGS.items()}
    return Table("medians", "Medians over the test parts of all splits", cells, better, [m.group for m, _ in rows])


def _compute_median(values: Sequence[float]) -> float:
    defined = [value for value in values if not math.isnan(value)]
    return float(np.median(defined)) if defined else math.nan


def make_choice_table(rows: Rows) -> Table:
    """Return the settings chosen on the training parts."""
    cells: list[Row] = []
    for method, outcomes in rows:
        counted = sorted(Counter(o.parameter for o in outcomes if o.parameter is not None).items())
        thresholds = [outcome.choice.threshold for outcome in outcomes]
        cells.append(
            {
                "Method": method.name,
                "Parameter (splits)": ", ".join(f"{p:g} ({count})" for p, count in counted) or None,
                "Lowest threshold": min(thresholds),
                "Median": float(np.median(thresholds)),
                "Highest": max(thresholds),
                "Test scores equal to it": sum(outcome.at_threshold for outcome in outcomes),
            }
        )
    return Table("choices", "Choices on the training parts", cells, groups=[m.group for m, _ in rows])


def list_chosen(rows: Rows) -> list[Row]:
    """Return the rows of the paper's table of hyperparameters that the splits decide, for each method."""
    lines: list[Row] = []
    for method, outcomes in rows:
        settings = next(iter(method.variants.values()))
        is_gains = isinstance(settings, GainSettings)
        parameters = Counter(f"{o.parameter:g}%" for o in outcomes if o.parameter is not None)
        thresholds = [outcome.choice.threshold for outcome in outcomes]
        spread = f"{np.median(thresholds):.10g} ({min(thresholds):.10g} to {max(thresholds):.10g})"
        own = {THRESHOLDS[type(settings).__name__]: spread} if type(settings).__name__ in THRESHOLDS else {}
        if is_gains and parameters:
            own["PAN25 SCDG: Top-q"] = ", ".join(f"{q} in {count}" for q, count in parameters.most_common())
        lines += [{"Method": method.name, **row} for row in list_hyperparameters(own)]
    return lines


def make_split_table(rows: Rows) -> Table:
    """Return every method on every split."""
    cells: list[Mapping[str, Cell]] = [
        {
            "Method": method.name,
            "Split": outcome.split,
            "Parameter": outcome.parameter,
            "Threshold": outcome.choice.threshold,
            "Training F1": outcome.choice.f1,
            "Training accuracy": outcome.choice.accuracy,
            **{HEADINGS[name]: value for name, value in outcome.measures.items()},
        }
        for method, outcomes in rows
        for outcome in outcomes
    ]
    return Table("per-split", "Every method on every split", cells, on_page=False)
