"""What somebody planted in an output directory is refused in one line, and nothing outside of it is touched."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.digests import hash_file
from pan_scdg.jobs.output.directory import OutputDirectory
from pan_scdg.jobs.output.mark import read_mark
from pan_scdg.own_files import HIDDEN, MARK
from pan_scdg.scoring.gain_method import score_pairs

Run = Callable[..., Any]
Visible = Callable[[Path], dict[str, bytes]]
ROOT = Path(__file__).parents[2]
SMALL = Path(__file__).parents[1] / "profiles" / "small.toml"
DEEP = 100_000


@pytest.fixture
def out(pairs_input: Path, finished: Callable[[Path], Path], tmp_path: Path) -> Path:
    """A copy of a finished output (made with --keep-gains)."""
    return Path(shutil.copytree(finished(pairs_input), tmp_path / "out"))


@pytest.fixture
def precious(tmp_path: Path) -> Iterator[Path]:
    """A folder elsewhere with a file of the user, which is as before after the test."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine", encoding="utf-8")
    yield folder
    assert {p.name: p.read_text() for p in folder.iterdir()} == {"thesis.txt": "mine"}


def refused(done: Any, *words: str) -> None:
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert "Traceback" not in done.err
    assert all(word in done.err for word in words), done.err


def job_of(finished_output: Path) -> dict[str, Any]:
    mark = read_mark(finished_output)
    assert mark is not None
    return mark.job


def planted(text: str | bytes) -> Callable[[Path], None]:
    def plant(path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    return plant


def folder_at(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.mkdir()


def pipe_at(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def link_at(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


HOSTILE = {
    "no JSON": planted("{"),
    "bytes": planted(b"\xff\x00"),
    "nothing": planted(""),
    "another type": planted("[]"),
    "missing keys": planted('{"job": {}}'),
    "unknown keys": planted('{"job": {}, "files": {"a": "0"}, "more": 1}'),
    "nested": planted('{"job": ' + '{"a": ' * DEEP + "1" + "}" * DEEP + "}"),
    "digits": planted('{"job": {"shard": [1, ' + "9" * 5000 + ']}, "files": {}}'),
    "infinite": planted('{"job": {"threshold": 1e999}, "files": {}}'),
    "a name outside": planted(json.dumps({"job": {}, "files": {"../elsewhere/thesis.txt": "0" * 64}})),
    "an absolute name": planted(json.dumps({"job": {}, "files": {"/elsewhere/thesis.txt": "0" * 64}})),
    "a hidden name": planted(json.dumps({"job": {}, "files": {".bashrc": "0" * 64}})),
    "a long name": planted(json.dumps({"job": {}, "files": {"x" * 600: "0" * 64}})),
    "a name of half a character": planted(json.dumps({"job": {}, "files": {"\ud800": "0" * 64}})),
    "a folder": folder_at,
    "a pipe": pipe_at,
    "an endless link": link_at,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_mark_is_one_line_for_every_command_that_reads_it(
    kind: str, pairs_input: Path, out: Path, run: Run, cli: Run, precious: Path, tmp_path: Path
) -> None:
    HOSTILE[kind](out / MARK)
    refused(run(pairs_input, out, "--keep-gains"), MARK)
    refused(run(pairs_input, out, "--keep-gains", "--overwrite"), MARK)
    refused(cli("evaluate", "--input", pairs_input, "--output", out), MARK)
    refused(cli("compare", out, out), MARK)
    refused(cli("merge", "--input", pairs_input, "--output", tmp_path / "merged", out), MARK)
    assert (out / "decisions.jsonl").is_file()


NO_JOB = [kind for kind in HOSTILE if "name" not in kind and "keys" not in kind]
"""Those that are not even the job of another run."""


@pytest.mark.parametrize(
    ("name", "kind"), [*(("manifest.json", kind) for kind in HOSTILE), *(("job.json", kind) for kind in NO_JOB)]
)
def test_hostile_state_is_one_line(
    name: str, kind: str, pairs_input: Path, run: Run, precious: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    HOSTILE[kind](tmp_path / "out" / HIDDEN / name)
    refused(run(pairs_input, tmp_path / "out"), HIDDEN)


def test_damaged_calibration_in_a_mark_is_one_line(pairs_input: Path, out: Path, cli: Run) -> None:
    mark = json.loads((out / MARK).read_text(encoding="utf-8"))
    mark["job"]["profile"]["pairs"]["calibration"] = {"digest": 1}
    (out / MARK).write_text(json.dumps(mark), encoding="utf-8")
    refused(cli("evaluate", "--input", pairs_input, "--output", out), MARK, "calibration")


def test_link_in_an_output_leads_overwrite_nowhere(pairs_input: Path, out: Path, run: Run, precious: Path) -> None:
    mark = json.loads((out / MARK).read_text(encoding="utf-8"))
    mark["files"]["tables/thesis.txt"] = hash_file(precious / "thesis.txt")
    (out / MARK).write_text(json.dumps(mark), encoding="utf-8")
    (out / "tables").symlink_to(precious)
    refused(run(pairs_input, out, "--keep-gains", "--overwrite"), "tables", "symbolic link")
    refused(run(pairs_input, out, "--keep-gains"), "tables/thesis.txt")


@pytest.mark.parametrize("name", [HIDDEN, f"{HIDDEN}/staged"])
def test_hidden_folder_that_is_a_link_is_refused(
    name: str, pairs_input: Path, run: Run, precious: Path, tmp_path: Path
) -> None:
    link = tmp_path / "out" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(precious)
    refused(run(pairs_input, tmp_path / "out"), name)
    refused(run(pairs_input, tmp_path / "out", "--overwrite"), name)


def test_staged_link_is_not_followed(
    pairs_input: Path, finished: Callable[[Path], Path], run: Run, precious: Path, tmp_path: Path, visible: Visible
) -> None:
    begun = OutputDirectory(tmp_path / "out", job_of(finished(pairs_input)))
    begun.prepare()
    begun.start()
    for name in ("decisions.jsonl", "s1-r1.xml", "gains.jsonl.gz"):
        (begun.staged / name).symlink_to(precious / "thesis.txt")
    assert run(pairs_input, tmp_path / "out", "--keep-gains").code == 0
    assert visible(tmp_path / "out") == visible(finished(pairs_input))


def sealed(output: Path, finished_output: Path) -> OutputDirectory:
    """An output as a run leaves it that is killed between sealing and publishing."""
    begun = OutputDirectory(output, job_of(finished_output))
    begun.prepare()
    begun.start()
    names = [p.name for p in finished_output.iterdir() if p.name != MARK]
    for name in names:
        shutil.copy(finished_output / name, begun.staged / name)
    begun.seal(names)
    return begun


@pytest.mark.parametrize("kind", ["changed", "link", "gone"])
def test_staged_result_that_changed_is_not_published(
    kind: str, pairs_input: Path, finished: Callable[[Path], Path], run: Run, precious: Path, tmp_path: Path
) -> None:
    staged = sealed(tmp_path / "out", finished(pairs_input)).staged / "decisions.jsonl"
    staged.unlink()
    if kind == "changed":
        staged.write_text("{}\n", encoding="utf-8")
    elif kind == "link":
        staged.symlink_to(precious / "thesis.txt")
    refused(run(pairs_input, tmp_path / "out", "--keep-gains"), "decisions.jsonl", "--overwrite")
    assert not list((tmp_path / "out").glob("*.xml")), "nothing is published before all is checked"
    assert run(pairs_input, tmp_path / "out", "--keep-gains", "--overwrite").code == 0


def test_sealed_results_are_published(
    pairs_input: Path, finished: Callable[[Path], Path], run: Run, tmp_path: Path, visible: Visible
) -> None:
    output = tmp_path / "out"
    staged = sealed(output, finished(pairs_input)).staged
    (staged / "s1-r1.xml").rename(output / "s1-r1.xml")
    assert run(pairs_input, output, "--keep-gains").code == 0
    assert visible(output) == visible(finished(pairs_input))


def test_changed_result_is_not_called_complete(pairs_input: Path, out: Path, run: Run, visible: Visible) -> None:
    before = visible(out)
    (out / "decisions.jsonl").write_text("{}\n", encoding="utf-8")
    refused(run(pairs_input, out, "--keep-gains"), "decisions.jsonl was changed since", "--overwrite")
    assert run(pairs_input, out, "--keep-gains", "--overwrite").code == 0
    assert visible(out) == before


def test_output_that_is_a_link_is_the_users_own_choice(
    pairs_input: Path, finished: Callable[[Path], Path], run: Run, tmp_path: Path, visible: Visible
) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    assert run(pairs_input, tmp_path / "out", "--keep-gains").code == 0
    assert visible(tmp_path / "disk") == visible(finished(pairs_input))


def test_staged_files_are_durable_before_the_manifest_that_names_them(
    pairs_input: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    assert run(pairs_input, tmp_path / "out").code == 0
    folder = tmp_path / "out" / HIDDEN
    manifest = synced.index(str(folder / ".manifest.json.part"))
    mark = read_mark(tmp_path / "out")
    assert mark is not None
    assert {str(folder / "staged" / name) for name in mark.files} | {str(folder / "staged")} <= set(synced[:manifest])
    assert str(tmp_path / "out") in synced[manifest : synced.index(str(tmp_path / "out" / f".{MARK}.part"))]


def test_second_run_on_one_output_gets_one_line(
    pairs_input: Path,
    finished: Callable[[Path], Path],
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    visible: Visible,
) -> None:
    output, seconds = tmp_path / "not" / "there" / "yet", []

    def meanwhile(*arguments: Any, **named: Any) -> Any:
        seconds.extend(run(pairs_input, output, "--keep-gains", *more) for more in ([], ["--overwrite"]))
        return score_pairs(*arguments, **named)

    monkeypatch.setattr("pan_scdg.scoring.gain_method.score_pairs", meanwhile)
    assert run(pairs_input, output, "--keep-gains").code == 0
    assert len(seconds) == 2
    for second in seconds:
        refused(second, f"{output}: another run is writing this output; wait for it, or choose another --output")
    assert visible(output) == visible(finished(pairs_input))


def start_another(source: Path, output: Path, model: Path, *more: str) -> subprocess.Popen[str]:
    words = ["run", "--input", source, "--output", output, "--profile", SMALL, "--model", model, "--device", "cpu"]
    command = [sys.executable, "entrypoint.py", *map(str, words), "--keep-gains", *more]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def test_result_that_appears_meanwhile_is_kept(
    pairs_input: Path, out: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system without locks."""
    output = tmp_path / "other"

    def meanwhile(*arguments: Any, **named: Any) -> Any:
        shutil.copytree(out, output, dirs_exist_ok=True)
        (output / "decisions.jsonl").write_text("theirs", encoding="utf-8")
        return score_pairs(*arguments, **named)

    monkeypatch.setattr("pan_scdg.scoring.gain_method.score_pairs", meanwhile)
    done = run(pairs_input, output, "--keep-gains")
    assert (done.code, "another run has finished a result in it" in done.err.splitlines()[-1]) == (2, True)
    assert (output / "decisions.jsonl").read_text(encoding="utf-8") == "theirs"


@pytest.mark.long
def test_two_runs_that_start_together_leave_one_result(
    pairs_input: Path,
    finished: Callable[[Path], Path],
    tiny_folder: Callable[[str], Path],
    tmp_path: Path,
    visible: Visible,
) -> None:
    both = [start_another(pairs_input, tmp_path / "out", tiny_folder("qwen2")) for _ in "ab"]
    said = [process.communicate()[1] for process in both]
    assert sorted(process.returncode for process in both) in ([0, 0], [0, 2]), said
    assert not any("internal error" in text for text in said)
    assert visible(tmp_path / "out") == visible(finished(pairs_input))
