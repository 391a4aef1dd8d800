"""Where models lie on disk, and in which order they are looked for. Nothing is ever fetched here."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

from pan_scdg.bundled import find_bundled, is_installed
from pan_scdg.errors import UserError
from pan_scdg.models.files import check_entries

VARIABLE = "PAN_SCDG_MODEL_CACHE"
CONFIG, MODULES = "config.json", "modules.json"
"""What a language model's folder, and what a sentence-transformers model's folder has in it."""
REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""A name that can be that of a snapshot; never one that leads out of its folder."""
LONGEST_REVISION = 1000
"""Characters of ``refs/main`` that are read; a commit has 40."""
_FOREIGN = re.compile(r"[^A-Za-z0-9._-]+")

Where = Literal["--model", "model_cache", "huggingface cache", "folder", "package"]


class ModelNotFoundError(UserError):
    """There is no folder of the model anywhere."""


class FoundModel(NamedTuple):
    """A model's folder and how it was found."""

    name: str
    folder: Path
    where: Where
    """``folder`` is one that a profile names, ``package`` an installed one."""
    revision: str | None = None
    """The commit of a snapshot in the Hugging Face cache; None: not known from the place alone."""

    @property
    def shown(self) -> str:
        """What it is called in output: a folder that the user gave by its path, whatever a profile is about."""
        return str(self.folder) if self.where == "--model" else self.name


def cache_folder() -> Path:
    """Return ``$PAN_SCDG_MODEL_CACHE``, else ``models.cache`` of the clone, else a folder in the user's cache."""
    if given := os.environ.get(VARIABLE):
        return Path(given)
    return _user_cache() if is_installed() else find_bundled("model_cache")


def _user_cache() -> Path:
    """Return where an installed package, whose own folder may be read-only, keeps what it fetches."""
    return _expand_home(Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")) / "pan_scdg"


def _expand_home(folder: Path) -> Path:
    try:
        return folder.expanduser()
    except RuntimeError:  # a container's user without a home
        return folder


def hub_folder() -> Path:
    """The Hugging Face cache: ``$HF_HUB_CACHE``, else ``$HF_HOME/hub``, else ``~/.cache/huggingface/hub``.

    TIRA mounts models there, read-only, and sets neither variable.
    """
    home = os.environ.get("HF_HOME") or "~/.cache/huggingface"
    return _expand_home(Path(os.environ.get("HF_HUB_CACHE") or f"{home}/hub"))


def find_model(name: str, given: Path | None = None, repositories: Sequence[str] = ()) -> FoundModel:
    """A language model: the folder ``given``, else ``model_cache/NAME``, else a snapshot in the Hugging Face cache.

    Args:
        name: the model's, from a profile.
        given: what the user said with ``--model``; then nowhere else is looked, and the model has its name.
        repositories: names of it on the Hugging Face hub; none: any repository whose second part is ``name``.

    Raises:
        UserError: it is in none of them, it has no ``config.json``, it is not clear which snapshot is meant, or the
            folder holds something else than files and folders.
    """
    with _permitted(name, repositories, True):
        if given is None:
            found = _find(name, repositories, CONFIG) or _missing(name, repositories, True)
            check_entries(found.folder)
            return found
        if (given / CONFIG).is_file():
            check_entries(given)
            return FoundModel(folder_name(given), given, "--model")
        raise UserError(f"model {name}: the folder {_lacks(given, CONFIG)}", _ways(name, repositories, True), given)


def find_embedding(name: str, repositories: Sequence[str] = ()) -> FoundModel:
    """The same for the encoder of the dense routes, which has no ``--model``; a profile may name a folder instead.

    Raises:
        UserError: it is nowhere, it has no ``modules.json``, or it is not clear which snapshot is meant.
    """
    if Path(name).is_absolute():
        return FoundModel(name, Path(name), "folder")
    with _permitted(name, repositories, False):
        if found := _find(name, repositories, MODULES):
            return found
        return FoundModel(name, Path(name), "folder") if Path(name).is_dir() else _missing(name, repositories, False)


def folder_name(folder: Path) -> str:
    """Return what a profile can call the model in ``folder``: the folder's name, or the repository's of a snapshot."""
    at = folder.resolve()
    name = at.name
    if at.parent.name == "snapshots" and at.parent.parent.name.startswith("models--"):
        name = at.parent.parent.name.rpartition("--")[2]
    return _FOREIGN.sub("-", name).lstrip("._-") or "model"


@contextmanager
def _permitted(name: str, repositories: Sequence[str], language_model: bool) -> Iterator[None]:
    """A folder that may not be read, such as root's for another user of a container, is a fault of the user's."""
    try:
        yield
    except PermissionError as e:
        ways = _ways(name, repositories, language_model)
        raise UserError(f"model {name}: cannot be read: {e.strerror}", f"permit it, or {ways}", e.filename) from e


def _find(name: str, repositories: Sequence[str], mark: str) -> FoundModel | None:
    """The model in one of the two caches; None: in neither."""
    own, bundled = cache_folder() / name, find_bundled("model_cache") / name
    if not own.is_dir() and is_installed() and (bundled / mark).is_file():
        return FoundModel(name, bundled, "package")
    if own.is_dir():
        if (own / mark).is_file():
            return FoundModel(name, own, "model_cache")
        # a half copied folder is no reason to go on with another copy of the model
        raise UserError(
            f"model {name}: the folder {_lacks(own, mark)}", _ways(name, repositories, mark == CONFIG, own), own
        )
    mounted = _mounted(name, repositories)
    if mounted is None:
        return None
    snapshot = _snapshot(name, mounted)
    if not (snapshot / mark).is_file():
        raise UserError(f"model {name}: the snapshot {_lacks(snapshot, mark)}", "mount or fetch it again", snapshot)
    return FoundModel(name, snapshot, "huggingface cache", snapshot.name)


def _mounted(name: str, repositories: Sequence[str]) -> Path | None:
    """The folder of the model's repository in the Hugging Face cache."""
    hub = hub_folder()
    if repositories:
        folders = [hub / f"models--{repository.replace('/', '--')}" for repository in repositories]
    elif REVISION.fullmatch(name):
        folders = sorted(hub.glob(f"models--*--{name}"))
    else:
        return None
    there = [folder for folder in folders if folder.is_dir()]
    if len(there) > 1:
        raise UserError(
            f"model {name}: the cache holds {' and '.join(folder.name for folder in there)}",
            f"keep one of them, or put the one that is meant into {cache_folder() / name}",
            hub,
        )
    return there[0] if there else None


def _snapshot(name: str, repository: Path) -> Path:
    """The snapshot that ``refs/main`` names, else the only one."""
    main, snapshots = repository / "refs" / "main", repository / "snapshots"
    if main.is_file():
        try:
            with main.open(encoding="ascii") as file:
                revision = file.read(LONGEST_REVISION).strip()
        except (OSError, UnicodeDecodeError) as e:
            raise UserError(f"model {name}: cannot be read: {e}", "mount or fetch it again", main) from e
        if not REVISION.fullmatch(revision) or not (snapshots / revision).is_dir():
            raise UserError(
                f"model {name}: it names the snapshot {revision!r}, which is not there", "mount or fetch it again", main
            )
        return snapshots / revision
    there = sorted(path for path in snapshots.glob("*") if path.is_dir())
    if len(there) == 1:
        return there[0]
    if not there:
        raise UserError(f"model {name}: no snapshot is there", "mount or fetch it again", repository)
    raise UserError(
        f"model {name}: no refs/main says which of the snapshots is meant: {', '.join(path.name for path in there)}",
        f"keep one of them, or put the one that is meant into {cache_folder() / name}",
        repository,
    )


def _missing(name: str, repositories: Sequence[str], language_model: bool) -> NoReturn:
    own, hub = cache_folder() / name, hub_folder()
    wanted = repositories[0] if repositories else f"ORG/{name}"
    raise ModelNotFoundError(
        f"model {name}: the folder does not exist, and {hub} holds no {wanted} either",
        _ways(name, repositories, language_model, own),
        own,
    )


def _ways(name: str, repositories: Sequence[str], language_model: bool, own: Path | None = None) -> str:
    """The three ways in which a model is provided, an encoder has two of them."""
    into = f"put the checkpoint into {own or cache_folder() / name} ({VARIABLE} names another cache"
    into += f"; `models fetch {name} --revision REV` does it)" if repositories else ")"
    wanted = repositories[0] if repositories else f"ORG/{name}"
    mount = f"mount {wanted} in the Hugging Face cache (on TIRA: --mount-hf-model {wanted})"
    return f"{into}, {mount}, or give its folder with --model" if language_model else f"{into}, or {mount}"


def _lacks(folder: Path, mark: str) -> str:
    return f"has no {mark}" if folder.is_dir() else "does not exist"
