"""A run, as TIRA starts it, opens no connection and listens on nothing, in a container that has a network.

The kernel counts connections and datagrams for each container. It does not count listening, for which the process is
killed.
"""

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from pan_scdg.cli import run_command
from tests.container.conftest import ALIKE, Docker, visible

pytestmark = pytest.mark.container
COUNTED = {
    **{("Tcp", name): 0 for name in ("ActiveOpens", "PassiveOpens", "OutSegs")},
    **{("Udp", name): 0 for name in ("InDatagrams", "OutDatagrams")},
}
LISTENING = {"names": ["listen", "accept", "accept4"], "action": "SCMP_ACT_KILL_PROCESS"}


@pytest.fixture
def network(tmp_path: Path) -> tuple[str, ...]:
    """Return the options of a container with a network, in which a process that listens is killed."""
    (tmp_path / "seccomp.json").write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [LISTENING]}))
    return ("--rm", "--read-only", "--tmpfs", "/tmp", "--security-opt", f"seccomp={tmp_path / 'seccomp.json'}")


def read_counters(printed: str) -> dict[tuple[str, str], int]:
    """Return the kernel's counters by protocol and name."""
    found = {}
    rows = [line.split() for line in printed.splitlines() if ": " in line]
    for names, values in zip(rows[::2], rows[1::2]):
        found |= {(names[0].rstrip(":"), name): int(value) for name, value in zip(names[1:], values[1:])}
    return found


def test_a_run_neither_connects_nor_listens_and_has_the_bytes_of_one_without_container(
    docker: Docker,
    image: str,
    network: tuple[str, ...],
    retrieval: Path,
    open_folder: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    output = open_folder("out")
    mounts = ("-v", f"{retrieval}:/in:ro", "-v", f"{output}:/out", *ALIKE)
    variables = ("-e", "inputDataset=/in", "-e", "outputDir=/out")
    command = "python /app/entrypoint.py && cat /proc/net/snmp*"
    done = docker("run", *network, *mounts, *variables, "--entrypoint", "sh", image, "-c", command)
    assert run_command(["run", "--input", str(retrieval), "--output", str(tmp_path / "here"), "--device", "cpu"]) == 0
    assert visible(output) == visible(tmp_path / "here")
    counted = read_counters(done.stdout)
    assert {name: counted[name] for name in COUNTED} == COUNTED
    assert set(re.findall(r"(?m)^Udp6(?:In|Out)Datagrams\s+(\d+)$", done.stdout)) <= {"0"}


def test_a_connection_would_be_counted_and_a_listener_killed(
    docker: Docker, image: str, network: tuple[str, ...]
) -> None:
    script = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'', ('127.0.0.1', 9))"
    words = ("run", *network, "--entrypoint", "sh", image, "-c")
    counted = read_counters(docker(*words, f'python -c "{script}" && cat /proc/net/snmp').stdout)
    assert counted["Udp", "OutDatagrams"] == 1
    killed = docker(*words, "exec python -c 'import socket; socket.socket().listen()'", check=False)
    assert killed.returncode == 128 + signal.SIGSYS


def test_the_image_names_no_port(docker: Docker, image: str) -> None:
    assert not json.loads(docker("image", "inspect", image).stdout)[0]["Config"].get("ExposedPorts")
