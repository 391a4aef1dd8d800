"""Fetch a published model at a commit into the model cache; a run never uses the network.

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

from pan_scdg.bundled import find_model_cache, make_cache_folder
from pan_scdg.errors import UserError
from pan_scdg.models.catalogue import BUNDLED, CATALOGUE, CONFIG, REVISION_FILE, Published

PERMITTED = re.compile(r"(\d+_[A-Za-z]+/)?(?!consolidated)[A-Za-z0-9_][A-Za-z0-9_.-]*\.(json|txt|model|safetensors)")
"""Settings, vocabularies and weights, none of which can contain code, at the top or in the folder of a module of
sentence-transformers (``1_Pooling``). Other folders, and ``consolidated``, have the weights in other formats."""
SHA256_LENGTH = 64
"""Hexadecimal digits."""
BLOCK_BYTES = 1 << 20
TIMEOUT_SECONDS = 30.0
"""For the hub to list a repository."""
TOKEN_REMEDY = "give a token of your account to this command in the environment variable HF_TOKEN"
COPIED = "scdg-mini"
"""This model is part of the repository, and the Dockerfile copies it."""


def fetch_model(name: str, revision: str | None) -> list[str]:
    """Fetch a model of the catalogue into the model cache with the hub's client, and return the lines to show.

    The files are downloaded into a partial folder, where a later call continues, and which gets its name when it is
    complete. An existing folder stays as it is.

    Args:
        name: a name of the catalogue.
        revision: a commit, branch or tag of its repository; None: the commit of the catalogue.

    Raises:
        UserError: the revision is missing, the hub refuses or lacks the model, the network fails, a file has not the
            hash that the hub announces, the cache cannot be written, or the folder exists.
    """
    published = _look_up(name)
    revision = revision or published.commit
    if revision is None:
        raise UserError(f"{name} needs a revision", "give --revision: a commit, branch or tag of its repository")
    cache = find_model_cache()
    folder = cache / name
    if folder.exists():
        raise UserError("the folder exists already", "remove it to fetch the model again", folder)
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read when the library is imported
    from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_url, snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # its warnings contain signed addresses
    if not sys.stderr.isatty():
        disable_progress_bars()
    try:
        info = HfApi().model_info(published.repository, revision=revision, timeout=TIMEOUT_SECONDS)
        names = [file.rfilename for file in info.siblings or [] if PERMITTED.fullmatch(file.rfilename)]
        _check_names(names, published, revision)
        partial = cache / f".{name}.{info.sha}.part"
        make_cache_folder(partial)
        snapshot_download(published.repository, revision=info.sha, allow_patterns=names, local_dir=partial)
        for file in names:
            address = hf_hub_url(published.repository, file, revision=info.sha)
            _check_hash(partial / file, get_hf_file_metadata(address, timeout=TIMEOUT_SECONDS).etag)
    except Exception as e:  # from the library, its HTTP client or the operating system
        raise explain_hub_error(e, published, revision) from e
    shutil.rmtree(partial / ".cache")  # the library's notes
    (partial / REVISION_FILE).write_text(f"{info.sha}\n")
    partial.rename(folder)
    return [
        f"{name}: {folder}",
        f"{published.repository} at {info.sha}, {len(names)} files with the hashes that the hub announces",
        f"licence: {published.licence}",
    ]


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
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, UserError):
        return error
    if isinstance(error, errors.OfflineModeIsEnabled):
        return UserError("HF_HUB_OFFLINE is set, and fetching needs the network", "unset it for this command")
    if isinstance(error, errors.RevisionNotFoundError):
        return UserError(f"{repository} has no revision {revision!r}", "name a commit, branch or tag of the repository")
    if isinstance(error, errors.GatedRepoError) or status in (401, 403):
        cause = "refuses the token in HF_TOKEN" if os.environ.get("HF_TOKEN") else "gives it to known accounts only"
        what = f"{repository} is gated" if published.gated else f"no access to {repository}"
        return UserError(
            f"{what}: the hub {cause}", f"accept the licence on the model's page on the hub, then {TOKEN_REMEDY}"
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return UserError(f"the hub has no repository {repository}", "check whether it was renamed")
    if status is not None:
        return UserError(f"the hub answers with status {status} for {repository}", "run the same command again later")
    is_local = isinstance(error, OSError) and error.errno is not None  # exceptions of the HTTP libraries have no number
    if is_local and not isinstance(error, ConnectionError | TimeoutError):
        raise error
    if isinstance(error, OSError) or type(error).__module__.startswith(("httpx", "urllib3")):
        what = f"the hub cannot be reached, or the connection broke: {type(error).__name__}"
        return UserError(what, "check the network connection and run the same command again")
    raise error


def main(words: str) -> int:
    """Fetch the models of an image, and return the exit code: 2 after one line on stderr.

    Args:
        words: the build argument ``MODELS``: ``scdg-mini`` and ``NAME@REVISION``, separated by spaces or commas (TIRA's
            client splits the arguments of a build at spaces).
    """
    models = [word.partition("@") for word in words.replace(",", " ").split() if word != COPIED]
    try:
        for name, _, _ in models:
            if _look_up(name).gated:
                raise UserError(
                    f"{name} in MODELS is gated, but a build has no token",
                    "fetch it with HF_TOKEN into model_cache/image before the build",
                )
        for name, _, revision in models:
            print("\n".join(fetch_model(name, revision or None)), flush=True)
    except UserError as e:
        print(f"error: {e}".encode("ascii", "backslashreplace").decode(), file=sys.stderr)
        return 2
    return 0


def _look_up(name: str) -> Published:
    if name in BUNDLED:
        raise UserError(f"{name} is bundled", "leave it out")
    if name not in CATALOGUE:
        remedy = f"give one of: {', '.join(CATALOGUE)}, terrier"
        if close := get_close_matches(name, CATALOGUE, n=1, cutoff=0.5):  # half: a name without its size
            remedy = f"did you mean {close[0]!r}? `pan-scdg models list` lists them"
        raise UserError(f"there is no model {name!r}", remedy)
    return CATALOGUE[name]


def _check_hash(path: Path, announced: str | None) -> None:
    """Raise UserError unless a file has the hash that the hub announces, and remove it, so that it is fetched again.

    The library compares sizes alone.

    Args:
        path: the file.
        announced: the SHA-256 of a large file, or git's SHA-1 of a small one.
    """
    if announced is None or not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", announced):
        raise UserError(f"the hub announces no hash of {path.name}", "use the hub itself instead of a mirror")
    digest = hashlib.sha256() if len(announced) == SHA256_LENGTH else hashlib.sha1(b"blob %d\0" % path.stat().st_size)
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    if digest.hexdigest() != announced:
        path.unlink()
        what = f"{path.name} arrived damaged: its hash is {digest.hexdigest()}, and the hub announces {announced}"
        raise UserError(what, "run the same command again; it fetches this file again")


def _check_names(names: list[str], published: Published, revision: str) -> None:
    """Raise UserError unless a commit has a config and weights in safetensors format."""
    has_config = CONFIG in names
    if not has_config or not any(name.endswith(".safetensors") for name in names):
        lack = "weights in safetensors format" if has_config else CONFIG
        raise UserError(
            f"{published.repository} has no {lack} at the revision {revision}",
            "give a --revision that has them, such as refs/pr/NUMBER of a proposed conversion",
        )


if __name__ == "__main__":
    sys.exit(main(" ".join(sys.argv[1:])))
