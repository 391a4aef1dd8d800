"""Every number that a study needs of its pairs: of the gains by the language model, and of each baseline.

Everything is taken from the store where it is known, under the keys of ``run``, so that a pair is scored once for all
studies, whatever their splits and thresholds.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pan_scdg.errors import UserError
from pan_scdg.jobs.options import RunOptions
from pan_scdg.models.fit import choose_device
from pan_scdg.profile import PairSettings, Profile
from pan_scdg.profile.baseline import BaselineSettings, CharNgrams, VectorCosine
from pan_scdg.research.data.pair_sets import PairSet
from pan_scdg.research.pairs.score_table import ScoreTable, gain_columns
from pan_scdg.scdg.aggregation import Aggregate
from pan_scdg.scoring.baseline_parts import BaselineParts, find_parts, need_baseline
from pan_scdg.scoring.baseline_scoring import make_collection, score_pairs
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_plan import PlannedPair
from pan_scdg.scoring.pairs import score_pairs as score_gains
from pan_scdg.store import Store

SCDG = "scdg"
"""What the scores of the language model are called among those of the baselines."""


class Baseline(NamedTuple):
    """A baseline that a study holds SCDG against, with what it needs."""

    profile: Profile
    outside: BaselineParts

    @property
    def settings(self) -> BaselineSettings:
        """Its table of the profile."""
        return need_baseline(self.profile)

    def identity(self) -> dict[str, Any]:
        """What its scores depend on besides the texts."""
        return {"profile": self.profile.model_dump(mode="json", exclude={"needs_gpu"}), **self.outside.identity}


def find_baselines(
    profiles: Sequence[Profile], sets: Sequence[PairSet], options: RunOptions, device: str
) -> list[Baseline]:
    """Find what the baselines need; nothing heavy is loaded.

    Args:
        profiles: those of the baselines.
        sets: all pairs that they are going to score.
        options: those of the language model; vectors are for the baselines that take such.
        device: "auto", "cpu" or "cuda".

    Raises:
        UserError: a profile is none of a baseline, two have one name, or a model or vectors are not there.
    """
    for profile in profiles:
        if profile.baseline is None:
            raise UserError(f"profile {profile.name} is no baseline", "choose others with --baseline: see `profiles`")
    names = [SCDG, *(profile.name for profile in profiles)]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"two methods have the name {doubled[0]!r}", "leave one out, or rename its profile")
    ids = sorted({name for pairs in sets for name in pairs.facts})
    found = []
    for profile in profiles:
        vectors = options.vectors if isinstance(profile.baseline, VectorCosine) else None
        outside = find_parts(
            need_baseline(profile), choose_device(profile, device), ids, vectors=vectors, state=options.state
        )
        found.append(Baseline(profile, outside))
    if options.vectors is not None and not any(isinstance(profile.baseline, VectorCosine) for profile in profiles):
        raise UserError("--vectors is given, and no baseline takes vectors", "add one with --baseline")
    return found


def gain_scores(
    pairs: PairSet, planned: Sequence[PlannedPair], model: ScoringModel, settings: PairSettings, store: Store
) -> ScoreTable:
    """The columns of `gain_columns`, and those of the profile's own windows where it has such."""
    statistics = [scored.features for scored in score_gains(planned, model, settings, store, keep_gains=False)]
    columns = gain_columns(statistics)
    for aggregate in own_windows(settings).values():
        columns[aggregate.name] = np.array([aggregate.of(of) for of in statistics], dtype=np.float64)
    return ScoreTable(pairs.ids, pairs.labels, columns)


def own_windows(settings: PairSettings) -> dict[float, Aggregate]:
    """The aggregations by windows that a profile chooses from, by w; none where it aggregates as the paper does."""
    if settings.aggregation == "top":
        return {}
    widths = sorted({*settings.w_grid, *([] if settings.w is None else [settings.w])})
    return {float(w): Aggregate(settings.aggregation, w) for w in widths}


def baseline_scores(pairs: PairSet, baseline: Baseline, store: Store) -> ScoreTable:
    """The numbers of a baseline under their names; of character n-grams, those of each n of the grid.

    Statistics of a collection are over the sources of these pairs.
    """
    columns = {}
    for prefix, settings in _variants(baseline.settings).items():
        lazy = pairs.lazy()
        scorer = baseline.outside.make_scorer(
            settings, make_collection((pair.source for pair in lazy), pairs.facts), store
        )
        rows = score_pairs(lazy, scorer, store, pairs.facts)
        for name, values in zip(scorer.features, zip(*rows, strict=True), strict=True):
            columns[prefix or name] = np.array(values, dtype=np.float64)
    return ScoreTable(pairs.ids, pairs.labels, columns)


def n_column(n: int) -> str:
    """The column of character n-grams of this length."""
    return f"n_{n}"


def _variants(settings: BaselineSettings) -> dict[str, BaselineSettings]:
    """Settings by the column that they fill; the empty name where the scorer names its columns itself."""
    if not isinstance(settings, CharNgrams):
        return {"": settings}
    return {n_column(n): settings.model_copy(update={"n": n}) for n in sorted({*settings.n_grid, settings.n})}
