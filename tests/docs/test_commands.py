"""Run every command of the README and of docs/, in the order in which a reader types them, with one state for all.

A block is marked ``run``, or with what it ``needs`` that a test lacks. The gate runs the README's commands and all
Python blocks, and parses the commands of docs/ and those that need something; ``make test-long`` runs the README's and
then those of docs/, which read what the README's have written. Commands of docker and TIRA run in tests/container. The
examples that the commands read are trimmed; ``make demo`` alone runs on the full ones.
"""

import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from pan_scdg.models.catalogue import CATALOGUE
from pan_scdg.profile.baseline import Alignment

from pan_scdg.cli.commands import cli
from pan_scdg.digests import hash_file
from pan_scdg.profile import SHIPPED, load_profile
from tests.docs.clone import Clone
from tests.docs.pages import ROOT, Command, find_blocks, find_commands, list_pages

NEEDS = {"network", "gpu", "login", "data"}
COMMANDS = find_commands()
MADE = ("make demo", "make test")
RUN = [
    pytest.param(
        command.text,
        marks=[pytest.mark.documented, *[pytest.mark.long] * command.long],
        id=command.text.partition("\n")[0],
    )
    for command in COMMANDS
    if not command.needs and command.text not in MADE
]
PARSED = [command for command in COMMANDS if command.needs or command.long]


@pytest.fixture(scope="module")
def clone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    gate = "not long" in request.config.option.markexpr
    clone = Clone(tmp_path_factory.mktemp("clone"), queries=2 if gate else 6)  # studies divide queries into five folds
    yield clone
    clone.close()


@pytest.mark.parametrize("page", list_pages(), ids=lambda page: page.name)
def test_every_block_is_marked(page: Path) -> None:
    blocks = find_blocks(page)
    text = page.read_text(encoding="utf-8")
    assert len(blocks) == text.count("```sh") + text.count("```python")
    for block in blocks:
        assert block.marker, f"no marker before: {block.body}"
        needs = set(block.marker.removeprefix("needs: ").split(", "))
        assert block.marker == "run" or needs <= NEEDS, block.marker


@pytest.mark.parametrize("command", RUN)
def test_documented_command(command: str, clone: Clone) -> None:
    done = clone.run(command)
    assert done.returncode == 0, done.stderr[-2000:]


def test_make_demo(tmp_path: Path) -> None:
    """The whole demo, on the full examples, in a process of its own."""
    environment = ROOT / ".venv"
    stamp, script = environment / "requirements.sha256", environment / "bin" / "pan-scdg"
    if not script.is_file() or stamp.read_text().strip() != hash_file(ROOT / "requirements.lock"):
        pytest.skip("`make` has not set up the present requirements")
    for path in ROOT.iterdir():
        if path.name not in (".git", "demo-output"):
            (tmp_path / path.name).symlink_to(path)
    done = subprocess.run(["make", "demo"], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for word in ("pairs (test half)", "source retrieval", "nDCG@10", "run.txt.gz", "One verdict explained"):
        assert word in done.stdout
    files = re.findall(r": (demo-output/\S+)", done.stdout)
    assert len(files) == 4
    assert files[-1] == "demo-output/pairs/report.html"
    assert all((tmp_path / f).exists() or "*" in f for f in files)


def test_the_gate_is_the_other_command() -> None:
    assert [command.text for command in COMMANDS[:2]] == list(MADE)
    assert "make --no-print-directory test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_what_the_commands_write_is_ignored_by_git() -> None:
    text = "\n".join(command.text for command in COMMANDS)
    written = set(re.findall(r"--(?:output|write|tokens|index|state|out) (\S+)", text)) - {"/out/docker"}
    assert len(written) > 20
    assert '-v "$PWD/out:/out"' in text, "the container writes there"
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    asked = "".join(f"{name}\n" for name in sorted(written | {"out/docker", "demo-output/pairs"}))
    git = ["git", "check-ignore", "--no-index", "--stdin"]
    ignored = subprocess.run(git, cwd=ROOT, input=asked, capture_output=True, text=True, check=False)
    assert ignored.stdout == asked


@pytest.mark.parametrize("command", PARSED, ids=[command.text for command in PARSED])
def test_command_that_is_not_run_is_parsed(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
    if words[:2] == ["docker", "run"]:
        cli.main(words[words.index("pan_scdg") + 1 :], standalone_mode=False)
    elif words[0] == "docker":
        assert (ROOT / words[-1] / "Dockerfile").is_file()
        called.append("build")
    elif words[0] == "sbatch":
        script = next(word for word in words[1:] if not word.startswith("--"))
        assert os.access(ROOT / script, os.X_OK)
        called.append("submit")
    elif words[0] in ("cp", "sed"):
        written = ROOT / words[-1]
        assert written.is_file() or written.parent == SHIPPED
        called.append("write")
    elif words[:2] == ["hf", "download"]:
        commits = {model.repository: model.commit for model in CATALOGUE.values()}
        assert words[3:] == ["--revision", commits[words[2]]], "what models fetch takes"
        called.append("fetch")
    elif words[0] == "pip":
        assert (ROOT / words[-1] / "pyproject.toml").is_file()
        called.append("install")
    elif words[:2] == ["python", "-m"]:
        importlib.import_module(words[2]).main.main(words[3:], standalone_mode=False)
    else:
        assert words[0] == "pan-scdg"
        cli.main(words[1:], standalone_mode=False)
    assert len(called) == 1


@pytest.mark.long
def test_calibrate_writes_a_profile_that_decides(clone: Clone) -> None:
    profile, offline = load_profile(str(clone.folder / "out" / "my-offline.toml")), load_profile("offline")
    assert isinstance(profile.baseline, Alignment)
    assert isinstance(offline.baseline, Alignment)
    assert (profile.name, profile.baseline.calibrated_with) == ("my-offline", offline.baseline.calibrated_with)
    assert (profile.pairs, profile.retrieval) == (offline.pairs, offline.retrieval)
    # at most 3 % of 2 negatives may be called positive, hence no negative is
    decisions = (clone.folder / "out" / "mine" / "decisions.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["threshold"] for line in decisions} == {round(profile.baseline.threshold or 0, 6)}
