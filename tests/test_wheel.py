"""The wheel: built from the clone and run outside of it, with the bundled model and examples."""

import importlib.util
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pan_scdg.commit import find_commit

ROOT = Path(__file__).parents[1]
Call = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling, which builds the wheel, is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--disable-pip-version-check", "--wheel-dir", folder]
    done = subprocess.run([sys.executable, "-m", "pip", "wheel", *options, ROOT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def call(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Call:
    """Run the installed script, or a module or code with the installed package, in an empty folder."""
    site, place = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("elsewhere")
    options = ["--no-deps", "--no-index", "--quiet", "--disable-pip-version-check", "--target", site]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, wheel], check=True)

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        start = words if words[0].startswith("-") else (site / "bin" / words[0], *words[1:])
        environment = {**os.environ, "PYTHONPATH": str(site), "HF_HUB_OFFLINE": "1"}
        return subprocess.run(
            [sys.executable, *start], cwd=place, env=environment, capture_output=True, text=True, timeout=900
        )

    return run


def test_the_wheel_holds_the_package_and_its_data_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    data = {"pan_scdg/py.typed", "pan_scdg/profiles/offline.toml", "pan_scdg/_bundled/examples/README.md"}
    data |= {f"pan_scdg/retrieval/{name}.txt" for name in ("terrier_stopwords", "MPL-1.1")}
    data |= {f"pan_scdg/report/templates/{name}" for name in ("report.html.j2", "report.css", "start.js")}
    assert data < set(names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"pan_scdg"}
    models = ("scdg-mini", "reuse-minilm")
    assert {f"pan_scdg/_bundled/model_cache/{name}/model.safetensors" for name in models} < set(names)
    assert not [name for name in names if "__pycache__" in name or "/." in name]
    assert zipfile.ZipFile(wheel).read("pan_scdg/COMMIT").decode().strip() == find_commit()


def test_the_script_and_the_module_are_the_command_line(call: Call) -> None:
    script, module = call("pan-scdg", "profiles"), call("-m", "pan_scdg", "profiles")
    assert (script.returncode, script.stderr) == (0, "")
    assert script.stdout == module.stdout
    assert "Usage: pan-scdg " in call("pan-scdg", "run", "--help").stdout
    assert "Usage: python -m pan_scdg " in call("-m", "pan_scdg", "--help").stdout


@pytest.mark.long
def test_the_demo_runs_on_the_bundled_model_and_examples(call: Call) -> None:
    done = call("pan-scdg", "--quiet", "demo", "--device", "cpu")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("One decision explained: ")
    assert "nDCG@10" in done.stdout


@pytest.mark.long
def test_the_python_interface_finds_the_bundled_model(call: Call) -> None:
    code = "from pan_scdg import Scorer\nwith Scorer() as s: print(len(s.score('One two three.', 'One two.').gains))"
    done = call("-c", code)
    assert (done.returncode, int(done.stdout) > 0) == (0, True), done.stderr
