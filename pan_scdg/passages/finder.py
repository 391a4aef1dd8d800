"""Find the passages of pairs of documents as a profile says; one embedding model serves all pairs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pan_scdg.models.encoder import Encoder, load_encoder
from pan_scdg.models.find import FoundModel, find_encoder
from pan_scdg.models.fingerprint import fingerprint_folder
from pan_scdg.models.fit import check_encoder_fits
from pan_scdg.passages.align import Evidence, align_texts
from pan_scdg.profile import PassageSettings

REMEMBERED = 100_000
"""Vectors of paragraphs that are kept in memory, 150 MB with MiniLM: a text is often part of several pairs."""


class PassageFinder:
    """Aligns texts; the embedding model, if the settings name one, is found now and loaded when it is needed.

    Args:
        settings: the table ``[passages]`` of a profile.
        device: "cpu" or "cuda".

    Raises:
        UserError: the embedding model is missing, damaged or larger than the memory.
    """

    def __init__(self, settings: PassageSettings, device: str) -> None:
        self._settings, self._device = settings, device
        self._encoder: Encoder | None = None
        self._recent: dict[tuple[str, ...], npt.NDArray[np.float32]] = {}
        self.models: Mapping[str, FoundModel] = {}
        if settings.encoder is not None:
            found = find_encoder(settings.encoder)
            check_encoder_fits(settings.encoder, found.folder, device, "pairs")
            self.models = {"passage_encoder": found}

    def identify(self) -> dict[str, Any]:
        """Return the fields that identify the embedding model in the job."""
        return {name: {"weights": fingerprint_folder(found.folder)} for name, found in self.models.items()}

    def find(self, target: str, source: str) -> list[Evidence]:
        """Return the passages of a pair of texts: see `align_texts`."""
        return align_texts(target, source, self._settings, self._encode if self.models else None)

    def _encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        if self._encoder is None:
            self._encoder = load_encoder(self.models["passage_encoder"].folder, self._device)
        key = tuple(texts)
        if key not in self._recent:
            if sum(map(len, self._recent)) + len(key) > REMEMBERED:
                self._recent.clear()
            self._recent[key] = self._encoder.encode(texts)
        return self._recent[key]
