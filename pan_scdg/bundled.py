"""Find what is bundled with the project: in a clone or an image beside the package, in an installed wheel inside it."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
INSIDE = PACKAGE / "_bundled"
"""Where the wheel has ``examples`` and ``models.cache``: the build maps them there."""


def find_bundled(name: str) -> Path:
    """Return the folder ``examples`` or ``models.cache``; of a clone where there is one."""
    return INSIDE / name if INSIDE.is_dir() else PACKAGE.parent / name


def is_installed() -> bool:
    """Return True in an installed wheel, whose folders may not be writable."""
    return INSIDE.is_dir()
