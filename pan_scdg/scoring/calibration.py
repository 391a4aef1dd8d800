"""Compare a pair with the data that its threshold was calibrated on: warnings and the rank among negatives."""

from collections.abc import Iterator, Sequence
from typing import Any

from pan_scdg.models.find import SHORT
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.profile import Calibration, PairSettings
from pan_scdg.scdg.aggregation import Aggregate, GainStatistics
from pan_scdg.scdg.calibration_range import (
    TargetFacts,
    compute_share_at_least,
    list_range_warnings,
    measure_common_words,
)
from pan_scdg.scdg.sequences import Tokenizer
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_method import Threshold
from pan_scdg.scoring.pairs import ScoredPair, choose_pair_aggregate, compute_score, describe_control


def explain_foreign_model(calibration: Calibration | None, model: ScoringModel) -> str | None:
    """Return the reason why a calibrated threshold does not apply to this model's scores; None if it does.

    A threshold without a calibration applies to every model.
    """
    if calibration is None or calibration.model in (None, model.fingerprint):
        return None
    return (
        f"nothing is decided: the profile was calibrated with a model {str(calibration.model)[:SHORT]}, and "
        f"{model.found.shown} is {model.fingerprint[:SHORT]}; calibrate with this model, or use that one"
    )


def warn_about_model(settings: PairSettings, model: ScoringModel) -> list[str]:
    """Return the warnings about a threshold that is used with this model."""
    calibration = settings.calibration
    if calibration is None or settings.threshold is None:
        return []
    if (foreign := explain_foreign_model(calibration, model)) is not None:
        return [f"warning: {foreign}"]
    if calibration.model is None:
        return ["warning: the profile does not name the model it was calibrated with; `calibrate` records it"]
    if calibration.dtype not in (None, model.settings.dtype):
        return [
            f"warning: calibrated in {calibration.dtype} and computed in {model.settings.dtype}: scores next to the "
            "threshold may lie on its other side"
        ]
    return []


def find_noise(calibration: Calibration | None, model: ScoringModel) -> float | None:
    """Return the noise of scores in nats, None unless it was measured for this model in this dtype."""
    if calibration is None or (calibration.model, calibration.dtype) != (model.fingerprint, model.settings.dtype):
        return None
    return calibration.noise


def measure_targets(scored: Sequence[ScoredPair], tokenizer: Tokenizer) -> Iterator[TargetFacts]:
    """Yield what is compared with the calibration's range of each pair's target, in order; each target is read once.

    Raises:
        ValueError: the features were stored without a code length.
    """
    seen: dict[str, tuple[int, float]] = {}
    for item in scored:
        document = item.plan.pair.suspicious
        if document.doc_id not in seen:
            text = read_text(document)
            seen[document.doc_id] = (
                len(text.encode("utf-8")),
                measure_common_words(tokenizer, item.plan.encode_target(tokenizer, text)),
            )
        size, words = seen[document.doc_id]
        yield TargetFacts(item.features.tokens, item.features.code_length / size, words)


def warn_about_range(facts: TargetFacts | None, calibration: Calibration | None, aggregate: Aggregate) -> list[str]:
    """Return a warning for each measurement outside the calibration's range; empty without a range."""
    if facts is None or calibration is None or calibration.range is None:
        return []
    return list_range_warnings(facts, calibration.range, aggregate)


class GainRule:
    """The rule of a profile for gains, if it applies to the scores of a model."""

    def __init__(self, settings: PairSettings, model: ScoringModel) -> None:
        self._settings = settings
        self.foreign = explain_foreign_model(settings.calibration, model)
        """The reason why nothing is decided, if the threshold was calibrated with another model."""
        self.calibration = None if self.foreign else settings.calibration
        least = None if self.foreign else settings.threshold
        self.threshold = Threshold(least, find_noise(self.calibration, model))
        self.aggregate = choose_pair_aggregate(settings) or Aggregate("top", 100.0)
        """The average, for a profile without q or w."""

    def compute_score(self, values: GainStatistics) -> float:
        """Return the score of a pair that is compared with the threshold."""
        return compute_score(values, self.aggregate, self._settings.weights)

    def describe(self) -> dict[str, str]:
        """Return the fields of a record that name the aggregation and the control."""
        return {"aggregation": self.aggregate.name, **describe_control(self._settings.control)}


def describe_gains(values: GainStatistics) -> dict[str, float]:
    """Return the fields of a record about the gains of a pair."""
    return {
        "tokens": values.tokens,
        "mean": values.mean,
        "median": values.median,
        "positive_gain_rate": values.positive_rate,
    }


def describe_negatives(score: float | None, calibration: Calibration | None) -> dict[str, Any]:
    """Return the share of development negatives that score at least as high and their number, if they are known."""
    if calibration is None or not calibration.negatives:
        return {}
    share = None if score is None else compute_share_at_least(calibration.negatives, score)
    return {"negatives_at_least": share, "negatives": calibration.negative_pairs}
