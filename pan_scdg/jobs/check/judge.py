"""Say in ordinary language what a score means: likely, unclear, or no sign."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pan_scdg.jobs.check.texts import CheckedText
from pan_scdg.report.records import Judgement
from pan_scdg.scoring.baseline_scoring import LEAST_WORDS

NEAR = 0.03
"""An alignment score this near below the threshold is unclear: benchmarks/results/check.md."""
NEAR_SHARE = 0.1
"""A gain that so many of the negatives of the calibration reach is unclear."""


class Opinion(NamedTuple):
    """What is said about a pair, and why."""

    judgement: Judgement
    score: float | None
    warnings: tuple[str, ...]


def judge_pair(record: Mapping[str, Any], suspicious: CheckedText, source: CheckedText) -> Opinion:
    """Return what is said about a pair of which ``record`` is the verdict of `run`."""
    score, threshold = record["score"], record["threshold"]
    warnings = [w for w in record.get("warnings", ()) if not w.startswith("unclear:")]  # said below for both texts
    for text in (suspicious, source):
        if text.words < LEAST_WORDS:
            warnings.append(f"{text.shown.name} has {text.words} words, fewer than {LEAST_WORDS}: too short to tell")
    if score is None or threshold is None or min(suspicious.words, source.words) < LEAST_WORDS:
        return Opinion("unclear", score, tuple(warnings))
    if record["decision"]:
        return Opinion("likely", score, tuple(warnings))
    if is_near(record):
        return Opinion("unclear", score, (*warnings, "the score is just below the threshold"))
    return Opinion("no sign", score, tuple(warnings))


def is_near(record: Mapping[str, Any]) -> bool:
    """Return whether a score below the threshold is so near that it is unclear."""
    if record.get("baseline") == "alignment":
        return bool(record["score"] >= record["threshold"] - NEAR)
    share = record.get("negatives_at_least")
    return bool(record.get("near_threshold")) or (share is not None and share <= NEAR_SHARE)
