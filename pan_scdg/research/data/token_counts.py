"""How long texts are for a language model: its tokenizer is loaded, its weights are not."""

import hashlib
from pathlib import Path
from typing import Any

from pan_scdg.digests import file_digest, text_digest
from pan_scdg.models.find import find_model
from pan_scdg.models.fingerprint import METADATA, TOKENIZER
from pan_scdg.models.load import load_tokenizer
from pan_scdg.profile import ModelSettings
from pan_scdg.store import Store, key_of

NOT_OF_THE_TOKENIZER = ("config.json", "model.safetensors.index.json")


class TokenCounts:
    """Numbers of tokens by the tokenizer of a profile; special tokens are not counted.

    Args:
        settings: the profile's ``[model]``.
        model: folder of the checkpoint in place of the model cache.
        store: where counts are kept, so that a run that was stopped goes on from there; None: nowhere.

    Raises:
        UserError: there is no such model, or its tokenizer cannot be loaded.
    """

    def __init__(self, settings: ModelSettings, model: Path | None = None, store: Store | None = None) -> None:
        folder = find_model(settings.name, model).folder
        self._tokenizer = load_tokenizer(folder, settings)
        self._store = store
        self.identity = {
            "model": settings.name,
            "tokenizer": settings.tokenizer,
            "sha256": _fingerprint(folder),
        }
        """For the record of what was counted; no path of this machine is in it."""

    def __call__(self, text: str) -> int:
        """The number of tokens of ``text``."""
        key = key_of("token count", {**self.identity, "text": text_digest(text)})
        if self._store is not None and (stored := self._store.read(key, _count)) is not None:
            return stored
        count = len(self._tokenizer.encode(text, add_special_tokens=False))
        if self._store is not None:
            self._store.put([(key, str(count).encode())])
        return count

    def record(self) -> dict[str, Any]:
        """The identity, as JSON values."""
        return dict(self.identity)


def _count(data: bytes) -> int:
    if not data.isdigit() or len(data) > 12:
        raise ValueError("not a number of tokens")
    return int(data)


def _fingerprint(folder: Path) -> str:
    """SHA-256 over the names and digests of the files that a tokenizer is made of."""
    names = [n for n in (*METADATA, *TOKENIZER) if n not in NOT_OF_THE_TOKENIZER and (folder / n).is_file()]
    listing = "".join(f"{file_digest(folder / name)}  {name}\n" for name in sorted(names))
    return hashlib.sha256(listing.encode()).hexdigest()
