"""Score pairs by their alignment: sentences that match by their vectors, and passages that share words."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pan_scdg.align.finder import PassageFinder
from pan_scdg.align.matches import (
    compare_stem_sets,
    compute_topic,
    find_matches,
    measure_focus,
    measure_match,
)
from pan_scdg.align.passages import Alignment, Evidence, overlap_in_target
from pan_scdg.align.units import Integers
from pan_scdg.align.vectors import SentenceEncoder
from pan_scdg.methods import Method, MethodOptions, Score, cover_both
from pan_scdg.profile import MAX_CALIBRATED_CANDIDATES, AlignmentSettings, Profile
from pan_scdg.records import Passage, TextPair

MIN_WORDS = 50
"""A text with fewer words was never part of a calibration."""


class AlignmentMethod:
    """Scores pairs by alignment; see `methods.Method`.

    Raises:
        UserError: the embedding model is missing or damaged.
    """

    def __init__(self, settings: AlignmentSettings, options: MethodOptions) -> None:
        self.settings = settings
        self.encoder = SentenceEncoder(settings.model, options.device)
        self.models, self.fingerprint = {"embedding_model": self.encoder.model}, self.encoder.fingerprint

    def identify(self) -> dict[str, Any]:
        """Return the fields of ``job.json`` that identify the model."""
        return {"embedding_model": {"weights": self.fingerprint}}

    def check(self, pair: TextPair) -> None:
        """Do nothing: every pair has a score."""

    def score(self, pairs: Sequence[TextPair]) -> list[Score]:
        """Return the numbers of each pair and the warnings about its texts."""
        scores = []
        for pair in pairs:
            values = self._measure(pair.target, pair.source)
            scores.append(Score(values, tuple(warn_about_texts(values))))
        return scores

    def find_passages(self, pair: TextPair) -> tuple[Passage, ...]:
        """Return one passage over both texts, which the score is about."""
        return cover_both(pair)

    def _measure(self, target: str, source: str) -> dict[str, float]:
        """Return the numbers of a pair.

        - match: see `measure_match`.
        - similarity: the largest of a passage that words have in common; 0 without one.
        - common: see `compare_stem_sets`.
        - focus: see `measure_focus`.
        - candidates: the pairs of sentences that were compared, with which the match of unrelated texts rises.
        - words: those of the target.
        - left_out: the passages in its quotations and lists of references, which all numbers but ``words`` leave out.
        """
        first, second = self.encoder.encode(target), self.encoder.encode(source)
        vectors, stems, source_stems = first.counted_vectors, first.prepared.list_counted_stems(), second.prepared.stems
        alignment = Alignment(first.prepared, second.prepared)
        evidence = [alignment.measure(passage) for passage in alignment.passages]
        return {
            "match": measure_match(vectors, second.vectors),
            "similarity": max((passage.similarity for passage in evidence if passage.counts), default=0.0),
            "common": float(compare_stem_sets(len(stems & set(source_stems)), len(stems), len(source_stems))),
            "focus": float(measure_focus(vectors, compute_topic(second.vectors)[None])[0]),
            "candidates": float(len(vectors) * len(second.vectors)),
            "words": float(len(first.prepared.forms)),
            "left_out": float(sum(not passage.counts for passage in evidence)),
        }


class AlignmentFinder(PassageFinder):
    """Finds the passages of pairs that an alignment has decided.

    Passages in quotations and lists of references do not count. If no others exist, the sentences whose match reaches
    the threshold are passages, or the best ones if the texts as wholes reach it.

    Args:
        encoder: of the table ``[passages]``, if any.
        method: the alignment.
        threshold: that decided; None: none did.
    """

    def __init__(self, encoder: SentenceEncoder | None, method: AlignmentMethod, threshold: float | None) -> None:
        super().__init__(encoder)
        self._method, self._threshold = method, threshold or 0.0

    def find(self, pair: TextPair, values: Mapping[str, float], *, positive: bool = True) -> list[Evidence]:
        """Return the passages of a pair; see `PassageFinder`."""
        evidence = self.align(pair)
        if not positive:
            return [passage for passage in evidence if not passage.counts]
        if any(passage.counts for passage in evidence):
            return evidence
        return sorted([*evidence, *self._find_sentences(pair, values, evidence)])

    def _find_sentences(
        self, pair: TextPair, values: Mapping[str, float], others: Sequence[Evidence]
    ) -> Iterator[Evidence]:
        """Yield the sentences that decided, without those that overlap other passages."""
        target, source = self._method.encoder.encode(pair.target), self._method.encoder.encode(pair.source)
        vectors, spans = target.counted_vectors, target.prepared.spans[target.prepared.counted]
        if not vectors.size or not source.vectors.size:
            return
        missing = self._threshold - self._method.settings.score_places(values)  # above 0: the wholes decided
        alignment = Alignment(target.prepared, source.prepared)
        for match in find_matches(vectors, source.vectors, values["match"] + missing):
            begin, length = _join_spans(spans, match.begin, match.end)
            place = _join_spans(source.prepared.spans, match.source_begin, match.source_end)
            passage = Passage(begin, length, *place)
            if not any(overlap_in_target(passage, other.passage) for other in others):
                # a quotation between two sentences does not exclude these
                yield alignment.measure(passage)._replace(within=None, counts=True)


def open_finder(profile: Profile, method: Method, device: str) -> PassageFinder:
    """Return what finds the passages of the pairs that a method decides, as the table ``[passages]`` says.

    Raises:
        UserError: the embedding model is missing or damaged.
    """
    name = None if profile.passages is None else profile.passages.encoder
    if not isinstance(method, AlignmentMethod):
        return PassageFinder(None if name is None else SentenceEncoder(name, device))
    shared = method.encoder if name == method.settings.model else None
    encoder = shared if shared or name is None else SentenceEncoder(name, device)
    return AlignmentFinder(encoder, method, profile.need_decide().threshold)


def warn_about_texts(values: Mapping[str, float]) -> list[str]:
    """Return warnings about texts that are too short, longer than those of the calibration, or quoting."""
    warnings = []
    if values["words"] < MIN_WORDS:
        warnings.append(f"unclear: the suspicious document has {values['words']:.0f} words, fewer than {MIN_WORDS}")
    elif values["candidates"] > MAX_CALIBRATED_CANDIDATES:
        warnings.append("long: in texts longer than those of the calibration, chance matches are more frequent")
    if count := int(values["left_out"]):
        subject = "passage that does not count lies" if count == 1 else "passages that do not count lie"
        warnings.append(f"{count} {subject} in quotations or lists of references")
    return warnings


def _join_spans(units: Integers, first: int, end: int) -> tuple[int, int]:
    """Return the start and the length in characters of the units from ``first`` to before ``end``."""
    start = int(units[first, 0])
    return start, int(units[end - 1, 1]) - start
