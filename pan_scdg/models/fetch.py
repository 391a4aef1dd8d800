"""``models fetch``: a published model at a revision that the user names, into the model cache. Nothing else fetches."""

import hashlib
import logging
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.digests import file_digest
from pan_scdg.errors import UserError
from pan_scdg.models.cache import CONFIG, VARIABLE, cache_folder
from pan_scdg.models.catalogue import CATALOGUE, EMBEDDED, Published, size_in_words
from pan_scdg.models.hub_faults import explained
from pan_scdg.models.lock import KINDS, WEIGHTS, Locked, lock_file, write_lock

NAME = re.compile(r"(\d+_[A-Za-z]+/)?[A-Za-z0-9_][A-Za-z0-9_.-]*")
"""At the top, or in the folder of a module of sentence-transformers (``1_Pooling``): others hold other formats."""
DOUBLE = re.compile(r"consolidated.*\.safetensors")
"""The same weights once more, as Mistral's and Meta's own programs read them."""
TIMEOUT = 30.0
"""Seconds for the hub to say what is in a repository."""


class HubFile(NamedTuple):
    """A file of a revision, as the hub describes it."""

    name: str
    size: int
    sha256: str | None
    """Of a large file."""
    blob: str | None
    """Git's own digest, of a small file."""

    def is_whole(self, path: Path) -> bool:
        """Whether a file on disk has the bytes that the hub has."""
        if not path.is_file() or path.stat().st_size != self.size:
            return False
        if self.sha256 is not None:
            return file_digest(path) == self.sha256
        data = path.read_bytes()
        return self.blob is None or hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest() == self.blob


class HubRevision(NamedTuple):
    """What a repository holds at one commit, as far as it is wanted."""

    commit: str
    files: list[HubFile]


def fetch_model(name: str, revision: str) -> list[str]:
    """Bring a model of the catalogue into ``model_cache/NAME`` and lock it; returns the lines to show.

    It comes into a partial folder, where a later call goes on, and gets its name when every file has the digest that
    the hub states. A folder that is there already is not touched: it is compared and locked.

    Args:
        name: a name of the catalogue.
        revision: a commit, branch or tag of its repository.

    Raises:
        UserError: the hub refuses or lacks it, the network fails, the disk is too small, a file came damaged, or there
            is a folder of that name with other files.
    """
    published = _published(name)
    _prepare_library()
    found = _listed(published, revision)
    folder, partial = cache_folder() / name, cache_folder() / f".{name}.part"
    complete = folder if folder.exists() else partial
    if complete == folder:
        _check_same(found, folder, revision)
    else:
        _check_disk(found, partial)
        _download(published, found, partial)
        _check_whole(found, partial)
        _leave_only(found, partial)
    digests = {file.name: file.sha256 or file_digest(complete / file.name) for file in found.files}
    write_lock(name, Locked(published.repository, found.commit, digests))
    if complete == partial:
        partial.rename(folder)
    return [
        f"{name}: {'already in ' if complete == folder else ''}{folder}",
        f"{published.repository} at {found.commit}, {len(digests)} files, SHA-256 in {lock_file()}",
        f"licence: {published.licence}",
    ]


def _published(name: str) -> Published:
    if name in EMBEDDED:
        raise UserError(f"{name} comes along with the project", "leave it out")
    if name not in CATALOGUE:
        raise UserError(f"no shipped profile names a model {name!r}", f"give one of: {', '.join(CATALOGUE)}, terrier")
    return CATALOGUE[name]


def _prepare_library() -> None:
    """Settings that huggingface_hub reads when it is imported; a user's own go before them."""
    os.environ.setdefault("HF_HUB_DISABLE_XET", "1")  # by plain HTTP a file goes on in its middle
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub.utils.tqdm import disable_progress_bars

    # its warnings hold addresses that are signed for this download
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    if not sys.stderr.isatty():
        disable_progress_bars()


def _listed(published: Published, revision: str) -> HubRevision:
    """What the hub says of the revision; it also gives the commit that a branch or tag stands for."""
    from huggingface_hub import HfApi

    try:
        info = HfApi().model_info(published.repository, revision=revision, files_metadata=True, timeout=TIMEOUT)
    except Exception as e:  # of the library, of what it uses for HTTP, of the operating system: sorted there
        raise explained(e, published, revision) from e
    files = [_described(sibling) for sibling in info.siblings or []]
    wanted = [f for f in files if f.name.endswith(KINDS) and NAME.fullmatch(f.name) and not DOUBLE.fullmatch(f.name)]
    names = {f.name for f in wanted}
    if CONFIG not in names or not any(name.endswith(WEIGHTS) for name in names):
        lacks = CONFIG if CONFIG not in names else "weights in safetensors format"
        raise UserError(
            f"{published.repository} has no {lacks} at the revision {revision}, and other formats are never fetched",
            "name a revision that has them; where a conversion was only proposed that is refs/pr/NUMBER",
        )
    return HubRevision(str(info.sha), sorted(wanted))


def _described(sibling: Any) -> HubFile:
    lfs = sibling.lfs
    return HubFile(sibling.rfilename, sibling.size or 0, None if lfs is None else lfs.sha256, sibling.blob_id)


def _check_disk(found: HubRevision, partial: Path) -> None:
    """Raise UserError unless the cache can be written and what is still to come has room."""
    try:
        partial.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise UserError(f"cannot be written: {e.strerror}", f"name another cache with {VARIABLE}", partial) from e
    there = sum(path.stat().st_size for path in partial.rglob("*") if path.is_file())
    needed, free = sum(file.size for file in found.files) - there, shutil.disk_usage(partial.parent).free
    if needed > free:
        raise UserError(
            f"{size_in_words(needed)} are to come and {size_in_words(free)} are free",
            f"free some space, or name another cache with {VARIABLE}",
            partial.parent,
        )


def _download(published: Published, found: HubRevision, partial: Path) -> None:
    from huggingface_hub import hf_hub_download

    try:
        # not as a snapshot, which threads would fetch: whoever stops this should not have to wait for them
        for file in found.files:
            hf_hub_download(published.repository, file.name, revision=found.commit, local_dir=partial)
    except Exception as e:
        raise explained(e, published, found.commit) from e


def _check_whole(found: HubRevision, partial: Path) -> None:
    """Raise UserError unless every file is there with the bytes that the hub has; damaged ones are removed."""
    bad = [file.name for file in found.files if not file.is_whole(partial / file.name)]
    for name in bad:
        (partial / name).unlink(missing_ok=True)
    if bad:
        raise UserError(
            f"{bad[0]} came damaged" if len(bad) == 1 else f"{len(bad)} files came damaged, {bad[0]} for one",
            "give the same command again: only what is missing is fetched",
        )


def _leave_only(found: HubRevision, partial: Path) -> None:
    """Remove the library's notes, and what an earlier call fetched of another revision."""
    shutil.rmtree(partial / ".cache", ignore_errors=True)
    names = {file.name for file in found.files}
    for path in sorted(partial.rglob("*"), reverse=True):
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.relative_to(partial).as_posix() not in names:
            path.unlink()


def _check_same(found: HubRevision, folder: Path, revision: str) -> None:
    """Raise UserError unless a folder that was there before holds this very revision."""
    for file in found.files:
        if not file.is_whole(folder / file.name):
            raise UserError(
                f"is there already, and {file.name} is not that of the revision {revision}",
                "move the folder away to fetch the model",
                folder,
            )
