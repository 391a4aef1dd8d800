"""Find the passages of pairs of documents as a profile says; one embedding model serves all pairs."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from pan_scdg.models.encoder import load_encoder
from pan_scdg.models.find import FoundModel, find_encoder
from pan_scdg.models.fingerprint import fingerprint_folder
from pan_scdg.models.fit import check_encoder_fits
from pan_scdg.passages.align import Evidence, align_texts
from pan_scdg.passages.scorer import AlignmentScorer
from pan_scdg.profile import PassageSettings

BATCH = 32


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
        self.models: Mapping[str, FoundModel] = {}
        if settings.encoder is not None:
            found = find_encoder(settings.encoder)
            check_encoder_fits(settings.encoder, found.folder, device)
            self.models = {"passage_encoder": found}

    def identify(self) -> dict[str, Any]:
        """Return the fields that identify the embedding model in the job."""
        return {"passage_encoder": {"weights": self._fingerprint}} if self.models else {}

    def find(self, target: str, source: str, scorer: AlignmentScorer | None = None) -> list[Evidence]:
        """Return the passages of a pair of texts: see `align_texts`.

        Args:
            target: the suspicious document.
            source: the candidate source.
            scorer: of the alignment that decides; what it knows of the texts is not computed again.
        """
        if not self.models:
            return align_texts(target, source, self._settings)
        if scorer is None or not scorer.has_vectors(self._fingerprint, self._settings.unit_words):
            scorer = self._scorer
        return align_texts(target, source, self._settings, scorer.prepare, scorer.align)

    @cached_property
    def _fingerprint(self) -> str:
        return fingerprint_folder(self.models["passage_encoder"].folder)

    @cached_property
    def _scorer(self) -> AlignmentScorer:
        folder, device = self.models["passage_encoder"].folder, self._device
        return AlignmentScorer(
            lambda: load_encoder(folder, device, BATCH),
            self._fingerprint,
            device,
            BATCH,
            None,
            self._settings.unit_words,
        )
