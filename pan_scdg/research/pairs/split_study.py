"""``studies pairs``: every method on every split of the PAN25 pairs (paper, Pair-Level Binary Classification)."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pan_scdg.evaluation.pairs import PAIR_METRICS
from pan_scdg.models.config import PUBLISHED
from pan_scdg.profile import PAPER_GRID
from pan_scdg.profile.baseline import CharNgrams, Containment
from pan_scdg.research.data.pair_sets import PAN25
from pan_scdg.research.data.splits import SEEDS, PairSplit
from pan_scdg.research.pairs.job import PairWork, list_models
from pan_scdg.research.pairs.methods import describe_rule, evaluate_splits, list_methods, name_baselines
from pan_scdg.research.pairs.scores import find_windows
from pan_scdg.research.report.page import Section, list_made, make_class_table, make_origin_table
from pan_scdg.research.report.table import Table, make_table

if TYPE_CHECKING:
    from pandas import DataFrame

DEFAULT = ("pan25-char-ngrams", "pan25-containment", "pan25-gram-logistic", "pan25-bm25")
"""Baselines that need no model."""
OFFLINE = "pan25-minilm"
"""A default baseline with the examples, for which the model is installed."""
HEADINGS = dict(zip(PAIR_METRICS, ("Prec.", "Rec.", "F1", "FPR", "BAcc.", "MCC", "AUROC", "AP"), strict=True))
"""The eight measures as the paper's table heads them."""


def write_sections(work: PairWork) -> tuple[str, list[Section], dict[str, Any]]:
    """Return title, sections and seeds of the report."""
    splits, profile = work.data.pan25.splits, work.study.profile
    methods = list_methods(work.baselines, work.tables[PAN25], work.settings, list_models(work.study))
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
    parts, sets = work.data.parts, work.data.sets.values()
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
    """Return sentences on the deviations from the paper."""
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
