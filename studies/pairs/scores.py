"""Score the pairs of a study: gains by the language model, and each baseline.

Scores are stored under the keys of ``run``, so that a pair is scored once for all studies, whatever their splits and
thresholds. A table of scores is a `pandas.DataFrame` with one row per pair, indexed by pair id: the boolean column
``doc_label`` (True for reuse), and one column for each number of a pair.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pan_scdg.errors import UserError
from pan_scdg.models.fit import choose_device
from pan_scdg.pan.runs import open_gzip_text
from pan_scdg.profile import PAPER_GRID, PairSettings, Profile
from pan_scdg.profile.baseline import BaselineSettings, Prompted
from studies.data.pair_sets import PairSet
from pan_scdg.scdg.aggregation import Aggregate, Floats, GainStatistics
from pan_scdg.scoring.baseline_registry import METHODS, BaselineParts, Given, find_parts, need_baseline
from pan_scdg.scoring.baseline_scoring import make_collection
from pan_scdg.scoring.baseline_scoring import score_pairs as score_with_baseline
from pan_scdg.scoring.pair_plan import ScoredPair
from pan_scdg.store import Store

if TYPE_CHECKING:
    from pandas import DataFrame

SCDG = "scdg"
"""Name of the language model's scores among those of the baselines."""
LABEL = "doc_label"
AVERAGE, MEDIAN, POSITIVE_RATE = "mean", "median", "positive_gain_rate"


class Baseline(NamedTuple):
    """A baseline with the models or vectors that it needs."""

    profile: Profile
    parts: BaselineParts

    @property
    def settings(self) -> BaselineSettings:
        """Return the ``[baseline]`` table of the profile."""
        return need_baseline(self.profile)

    @property
    def asks_endpoint(self) -> bool:
        """Return True if a model at an endpoint gives the scores."""
        return isinstance(self.settings, Prompted) and self.settings.served == "endpoint"

    def identify(self) -> dict[str, Any]:
        """Return everything but the texts that its scores depend on, as JSON values."""
        return {"profile": self.profile.model_dump(mode="json", exclude={"needs_gpu"}), **self.parts.identity}


def name_baselines(baselines: Sequence[Baseline]) -> list[str]:
    """Return the paper's names, with that of the profile where two baselines would have the same."""
    names = [METHODS[type(baseline.settings)].name(baseline.settings) for baseline in baselines]
    return [
        f"{name} ({baseline.profile.name})" if names.count(name) > 1 else name
        for name, baseline in zip(names, baselines, strict=True)
    ]


def find_baselines(
    profiles: Sequence[Profile], sets: Sequence[PairSet], device: str, vectors: Path | None, state: Path | None
) -> list[Baseline]:
    """Find the models of the baselines and the vectors of all documents of the sets; nothing heavy is loaded.

    Raises:
        UserError: a profile is not a baseline, two have one name, or a model or vectors are missing.
    """
    for profile in profiles:
        if profile.baseline is None:
            what = f"profile {profile.name} is not a baseline"
            raise UserError(what, "choose others with --baseline: see `profiles`")
    names = [SCDG, *(profile.name for profile in profiles)]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"two methods have the name {doubled[0]!r}", "leave one out, or rename its profile")
    readers = [profile.name for profile in profiles if profile.baseline and profile.baseline.reads_vectors]
    if vectors is not None and not readers:
        raise UserError("--vectors is given, and no baseline takes vectors", "add one with --baseline")
    ids = sorted({name for pairs in sets for name in pairs.facts})
    found = []
    for profile in profiles:
        own = vectors if profile.name in readers else None
        given = Given(choose_device(profile, device), ids, own, state=state)
        found.append(Baseline(profile, find_parts(need_baseline(profile), given)))
    return found


def make_score_table(ids: Sequence[str], labels: Sequence[bool] | Any, columns: Mapping[str, Floats]) -> "DataFrame":
    """Return a table of scores.

    Args:
        ids: distinct pair ids.
        labels: True for each pair of reuse.
        columns: finite numbers of each pair, by name.
    """
    import pandas

    return pandas.DataFrame({LABEL: np.asarray(labels, dtype=np.bool_), **columns}, index=list(ids))


def select_features(table: "DataFrame", names: Sequence[str], ids: Iterable[str]) -> Floats:
    """Return some columns of some pairs, ``[pairs, names]``."""
    # in C order whatever pandas keeps, since the order of the summands moves the last digits of a mean
    return np.ascontiguousarray(table.loc[list(ids), list(names)].to_numpy(np.float64))


def make_gain_table(pairs: PairSet, scored: Sequence[ScoredPair], settings: PairSettings) -> "DataFrame":
    """Return the columns of `list_statistics`, and those of the profile's own windows if it has any."""
    statistics = [item.features for item in scored]
    columns = list_statistics(statistics)
    for aggregate in find_windows(settings).values():
        columns[aggregate.name] = np.array([of.scores[aggregate] for of in statistics], dtype=np.float64)
    return make_score_table(pairs.ids, pairs.labels, columns)


def list_statistics(statistics: Sequence[GainStatistics]) -> dict[str, Floats]:
    """Return mean, median, positive-gain rate and the mean of each top q of the gains of every pair."""
    values = {
        AVERAGE: [s.mean for s in statistics],
        MEDIAN: [s.median for s in statistics],
        POSITIVE_RATE: [s.positive_rate for s in statistics],
        **{name_top(q): [s.scores[Aggregate("top", q)] for s in statistics] for q in PAPER_GRID},
    }
    return {name: np.array(column, dtype=np.float64) for name, column in values.items()}


def name_top(q: float) -> str:
    """Return the column of the mean of the top q percent, named as in ``scores.jsonl.gz``."""
    return f"top_{q:g}"


def find_windows(settings: PairSettings) -> dict[float, Aggregate]:
    """Return the aggregations by windows that a profile chooses from, by w; none if it aggregates as the paper does."""
    if settings.parameter != "w":
        return {}
    widths = sorted({*settings.w_grid, *([] if settings.w is None else [settings.w])})
    return {float(w): Aggregate(settings.aggregation, w) for w in widths}


def score_baseline(pairs: PairSet, baseline: Baseline, store: Store) -> "DataFrame":
    """Return the numbers of a baseline under their names; those of character n-grams for each n of the grid.

    Statistics of a collection are over the sources of these pairs.
    """
    columns: dict[str, Floats] = {}
    renamed = pairs.rename_documents()
    collection = make_collection((pair.source for pair in renamed), pairs.facts)
    for settings in baseline.settings.vary(own=True).values():
        entry = METHODS[type(settings)]
        scorer = entry.make_scorer(settings, baseline.parts, collection, store)
        rows = score_with_baseline(renamed, settings, scorer, store, pairs.facts)
        if len(scorer.features) > 1:
            columns |= dict(zip(scorer.features, np.array(rows, dtype=np.float64).T, strict=True))
        if not settings.fitted:  # a study fits the weights on its own training pairs
            columns[settings.column] = entry.combine(settings, rows)
    return make_score_table(pairs.ids, pairs.labels, columns)


def write_scores(path: Path, table: "DataFrame") -> None:
    """Write a table as JSON Lines to ``path``, which ends in ``.jsonl.gz``: ids, labels and exact numbers, no text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_gzip_text(path) as file:
        for pair_id, scores in zip(table.index, table.to_dict("records"), strict=True):
            label = int(scores.pop(LABEL))
            file.write(json.dumps({"pair_id": pair_id, LABEL: label, "scores": scores}) + "\n")
