"""Decide pairs by the scores of any method (paper, PAN25 decision rule)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pan_scdg.align.passages import Evidence
from pan_scdg.errors import UserError
from pan_scdg.logs import say
from pan_scdg.methods import Values
from pan_scdg.profile import Profile
from pan_scdg.records import DocumentPair, Passage
from pan_scdg.scdg.calibration_range import compute_share_at_least

FINGERPRINT_CHARACTERS = 40


class Decision(NamedTuple):
    """A decided pair."""

    pair: DocumentPair
    record: Mapping[str, Any]
    """Its line in ``decisions.jsonl``."""
    passages: tuple[Passage, ...] = ()
    """Of its detection XML."""
    evidence: Sequence[Evidence] = ()
    """The measured passages, also those that do not count."""


class DecisionRule:
    """Compares scores with the threshold of a profile, as far as it applies to the model that gave them.

    Args:
        profile: has a table ``[decide]``.
        job: its ``fingerprint`` and ``models``.
    """

    def __init__(self, profile: Profile, job: Mapping[str, Any]) -> None:
        decide, fingerprint = profile.need_decide(), str(job["fingerprint"])
        dtype = job["models"].get("language_model", {}).get("dtype")
        self.method, self.settings = decide.method, profile.method_settings
        same_model = decide.calibrated_with in (None, fingerprint)
        same_dtype = decide.dtype in (None, dtype)
        self.threshold = decide.threshold if same_model else None
        self.reason: str | None = None
        """The reason why nothing is decided, if the threshold is that of another model."""
        if decide.threshold is not None and not same_model:
            calibrated = str(decide.calibrated_with)[:FINGERPRINT_CHARACTERS]
            self.reason = (
                f"no decisions: the profile was calibrated with a model {calibrated}, and this one is "
                f"{fingerprint[:FINGERPRINT_CHARACTERS]}; calibrate with this model, or use that one"
            )
            say([f"warning: {self.reason}"])
        elif decide.threshold is not None and not same_dtype:
            say(
                [
                    f"warning: calibrated in {decide.dtype} and computed in {dtype}: pairs near the "
                    "threshold may be decided otherwise"
                ]
            )
        self._noise = decide.noise if same_model and same_dtype else None
        self._calibration = decide.calibration if same_model else None

    def decide(self, values: Values, warnings: Sequence[str] = ()) -> dict[str, Any]:
        """Return the fields of a decision: score, threshold, decision, method, and what explains the score."""
        number = float(self.settings.compute_score(values))
        score = None if math.isnan(number) else number  # a logistic model without weights
        more = self.settings.warn(values, self.threshold, self._calibration)
        return {**self._compare(score, values), "warnings": [*warnings, *more]}

    def decide_failed(self, error: UserError) -> dict[str, Any]:
        """Return the fields about a pair that could not be scored: negative, with the reason as a warning."""
        reason = f"{'not scored' if self.threshold is None else 'not scored, decided negative'}: {error.what}"
        return {**self._compare(None, {}), "warnings": [reason]}

    def _compare(self, score: float | None, values: Values) -> dict[str, Any]:
        """Compare a score with the threshold; a pair without a score, or too little text, is negative."""
        record: dict[str, Any] = {"score": score, "threshold": self.threshold, "decision": None}
        if self.threshold is not None:
            record["decision"] = score is not None and score >= self.threshold and self.settings.can_decide(values)
            if self._noise is not None:
                record["near_threshold"] = None if score is None else abs(score - self.threshold) <= self._noise
        return {**record, "method": self.method, **self.settings.describe(values), **self._count_negatives(score)}

    def _count_negatives(self, score: float | None) -> dict[str, Any]:
        """Return the share of negative calibration pairs that score at least as high, and their number."""
        if self._calibration is None or not self._calibration.negatives:
            return {}
        share = None if score is None else compute_share_at_least(self._calibration.negatives, score)
        return {"negatives_at_least": share, "negatives": self._calibration.negative_pairs}


def name_pair(pair: DocumentPair, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a record that name a pair: its ids, and the user's own names if there are any."""
    ids = {"suspicious": pair.suspicious.doc_id, "source": pair.source.doc_id}
    if names:
        ids["suspicious_name"] = names.get(pair.suspicious.doc_id, pair.suspicious.doc_id)
        ids["source_name"] = names.get(pair.source.doc_id, pair.source.doc_id)
    return ids


def require_threshold(profile: Profile) -> None:
    """Raise UserError if a profile was never calibrated and so cannot decide."""
    if profile.need_decide().threshold is None:
        raise UserError(
            f"profile {profile.name} has no threshold and cannot decide",
            "calibrate it on pairs with truth: `calibrate --input DIR --profile NAME --write FILE`",
        )
