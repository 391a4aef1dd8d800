"""``evaluate`` of several results: one sorted table, the differences of all pairs of results, and CSV files."""

import csv
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf, isfinite, nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pan_scdg.errors import UserError, UserErrors, get_first_line
from pan_scdg.evaluation.pairs import bootstrap_pair_differences, count_outcomes, measure_counts
from pan_scdg.evaluation.plagdet import SUMS, measure_sums
from pan_scdg.evaluation.report import Estimate, format_table
from pan_scdg.evaluation.resampling import Floats, bootstrap_sums, compute_p_values, correct_p_values
from pan_scdg.evaluation.retrieval import RETRIEVAL_METRICS, bootstrap_query_differences
from pan_scdg.jobs.evaluate import Evaluation, evaluate_check, evaluate_output, is_check, read_input_truth

SHOWN_OF_PAIRS = ("plagdet_score", "macro_plagdet", "f1", "precision", "recall", "auroc")
SHOWN = (*SHOWN_OF_PAIRS, *RETRIEVAL_METRICS[:2], "R@10", "R@100", "RR", "AP")
"""Measures in the table of the terminal; the first one that all results have sorts them."""
CSV_FILES = ("table.csv", "differences.csv", "values.csv")
DIFFERENCE_COLUMNS = ("measure", "result", "other", "difference", "low", "high", "p", "p_holm")


class Difference(NamedTuple):
    """The difference of a measure between two results of one input."""

    measure: str
    result: str
    other: str
    estimate: Estimate | float
    """The value of ``result`` minus that of ``other``, with the paired 95 % interval."""
    p: float
    """Two-sided p-value of the paired randomisation test; nan for measures of scores, which have none."""
    p_holm: float
    """Corrected by Holm's method for all pairs of results."""

    def to_json(self) -> dict[str, Any]:
        """Return the difference as a flat record without nan."""
        value = self.estimate if isinstance(self.estimate, Estimate) else Estimate(self.estimate, nan, nan)
        record = {"measure": self.measure, "result": self.result, "other": self.other, "difference": value.value}
        record |= {"low": value.low, "high": value.high, "p": self.p, "p_holm": self.p_holm}
        return {name: None if one != one else one for name, one in record.items()}


@dataclass(frozen=True)
class Comparison:
    """Results of one input, the best first."""

    results: Mapping[str, Evaluation]
    failures: Mapping[str, str]
    """Of the results that cannot be evaluated, by their names."""
    measure: str
    """The measure that sorts."""
    differences: Sequence[Difference]

    def report(self) -> str:
        """Return notes, the table of results, and the differences of the measure that sorts; of one all measures."""
        if len(self.results) == 1 and not self.failures:
            return next(iter(self.results.values())).report()
        shown = [m for m in SHOWN if any(m in result.figures for result in self.results.values())]
        rows: list[dict[str, object]] = []
        for place, (name, result) in enumerate(self.results.items(), 1):
            rows.append({"": place, "result": name, **{m: result.estimates.get(m) for m in shown}})
        rows += [{"": None, "result": name, "not evaluated": reason} for name, reason in self.failures.items()]
        columns = ["", "result", *shown, *(["not evaluated"] if self.failures else [])]
        lines = [f"{name}: {note}" for name, result in self.results.items() for note in result.notes]
        lines += ["", format_table(rows, columns)]
        differences = [d for d in self.differences if d.measure == self.measure]
        if differences:
            lines += [
                f"Differences of {self.measure}, with p-values of paired randomisation tests:",
                "",
                format_table(
                    [{**d._asdict(), "difference": d.estimate, "p (Holm)": d.p_holm} for d in differences],
                    ["result", "other", "difference", "p", "p (Holm)"],
                ),
            ]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object that ``--json`` prints."""
        return {
            "sorted_by": self.measure,
            "results": [{"name": name, **result.to_json()} for name, result in self.results.items()],
            "not_evaluated": [{"name": name, "reason": reason} for name, reason in self.failures.items()],
            "differences": [difference.to_json() for difference in self.differences],
        }

    def write_csv(self, folder: Path) -> list[Path]:
        """Write the whole table, the differences, and the values of all pairs or queries; return the files."""
        folder.mkdir(parents=True, exist_ok=True)
        names = dict.fromkeys(name for result in self.results.values() for name in result.figures)
        table = [
            {"place": place, "result": name, "output": str(result.output), **_flatten(result)}
            for place, (name, result) in enumerate(self.results.items(), 1)
        ]
        table += [{"result": name, "not_evaluated": reason} for name, reason in self.failures.items()]
        columns = ["place", "result", "output", *(f"{name}{end}" for name in names for end in ("", "_low", "_high"))]
        values = [{"result": name, **row} for name, result in self.results.items() for row in _list_values(result)]
        tables = [
            (table, [*columns, "not_evaluated"]),
            ([difference.to_json() for difference in self.differences], DIFFERENCE_COLUMNS),
            (values, list(dict.fromkeys(name for row in values for name in row))),
        ]
        paths = [folder / name for name in CSV_FILES]
        for path, (rows, header) in zip(paths, tables, strict=True):
            with open(path, "w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, header, lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
        return paths


def evaluate_all(directory: Path | None, outputs: Mapping[str, Path], truth: Path | None) -> Comparison:
    """Evaluate results of one input by their names, and the differences of all pairs of them.

    A result that cannot be evaluated is a failure with its reason, the others are computed.

    Raises:
        UserErrors: no result can be evaluated.
        UserError: input or truth are missing or malformed.
    """
    checks = {name for name, output in outputs.items() if is_check(output)}
    known = None if directory is None and len(checks) == len(outputs) else read_input_truth(directory, truth)
    evaluated: dict[str, Evaluation] = {}
    failures: dict[str, UserError] = {}
    for name, output in outputs.items():
        try:
            result = evaluate_check(output, truth) if name in checks else evaluate_output(known, output)
            if evaluated:
                _require_same_items(next(iter(evaluated.items())), result)
            evaluated[name] = result
        except UserError as e:
            failures[name] = e
    if not evaluated:
        raise UserErrors(list(failures.values()))
    measure = _choose_measure(evaluated.values())

    def find_value(item: tuple[str, Evaluation]) -> float:
        value = item[1].figures.get(measure, nan)
        return value if isfinite(value) else -inf

    results = dict(sorted(evaluated.items(), key=find_value, reverse=True))
    reasons = {name: get_first_line(error) for name, error in failures.items()}
    return Comparison(results, reasons, measure, compare_all(results))


def compare_all(results: Mapping[str, Evaluation]) -> list[Difference]:
    """Return the differences of all measures between all pairs of results, p-values corrected for each measure."""
    differences = [
        difference
        for (name, result), (other_name, other) in combinations(results.items(), 2)
        for difference in _compare(name, result, other_name, other)
    ]
    corrected: dict[int, float] = {}
    for measure in dict.fromkeys(d.measure for d in differences):
        places = [place for place, d in enumerate(differences) if d.measure == measure]
        corrected |= dict(zip(places, correct_p_values([differences[place].p for place in places])))
    ordered = [d._replace(p_holm=corrected[place]) for place, d in enumerate(differences)]
    order = {measure: place for place, measure in enumerate(dict.fromkeys(d.measure for d in differences))}
    return sorted(ordered, key=lambda d: order[d.measure])


def _compare(name: str, result: Evaluation, other_name: str, other: Evaluation) -> list[Difference]:
    intervals: dict[str, tuple[float, float]] = {}
    p_values: dict[str, float] = {}
    if result.pairs is not None and other.pairs is not None:
        intervals |= bootstrap_pair_differences(other.pairs, result.pairs)
        p_values |= compute_p_values(count_outcomes(other.pairs), count_outcomes(result.pairs), measure_counts)
    if result.passages is not None and other.passages is not None:
        former, own = _align(other.passages, result.passages)
        intervals |= bootstrap_sums(former, measure_sums, own)
        p_values |= compute_p_values(former, own, measure_sums)
    if result.queries is not None and other.queries is not None:
        intervals |= bootstrap_query_differences(other.queries, result.queries)
        p_values |= _compare_queries(other.queries, result.queries)
    differences = []
    for measure in (m for m in result.figures if m in other.figures):
        value = result.figures[measure] - other.figures[measure]
        estimate = Estimate(value, *intervals[measure]) if measure in intervals else value
        differences.append(Difference(measure, name, other_name, estimate, p_values.get(measure, nan), nan))
    return differences


def _align(first: Mapping[str, Floats], other: Mapping[str, Floats]) -> tuple[Floats, Floats]:
    """Return the numbers of the suspicious documents of both results; one that a result lacks has none."""
    nothing = np.zeros(len(SUMS))
    documents = {**first, **other}
    one, two = (np.stack([sums.get(name, nothing) for name in documents]) for sums in (first, other))
    return one, two


def _compare_queries(
    first: Mapping[str, Mapping[str, float]], other: Mapping[str, Mapping[str, float]]
) -> dict[str, float]:
    """Return the p-value of each measure whose queries are the same in both runs."""
    p_values: dict[str, float] = {}
    for queries in {tuple(sorted(values)) for values in first.values() if values}:
        names = [m for m in first if queries == tuple(sorted(first[m])) == tuple(sorted(other.get(m, ())))]
        one, two = (np.array([[run[m][query] for m in names] for query in queries]) for run in (first, other))
        p_values |= compute_p_values(one, two, _make_means(names, len(queries)))
    return p_values


def _make_means(names: Sequence[str], count: int) -> Callable[[Floats], dict[str, Floats]]:
    return lambda sums: dict(zip(names, sums.T / count, strict=True))


def _require_same_items(first: tuple[str, Evaluation], result: Evaluation) -> None:
    """Raise UserError if a result is about other pairs or queries than the first one."""
    name, one = first
    kind = "pairs" if one.pairs is not None else "queries"
    if _list_items(one) != _list_items(result):
        raise UserError(f"has other {kind} than {name}", f"evaluate results of the same {kind}", result.output)


def _list_items(result: Evaluation) -> Collection[object]:
    """Return the pairs, or the judged queries, that a result is evaluated on."""
    return result.pairs.keys if result.pairs is not None else set((result.queries or {})["AP"])


def _choose_measure(results: Collection[Evaluation]) -> str:
    """Return the first measure in the order of `SHOWN` that is defined for all results, or else for any."""
    defined = [{m for m in SHOWN if isfinite(result.figures.get(m, nan))} for result in results]
    common = set.intersection(*defined) or set.union(*defined)
    return min(common, key=SHOWN.index, default=SHOWN[0])


def _flatten(result: Evaluation) -> dict[str, float]:
    """Return the measures with the ends of their intervals."""
    flat: dict[str, float] = {}
    for name, value in result.figures.items():
        flat |= {name: value}
        if name in result.intervals:
            flat |= {f"{name}_low": result.intervals[name][0], f"{name}_high": result.intervals[name][1]}
    return flat


def _list_values(result: Evaluation) -> list[dict[str, Any]]:
    """Return a row for each pair, or for each query."""
    if result.pairs is not None:
        pairs = result.pairs
        rows: list[dict[str, Any]] = [
            {"suspicious": key[0], "source": key[1], "label": int(label)}
            for key, label in zip(pairs.keys, pairs.labels)
        ]
        if "f1" in result.figures:
            rows = [row | {"decision": int(decision)} for row, decision in zip(rows, pairs.decisions)]
        if "auroc" in result.figures:
            rows = [row | {"score": score} for row, score in zip(rows, pairs.scores)]
        if result.passages_of_pairs is not None:
            columns = measure_sums(result.passages_of_pairs)
            rows = [row | {name: float(columns[name][i]) for name in columns} for i, row in enumerate(rows)]
        return rows
    queries = result.queries or {}
    ids = dict.fromkeys(query for values in queries.values() for query in values)
    return [{"query": query} | {m: values[query] for m, values in queries.items() if query in values} for query in ids]
