"""Count the tokens of documents with the tokenizer that the paper names, the same for every language model.

The paper counts with Qwen3-8B-Base whatever model scores, so that all models have the same pairs (Length filtering and
resulting manifest). Where that tokenizer is not found, the profile's own counts, and reports say so.
"""

from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from pan_scdg.digests import hash_file, hash_text
from pan_scdg.models.config import read_config
from pan_scdg.models.find import ModelNotFoundError, find_model
from pan_scdg.models.fingerprint import METADATA, TOKENIZER
from pan_scdg.models.load import load_tokenizer
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.profile import ModelSettings, load_profile
from pan_scdg.progress import Progress
from pan_scdg.records import TextFile
from studies.data.prepared import Parts
from pan_scdg.store import Store, make_key

PAPER_PROFILE = "pan25-qwen3-8b"
"""Its model is the one whose tokenizer counts in the paper."""
NOT_OF_THE_TOKENIZER = ("config.json", "model.safetensors.index.json")


def count_tokens(
    documents: Iterable[TextFile], settings: ModelSettings, model: Path | None = None, state: Path | None = None
) -> tuple[dict[Path, int], dict[str, Any]]:
    """Return the number of tokens of each document, by its file, and the tokenizer that counted.

    Special tokens do not count. The tokenizer is the paper's, or the profile's own where that is not found; neither
    needs weights. It is described without a path of this machine.

    Args:
        documents: each file is read once.
        settings: the profile's ``[model]``.
        model: folder of the profile's model; None: the model cache.
        state: folder that keeps counts, so that a stopped run continues; None: none are kept.

    Raises:
        UserError: no tokenizer is found, the one that is found cannot be loaded, or a document cannot be read.
    """
    settings, folder = _find_tokenizer(settings, model)
    tokenizer = load_tokenizer(folder, settings, read_config(folder, weights=False))
    identity = {"model": settings.name, "tokenizer": settings.tokenizer, "sha256": _digest_tokenizer(folder)}
    files = {file.path: file for file in documents}
    opened = nullcontext() if state is None else Store(state)
    with opened as store, Progress("counting tokens", len(files)) as progress:
        tokens = {}
        for path, file in files.items():
            text = read_text(file)
            key = make_key("token count", {**identity, "text": hash_text(text)})
            stored = None if store is None else store.read(key, _parse_count)
            tokens[path] = len(tokenizer.encode(text, add_special_tokens=False)) if stored is None else stored
            if store is not None and stored is None:
                store.put([(key, str(tokens[path]).encode())])
            progress.update()
        return tokens, identity


def _find_tokenizer(settings: ModelSettings, model: Path | None) -> tuple[ModelSettings, Path]:
    """Return the settings and the folder of the model whose tokenizer counts."""
    paper = load_profile(PAPER_PROFILE).need_model()
    if settings.name != paper.name:
        try:
            return paper, find_model(paper.name).folder
        except ModelNotFoundError:
            pass
    return settings, find_model(settings.name, model).folder


def _parse_count(data: bytes) -> int:
    if not data.isdigit() or len(data) > 12:
        raise ValueError("not a number of tokens")
    return int(data)


def _digest_tokenizer(folder: Path) -> str:
    """Return the SHA-256 over the names and digests of the files of a tokenizer."""
    names = [n for n in (*METADATA, *TOKENIZER) if n not in NOT_OF_THE_TOKENIZER and (folder / n).is_file()]
    return hash_text("".join(f"{hash_file(folder / name)}  {name}\n" for name in sorted(names)))


def list_counted(parts: Parts) -> list[str]:
    """Return a sentence for each manifest that another tokenizer than the paper's counted."""
    paper = load_profile(PAPER_PROFILE).need_model().name
    counted = [
        (part, of.name, of.facts["tokenizer"]["model"])
        for part, artefacts in sorted(parts.items())
        for of in artefacts
        if "tokenizer" in of.facts
    ]
    return [
        f"The {name} of {part} was counted with the tokenizer of {model}: that of {paper}, with which the paper counts "
        "for every model, was not found."
        for part, name, model in counted
        if model != paper
    ]
