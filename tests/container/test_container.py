"""The image, built and run: without network, read-only as far as possible, and as another user."""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pan_scdg.cli import run_command
from tests.container.conftest import CLOSED, PAIRS, ROOT, Docker, copied_context, in_container, visible

pytestmark = pytest.mark.container
GIB = 1 << 30


def test_size_labels_and_environment(docker: Docker, image: str) -> None:
    found = json.loads(docker("image", "inspect", image).stdout)[0]
    assert found["Size"] <= 7 * GIB
    assert found["Config"]["Labels"]["org.opencontainers.image.licenses"] == "MIT"
    assert "HF_HUB_OFFLINE=1" in found["Config"]["Env"]
    assert not found["Config"].get("User"), "TIRA needs root"
    assert found["Config"]["Entrypoint"][1:] == ["/app/entrypoint.py"]


def test_a_change_of_the_code_installs_and_fetches_nothing_again(
    docker: Docker, image: str, base_image: str, tmp_path: Path
) -> None:
    copied_context(tmp_path)
    with open(tmp_path / "pan_scdg" / "logs.py", "a", encoding="utf-8") as file:
        file.write("# a change\n")
    tag = f"{image}-changed"
    said = docker("build", "--build-arg", f"BASE_IMAGE={base_image}", "-t", tag, tmp_path).stdout
    docker("rmi", tag)
    steps = said.split("\nStep ")
    for command in ("pip install", "sklearn.linear_model", "fetch_jars", "pan_scdg.models.fetch"):
        (step,) = [step for step in steps if command in step.partition("\n")[0] and " : RUN" in step]
        assert "Using cache" in step
    assert "Using cache" not in steps[-2], "the code is new"


def test_results_are_those_of_a_run_without_container(
    pairs: Path, finished: Callable[[Path], dict[str, bytes]], tmp_path: Path
) -> None:
    """Of pairs; see `test_container_sockets` for source retrieval."""
    assert run_command(["run", "--input", str(pairs), "--output", str(tmp_path / "out"), "--device", "cpu"]) == 0
    assert finished(pairs) == visible(tmp_path / "out")


def test_wrong_input_is_one_line_and_no_file(
    docker: Docker, image: str, pairs: Path, open_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    shutil.copytree(pairs, tmp_path / "bad")
    with open(tmp_path / "bad" / "pairs", "a", encoding="utf-8") as file:
        file.write(f"../../etc/passwd {next((pairs / 'src').iterdir()).name}\n")
    output = open_folder("out")
    done = in_container(docker, image, tmp_path / "bad", output)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"error: /in/pairs:{PAIRS + 1}:")
    assert not list(output.iterdir())


@pytest.mark.long
@pytest.mark.parametrize(
    "how", [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.long)], ids=lambda s: s.name
)
def test_a_stopped_container_goes_on_from_its_state(
    docker: Docker,
    image: str,
    pairs: Path,
    how: signal.Signals,
    finished: Callable[[Path], dict[str, bytes]],
    open_folder: Callable[[str], Path],
) -> None:
    output, state = open_folder("out"), open_folder("state")
    mounts = [f"-v{pairs}:/in:ro", f"-v{output}:/out", f"-v{state}:/state"]
    run = [*CLOSED, "--user", "1000", *mounts, image, "run", "--input", "/in", "--output", "/out", "--state", "/state"]
    name = docker("run", "--detach", *run).stdout.strip()
    wait_for((state / "scores.sqlite").exists)
    docker("kill", "--signal", how.name, name)
    code = int(docker("wait", name).stdout)
    said = docker("logs", name).stderr
    docker("rm", name)
    assert code == (3 if how == signal.SIGTERM else 128 + signal.SIGKILL), said
    assert how != signal.SIGTERM or said.endswith("error: stopped; run the same command again to continue\n")
    assert not visible(output)
    assert docker("run", "--rm", *run).stderr.endswith(f"decided {PAIRS} pairs: /out/decisions.jsonl\n")
    assert visible(output) == finished(pairs)


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Wait until a condition holds; fail after ``seconds``."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.1)


@pytest.mark.long
def test_a_model_in_another_folder_is_found(
    docker: Docker, image: str, pairs: Path, open_folder: Callable[[str], Path]
) -> None:
    output = open_folder("out")
    model = ROOT / "model_cache" / "scdg-mini"
    mounts = ("-v", f"{pairs}:/in:ro", "-v", f"{output}:/out", "-v", f"{model}:/models/mine:ro")
    gains = ("--profile", "scdg-mini")
    where = ("--input", "/in", "--output", "/out", *gains, "--model", "/models/mine", "--limit", "1")
    docker("run", "--rm", *CLOSED, *mounts, image, "run", *where)
    assert (output / "decisions.jsonl").is_file()
    done = docker("run", "--rm", *CLOSED, *mounts, image, "run", *where[:-3], "/models/none", check=False)
    assert done.returncode == 2
    assert "does not exist" in done.stderr


def test_terrier_itself_runs_in_the_image(docker: Docker, image: str) -> None:
    script = "from pan_scdg.models.terrier_jars import start_terrier; start_terrier()"
    docker("run", "--rm", *CLOSED, "--user", "1000", "--entrypoint", "python", image, "-c", script)


def test_nothing_of_this_machine_is_in_the_image(docker: Docker, image: str) -> None:
    listed = docker("run", "--rm", *CLOSED, "--entrypoint", "sh", image, "-c", "ls -A /app").stdout.split()
    expected = {line[1:].split("/")[0] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    assert set(listed) - {"__pycache__"} == expected - {"requirements.lock", "requirements"}
    assert os.environ.get("HOSTNAME", "no name") not in docker("history", "--no-trunc", image).stdout
