"""Where models lie on disk. Nothing is ever fetched here."""

import os
from pathlib import Path

from pan_scdg.errors import UserError

VARIABLE = "PAN_SCDG_MODEL_CACHE"


def cache_folder() -> Path:
    """``$PAN_SCDG_MODEL_CACHE``, else ``model_cache`` beside the package."""
    return Path(os.environ.get(VARIABLE) or Path(__file__).resolve().parent.parent / "model_cache")


def find_model(name: str, given: Path | None = None) -> Path:
    """The folder of a language model: ``given`` if there is one, else ``model_cache/NAME``.

    Raises:
        UserError: there is no such folder, or it has no ``config.json``.
    """
    folder = given if given is not None else cache_folder() / name
    if (folder / "config.json").is_file():
        return folder
    what = "has no config.json" if folder.is_dir() else "does not exist"
    raise UserError(
        f"model {name}: the folder {what}",
        f"put the checkpoint into {cache_folder() / name}, set {VARIABLE}, or give its folder with --model",
        folder,
    )
