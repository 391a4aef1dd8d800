"""Find the folders that are bundled with the project, and the caches that hold fetched models.

In a clone or an image the bundled folders are beside the package, in an installed wheel inside it.
"""

import os
from pathlib import Path

from pan_scdg.errors import UserError

PACKAGE = Path(__file__).resolve().parent
INSIDE = PACKAGE / "_bundled"
"""Folder of the bundled data in a wheel; see ``force-include`` in pyproject.toml."""
MODEL_CACHE_VARIABLE = "PAN_SCDG_MODEL_CACHE"


def find_bundled(name: str) -> Path:
    """Return the folder ``examples`` or ``model_cache``; in a clone the one beside the package."""
    return INSIDE / name if INSIDE.is_dir() else PACKAGE.parent / name


def find_example(name: str) -> Path:
    """Return the folder of an example: ``"essays"``, ``"pan25-pairs"`` or ``"pan26-retrieval"``.

    Raises:
        UserError: there is no example of this name.
    """
    folder = find_bundled("examples") / name
    if not folder.is_dir():
        raise UserError(f"no example is named {name!r}", "use essays, pan25-pairs or pan26-retrieval")
    return folder


def is_installed() -> bool:
    """Return True in an installed wheel, whose folders may be read-only."""
    return INSIDE.is_dir()


def find_model_cache() -> Path:
    """Return ``$PAN_SCDG_MODEL_CACHE``, else ``model_cache`` of the clone, else a folder in the user's cache."""
    if given := os.environ.get(MODEL_CACHE_VARIABLE):
        return Path(given)
    if not is_installed():
        return find_bundled("model_cache")
    return _expand_home(Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")) / "pan_scdg"


def make_cache_folder(folder: Path) -> None:
    """Create a folder in the model cache, and those above it.

    Raises:
        UserError: it cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise UserError(
            f"cannot be written: {e.strerror}", f"name another cache with {MODEL_CACHE_VARIABLE}", folder
        ) from e


def find_hub_cache() -> Path:
    """Return the Hugging Face cache: ``$HF_HUB_CACHE``, else ``$HF_HOME/hub``, else ``~/.cache/huggingface/hub``.

    TIRA mounts models there, read-only, and sets neither variable.
    """
    home = os.environ.get("HF_HOME") or "~/.cache/huggingface"
    return _expand_home(Path(os.environ.get("HF_HUB_CACHE") or f"{home}/hub"))


def _expand_home(folder: Path) -> Path:
    try:
        return folder.expanduser()
    except RuntimeError:  # a user of a container without a home
        return folder
