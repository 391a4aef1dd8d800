"""``--method FILE.py``: a method of the user's own, with its hash in the job, in other processes, and in an image."""

import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pan_scdg import commit
from pan_scdg.jobs.tira import COPIED, choose_submission, put_files, read_manifest
from pan_scdg.methods import FILES, METHODS, register_method
from pan_scdg.profile import load_profile

Cli = Callable[..., Any]
METHOD = """
from pan_scdg.methods import Measurements, MethodSettings
from pan_scdg.methods.simple import SimpleMethod

class Settings(MethodSettings):
    factor: float = 1.0
    def open(self, profile, options, statistics=None):
        return LengthMethod()
    def compute_score(self, values):
        return self.factor * values["score"]

class LengthMethod(SimpleMethod):
    def score(self, pairs):
        return [Measurements({"score": len(pair.target) / 1000}) for pair in pairs]
"""
PROFILE = """
name = "lengths"
description = "a test"
decide = { method = "text-length", threshold = 0.5 }
text_length = { factor = 2.0 }
"""


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """What a test registers is gone after it."""
    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)
    FILES.clear()


@pytest.fixture
def method(tmp_path: Path) -> Path:
    (tmp_path / "lengths.toml").write_text(PROFILE)
    (tmp_path / "text_length.py").write_text(METHOD)
    return tmp_path / "text_length.py"


@pytest.fixture
def run(cli: Cli, pairs_input: Path, tmp_path: Path) -> Callable[..., Any]:
    def call(*more: object) -> Any:
        return cli("run", "--input", pairs_input, "--profile", tmp_path / "lengths.toml", "--output", *more)

    return call


def test_a_file_decides_and_its_hash_is_in_the_job(
    run: Cli, cli: Cli, method: Path, pairs_input: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert run(out, "--method", method).code == 0
    for line in map(json.loads, (out / "decisions.jsonl").read_text().splitlines()):
        length = len((pairs_input / "susp" / f"{line['suspicious']}.txt").read_text())
        assert line["score"] == pytest.approx(2 * length / 1000)
    assert "already complete" in run(out, "--method", method).err
    again = cli("reproduce", out, "--input", pairs_input, "--output", tmp_path / "again", "--method", method)
    assert (again.code, again.out.splitlines()[-1]) == (0, "reproduced")
    other = tmp_path / "other" / method.name
    other.parent.mkdir()
    other.write_text(METHOD.replace("/ 1000", "/ 500"))
    refused = run(out, "--method", other)
    assert (refused.code, "code" in refused.err, "--overwrite" in refused.err) == (2, True, True)


def test_a_change_of_a_module_next_to_it_is_one_of_the_code(
    run: Cli, method: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_helper", raising=False)
    method.write_text("import own_helper\n" + METHOD.replace("/ 1000", "/ own_helper.SCALE"))
    (tmp_path / "own_helper.py").write_text("SCALE = 1000\n")
    assert run(tmp_path / "out", "--method", method).code == 0
    for registered in (METHODS, FILES):
        registered.pop("text-length")
    monkeypatch.delitem(sys.modules, "own_helper")
    (tmp_path / "own_helper.py").write_text("SCALE = 500.0\n")
    hash_files = commit._hash_files.__wrapped__
    monkeypatch.setattr(commit, "_hash_files", hash_files)
    refused = run(tmp_path / "out", "--method", method)
    assert (refused.code, "different code" in refused.err) == (2, True)


def test_a_link_has_the_name_of_the_method(run: Cli, method: Path, tmp_path: Path) -> None:
    method.rename(tmp_path / "version_2.py")
    method.symlink_to("version_2.py")
    assert run(tmp_path / "out", "--method", method).code == 0


def test_decide_takes_the_file_and_report_needs_none(
    run: Cli, cli: Cli, method: Path, pairs_input: Path, tmp_path: Path
) -> None:
    assert run(tmp_path / "out", "--method", method).code == 0
    again = ("decide", tmp_path / "out", "--input", pairs_input, "--output", tmp_path / "again", "--threshold", 1000)
    assert cli(*again, "--method", method).code == 0
    lines = map(json.loads, (tmp_path / "again" / "decisions.jsonl").read_text().splitlines())
    assert not any(line["decision"] for line in lines)
    for registered in (METHODS, FILES):
        registered.pop("text-length")
    assert cli("report", tmp_path / "out", "--input", pairs_input).code == 0


def test_the_variable_names_the_file_and_no_file_is_named_as_such(
    run: Cli, method: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = run(tmp_path / "out")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "the method 'text-length' is not registered: give its file with --method FILE.py" in refused.err
    assert not (tmp_path / "out").exists()
    monkeypatch.setenv("PAN_SCDG_METHOD", str(method))
    assert run(tmp_path / "out").code == 0


def test_another_process_reads_the_file(method: Path, tmp_path: Path) -> None:
    register_method(method)
    profile = load_profile(str(tmp_path / "lengths.toml"))
    program = "import pickle, sys; p = pickle.load(sys.stdin.buffer); print(repr(p.method_settings))"
    done = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(profile), capture_output=True, check=True)
    assert done.stdout.decode().strip() == repr(profile.method_settings)


def test_the_image_of_an_entry_has_both_files(method: Path, tmp_path: Path) -> None:
    register_method(method)
    manifest = Path(__file__).parents[2] / "tira.yml"
    profile = tmp_path / "lengths.toml"
    entry = choose_submission(read_manifest(manifest), "pan25-offline", manifest, profile, method)
    where = "/app/model_cache"
    assert f" --profile {where}/lengths.toml --method {where}/text_length.py --device" in entry.command
    with put_files([profile, method], tmp_path / "clone"):
        assert sorted(p.name for p in (tmp_path / "clone" / COPIED).iterdir()) == ["lengths.toml", "text_length.py"]
    assert not list((tmp_path / "clone" / COPIED).iterdir())


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("gone.py", None, "gone.py: is not a Python file. Correct --method"),
        ("method.txt", METHOD, "method.txt: is not a Python file"),
        ("bm25.py", METHOD, "the name of the file is that of the method, which it cannot be"),
        ("My-Method.py", METHOD, "the name of the file is that of the method"),
        ("broken.py", "import os\nclass:\n", "broken.py:2: cannot be run: SyntaxError"),
        ("raises.py", "x = 1\nx.y\n", "raises.py:2: cannot be run: AttributeError"),
        ("empty.py", "x = 1\n", "has 0 classes of settings, not one"),
        ("double.py", METHOD + "\nclass Other(Settings): ...\n", "has 2 classes of settings"),
    ],
)
def test_a_file_that_is_no_method_is_one_line(
    run: Cli, tmp_path: Path, method: Path, name: str, text: str | None, what: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    done = run(tmp_path / "out", "--method", tmp_path / name)
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert what in done.err
    assert not (tmp_path / "out").exists()
