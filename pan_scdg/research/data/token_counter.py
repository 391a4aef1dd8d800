"""Count the tokens of documents with the tokenizer that the paper names, the same for every language model.

The paper counts with Qwen3-8B-Base whatever model scores, so that all models have the same pairs (Length filtering and
resulting manifest). Where that tokenizer is not found, the profile's own counts, and reports say so.
"""

from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path

from pan_scdg.digests import hash_file, hash_text
from pan_scdg.models.config import read_config
from pan_scdg.models.find import ModelNotFoundError, find_model
from pan_scdg.models.fingerprint import METADATA, TOKENIZER
from pan_scdg.models.load import load_tokenizer
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.profile import ModelSettings, load_profile
from pan_scdg.progress import Progress
from pan_scdg.records import TextFile
from pan_scdg.research.data.prepared import Parts
from pan_scdg.store import Store, make_key

PAPER_PROFILE = "pan25-qwen3-8b"
"""Its model is the one whose tokenizer counts in the paper."""
NOT_OF_THE_TOKENIZER = ("config.json", "model.safetensors.index.json")


class TokenCounter:
    """Counts the tokens of documents with the tokenizer of a model, without special tokens; weights are not needed.

    Args:
        settings: the profile's ``[model]``.
        model: folder of the checkpoint; None: the model cache.
        state: folder that keeps counts, so that a stopped run continues; None: none are kept.

    Raises:
        UserError: the model does not exist, or its tokenizer cannot be loaded.
    """

    def __init__(self, settings: ModelSettings, model: Path | None = None, state: Path | None = None) -> None:
        folder = find_model(settings.name, model).folder
        self._tokenizer = load_tokenizer(folder, settings, read_config(folder, weights=False))
        self._state = state
        self.identity = {
            "model": settings.name,
            "tokenizer": settings.tokenizer,
            "sha256": _digest_tokenizer(folder),
        }
        """The tokenizer that counted, without a path of this machine."""

    def count(self, documents: Iterable[TextFile]) -> dict[Path, int]:
        """Return the number of tokens of each document, by its file; each is read once.

        Raises:
            UserError: a document cannot be read.
        """
        files = {file.path: file for file in documents}
        opened = nullcontext() if self._state is None else Store(self._state)
        with opened as store, Progress("counting tokens", len(files)) as progress:
            tokens = {}
            for path, file in files.items():
                tokens[path] = self._count_text(read_text(file), store)
                progress.update()
            return tokens

    def _count_text(self, text: str, store: Store | None) -> int:
        key = make_key("token count", {**self.identity, "text": hash_text(text)})
        if store is not None and (stored := store.read(key, _parse_count)) is not None:
            return stored
        count = len(self._tokenizer.encode(text, add_special_tokens=False))
        if store is not None:
            store.put([(key, str(count).encode())])
        return count


def _parse_count(data: bytes) -> int:
    if not data.isdigit() or len(data) > 12:
        raise ValueError("not a number of tokens")
    return int(data)


def _digest_tokenizer(folder: Path) -> str:
    """Return the SHA-256 over the names and digests of the files of a tokenizer."""
    names = [n for n in (*METADATA, *TOKENIZER) if n not in NOT_OF_THE_TOKENIZER and (folder / n).is_file()]
    return hash_text("".join(f"{hash_file(folder / name)}  {name}\n" for name in sorted(names)))


def find_counter(settings: ModelSettings, model: Path | None = None, state: Path | None = None) -> TokenCounter:
    """Return the counter with the paper's tokenizer, or with the profile's own where that is not found.

    Arguments are those of `TokenCounter`, for the model of the profile.

    Raises:
        UserError: neither is found, or the tokenizer that is found cannot be loaded.
    """
    paper = load_profile(PAPER_PROFILE).need_model()
    if settings.name == paper.name:
        return TokenCounter(settings, model, state)
    try:
        return TokenCounter(paper, None, state)
    except ModelNotFoundError:
        return TokenCounter(settings, model, state)


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
