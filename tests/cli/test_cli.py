"""The command line: help, exit codes, what is printed, and TIRA's variables."""

import errno
import io
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from shutil import which

import click
import pytest
import tomlkit
from click.shell_completion import ShellComplete

from pan_scdg import __version__
from pan_scdg.cli import cli, run_command
from pan_scdg.cli.exits import find_arguments
from pan_scdg.cli.start import MAIN_PROFILES
from pan_scdg.documents.reader import CONVERTERS
from pan_scdg.errors import UserError
from pan_scdg.profile import list_profiles
from pan_scdg.results import files

ROOT = Path(__file__).parents[2]
PROFILE = Path(__file__).parents[1] / "profiles" / "small.toml"
HEAVY = (
    "torch",
    "transformers",
    "sentence_transformers",
    "sklearn",
    "scipy",
    "numpy",
    "ir_measures",
    "pyterrier",
    "tira",
    "pydantic",
    "lxml",
)
COMMANDS = cli.list_commands(click.Context(cli))
SENTENCE = "the tide turned before noon and the nets came up empty again while nobody on the quay said a word"

Small = Callable[..., int]


def _text(seed: int, words: int = 60) -> str:
    known = SENTENCE.split()
    return " ".join(known[(seed * 7 + i * (seed + 3)) % len(known)] for i in range(words)).capitalize() + ".\n"


def _pairs(folder: Path, count: int, words: int = 60) -> Path:
    for side, letter in (("susp", "s"), ("src", "r")):
        (folder / side).mkdir(parents=True)
        for i in range(count):
            (folder / side / f"{letter}{i}.txt").write_text(_text(i + 5 * (side == "src"), words))
    (folder / "pairs").write_text("".join(f"s{i}.txt r{i}.txt\n" for i in range(count)))
    return folder


@pytest.fixture
def small(tiny_folder: Callable[[str], Path]) -> Small:
    """Call the command line in this process with the test profile and a tiny checkpoint; returns the exit code."""

    def call(command: str, *arguments: object) -> int:
        settings = ["--profile", PROFILE, "--model", tiny_folder("qwen2"), "--device", "cpu"]
        return run_command([command, *map(str, (*arguments, *settings))])

    return call


@pytest.mark.parametrize("arguments", [[], *([name] for name in COMMANDS)], ids=lambda a: " ".join(a) or "top")
def test_help_works_and_holds_an_example(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([*arguments, "--help"]) == 0
    text = capsys.readouterr().out
    assert re.search(rf"Example:\s(.*\n)*\s+pan-scdg {' '.join(arguments)}\b", text), text
    assert max(map(len, text.splitlines())) <= 110
    assert not re.search(r"^  \[?[A-Z]+\]?$", text, re.MULTILINE), "an argument without a word about it"


def test_the_help_of_check_names_its_files_and_the_formats_of_the_extra(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["check", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    named = re.findall(r"[\w-]+\.(?:html|csv|jsonl)\b", text.partition("The output has")[2].partition("Example:")[0])
    assert len(named) == 5
    assert set(named) <= {value for value in vars(files).values() if isinstance(value, str)}
    extras = tomlkit.parse((ROOT / "pyproject.toml").read_text()).unwrap()["project"]["optional-dependencies"]
    kinds = [kind for kind, package in CONVERTERS.items() if any(e.startswith(package) for e in extras["documents"])]
    assert f'with the extra "documents" also {" and ".join(kinds)}.' in text


def test_help_imports_nothing_heavy() -> None:
    names = " ".join(["", *COMMANDS])
    code = f"""
import sys
from pan_scdg.cli import run_command
assert [run_command(f"{{name}} --help".split()) for name in {names!r}.split(" ")] == [0] * {1 + len(COMMANDS)}
assert run_command(["--version"]) == 0
sys.stderr.write(" ".join(name for name in {HEAVY!r} if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.rstrip().endswith(__version__)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "--output", "o"], "Missing option '--input'. See --help"),
        (["run", "--input", "i"], "Missing option '--output'. See --help"),
        (["run", "--input", "i", "--output", "o", "--engine", "guess"], "'guess' is not one of"),
        (["run", "--input", "i", "--output", "o", "--device", "a\nb\x1b[31m"], r"'a\nb\x1b[31m' is not one of"),
        (["runn"], "No such command 'runn'. Did you mean 'run'? See --help"),
        (["--colour"], "No such option"),
        (["score", "one.txt"], "Missing argument 'SOURCE'"),
        (["profiles", "extra"], "unexpected extra argument"),
        (["run", "--input", "i", "--output", "o", "--profile", "none"], "unknown profile 'none'. Give a profile"),
    ],
)
def test_a_usage_error_is_one_line(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    _pairs(tmp_path / "i", 3)
    for name in ("TIRA_INPUT_DATASET", "inputDataset", "TIRA_OUTPUT_DIR", "outputDir"):
        monkeypatch.delenv(name, raising=False)
    assert run_command(arguments) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert not (tmp_path / "o").exists()


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([]) == 2
    assert "Commands:" in capsys.readouterr().err


def test_an_internal_error_is_one_line_and_its_traceback_is_in_a_log_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken() -> list[str]:
        raise ZeroDivisionError("two\nlines and a colour \x1b[31m")

    monkeypatch.setattr("pan_scdg.profile.list_profiles", broken)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run_command(["profiles"]) == 1
    *trace, last = capsys.readouterr().err.splitlines()
    assert trace[0].startswith("Traceback")
    assert not any("\x1b" in line for line in trace)
    assert last.startswith("error: internal error: ZeroDivisionError: two")
    assert last.endswith(". The traceback is above.")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert run_command(["profiles"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "\x1b" not in error
    found = re.search(r"internal error: ZeroDivisionError: two.nlines and .*\. See (\S+)$", error.strip())
    assert found is not None, error
    log = Path(found[1]).read_text()
    assert log.startswith("Traceback")
    assert "in broken" in log
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    assert run_command(["profiles"]) == 1
    error = capsys.readouterr().err
    assert (error.count("\n"), "The traceback cannot be written" in error) == (1, True)


def test_a_place_that_this_user_may_not_touch_is_the_users_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def closed() -> list[str]:
        raise PermissionError(errno.EACCES, "Permission denied", "/cache/models.json")

    monkeypatch.setattr("pan_scdg.profile.list_profiles", closed)
    assert run_command(["profiles"]) == 2
    assert capsys.readouterr().err.startswith("error: /cache/models.json: Permission denied. ")


def _wrapped(cause: Exception) -> UserError:
    error = UserError("cannot be written: some reason", "choose another place", "out/x")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "fault",
    [
        OSError(errno.ENOSPC, "No space left on device", "out/x"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        OSError("100 requested and 12 written"),
        sqlite3.OperationalError("database or disk is full"),
        sqlite3.OperationalError("disk I/O error"),
        RuntimeError("java.io.IOException: No space left on device"),
        _wrapped(OSError(errno.EFBIG, "File too large")),
        _wrapped(sqlite3.OperationalError("disk I/O error")),
    ],
    ids=str,
)
def test_a_full_disk_is_resumable_whatever_says_so(
    fault: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full() -> list[str]:
        raise fault

    monkeypatch.setattr("pan_scdg.profile.list_profiles", full)
    assert run_command(["profiles"]) == 3
    error = capsys.readouterr().err
    assert error.endswith(". Free some space and run the same command again to continue.\n")
    assert error.count("\n") == 1


def test_a_name_that_speaks_of_a_full_disk_is_no_full_disk(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong() -> list[str]:
        raise UserError("there is no file 'No space left on device'", "correct the name")

    monkeypatch.setattr("pan_scdg.profile.list_profiles", wrong)
    assert run_command(["profiles"]) == 2
    assert "free some space" not in capsys.readouterr().err


@pytest.mark.parametrize("fault", [KeyboardInterrupt, EOFError])
def test_a_keyboard_interrupt_is_resumable(
    fault: type[BaseException], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped() -> list[str]:
        raise fault

    monkeypatch.setattr("pan_scdg.profile.list_profiles", stopped)
    assert run_command(["profiles"]) == 3
    assert capsys.readouterr().err.strip() == "stopped: run the same command again to continue."


def test_a_terminated_run_says_that_it_can_go_on_and_goes_on(
    tmp_path: Path, tiny_folder: Callable[[str], Path], small: Small
) -> None:
    directory, output = _pairs(tmp_path / "input", 12, words=200), tmp_path / "output"
    arguments = ["run", "--input", directory, "--output", output, "--profile", PROFILE, "--device", "cpu"]
    command = [sys.executable, "entrypoint.py", *map(str, [*arguments, "--model", tiny_folder("qwen2")])]
    with subprocess.Popen(command, cwd=ROOT, text=True, stderr=subprocess.PIPE) as process:
        while not output.exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        rest = process.communicate()[1].splitlines()
    assert process.returncode == 3, rest
    assert rest[-1] == "stopped: run the same command again to continue."
    assert not [p for p in output.iterdir() if not p.name.startswith(".")]
    assert small("run", "--input", directory, "--output", output) == 0
    assert len((output / "decisions.jsonl").read_text().splitlines()) == 12


def may_unshare() -> bool:
    found = which("unshare")
    return found is not None and subprocess.run([found, "-pf", "true"], capture_output=True).returncode == 0


STOP_PROCESS_1 = "import os, signal, time; os.kill(1, signal.SIGTERM); time.sleep(1); open('went on', 'w').close()\n"
"""A signal that process 1 takes ends it, and with it all others."""


@pytest.mark.skipif(not may_unshare(), reason="processes in a name space of their own are not permitted")
@pytest.mark.parametrize("moment", ["imports", "start of Python"])
def test_a_signal_is_not_dropped_by_process_1_of_a_container(moment: str, tmp_path: Path) -> None:
    for name in ("entrypoint.py", "entrypoint.sh"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "pan_scdg").mkdir()
    (tmp_path / "pan_scdg" / "__init__.py").touch()
    (tmp_path / "pan_scdg" / "cli.py").write_text(STOP_PROCESS_1)
    command = [sys.executable, "entrypoint.py"]
    if moment != "imports":  # the command of the image, and a Python that has no handler yet
        command = ["sh", "entrypoint.sh"]
        (tmp_path / "entrypoint.py").write_text(STOP_PROCESS_1)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    words = ["unshare", "-pf", *command]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (3, "stopped: run the same command again to continue.\n")
    assert not (tmp_path / "went on").exists()


def test_the_command_of_the_image_keeps_arguments_input_and_exit_code(tmp_path: Path) -> None:
    shutil.copy(ROOT / "entrypoint.sh", tmp_path)
    (tmp_path / "entrypoint.py").write_text("import sys\nprint(sys.argv[1:], sys.stdin.read())\nsys.exit(7)\n")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    words = ["sh", str(tmp_path / "entrypoint.sh"), "run", "a b", ""]
    done = subprocess.run(words, env=environment, input="text", capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (7, "['run', 'a b', ''] text\n")


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), "not enough memory: libtorch_cpu"),
        (RuntimeError("can't start new thread"), "not enough memory: can't start new thread. Raise the limit"),
        (OSError(12, "Cannot allocate memory"), r"not enough memory: \[Errno 12\] Cannot allocate memory. Raise"),
        (MemoryError(), r"not enough memory. Raise the limit \(`ulimit -v`\) or give more memory"),
    ],
)
def test_a_lack_of_memory_is_one_line(
    fault: Exception, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lack(*_: object) -> None:
        raise fault

    monkeypatch.setattr("pan_scdg.profile.list_profiles", lack)
    assert run_command(["profiles"]) == 2
    assert re.fullmatch(rf"error: {says}.*\.\n", capsys.readouterr().err)


def test_a_working_directory_that_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert run_command(["check", "a", "b", "--output", "out"]) == 2
    assert capsys.readouterr().err == "error: the working directory was removed. Change into one that exists.\n"


@pytest.mark.parametrize(
    ("names", "others"),
    [
        (("inputDataset", "outputDir"), ("TIRA_INPUT_DATASET", "TIRA_OUTPUT_DIR")),
        (("TIRA_INPUT_DATASET", "TIRA_OUTPUT_DIR"), ("inputDataset", "outputDir")),
    ],
)
def test_tiras_variables_stand_for_input_and_output(
    names: tuple[str, str], others: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: Small
) -> None:
    for name in others:
        monkeypatch.delenv(name, raising=False)
    output = tmp_path / "output"
    output.mkdir()
    (output / ".tracking-results.yml").write_text("x: 1\n")  # TIRA's tracker is there first
    monkeypatch.setenv(names[0], str(_pairs(tmp_path / "input", 3)))
    monkeypatch.setenv(names[1], str(output))
    assert small("run") == 0
    assert sorted(p.name for p in output.iterdir() if not p.name.startswith(".")) == [
        "decisions.jsonl",
        "job.json",
        "s0-r0.xml",
        "s1-r1.xml",
        "s2-r2.xml",
        "scores.jsonl",
    ]
    assert (output / ".tracking-results.yml").read_text() == "x: 1\n"


def test_the_options_go_before_tiras_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: Small) -> None:
    monkeypatch.setenv("inputDataset", str(tmp_path / "nowhere"))
    monkeypatch.setenv("outputDir", str(tmp_path / "unused"))
    assert small("run", "--input", _pairs(tmp_path / "input", 3), "--output", tmp_path / "output") == 0
    assert (tmp_path / "output" / "decisions.jsonl").is_file()
    assert not (tmp_path / "unused").exists()


def test_a_finished_output_says_so(tmp_path: Path, small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "--input", _pairs(tmp_path / "input", 3), "--output", tmp_path / "output"]
    assert small(*arguments) == 0
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "output").iterdir()}
    capsys.readouterr()
    assert small(*arguments) == 0
    assert capsys.readouterr().err == f"already complete: {tmp_path / 'output'}\n"
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "output").iterdir()}


def test_profiles_lists_five_or_all_with_a_description(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["profiles", "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list_profiles()
    assert "offline" in list_profiles()
    assert all(len(line.split()) > 3 for line in lines)
    assert run_command(["profiles"]) == 0
    *five, more = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in five] == list(MAIN_PROFILES)
    assert {" ".join(line.split()) for line in five} < {" ".join(line.split()) for line in lines}
    assert more == f"{len(lines) - 5} more: pan-scdg profiles --all"


@pytest.mark.parametrize("words", [40, 900])
def test_score_prints_json_that_agrees_with_the_tokens(
    words: int, tmp_path: Path, small: Small, capsys: pytest.CaptureFixture[str]
) -> None:
    suspicious, source, tokens = tmp_path / "a b.txt", tmp_path / "ß.txt", tmp_path / "tokens.jsonl"
    suspicious.write_text(_text(1, words))
    source.write_text(_text(2, words))
    assert small("score", suspicious, source, "--tokens", tokens) == 0
    result = json.loads(capsys.readouterr().out)
    records = [json.loads(line) for line in tokens.read_text().splitlines()]
    gains = [r["gain"] for r in records]
    count = len(gains)
    rounding = 1e-6  # the file holds six decimals
    assert result["tokens"] == count > words
    assert result["mode"] == ("whole" if words == 40 else "segments")
    assert result["mean"] == pytest.approx(sum(gains) / count, abs=rounding)
    assert result["total_gain_nats"] == pytest.approx(sum(gains), abs=rounding * count)
    assert result["total_gain_nats"] == pytest.approx(
        sum(r["conditional"] for r in records) - sum(r["unconditional"] for r in records), abs=2 * rounding * count
    )
    assert result["positive_gain_rate"] == pytest.approx(sum(g > 0 for g in gains) / count, abs=2 / count)
    best = sorted(gains, reverse=True)[: -(-count // 10)]
    assert result["top_10"] == result["score"] == pytest.approx(sum(best) / len(best), abs=rounding)
    assert (result["threshold"], result["aggregation"]) == (0.5, "top-10%")
    assert result["decision"] == (result["score"] >= 0.5)
    assert [r["position"] for r in records] == list(range(count))
    text = suspicious.read_text()
    assert "".join(r["token"] for r in records) == text
    assert [r["token"].strip() for r in records] == [text[r["begin"] : r["end"]].strip() for r in records]


@pytest.mark.parametrize("side", [0, 1])
def test_score_reads_standard_input_and_writes_tokens_to_standard_output(
    side: int, tmp_path: Path, small: Small, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files: list[Path | str] = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for i, file in enumerate(files):
        Path(file).write_text(_text(i))
    assert small("score", *files, "--tokens", tmp_path / "tokens.jsonl") == 0
    result = json.loads(capsys.readouterr().out)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(files[side]).read_bytes())))
    files[side] = "-"
    assert small("score", *files, "--tokens", "-") == 0
    first, *tokens = capsys.readouterr().out.splitlines(keepends=True)
    assert json.loads(first) == result
    assert "".join(tokens) == (tmp_path / "tokens.jsonl").read_text()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"%PDF-1.4", "standard input: this is a PDF, not a text file. Export it"),
        (b"caf\xe9", "standard input:1: not UTF-8: byte 3 is 0xe9"),
        (b" \n", "standard input: the suspicious document is empty. "),
        (None, "standard input: is closed. "),
    ],
)
def test_bad_standard_input_is_one_line(
    data: bytes | None,
    says: str,
    tmp_path: Path,
    small: Small,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "b.txt").write_text(_text(1))
    monkeypatch.setattr(sys, "stdin", None if data is None else io.TextIOWrapper(io.BytesIO(data)))
    assert small("score", "-", tmp_path / "b.txt") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1].startswith(f"error: {says}")
    assert small("score", "-", "-") == 2
    assert "only one file can be standard input" in capsys.readouterr().err


def test_score_without_a_threshold_decides_nothing(
    tmp_path: Path, tiny_folder: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "open.toml"
    profile.write_text(re.sub(r"(?m)^(q|threshold) = .*\n", "", PROFILE.read_text()))
    files = []
    for i in range(2):
        files.append(tmp_path / f"{i}.txt")
        files[-1].write_text(_text(i))
    settings = ["--profile", profile, "--model", tiny_folder("qwen2"), "--device", "cpu"]
    assert run_command(["score", *map(str, [*files, *settings])]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["decision"], result["threshold"], result["aggregation"]) == (None, None, "average")
    assert result["score"] == pytest.approx(result["mean"])


def test_entrypoint_leaves_with_the_exit_code() -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("inputDataset", "TIRA_INPUT_DATASET")}
    command = [sys.executable, "entrypoint.py", "run", "--output", "unused"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: Missing option '--input'. See --help.\n"


def test_without_arguments_under_tira_a_run_is_meant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["entrypoint.py"])
    for name in ("inputDataset", "outputDir"):
        monkeypatch.delenv(name, raising=False)
    for name in ("inputDataset", "outputDir"):
        assert find_arguments() == []
        monkeypatch.setenv(name, str(tmp_path))
    assert find_arguments() == ["run"]
    monkeypatch.setattr(sys, "argv", ["entrypoint.py", "profiles"])
    assert find_arguments() == ["profiles"]


@pytest.mark.parametrize("options", [("--cluster", "auto"), ("--workers", "2")])
def test_a_cluster_without_ray_names_the_extra_before_anything_is_read(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("pan_scdg.errors.find_spec", lambda name: None)
    absent = str(tmp_path / "absent")
    assert run_command(["run", "--input", absent, "--output", str(tmp_path / "out"), *options]) == 2
    extra = "Install the extra: pip install 'pan_scdg[cluster]'"
    assert capsys.readouterr().err == f"error: the package ray is not installed. {extra}\n"


def test_an_unknown_option_with_several_suggestions_is_one_clean_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["run", "--repot", "x"]) == 2
    expected = r"error: No such option '--repot'. Did you mean one of: '--\w+'(, '--\w+')+\? See --help.\n"
    assert re.fullmatch(expected, capsys.readouterr().err)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_a_page_about_the_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([name, "--help"]) == 0
    page = ROOT / capsys.readouterr().out.rpartition("Documentation: ")[2].strip()
    assert f"pan-scdg {name}" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "typed", "completed"),
    [
        (["run", "--profile"], "offl", ["offline"]),
        (["check", "--profile"], "pan26-da", ["pan26-daac"]),
        (["run", "--profile"], "./own", ["./own"]),
        ([], "calib", ["calibrate"]),
    ],
)
def test_the_shell_completes_commands_and_profiles(words: list[str], typed: str, completed: list[str]) -> None:
    items = ShellComplete(cli, {}, "pan-scdg", "_PAN_SCDG_COMPLETE").get_completions(words, typed)
    assert [item.value for item in items] == completed
    assert [item.type for item in items] == ["file" if "/" in typed else "plain"]
