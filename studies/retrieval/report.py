"""Report the retrieval study: its page and tables, a run file per row, and the gains behind the rows."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from pan_scdg.evaluation.retrieval import Run
from pan_scdg.pan.runs import format_run, open_gzip_text
from studies.report.page import Section
from studies.report.table import Cell, Table, make_table
from studies.retrieval.comparison import METRICS, PAPER, Frozen, RetrievalRow, describe, has_own_configuration
from studies.retrieval.data import Data, RetrievalStudy
from studies.retrieval.grid import FEATURES, UPPER_TAILS, GridRow, list_features
from studies.study import describe_lost
from pan_scdg.scoring.candidates import Found

TITLE = "Retrieval of sources, before and after SCDG"
FOLDS, GAINS = "prepared/folds.jsonl", "scores/gains.jsonl.gz"
SHOWN = {"RR": "MRR", "AP": "MAP"}
"""The paper's names of means."""
HEADLINES = ("nDCG@10", "AP")
"""Measures whose differences stand on the page."""
OURS = ", ".join(name for name in FEATURES if name not in UPPER_TAILS)
TAG = "pan-scdg"


def write_runs(folder: Path, runs: Sequence[tuple[str, Run]]) -> list[str]:
    """Write each row as a TREC run, numbered as in the table; return the files' names."""
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    names = []
    for number, (row, run) in enumerate(runs, 1):
        slug = re.sub("[^a-z0-9]+", "-", row.lower()).strip("-")[:60]
        names.append(f"runs/{number:02d}{'-' if slug else ''}{slug}.txt.gz")
        with open_gzip_text(folder / names[-1]) as file:
            for query_id in sorted(run):
                file.writelines(format_run(query_id, [doc_id for doc_id, _ in run[query_id]], TAG))
    return names


def write_gains(folder: Path, scored: Found, name: str = GAINS) -> list[str]:
    """Write the features of every scored candidate, one JSON line each; return the file's name."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    with open_gzip_text(folder / name) as file:
        for (query_id, doc_id), (statistics, _) in sorted(scored.items()):
            features = dict(zip(FEATURES, list_features(statistics), strict=True))
            file.write(json.dumps({"query": query_id, "document": doc_id, **features}) + "\n")
    return [name]


def make_sections(
    study: RetrievalStudy, data: Data, rows: Sequence[RetrievalRow], frozen: Frozen | None
) -> list[Section]:
    """Return the sections of the page."""
    sections = [Section("Method", list(_describe_study(study, data, frozen))), _make_row_section(data, rows)]
    if frozen is not None:
        sections.append(_make_choice_section(study, data, frozen))
    return [*sections, Section("Deviations from the paper", points=list(_list_differences(study, data, frozen)))]


def _describe_study(study: RetrievalStudy, data: Data, frozen: Frozen | None) -> Iterator[str]:
    yield (
        f"{len(data.qrels)} judged queries of {len(data.queries)} against {len(data.corpus)} documents. Every row is "
        "measured with the same judgements: nDCG with gains 2^grade - 1, the other measures with every grade above 0 "
        "as relevant; MRR and MAP are means of RR and AP. A judged query that a row lacks counts 0."
    )
    if frozen is None:
        yield "No row is reranked."
        return
    profile = study.profile
    yield (
        f"Gains are those of {profile.need_model().name} with the settings of the profile {profile.name} "
        f"({profile.description}), scored once for every query and candidate of a reranked row."
    )
    yield (
        "A row that ends in SCDG has the documents of the nearest row above that does not, reranked by one "
        f"configuration for all: {describe(frozen.chosen)}."
    )


def _make_row_section(data: Data, rows: Sequence[RetrievalRow]) -> Section:
    queries = f"over {len(data.qrels)} queries"
    against = "Against the row above: difference of means with a 95 % bootstrap interval over queries, and p of a"
    test = "two-sided paired randomisation test, not corrected for the number of rows"
    return Section(
        "All rows",
        tables=[
            make_row_table("rows", f"All rows, means {queries}", rows),
            make_difference_table("differences", f"{against} {test}", rows),
        ],
        linked=[make_all_difference_table("differences-all", "Differences in all measures", rows)],
    )


def _make_choice_section(study: RetrievalStudy, data: Data, frozen: Frozen) -> Section:
    held = sum(fold.role == "holdout" for fold in data.folds)
    text = (
        f"{len(frozen.grid)} configurations (a feature of the gains, the number N of candidates that change their "
        f"places, the weight of the gains) were compared on the {len(data.folds) - held} development queries, with "
        f"the candidates of {study.search_on}, by nDCG@10, then R@10, then R@100. Chosen: {describe(frozen.chosen)}. "
        f"The {held} queries of the hold-out had no part in it."
    )
    both = [*frozen.development, *frozen.holdout]
    groups = ["development"] * len(frozen.development) + ["hold-out"] * len(frozen.holdout)
    return Section(
        "Choice of the configuration",
        [text],
        tables=[
            make_row_table("folds", f"{study.search_on} on development and held-out queries", both, groups),
            make_difference_table("folds-holdout", "On the hold-out, against the row above", frozen.holdout),
        ],
        linked=[make_grid_table("grid", "The grid on the development queries", frozen.grid)],
    )


def _list_differences(study: RetrievalStudy, data: Data, frozen: Frozen | None) -> Iterator[str]:
    if data.lost:
        yield describe_lost(data.lost, f"{len(data.queries) + len(data.lost)} queries")
    if data.runs:
        yield (
            f"Runs from elsewhere: {', '.join(data.runs)}. They are measured as they are, equal scores in the "
            "order of trec_eval; where one is reranked, its first documents are, equal scores by document id."
        )
    yield "Rows that are no ranking of a pan26 profile of this project with the paper's models are not the paper's."
    if frozen is None:
        return
    if data.folds_file is None:
        yield (
            "Made here, since no file was given: the folds of the queries, from a seed. The authors' file is taken "
            "with --given pan26-folds=FILE."
        )
    yield f"The paper names four of nine features, the upper tails; the others are ours: {OURS}."
    yield (
        "The paper does not say on which first stage it searched, only that the stronger ones were not searched "
        f"again: here it is {study.search_on}. Candidates after the first N keep their coarse order."
    )
    settings, model = study.profile.need_retrieval(), study.profile.need_model().name
    if settings.scored is not None:
        yield (
            f"The profile scores the first {settings.scored} candidates of a row: N is at most that many here, and the "
            "later candidates keep their coarse order."
        )
    if settings.source_tokens is not None:
        yield f"A source prefix has at most {settings.source_tokens} tokens; in the paper it fills the context."
    if settings.control != "none":
        yield f"Gains are those over the control {settings.control}; the paper has none."
    if model != "Qwen3-8B-Base":
        yield f"The language model is {model}; the paper's is Qwen3-8B-Base."
    if has_own_configuration(settings, frozen.chosen):
        yield f"Rows that {study.profile.name} has in its own way are what run writes with it for these candidates."
    if frozen.chosen != PAPER:
        yield f"The paper's configuration, {describe(PAPER)}, has rows of its own."


def make_row_table(name: str, caption: str, rows: Sequence[RetrievalRow], groups: Sequence[str] = ()) -> Table:
    """Return every row with all measures; ``groups`` are headings, one per row."""
    cells = [
        {
            **({"group": groups[i]} if groups else {}),
            "Row": row.name,
            **{_name_measure(metric): row.metrics[metric] for metric in METRICS},
        }
        for i, row in enumerate(rows)
    ]
    return make_table(name, caption, cells, {_name_measure(metric): "high" for metric in METRICS})


def make_difference_table(name: str, caption: str, rows: Sequence[RetrievalRow]) -> Table:
    """Return the differences of the headline measures from the row above, one line per row."""
    lines = []
    for row in rows:
        cells: dict[str, Cell] = {"Row": row.name}
        for metric in HEADLINES:
            found = row.above.get(metric)
            cells[f"{_name_measure(metric)}, difference"] = None if found is None else found.mean
            cells[f"{_name_measure(metric)}, p"] = None if found is None else found.p_value
        lines.append(cells)
    return make_table(name, caption, lines)


def make_all_difference_table(name: str, caption: str, rows: Sequence[RetrievalRow]) -> Table:
    """Return the differences of all measures from the row above, one line per row and measure."""
    lines = [
        {
            "Row": row.name,
            "Above": above.name,
            "Measure": _name_measure(metric),
            "Difference": found.mean,
            "p": found.p_value,
        }
        for above, row in zip(rows, rows[1:])
        for metric, found in row.above.items()
    ]
    return make_table(name, caption, lines, columns=("Row", "Above", "Measure", "Difference", "p"))


def make_grid_table(name: str, caption: str, grid: Sequence[GridRow]) -> Table:
    """Return all configurations, the best first."""
    columns = ("Place", "Feature", "N", "Weight", "nDCG@10", "R@10", "R@100")
    lines = [
        dict(zip(columns, (place, *row.configuration, row.ndcg, row.recall, row.deep_recall), strict=True))
        for place, row in enumerate(grid, 1)
    ]
    return make_table(name, caption, lines, dict.fromkeys(columns[4:], "high"))


def _name_measure(metric: str) -> str:
    return SHOWN.get(metric, metric)
