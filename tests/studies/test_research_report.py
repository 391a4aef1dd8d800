"""Reports: tables in three forms that nothing in a name can break, and a folder whose bytes follow from its tables."""

import csv
import io
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.digests import hash_file
from pan_scdg.evaluation.report import Estimate
from studies.report.page import Section, format_page, write_report
from studies.report.table import (
    Percent,
    escape_markdown,
    format_latex,
    format_markdown,
    format_table_csv,
    make_table,
)

NAMES = ("Method", "F1", "FPR", "Rate", "Difference", "group")
ROWS = (
    ("BM25 & co", 0.5, np.float64(0.25), Percent(0.71125), None, "Simple"),
    ("n_grams", 0.1 + 0.2, 0.24999999, Percent(1.0), Estimate(-0.5, -1.0, 0.25), "Simple"),
    ("Top-q", math.nan, 0.5, None, None, "SCDG"),
)
TABLE = make_table("medians", "Medians", [dict(zip(NAMES, row)) for row in ROWS], {"F1": "high", "FPR": "low"})


def test_markdown_shows_four_decimals_groups_and_the_best() -> None:
    assert format_markdown(TABLE).splitlines() == [
        r"| Method | F1 | FPR | Rate | Difference |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| **Simple** |  |  |  |  |",
        r"| BM25 &amp; co | **0.5000** | **0.2500** | 71.1250% | - |",
        r"| n\_grams | 0.3000 | **0.2500** | 100.0000% | -0.5000 \[-1.0000, 0.2500\] |",
        "| **SCDG** |  |  |  |  |",
        "| Top-q | - | 0.5000 | - | - |",
    ]


def test_csv_has_all_digits() -> None:
    rows = list(csv.reader(io.StringIO(format_table_csv(TABLE))))
    assert rows[0] == ["group", "Method", "F1", "FPR", "Rate", "Difference", "Difference low", "Difference high"]
    assert rows[2] == ["Simple", "n_grams", "0.30000000000000004", "0.24999999", "1.0", "-0.5", "-1.0", "0.25"]
    assert rows[3] == ["SCDG", "Top-q", "", "0.5", "", "", "", ""]


def test_latex_has_booktabs_and_no_bare_specials() -> None:
    lines = format_latex(TABLE).splitlines()
    assert lines[1:4] == [
        r"\begin{tabular}{@{}lrrrr@{}}",
        r"\toprule",
        r"Method & F1 & FPR$\downarrow$ & Rate & Difference \\",
    ]
    assert r"\multicolumn{5}{@{}l}{\textbf{Simple}} \\" in lines
    assert r"BM25 \& co & \textbf{0.5000} & \textbf{0.2500} & 71.1250\% & - \\" in lines
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=20))
def test_no_text_breaks_out_of_its_cell(text: str) -> None:
    table = make_table("x", "x", [{"Id": text, "N": 1}])
    in_markdown = format_markdown(table).split("\n")
    assert len(in_markdown) == 4
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", in_markdown[2])) == 3
    assert "<" not in in_markdown[2]
    assert format_table_csv(table).isascii()
    assert format_latex(table).isascii()
    (read,) = list(csv.reader(io.StringIO(format_table_csv(table))))[1:]
    assert len(read) == 2
    assert not read[0].startswith(("=", "+", "-", "@", "\t", "\r"))
    (body,) = [line for line in format_latex(table).splitlines() if line.endswith(r"& 1 \\")]
    bare = re.sub(r"\\(texttt\{\\char34\}|text[a-z]+\{\}|[{}$&#%_])|\{[\[*]\}", "", body.removesuffix(r" & 1 \\"))
    assert not set(bare) & set('\\{}$&#%_^~[*"')


@pytest.mark.parametrize("text", ["=1+1", "+1", "-cmd|' /C calc'!A0", "@SUM(A1)"])
def test_a_formula_is_a_text(text: str) -> None:
    table = make_table("x", "x", [{"Id": text}])
    assert list(csv.reader(io.StringIO(format_table_csv(table))))[1] == [f"'{text}"]


def test_shares_are_bold_by_what_is_shown() -> None:
    rows = [{"M": name, "Rate": Percent(share)} for name, share in (("a", 0.25), ("b", 0.2500000001), ("c", math.nan))]
    text = format_markdown(make_table("x", "x", rows, {"Rate": "low"}))
    assert "| a | **25.0000%** |\n| b | **25.0000%** |\n| c | - |" in text


def test_the_folder_holds_the_page_all_tables_and_a_manifest_of_digests(tmp_path: Path) -> None:
    for folder in (tmp_path / "a", tmp_path / "b"):
        (folder / "scores").mkdir(parents=True)
        (folder / "scores" / "m.jsonl.gz").write_bytes(b"x")
        section = Section("Results", ["see <b>"], ["a * b"], [TABLE], [make_table("long", "Long", [], columns=("a",))])
        names = write_report(folder, "Pairs", [section], ["scores/m.jsonl.gz"], {"study": "pairs"})
    assert names[-1] == "index.md"
    assert len(names) == 1 + 6 + 2
    assert {n: (tmp_path / "a" / n).read_bytes() for n in names} == {
        n: (tmp_path / "b" / n).read_bytes() for n in names
    }
    manifest = json.loads((tmp_path / "a" / "manifest.json").read_text())
    assert manifest["study"] == "pairs"
    assert manifest["versions"]["numpy"] == np.__version__
    assert manifest["files"] == {n: hash_file(tmp_path / "a" / n) for n in names if n != "manifest.json"}
    text = (tmp_path / "a" / "index.md").read_text()
    assert format_markdown(TABLE).strip() in text
    assert "[csv](tables/long.csv)" in text
    assert "see &lt;b&gt;" in text
    assert "[scores](scores): 1 file" in text
    assert all((tmp_path / "a" / link).exists() for link in re.findall(r"\]\(([^)]+)\)", text))


def test_a_page_shows_figures_once(tmp_path: Path) -> None:
    text = format_page("x", [Section("y", figures=["figures/a.png"])], ["figures/a.png", "figures/b.svg"])
    assert text.count("figures/a.png") == 2  # its name and its place
    assert "[figures](figures): 2 files" in text
    assert escape_markdown("[a](b)") == r"\[a\](b)"
