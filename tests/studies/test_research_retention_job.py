"""``studies retention`` from the command line to the report, on the shipped examples with tiny random models."""

import csv
import json
import re
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from pan_scdg.cli import run_command
from pan_scdg.digests import hash_file
from pan_scdg.errors import Interrupted
from studies.retention import job as retention_job
from studies.retention import scoring as retention_scoring
from studies.retention.instances import Case, read_cases

SMALL = Path(__file__).parents[1] / "profiles" / "small.toml"
PAIRS, LEVELS = 2, (0.0, 0.25, 0.5, 0.75, 1.0)
Study = Callable[..., int]


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PAN_SCDG_STATE", raising=False)


@pytest.fixture(scope="module")
def study(tiny_folder: Callable[[str], Path]) -> Study:
    """``study(output, *more)``: the exit code."""

    def call(output: Path, *more: object, profile: Path | str = SMALL) -> int:
        where = ["--examples", "--output", output, "--profile", profile, "--device", "cpu", "--instances", PAIRS]
        return run_command(["studies", "retention", *map(str, [*where, "--model", tiny_folder("qwen2"), *more])])

    return call


@pytest.fixture(scope="module")
def finished(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    assert study(folder / "report", "--seeds", 1, "--state", folder / "state") == 0
    return folder


def visible(folder: Path) -> dict[str, bytes]:
    files = (p for p in folder.rglob("*") if p.is_file() and not p.relative_to(folder).parts[0].startswith("."))
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in files}


def rows_of(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_report_has_every_context_table_and_figure(finished: Path) -> None:
    report = finished / "report"
    lines = (report / "prepared" / "retention" / "intervention_manifest.jsonl").read_text().splitlines()
    contexts = [json.loads(line) for line in lines]
    assert [(c["seed"], c["retention"]) for c in contexts] == [(0, level) for _ in range(PAIRS) for level in LEVELS]
    names = visible(report)
    manifest = json.loads(names["manifest.json"])
    assert manifest["files"] == {n: hash_file(report / n) for n in names if n != "manifest.json"}
    assert manifest["seeds"] == [0]
    assert names["figures/retention.png"].startswith(b"\x89PNG")
    assert b"<svg" in names["figures/retention.svg"]
    page = names["index.md"].decode()
    for said in ("![figures", "Only 1 of the paper's 5 seeds", "The seed of a pair", "2 pairs, 5 levels", "lbfgs"):
        assert said in page


def test_slopes_are_those_of_the_means(finished: Path) -> None:
    """The slope of a line through five equally spaced levels, and the estimate is the mean over pairs."""
    means = rows_of(finished / "report" / "scores" / "document_token_means-tiny.csv")
    assert len(means) == PAIRS * len(LEVELS) * 2
    table = {row["Slope"]: row for row in rows_of(finished / "report" / "tables" / "retention-mixed-model.csv")}
    found = {}
    for label in ("new", "plagiarism"):
        by_level = [
            statistics.fmean(
                float(r["mean_gain"]) for r in means if r["content"] == label and float(r["retention"]) == level
            )
            for level in LEVELS
        ]
        found[label] = sum((level - 0.5) * mean for level, mean in zip(LEVELS, by_level)) / 0.625
    assert float(table["new (b2)"]["Estimate"]) == pytest.approx(found["new"], abs=1e-4)
    assert float(table["plagiarism (b2 + b3)"]["Estimate"]) == pytest.approx(found["plagiarism"], abs=1e-4)


def test_a_second_report_runs_no_pass_and_has_the_same_bytes(
    study: Study, finished: Path, tmp_path: Path, forwards: list[int]
) -> None:
    assert study(tmp_path / "again", "--seeds", 1, "--state", finished / "state") == 0
    assert forwards == []
    assert visible(tmp_path / "again") == visible(finished / "report")
    assert study(finished / "report", "--seeds", 1, "--state", finished / "state") == 0, "already complete"


@pytest.mark.long
def test_a_study_that_was_stopped_goes_on(
    study: Study, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any) -> Any:
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(retention_scoring, "average_gains", stopped)
        assert study(tmp_path / "out", "--seeds", 1) == 3
    assert visible(tmp_path / "out") == {}
    assert study(tmp_path / "out", "--seeds", 1) == 0
    assert visible(tmp_path / "out") == visible(finished / "report")


@pytest.mark.long
def test_a_report_of_shards_has_the_bytes_of_one_run(
    study: Study, finished: Path, tmp_path: Path, forwards: list[int]
) -> None:
    folders = [tmp_path / "1", tmp_path / "2"]
    for number, folder in enumerate(folders, 1):
        assert study(folder, "--seeds", 1, "--shard", f"{number}/2") == 0
    forwards.clear()
    assert study(tmp_path / "out", "--seeds", 1, "--scores", *folders) == 0
    assert forwards == []
    assert visible(tmp_path / "out") == visible(finished / "report")


def test_a_plan_of_contexts_needs_no_weights(
    study: Study, tiny_folder: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weightless = tmp_path / "tiny"
    shutil.copytree(tiny_folder("qwen2"), weightless, ignore=shutil.ignore_patterns("*.safetensors"))
    capsys.readouterr()
    assert study(tmp_path / "out", "--seeds", 1, "--plan", "--gpu", "H200", "--model", weightless) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^pairs +10$", shown, re.M)
    assert "time on H200" in shown
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_pairs_that_cannot_be_scored_stop_the_study_or_are_in_no_row(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document: Any = tomlkit.parse(SMALL.read_text(encoding="utf-8"))
    document["pairs"]["over_long"] = "error"
    document["model"].update({"positions": "extended", "position_factor": 8.0})
    profile = tmp_path / "short.toml"

    def call(limit: int, *more: object) -> tuple[int, str]:
        document["pairs"]["limit"] = limit
        profile.write_text(tomlkit.dumps(document), encoding="utf-8")
        capsys.readouterr()
        more = ("--instances", 3, "--seeds", 1, *more)
        return study(tmp_path / "out", *more, profile=profile), capsys.readouterr().err

    code, said = call(8)
    assert (code, said.count("the profile's limit is 8")) == (2, 3)
    assert "3 of 3 instances cannot be scored, which leaves too few" in call(8, "--on-error", "leave-out")[1]
    lengths = sorted(map(int, re.findall(r": (\d+) tokens, the profile's limit", said)))
    code, said = call(lengths[1] + 20, "--on-error", "leave-out")
    assert code == 0, said
    page = (tmp_path / "out" / "index.md").read_text()
    assert "1 of the 3 pairs cannot be scored and are in no row" in page
    assert "2 pairs, 5 levels" in page
    assert "warning: 1 pairs cannot be scored" in said


def test_a_report_is_of_the_annotations_that_it_was_made_with(
    study: Study, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def more(*arguments: Any) -> tuple[Case, ...]:
        return tuple(case._replace(reused=(*case.reused, (0, 9))) for case in read_cases(*arguments))

    monkeypatch.setattr(retention_job, "read_cases", more)
    assert study(finished / "report", "--seeds", 1, "--state", finished / "state") == 2
    assert "holds the result of another input" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "profile", "says"),
    [
        ((), "pan25-bm25", "is a baseline, which has no gains"),
        (("--profile", SMALL), SMALL, "several profiles were named"),
        (("--given", "pan25-splits=nowhere"), SMALL, "'pan25-splits' is for pan25, which is not among retention"),
        (("--data", "nowhere"), SMALL, "give either --data or --examples"),
    ],
)
def test_what_cannot_be_studied_is_refused(
    more: tuple[Any, ...],
    profile: Path | str,
    says: str,
    study: Study,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert study(tmp_path / "out", *more, profile=profile) == 2
    said = capsys.readouterr().err
    assert says in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "out").exists()
