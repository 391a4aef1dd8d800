"""The build argument ``TORCH_INDEX_URL``: torch is installed from that index, and nothing replaces it later."""

import json
import os
import re
import shutil
import threading
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.container.conftest import ROOT, Docker, in_container, visible

pytestmark = pytest.mark.container
VARIABLE = "PAN_SCDG_TEST_TORCH_INDEX_URL"
LARGEST = 2_500_000_000


LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")


def requirement(name: str) -> str:
    """Return ``name==version`` as in requirements.lock."""
    (found,) = re.findall(rf"(?m)^{name}==[0-9.]+", LOCK)
    return str(found)


def lock(name: str) -> str:
    """Return a package's lines of requirements.lock."""
    (found,) = re.findall(rf"(?ms)^{name}==.*?\n(?=[a-z0-9#])", LOCK)
    return str(found)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """Serve an index with an empty wheel of torch that has the version of a CPU wheel."""
    version = requirement("torch").partition("==")[2] + "+cpu"
    folder, info = tmp_path / "index" / "simple" / "torch", f"torch-{version}.dist-info"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / f"torch-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("torch/__init__.py", "")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(tmp_path / "index")))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/simple"
    server.shutdown()
    server.server_close()


@pytest.mark.long
def test_torch_comes_from_the_index_that_is_named(docker: Docker, base_image: str, index: str, tmp_path: Path) -> None:
    context = tmp_path / "context"
    context.mkdir()
    shutil.copy(ROOT / "Dockerfile", context)
    few = {"install": ("setuptools", "uv"), "run": ("click",), "torch": ("torch",), "tests": ("iniconfig",)}
    text = "".join(f"# [{section}]\n{''.join(map(lock, names))}" for section, names in few.items())
    (context / "requirements.lock").write_text(text)
    (context / "requirements").mkdir()
    for name in ("cuda", "java"):
        (context / "requirements" / f"{name}.lock").write_text("")
    tag = f"pan_scdg-test-{os.getpid()}-torch"
    settings = ("--build-arg", f"BASE_IMAGE={base_image}", "--build-arg", f"TORCH_INDEX_URL={index}")
    docker("build", "--network", "host", "--force-rm", *settings, "--target", "packages", "-t", tag, context)
    installed = docker("run", "--rm", "--network", "none", "--entrypoint", "pip", tag, "list", "--format", "freeze")
    docker("rmi", tag)
    names = installed.stdout.split()
    assert f"{requirement('torch')}+cpu" in names
    assert requirement("click") in names
    assert not [name for name in names if name.startswith(("iniconfig", "nvidia", "cuda", "triton"))]


@pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no index with CPU wheels of torch")
def test_an_image_without_cuda_is_small_and_runs(
    docker: Docker, base_image: str, pairs: Path, open_folder: Callable[[str], Path]
) -> None:
    tag, output = f"pan_scdg-test-{os.getpid()}-cpu", open_folder("out")
    settings = ("--build-arg", f"BASE_IMAGE={base_image}", "--build-arg", f"TORCH_INDEX_URL={os.environ[VARIABLE]}")
    docker("build", *settings, "-t", tag, ROOT)
    size = json.loads(docker("image", "inspect", tag).stdout)[0]["Size"]
    done = in_container(docker, tag, pairs, output)
    docker("rmi", "--force", tag)
    assert done.returncode == 0, done.stderr
    assert "decisions.jsonl" in visible(output)
    assert size <= LARGEST
