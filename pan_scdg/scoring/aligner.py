"""Decide about single pairs of texts by their alignment."""

from typing import Any

from pan_scdg.profile.baseline import Alignment
from pan_scdg.records import TextPair
from pan_scdg.scoring.baseline_parts import find_parts
from pan_scdg.scoring.baseline_scoring import choose_scores, judge_numbers, settle_threshold


class Aligner:
    """Judges pairs as `BaselineMethod` does with the same settings; vectors are not kept.

    Raises:
        UserError: the embedding model is missing, damaged or larger than the memory.
    """

    def __init__(self, settings: Alignment, device: str) -> None:
        self.parts = find_parts(settings, device, ())
        self.settings, self.scorer = settings, self.parts.make_alignment(settings, None)
        self._rule = settle_threshold(settings, self.parts.fingerprint)

    def judge(self, target: str, source: str) -> dict[str, Any]:
        """Return score, threshold and decision, and the numbers that the score was made of."""
        (row,) = self.scorer.score([TextPair("target", "source", target, source)])
        numbers = dict(zip(self.scorer.features, row, strict=True))
        return judge_numbers(self.settings, self._rule, float(choose_scores(self.settings, [row])[0]), numbers)
