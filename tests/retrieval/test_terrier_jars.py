"""The jars of Terrier: how they are found, fetched and started."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pan_scdg.errors import UserError, need_packages
from pan_scdg.retrieval import terrier_jars

START = "from pan_scdg.retrieval.terrier_jars import start_terrier; start_terrier()"


@pytest.fixture
def _jars() -> None:
    try:
        need_packages("terrier", "pyterrier")
        terrier_jars.check_jars()
    except UserError as e:
        pytest.skip(str(e))


def test_missing_jars_are_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(terrier_jars.HOME, str(tmp_path))
    for call in (terrier_jars.check_jars, terrier_jars.start_terrier):
        with pytest.raises(UserError, match=r"terrier-assemblies-5.11.*models fetch terrier"):
            call()
    (tmp_path / terrier_jars.TERRIER_JAR).touch()
    with pytest.raises(UserError, match=r"terrier-python-helper-0.0.8"):
        terrier_jars.check_jars()


def test_the_jars_lie_in_the_model_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(terrier_jars.HOME, raising=False)
    monkeypatch.setenv("PAN_SCDG_MODEL_CACHE", str(tmp_path))
    assert terrier_jars.find_jar_folder() == tmp_path / "terrier"


def test_a_fetched_jar_must_be_the_known_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resolver = pytest.importorskip("pyterrier.java.mavenresolver")

    def fetched(_organisation: str, package: str, _version: str, folder: str, kind: str) -> str:
        path = Path(folder) / f"{package}.{kind}"
        path.write_bytes(b"another file")
        return str(path)

    monkeypatch.setenv(terrier_jars.HOME, str(tmp_path / "new"))
    monkeypatch.setattr(resolver, "get_package_jar", fetched)
    with pytest.raises(UserError, match="has the wrong SHA-256"):
        terrier_jars.fetch_jars()
    assert list((tmp_path / "new").iterdir()) == []
    digest = "5baa9f3d5a5ecdfa4f3b2d0fdf4a9f1d"
    monkeypatch.setattr(terrier_jars, "DIGESTS", dict.fromkeys(terrier_jars.DIGESTS, digest))
    monkeypatch.setattr(terrier_jars.hashlib, "sha256", lambda _: type("", (), {"hexdigest": lambda self: digest})())
    folder = terrier_jars.fetch_jars()
    assert {p.name for p in folder.iterdir()} == {terrier_jars.TERRIER_JAR, terrier_jars.HELPER_JAR}
    monkeypatch.setattr(resolver, "get_package_jar", lambda *_: pytest.fail("fetched what is there"))
    assert terrier_jars.fetch_jars() == folder


@pytest.mark.parametrize("text", ["much", "0", "-5", "1.5", "63"])
def test_javas_memory_is_a_number_of_mib(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(terrier_jars.MEMORY_VARIABLE, text)
    with pytest.raises(UserError, match="whole number of MiB"):
        terrier_jars._choose_heap()


@pytest.mark.usefixtures("_jars")
def test_a_missing_java_is_explained() -> None:
    """In a process of its own: where Java has started once it stays."""
    environment = {**os.environ, "JAVA_HOME": "/nonexistent", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", START], env=environment, capture_output=True, text=True)
    assert re.search(r"UserError: no Java runtime starts: .*. Install a Java runtime 11 or later", done.stderr)


@pytest.mark.usefixtures("_jars")
def test_a_runtime_without_compiler_is_enough(tmp_path: Path) -> None:
    java = shutil.which("java")
    if java is None:
        pytest.skip("java is not on the path")
    (tmp_path / "java").symlink_to(Path(java).resolve())
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "JDK_HOME")}
    environment["PATH"] = str(tmp_path)
    subprocess.run([sys.executable, "-c", START], env=environment, check=True)
