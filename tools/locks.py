"""Lists of requirements and their locks: ``python -m tools.locks [--upgrade]`` rewrites every lock.

A list, such as requirements.txt, names what this project asks for. Its lock, beside it, has these packages and, but
for lists that are installed on top of another one, all that they depend on, each with the SHA-256 of every file of
that release. What is locked stays at its version, unless the list says otherwise or ``--upgrade`` is given.
"""

import argparse
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
ALL = ROOT / "requirements.txt"
PYTHON = ("--python-version", "3.10")
LISTS = {
    ALL: PYTHON,
    ROOT / "requirements" / "cuda.txt": (*PYTHON, "--no-deps"),
    ROOT / "requirements" / "lint.txt": (*PYTHON, "--constraints", "requirements.lock"),  # into the same environment
    ROOT / "requirements" / "tools.txt": PYTHON,
    ROOT / "requirements" / "transformers5.txt": ("--python-version", "3.11", "--no-deps"),
}
"""Every list, with its additional options of uv."""
COMPILE = ("uv", "pip", "compile", "--quiet", "--universal", "--no-python-downloads", "--no-header")
TESTS = "# What its tests need"
INSTALLERS = ("pip", "setuptools", "uv", "wheel")
SECTIONS = {
    "install": "what installs the rest, first",
    "run": "what runs",
    "torch": "torch and the CUDA libraries of its wheels for Linux; left out where TORCH_INDEX_URL names other wheels",
    "tests": "what the tests need besides",
}
"""Parts of requirements.lock. Each begins with its name in brackets, where tools/setup.sh and the Dockerfile cut."""
HEADER = "# Made by `make lock` from {}; install with: pip install --no-deps --require-hashes -r {}\n"
TORCH = re.compile(r"(torch|triton|nvidia-.*|cuda-.*)$")


class Pin(NamedTuple):
    """A line of a list or a lock."""

    name: str
    """In its canonical form."""
    version: str
    marker: str
    hashes: tuple[str, ...]
    """SHA-256 in hexadecimal; empty in a list."""
    section: str
    """Of requirements.lock; empty elsewhere."""


def find_lock(requirements: Path) -> Path:
    """Return the lock of a list."""
    return requirements.with_suffix(".lock")


def read_pins(path: Path) -> list[Pin]:
    """Return the lines of a list or a lock.

    Raises:
        ValueError: a line is no requirement, or pins no version.
    """
    pins, section = [], ""
    for line in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        if found := re.match(r"# \[(\w+)\]", line):
            section = found[1]
        text, *hashes = re.split(r"\s+--hash=sha256:", re.sub(r"(^|\s)#.*", "", line).strip())
        if text:
            wanted = Requirement(text)
            (pinned,) = wanted.specifier
            if pinned.operator != "==":
                raise ValueError(f"{path.name}: {text} pins no version")
            pins.append(
                Pin(canonicalize_name(wanted.name), pinned.version, str(wanted.marker or ""), tuple(hashes), section)
            )
    return pins


def split_blocks(lock: str) -> list[str]:
    """Return each requirement of a lock as it stands: its line, its hashes, and the comments below."""
    return [block for block in re.split(r"(?m)^(?=[a-z0-9])", lock) if re.match("[a-z0-9]", block)]


def name_block(block: str) -> str:
    """Return the canonical name of a block's package."""
    return canonicalize_name(re.split(r"==", block, maxsplit=1)[0])


def write_lock(requirements: Path, *options: str) -> None:
    """Resolve a list with uv and write its lock."""
    lock = find_lock(requirements)
    words = [*COMPILE, "--generate-hashes", *LISTS[requirements], *options]
    place = requirements.relative_to(ROOT)
    subprocess.run([*words, str(place), "--output-file", str(lock.relative_to(ROOT))], cwd=ROOT, check=True)
    blocks = split_blocks(lock.read_text(encoding="utf-8"))
    text = HEADER.format(place, lock.relative_to(ROOT))
    lock.write_text(text + (arrange_sections(blocks) if requirements == ALL else "".join(blocks)), encoding="utf-8")


def arrange_sections(blocks: list[str]) -> str:
    """Return the blocks of requirements.lock under the headings of ``SECTIONS``, by name: uv keeps a former order."""
    listed = ALL.read_text(encoding="utf-8")
    command = [*COMPILE, *PYTHON, "--no-annotate", "--constraints", "requirements.lock", "-"]
    run_part = listed.partition(TESTS)[0]
    resolved = subprocess.run(command, cwd=ROOT, input=run_part, check=True, capture_output=True, text=True).stdout
    run = {name_block(block) for block in split_blocks(resolved)}

    def choose_section(name: str) -> str:
        if name in INSTALLERS:
            return "install"
        return "torch" if TORCH.match(name) else "run" if name in run else "tests"

    parts = {
        section: [b for b in sorted(blocks, key=name_block) if choose_section(name_block(b)) == section]
        for section in SECTIONS
    }
    return "".join(f"# [{section}] {SECTIONS[section]}\n{''.join(part)}" for section, part in parts.items())


def main() -> None:
    """Write all locks, that of requirements.txt first, for another one is resolved against it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions that the lists allow")
    options = ["--upgrade"] if parser.parse_args().upgrade else []
    for requirements in LISTS:
        write_lock(requirements, *options)


if __name__ == "__main__":
    main()
