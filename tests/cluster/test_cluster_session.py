"""Where Ray is started and with what; a stand-in takes its place but in the last test."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from pan_scdg import errors
from pan_scdg.cluster import session
from pan_scdg.cluster.session import Cluster, make_folder, unwrap_signals
from pan_scdg.errors import Interrupted, UserError


def test_the_folder_of_ray_has_a_short_name_is_private_and_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("long" * 20)
    long.mkdir()
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(long))
    with make_folder() as folder:
        assert len(str(folder)) <= session.LONGEST
        assert folder.parent.stat().st_mode & 0o077 == 0
    assert not folder.parent.exists()
    monkeypatch.setattr(session, "LONGEST", 3)
    with pytest.raises(UserError, match="set TMPDIR to one"), make_folder():
        pass


@pytest.mark.parametrize("shared", [10**6, 10**9])
def test_a_container_s_small_shared_memory_is_not_used(
    shared: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session.shutil, "disk_usage", lambda _: type("Usage", (), {"free": shared}))
    options = session._make_local_options(tmp_path, 2)
    assert options["_node_ip_address"] == "127.0.0.1"
    assert (options["include_dashboard"], options["num_gpus"]) == (False, 2)
    assert options.get("_plasma_directory") == (str(tmp_path) if shared < session.OBJECTS else None)


def test_a_machine_without_ray_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda name: None if name == "ray" else find_spec(name))
    with pytest.raises(UserError, match=r"the package ray is not installed; install the extra: .*\[cluster\]"):
        Cluster("local", 2).connect()


def test_an_address_where_nothing_answers_is_told_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(UserError, match=f"no Ray cluster at {address}: "):
            Cluster(address).connect()


def test_a_signal_while_ray_waits_is_what_its_handler_raised() -> None:
    with pytest.raises(Interrupted), unwrap_signals():
        raise SystemError("returned a result with an exception set") from Interrupted(signal.SIGTERM)
    with pytest.raises(SystemError), unwrap_signals():
        raise SystemError


def test_versions_of_another_machine_are_compared() -> None:
    versions = session.list_versions()
    session.check_versions(versions)
    with pytest.raises(UserError, match=f"torch is {versions['torch']} there and 0 here"):
        session.check_versions({**versions, "torch": "0"})


def list_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("RAY_")}


@pytest.mark.parametrize("own", [{}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "own"}])
def test_a_session_leaves_no_variables_behind(own: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list_variables():
        monkeypatch.delenv(name)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    seen: list[dict[str, str]] = []
    ray = SimpleNamespace(
        _private=SimpleNamespace(worker=SimpleNamespace()),
        exceptions=SimpleNamespace(RayError=RuntimeError),
        init=lambda **_: seen.append(list_variables()),
        shutdown=lambda: seen.append(list_variables()),
        util=SimpleNamespace(get_node_ip_address=lambda: session.LOOPBACK),
    )
    monkeypatch.setattr(session, "need_packages", lambda *_: None)
    monkeypatch.setattr(session.importlib, "import_module", lambda _: ray)
    monkeypatch.setattr(session, "_read_variables", lambda _: None)
    cluster = Cluster("local", 2)
    cluster.connect()
    cluster.close()
    assert list_variables() == own
    during, at_end = seen
    assert during == at_end
    assert during.keys() > set(session.ONLY_LOOPBACK)
    assert during["RAY_AUTH_TOKEN"] == "own" if own else len(during["RAY_AUTH_TOKEN"]) == 64


@pytest.mark.skipif(find_spec("ray") is None, reason="needs ray")
def test_ray_knows_all_gpus_when_actors_on_a_cpu_come_first() -> None:
    code = (
        "import torch; from pan_scdg.cluster.session import Cluster; torch.cuda.device_count = lambda: 3; "
        "cluster = Cluster('local', 2); cluster.connect(); print(cluster.list_nodes()[0].gpus); cluster.close()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


TWICE = """
import os
from pan_scdg.cluster.session import Cluster
tokens = set()
for _ in range(2):
    cluster = Cluster("local", 2)
    ray = cluster.connect()
    tokens.add(os.environ["RAY_AUTH_TOKEN"])
    assert ray.get(ray.remote(num_cpus=0)(lambda: 7).remote(), timeout=60) == 7
    cluster.close()
assert len(tokens) == 2 and "RAY_AUTH_TOKEN" not in os.environ
"""


@pytest.mark.long
@pytest.mark.skipif(find_spec("ray") is None, reason="needs ray")
def test_a_process_can_have_a_second_session() -> None:
    plain = {name: value for name, value in os.environ.items() if name not in list_variables()}
    done = subprocess.run([sys.executable, "-c", TWICE], env=plain, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
