"""A retrieval that has to end in time: a fake clock advances with each source that is scored."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.jobs import rerank, retrieval
from pan_scdg.jobs.rerank import CandidateScorer, SourceTask
from pan_scdg.jobs.result import read_job
from tests.jobs.test_retrieval import DOCUMENTS, run_rows

Run = Callable[..., Any]
LEXICAL = {"retrieval.routes": ["bm25-sentence"], "retrieval.fusion": "none"}


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of a clock that each task advances by a second; bands of two ranks."""
    now, score = [0.0], CandidateScorer.score

    def score_in_a_second(scorer: CandidateScorer, task: SourceTask) -> Any:
        now[0] += 1
        return score(scorer, task)

    monkeypatch.setattr(CandidateScorer, "score", score_in_a_second)
    monkeypatch.setattr(retrieval.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(rerank, "BAND_RANKS", 2)
    monkeypatch.setattr(retrieval, "WRITING_SHARE", 0)
    return now


@pytest.mark.parametrize("tasks", [1, 5, 9])
def test_what_is_not_scored_in_time_keeps_its_coarse_order(
    tasks: int,
    seconds: list[float],
    retrieval_input: Path,
    run: Run,
    profile_with: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PAN_SCDG_METADATA", "1")
    everything = profile_with(LEXICAL | {"retrieval.scored": DOCUMENTS})
    late = run(retrieval_input, tmp_path / "late", "--deadline", tasks / 3600, profile=everything)
    assert late.code == 0
    assert seconds == [tasks], "no task begins after the deadline"
    job = read_job(tmp_path / "late")
    assert job is not None
    ranks = int(job["deadline"].split()[2])
    assert f"warning: the first {ranks} candidates of each query were scored within" in late.err
    assert f"the first {ranks} candidates" in (tmp_path / "late" / "ir-metadata.yml").read_text(encoding="utf-8")
    assert ranks == {1: 0, 5: 0, 9: 2}[tasks]
    changes = {"retrieval.scored": ranks} if ranks else {"retrieval.rerank": False}
    assert run(retrieval_input, tmp_path / "fewer", profile=profile_with(LEXICAL | changes)).code == 0
    assert run_rows(tmp_path / "late") == run_rows(tmp_path / "fewer")


def test_a_killed_run_goes_on_with_a_deadline_and_ends_as_without(
    seconds: list[float],
    retrieval_input: Path,
    run: Run,
    profile_with: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    profile = profile_with(LEXICAL | {"retrieval.scored": DOCUMENTS})
    with monkeypatch.context() as patch:
        clock = retrieval.time.monotonic

        def stop_at_eight() -> float:
            if clock() >= 8:
                raise KeyboardInterrupt
            return clock()

        patch.setattr(retrieval.time, "monotonic", stop_at_eight)
        assert run(retrieval_input, tmp_path / "killed", "--deadline", 1, profile=profile).code == 3
    seconds[0] = 0
    assert run(retrieval_input, tmp_path / "killed", "--deadline", 1, profile=profile).code == 0
    assert run(retrieval_input, tmp_path / "whole", profile=profile).code == 0
    for name in ("run.txt.gz", "scores.jsonl.gz"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert "deadline" not in (read_job(tmp_path / "killed") or {})


def test_pairs_have_no_deadline_except_by_the_variable_of_a_container(
    pairs_input: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = run(pairs_input, tmp_path / "out", "--deadline", 24)
    assert (refused.code, "--deadline needs an input for retrieval" in refused.err) == (2, True)
    monkeypatch.setenv("PAN_SCDG_DEADLINE", "24")
    assert run(pairs_input, tmp_path / "out").code == 0
