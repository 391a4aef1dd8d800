"""``studies pairs``: every method on every split of the PAN25 pairs (paper, Pair-Level Binary Classification)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pan_scdg.evaluation.pairs import PAIR_METRICS
from pan_scdg.profile import PAPER_GRID
from pan_scdg.research.data.data_folders import DataFolders
from pan_scdg.research.data.data_tables import class_table, made_here, origin_table
from pan_scdg.research.data.pair_manifest import read_manifest
from pan_scdg.research.data.pair_sets import PAN25, PairSet, pan25_pairs
from pan_scdg.research.data.pair_splits import SEEDS, PairSplit, read_splits
from pan_scdg.research.data.prepare import MANIFEST
from pan_scdg.research.pairs.job import Scored, Study, StudyOptions, run_study
from pan_scdg.research.pairs.method_rows import names_of, pair_methods, rule_in_words
from pan_scdg.research.pairs.pair_scores import own_windows
from pan_scdg.research.pairs.pair_study import NO_PARAMETER, SplitResult, Summary, pair_study, summaries
from pan_scdg.research.report.page import Section
from pan_scdg.research.report.table import Column, Row, Table

DEFAULT = ("pan25-char-ngrams", "pan25-containment", "pan25-gram-logistic", "pan25-bm25")
"""Baselines that need no model."""
OFFLINE = "pan25-minilm"
"""Beside them with the examples: its model comes along."""
MEASURES = {
    "precision": Column("Prec.", "high"),
    "recall": Column("Rec.", "high"),
    "f1": Column("F1", "high"),
    "fpr": Column("FPR", "low"),
    "balanced_accuracy": Column("BAcc.", "high"),
    "mcc": Column("MCC", "high"),
    "auroc": Column("AUROC", "high"),
    "average_precision": Column("AP", "high"),
}
"""The eight measures as the paper's table heads them."""
Groups = Mapping[str, str]
"""Method -> the group of its row."""


def study_pairs(options: StudyOptions) -> list[str]:
    """Carry out the pair study; the lines to show the user.

    Raises:
        UserError: see `run_study`; or a training part has one class alone.
    """
    return run_study(Study("pairs", ("pan25",), _sets, _sections), options)


def _sets(prepared: Path, folders: DataFolders, _scratch: Path) -> list[PairSet]:
    return [pan25_pairs(prepared, folders)]


def splits_of(prepared: Path) -> tuple[PairSplit, ...]:
    """The splits of the PAN25 pairs, in the order of their names."""
    return read_splits(prepared / PAN25 / "splits", read_manifest(prepared / PAN25 / MANIFEST))


def _sections(scored: Scored) -> tuple[str, list[Section], dict[str, Any]]:
    methods = pair_methods(scored.baselines, scored.tables[PAN25], scored.settings, scored.profile)
    groups = {method.name: group for group, of in methods.items() for method in of}
    splits = splits_of(scored.prepared)
    results = pair_study([method for of in methods.values() for method in of], splits)
    medians = summaries(results)
    sizes = sorted({(len(split.train), len(split.test)) for split in splits})
    studied = (
        "Every method gives each pair one score, or one for each value of its parameter. On the training part of a "
        "split, parameter and threshold are those with the largest F1, ties by accuracy; on its test part a pair is "
        "positive when its score is at least the threshold. What is reported is the median of each measure over the "
        f"{len(splits)} splits.",
        f"SCDG is profile {scored.profile.name}: {scored.profile.description}. Every pair was scored once, whatever "
        "the number of splits and parameters.",
    )
    data = f"Training and test pairs of a split: {', '.join(f'{train} and {test}' for train, test in sizes)}."
    sections = [
        Section("What was studied", studied),
        Section("Data", [data], tables=[origin_table(scored.prepared), class_table(scored.sets.values())]),
        Section(
            "Results",
            tables=[medians_table(medians, groups), _choices(results, medians, groups)],
            linked=[_per_split(results, groups)],
        ),
        Section("What is not the paper's", points=[*made_here(scored.prepared), *_differences(scored)]),
    ]
    return "Pair-level classification", sections, {"splits": _seeds(splits)}


def _seeds(splits: Sequence[PairSplit]) -> list[int] | str:
    made = [f"split_seed{seed}" for seed in SEEDS]
    return list(SEEDS) if [split.name for split in splits] == made else "those of the given splits"


def _differences(scored: Scored) -> list[str]:
    """What a reader who holds the table against the paper's has to know."""
    found = [
        f"{name}: {rule_in_words(baseline.settings)}."
        for name, baseline in zip(names_of(scored.baselines), scored.baselines, strict=True)
    ]
    found.append(f"q of Top-q is chosen from {', '.join(f'{q:g}' for q in PAPER_GRID)} percent, as in the paper.")
    if windows := own_windows(scored.settings):
        widths = ", ".join(f"{w:g}" for w in windows)
        found.append(
            f"The row {scored.settings.aggregation} is the aggregation of the profile, which the paper has not; "
            f"w is chosen from {widths} tokens."
        )
    found += in_segments(scored)
    found.append("The MCC of decisions that are all alike is 0, as the paper's table has it.")
    return found


def in_segments(scored: Scored) -> list[str]:
    """A sentence for each set with pairs that are too long for the profile; the paper scores all in one pass."""
    return [
        f"{count} of the {len(scored.sets[name].ids)} pairs of {name} have more than {scored.settings.limit} tokens "
        "and were scored in segments, each with the windows of the source nearest to it."
        for name, count in scored.segmented.items()
        if count
    ]


def medians_table(medians: Sequence[Summary], groups: Groups) -> Table:
    """The paper's table: one method a row, the median of each measure over the splits."""
    rows = [
        Row((summary.method, *(summary.medians[name] for name in PAIR_METRICS)), groups[summary.method])
        for summary in medians
    ]
    columns = (Column("Method"), *(MEASURES[name] for name in PAIR_METRICS))
    return Table("medians", "Medians over the test parts of all splits", columns, tuple(rows))


def _choices(results: Sequence[SplitResult], medians: Sequence[Summary], groups: Groups) -> Table:
    """What was chosen on the training parts, and where a measure was undefined on a test part."""
    rows = []
    for summary in medians:
        own = [result for result in results if result.method == summary.method]
        thresholds = [result.choice.threshold for result in own]
        counted = Counter(result.choice.parameter for result in own)
        chosen = ", ".join(f"{p:g} ({counted[p]})" for p in sorted(counted) if p != NO_PARAMETER)
        lost = ", ".join(f"{MEASURES[name].name} {n}" for name, n in summary.undefined.items() if n)
        middle = float(np.median(thresholds))
        cells = (summary.method, chosen or None, min(thresholds), middle, max(thresholds), lost or None)
        rows.append(Row(cells, groups[summary.method]))
    names = ("Method", "Parameter (splits)", "Lowest threshold", "Median", "Highest", "Undefined on splits")
    return Table("choices", "What was chosen on the training parts", tuple(map(Column, names)), tuple(rows))


def _per_split(results: Sequence[SplitResult], groups: Groups) -> Table:
    rows = []
    for result in results:
        choice = result.choice
        parameter = None if choice.parameter == NO_PARAMETER else choice.parameter
        measured = (result.metrics[name] for name in PAIR_METRICS)
        cells = (result.method, result.split, parameter, choice.threshold, choice.f1, choice.accuracy, *measured)
        rows.append(Row(cells, groups[result.method]))
    names = ("Method", "Split", "Parameter", "Threshold", "Training F1", "Training accuracy")
    columns = (*map(Column, names), *(Column(MEASURES[name].name) for name in PAIR_METRICS))
    return Table("per-split", "Every method on every split", columns, tuple(rows))
