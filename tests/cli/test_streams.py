"""Standard streams that are closed, full or without a reader: no run ends by it, but lost results are an error."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Shell = Callable[[str], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """An input of three pairs."""
    folder = tmp_path / "input"
    for name in ("susp", "src"):
        (folder / name).mkdir(parents=True)
        for i in (1, 2, 3):
            (folder / name / f"{name}{i}.txt").write_text(f"The nets of {name} came up empty {i} times.\n" * 5)
    (folder / "pairs").write_text("".join(f"susp{i}.txt src{i}.txt\n" for i in (1, 2, 3)))
    return folder


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Run a line of bash in which ``$P`` is the program."""

    def _run(line: str) -> "subprocess.CompletedProcess[str]":
        environment = os.environ | {"P": f"{sys.executable} {ROOT / 'entrypoint.py'}", "PAN_SCDG_METADATA": "0"}
        command = ["bash", "-c", line]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)

    return _run


@pytest.mark.parametrize("said", ["2>&-", "2>/dev/full", "2> >(exit)", "2>/dev/full 0<&- 1>&-"])
def test_a_run_ends_well_whatever_becomes_of_what_it_says(said: str, pairs: Path, tmp_path: Path, shell: Shell) -> None:
    done = shell(f"$P run --input input --output out --profile pan25-containment {said}")
    assert (done.returncode, done.stdout) == (0, "")
    assert len((tmp_path / "out" / "decisions.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize("said", ["2>&-", "2>/dev/full"])
def test_an_error_keeps_its_exit_code_where_its_line_is_lost(said: str, shell: Shell) -> None:
    done = shell(f"$P run --input nowhere --output out {said}")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("results", [">/dev/full", ">&-"])
def test_results_that_cannot_be_shown_are_an_error(results: str, shell: Shell) -> None:
    done = shell(f"$P profiles {results}")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: standard output: ")


def test_a_reader_that_has_enough_ends_the_program_quietly(shell: Shell) -> None:
    done = shell("$P profiles | true; echo ${PIPESTATUS[0]}")
    assert (done.stdout, done.stderr) == ("141\n", "")
