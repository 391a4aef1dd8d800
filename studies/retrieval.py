"""``retrieval``: first stages on the PAN26 data, before and after reranking (paper, PAN26 full-corpus retrieval).

Each row is a result of ``run`` or a TREC run. Rows whose candidates have gains are reranked by one configuration, which
is chosen on the development folds of one row, evaluated on the hold-out, and applied unchanged to the others.

Nine features of the gains, three numbers N of candidates and four weights are 108 configurations. The paper names the
four upper-tail features only; the other five are ours: the statistics of gains that it speaks of elsewhere (mean,
median, positive-gain rate), the mean of the positive gains and the standard deviation. It also leaves open the order
after the first N candidates: here scores are normalised over these N, and the others keep their coarse order.
"""

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from pan_scdg.errors import UserError
from pan_scdg.evaluation.report import Estimate
from pan_scdg.evaluation.resampling import SWAPS, run_randomisation_test
from pan_scdg.evaluation.retrieval import LARGEST_GRADE, PAPER_METRICS, Qrels, Run, bootstrap_queries, compute_per_query
from pan_scdg.notices import Notices
from pan_scdg.pan.runs import find_run, format_run, open_gzip_text, read_run
from pan_scdg.pan.source_retrieval import find_qrels, read_qrels, read_queries
from pan_scdg.results.files import CANDIDATE_SCORES, METADATA, read_lines
from pan_scdg.results.folder import require_job
from pan_scdg.results.job import JobFile
from pan_scdg.results.records import CandidateLine, Key, MeasuredCandidate
from pan_scdg.scdg.reranking import rerank
from studies.beside import (
    BASELINES,
    OURS,
    Counts,
    OwnRow,
    compare,
    count_quantities,
    list_hyperparameters,
    make_tables,
    read_texts,
    warn_about_counts,
)
from studies.results import describe_scorers, split_name
from studies.splits import QueryFold, read_folds
from studies.tables import Row, Section, Table, check_output, name_missing, slugify, write_report

FEATURES = {
    "top-1%": "top_1",
    "top-2%": "top_2",
    "top-5%": "top_5",
    "top-10%": "top_10",
    "mean": "mean",
    "median": "median",
    "positive-gain-rate": "positive_gain_rate",
    "positive-mean": "positive_mean",
    "deviation": "deviation",
}
"""The features, and their fields in the scores of a result of retrieval."""
DEPTHS, WEIGHTS = (100, 500, 1000), (0.25, 0.5, 0.75, 1.0)
METRICS = tuple(PAPER_METRICS)
"""Columns of the paper's table; RR is its MRR, AP its MAP."""
HEADINGS = {metric: {"RR": "MRR", "AP": "MAP"}.get(metric, metric) for metric in METRICS}
HEADLINES = ("nDCG@10", "AP")
"""Measures whose differences are on the page."""
Gains = Mapping[Key, MeasuredCandidate]
"""Scored candidates, by query and document."""
MEAN_TOLERANCE = 1e-3
"""Nats by which the unconditional mean of a query may differ between results of one model."""
RERANKED = " + SCDG"
LABEL, DATA_COUNTS = "tab:pan26_retrieval_all", "tab:supp-pan26-statistics"
"""Labels in the paper."""
TIMED = {
    ("bm25-sentence", "terrier"): "BM25-Sentence1, PyTerrier, one worker (s)",
    ("dense-sentence", "Linq-Embed-Mistral"): "Linq-Sentence1, exact search on one A100 (s)",
}
"""The paper's names of the stages whose seconds it gives, by route and by engine or encoder."""


class Ranking(NamedTuple):
    """A row of the study as it was given; a TREC run has neither gains nor a job."""

    name: str
    path: Path
    coarse: Mapping[str, Mapping[str, float]]
    """The coarse score of each candidate by query, the best first."""
    gains: Gains
    """The gains that the result itself has."""
    final: Run
    job: JobFile | None


class Candidates(NamedTuple):
    """The coarse scores of one query, the best first, and the gains of the first; the others keep their places."""

    coarse: Mapping[str, float]
    gains: Sequence[Mapping[str, float]]
    """The values of each."""


class Configuration(NamedTuple):
    """A feature of `FEATURES`, the number of candidates that are reordered by it (N), and its weight."""

    feature: str
    depth: int
    weight: float

    def __str__(self) -> str:
        """Return the configuration in words."""
        return f"{self.feature}, N = {self.depth}, weight {self.weight:g}"


PAPER = Configuration("top-2%", 1000, 0.75)
"""The paper's choice on its development folds."""


class GridRow(NamedTuple):
    """Means over the development queries: nDCG@10 with gains 2^grade - 1, R@10 and R@100."""

    configuration: Configuration
    ndcg: float
    recall: float
    deep_recall: float


class RetrievalRow(NamedTuple):
    """The means of a row over all judged queries by measure, and the mean differences from the row above, if any.

    Both have 95 % bootstrap intervals over queries; a difference has the p of a two-sided paired randomisation test.
    """

    name: str
    metrics: Mapping[str, Estimate]
    above: Mapping[str, tuple[Estimate, float]]


class Frozen(NamedTuple):
    """The grid on the development queries, the best first, and coarse and reranked row there and on the hold-out."""

    searched_on: str
    grid: Sequence[GridRow]
    development: Sequence[RetrievalRow]
    holdout: Sequence[RetrievalRow]

    @property
    def chosen(self) -> Configuration:
        """Return the best configuration."""
        return self.grid[0].configuration


def read_ranking(argument: str) -> Ranking:
    """Return the row ``[NAME=]PATH`` of a result of ``run`` or of a TREC run, or raise UserError."""
    name, path = split_name(argument)
    run = read_run(find_run(path))
    if not (path / CANDIDATE_SCORES).exists():
        coarse = {
            query: dict(sorted(ranked, key=lambda scored: (-scored[1], scored[0]))) for query, ranked in run.items()
        }
        return Ranking(name or path.name.partition(".")[0], path, coarse, {}, run, None)
    job = require_job(path, "retrieval")
    lines = sorted(read_lines(path / CANDIDATE_SCORES, CandidateLine.from_json), key=lambda line: line.coarse_rank)
    by_query: dict[str, dict[str, float]] = {query: {} for query in run}
    for line in lines:
        by_query.setdefault(line.query, {})[line.document] = line.coarse
    gains = {line.score.key: line.score for line in lines if line.score is not None}
    return Ranking(name or job.profile["name"], path, by_query, gains, run, job)


def pool_gains(rankings: Sequence[Ranking]) -> Gains:
    """Return the gains of all results, or raise UserError if they are of different models or of other tokens.

    As in the paper, the results must have scored the same tokens of a query, and agree on their mean log-probability
    without a source.
    """
    scored = [ranking for ranking in rankings if ranking.gains]
    targets: dict[str, tuple[str, float]] = {}
    for ranking in scored:
        if _find_model(ranking) != _find_model(scored[0]):
            what = f"has gains of another language model than {scored[0].path}"
            raise UserError(what, "give results of one model", ranking.path)
        for (query, _), score in ranking.gains.items():
            ids, mean = targets.setdefault(query, (score.target_ids, score.unconditional_mean))
            if score.target_ids != ids or abs(score.unconditional_mean - mean) > MEAN_TOLERANCE:
                what = f"scored other tokens of the query {query!r} than {scored[0].path}, or scored them otherwise"
                raise UserError(what, "give results of one input, profile and engine", ranking.path)
    return {key: score for ranking in reversed(scored) for key, score in ranking.gains.items()}


def _find_model(ranking: Ranking) -> object:
    return None if ranking.job is None else ranking.job.models.get("language_model")


def make_candidates(ranking: Ranking, gains: Gains) -> dict[str, Candidates]:
    """Return the candidates of each query, with gains up to the first one without; there must be one."""
    candidates = {}
    for query, coarse in ranking.coarse.items():
        scored = [gains.get((query, doc_id)) for doc_id in coarse]
        count = scored.index(None) if None in scored else len(scored)
        if scored and not count:
            what = f"the first candidate of the query {query!r} in {ranking.name} has no gains"
            raise UserError(what, "score the missing candidates: see `rest` in docs/studies.md", ranking.path)
        candidates[query] = Candidates(coarse, [score.values for score in scored[:count] if score is not None])
    return candidates


def write_rest(argument: str, scored: Sequence[str], output: Path) -> int:
    """Write a TREC run of the candidates of a row that have gains in none of the results; return their number.

    ``run --candidates`` scores them, so that what two rows have in common is scored once.
    """
    ranking, gains = read_ranking(argument), pool_gains([read_ranking(other) for other in scored])
    rest = {q: [doc_id for doc_id in coarse if (q, doc_id) not in gains] for q, coarse in ranking.coarse.items()}
    write_run(output, rest)
    return sum(map(len, rest.values()))


def write_run(path: Path, orders: Mapping[str, Sequence[str]]) -> None:
    """Write a TREC run, compressed, which gets its name when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    with open_gzip_text(part) as file:
        for query in sorted(orders):
            file.writelines(format_run(query, orders[query], "pan-scdg"))
    part.replace(path)


def make_run(orders: Mapping[str, Sequence[str]]) -> dict[str, list[tuple[str, float]]]:
    """Return documents with whole scores down to 1, so that every evaluator keeps this order."""
    return {
        query: [(doc_id, float(len(order) - i)) for i, doc_id in enumerate(order)] for query, order in orders.items()
    }


def rerank_by(candidates: Mapping[str, Candidates], chosen: Configuration) -> dict[str, list[str]]:
    """Return all documents of each query in the order of one configuration."""
    return {query: _rerank(own, chosen) for query, own in candidates.items()}


def _rerank(candidates: Candidates, chosen: Configuration) -> list[str]:
    n, field = min(chosen.depth, len(candidates.gains)), FEATURES[chosen.feature]
    doc_ids = list(candidates.coarse)
    coarse = list(candidates.coarse.values())[:n]
    order = rerank(doc_ids[:n], coarse, [line[field] for line in candidates.gains[:n]], chosen.weight)
    return [*(doc_id for doc_id, _ in order), *doc_ids[n:]]


def list_configurations() -> list[Configuration]:
    """Return the whole grid, the cheaper first: fewer candidates, smaller weight, then the order of `FEATURES`."""
    return [Configuration(f, depth, weight) for depth in DEPTHS for weight in WEIGHTS for f in FEATURES]


def search_grid(qrels: Qrels, candidates: Mapping[str, Candidates]) -> list[GridRow]:
    """Return every configuration, the best first: by nDCG@10, R@10, R@100, then the order of `list_configurations`.

    Means are over the queries of ``qrels``; a query without candidates or without a relevant document counts 0.
    """
    rows = []
    for chosen in list_configurations():
        values = [_measure(qrels[q], _rerank(candidates[q], chosen) if q in candidates else []) for q in qrels]
        # correctly rounded sums: whether two configurations tie must not depend on the order of the queries
        rows.append(GridRow(chosen, *(math.fsum(column) / len(values) for column in zip(*values))))
    return sorted(rows, key=lambda row: row[1:], reverse=True)


def _measure(grades: Mapping[str, int], order: Sequence[str]) -> tuple[float, float, float]:
    """Return nDCG@10, R@10 and R@100 of one query."""
    gains = {doc_id: 2.0**grade - 1 for doc_id, grade in grades.items() if grade > 0}
    if not gains:
        return 0.0, 0.0, 0.0
    ordered = [gains.get(doc_id, 0.0) for doc_id in order[:100]]
    ideal = _discount(sorted(gains.values(), reverse=True))
    recall, deep_recall = (sum(gain > 0 for gain in ordered[:cut]) / len(gains) for cut in (10, 100))
    return _discount(ordered) / ideal, recall, deep_recall


def _discount(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains[:10], 1))


def choose_configuration(
    name: str, qrels: Qrels, candidates: Mapping[str, Candidates], folds: Mapping[str, QueryFold]
) -> Frozen:
    """Search the grid on the development folds, and evaluate the best configuration there and on the hold-out."""
    parts = {
        role: {q: relevant for q, relevant in qrels.items() if folds[q].role == role}
        for role in ("development", "holdout")
    }
    if min(map(len, parts.values())) < 2:
        raise UserError("the development or the holdout folds have fewer than two judged queries", "give more queries")
    grid = search_grid(parts["development"], candidates)
    coarse = make_run({query: list(own.coarse) for query, own in candidates.items()})
    both = [("coarse", coarse), ("reranked", make_run(rerank_by(candidates, grid[0].configuration)))]
    return Frozen(name, grid, *(compare_rows(judged, both) for judged in parts.values()))


def compare_rows(qrels: Qrels, runs: Sequence[tuple[str, Run]], resamples: int = SWAPS) -> list[RetrievalRow]:
    """Evaluate every run on all queries of ``qrels``, and compare it with the run before; missing queries count 0."""
    if len(qrels) < 2:
        raise UserError(f"{len(qrels)} judged queries are too few to compare rankings", "give qrels of more queries")
    if max(grade for grades in qrels.values() for grade in grades.values()) > LARGEST_GRADE:
        raise UserError(
            f"the qrels contain a grade above {LARGEST_GRADE}", "give those of PAN 2026, with grades 0 to 2"
        )
    rows: list[RetrievalRow] = []
    former: Mapping[str, Mapping[str, float]] = {}
    for name, run in runs:
        computed = compute_per_query(qrels, run)
        values = {metric: computed[name] for metric, name in PAPER_METRICS.items()}
        # correctly rounded sums: no figure may depend on the order of the files
        own = bootstrap_queries(values)
        means = {m: Estimate(math.fsum(by_query.values()) / len(by_query), *own[m]) for m, by_query in values.items()}
        differences = {
            m: {query: values[m][query] - by_query[query] for query in by_query} for m, by_query in former.items()
        }
        intervals = bootstrap_queries(differences)
        above = {}
        for metric, by_query in differences.items():
            column = np.array([by_query[query] for query in sorted(by_query)])
            mean = Estimate(math.fsum(column) / len(column), *intervals[metric])
            above[metric] = mean, run_randomisation_test(column, resamples=resamples)
        rows.append(RetrievalRow(name, means, above))
        former = values
    return rows


def study_retrieval(
    data: Path,
    folds_file: Path,
    rows: Sequence[str],
    more_gains: Sequence[str],
    reranked: Sequence[str],
    search_on: str | None,
    missing: Sequence[str],
    output: Path,
    overwrite: bool,
) -> None:
    """Write the report of the study on ``rows``, each ``[NAME=]PATH`` of a result or a TREC run.

    Rows whose own result has gains are reranked, and those of the names ``reranked``, for which ``more_gains`` are
    results that only add gains. The grid is searched on the row ``search_on``; None: the first that is reranked.
    ``missing`` are names of rows without a result.
    """
    check_output(output, overwrite)
    qrels = read_qrels(find_qrels(data))
    queries = {query.query_id for query in read_queries(data, Notices())}
    if unknown := sorted(qrels.keys() - queries):
        raise UserError(f"the query {unknown[0]!r} is judged, but not in the data", "give the qrels of this data", data)
    folds = read_folds(folds_file, queries)
    rankings = [read_ranking(row) for row in rows]
    names = [ranking.name for ranking in rankings]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"two rows are named {doubled[0]!r}", "give names: NAME=PATH")
    wanted = {*reranked, *([search_on] if search_on else [])}
    if unknown := sorted(wanted - {*names}):
        raise UserError(f"unknown row {unknown[0]!r}", f"choose one of {', '.join(names)}")
    more = [read_ranking(argument) for argument in more_gains]
    gains = pool_gains([*rankings, *more])
    candidates = {row.name: make_candidates(row, gains) for row in rankings if row.gains or row.name in wanted}
    frozen = None
    if candidates:
        name = search_on or next(iter(candidates))
        frozen = choose_configuration(name, qrels, candidates[name], folds)
    runs = dict(list_runs(rankings, candidates, frozen))
    compared = compare_rows(qrels, list(runs.items()))
    counts = [count_data(queries, qrels, rankings)]
    groups = [OURS if strip_row(name) in candidates else BASELINES for name in runs]
    against = "Against the row above, with 95 % bootstrap intervals and p of randomisation tests, not corrected"
    tables = [
        name_missing(make_row_table("rows", f"All rows, means over {len(qrels)} queries", compared, groups), missing),
        *make_tables(compare(LABEL, [beside_row(row) for row in compared], counts)),
        make_difference_table("differences", against, compared),
        make_difference_table("differences-all", "Differences in all measures", compared, METRICS, on_page=False),
    ]
    if seconds := [*list_seconds(rankings)]:
        tables.append(Table("seconds", "Seconds of the stages, as far as one process computed them", seconds))
    warnings = [*warn_about_counts(counts), *warn_about_queries(qrels, rankings)]
    sections = [Section("All rows", warnings, tables)]
    if frozen is not None:
        sections.append(_make_choice_section(frozen))
    computed = describe_scorers((row.name, row.job) for row in (*rankings, *more))
    deviations = [*computed, *_list_deviations(rankings, candidates, frozen)]
    sections.append(Section("Deviations from the paper", deviations))
    described = [{} if row.job is None else replace(row.job, files=None).to_json() for row in rankings]
    jobs = [{"row": row.name, **fields} for row, fields in zip(rankings, described, strict=True)]
    write_report(output, "Retrieval of sources, before and after SCDG", sections, {"results": jobs})
    for number, (name, run) in enumerate(runs.items(), 1):
        orders = {query: [doc_id for doc_id, _ in ranked] for query, ranked in run.items()}
        write_run(output / "runs" / f"{number:02d}-{slugify(name)}.txt.gz", orders)


def warn_about_queries(qrels: Qrels, rankings: Sequence[Ranking]) -> list[str]:
    """Return a warning about each row that lacks judged queries."""
    missing = {ranking.name: len(qrels.keys() - ranking.final.keys()) for ranking in rankings}
    return [
        f"warning: {name}: {count} of {len(qrels)} judged queries are missing and count as 0."
        for name, count in missing.items()
        if count
    ]


def count_data(queries: Set[str], qrels: Qrels, rankings: Sequence[Ranking]) -> Counts:
    """Return the counts of the data; that of the documents is in results, but not in runs from elsewhere."""
    grades = [grade for judged in qrels.values() for grade in judged.values()]
    counts = {"Suspicious queries": len(queries), "All relevance judgments": len(grades)}
    counts |= {f"Grade-{grade} judgments": grades.count(grade) for grade in (1, 2, 3)}
    documents = {row.job.documents for row in rankings if row.job is not None and row.job.documents is not None}
    if documents:
        counts["Candidate source documents"] = max(documents)
    return count_quantities(DATA_COUNTS, counts)


def strip_row(name: str) -> str:
    """Return the name of the first stage of a reranked row."""
    return name.partition(RERANKED)[0]


def beside_row(row: RetrievalRow) -> OwnRow:
    """Return a row with the name of the paper's, which has one reranked row for each first stage."""
    paper = f"{strip_row(row.name)}{RERANKED}" if RERANKED in row.name else row.name
    return OwnRow(row.name, {HEADINGS[metric]: row.metrics[metric] for metric in METRICS}, paper)


def list_seconds(rankings: Sequence[Ranking]) -> Iterator[Row]:
    """Yield the seconds of each stage of the results, from their metadata, with the paper's where it gives some."""
    for ranking in rankings:
        if ranking.job is None or METADATA not in (ranking.job.files or ()):
            continue
        with (ranking.path / METADATA).open(encoding="utf-8") as file:
            seconds = yaml.safe_load(file)["pan_scdg"].get("seconds", {})
        settings = ranking.job.profile["retrieval"]
        used = {"bm25-sentence": settings["bm25"], "dense-sentence": settings.get("dense", {}).get("model", "")}
        for stage, spent in seconds.items():
            paper = read_texts().get(TIMED.get((stage, used.get(stage, "")), ""))
            yield {"Row": ranking.name, "Stage": stage, "Seconds": spent, "Paper": paper}


def list_runs(
    rankings: Sequence[Ranking], candidates: Mapping[str, Mapping[str, Candidates]], frozen: Frozen | None
) -> Iterator[tuple[str, Run]]:
    """Yield the run of each row and, below it, the reranked ones: by the chosen configuration, the paper's, its own."""
    for ranking in rankings:
        name, own = ranking.name, candidates.get(ranking.name)
        if frozen is None or own is None:
            yield name, ranking.final
            continue
        orders = {name: {query: list(candidate.coarse) for query, candidate in own.items()}}
        orders[f"{name}{RERANKED}"] = rerank_by(own, frozen.chosen)
        if frozen.chosen != PAPER:
            orders[f"{name}{RERANKED}, paper's configuration"] = rerank_by(own, PAPER)
        final = {query: [doc_id for doc_id, _ in ranked] for query, ranked in ranking.final.items()}
        if ranking.gains and final not in orders.values():
            orders[f"{name}{RERANKED} as the profile has it"] = final
        yield from ((title, make_run(order)) for title, order in orders.items())


def _make_choice_section(frozen: Frozen) -> Section:
    text = (
        f"{len(frozen.grid)} configurations were compared on the development queries, with the candidates of "
        f"{frozen.searched_on}, by nDCG@10, then R@10, then R@100. Chosen for all rows: {frozen.chosen}."
    )
    columns = ("Place", "Feature", "N", "Weight", "nDCG@10", "R@10", "R@100")
    grid: list[Row] = [
        dict(zip(columns, (place, *row.configuration, *row[1:]), strict=True))
        for place, row in enumerate(frozen.grid, 1)
    ]
    groups = ["development"] * len(frozen.development) + ["hold-out"] * len(frozen.holdout)
    both, caption = [*frozen.development, *frozen.holdout], f"{frozen.searched_on} on development and held-out queries"
    tables = [
        Table("hyperparameters", "Hyperparameters, with the paper's choice", _list_hyperparameters(frozen)),
        make_row_table("folds", caption, both, groups),
        make_difference_table("folds-holdout", "On the hold-out, against the row above", frozen.holdout),
        Table("grid", "The grid on the development queries", grid, on_page=False),
    ]
    return Section("Choice of the configuration", [text], tables=tables)


def _list_hyperparameters(frozen: Frozen) -> list[Row]:
    """Return the rows of the paper's table of hyperparameters that the grid decides."""
    own = dict(zip(("Top-q", "Candidate count N", "Fusion weight"), map(str, frozen.chosen), strict=True))
    return list_hyperparameters({f"PAN26 reranking: {name}": chosen for name, chosen in own.items()})


def _list_deviations(
    rankings: Sequence[Ranking], candidates: Mapping[str, Mapping[str, Candidates]], frozen: Frozen | None
) -> Iterator[str]:
    if others := [ranking.name for ranking in rankings if not ranking.job]:
        yield f"Runs from elsewhere: {', '.join(others)}. Equal scores are in the order of trec_eval."
    if frozen is None:
        return
    yield "The paper names four of nine features, the upper tails; the others are ours."
    yield f"The paper does not say on which first stage it searched: here it is {frozen.searched_on}."
    for name, by_query in candidates.items():
        if partly := [len(own.gains) for own in by_query.values() if len(own.gains) < len(own.coarse)]:
            yield f"{name}: candidates after the first {min(partly)} to {max(partly)} have no gains and stay."
    if frozen.chosen != PAPER:
        yield f"The paper's configuration, {PAPER}, has rows of its own."


def make_row_table(name: str, caption: str, rows: Sequence[RetrievalRow], groups: Sequence[str] = ()) -> Table:
    """Return every row with all measures; ``groups`` are headings, one per row."""
    cells: list[Row] = [{"Row": row.name, **{HEADINGS[m]: row.metrics[m].value for m in METRICS}} for row in rows]
    return Table(name, caption, cells, dict.fromkeys(HEADINGS.values(), max), groups)


def make_difference_table(
    name: str, caption: str, rows: Sequence[RetrievalRow], metrics: Sequence[str] = HEADLINES, on_page: bool = True
) -> Table:
    """Return the differences from the row above, one line per row."""
    lines: list[Row] = []
    for row in rows:
        line: dict[str, Any] = {"Row": row.name}
        for metric in metrics:
            mean, p_value = row.above.get(metric, (None, None))
            line |= {f"{HEADINGS[metric]}, difference": mean, f"{HEADINGS[metric]}, p": p_value}
        lines.append(line)
    return Table(name, caption, lines, on_page=on_page)
