"""TIRA's client runs the image, offline, and its checks accept the output."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from pan_scdg.jobs.tira import read_manifest
from tests.container.conftest import ROOT, TEST_IMAGE, Docker, visible
from tests.stand_ins import COMMIT, list_repositories, write_hub, write_profile

pytestmark = pytest.mark.container
BIN = Path(sys.executable).parent
FORMATS = {"pairs": "text-alignment-features", "retrieval": "run.txt"}
ENTRIES = {"pairs": "pan25-offline", "retrieval": "pan26-offline"}


@pytest.fixture(params=["pairs", pytest.param("retrieval", marks=pytest.mark.long)])
def job(request: pytest.FixtureRequest) -> tuple[str, Path]:
    """Return the name of a task and its input."""
    return request.param, request.getfixturevalue(request.param)


@pytest.mark.long
def test_tira_run(docker: Docker, image: str, job: tuple[str, Path], open_folder: Callable[[str], Path]) -> None:
    from tira.check_format import FormatMsgType, check_format

    name, source = job
    output = open_folder("out")
    command = read_manifest(ROOT / "tira.yml")[ENTRIES[name]].command
    where = ["--input-directory", str(source), "--output-directory", str(output), "--image", image]
    done = subprocess.run(
        [BIN / "tira-run", *where, "--fail-if-output-is-empty", "--command", command],
        env=docker.environment,  # type: ignore[attr-defined]
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert check_format(output, FORMATS[name], None)[0] == FormatMsgType.OK
    assert check_format(output / "ir-metadata.yml", "ir_metadata", None)[0] == FormatMsgType.OK
    assert {"pairs": "decisions.jsonl", "retrieval": "scores.jsonl.gz"}[name] in visible(output)


@pytest.mark.long
def test_dry_run_of_a_submission(docker: Docker, base_image: str, job: tuple[str, Path], tmp_path: Path) -> None:
    name, source = job
    repository = copy_repository(tmp_path / "repository")
    dry_run(ENTRIES[name], FORMATS[name], source, commit_all(repository), docker, base_image, tmp_path)


@pytest.mark.long
def test_dry_run_of_a_leaderboard_entry(docker: Docker, base_image: str, retrieval: Path, tmp_path: Path) -> None:
    """With stand-ins in the Hugging Face cache, which the client mounts, and without a GPU: see ``tests.stand_ins``."""
    name, repository = "pan26-leaderboard", copy_repository(tmp_path / "repository")
    profile = read_manifest(ROOT / "tira.yml")[name].profile
    shipped = repository / "pan_scdg" / "profile" / "shipped" / f"{profile}.toml"
    write_profile(profile, shipped, retrieval={"scored": 2})
    manifest = repository / "tira.yml"
    manifest.write_text(manifest.read_text(encoding="utf-8").replace("--device cuda", "--device cpu"), encoding="utf-8")
    hub = {"HF_HUB_CACHE": str(write_hub(tmp_path / "hub", [profile]))}
    said = dry_run(name, FORMATS["retrieval"], retrieval, commit_all(repository), docker, base_image, tmp_path, **hub)
    for model in list_repositories(profile):
        assert f"{model} from huggingface cache at {COMMIT[:12]}" in said


def dry_run(
    name: str, output_format: str, source: Path, repository: Path, docker: Docker, base: str, scratch: Path, **more: str
) -> str:
    """Make a dry run and return what it said; the client reads from its cache what it would ask the server."""
    entry = read_manifest(ROOT / "tira.yml")[name]
    record = {
        "id": entry.dataset,
        "display_name": entry.dataset,
        "default_task": entry.task,
        "ir_datasets_id": None,
        "is_confidential": False,
        "is_deprecated": False,
        "mirrors": {"inputs": {"local": "local"}},
        "format": [output_format],
        "format_configuration": None,
    }
    answers = scratch / "home" / ".archived" / "v1" / "datasets"
    answers.mkdir(parents=True)
    (answers / "all").write_text(json.dumps([record]), encoding="utf-8")
    (scratch / "temporary").mkdir()
    places = {"TIRA_CACHE_DIR": scratch / "home", "TIRA_INPUT_DATASET": source, "TMPDIR": scratch / "temporary"}
    before = images(docker)
    done = subprocess.run(
        [
            *(sys.executable, ROOT / "entrypoint.py", "tira", "dry-run", name),
            *("--manifest", repository / "tira.yml", "--build-args", f"--build-arg BASE_IMAGE={base}"),
        ],
        cwd=repository,
        env={
            **docker.environment,  # type: ignore[attr-defined]
            **{key: str(place) for key, place in places.items()},
            "TERM": "xterm",
            **more,
        },
        capture_output=True,
        text=True,
    )
    for tag in {tag for tag in images(docker) - before if TEST_IMAGE not in tag}:  # other tests make images, too
        docker("rmi", "--force", tag, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-3000:]
    assert f"code-submission --dry-run --path {repository}" in done.stderr
    return said


def copy_repository(folder: Path) -> Path:
    """Copy all files of this work tree that git does not ignore."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder


def commit_all(folder: Path) -> Path:
    """Make a folder a repository with one commit, and a remote that is never asked."""
    author = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost"]
    for words in (
        ["init", "--quiet"],
        ["add", "--all"],
        [*author, "commit", "--quiet", "--message", "all"],
        ["remote", "add", "origin", "https://localhost/none.git"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    return folder


def images(docker: Docker) -> set[str]:
    """Return the names of all images."""
    return set(docker("images", "--format", "{{.Repository}}:{{.Tag}}").stdout.split())


def test_the_manifest_in_the_image_is_the_one_of_the_work_tree(docker: Docker, image: str) -> None:
    found = docker("run", "--rm", "--network", "none", "--entrypoint", "cat", image, "/app/tira.yml").stdout
    assert yaml.safe_load(found) == yaml.safe_load((ROOT / "tira.yml").read_text(encoding="utf-8"))
