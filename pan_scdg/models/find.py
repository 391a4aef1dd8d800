"""Find models in the model cache, in the Hugging Face cache or in a folder, and list those that profiles need."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from pan_scdg.bundled import MODEL_CACHE_VARIABLE, find_bundled, find_hub_cache, find_model_cache
from pan_scdg.errors import UserError
from pan_scdg.models.catalogue import (
    BUNDLED,
    CATALOGUE,
    CONFIG,
    PACKAGED,
    REVISION_FILE,
    UNKNOWN_LICENCE,
    find_licence,
    list_repositories,
)
from pan_scdg.models.checkpoint import BROKEN_LINK, check_entries, find_broken_link
from pan_scdg.models.encoder_files import MODULES, check_encoder, find_encoder_folder

SHORT = 12
"""Characters of a commit or hash that are shown."""
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""A name that a snapshot can have; never one that leads out of its folder."""
_MAX_REVISION_BYTES = 1000
_FORBIDDEN_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")

Where = Literal["--model", "model_cache", "huggingface cache", "folder", "package"]


class ModelNotFoundError(UserError):
    """No folder of the model exists."""


class FoundModel(NamedTuple):
    """A model's folder and how it was found."""

    name: str
    folder: Path
    where: Where
    """``folder`` is one that a profile names, ``package`` an installed one."""
    revision: str | None = None
    """The commit of a snapshot or of a fetched folder; None: unknown."""

    @property
    def shown(self) -> str:
        """Return the name for output: the path of a folder that the user gave, otherwise the model's name."""
        return str(self.folder) if self.where == "--model" else self.name

    @property
    def licence(self) -> str:
        """Return the licence in words; a folder that is only named by its path may be of any model."""
        return UNKNOWN_LICENCE if self.where in ("--model", "folder") else find_licence(self.name)


def find_model(name: str, folder: Path | None = None) -> FoundModel:
    """Return a language model: ``folder``, else ``NAME`` in the model cache, else a snapshot in the hub's cache.

    Args:
        name: the model's name in a profile.
        folder: from ``--model``. Nothing else is searched then, and the model is named after the folder.

    Raises:
        UserError: the model is nowhere, its folder has no ``config.json`` or has entries other than files and folders,
            or several snapshots could be meant.
    """
    if folder is None:
        model = _search(name, CONFIG)
    else:
        _check_mark(name, folder, CONFIG)
        model = FoundModel(name_folder(folder), folder, "--model")
    check_entries(model.folder)
    return model


def find_encoder(name: str) -> FoundModel:
    """Return an embedding model: in an installed package, in one of the caches, or in the folder that ``name`` is.

    Raises:
        UserError: the model is nowhere, several snapshots could be meant, or the folder needs code or has files
            that do not belong to an embedding model.
    """
    if name in PACKAGED:
        return FoundModel(name, find_encoder_folder(name), "package")
    model = FoundModel(name, Path(name), "folder")
    if not model.folder.is_absolute():
        try:
            model = _search(name, MODULES)
        except ModelNotFoundError:
            if not model.folder.is_dir():
                raise
    check_encoder(find_encoder_folder(model.folder))
    return model


def describe_models(models: Iterable[FoundModel]) -> str:
    """Return one line that names each distinct model, where it was found, and its licence."""
    distinct = {model.folder: model for model in models}.values()
    parts = []
    for model in distinct:
        revision = "" if model.revision is None else f" at {model.revision[:SHORT]}"
        parts.append(f"{model.shown} from {model.where}{revision}, {model.licence}")
    return f"models: {'; '.join(parts)}"


def name_folder(folder: Path) -> str:
    """Return a name that a profile can use for ``folder``: its own name, or that of a snapshot's repository."""
    folder = folder.resolve()
    name = folder.name
    if folder.parent.name == "snapshots" and folder.parent.parent.name.startswith("models--"):
        name = folder.parent.parent.name.rpartition("--")[2]
    return _FORBIDDEN_IN_NAMES.sub("-", name).lstrip("._-") or "model"


def describe_size(size: int) -> str:
    """Return bytes as decimal gigabytes or megabytes with at most three digits."""
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"


def _search(name: str, mark: str) -> FoundModel:
    """Return the model from the model cache, the installed package or the Hugging Face cache.

    Args:
        name: the model's name in a profile.
        mark: the file that a folder of such a model has.
    """
    cached, bundled = find_model_cache() / name, find_bundled("model_cache") / name
    if name in BUNDLED and not cached.is_dir() and (bundled / mark).is_file():
        return FoundModel(name, bundled, "package")
    if cached.is_dir():
        _check_mark(name, cached, mark)  # a partly copied folder must not be replaced by another copy of the model
        return FoundModel(name, cached, "model_cache", _read_revision(cached / REVISION_FILE))
    snapshot = _find_snapshot(name, _find_repository(name, mark))
    if lack := _find_lack(snapshot, mark):
        raise _explain_incomplete(name, snapshot, mark, lack)
    return FoundModel(name, snapshot, "huggingface cache", snapshot.name)


def _check_mark(name: str, folder: Path, mark: str) -> None:
    if not (folder / mark).is_file():
        lack = f"has no {mark}" if folder.is_dir() else "does not exist"
        if (folder / mark).is_symlink():
            lack = f"has a {mark} that is {BROKEN_LINK}"
        raise UserError(f"model {name}: the folder {lack}", _describe_ways(name, mark), folder)


def _describe_ways(name: str, mark: str) -> str:
    """Return the ways to provide a model: three for a language model, two for an encoder."""
    repository = [*list_repositories(name), f"ORG/{name}"][0]
    put = f"put the checkpoint into {find_model_cache() / name} ({MODEL_CACHE_VARIABLE} names another cache"
    if name in CATALOGUE:
        put += f"; `models fetch {name}`{', with a revision,' if CATALOGUE[name].commit is None else ''} does it"
    mount = f"mount {repository} in the Hugging Face cache (on TIRA: --mount-hf-model {repository})"
    return f"{put}), {mount}, or give its folder as the model" if mark == CONFIG else f"{put}), or {mount}"


def _find_repository(name: str, mark: str) -> Path:
    """Return the folder of the model's repository in the Hugging Face cache.

    For a model that the catalogue lacks, that is any repository whose second part is its name.
    """
    hub, repositories = find_hub_cache(), list_repositories(name)
    folders = [hub / f"models--{repository.replace('/', '--')}" for repository in repositories]
    if not repositories and _REVISION.fullmatch(name):
        folders = sorted(hub.glob(f"models--*--{name}"))
    folders = [folder for folder in folders if folder.is_dir()]
    if not folders:
        what = f"the folder does not exist, and {hub} contains no {[*repositories, f'ORG/{name}'][0]} either"
        raise ModelNotFoundError(f"model {name}: {what}", _describe_ways(name, mark), find_model_cache() / name)
    if len(folders) > 1:
        what = f"model {name}: the cache contains {' and '.join(folder.name for folder in folders)}"
        raise UserError(what, _choose_one(name), hub)
    return folders[0]


def _find_snapshot(name: str, repository: Path) -> Path:
    """Return the snapshot that ``refs/main`` names, or the only one."""
    main, snapshots = repository / "refs" / "main", repository / "snapshots"
    if main.is_file():
        revision = _read_revision(main)
        if revision is None or not (snapshots / revision).is_dir():
            raise UserError(f"model {name}: it names no existing snapshot", "mount or fetch it again", main)
        return snapshots / revision
    folders = sorted(path for path in snapshots.glob("*") if path.is_dir())
    if not folders:
        raise UserError(f"model {name}: no snapshot was found", "mount or fetch it again", repository)
    if len(folders) > 1:
        names = ", ".join(path.name for path in folders)
        what = f"model {name}: refs/main is missing, and there are several snapshots: {names}"
        raise UserError(what, _choose_one(name), repository)
    return folders[0]


def _find_lack(snapshot: Path, mark: str) -> str | None:
    """Return what a snapshot lacks: a download that stopped, or fetched its settings alone, leaves a part."""
    if broken := find_broken_link(snapshot):
        return f"{broken}, which is {BROKEN_LINK}"
    if not (snapshot / mark).is_file():
        return mark
    index = next(iter(snapshot.glob("*.safetensors.index.json")), None)
    text = "" if index is None else index.read_text("utf-8", "replace")
    parts: list[str] = re.findall(r'"([^"/]+\.safetensors)"', text)
    if missing := [name for name in sorted(set(parts)) if not (snapshot / name).is_file()]:
        return missing[0]
    return None if any(path.is_file() for path in snapshot.rglob("*.safetensors")) else "weights (.safetensors)"


def _explain_incomplete(name: str, snapshot: Path, mark: str, lack: str) -> UserError:
    """Return the error for a snapshot that lacks a file; it names another snapshot that is complete."""
    what, remedy = f"model {name}: the snapshot {snapshot.name} lacks {lack}", "mount or fetch it again"
    others = [path for path in sorted(snapshot.parent.iterdir()) if path.is_dir() and _find_lack(path, mark) is None]
    if others:
        what += f", and {others[0].name} is complete"
        remedy += f", or give {others[0]} as the model"
    elif mark == CONFIG and any(snapshot.glob("*.bin")):
        remedy = "convert the weights to safetensors"
    return UserError(what, remedy, snapshot)


def _choose_one(name: str) -> str:
    return f"keep one of them, or put the right one into {find_model_cache() / name}"


def _read_revision(path: Path) -> str | None:
    """Return the commit that a file names; None if it does not exist or names none."""
    if not path.is_file():
        return None
    with path.open(encoding="ascii", errors="replace") as file:
        revision = file.read(_MAX_REVISION_BYTES).strip()
    return revision if _REVISION.fullmatch(revision) else None
