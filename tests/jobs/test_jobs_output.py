"""The life of an output directory: finished, refused, redone, and what in it is never touched."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.errors import UserError
from pan_scdg.jobs.output.directory import OutputDirectory
from pan_scdg.jobs.output.mark import read_mark
from pan_scdg.own_files import HIDDEN, MARK
from pan_scdg.scoring.model import ScoringModel

Run = Callable[..., Any]
Visible = Callable[[Path], dict[str, bytes]]
JOB = {"task": "test", "profile": {"q": 2.0}}


@pytest.fixture
def out(pairs_input: Path, finished: Callable[[Path], Path], tmp_path: Path) -> Path:
    """A copy of a finished output (made with --keep-gains)."""
    return Path(shutil.copytree(finished(pairs_input), tmp_path / "out"))


@pytest.fixture
def no_forward(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def forbidden(*_: object) -> None:
        raise AssertionError("no forward pass was expected")

    with monkeypatch.context() as patch:
        patch.setattr(ScoringModel, "engine", property(forbidden))
        yield


def test_finished_output_holds_results_and_mark_alone(out: Path) -> None:
    assert {p.name for p in out.iterdir() if p.name.startswith(".")} == {MARK}
    mark = read_mark(out)
    assert mark is not None
    assert list(mark.files)[-1] == "decisions.jsonl", "the mark of completeness is published last"
    assert set(mark.files) == {p.name for p in out.iterdir()} - {MARK}


def test_finished_output_says_so(pairs_input: Path, out: Path, run: Run, visible: Visible, no_forward: None) -> None:
    before = visible(out)
    result = run(pairs_input, out, "--keep-gains")
    assert (result.code, "already complete" in result.err) == (0, True)
    assert visible(out) == before


def test_overwrite_gives_identical_bytes(
    pairs_input: Path, out: Path, run: Run, visible: Visible, forwards: list[int]
) -> None:
    before = visible(out)
    (out / ".tracking-results.yml").write_text("of a tracker\n", encoding="utf-8")
    assert run(pairs_input, out, "--keep-gains", "--overwrite").code == 0
    assert forwards, "it was computed again"
    assert visible(out) == before
    assert (out / ".tracking-results.yml").read_text(encoding="utf-8") == "of a tracker\n"


def test_result_of_another_profile_or_input_is_refused(
    pairs_input: Path, out: Path, run: Run, profile_with: Callable[..., Path], visible: Visible, tmp_path: Path
) -> None:
    before = visible(out)
    other = Path(shutil.copytree(pairs_input, tmp_path / "other"))
    (other / "susp" / "s1.txt").write_text("Another text about something else entirely.", encoding="utf-8")
    for result in (
        run(pairs_input, out, "--keep-gains", profile=profile_with({"pairs.threshold": 0.6})),
        run(other, out, "--keep-gains"),
        run(pairs_input, out),
    ):
        assert (result.code, result.err.count("\n")) == (2, 1)
        assert "another input, profile or setting" in result.err
        assert "--overwrite" in result.err
    assert visible(out) == before
    assert run(other, out, "--keep-gains", "--overwrite").code == 0
    assert visible(out) != before


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
def test_visible_foreign_entry_is_refused_and_nothing_is_deleted(
    pairs_input: Path, run: Run, tmp_path: Path, overwrite: list[str]
) -> None:
    foreign = tmp_path / "foreign"
    (foreign / "folder").mkdir(parents=True)
    (foreign / "notes.txt").write_text("mine", encoding="utf-8")
    (foreign / "folder" / "deep.txt").write_text("mine too", encoding="utf-8")
    result = run(pairs_input, foreign, *overwrite)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "not empty" in result.err
    assert sorted(p.name for p in foreign.rglob("*")) == ["deep.txt", "folder", "notes.txt"]


def test_overwrite_beside_a_foreign_entry_keeps_the_former_result(
    pairs_input: Path, out: Path, run: Run, visible: Visible
) -> None:
    (out / "notes.txt").write_text("mine", encoding="utf-8")
    before = visible(out)
    result = run(pairs_input, out, "--keep-gains", "--overwrite")
    assert (result.code, "'notes.txt'" in result.err) == (2, True)
    assert visible(out) == before


def test_overwrite_that_is_refused_does_not_cost_the_former_result(
    pairs_input: Path, out: Path, run: Run, visible: Visible
) -> None:
    before = visible(out)
    assert run(pairs_input, out, "--overwrite", "--over-long", "error").code == 2
    assert visible(out) == before
    assert run(pairs_input, out, "--keep-gains").err.startswith("already complete")


def test_missing_result_is_not_called_complete(pairs_input: Path, out: Path, run: Run, visible: Visible) -> None:
    before = visible(out)
    (out / "s1-r1.xml").unlink()
    result = run(pairs_input, out, "--keep-gains")
    assert (result.code, "s1-r1.xml was removed" in result.err) == (2, True)
    assert run(pairs_input, out, "--keep-gains", "--overwrite").code == 0
    assert visible(out) == before


def test_dot_files_of_others_and_our_own_state_are_accepted(
    pairs_input: Path, finished: Callable[[Path], Path], run: Run, visible: Visible, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / ".tracking-results.yml").write_text("of a tracker\n", encoding="utf-8")
    job = json.loads((finished(pairs_input) / MARK).read_text(encoding="utf-8"))["job"]
    begun = OutputDirectory(out, job)
    assert begun.prepare() is False, "as an interrupted run leaves it"
    begun.start()
    assert (out / HIDDEN / "job.json").is_file()
    assert run(pairs_input, out, "--keep-gains").code == 0
    assert visible(out) == visible(finished(pairs_input))
    assert sorted(p.name for p in out.iterdir() if p.name.startswith(".")) == [MARK, ".tracking-results.yml"]


def test_unfinished_state_of_another_job_is_refused(pairs_input: Path, run: Run, tmp_path: Path) -> None:
    begun = OutputDirectory(tmp_path / "out", JOB)
    begun.prepare()
    begun.start()
    result = run(pairs_input, tmp_path / "out")
    assert (result.code, "unfinished state of another" in result.err) == (2, True)
    assert run(pairs_input, tmp_path / "out", "--overwrite").code == 0


def test_output_path_that_is_a_file_is_refused(pairs_input: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file", encoding="utf-8")
    assert run(pairs_input, tmp_path / "out").code == 2
    assert run(pairs_input, tmp_path / "out" / "below").code == 2
    assert (tmp_path / "out").read_text(encoding="utf-8") == "a file"


def test_state_that_cannot_be_made_is_refused_before_the_output(
    pairs_input: Path, run: Run, tmp_path: Path, no_forward: None
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    result = run(pairs_input, tmp_path / "out", "--state", tmp_path / "file" / "state")
    assert (result.code, "--state" in result.err) == (2, True)
    assert not (tmp_path / "out").exists()


def test_results_in_folders_are_published_found_again_and_replaced(tmp_path: Path) -> None:
    output = OutputDirectory(tmp_path / "out", {"a": 1})
    assert not output.prepare()
    output.start()
    (output.staged / "tables" / "deep").mkdir(parents=True)
    for name in ("tables/deep/x.csv", "index.md"):
        (output.staged / name).write_text(name)
    output.seal(["tables/deep/x.csv", "index.md"])
    output.publish()
    assert (output.path / "tables" / "deep" / "x.csv").read_text() == "tables/deep/x.csv"
    assert OutputDirectory(output.path, {"a": 1}).prepare()
    other = OutputDirectory(output.path, {"a": 2})
    (output.path / "tables" / "mine.txt").write_text("")
    with pytest.raises(UserError, match=r"it holds 'tables/mine\.txt'"):
        other.prepare(overwrite=True)
    (output.path / "tables" / "mine.txt").unlink()
    assert not other.prepare(overwrite=True)
    other.start()
    assert [p.name for p in output.path.iterdir()] == [".pan_scdg"]
