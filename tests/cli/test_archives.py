"""Archives are read as they unpack, from their folder, the one above and the one above that."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pan_scdg.cli import run_command
from pan_scdg.pan.source_retrieval import find_qrels
from studies.__main__ import main
from tests.archives import write_archive

EXAMPLES = Path(__file__).parents[2] / "examples"
PAIRS, RETRIEVAL = EXAMPLES / "pan25-pairs" / "test", EXAMPLES / "pan26-retrieval"
PAN25, PAN13 = "02_validation/02_validation", "pan13-text-alignment-test-corpus2-2013-01-21"
LAYOUTS = {
    "PAN 2025": (f"{PAN25}/", PAN25, "02_validation/02_validation_truth"),
    "truth one level up": (f"{PAN25}/", PAN25, "02_validation_truth"),
    "truth unpacked twice": (f"{PAN25}/", PAN25, f"{PAN25}_truth/02_validation_truth"),
    "truth inside": (f"{PAN25}/", PAN25, f"{PAN25}/truth"),
    "truth next to the input": ("sample/input/", "sample/input", "sample/truth"),
    "PAN 2012 to 2015": (f"{PAN13}/", PAN13, f"{PAN13}/02-no-obfuscation"),
    "one kind of PAN 2013": (f"{PAN13}/02-no-obfuscation/", PAN13, f"{PAN13}/02-no-obfuscation"),
}
"""Folders of the list of pairs, of the texts and of the truth."""
RUN = ("--profile", "pan25-containment")
Call = Callable[..., str]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Call the command line in this process; returns what it prints."""

    def invoke(command: str, *arguments: object) -> str:
        code = run_command([command, *map(str, arguments)])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        return printed.out

    return invoke


def unpack(name: str, data: Path) -> Path:
    """Write the example in a layout; returns the folder of its list of pairs."""
    pairs, texts, truth = LAYOUTS[name]
    write_archive(PAIRS, data, [f"{pairs}pairs", f"{texts}/susp/", f"{texts}/src/", f"{truth}/*.xml"])
    return data / pairs


@pytest.mark.parametrize("name", LAYOUTS)
def test_pairs_are_read_from_each_level(name: str, tmp_path: Path, call: Call) -> None:
    data, out, profile = tmp_path / "data", tmp_path / "out", tmp_path / "profile.toml"
    folder = unpack(name, data)
    call("run", "--input", PAIRS, "--output", tmp_path / "plain", *RUN)
    expected = call("evaluate", "--input", PAIRS, "--output", tmp_path / "plain")
    levels = [folder, folder.parent, folder.parent.parent][: len(folder.relative_to(data).parts) + 1]
    call("run", "--input", levels[-1], "--output", out, *RUN)
    for level in levels:
        assert call("evaluate", "--input", level, "--output", out) == expected
        assert "24 pairs" in call("calibrate", "--input", level, "--scores", out, "--write", profile, *RUN)


def test_the_folder_is_named_if_it_is_below(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = unpack("PAN 2025", tmp_path / "data")
    assert run_command(["run", "--input", str(tmp_path / "data"), "--output", str(tmp_path / "out"), *RUN]) == 0
    assert f"input: {folder}\n" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["PAN 2025", "one kind of PAN 2013"])
def test_a_folder_may_be_the_working_directory(
    name: str, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(unpack(name, tmp_path / "data"))
    call("run", "--input", ".", "--output", tmp_path / "out", *RUN)
    assert call("evaluate", "--input", ".", "--output", tmp_path / "out").startswith("24 pairs, 12 positive")
    assert "24 pairs" in call("calibrate", "--input", os.path.relpath("."), "--scores", tmp_path / "out",
                              "--write", tmp_path / "p.toml", *RUN)  # fmt: skip


def test_check_and_studies_read_an_archive(tmp_path: Path, call: Call) -> None:
    folder = unpack("PAN 2025", tmp_path / "data" / "pan25")
    assert main(["prepare", "--data", str(tmp_path / "data"), "--output", str(tmp_path / "made")]) == 0
    lines = (tmp_path / "made" / "pan25" / "manifest.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["doc_label"] for line in lines) == 12
    for path in sorted(folder.glob("s*/*"))[2:]:
        if path.name[-9:] not in ("00101.txt", "00102.txt"):
            path.unlink()
    call("check", folder / "susp", folder / "src", "--output", tmp_path / "out")
    assert (tmp_path / "out" / "report.html").is_file()


def test_two_inputs_are_named_with_the_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    folder = unpack("PAN 2025", data)
    shutil.copytree(data / "02_validation", data / "01_train")
    (data / "01_train" / "02_validation").rename(data / "01_train" / "01_train")
    expected = f"{data}: contains several inputs: 01_train/01_train, 02_validation/02_validation. Move the others out, "
    expected += f"or give one: --input {folder}"
    scores, out = str(tmp_path / "scores"), str(tmp_path / "out")
    assert run_command(["run", "--input", str(folder), "--output", scores, *RUN]) == 0
    calibrate = ["calibrate", *RUN, "--scores", scores, "--write", out]
    for command in (["run", "--output", out], ["evaluate", "--output", scores], calibrate):
        assert run_command([*command, "--input", str(data)]) == 2
        assert expected in capsys.readouterr().err
    (tmp_path / "pan25").symlink_to(data)
    assert main(["prepare", "--data", str(tmp_path), "--part", "pan25", "--output", out]) == 2
    assert "several inputs: 01_train/01_train" in capsys.readouterr().err
    assert not Path(out).exists()


@pytest.mark.parametrize("qrels", ["dataset/qrels.txt", "dataset_truth/qrels.txt", "truth/qrels.txt"])
def test_retrieval_is_read_from_each_level(tmp_path: Path, call: Call, qrels: str) -> None:
    names = ("corpus.jsonl.gz", "queries.jsonl")
    write_archive(RETRIEVAL, tmp_path / "a", [f"dataset/{name}" for name in names])
    write_archive(RETRIEVAL, (tmp_path / "a" / qrels).parent, ["qrels.txt"])
    lines = (line.split() for line in (tmp_path / "a" / qrels).read_text().splitlines())
    (tmp_path / "run.txt").write_text("".join(f"{q} Q0 {d} {i} {999 - i} x\n" for i, (q, _, d, _) in enumerate(lines)))
    levels = [tmp_path / "a" / "dataset", tmp_path / "a", tmp_path]
    assert {find_qrels(level) for level in levels} == {tmp_path / "a" / qrels}
    printed = {call("evaluate", "--input", level, "--output", tmp_path / "run.txt") for level in levels}
    assert printed == {call("evaluate", "--input", RETRIEVAL, "--output", tmp_path / "run.txt")}
    run = ("--profile", "pan26-bm25-sentence", "--limit", 1)
    digests = set()
    for number, level in enumerate(levels[:2]):
        call("run", "--input", level, "--output", tmp_path.parent / f"{tmp_path.name}-{number}", *run)
        digests.add(json.loads((tmp_path.parent / f"{tmp_path.name}-{number}" / "job.json").read_text())["input"])
    assert len(digests) == 1
