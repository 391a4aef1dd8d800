"""The paper beside us: its figures are those of its source, and each verdict is given for its reason."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pan_scdg.evaluation.report import Estimate
from pan_scdg.profile import read_toml
from studies.__main__ import main
from studies.beside import DIFFERS, FIGURES, OTHER_COUNTS, REPRODUCED, Counts, OwnRow, compare, make_tables
from studies.results import read_manifest
from studies.splits import format_split, make_splits
from studies.tables import Percent, Table, format_markdown
from tests.studies.made_results import read_tables, write_manifest, write_result

SOURCE = Path(__file__).parents[3] / "shared" / "paper.tex"
PAPER = read_toml(FIGURES).unwrap()
TABLES = {table["label"]: table for table in PAPER["table"]}
WITHOUT_FIGURES = {
    *("tab:supp-claim-status", "tab:supp-claim-experiment-map", "tab:supp-scdg-backends"),
    *("tab:supp-computing-environment", "tab:supp-resource-allocation"),
}
F1S, RATES = (0.5, 0.7, 0.50001, 0.1), (0.2, 0.01, 0.02, float("nan"))
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
MARKS = re.compile(r"\\(?:textbf|textit|emph|underline|path|texttt)\{([^{}]*)\}")
STACK = re.compile(r"\\shortstack(?:\[l\])?\{(.*?)\}(?=\s*(?:&|\\\\))", re.S)
LAYOUT = re.compile(
    r"\\multicolumn\{\d\}\{[^&]*?\}\{|\\multirow\{\d\}\{\*\}|\\hspace\{[^}]*\}|\\addlinespace|\\\w*rule"
    r"|\\quad|\[-?[\d.]+pt\]|[{}$]|\\(?=[%{}])"
)


@pytest.fixture(scope="module")
def source() -> str:
    if not SOURCE.is_file():
        pytest.skip(f"the source of the paper is not here: {SOURCE}")
    return SOURCE.read_text(encoding="utf-8")


def read_rows(source: str, label: str) -> list[list[str]]:
    """The cells of the rows below the head of a table."""
    at = source.index(f"\\label{{{label}}}")
    start = source.rindex("\\begin{tabular", 0, at)
    body = source[start : source.index("\\end{tabular", start)].partition("\\midrule")[2]
    body = STACK.sub(lambda stack: stack[1].replace(r"\\", " "), body)
    body = LAYOUT.sub("", MARKS.sub(r"\1", MARKS.sub(r"\1", body.replace(r"\&", "and"))))
    rows = [[" ".join(cell.split()) for cell in row.split("&")] for row in body.split(r"\\")]
    return [row for row in rows if any(NUMBER.search(cell) for cell in row[1:])]


def list_numbers(value: Any) -> list[float]:
    """The numbers of a figure of the data file, or of a cell of the source."""
    if isinstance(value, list):
        return [number for one in value for number in list_numbers(one)]
    return [float(n.replace(",", "")) for n in NUMBER.findall(value)] if isinstance(value, str) else [float(value)]


def plain(text: str) -> str:
    return text.replace("&", "and").replace(" ", "").replace(":", "")


@pytest.mark.parametrize("label", [label for label in TABLES if label.startswith("tab:")])
def test_every_number_of_a_table_is_the_paper_s(source: str, label: str) -> None:
    for row, cells in zip(TABLES[label]["rows"], read_rows(source, label), strict=True):
        name = plain(row.get("paper", row["row"]))
        (first, *_) = [n for n in range(len(cells) + 1) if name in (plain("".join(cells[:n])), plain(cells[n - 1]))]
        numbers = [
            list_numbers(cell.replace("0,", "0 ").replace("[", " ") if "[0." in cell else cell)
            for cell in cells[first:]
        ]
        assert [n for own in numbers for n in own] == list_numbers(row["figures"]), row["row"]


def test_no_table_and_no_figure_of_the_text_is_left_out(source: str) -> None:
    labels = set(re.findall(r"\\label\{(tab:[^}]+)\}", source))
    assert labels == {label for label in TABLES if label.startswith("tab:")} | WITHOUT_FIGURES
    flat = " ".join(source.split())
    for text in PAPER["text"]:
        assert text["printed"] in flat
        assert list_numbers(text["printed"])[0] == text["value"]
    end = source.index("\\label{eq:supp-retention-manifest-size}")
    equation = source[source.rindex("\\begin{equation}", 0, end) : end].replace("{,}", ",")
    assert list_numbers(equation) == list_numbers(
        [row["figures"] for row in TABLES["eq:supp-retention-manifest-size"]["rows"]]
    )
    assert "The experiment uses 20 fixed" in flat


def test_a_figure_is_reproduced_if_the_paper_s_is_in_our_interval() -> None:
    counts = [Counts("tab:supp-pan26-folds", {"Fold 0": {"Queries": 40}})]
    rows = [
        OwnRow("BM25 pair score", {"Prec.": Estimate(0.7, 0.6, 0.76186), "Pos. rate": Estimate(0.7, 0.69, 0.7112)}),
        OwnRow("Average SCDG", {"Prec.": Estimate(0.95, 0.94, 0.96), "Rec.": 0.8}),
        OwnRow("Average SCDG, other", {"Prec.": Estimate(0.95, 0.9401, 0.96)}, "Average SCDG"),
        OwnRow("Ours", {"Prec.": Estimate(0.9, 0.8, 1.0)}),
    ]
    lines = compare("tab:supp-pan25-multinews-tradeoff", rows, counts)
    verdicts, comparison = make_tables(lines)
    assert [(row["Row"], row["Verdict"]) for row in verdicts.rows] == [
        ("BM25 pair score", f"{DIFFERS}: Pos. rate"),  # 0.7619 may be 0.76185
        ("Average SCDG", REPRODUCED),
        ("Average SCDG, other", f"{DIFFERS}: Prec."),
        ("Ours", "not comparable: no such row in the paper"),
    ]
    assert comparison.rows[1]["Paper"] == Percent(pytest.approx(0.71125))
    assert comparison.rows[0]["Difference"] == pytest.approx(0.7 - 0.7619)
    assert comparison.rows[3]["Verdict"] is None
    others = [Counts("tab:supp-pan26-folds", {"Fold 0": {"Queries": 40}, "Fold 2": {"Queries": 40}})]
    assert others[0].list_others() == ["Fold 2 40, in the paper 41"]
    lines = compare("tab:supp-pan25-multinews-tradeoff", rows[:1], others)
    assert {line["Verdict"] for line in lines} == {OTHER_COUNTS}


def test_the_best_is_bold_and_the_second_best_underlined_with_its_ties() -> None:
    rows = [{"Row": str(i), "F1": f1, "FPR": Percent(rate)} for i, (f1, rate) in enumerate(zip(F1S, RATES))]
    lines = format_markdown(Table("t", "", rows, {"F1": max, "FPR": min})).splitlines()[2:]
    assert [line.split(" | ")[1] for line in lines] == [
        "<ins>0.5000</ins>",
        "**0.7000**",
        "<ins>0.5000</ins>",
        "0.1000",
    ]
    assert [line.split(" | ")[2] for line in lines] == ["20.0000% |", "**1.0000%** |", "<ins>2.0000%</ins> |", "- |"]


def test_made_up_scores_show_all_verdicts(tmp_path: Path) -> None:
    """6,791 pairs whose 20 splits have the paper's counts; answers at random, and a BM25 that is too good."""
    labels = {(f"s{i}", f"r{i}"): 1 for i in range(4777)}
    labels |= {(f"n{i}", f"m{i // 2 if i < 16 else i}"): 0 for i in range(2014)}
    pairs = read_manifest(write_manifest(tmp_path / "pan25" / "manifest.jsonl", labels))
    (tmp_path / "pan25" / "splits").mkdir()
    for split in make_splits(pairs):
        (tmp_path / "pan25" / "splits" / f"{split.name}.csv").write_text(format_split(split, pairs))
    rng = np.random.default_rng(1)
    answers = {
        pair: {"score": float(rng.choice([0.8, 1.0], p=[0.48 - 0.04 * y, 0.52 + 0.04 * y]))}
        for pair, y in labels.items()
    }
    good = {pair: {"score": float(rng.normal(3 * y))} for pair, y in labels.items()}
    prompts = write_result(tmp_path / "few-cot", "pan25-plagbench-few-cot", answers)
    bm25 = write_result(tmp_path / "bm25", "pan25-bm25", good)
    argv = ["pairs", "--prepared", tmp_path, "--output", tmp_path / "all", prompts, bm25]
    assert main(list(map(str, argv))) == 0
    verdicts = {row["Row"]: row["Verdict"] for row in read_tables(tmp_path / "all")["verdicts"]}
    assert verdicts["PlagBench few-shot (CoT)"] == REPRODUCED
    assert verdicts["BM25 pair score"].startswith(f"{DIFFERS}: Prec., ")
    page = (tmp_path / "all" / "index.md").read_text()
    assert "| Row | Measure | Paper | Here | Difference | Interval | Verdict |" in page
    assert "warning" not in page
    (line,) = (
        row
        for row in read_tables(tmp_path / "all")["comparison"]
        if row["Row"].endswith("(CoT)") and row["Measure"] == "AP"
    )
    splits = [row["AP"] for row in read_tables(tmp_path / "all")["per-split"] if row["Method"].endswith("(CoT)")]
    assert line["Paper"] == 0.7111
    assert line["Here"] == pytest.approx(np.median(splits))
    assert [line["Interval"]["low"], line["Interval"]["high"]] == pytest.approx(np.percentile(splits, [2.5, 97.5]))

    fewer = write_result(tmp_path / "fewer", "pan25-bm25", dict(list(good.items())[1:]))
    argv = ["pairs", "--prepared", tmp_path, "--output", tmp_path / "part", prompts, fewer]
    assert main(list(map(str, argv))) == 0
    assert {row["Verdict"] for row in read_tables(tmp_path / "part")["verdicts"]} == {OTHER_COUNTS}
    page = (tmp_path / "part" / "index.md").read_text()
    assert page.count("- warning: other counts than the paper's: ") == 1
    assert "All (Total) 6,790, in the paper 6,791" in page
