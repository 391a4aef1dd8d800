"""Find the passages of pairs of documents as a profile says, and the parts of a pair to show."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from pan_scdg.models.encoder import load_encoder
from pan_scdg.models.find import FoundModel, find_encoder
from pan_scdg.models.fingerprint import fingerprint_folder
from pan_scdg.models.fit import check_encoder_fits
from pan_scdg.align.align import Evidence, align_words, overlaps
from pan_scdg.align.match import find_matches
from pan_scdg.align.paragraphs import match_paragraphs
from pan_scdg.align.scorer import FEATURES, AlignmentScorer
from pan_scdg.align.units import Integers
from pan_scdg.profile import PassageSettings
from pan_scdg.profile.baseline import Alignment
from pan_scdg.records import Passage, TextPair

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
        """Return the passages of a pair of texts, in the order of the target; no two overlap in it.

        Args:
            target: the suspicious document.
            source: the candidate source.
            scorer: of the alignment that decides; what it knows of the texts is not computed again.
        """
        settings = self._settings
        if not self.models:
            return align_words(target, source, settings).find_evidence()
        if scorer is None or not scorer.has_vectors(self._fingerprint, settings.unit_words):
            scorer = self._scorer
        paragraphs = match_paragraphs(target, source, settings, scorer.prepare)
        return scorer.align(target, source, settings).find_evidence(paragraphs)

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


class OpenAlignment(NamedTuple):
    """The alignment that decides."""

    settings: Alignment
    scorer: AlignmentScorer
    """Shared by all steps of a job, since it remembers texts."""


class Locator:
    """Finds the passages of pairs.

    Args:
        finder: finds passages by words and paragraphs, as `run` does.
        alignment: also knows sentences that match without common words; None: another method decides.
    """

    def __init__(self, finder: PassageFinder, alignment: OpenAlignment | None = None) -> None:
        self._finder, self._alignment = finder, alignment

    def find(self, target: str, source: str, *, positive: bool = True) -> list[Evidence]:
        """Return the passages of a pair; without any that count, also the sentences whose match reaches the threshold.

        If no sentences do, the best ones are returned. Of a pair that is not positive only the passages that do not
        count are returned.
        """
        alignment = self._alignment
        found = self._finder.find(target, source, None if alignment is None else alignment.scorer)
        if alignment is None:  # another method decides, which counts everything
            found = [evidence._replace(counts=True) for evidence in found]
        if not positive:
            return [evidence for evidence in found if not evidence.counts]
        if alignment is None or any(evidence.counts for evidence in found):
            return found
        return sorted([*found, *self._find_sentences(target, source, found, *alignment)])

    def _find_sentences(
        self, target: str, source: str, known: list[Evidence], settings: Alignment, scorer: AlignmentScorer
    ) -> Iterator[Evidence]:
        """Yield the sentences that decided, without those that overlap known passages."""
        first, second = scorer.prepare(target), scorer.prepare(source)
        vectors, counted = first.counted, first.prepared.spans[first.prepared.counted]
        if not vectors.size or not second.vectors.size:
            return
        (row,) = scorer.score([TextPair("", "", target, source)])
        numbers = dict(zip(FEATURES, row, strict=True))
        missing = (settings.threshold or 0.0) - settings.score_places(numbers)  # above 0: the texts as wholes decided
        alignment = scorer.align(target, source, PassageSettings())
        for match in find_matches(vectors, second.vectors, numbers["match"] + missing):
            start, length = _find_span(counted, match.begin, match.end)
            source_start, source_length = _find_span(second.prepared.spans, match.source_begin, match.source_end)
            passage = Passage(start, length, source_start, source_length)
            if not any(overlaps(passage, other.passage) for other in known):
                yield alignment.measure(passage)._replace(within=None, counts=True)  # a quotation may lie between


def _find_span(units: Integers, first: int, end: int) -> tuple[int, int]:
    """Return the start and the length in characters of the sentences from ``first`` to before ``end``."""
    start = int(units[first, 0])
    return start, int(units[end - 1, 1]) - start
