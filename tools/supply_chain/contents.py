"""Print what an image contains, as JSON: ``docker run --rm -i --entrypoint python IMAGE - < contents.py``.

Python packages with their licences, packages of the distribution, and models and jars with their SHA-256. It needs
nothing but Python, and reads licences for the page of licences, too.
"""

import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path

JAVA = Path("/opt/java")
DATA = Path("/app/model_cache")
NOT_STATED = "not stated"


def read_licence(found: Distribution) -> str:
    """Return the licence that a package states: its expression, else its classifiers, else the first line of a text."""
    metadata = found.metadata
    if expression := metadata.get("License-Expression"):
        return str(expression)
    stated = [c.split(" :: ")[-1] for c in metadata.get_all("Classifier") or [] if c.startswith("License ::")]
    lines = str(metadata.get("License") or "").strip().splitlines()
    if not stated and not lines:
        files = sorted(path for path in found.files or [] if re.match(r"(LICEN[SC]E|COPYING)", path.name, re.I))
        lines = next((path.read_text(encoding="utf-8").strip().splitlines() for path in files), [])
    return "; ".join(stated) or (lines[0].strip() if lines else NOT_STATED)


def list_python(places: Iterable[str]) -> list[tuple[str, str, str]]:
    """Return name, version and licence of each Python package, those of the first place first."""
    found: dict[str, tuple[str, str, str]] = {}
    for distribution in distributions(path=list(places)):
        name = distribution.metadata["Name"]
        found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), (name, distribution.version, read_licence(distribution)))
    return sorted(found.values())


def list_debian() -> list[tuple[str, str, str]]:
    """Return name, version and architecture of each package of the distribution; none where dpkg is absent."""
    if shutil.which("dpkg-query") is None:
        return []
    words = ["dpkg-query", "--show", "--showformat", "${Package} ${Version} ${Architecture}\n"]
    lines = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
    return sorted((name, version, architecture) for name, version, architecture in map(str.split, lines))


def list_files(folder: Path) -> list[tuple[str, str]]:
    """Return path, relative to the folder, and SHA-256 of each model and jar."""
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix in (".safetensors", ".jar")]
    return [(str(path.relative_to(folder)), hash_file(path)) for path in paths]


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def main() -> None:
    """Print the three lists, and the version of Python."""
    places = [path for path in (*sys.path, str(JAVA)) if path and Path(path).is_dir()]
    contents = {"python": list_python(places), "debian": list_debian(), "files": list_files(DATA)}
    json.dump({"version": platform.python_version(), **contents}, sys.stdout)


if __name__ == "__main__":
    main()
