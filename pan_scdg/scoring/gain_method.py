"""The pair method SCDG: compare the aggregated gain with the threshold of the profile (paper, PAN25)."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from pan_scdg.logs import say
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.passages.finder import Locator, PassageFinder
from pan_scdg.profile import Profile
from pan_scdg.records import DocumentPair
from pan_scdg.scdg.calibration_range import TargetFacts
from pan_scdg.scoring.batches import WHOLE, Shard
from pan_scdg.scoring.calibration import (
    GainRule,
    describe_gains,
    describe_negatives,
    measure_targets,
    warn_about_model,
    warn_about_range,
)
from pan_scdg.scoring.features import load_gains
from pan_scdg.scoring.gain_choice import calibrate_gains
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_method import (
    Calibrated,
    LocatedGains,
    Verdict,
    cover_both,
    explain_failure,
    name_pair,
)
from pan_scdg.scoring.pair_plan import FailedPair, OnError, PlannedPair
from pan_scdg.scoring.pairs import (
    ScoredPair,
    check_pairs,
    score_pairs,
)
from pan_scdg.scoring.token_offsets import TokenLocator, make_locator
from pan_scdg.store import Store

IN_SEGMENTS = "scored in segments: the pair is longer than the profile's limit"
EMPTY_SOURCE = "the source document is empty"


class GainMethod:
    """Scores pairs with a language model; see `PairMethod`.

    Without a threshold in the profile, or with one that was calibrated with another model, ``threshold`` is None; of
    the latter a warning is logged.

    Args:
        profile: has a model.
        model: the language model.
        keep_gains: store the gain of every token, for `locate_gains`.
    """

    def __init__(self, profile: Profile, model: ScoringModel, *, keep_gains: bool = False) -> None:
        self.settings = profile.need_pairs()
        say(warn_about_model(self.settings, model))
        self.rule = GainRule(self.settings, model)
        self.threshold = self.rule.threshold.least
        self.model, self.device = model, model.device
        self.models = {"language_model": model.found}
        self.keeps_gains = keep_gains

    def identify(self) -> dict[str, Any]:
        """Return the fields that identify the model in the job."""
        return {"language_model": self.model.identify()}

    def check(
        self, pairs: Sequence[DocumentPair], notices: Notices, on_error: OnError
    ) -> tuple[list[PlannedPair], list[FailedPair]]:
        """Read, tokenise and align all pairs; return those that can be scored and those that cannot."""
        return check_pairs(pairs, self.model, self.settings, notices, on_error)

    def score(
        self,
        planned: Sequence[PlannedPair],
        store: Store,
        shard: Shard = WHOLE,
        *,
        all_settings: bool = False,
        joined: bool = True,
    ) -> list[ScoredPair]:
        """Compute the gain statistics of the pairs, in order, from which all aggregations are chosen.

        For ``joined`` see `score_pairs`.
        """
        return score_pairs(planned, self.model, self.settings, store, self.keeps_gains, shard, joined=joined)

    def judge(self, scored: Sequence[ScoredPair], names: Mapping[str, str], store: Store) -> Iterator[Verdict]:
        """Yield the verdict about each pair, in order; the passage of a positive pair covers both documents."""
        known_range = None if self.rule.calibration is None else self.rule.calibration.range
        facts: Iterator[TargetFacts | None] = (
            iter([None] * len(scored)) if known_range is None else measure_targets(scored, self.model.tokenizer)
        )
        for item, about in zip(scored, facts, strict=True):
            yield self._judge(item, names, about)

    def _judge(self, item: ScoredPair, names: Mapping[str, str], facts: TargetFacts | None) -> Verdict:
        plan, features = item.plan, item.features
        score = self.rule.compute_score(features)
        verdict = self.rule.threshold.judge(score)
        warnings = []
        if plan.mode == "segments":
            warnings.append(IN_SEGMENTS)
        if plan.source_length == 0:
            warnings.append(EMPTY_SOURCE)
        record = {
            **name_pair(plan.pair, names),
            **verdict,
            **self.rule.describe(),
            **describe_gains(features),
            **describe_negatives(score, self.rule.calibration),
            "warnings": warnings + warn_about_range(facts, self.rule.calibration, self.rule.aggregate),
        }
        both = cover_both(plan.target_length, plan.source_length) if verdict["decision"] else ()
        return Verdict(plan.pair, record, both)

    def judge_failed(self, failed: FailedPair, names: Mapping[str, str]) -> Verdict:
        """Return the verdict about a pair that could not be scored."""
        record = {
            **name_pair(failed.pair, names),
            **dict.fromkeys(("score", "tokens", "mean", "median", "positive_gain_rate")),
            **self.rule.threshold.judge(None),
            **self.rule.describe(),
            **describe_negatives(None, self.rule.calibration),
            "warnings": [explain_failure(failed, self.threshold is not None)],
        }
        return Verdict(failed.pair, record, ())

    def calibrate(
        self, scored: Sequence[ScoredPair], known: Mapping[DocumentPair, bool], digest: str, store: Store
    ) -> Calibrated:
        """Choose the threshold, and q, w or weights; see `calibrate_gains`."""
        labels = np.array([known[item.pair] for item in scored], dtype=bool)
        return calibrate_gains(self.settings, scored, labels, digest, self.model)

    def locate_gains(self, scored: Sequence[ScoredPair], store: Store) -> Iterator[LocatedGains]:
        """Yield each pair with the gains of its tokens and their characters."""
        if not self.keeps_gains:
            return
        for item in scored:
            located = self._locator.locate(read_text(item.pair.suspicious), item.plan.mode == "segments")
            gains = load_gains(store, item.plan.key, self.settings.control)
            yield LocatedGains(item.pair, gains, located.offsets)

    @cached_property
    def _locator(self) -> TokenLocator:
        return make_locator(self.model)

    def make_locator(self, finder: PassageFinder, store: Store) -> Locator:
        """Return a locator of passages."""
        return Locator(finder)

    def close(self) -> None:
        """End the worker processes."""
        self.model.close()
