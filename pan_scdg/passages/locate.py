"""Find the parts of a pair to show: its passages, or else the sentences that decided."""

from collections.abc import Iterator
from typing import NamedTuple

from pan_scdg.passages.align import Evidence, overlaps
from pan_scdg.passages.finder import PassageFinder
from pan_scdg.passages.match import find_matches
from pan_scdg.passages.scorer import FEATURES, AlignmentScorer
from pan_scdg.passages.units import Integers
from pan_scdg.profile import PassageSettings
from pan_scdg.profile.baseline import Alignment
from pan_scdg.records import Passage, TextPair


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
