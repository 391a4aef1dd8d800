"""``ir-metadata.yml``: what it says, that TIRA takes it, and that no fault of the tracker costs a run anything."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from pan_scdg.jobs.output import metadata as run_metadata
from pan_scdg.jobs.output.directory import OutputDirectory
from pan_scdg.jobs.output.mark import METADATA, read_mark
from pan_scdg.own_files import MARK

Run = Callable[..., Any]
Visible = Callable[[Path], dict[str, bytes]]
Faulty = Callable[..., None]
ROOT = Path(__file__).parents[2]
WARNING = f"warning: no {METADATA}: "
TRACKER = """
import os, time
from enum import Enum
Measure = Enum("Measure", ["OS_NAME", "INVOCATION", "GIT_HASH"])
ExportFormat = Enum("ExportFormat", ["IR_METADATA"])
ALL_MEASURES = set(Measure)
{when_imported}
class tracking:
    def __init__(self, measures, export_file_path, pid, **_):
        assert measures == {{Measure.OS_NAME}} and pid == os.getppid()
        {when_started}
        self.path = export_file_path
    def __enter__(self):
        pass
    def __exit__(self, *_):
        {when_stopped}
        self.path.write_text({exported!r})
"""
EXPORTED = "platform: {operating system: {kernel: none}}\nimplementation: {source: {}}\nresources: {runtime: {}}\n"


@pytest.fixture
def tracker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Faulty:
    """``tracker(imported="raise ...")``: runs are watched by one in the real one's place that does as the code says."""
    monkeypatch.setenv("PAN_SCDG_METADATA", "1")
    for variable, name in (("PYTHONPATH", "fake"), ("TMPDIR", "temporary")):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / name))

    def write(imported: str = "", started: str = "", stopped: str = "", exported: str = EXPORTED) -> None:
        code = {"when_imported": imported, "when_started": started or "pass", "when_stopped": stopped or "pass"}
        (tmp_path / "fake" / "tirex_tracker.py").write_text(TRACKER.format(**code, exported=exported))

    write()
    return write


def document(output: Path) -> Any:
    return yaml.safe_load((output / METADATA).read_text(encoding="ascii"))


def without(found: dict[str, bytes]) -> dict[str, bytes]:
    """The sealed files."""
    return {name: data for name, data in found.items() if name != METADATA}


def test_what_the_real_tracker_and_the_run_tell(
    source: Path,
    run: Run,
    finished: Callable[[Path], Path],
    forwards: list[int],
    visible: Visible,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tira.check_format import FormatMsgType, check_format

    output = tmp_path / "out"
    for name, value in {run_metadata.TEAM: "us", run_metadata.REPOSITORY: "here", "TIRA_DATASET_ID": "small"}.items():
        monkeypatch.setenv(name, value)
    done = run(source, output, "--keep-gains", "--metadata")
    assert (done.code, "no ir-metadata" in done.err) == (0, False)
    found, mark = document(output), read_mark(output)
    assert mark is not None
    assert found["pan_scdg"]["job"] == mark.job
    assert (found["pan_scdg"]["devices"], found["pan_scdg"]["incidents"]) == (["cpu"], [])
    assert 0 < found["pan_scdg"]["tokens"] <= sum(forwards), "what is shared is computed once"
    assert found["method"] == {"name": "SCDG, profile small", "description": "test profile"}
    assert found["tag"] == {"pairs": "small", "retrieval": "pan-scdg"}[mark.job["task"]]
    assert f"torch=={torch.__version__.partition('+')[0]}" in found["implementation"]["python"]["packages"]
    assert found["platform"]["hardware"]["cpu"]["number of cores"] > 0
    assert found["resources"]["ram"]["used process"]["max"] > 0
    text = (output / METADATA).read_text(encoding="ascii")
    assert not [word for word in (str(tmp_path), str(source), "timeseries", "archive") if word in text]
    assert check_format(output, "ir_metadata")[0] == FormatMsgType.OK
    if mark.job["task"] == "retrieval":
        for names in (["run.txt", "ir_metadata"], "run-with-metadata"):
            result = check_format(output, names)
            assert result[0] == FormatMsgType.OK, result[1]
    assert METADATA not in mark.files
    assert without(visible(output)) == visible(finished(source)), "the results do not depend on it"
    assert {p.name for p in output.iterdir() if p.name.startswith(".")} == {MARK}


def test_nobody_and_nothing_is_named_that_is_not_known(
    pairs_input: Path, run: Run, tracker: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIRA_DATASET_ID", "id")
    assert run(pairs_input, tmp_path / "out").code == 0
    found = document(tmp_path / "out")
    assert "actor" not in found
    assert found["implementation"] == {"source": {}}
    assert found["data"] == {"test collection": {"name": f"SHA-256 {found['pan_scdg']['job']['input']}"}}


FAULTS = {
    "import": ({"imported": "raise ImportError('no native library\\x1b')"}, "ImportError: no native library\\x1b"),
    "start": ({"started": "raise PermissionError('/proc')"}, "PermissionError: /proc"),
    "stop": ({"stopped": "raise ValueError('file already exists')"}, "ValueError: file already exists"),
    "nothing exported": ({"stopped": "return"}, "FileNotFoundError"),
    "no yaml": ({"exported": "{"}, "ParserError"),
    "another export": ({"exported": "implementation: {source: {}}\n"}, "no figures"),
    "abort at once": ({"imported": "os.abort()"}, f"the tracker ended with {-signal.SIGABRT}"),
    "abort at the end": ({"stopped": "os.abort()"}, f"the tracker ended with {-signal.SIGABRT}"),
    "exit": ({"stopped": "os._exit(0)"}, "no figures"),
    "hang": ({"stopped": "time.sleep(60)"}, "timed out"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_tracker_costs_one_line(
    fault: str,
    pairs_input: Path,
    run: Run,
    tracker: Faulty,
    finished: Callable[[Path], Path],
    visible: Visible,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code, reason = FAULTS[fault]
    tracker(**code)
    if fault == "hang":
        monkeypatch.setattr(run_metadata, "PATIENCE", 0.5)
        monkeypatch.setattr(run_metadata, "GRACE", 0.1)
    done = run(pairs_input, tmp_path / "out", "--keep-gains")
    warnings = [line for line in done.err.splitlines() if METADATA in line]
    assert (done.code, len(warnings)) == (0, 1)
    assert warnings[0].startswith(WARNING)
    assert reason in warnings[0]
    assert visible(tmp_path / "out") == visible(finished(pairs_input))


def test_a_process_that_cannot_be_started_costs_one_line(
    pairs_input: Path, run: Run, tracker: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_metadata.sys, "executable", str(tmp_path / "none"))
    done = run(pairs_input, tmp_path / "out")
    assert (done.code, done.err.count(WARNING)) == (0, 1)
    assert not (tmp_path / "out" / METADATA).exists()


def test_a_file_that_cannot_be_written_costs_one_line(
    pairs_input: Path, run: Run, tracker: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_metadata, "write_atomically", full)
    done = run(pairs_input, tmp_path / "out")
    assert (done.code, done.err.count(WARNING)) == (0, 1)
    assert not (tmp_path / "out" / METADATA).exists()


@pytest.mark.parametrize("stopped", ["", "raise ValueError('file already exists')", "time.sleep(60)"])
def test_the_end_of_a_run_is_its_own_and_no_tracker_outlives_it(
    stopped: str,
    pairs_input: Path,
    run: Run,
    tracker: Faulty,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = tmp_path / "started"
    tracker(started=f"open({str(started)!r}, 'w').write(str(os.getpid()))", stopped=stopped)
    monkeypatch.setattr(run_metadata, "GRACE", 0.2 if "sleep" in stopped else 10)

    def interrupted(*_: object, **__: object) -> None:
        while not (started.exists() and started.read_text()):
            pass
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pan_scdg.scoring.gain_method.score_pairs", interrupted)
        done = run(pairs_input, tmp_path / "out")
    assert done.code == 3
    assert done.err.endswith("error: stopped; run the same command again to continue\n")
    assert METADATA not in done.err
    assert not list((tmp_path / "out").rglob(METADATA))
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


def test_a_run_that_is_killed_leaves_no_tracker_and_no_folder_of_it(tracker: Faulty, tmp_path: Path) -> None:
    started, ended, temporary = tmp_path / "started", tmp_path / "ended", tmp_path / "temporary"
    tracker(started=f"open({str(started)!r}, 'w')", stopped=f"open({str(ended)!r}, 'w')")
    code = (
        "import os, signal\nfrom pathlib import Path\nfrom pan_scdg.jobs.output.metadata import track_run\n"
        f"with track_run(Path({str(tmp_path)!r}), {{}}, True, None):\n"
        f"    while not Path({str(started)!r}).exists():\n        pass\n"
        f"    assert len(os.listdir({str(temporary)!r})) == 1\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == -signal.SIGKILL
    end = time.monotonic() + 60
    while not ended.exists() or list(temporary.iterdir()):
        assert time.monotonic() < end, "it goes on"
        time.sleep(0.05)


def test_a_finished_output_keeps_its_own_and_overwrite_replaces_or_removes_it(
    pairs_input: Path, run: Run, tracker: Faulty, visible: Visible, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    assert run(pairs_input, output).code == 0
    before = visible(output)
    tracker(exported=EXPORTED.replace("none", "another"))
    assert "already complete" in run(pairs_input, output).err
    assert visible(output) == before
    assert run(pairs_input, output, "--overwrite").code == 0
    assert document(output)["platform"]["operating system"]["kernel"] == "another"
    assert run(pairs_input, output, "--overwrite", "--no-metadata").code == 0
    assert visible(output) == without(before)


def test_what_a_stopped_attempt_left_is_not_that_of_the_next(
    pairs_input: Path, run: Run, tracker: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    output = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(OutputDirectory, "seal", interrupted)
        assert run(pairs_input, output).code == 3
    assert [p.parent.name for p in output.rglob(METADATA)] == ["staged"]
    tracker(stopped="os.abort()")
    assert run(pairs_input, output).code == 0
    assert not list(output.rglob(METADATA))


def test_it_is_published_with_the_results_whenever_a_kill_comes(
    tmp_path: Path, visible: Visible, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.replace
    for moment in range(1, 5):
        output = tmp_path / str(moment)
        begun = OutputDirectory(output, {"task": "test"})
        begun.prepare()
        begun.start()
        for name in ("first", "last", METADATA):
            (begun.staged / name).write_text(name, encoding="utf-8")
        begun.seal(["first", "last"])
        calls: list[Path] = []

        def replace(source: Path, target: Path, calls: list[Path] = calls, moment: int = moment) -> None:
            calls.append(target)
            if len(calls) == moment:
                raise KeyboardInterrupt
            real(source, target)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", replace)
            with pytest.raises(KeyboardInterrupt):
                begun.publish()
        again = OutputDirectory(output, {"task": "test"})
        assert again.prepare() is False
        assert not again.needed
        again.publish()
        assert visible(output) == {name: name.encode() for name in ("first", "last", METADATA)}


def test_one_of_somebody_else_is_refused_and_kept(pairs_input: Path, run: Run, tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.mkdir()
    (output / METADATA).write_text("mine", encoding="utf-8")
    for more in ([], ["--overwrite"]):
        done = run(pairs_input, output, *more)
        assert (done.code, f"'{METADATA}'" in done.err) == (2, True)
    assert (output / METADATA).read_text(encoding="utf-8") == "mine"


def test_what_computes_nothing_starts_no_tracker(
    pairs_input: Path,
    run: Run,
    finished: Callable[[Path], Path],
    tracker: Faulty,
    tmp_path: Path,
) -> None:
    started = tmp_path / "started"
    tracker(imported=f"open({str(started)!r}, 'w')")
    assert run(pairs_input, finished(pairs_input), "--keep-gains").code == 0
    assert run(pairs_input, tmp_path / "out", "--over-long", "error").code == 2
    assert run(pairs_input, tmp_path / "out", "--plan").code == 0
    assert not started.exists()
    assert not list(tmp_path.rglob(METADATA))
    assert run(pairs_input, tmp_path / "out").code == 0
    assert started.exists(), "one that computes starts it"


def test_every_shard_has_its_own_and_what_is_merged_of_them_has_none(
    pairs_input: Path,
    run: Run,
    cli: Run,
    tracker: Faulty,
    tiny_folder: Callable[[str], Path],
    finished: Callable[[Path], Path],
    visible: Visible,
    tmp_path: Path,
) -> None:
    shards = [tmp_path / f"shard-{number}" for number in (1, 2)]
    for number, folder in enumerate(shards, 1):
        assert run(pairs_input, folder, "--shard", f"{number}/2", "--keep-gains").code == 0
        assert document(folder)["pan_scdg"]["job"]["shard"] == [number, 2]
    where = ("--input", pairs_input, "--output", tmp_path / "out", "--model", tiny_folder("qwen2"))
    assert cli("merge", *where, *shards).code == 0
    assert visible(tmp_path / "out") == visible(finished(pairs_input))


def test_compare_takes_no_notice_of_it(
    pairs_input: Path, run: Run, cli: Run, tracker: Faulty, finished: Callable[[Path], Path], tmp_path: Path
) -> None:
    assert run(pairs_input, tmp_path / "out", "--keep-gains").code == 0
    assert (tmp_path / "out" / METADATA).is_file()
    assert cli("compare", tmp_path / "out", finished(pairs_input)).code == 0
