"""Find bundled data: beside the package in a clone or an image, inside it in an installed wheel."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
INSIDE = PACKAGE / "_bundled"
"""Folder of the bundled data in a wheel; see ``force-include`` in pyproject.toml."""


def find_bundled(name: str) -> Path:
    """Return the bundled folder ``examples`` or ``model_cache``."""
    return INSIDE / name if INSIDE.is_dir() else PACKAGE.parent / name


def is_installed() -> bool:
    """Return True in an installed wheel, whose folders may not be writable."""
    return INSIDE.is_dir()
