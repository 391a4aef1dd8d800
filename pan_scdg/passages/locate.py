"""Find what to show of a pair: its passages, or else the sentences that decided."""

from pan_scdg.passages.align import Alignment as WordAlignment
from pan_scdg.passages.align import Evidence
from pan_scdg.passages.finder import PassageFinder
from pan_scdg.passages.match import find_matches
from pan_scdg.passages.scorer import AlignmentScorer, EncodedText
from pan_scdg.profile import PassageSettings
from pan_scdg.profile.baseline import Alignment
from pan_scdg.records import Passage


class Locator:
    """Finds the passages of pairs.

    Args:
        finder: finds passages by words and paragraphs, as `run` does.
        settings: the alignment that decides, which also knows sentences that match without common words.
        scorer: has the vectors of these sentences; None: another method decides.
    """

    def __init__(self, finder: PassageFinder, settings: Alignment | None, scorer: AlignmentScorer | None) -> None:
        self._finder, self._settings, self._scorer = finder, settings, scorer

    def find(self, target: str, source: str) -> list[Evidence]:
        """Return the passages of a pair; without any, the sentences whose match alone reaches the threshold.

        If no sentences do, the best ones are returned.
        """
        found = self._finder.find(target, source)
        if found or self._scorer is None or self._settings is None:
            return found
        first, second = self._scorer.prepare(target), self._scorer.prepare(source)
        if not first.vectors.size or not second.vectors.size:
            return []
        rise = float(self._settings.estimate_rise(len(first.vectors) * len(second.vectors)))
        alignment = WordAlignment(first.prepared, second.prepared, PassageSettings())
        evidence = []
        for match in find_matches(first.vectors, second.vectors, (self._settings.threshold or 0.0) + rise):
            start, length = _span(first, match.begin, match.end)
            source_start, source_length = _span(second, match.source_begin, match.source_end)
            evidence.append(alignment.measure(Passage(start, length, source_start, source_length)))
        return evidence


def _span(text: EncodedText, first: int, behind: int) -> tuple[int, int]:
    """Return the start and the length in characters of some sentences."""
    start = int(text.prepared.spans[first, 0])
    return start, int(text.prepared.spans[behind - 1, 1]) - start
