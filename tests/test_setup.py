"""The set-up script fails early and says what to do, and it does nothing when nothing has changed."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "setup.sh", tmp_path / "tools")
    shutil.copy(ROOT / "requirements.lock", tmp_path)
    return tmp_path


def setup(clone: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {k: v for k, v in os.environ.items() if k not in ("PYTHON", "TORCH_INDEX_URL")}
    return subprocess.run(
        ["bash", "tools/setup.sh"], cwd=clone, env=inherited | environment, capture_output=True, text=True, timeout=60
    )


def test_names_the_python_versions_it_needs(clone: Path) -> None:
    done = setup(clone, PYTHON="no-such-python")
    assert done.returncode == 2
    assert "no Python 3.10 to 3.12 found" in done.stderr
    assert "PYTHON=" in done.stderr
    assert not (clone / ".venv").exists()


@pytest.mark.parametrize(("index", "needed"), [({}, "7"), ({"TORCH_INDEX_URL": "http://localhost:1/cpu"}, "3")])
def test_refuses_a_full_disk_after_saying_what_it_would_download(
    clone: Path, index: dict[str, str], needed: str
) -> None:
    (clone / "bin").mkdir()
    df = clone / "bin" / "df"
    df.write_text(
        "#!/bin/sh\necho 'Filesystem 1024-blocks Used Available Capacity Mounted'\necho 'x 9 9 2097152 9% /'\n"
    )
    df.chmod(0o755)
    done = setup(clone, PYTHON=sys.executable, PATH=f"{clone / 'bin'}:{os.environ['PATH']}", **index)
    assert done.returncode == 2
    assert f"only 2 GB of disk free here, {needed} GB needed" in done.stderr
    assert "GB of" in done.stdout
    assert not (clone / ".venv").exists()


def test_installed_environment_is_left_alone(clone: Path) -> None:
    python = clone / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    (python.parent / "pan-scdg").symlink_to("python")
    digest = hashlib.sha256((clone / "requirements.lock").read_bytes()).hexdigest()
    (clone / ".venv" / "requirements.sha256").write_text(digest + "\n")
    done = setup(clone, PYTHON="no-such-python")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
