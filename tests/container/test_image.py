"""The image, built and run: without network, read-only as far as possible, and as another user.

The kernel counts connections and datagrams for each container. It does not count listening, for which the process is
killed.
"""

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.utils import canonicalize_name

from pan_scdg.cli import run_command
from pan_scdg.commit import find_commit
from tests.container.conftest import ALIKE, CLOSED, PAIRS, ROOT, Docker, copied_context, in_container, visible
from tools.locks import ALL, find_lock, read_pins

pytestmark = pytest.mark.container
GIB = 1 << 30
COUNTED = [("Tcp", name) for name in ("ActiveOpens", "PassiveOpens", "OutSegs")] + [("Udp", "OutDatagrams")]
LISTENING = {"names": ["listen", "accept", "accept4"], "action": "SCMP_ACT_KILL_PROCESS"}


def test_size_labels_and_environment(docker: Docker, image: str) -> None:
    found = json.loads(docker("image", "inspect", image).stdout)[0]
    assert found["Size"] <= 7 * GIB
    assert found["Config"]["Labels"]["org.opencontainers.image.licenses"] == "MIT"
    assert found["Config"]["Labels"]["org.opencontainers.image.revision"] == find_commit()
    assert "HF_HUB_OFFLINE=1" in found["Config"]["Env"]
    assert not found["Config"].get("User"), "TIRA needs root"
    assert found["Config"]["Entrypoint"][1:] == ["/app/entrypoint.sh"]
    assert not found["Config"].get("ExposedPorts")


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
    for command in ("pip install", "sklearn.linear_model", "pan_scdg.models.fetch"):
        (step,) = [step for step in steps if command in step.partition("\n")[0] and " : RUN" in step]
        assert "Using cache" in step
    assert "Using cache" not in steps[-2], "the code is new"


def test_results_are_those_of_a_run_without_container(
    pairs: Path, finished: Callable[[Path], dict[str, bytes]], tmp_path: Path
) -> None:
    assert run_command(["run", "--input", str(pairs), "--output", str(tmp_path / "out"), "--device", "cpu"]) == 0
    assert finished(pairs) == visible(tmp_path / "out")


@pytest.mark.long
@pytest.mark.parametrize("task", ["pairs", "retrieval"])
def test_a_result_is_reproduced_in_and_outside_of_the_container(
    docker: Docker,
    image: str,
    request: pytest.FixtureRequest,
    open_folder: Callable[[str], Path],
    tmp_path: Path,
    task: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, output = request.getfixturevalue(task), open_folder("out")
    assert in_container(docker, image, source, output).returncode == 0
    mounts = (f"-v{source}:/in:ro", f"-v{output}:/result:ro", f"-v{open_folder('again')}:/out")
    words = ("reproduce", "/result", "--input", "/in", "--output", "/out/again")
    assert docker("run", "--rm", *CLOSED, *mounts, image, *words).stdout.splitlines()[-1] == "reproduced"
    outside = ("reproduce", str(output), "--input", str(source), "--output", str(tmp_path / "outside"))
    assert run_command(list(outside)) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "reproduced"


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


def test_the_image_tries_itself(docker: Docker, image: str, pairs: Path, open_folder: Callable[[str], Path]) -> None:
    output = open_folder("out")
    mounts = (f"-v{pairs}:/in:ro", f"-v{output}:/out")
    where = ("--profile", "scdg-mini", "--input", "/in", "--output", "/out", "--device", "cpu")
    lines = docker("run", "--rm", *CLOSED, *mounts, image, "preflight", *where).stdout.splitlines()
    assert lines[-1] == "ready", lines
    assert lines[-2].startswith("ok      hours: score ")


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name)
def test_a_stopped_container_goes_on(
    docker: Docker,
    image: str,
    pairs: Path,
    how: signal.Signals,
    finished: Callable[[Path], dict[str, bytes]],
    open_folder: Callable[[str], Path],
) -> None:
    output = open_folder("out")
    mounts = [f"-v{pairs}:/in:ro", f"-v{output}:/out"]
    run = [*CLOSED, "--user", "1000", *mounts, image, "run", "--input", "/in", "--output", "/out"]
    name = docker("run", "--detach", *run).stdout.strip()
    wait_for((output / ".pan_scdg").exists)
    docker("kill", "--signal", how.name, name)
    code = int(docker("wait", name).stdout)
    said = docker("logs", name).stderr
    docker("rm", name)
    assert code == (3 if how == signal.SIGTERM else 128 + signal.SIGKILL), said
    assert how != signal.SIGTERM or said.endswith("stopped: run the same command again to continue.\n")
    assert not visible(output)
    docker("run", "--rm", *run)
    assert visible(output) == finished(pairs)


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true; give up after so many looks that it never will be."""
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.1)
    raise TimeoutError


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


def test_terrier_s_stopwords_are_in_the_image(docker: Docker, image: str) -> None:
    script = "from pan_scdg.retrieval.terrier_terms import read_stopwords; print(len(read_stopwords()))"
    found = docker("run", "--rm", *CLOSED, "--user", "1000", "--entrypoint", "python", image, "-c", script).stdout
    assert int(found) == 733


def test_nothing_of_this_machine_is_in_the_image(docker: Docker, image: str) -> None:
    listed = docker("run", "--rm", *CLOSED, "--entrypoint", "sh", image, "-c", "ls -A /app").stdout.split()
    expected = {line[1:].split("/")[0] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    assert set(listed) - {"__pycache__"} == expected - {"requirements.lock", "requirements"}
    assert os.environ.get("HOSTNAME", "no name") not in docker("history", "--no-trunc", image).stdout


def test_packages_are_those_of_the_lock_and_of_the_base_image(docker: Docker, image: str, base_image: str) -> None:
    def list_packages(name: str) -> dict[str, str]:
        words = (
            "run",
            "--rm",
            "--network",
            "none",
            "--entrypoint",
            "python",
            name,
            "-m",
            "pip",
            "list",
            "--format",
            "json",
        )
        return {canonicalize_name(row["name"]): row["version"] for row in json.loads(docker(*words).stdout)}

    words = ("run", "--rm", "--network", "none", "--entrypoint", "python", image, "-c")
    version = docker(*words, "import platform; print(platform.python_version())").stdout.strip()
    python = {"python_full_version": version, "python_version": version.rpartition(".")[0]}
    pins = [pin for pin in read_pins(find_lock(ALL)) if pin.section in ("install", "run", "torch")]
    locked = {pin.name: pin.version for pin in pins if not pin.marker or Marker(pin.marker).evaluate(python)}
    packages = list_packages(image)
    assert locked.items() <= packages.items()
    assert packages.keys() - locked.keys() <= list_packages(base_image).keys()


def read_counters(printed: str) -> dict[tuple[str, str], int]:
    """Return the kernel's counters by protocol and name."""
    counters: dict[tuple[str, str], int] = {}
    rows = [line.split() for line in printed.splitlines() if ": " in line]
    for names, values in zip(rows[::2], rows[1::2]):
        counters |= {(names[0].rstrip(":"), name): int(value) for name, value in zip(names[1:], values[1:])}
    return counters


def test_a_run_neither_connects_nor_listens(
    docker: Docker, image: str, retrieval: Path, open_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    """In a container with a network."""
    (tmp_path / "seccomp.json").write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [LISTENING]}))
    options = ("--rm", "--read-only", "--tmpfs", "/tmp", "--security-opt", f"seccomp={tmp_path / 'seccomp.json'}")
    output = open_folder("out")
    mounts = (
        "-v",
        f"{retrieval}:/in:ro",
        "-v",
        f"{output}:/out",
        *ALIKE,
        "-e",
        "inputDataset=/in",
        "-e",
        "outputDir=/out",
    )
    command = "python /app/entrypoint.py && cat /proc/net/snmp*"
    counters = docker("run", *options, *mounts, "--entrypoint", "sh", image, "-c", command).stdout
    assert "run.txt.gz" in visible(output)
    counted = read_counters(counters)
    assert {name: counted[name] for name in COUNTED} == dict.fromkeys(COUNTED, 0)
    assert set(re.findall(r"(?m)^Udp6OutDatagrams\s+(\d+)$", counters)) <= {"0"}
    listener = "exec python -c 'import socket; socket.socket().listen()'"
    killed = docker("run", *options, "--entrypoint", "sh", image, "-c", listener, check=False)
    assert killed.returncode == 128 + signal.SIGSYS, "the option has an effect"


@pytest.mark.long
def test_two_processes_in_the_image_decide_as_one(
    docker: Docker, image: str, pairs: Path, open_folder: Callable[[str], Path]
) -> None:
    decided = []
    for name, more in (("one", ()), ("two", ("--cluster", "local", "--workers", "2"))):
        output = open_folder(name)
        done = in_container(docker, image, pairs, output, "--profile", "scdg-mini", "--device", "cpu", *more)
        assert done.returncode == 0, done.stderr
        lines = (output / "decisions.jsonl").read_text(encoding="utf-8").splitlines()
        decided.append([(line["score"], line["decision"]) for line in map(json.loads, lines)])
    for (score, decision), (other, same) in zip(*decided, strict=True):
        assert (score, decision) == (pytest.approx(other, abs=1e-4), same)
