"""The models of an image, fetched with only those files of the package that the Dockerfile copies for it."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pan_scdg.bundled import MODEL_CACHE_VARIABLE
from pan_scdg.digests import hash_file
from pan_scdg.models.fetch import main
from pan_scdg.models.lock import LOCK, Locked, read_lock, write_lock
from tests.local_hub import LocalHub, serving

ROOT = Path(__file__).parents[2]
NAME, REPOSITORY, COMMIT = "Qwen3-0.6B-Base", "Qwen/Qwen3-0.6B-Base", "0123456789abcdef" * 2 + "01234567"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("scdg-mini@main", "scdg-mini is bundled; leave it out"),
        (f"{NAME}@a Qwen9@b", "no bundled profile uses a model 'Qwen9'; give one of: Qwen3-0.6B-Base, "),
        ("../../etc@a", "no bundled profile uses a model '../../etc'"),
        ("bge-m3", "bge-m3 needs a revision"),
        ("Llama-3.1-8B@main", "is gated, and a build has no token; fetch it with HF_TOKEN into model_cache/image"),
    ],
)
def test_words_that_mean_nothing_are_refused_before_anything_is_fetched(
    words: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(MODEL_CACHE_VARIABLE, str(tmp_path))
    assert main(words) == 2
    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_the_folder_for_images_has_is_not_fetched_on_top_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(MODEL_CACHE_VARIABLE, str(tmp_path))
    write_lock(NAME, Locked(repository=REPOSITORY, revision=COMMIT, files={}))
    assert main(f"{NAME}@main") == 2
    assert f"MODELS names {NAME}, which is in model_cache/image; leave it out" in capsys.readouterr().err


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    """Return a folder with the files of the package that the Dockerfile's stage ``models`` has."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    (body,) = re.findall(r"^FROM packages AS models\n(.*?)^FROM ", text, re.M | re.S)
    for words in map(shlex.split, re.findall(r"^COPY (pan_scdg/.*)$", body, re.M)):
        for name in words[:-1]:
            (tmp_path / words[-1]).mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / words[-1])
    (tmp_path / "model_cache").mkdir()
    return tmp_path


@pytest.fixture
def hub(tiny_folder: Callable[[str], Path]) -> Iterator[LocalHub]:
    files = {p.name: p.read_bytes() for p in sorted(tiny_folder("qwen3").iterdir())}
    with serving(LocalHub(REPOSITORY, COMMIT, files)) as found:
        yield found


def test_the_stage_of_the_dockerfile_has_what_fetching_needs(
    stage: Path, hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "PAN_SCDG_"))}
    own = {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(stage / "hf"), "NO_PROXY": "*"}

    def build(words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "pan_scdg.models.fetch", words]
        return subprocess.run(command, cwd=stage, env=kept | own, capture_output=True, text=True, timeout=120)

    wrong = build(f"scdg-mini,{NAME}@v9")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == f"error: {REPOSITORY} has no revision 'v9'; name a commit, branch or tag of the repository\n"
    right = build(f"scdg-mini {NAME}@main")
    assert (right.returncode, right.stderr) == (0, "")
    assert f"{REPOSITORY} at {COMMIT}" in right.stdout
    folder = stage / "model_cache" / NAME
    assert sorted(p.name for p in folder.parent.iterdir()) == [NAME, LOCK]
    monkeypatch.setenv(MODEL_CACHE_VARIABLE, str(folder.parent))
    assert read_lock() == {
        NAME: Locked(repository=REPOSITORY, revision=COMMIT, files={p.name: hash_file(p) for p in folder.iterdir()})
    }
