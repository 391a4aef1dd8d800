"""The gain statistics of document pairs: checked first, then scored, each from the store where it is known."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserErrors
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import PairCorpus, read_text
from pan_scdg.profile import Aggregation, Control, PairSettings, RetrievalSettings
from pan_scdg.progress import Progress
from pan_scdg.scdg.aggregation import Aggregate, aggregate_of
from pan_scdg.scdg.gains import GainStatistics
from pan_scdg.store import Store
from pan_scdg.tasks.features import load_features, pair_features, save_features
from pan_scdg.tasks.model_at_hand import ModelAtHand
from pan_scdg.tasks.options import RunOptions
from pan_scdg.tasks.pair_plan import FailedPair, PlannedPair, passes_of, plan_pairs
from pan_scdg.tasks.passes import PassScorer


class ScoredPair(NamedTuple):
    """A planned pair with the statistics of its gains."""

    plan: PlannedPair
    features: GainStatistics


def check_pairs(
    corpus: PairCorpus, model: ModelAtHand, settings: PairSettings, notices: Notices, options: RunOptions
) -> tuple[list[PlannedPair], list[FailedPair]]:
    """Measure and align all pairs without loading the model's weights.

    Raises:
        UserErrors: naming every pair that cannot be scored, when ``on_error`` is ``stop``.
    """
    model.check_length(settings.limit, "pairs.limit")
    planned, failed = plan_pairs(corpus.pairs, model, settings, notices)
    if failed and options.on_error == "stop":
        raise UserErrors([f.error for f in failed])
    return planned, failed


def score_pairs(
    planned: Sequence[PlannedPair], model: ModelAtHand, settings: PairSettings, store: Store, keep_gains: bool
) -> list[ScoredPair]:
    """The gain statistics of every planned pair, in order."""
    wanted = pair_features(settings.q, [*settings.w_grid, *([] if settings.w is None else [settings.w])])
    scorer, scored = PassScorer(model, store), []
    with Progress("scoring pairs", len(planned)) as progress:
        for plan in planned:
            before = scorer.tokens
            features = load_features(store, plan.key, wanted, keep_gains)
            if features is None:
                source, target = read_text(plan.pair.source), read_text(plan.pair.suspicious)
                passes = passes_of(source, target, plan.mode, model, settings)
                gains = scorer.gains(passes, settings.control)
                features = save_features(store, plan.key, gains, wanted, keep_gains)
            scored.append(ScoredPair(plan, features))
            progress.update(tokens=scorer.tokens - before)
    return scored


def aggregation_name(rule: float | PairSettings | RetrievalSettings) -> str:
    """How an aggregation is called in results: that of a profile, or Top-q of a percentage.

    Raises:
        ValueError: the profile has no parameter for its aggregation.
    """
    chosen = Aggregate("top", rule) if isinstance(rule, int | float) else aggregate_of(rule)
    if chosen is None:
        raise ValueError("the profile was not calibrated")
    return chosen.name


def control_field(control: Control) -> dict[str, str]:
    """What results say about the control: nothing where there is none, as in the paper."""
    return {} if control == "none" else {"control": control}


def labels_and_scores(
    scored: Sequence[ScoredPair],
    positive: Mapping[tuple[str, str], bool],
    grid: Sequence[float],
    kind: Aggregation = "top",
) -> tuple[npt.NDArray[np.bool_], dict[float, npt.NDArray[Any]]]:
    """Labels ``[pairs]`` and, for each parameter in ``grid``, scores ``[pairs]``, in the order of ``scored``."""
    labels = np.array([positive[s.plan.pair.suspicious.doc_id, s.plan.pair.source.doc_id] for s in scored], dtype=bool)
    scores = {float(p): np.array([Aggregate(kind, p).of(s.features) for s in scored]) for p in grid}
    return labels, scores
