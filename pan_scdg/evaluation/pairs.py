"""Measures of pair decisions (paper, Evaluation Metrics): F1 first, with seven others beside it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.evaluation.resampling import Floats, Intervals, resample_counts
from pan_scdg.evaluation.weighted import PAIR_METRICS, weighted_metrics

__all__ = ["PAIR_METRICS", "bootstrap", "pair_metrics"]


class _Pairs(NamedTuple):
    labels: npt.NDArray[np.bool_]
    scores: Floats
    decisions: npt.NDArray[np.bool_]


def pair_metrics(labels: npt.ArrayLike, scores: npt.ArrayLike, decisions: npt.ArrayLike) -> dict[str, float]:
    """The eight measures of ``PAIR_METRICS``, by scikit-learn.

    Args:
        labels: 0 or 1 (or bool) for each pair, 1 for reuse; shape ``[pairs]``.
        scores: higher for more reuse; used by auroc and average_precision alone.
        decisions: 0 or 1 (or bool) for each pair.

    Returns:
        Name -> value; nan where a measure is undefined (a class is missing, nothing is decided positive).

    Raises:
        ValueError: different lengths, labels or decisions other than 0 and 1, or a score that is not finite.
    """
    pairs = _checked(labels, scores, decisions)
    true, decided = pairs.labels, pairs.decisions
    tp, fp = int(np.sum(true & decided)), int(np.sum(~true & decided))
    fn, tn = int(np.sum(true & ~decided)), int(np.sum(~true & ~decided))
    return {
        "precision": _of("precision_score", true, decided, tp + fp > 0),
        "recall": _of("recall_score", true, decided, tp + fn > 0),
        "f1": _of("f1_score", true, decided, tp + fp + fn > 0),
        # scikit-learn has no false-positive rate.
        "fpr": fp / (fp + tn) if fp + tn else float("nan"),
        "balanced_accuracy": _of("balanced_accuracy_score", true, decided, min(tp + fn, fp + tn) > 0),
        "mcc": _of("matthews_corrcoef", true, decided, min(tp + fp, tp + fn, tn + fp, tn + fn) > 0),
        "auroc": _of("roc_auc_score", true, pairs.scores, min(tp + fn, fp + tn) > 0),
        "average_precision": _of("average_precision_score", true, pairs.scores, tp + fn > 0),
    }


def bootstrap(
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    decisions: npt.ArrayLike,
    metric_names: Sequence[str] = PAIR_METRICS,
    seed: int = 42,
    resamples: int = 1000,
    groups: Sequence[object] | None = None,
) -> Intervals:
    """Percentile 95 % intervals over resampled pairs, or over resampled whole groups of pairs.

    Returns:
        A dictionary name -> (low, high). Its ``skipped`` says in how many resamples each measure was undefined; these
        are left out of the interval, which is (nan, nan) when none is left.

    Raises:
        ValueError: as ``pair_metrics``, an unknown measure, or not one group name per pair.
    """
    pairs = _checked(labels, scores, decisions)
    unknown = [name for name in metric_names if name not in PAIR_METRICS]
    if unknown:
        raise ValueError(f"unknown measures {unknown}; there are {PAIR_METRICS}")
    blocks = [
        weighted_metrics(*pairs, counts) for counts in resample_counts(len(pairs.labels), resamples, seed, groups)
    ]
    intervals = Intervals()
    for name in metric_names:
        intervals.put(name, np.concatenate([block[name] for block in blocks]))
    return intervals


def _of(function: str, true: npt.NDArray[np.bool_], predicted: npt.NDArray[Any], defined: bool) -> float:
    if not defined:
        return float("nan")
    import sklearn.metrics

    return float(getattr(sklearn.metrics, function)(true, predicted))


def _checked(labels: npt.ArrayLike, scores: npt.ArrayLike, decisions: npt.ArrayLike) -> _Pairs:
    true, decided = np.asarray(labels), np.asarray(decisions)
    values = np.asarray(scores, dtype=np.float64)
    if not (true.ndim == 1 and true.shape == values.shape == decided.shape):
        raise ValueError(f"labels, scores, decisions of shapes {true.shape}, {values.shape}, {decided.shape}")
    if not (np.isin(true, (0, 1)).all() and np.isin(decided, (0, 1)).all()):
        raise ValueError("labels and decisions are 0 or 1")
    if not np.isfinite(values).all():
        raise ValueError("a score is not finite")
    return _Pairs(true.astype(np.bool_), values, decided.astype(np.bool_))
