"""Every command of the README runs, in the order in which a reader types them, with one state for all.

A block says ``run``, or what it ``needs`` that a test has not; commands of the second kind are parsed by the command
line that they are for, and those of docker and TIRA run in tests/container.
"""

import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from pan_scdg.cli.commands import cli
from pan_scdg.digests import file_digest
from pan_scdg.models.catalogue import CATALOGUE, EMBEDDED, TERRIER, licence_of
from pan_scdg.profile import load_profile

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(?:<!-- (run|needs: [^\n]+) -->\n)?```sh\n(.*?)```", re.S)
NEEDS = {"network", "gpu", "login", "data"}
README = (ROOT / "README.md").read_text(encoding="utf-8")


class Command(NamedTuple):
    """A line of a shell block, without its comment."""

    text: str
    needs: str
    """Empty: it runs anywhere."""


def commands() -> list[Command]:
    found = []
    for marker, body in BLOCK.findall(README):
        lines = [line.partition(" #")[0].strip() for line in body.splitlines() if line.strip()]
        found += [Command(line, marker.removeprefix("needs: ").removeprefix("run")) for line in lines]
    return found


RUN = [command.text for command in commands() if not command.needs]
NOT_RUN = [command for command in commands() if command.needs]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like a clone, in which commands may write."""
    folder = tmp_path_factory.mktemp("clone")
    names = ("entrypoint.py", "pan_scdg", "examples", "benchmarks", "model_cache", "Makefile", "tools", ".venv")
    for name in (*names, "requirements.txt"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def run(command: str, clone: Path) -> subprocess.CompletedProcess[str]:
    words = shlex.split(command)
    if words[0] == "python":
        words[0] = sys.executable
    elif not _is_set_up():
        pytest.skip(f"{command}: `make` has not set up what requirements.txt says now")
    environment = {**os.environ, "PAN_SCDG_STATE": str(clone / "state"), "HF_HUB_OFFLINE": "1"}
    return subprocess.run(words, cwd=clone, env=environment, capture_output=True, text=True, timeout=900)


def _is_set_up() -> bool:
    stamp = ROOT / ".venv" / "requirements.sha256"
    return stamp.is_file() and stamp.read_text().strip() == file_digest(ROOT / "requirements.txt")


def test_every_block_says_whether_it_runs_anywhere() -> None:
    blocks = BLOCK.findall(README)
    assert len(blocks) == README.count("```sh") > 10
    for marker, body in blocks:
        assert marker, f"no marker before: {body}"
        assert marker == "run" or set(marker.removeprefix("needs: ").split(", ")) <= NEEDS, marker


@pytest.mark.parametrize("command", [text for text in RUN if text != "make test"], ids=str)
def test_command_of_the_readme(command: str, clone: Path) -> None:
    done = run(command, clone)
    assert done.returncode == 0, done.stderr[-2000:]
    if command == "make demo":
        _reports_both_jobs(done.stdout, clone)


def test_what_the_commands_write_is_ignored_by_git() -> None:
    text = "\n".join(command.text for command in commands())
    written = set(re.findall(r"--(?:output|write|tokens|index|state|out) (\S+)", text)) - {"/out/docker"}
    assert len(written) > 20
    assert '-v "$PWD/out:/out"' in text, "where the container's output lies"
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    asked = "".join(f"{name}\n" for name in sorted(written | {"out/docker", "demo-output/pairs"}))
    git = ["git", "check-ignore", "--no-index", "--stdin"]
    ignored = subprocess.run(git, cwd=ROOT, input=asked, capture_output=True, text=True, check=False)
    assert ignored.stdout == asked


def test_the_gate_is_the_other_command() -> None:
    assert "make test" in RUN
    assert "make --no-print-directory test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_commands_that_need_something() -> None:
    assert [(command.text.split(" --")[0], command.needs) for command in NOT_RUN] == [
        ("python entrypoint.py models fetch terrier", "network"),
        ("python entrypoint.py models fetch Qwen3-0.6B-Base", "network"),
        ("docker build -t pan_scdg .", "network"),
        ("docker run", "network"),
        ("docker build", "network"),
        ("PAN_SCDG_MODEL_CACHE=model_cache/image python entrypoint.py models fetch Llama-3.1-8B", "network, login"),
        ("docker build -t pan_scdg-llama .", "network, login"),
        ("python entrypoint.py tira dry-run pan25-offline", "network, login"),
        ("python entrypoint.py tira submit pan25-offline", "network, login"),
        ("python -m benchmarks.development.build", "data"),
        ("python -m benchmarks.development.calibration", "data"),
        ("python entrypoint.py calibrate", "data"),
        ("python -m benchmarks.offline_quality", "data"),
    ]


@pytest.mark.parametrize("command", NOT_RUN, ids=[command.text for command in NOT_RUN])
def test_a_command_that_needs_something_is_one_that_exists(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its words are parsed to the end, and nothing is done."""
    called = []

    def invoke(self: click.Command, context: click.Context) -> None:
        if not isinstance(self, click.Group):
            called.append(self.name)

    monkeypatch.setattr(click.Command, "invoke", invoke)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "pairs.jsonl").touch()
    words = [word for word in shlex.split(command.text) if not re.match("[A-Z_]+=", word)]
    if words[0] == "docker":
        if words[1] == "run":
            cli.main(words[words.index("pan_scdg") + 1 :], standalone_mode=False)
        else:
            called.append("build" if (ROOT / words[-1] / "Dockerfile").is_file() else "no Dockerfile")
    elif words[1] == "-m":
        importlib.import_module(words[2]).main.main(words[3:], standalone_mode=False)
    else:
        assert words[:2] == ["python", "entrypoint.py"]
        cli.main(words[2:], standalone_mode=False)
    assert len(called) == 1
    assert called != ["no Dockerfile"]


def test_calibrate_writes_a_profile_that_decides_and_knows_its_range(clone: Path) -> None:
    profile = load_profile(str(clone / "out" / "my-offline.toml"))
    pairs, offline = profile.need_pairs(), load_profile("offline").need_pairs()
    known = pairs.calibration
    assert (profile.name, pairs.aggregation, pairs.control) == ("my-offline", offline.aggregation, offline.control)
    assert known is not None
    assert known.range is not None
    assert known.digest != (offline.calibration and offline.calibration.digest)
    assert (known.pairs, known.positives, known.negative_pairs, len(known.negatives)) == (24, 12, 12, 12)
    # at most 5 % of 12 negatives is none
    assert pairs.threshold is not None
    assert pairs.threshold > max(known.negatives) - 1e-4


def _reports_both_jobs(said: str, clone: Path) -> None:
    for word in ("pairs (test half)", "source retrieval", "nDCG@10", "run.txt.gz", "One verdict explained"):
        assert word in said
    files = re.findall(r": (demo-output/\S+)", said)
    assert len(files) == 3
    assert all((clone / f).exists() or "*" in f for f in files)


def test_the_table_of_licences_is_that_of_the_catalogue() -> None:
    rows = re.findall(r"^\| (`.+`) \| (.+?) \| (yes|no).* \|$", README.partition("## Licence\n")[2], re.M)
    found = {name: licence for names, licence, _ in rows for name in re.findall(r"`([^`]+)`", names)}
    assert found == {name: licence_of(name) for name in (*EMBEDDED, *CATALOGUE, TERRIER)}


def _claims() -> list[list[str]]:
    table = README.partition("### What was run and what was not\n")[2].partition("\n###")[0]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.strip().splitlines()[2:]]


@pytest.mark.parametrize("row", _claims(), ids=lambda row: row[0])
def test_a_claim_names_its_figure_source_and_status(row: list[str]) -> None:
    assert len(row) == 4
    _, _, source, status = row
    assert status.startswith(("measured here", "reported by the paper, not yet run", "not yet run"))
    for name in re.findall(r"`([\w./-]+/[\w./-]+)`", source):
        assert (ROOT / name).exists(), name
    if status.startswith("measured here"):
        assert "`" in source, "what was measured lies somewhere"
