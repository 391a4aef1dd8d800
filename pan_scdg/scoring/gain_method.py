"""The pair method SCDG: compare the aggregated gain with the threshold of the profile (paper, PAN25)."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from pan_scdg.logs import say
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.profile import PairSettings, Profile
from pan_scdg.progress import Progress
from pan_scdg.records import DocumentPair
from pan_scdg.scdg.aggregation import Aggregate, GainStatistics, choose_aggregate, list_stored
from pan_scdg.scdg.gains import Gains
from pan_scdg.scdg.sequences import ScoringInput
from pan_scdg.scoring.batches import WHOLE, Shard, make_batches
from pan_scdg.scoring.calibration import GainRule, calibrate_gains, describe_gains, warn_about_model
from pan_scdg.scoring.features import FeatureStore, load_gains
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_method import (
    Calibrated,
    FailedPair,
    LocatedGains,
    OnError,
    Verdict,
    cover_both,
    explain_failure,
    name_pair,
)
from pan_scdg.scoring.pair_plan import Mode, PlannedPair, ScoredPair, check_pairs
from pan_scdg.scoring.passes import PairsWork, PassScorer
from pan_scdg.scoring.token_offsets import TokenLocator, make_locator
from pan_scdg.store import Store

IN_SEGMENTS = "scored in segments: the pair is longer than the profile's limit"
EMPTY_SOURCE = "the source document is empty"
Alone = Mapping[tuple[str, Mode], Sequence[ScoringInput]]
"""Unconditional inputs of each suspicious document, by its id and mode."""


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

    def judge(self, scored: Sequence[ScoredPair], names: Mapping[str, str]) -> Iterator[Verdict]:
        """Yield the verdict about each pair, in order; the passage of a positive pair covers both documents."""
        warnings = self.rule.warn_about_targets(scored, self.model.tokenizer)
        for (plan, features), about_target in zip(scored, warnings, strict=True):
            score = self.rule.compute_score(features)
            about_pair = [IN_SEGMENTS] if plan.mode == "segments" else []
            if plan.source_length == 0:
                about_pair.append(EMPTY_SOURCE)
            record = {
                **name_pair(plan.pair, names),
                **self.rule.threshold.judge(score),
                **self.rule.describe(),
                **describe_gains(features),
                **self.rule.describe_negatives(score),
                "warnings": about_pair + about_target,
            }
            both = cover_both(plan.target_length, plan.source_length) if record["decision"] else ()
            yield Verdict(plan.pair, record, both)

    def judge_failed(self, failed: FailedPair, names: Mapping[str, str]) -> Verdict:
        """Return the verdict about a pair that could not be scored."""
        record = {
            **name_pair(failed.pair, names),
            **dict.fromkeys(("score", "tokens", "mean", "median", "positive_gain_rate")),
            **self.rule.threshold.judge(None),
            **self.rule.describe(),
            **self.rule.describe_negatives(None),
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

    def open_alignment(self, store: Store) -> None:
        """Return None: gains decide."""

    def close(self) -> None:
        """End the worker processes."""
        self.model.close()


def score_pairs(
    planned: Sequence[PlannedPair],
    model: ScoringModel,
    settings: PairSettings,
    store: Store,
    keep_gains: bool,
    shard: Shard = WHOLE,
    *,
    joined: bool = True,
) -> list[ScoredPair]:
    """Return the gain statistics of the planned pairs, in order, with the store's keys of their features in the plans.

    All pairs together determine the batches, which are computed as a whole. With a ``shard``, only the batches of this
    shard are scored. Unless ``joined``, each input without a source is a batch of its own.
    """
    own = [aggregate] if (aggregate := choose_aggregate(settings)) else []
    wanted = list_stored("pairs", [*own, *(Aggregate(settings.aggregation, p) for p in settings.grid)])
    known = FeatureStore(store, wanted, keep_gains, settings.control)
    distinct = list({plan.key: plan for plan in planned}.values())
    scorer, alone = PassScorer(model, store), _list_unconditional(distinct, model, settings)
    unconditional = [item for items in alone.values() for item in items]
    for group in [unconditional] if joined else [[item] for item in unconditional]:
        scorer.plan_unconditional(group)
    keys: dict[str, str] = {}
    features: dict[str, GainStatistics] = {}
    missing: list[list[PlannedPair]] = []
    found = make_batches([plan.key for plan in distinct], [plan.tokens for plan in distinct], model.batch_tokens)
    mine = shard.select({batch.digest: sum(distinct[i].tokens for i in batch.members) for batch in found})
    for batch in (batch for batch in found if batch.digest in mine):
        plans = []
        for plan in (distinct[i] for i in batch.members):
            keys[plan.key] = model.make_batch_key(
                plan.key, batch.digest, scorer.digest_batches(alone[_identify_target(plan)])
            )
            plans.append(plan._replace(key=keys[plan.key]))
        if (stored := known.load(plan.key for plan in plans)) is None:
            missing.append(plans)
        else:
            features |= stored
    if missing:
        for gains in _compute_batches(missing, scorer, alone, settings):
            features |= known.save(gains, model.list_incidents())
    model.inherit(store.read_notes(keys.values()))
    return [
        ScoredPair(plan._replace(key=keys[plan.key]), features[keys[plan.key]]) for plan in planned if plan.key in keys
    ]


def _list_unconditional(pairs: Sequence[PlannedPair], model: ScoringModel, settings: PairSettings) -> Alone:
    """Return the unconditional inputs of every target."""
    found: dict[tuple[str, Mode], Sequence[ScoringInput]] = {}
    for plan in pairs:
        if _identify_target(plan) not in found:
            found[_identify_target(plan)] = plan.make_unconditional(model.tokenizer, settings)
    return found


def _compute_batches(
    missing: Sequence[Sequence[PlannedPair]], scorer: PassScorer, alone: Alone, settings: PairSettings
) -> Iterator[dict[str, Gains]]:
    """Yield the gains of the pairs of each batch, by key."""
    needed = (item for plans in missing for plan in plans for item in alone[_identify_target(plan)])
    with Progress("scoring targets alone", None, scorer.model.count_actors) as progress:
        for tokens in scorer.compute_unconditional(needed):
            progress.update(tokens=tokens)
    tasks = (PairsWork(tuple(plan.prepare() for plan in plans), settings) for plans in missing)
    with Progress("scoring pairs", sum(map(len, missing)), scorer.model.count_actors) as progress:
        before = scorer.model.tokens
        for plans, found in zip(missing, scorer.model.map(tasks), strict=True):
            items = [alone[_identify_target(plan)] for plan in plans]
            gains = scorer.assemble_batch(items, found, settings.control)
            yield dict(zip((plan.key for plan in plans), gains, strict=True))
            progress.update(len(plans), tokens=scorer.model.tokens - before)
            before = scorer.model.tokens


def _identify_target(plan: PlannedPair) -> tuple[str, Mode]:
    """Return the document and mode that determine the unconditional inputs of a pair."""
    return plan.pair.suspicious.doc_id, plan.mode
