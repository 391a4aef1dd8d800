"""Decide pairs by the scores of any method (paper, PAN25 decision rule), and by the other pairs of the same texts."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import quantiles
from types import MappingProxyType

from pan_scdg.errors import UserError
from pan_scdg.logs import say
from pan_scdg.methods import UNKNOWN_SCRIPT, Measurements, Values
from pan_scdg.profile import Profile
from pan_scdg.records import DocumentPair, Reason, TextFile
from pan_scdg.results.records import (
    DISGUISED,
    FEW_WORDS,
    JUST_BELOW,
    NOT_SCORED,
    SIGNS,
    TOO_LITTLE_TEXT,
    TOO_SHORT,
    USUAL_SCORE,
    DecidedPair,
    Decision,
    Finding,
)
from pan_scdg.scdg.calibration_range import compute_share_at_least

FINGERPRINT_CHARACTERS = 40
UNCLEAR_SHARE = 0.1
"""A score that at most this share of the calibration's negatives reaches is unclear, with most methods."""
MIN_WORDS = 15
"""A text with fewer words is hardly more than a sentence, which may be any text's by chance."""
MIN_COHORT = 10
"""Other pairs of both texts from which on a score is compared with theirs."""
COHORT_SPREAD = 6.5
"""Distance of an unusual score from the median of these pairs, in distances between their median and upper quartile;
chosen in benchmarks/results/verdicts.md."""


class DecisionRule:
    """Compares scores with the threshold of a profile, as far as it applies to the model that gave them.

    Args:
        profile: has a table ``[decide]``.
        fingerprint: of the model that gave the scores; empty without one.
        dtype: of that model.
    """

    def __init__(self, profile: Profile, fingerprint: str, dtype: str | None) -> None:
        decide = profile.need_decide()
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

    def decide(self, pair: DocumentPair, measured: Measurements, about_texts: Sequence[Reason] = ()) -> Decision:
        """Return the decision about a pair.

        Args:
            pair: the documents.
            measured: what the method measured on them.
            about_texts: reasons that the texts give: fewer words than `MIN_WORDS`, and characters that disguise them.
        """
        values = measured.values
        number = float(self.settings.compute_score(values))
        score = None if math.isnan(number) else number  # a logistic model without weights
        decision = self._compare(score, values)
        reasons = [*measured.reasons, *self.settings.warn(values, self.threshold, self._calibration)]
        is_long_enough = score is None or (decision and self.settings.decides_short_texts)
        reasons += [reason for reason in about_texts if reason.code != FEW_WORDS or not is_long_enough]
        share = self._measure_negatives(score)
        is_near = self._is_near_threshold(score)
        if decision is False and score is not None and self.threshold is not None:
            is_below = score < self.threshold
            if not is_below or self._is_just_below(score, is_near, share):
                reasons.append(Reason(JUST_BELOW if is_below else TOO_LITTLE_TEXT))
        return self._record(pair, score, decision, reasons, self.settings.describe(values), is_near, share)

    def decide_failed(self, pair: DocumentPair, error: UserError) -> Decision:
        """Return the decision about a pair that could not be scored: negative, unless nothing is decided."""
        return self._record(
            pair, None, None if self.threshold is None else False, [Reason(NOT_SCORED, {"cause": error.what})]
        )

    def _record(
        self,
        pair: DocumentPair,
        score: float | None,
        decision: bool | None,
        reasons: Sequence[Reason],
        numbers: Mapping[str, float | str] = MappingProxyType({}),
        near_threshold: bool | None = None,
        negatives_at_least: float | None = None,
    ) -> Decision:
        return Decision(
            *pair.key,
            score=score,
            threshold=self.threshold,
            decision=decision,
            finding=find_finding(score, decision, reasons),
            near_threshold=near_threshold,
            reasons=tuple(reasons),
            method=self.method,
            numbers=numbers,
            negatives_at_least=negatives_at_least,
            negatives=self._calibration.negative_pairs if self._calibration and self._calibration.negatives else None,
        )

    def _compare(self, score: float | None, values: Values) -> bool | None:
        """Compare a score with the threshold; a pair without a score, or too little text, is negative."""
        if self.threshold is None:
            return None
        return score is not None and score >= self.threshold and self.settings.can_decide(values)

    def _is_near_threshold(self, score: float | None) -> bool | None:
        if score is None or self.threshold is None or self._noise is None:
            return None
        return abs(score - self.threshold) <= self._noise

    def _is_just_below(self, score: float, is_near: bool | None, share: float | None) -> bool:
        """Return True if the score of a negative pair is so near the threshold that a reader should look at it."""
        if self.settings.unclear_margin is not None:
            return score >= (self.threshold or 0.0) - self.settings.unclear_margin
        return bool(is_near) or (share is not None and share <= UNCLEAR_SHARE)

    def _measure_negatives(self, score: float | None) -> float | None:
        """Return the share of negative calibration pairs that score at least as high."""
        if score is None or self._calibration is None or not self._calibration.negatives:
            return None
        return compute_share_at_least(self._calibration.negatives, score)


def find_finding(score: float | None, decision: bool | None, reasons: Sequence[Reason]) -> Finding:
    """Return the decision as people read it."""
    codes = {reason.code for reason in reasons}
    if score is None or decision is None or codes & TOO_SHORT or (codes & {UNKNOWN_SCRIPT, DISGUISED} and not decision):
        return "unclear"
    if decision:
        return "likely"
    return "unclear" if codes & SIGNS else "no sign"


def compare_with_cohorts(
    pairs: Mapping[DocumentPair, DecidedPair],
    kinds: Mapping[TextFile, str],
    is_copy: Callable[[DocumentPair], bool],
) -> dict[DocumentPair, DecidedPair]:
    """Return the pairs; one whose score is usual among the other pairs of its texts is neither reuse nor unclear.

    Texts on one question are each other's controls; pairs with texts of another kind are none. A score is unusual if it
    exceeds the median of the other pairs by at least `COHORT_SPREAD` times the distance between median and upper
    quartile; with fewer than `MIN_COHORT` such pairs nothing is compared. From a source many may have copied, so that
    of its pairs only those without reuse are controls. A copy is always reuse.

    Args:
        pairs: all pairs.
        kinds: the kind of each text.
        is_copy: returns True for a pair that is reuse for its verbatim words alone.
    """
    scores: defaultdict[tuple[str, TextFile], list[float]] = defaultdict(list)
    for pair, one in pairs.items():
        if one.score is not None and not (one.decision and kinds[pair.source] == "source"):
            for text in (pair.suspicious, pair.source):
                scores[kinds[pair.source], text].append(one.score)
    compared = {}
    for pair, one in pairs.items():
        is_near = any(reason.code == JUST_BELOW for reason in one.record.reasons)
        if (one.decision or is_near) and one.score is not None and not is_copy(pair):
            kind = kinds[pair.source]
            own, other = (list(scores[kind, text]) for text in (pair.suspicious, pair.source))
            for cohort in (own, other):
                if one.score in cohort:
                    cohort.remove(one.score)
            if one.score < _find_usual_score([*own, *other]):
                reasons = (
                    *(reason for reason in one.record.reasons if reason.code != JUST_BELOW),
                    Reason(USUAL_SCORE, {"highest": max([*own, *other])}),
                )
                finding = find_finding(one.score, False, reasons)
                one = replace(one, record=replace(one.record, decision=False, finding=finding, reasons=reasons))
        compared[pair] = one
    return compared


def _find_usual_score(cohort: Sequence[float]) -> float:
    """Return the score below which one is usual in a cohort; no score is in one that is too small."""
    if len(cohort) < MIN_COHORT:
        return float("-inf")
    _, median, quartile = quantiles(cohort, n=4, method="inclusive")
    return median + COHORT_SPREAD * (quartile - median)


def require_threshold(profile: Profile) -> None:
    """Raise UserError if a profile was never calibrated and so cannot decide."""
    if profile.need_decide().threshold is None:
        raise UserError(
            f"profile {profile.name} has no threshold and cannot decide",
            "calibrate it on pairs with truth: `calibrate --input DIR --profile NAME --write FILE`",
        )
