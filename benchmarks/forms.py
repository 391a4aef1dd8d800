"""Every form of SCDG, computed from the log-probabilities of a pair: against which baseline, and how aggregated."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.pair_gains import PairGains
from pan_scdg.profile import PAPER_GRID, WINDOW_GRID, Control, PairSettings
from pan_scdg.scdg.aggregation import Aggregate, choose_aggregate
from pan_scdg.scdg.gains import compute_baseline

Floats = npt.NDArray[np.float64]

CONTROLS: tuple[Control, ...] = ("none", "shuffled-source", "both")
AVERAGE = Aggregate("top", 100.0)
AGGREGATES = (
    AVERAGE,
    *(Aggregate("top", float(q)) for q in PAPER_GRID),
    *(Aggregate("window", w) for w in WINDOW_GRID),
    *(Aggregate("window-median", w) for w in WINDOW_GRID),
    *(Aggregate("window-bounded", w) for w in WINDOW_GRID),
)
LOGISTIC = "logistic, leave one kind out"
FEATURES = ("average", "median", "positive-gain rate", "window-128")
"""Features of a pair for the logistic, once for each control."""


def form_name(aggregation: str, control: Control) -> str:
    """``window-128, both``; without a control the aggregation alone."""
    return aggregation if control == "none" else f"{aggregation}, {control}"


def frozen_form(settings: PairSettings) -> str:
    """The name of the form that a profile decides by."""
    return form_name((choose_aggregate(settings) or AVERAGE).name, settings.control)


def form_scores(found: Iterable[PairGains], settings: PairSettings) -> dict[str, Floats]:
    """Form -> one score a pair, ``[pairs]``; the form of ``settings`` is among them."""
    own = choose_aggregate(settings)
    aggregates = AGGREGATES if own is None or own in AGGREGATES else (*AGGREGATES, own)
    rows = [_scores(arrays, aggregates) for arrays in found]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _scores(arrays: PairGains, aggregates: Sequence[Aggregate]) -> dict[str, float]:
    """Form -> score of one pair. In double precision, as a run computes it from the same stored numbers."""
    alone, behind, shuffled = (a.astype(np.float64) for a in arrays)
    scores: dict[str, float] = {}
    for control in CONTROLS:
        gains = behind - compute_baseline(alone, shuffled, control)
        scores |= {form_name(a.name, control): a.compute(gains) for a in aggregates}
        scores[form_name("median", control)] = float(np.median(gains))
        scores[form_name("positive-gain rate", control)] = float(np.mean(gains > 0))
    return scores


def leave_one_kind_out(scores: Mapping[str, Floats], labels: npt.NDArray[np.bool_], kinds: Sequence[str]) -> Floats:
    """Log-odds of reuse, ``[pairs]``, each from a logistic regression that saw no pair of its kind; nan without others.

    Kinds that differ in a number at their end alone are strengths of one kind and are left out together.
    """
    names = [form_name(feature, control) for control in CONTROLS for feature in FEATURES]
    features = np.stack([scores[name] for name in names], axis=1)
    families = np.array([re.sub(r"-\d+$", "", kind) for kind in kinds])
    odds = np.full(len(kinds), np.nan)
    for family in sorted(set(families)):
        judged = families == family
        if len(set(labels[~judged].tolist())) == 2:
            odds[judged] = fit_logistic(features[~judged], labels[~judged])(features[judged])
    return odds


def fit_logistic(features: Floats, labels: npt.NDArray[np.bool_]) -> Callable[[Floats], Floats]:
    """The log-odds of a logistic regression over standardised features; no randomness is involved."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, random_state=0))
    decide: Callable[[Floats], Floats] = model.fit(features, labels).decision_function
    return decide
