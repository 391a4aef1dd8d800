"""Terrier's jars on disk, and the Java virtual machine that runs them, for the engine `bm25_terrier` alone.

Nothing is fetched at run time.
"""

import hashlib
import importlib
import io
import os
import shutil
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from pan_scdg.bundled import find_model_cache, make_cache_folder
from pan_scdg.errors import UserError, get_first_line, need_packages

HOME = "PYTERRIER_HOME"
TERRIER, HELPER = "5.11", "0.0.8"
"""Terrier is the paper's version; the helper is the one that PyTerrier 0.13.0 was released with."""
TERRIER_JAR = f"terrier-assemblies-{TERRIER}-jar-with-dependencies.jar"
HELPER_JAR = f"terrier-python-helper-{HELPER}.jar"
DIGESTS = {
    TERRIER_JAR: "6bd866e152573c1cb7e7ffbd731f13b48992dc926c0c34806f72e8c80935554c",
    HELPER_JAR: "87a8040827f26bc352aeb76c46aedfb12226566853838222b0fbd790e6c9df4c",
}
"""SHA-256 of each jar, as fetched when this was written."""
MEMORY_VARIABLE, MEMORY_MIB = "PAN_SCDG_JAVA_MIB", 2048
REMEDY = "run: pan-scdg models fetch terrier"


def find_jar_folder() -> Path:
    """Return ``$PYTERRIER_HOME``, else ``terrier`` in the model cache."""
    return Path(os.environ.get(HOME) or find_model_cache() / "terrier")


def check_jars() -> None:
    """Check that both jars are there.

    Raises:
        UserError: one of them has not been fetched.
    """
    for name in (TERRIER_JAR, HELPER_JAR):
        if not (find_jar_folder() / name).is_file():
            raise UserError(f"Terrier's {name} was not found", REMEDY, find_jar_folder())


def fetch_jars() -> Path:
    """Fetch both jars with PyTerrier's own resolver and return their folder; existing ones are kept.

    Nothing else needs the network. A jar gets its name once it is complete and has the known digest.

    Raises:
        UserError: the cache cannot be written, or a jar cannot be fetched or is not the expected one.
    """
    folder = find_jar_folder()
    make_cache_folder(folder)
    os.environ.setdefault(HOME, str(folder))
    for name in (TERRIER_JAR, HELPER_JAR):
        if not (folder / name).is_file():
            _fetch(name, folder)
    return folder


def _fetch(name: str, folder: Path) -> None:
    need_packages("terrier", "pyterrier")
    resolver: Any = importlib.import_module("pyterrier.java.mavenresolver")
    package, version, kind = (
        ("terrier-assemblies", TERRIER, "jar-with-dependencies")
        if name == TERRIER_JAR
        else ("terrier-python-helper", HELPER, "jar")
    )
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as partial:
        try:
            with redirect_stdout(sys.stderr):
                jar = resolver.get_package_jar("org.terrier", package, version, partial, kind)
            whole = shutil.copyfile(jar, Path(partial) / "whole")
        except (OSError, ValueError) as e:
            raise UserError(f"{name} cannot be fetched: {e}", "check the network connection and try again") from e
        with whole.open("rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        if digest != DIGESTS[name]:
            raise UserError(f"{name} has the wrong SHA-256: {digest}", "try again later")
        whole.replace(folder / name)


def start_terrier() -> Any:
    """Return PyTerrier, with Java and Terrier started in this process, once, without network.

    Java gets at most 2 GiB of heap, or ``$PAN_SCDG_JAVA_MIB``: by default it would take a quarter of the
    machine, beside models and vectors that need the memory.

    Raises:
        UserError: a jar is missing, the memory is no whole number, or no Java runtime of version 11 or later starts.
    """
    need_packages("terrier", "pyterrier")
    check_jars()
    os.environ.setdefault(HOME, str(find_jar_folder()))  # PyTerrier reads it when it is imported
    java = shutil.which("java")
    if java is not None:  # by itself the bridge to Java looks for a compiler, which a mere runtime does not have
        os.environ.setdefault("JAVA_HOME", str(Path(java).resolve().parent.parent))
    pt: Any = importlib.import_module("pyterrier")  # only parts of it have types
    if pt.java.started():
        return pt
    pt.terrier.set_version(TERRIER)
    pt.terrier.set_helper_version(HELPER)
    pt.java.mavenresolver.offline()
    pt.java.set_memory_limit(_choose_heap())
    # Terrier logs to the standard output, which is for results; fatal errors are raised as exceptions anyway.
    pt.java.set_log_level("OFF")
    # Python's streams may be replaced or closed while Java still lives.
    pt.java.set_redirect_io(False)
    try:
        with redirect_stderr(io.StringIO()):  # a greeting
            pt.java.init()
    except Exception as e:  # what fails depends on the machine: no JAVA_HOME, no libjvm, an old version
        raise UserError(
            f"no Java runtime starts: {get_first_line(e)}",
            'install a Java runtime 11 or later or set JAVA_HOME, or choose a profile with bm25 = "impact"',
        ) from e
    return pt


def _choose_heap() -> int:
    """Return the size of the largest heap in MiB."""
    text = os.environ.get(MEMORY_VARIABLE) or str(MEMORY_MIB)
    if not text.isascii() or not text.isdigit() or int(text) < 64:
        raise UserError(f"{MEMORY_VARIABLE} is {text!r}", "give a whole number of MiB, at least 64")
    return int(text)
