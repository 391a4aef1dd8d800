"""The folder of a result: resumed, locked, replaced as a whole, and never given to another job."""

import errno
import json
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from pan_scdg.commit import find_commit
from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.records import TokenGains
from pan_scdg.results import folder
from pan_scdg.results.folder import (
    ScoreFile,
    WorkFolder,
    list_changed_files,
    open_result,
    read_job,
    require_job,
)
from pan_scdg.results.job import CheckFacts, JobFile
from pan_scdg.results.records import ScoreLine
from pan_scdg.version import __version__

JOB = JobFile(task="pairs", input="1", profile={"name": "p"})


def line(number: int, gains: TokenGains | None = None) -> ScoreLine:
    return ScoreLine(f"s{number}", "r", {"score": 0.5}, gains=gains)


def open_pairs(
    output: Path, job: JobFile = JOB, *, overwrite: bool = False
) -> AbstractContextManager[WorkFolder[ScoreLine] | None]:
    return open_result(output, job, ScoreLine.from_json, overwrite=overwrite)


def read_scores(path: Path) -> ScoreFile[ScoreLine]:
    return ScoreFile(path, ScoreLine.from_json)


def publish(work: WorkFolder[ScoreLine] | None, text: str, name: str = "a.txt") -> None:
    assert work is not None
    (work.staged / name).parent.mkdir(exist_ok=True)
    (work.staged / name).write_text(text)
    work.publish([name])


def test_scores_are_appended_and_read_again(tmp_path: Path) -> None:
    gains = TokenGains(((0, 1), (1, 3)), (0.25, -1.5))
    file = read_scores(tmp_path / "scores.jsonl")
    file.append([line(1), line(2, gains)])
    file.append([line(3)])
    again = read_scores(tmp_path / "scores.jsonl")
    for scores in (file, again):
        assert list(scores) == [("s1", "r"), ("s2", "r"), ("s3", "r")]
        assert scores["s2", "r"] == line(2), "long fields stay in the file"
        assert scores.read_line(("s2", "r")) == line(2, gains)
        assert ("s4", "r") not in scores


@pytest.mark.parametrize("rest", ['{"suspicious": "s3", "sou', '{"suspicious": "s3"}', "{"])
def test_a_last_line_without_end_is_ignored_and_overwritten(tmp_path: Path, rest: str) -> None:
    path = tmp_path / "scores.jsonl"
    read_scores(path).append([line(1)])
    path.write_text(path.read_text() + rest)
    scores = read_scores(path)
    assert list(scores) == [("s1", "r")]
    assert path.read_text().endswith(rest), "what reads a published result changes nothing"
    scores.append([line(3)])
    assert list(read_scores(path)) == [("s1", "r"), ("s3", "r")]


def test_any_other_broken_line_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "scores.jsonl").write_text('{"suspicious": "s1"}\n' + json.dumps(line(2).to_json()) + "\n")
    with pytest.raises(UserError, match=r"scores.jsonl:1: is not a line of scores. Delete the file"):
        read_scores(tmp_path / "scores.jsonl")


def test_a_stopped_run_continues_and_a_complete_one_is_kept(tmp_path: Path) -> None:
    def stop() -> None:
        with open_pairs(tmp_path) as work:
            assert work is not None
            work.scores.append([line(1)])
            (work.staged / "half").write_text("x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert [path.name for path in tmp_path.iterdir()] == [".pan_scdg"]
    with pytest.raises(UserError, match="contains an unfinished result. Finish"):
        require_job(tmp_path)
    with open_pairs(tmp_path) as work:
        assert work is not None
        assert list(work.scores) == [("s1", "r")]
        assert list(work.staged.iterdir()) == []
        publish(work, "one", "folder/a.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "job.json"]
    job = require_job(tmp_path, "pairs")
    assert job.identify() == {**JOB.identify(), "versions": {"pan_scdg": __version__}}
    assert job.files == {"folder/a.txt": hash_text("one")}
    assert job.commit == find_commit()
    with open_pairs(tmp_path) as work:
        assert work is None, "complete"


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (replace(JOB, input="2"), "different input"),
        (replace(JOB, models={"encoder": "e"}), "different models"),
        (replace(JOB, device="cuda"), "different settings"),
        (replace(JOB, task="retrieval"), "different task"),
    ],
)
@pytest.mark.parametrize("complete", [True, False])
def test_no_score_is_given_to_another_job(tmp_path: Path, other: JobFile, message: str, complete: bool) -> None:
    with open_pairs(tmp_path) as work:
        if complete:
            publish(work, "one")
    kind = "a" if complete else "an unfinished"
    with (
        pytest.raises(UserError, match=f"contains {kind} result from another run: {message}"),
        open_pairs(tmp_path, other),
    ):
        pass
    with open_pairs(tmp_path, other, overwrite=True) as work:
        assert work is not None
        assert len(work.scores) == 0
        assert not complete or (tmp_path / "a.txt").read_text() == "one", "kept until the new result is complete"
        publish(work, "two", "b.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.txt", "job.json"]


def test_a_job_is_read_as_it_was_written() -> None:
    facts = CheckFacts(["read"], {"a.pdf": "a scan"}, 3, 0.5)
    whole = replace(
        JOB, task="check", handout="sheet", within_class=True, check=facts, incidents=["a"], files={"a": "1"}
    )
    assert JobFile.from_json(json.loads(json.dumps(whole.to_json()))) == whole
    assert "documents" not in whole.to_json(), "what is unknown is left out"


def test_other_files_and_a_second_run_are_refused(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("of the user")
    with pytest.raises(UserError, match="already contains 'own.txt'"), open_pairs(tmp_path):
        pass
    (tmp_path / "own.txt").unlink()
    with (
        open_pairs(tmp_path),
        pytest.raises(UserError, match="another run is writing this output"),
        open_pairs(tmp_path),
    ):
        pass


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 0, "files": {}}', '{"format": 4}'])
def test_job_of_another_program_is_one_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "job.json").write_text(content)
    with pytest.raises(UserError, match=r"job.json: .*. Delete it and run again"):
        read_job(tmp_path)
    with pytest.raises(UserError, match="contains no result"):
        require_job(tmp_path / "absent")


def test_a_folder_that_only_a_former_result_needed_is_removed(tmp_path: Path) -> None:
    for name in ("texts/sources/a.txt", "b.txt", "b.txt"):
        with open_pairs(tmp_path, replace(JOB, input=name), overwrite=True) as work:
            assert work is not None
            (work.staged / "texts" / "sources").mkdir(parents=True)
            publish(work, "text", name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.txt", "job.json"]


def test_a_changed_or_missing_file_is_named(tmp_path: Path) -> None:
    with open_pairs(tmp_path) as work:
        assert work is not None
        for name in ("a.txt", "b.txt"):
            (work.staged / name).write_text(name)
        work.publish(["a.txt", "b.txt"])
    job = require_job(tmp_path)
    assert list_changed_files(tmp_path, job) == []
    (tmp_path / "a.txt").write_text("A.txt")
    assert list_changed_files(tmp_path, job) == [f"warning: {tmp_path / 'a.txt'}: changed or removed after the run"]
    (tmp_path / "b.txt").unlink()
    assert "a.txt and 1 more: changed" in list_changed_files(tmp_path, job)[0]


def test_all_commits_that_computed_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for commit in ("one", "two", "two"):
        monkeypatch.setattr(folder, "find_commit", lambda commit=commit: commit)
        with suppress(KeyboardInterrupt), open_pairs(tmp_path) as work:
            assert work is not None
            work.scores.append([line(1)])
            raise KeyboardInterrupt
    with open_pairs(tmp_path) as work:
        publish(work, "text")
    assert require_job(tmp_path).commit == "one, two"


@pytest.mark.parametrize(("number", "kept"), [(errno.ENOSPC, True), (errno.ENOENT, False)])
def test_a_full_disk_keeps_a_half_built_index_and_a_refusal_keeps_nothing(
    tmp_path: Path, number: int, kept: bool
) -> None:
    def fail() -> None:
        with open_pairs(tmp_path) as work:
            assert work is not None
            (work.path / "index.part").mkdir()
            raise UserError("cannot be written", "free some space") from OSError(number, "fault")

    with pytest.raises(UserError, match="cannot be written"):
        fail()
    assert (tmp_path / ".pan_scdg" / "index.part").exists() == kept
