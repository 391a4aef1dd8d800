"""Describe a decision in ordinary language: likely, unclear, or no sign."""

from collections.abc import Mapping
from typing import Any

from pan_scdg.methods.alignment import MIN_WORDS
from pan_scdg.report.records import Judgement, ReportPair

NEAR_SCORE = 0.03
"""An alignment score this near below the threshold is unclear: benchmarks/results/check.md."""
NEAR_SHARE = 0.1
"""A gain that at most this share of the calibration's negatives reaches is unclear."""
ORDER: dict[Judgement, int] = {"likely": 0, "unclear": 1, "no sign": 2}


def judge_pair(record: Mapping[str, Any], names: tuple[str, str], words: tuple[int, int]) -> ReportPair:
    """Return the pair as a report shows it, without passages.

    Args:
        record: the decision, as `run` writes it.
        names: of the suspicious text and of the source.
        words: the numbers of their words that were compared.
    """
    warnings = [w for w in record.get("warnings", ()) if not w.startswith("unclear:")]  # said below for both texts
    for name, number in zip(names, words):
        if record["score"] is not None and number < MIN_WORDS:  # without a score, a warning says why
            warnings.append(f"{name} has {number} words, fewer than {MIN_WORDS}: too short to tell")
    judgement: Judgement = "no sign"
    if record["score"] is None or record["threshold"] is None or min(words) < MIN_WORDS:
        judgement = "unclear"
    elif record["decision"]:
        judgement = "likely"
    elif is_near(record):
        judgement = "unclear"
        warnings.append("the score is just below the threshold")
    return ReportPair(*names, record["score"], judgement, warnings=tuple(warnings))


def is_near(record: Mapping[str, Any]) -> bool:
    """Return True if a score below the threshold is so near that it is unclear."""
    if record.get("method") == "alignment":
        return bool(record["score"] >= record["threshold"] - NEAR_SCORE)
    share = record.get("negatives_at_least")
    return bool(record.get("near_threshold")) or (share is not None and share <= NEAR_SHARE)


def rank_pair(pair: ReportPair) -> tuple[int, float]:
    """Return the key by which pairs are sorted, best first."""
    return ORDER[pair.judgement], float("inf") if pair.score is None else -pair.score
