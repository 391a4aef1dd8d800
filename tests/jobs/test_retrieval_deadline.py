"""A run that has to end in time: a fake clock advances with each source or batch that is scored."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.jobs import pipeline, rerank, runner
from pan_scdg.jobs.pipeline import LATE
from pan_scdg.jobs.rerank import CandidateScorer, SourceTask
from pan_scdg.jobs.worker import PairWorker
from pan_scdg.models.encoder import Encoder
from pan_scdg.report.pages import make_page
from pan_scdg.results.folder import read_job
from pan_scdg.retrieval import candidates, dense
from tests.decisions import list_sentences
from tests.jobs.conftest import PAIRS
from tests.jobs.test_retrieval import DOCUMENTS, run_rows

Run = Callable[..., Any]
LEXICAL = {"retrieval.routes": ["bm25-sentence"], "retrieval.fusion": "none"}


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of a clock that each task advances by a second; bands of two ranks."""
    now, score = [0.0], CandidateScorer.compute

    def score_in_a_second(scorer: CandidateScorer, task: SourceTask, inputs: Any) -> Any:
        now[0] += 1
        return score(scorer, task, inputs)

    monkeypatch.setattr(CandidateScorer, "compute", score_in_a_second)
    monkeypatch.setattr(runner.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(rerank, "BAND_RANKS", 2)
    monkeypatch.setattr(runner, "WRITING_SHARE", 0)
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
    ranks = int(job.deadline.split()[2])
    assert f"warning: the first {ranks} candidates of each query were scored within" in late.err
    assert f"the first {ranks} candidates" in (tmp_path / "late" / "ir-metadata.yml").read_text(encoding="utf-8")
    assert ranks == {1: 0, 5: 0, 9: 2}[tasks]
    changes = {"retrieval.scored": ranks} if ranks else {"retrieval.rerank": False}
    assert run(retrieval_input, tmp_path / "fewer", profile=profile_with(LEXICAL | changes)).code == 0
    assert run_rows(tmp_path / "late") == run_rows(tmp_path / "fewer")


@pytest.fixture
def encoding_seconds(seconds: list[float], monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of each batch of the encoder: 8 make the index, and each of three texts needs two to be searched."""
    compute, taken = Encoder.compute, [1.0]

    def encode(encoder: Encoder, tokenised: Any) -> Any:
        seconds[0] += taken[0]
        return compute(encoder, tokenised)

    monkeypatch.setattr(Encoder, "compute", encode)
    monkeypatch.setattr(dense, "GROUP_DOCUMENTS", 4)
    monkeypatch.setattr(candidates, "GROUP_QUERIES", 1)
    return taken


@pytest.mark.usefixtures("encoding_seconds")
@pytest.mark.parametrize(
    ("deadline", "limited", "ranks"),
    [
        (0, 4, 0),
        (1, 4, 0),  # the chunks
        (6, 4, 0),  # the abstracts
        (11, 2, 0),  # the second text, which two queries do not have
        (15, 1, 0),  # the third text
        (18, 0, 0),  # the queries alone
        (22, 0, 2),  # the candidates
        (60, 0, None),
    ],
)
def test_a_deadline_in_each_stage_gives_a_complete_result(
    deadline: int, limited: int, ranks: int | None, retrieval_input: Path, run: Run, tmp_path: Path
) -> None:
    assert run(retrieval_input, tmp_path / "out", "--deadline", max(deadline, 1e-9) / 3600).code == 0
    job, rows = read_job(tmp_path / "out"), run_rows(tmp_path / "out")
    assert job is not None
    assert (len(job.searched_by_words), job.scored_ranks) == (limited, ranks)
    assert {row[0] for row in rows} == {"q01", "q02", "q03", "again"}
    assert ("for lack of time" in job.deadline) == bool(limited)


@pytest.mark.parametrize("routes", [["bm25-sentence", "dense-sentence", "abstract"], ["dense-full"]])
def test_an_index_that_is_late_leaves_the_result_of_bm25(
    routes: list[str],
    encoding_seconds: list[float],
    retrieval_input: Path,
    run: Run,
    profile_with: Callable[..., Path],
    tmp_path: Path,
) -> None:
    encoding_seconds[0] = 1000.0
    profile = profile_with({"retrieval.routes": routes, "retrieval.fusion": "daac" if len(routes) > 1 else "none"})
    late = run(retrieval_input, tmp_path / "late", "--deadline", 1, profile=profile)
    assert late.code == 0
    assert "warning: for lack of time 4 queries had a first stage of BM25 alone" in late.err
    assert run(retrieval_input, tmp_path / "words", profile=profile_with(LEXICAL)).code == 0
    assert run_rows(tmp_path / "late") == run_rows(tmp_path / "words")


def test_an_index_that_cannot_end_in_its_share_is_left_out_at_once_and_the_hours_go_to_scores(
    encoding_seconds: list[float],
    seconds: list[float],
    retrieval_input: Path,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The chunks are 14 groups of an hour; two show that all of them take longer than three quarters of 12 hours."""
    monkeypatch.setattr(dense, "GROUP_DOCUMENTS", 1)
    encoding_seconds[0] = 3600.0
    late = run(retrieval_input, tmp_path / "late", "--deadline", 12)
    assert late.code == 0
    assert "warning: indexing the chunks would take until hour 14 of 9: it is left out" in late.err
    assert seconds[0] < 3 * 3600
    job = read_job(tmp_path / "late")
    assert job is not None
    assert len(job.searched_by_words) == 4
    assert job.scored_ranks is None, "all candidates are scored"


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
        read_time = runner.time.monotonic

        def stop_at_eight() -> float:
            if read_time() >= 8:
                raise KeyboardInterrupt
            return read_time()

        patch.setattr(runner.time, "monotonic", stop_at_eight)
        assert run(retrieval_input, tmp_path / "killed", "--deadline", 1, profile=profile).code == 3
    seconds[0] = 0
    assert run(retrieval_input, tmp_path / "killed", "--deadline", 1, profile=profile).code == 0
    assert run(retrieval_input, tmp_path / "whole", profile=profile).code == 0
    for name in ("run.txt.gz", "scores.jsonl.gz"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert (killed := read_job(tmp_path / "killed")) is None or not killed.deadline


@pytest.mark.parametrize("batches", [1, 4, 99])
def test_pairs_that_are_not_scored_in_time_are_decided_negative(
    batches: int, pairs_input: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, score = [0.0], PairWorker.score

    def score_in_a_second(worker: PairWorker, task: Any) -> Any:
        now[0] += 1
        return score(worker, task)

    monkeypatch.setattr(PairWorker, "score", score_in_a_second)
    monkeypatch.setattr(runner.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(pipeline, "BATCH_CHARACTERS", 1)
    assert run(pairs_input, tmp_path / "out", "--deadline", batches / 3600).code == 0
    lines = (tmp_path / "out" / "decisions.jsonl").read_text(encoding="utf-8").splitlines()
    late = [
        line for line in map(json.loads, lines) if list_sentences(line) == [f"not scored, decided negative: {LATE}"]
    ]
    assert len(list((tmp_path / "out").glob("*.xml"))) == len(lines) == len(PAIRS)
    assert len(late) == len(PAIRS) - min(batches, len(PAIRS))
    assert not any(line["decision"] for line in late)
    job = read_job(tmp_path / "out")
    assert job is not None
    assert job.deadline.startswith(f"{len(late)} pairs not scored within" if late else "")
    again = run(pairs_input, tmp_path / "out")
    assert (again.code, f"{job.deadline}: repeat with --overwrite" in again.err) == (0, bool(late))
    page = make_page(tmp_path / "out", pairs_input).read_text(encoding="utf-8")
    assert ("pairs not scored within" in page) == bool(late)
