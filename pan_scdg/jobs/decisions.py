"""Decide pairs by the scores of any method (paper, PAN25 decision rule), and by the other pairs of the same texts."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import quantiles
from types import MappingProxyType
from typing import Any, NamedTuple

from pan_scdg.errors import UserError
from pan_scdg.logs import say
from pan_scdg.methods import Measurements, MethodSettings, Values
from pan_scdg.profile import Profile
from pan_scdg.records import DocumentPair, MeasuredPassage, TextFile, TokenGains
from pan_scdg.scdg.calibration_range import compute_share_at_least

FINGERPRINT_CHARACTERS = 40
UNCLEAR_SHARE = 0.1
"""A score that at most this share of the calibration's negatives reaches is unclear, with most methods."""
JUST_BELOW = "the score is just below the threshold"
TOO_LITTLE_TEXT = "the score reaches the threshold, but there is too little text to decide"
MIN_COHORT = 10
"""Other pairs of both texts below the threshold, from which on a score is compared with theirs."""
COHORT_SPREAD = 9.0
"""Distance of an unusual score from the median of these pairs, in distances of their lower quartile from it; chosen in
benchmarks/results/verdicts.md."""
USUAL_SCORE = "many pairs of these texts score nearly as high, as answers to one question do"


class DecidedPair(NamedTuple):
    """A decided pair."""

    pair: DocumentPair
    record: Mapping[str, Any]
    """The fields of the decision in ``decisions.jsonl``."""
    measurements: Measurements | None = None
    """What the method measured; None for a pair that could not be scored."""
    passages: Sequence[MeasuredPassage] = ()
    """Of both texts, measured; also those that do not count."""
    gains: TokenGains | None = None
    """Of the tokens in passages, if they were measured."""

    @property
    def score(self) -> float | None:
        """Return the score; None for a pair that could not be scored."""
        score: float | None = self.record["score"]
        return score

    @property
    def decision(self) -> bool | None:
        """Return True for reuse; None if no threshold applies."""
        decision: bool | None = self.record["decision"]
        return decision

    @property
    def is_unclear(self) -> bool:
        """Return True for a pair without reuse, which a reader should look at all the same."""
        return self.record["unclear"] is not None

    @property
    def values(self) -> Values:
        """Return the measured numbers by name; empty for a pair that could not be scored."""
        return {} if self.measurements is None else self.measurements.values

    def name(self, names: Mapping[str, str] = MappingProxyType({})) -> "DecidedPair":
        """Return the pair with its ids in the record, and with the user's own names if there are any."""
        ids = dict(zip(("suspicious", "source"), self.pair.key, strict=True))
        own = {f"{side}_name": names.get(doc_id, doc_id) for side, doc_id in ids.items()} if names else {}
        return self._replace(record={**ids, **own, **self.record})

    def warn(self, warning: str) -> "DecidedPair":
        """Return the pair with a further warning."""
        return self._replace(record={**self.record, "warnings": [*self.record["warnings"], warning]})


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
                    "threshold may be decided differently"
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
        record |= {"unclear": None, "method": self.method}
        record |= {**self.settings.describe(values), **self._count_negatives(score)}
        if record["decision"] is False and score is not None and self._is_near(record):
            record["unclear"] = JUST_BELOW if score < record["threshold"] else TOO_LITTLE_TEXT
        return record

    def _is_near(self, record: Mapping[str, Any]) -> bool:
        """Return True if the score of a negative pair is near the threshold or above it."""
        if self.settings.unclear_margin is not None:
            return bool(record["score"] >= record["threshold"] - self.settings.unclear_margin)
        share = record.get("negatives_at_least")
        return bool(record.get("near_threshold")) or (share is not None and share <= UNCLEAR_SHARE)

    def _count_negatives(self, score: float | None) -> dict[str, Any]:
        """Return the share of negative calibration pairs that score at least as high, and their number."""
        if self._calibration is None or not self._calibration.negatives:
            return {}
        share = None if score is None else compute_share_at_least(self._calibration.negatives, score)
        return {"negatives_at_least": share, "negatives": self._calibration.negative_pairs}


def compare_with_cohorts(
    pairs: Sequence[DecidedPair], settings: MethodSettings, kinds: Mapping[TextFile, str]
) -> list[DecidedPair]:
    """Return the pairs; one whose score is usual among the other pairs of its texts is no reuse, and unclear.

    Texts on one question are each other's controls; pairs with texts of another kind, such as sources, are none. A
    score is unusual if it exceeds the median of the other pairs below the threshold by `COHORT_SPREAD` times the
    distance of their lower quartile; with fewer than `MIN_COHORT` such pairs nothing is compared. A copy is always
    reuse.

    Args:
        pairs: all pairs.
        settings: of the method.
        kinds: the kind of each text.
    """
    scores: defaultdict[tuple[str, TextFile], list[float]] = defaultdict(list)
    for one in pairs:
        if not one.decision and one.score is not None:
            for text in (one.pair.suspicious, one.pair.source):
                scores[kinds[one.pair.source], text].append(one.score)
    compared = []
    for one in pairs:
        if one.decision and one.score is not None and not settings.is_copy(one.values):
            kind = kinds[one.pair.source]
            cohort = [*scores[kind, one.pair.suspicious], *scores[kind, one.pair.source]]
            if one.score < _find_usual_score(cohort):
                one = one._replace(record={**one.record, "decision": False, "unclear": USUAL_SCORE})
        compared.append(one)
    return compared


def _find_usual_score(cohort: Sequence[float]) -> float:
    """Return the score below which one is usual in a cohort; no score is in one that is too small."""
    if len(cohort) < MIN_COHORT:
        return float("-inf")
    quartile, median, _ = quantiles(cohort, n=4, method="inclusive")
    return median + COHORT_SPREAD * (median - quartile)


def require_threshold(profile: Profile) -> None:
    """Raise UserError if a profile was never calibrated and so cannot decide."""
    if profile.need_decide().threshold is None:
        raise UserError(
            f"profile {profile.name} has no threshold and cannot decide",
            "calibrate it on pairs with truth: `calibrate --input DIR --profile NAME --write FILE`",
        )
