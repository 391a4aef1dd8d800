"""``ir-metadata.yml``: what it says about a run, and that TIRA accepts it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pan_scdg import __version__
from pan_scdg.commit import find_commit
from pan_scdg.resources import count_cores, find_processor
from pan_scdg.results.files import METADATA
from pan_scdg.results.folder import require_job

Run = Callable[..., Any]
Visible = Callable[[Path], dict[str, bytes]]


@pytest.fixture
def with_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAN_SCDG_METADATA", "1")


@pytest.mark.usefixtures("with_metadata")
def test_tira_accepts_the_description_of_a_run(
    source: Path, run: Run, visible: Visible, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = pytest.importorskip("tira.check_format")
    for name, value in (("PAN_SCDG_TEAM", "us"), ("PAN_SCDG_REPOSITORY", "here"), ("TIRA_DATASET_ID", "small-set")):
        monkeypatch.setenv(name, value)
    output = tmp_path / "out"
    assert run(source, output).code == 0
    text = (output / METADATA).read_text(encoding="utf-8")
    record, job = yaml.safe_load(text), require_job(output)
    assert check.check_format(output, "ir_metadata")[0] == check.FormatMsgType.OK
    if job.task == "retrieval":
        for form in (["run.txt", "ir_metadata"], "run-with-metadata"):
            assert check.check_format(output, form)[0] == check.FormatMsgType.OK
    else:
        assert check.check_format(output, "text-alignment-features")[0] == check.FormatMsgType.OK
    assert METADATA in (job.files or ())
    assert record["tag"] == {"pairs": "small", "retrieval": "pan-scdg"}[job.task]
    assert record["actor"] == {"team": "us"}
    assert record["implementation"]["source"] == {"repository": "here", "commit": find_commit()}
    assert record["data"] == {"test collection": {"name": "small-set"}}
    assert record["method"] == {"name": "profile small", "description": "test profile"}
    assert record["platform"]["hardware"]["gpus"] == []
    assert record["platform"]["hardware"]["cpu"] == {"model": find_processor(), "number of cores": count_cores()}
    assert any(package.startswith("torch==") for package in record["implementation"]["python"]["packages"])
    times = record["resources"]["runtime"]
    assert all(re.fullmatch(r"\d+ ms", times[name]) for name in ("wallclock", "user", "system"))
    assert record["pan_scdg"]["version"] == __version__
    assert {job.to_json()[name] == value for name, value in record["pan_scdg"]["job"].items()} == {True}
    assert str(tmp_path) not in text
    assert str(source) not in text


@pytest.mark.usefixtures("with_metadata")
def test_nothing_is_named_that_is_not_known(
    pairs_input: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PAN_SCDG_TEAM", "PAN_SCDG_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TIRA_DATASET_ID", "id")
    assert run(pairs_input, tmp_path / "out").code == 0
    record = yaml.safe_load((tmp_path / "out" / METADATA).read_text(encoding="utf-8"))
    assert "actor" not in record
    assert record["implementation"]["source"] == {"commit": find_commit()}
    assert record["data"] == {"test collection": {"name": f"SHA-256 {record['pan_scdg']['job']['input']}"}}


def test_results_do_not_depend_on_it(
    pairs_input: Path,
    run: Run,
    finished: Callable[[Path], Path],
    visible: Visible,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = visible(finished(pairs_input))
    monkeypatch.setenv("PAN_SCDG_METADATA", "1")
    assert run(pairs_input, tmp_path / "out", "--keep-gains").code == 0
    files = visible(tmp_path / "out")
    assert set(files) - set(expected) == {METADATA}
    assert {name: files[name] for name in expected if name != "job.json"} == {
        name: data for name, data in expected.items() if name != "job.json"
    }
