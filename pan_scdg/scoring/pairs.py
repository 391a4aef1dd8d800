"""Check and score document pairs: their gain statistics, reused from the store if possible."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pan_scdg.errors import UserError
from pan_scdg.evaluation.logistic import compute_probabilities
from pan_scdg.models.fit import explain_lack_of_memory
from pan_scdg.notices import Notices
from pan_scdg.profile import Control, PairSettings
from pan_scdg.profile.baseline import LogisticWeights
from pan_scdg.progress import Progress
from pan_scdg.records import DocumentPair
from pan_scdg.scdg.aggregation import Aggregate, Floats, GainStatistics, choose_aggregate, list_stored
from pan_scdg.scdg.gains import Gains
from pan_scdg.scdg.sequences import ScoringInput
from pan_scdg.scoring.batches import WHOLE, Shard, make_batches
from pan_scdg.scoring.features import FeatureStore
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_plan import USE_SEGMENTS, FailedPair, Mode, OnError, PlannedPair, plan_pairs, refuse_failed
from pan_scdg.scoring.passes import PairsWork, PassScorer
from pan_scdg.store import Store

Alone = Mapping[tuple[str, Mode], Sequence[ScoringInput]]
"""Unconditional inputs of each suspicious document, by its id and mode."""


class ScoredPair(NamedTuple):
    """A planned pair with the statistics of its gains."""

    plan: PlannedPair
    features: GainStatistics

    @property
    def pair(self) -> DocumentPair:
        """Return the pair itself."""
        return self.plan.pair


def check_pairs(
    pairs: Sequence[DocumentPair],
    model: ScoringModel,
    settings: PairSettings,
    notices: Notices,
    on_error: OnError = "stop",
) -> tuple[list[PlannedPair], list[FailedPair]]:
    """Measure and align all pairs without loading the model's weights.

    Raises:
        UserErrors: naming every pair that cannot be scored, if ``on_error`` is "stop".
        UserError: the longest pair does not fit in the memory of the device.
    """
    model.check_length(settings.limit, "pairs.limit")
    planned, failed = plan_pairs(pairs, model, settings, notices)
    if on_error == "stop":
        refuse_failed([item.error for item in failed])
    if model.may_compute:
        check_longest_pair(planned, model)
    return planned, failed


def check_longest_pair(planned: Sequence[PlannedPair], model: ScoringModel) -> None:
    """Raise UserError if the longest pair that is scored as a whole does not fit in memory with the weights."""
    whole = [plan for plan in planned if plan.mode == "whole"]
    if not whole:
        return
    longest = max(whole, key=lambda plan: plan.tokens)
    if (lacking := explain_lack_of_memory(model.folder, model.settings, model.device, longest.tokens)) is not None:
        raise UserError(
            f"with {longest.pair.source.doc_id} as source: {longest.tokens} tokens take at least {lacking}",
            f"{USE_SEGMENTS}, with a smaller limit, or use a device with more memory",
            longest.pair.suspicious.path,
        )


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


def describe_control(control: Control) -> dict[str, str]:
    """Return the field of results that names the control; empty without a control, as in the paper."""
    return {} if control == "none" else {"control": control}


def choose_pair_aggregate(settings: PairSettings) -> Aggregate | None:
    """Return the aggregation of a profile, None if its parameter or its weights have not been chosen."""
    aggregate = choose_aggregate(settings)
    fitted = aggregate is None or len(aggregate.entry.statistics) < 2 or settings.weights is not None
    return aggregate if fitted else None


def compute_score(features: GainStatistics, aggregate: Aggregate, weights: LogisticWeights | None) -> float:
    """Return the score of a pair that is compared with the threshold; see `compute_scores`."""
    return float(compute_scores([features], aggregate, weights)[0])


def compute_scores(features: Sequence[GainStatistics], aggregate: Aggregate, weights: LogisticWeights | None) -> Floats:
    """Return the score of each pair that is compared with the threshold, ``[pairs]``.

    Raises:
        ValueError: the logistic model was not fitted.
    """
    names = aggregate.entry.statistics
    if not names:
        return np.array([of.scores[aggregate] for of in features], dtype=np.float64)
    rows = select_statistics(features, aggregate)
    if len(names) == 1:
        return rows[:, 0]
    if weights is None:
        raise ValueError("the weights were not fitted")
    return compute_probabilities(weights, rows)


def select_statistics(features: Sequence[GainStatistics], aggregate: Aggregate) -> Floats:
    """Return the statistics that an aggregation is made of, ``[pairs, statistics]``."""
    return np.array([[getattr(of, name) for name in aggregate.entry.statistics] for of in features], dtype=np.float64)
