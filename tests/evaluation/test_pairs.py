"""Measures of pairs against values worked out by hand and scikit-learn; the bootstrap against plain resampling."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from pan_scdg.evaluation.pairs import PAIR_METRICS, bootstrap_pairs, compute_pair_metrics, compute_weighted_metrics
from pan_scdg.evaluation.resampling import draw_resamples

LABELS = [1, 1, 1, 0, 0, 0, 0, 0]
SCORES = [0.9, 0.8, 0.3, 0.7, 0.3, 0.2, 0.1, 0.0]
DECISIONS = [1, 1, 0, 1, 0, 0, 0, 0]


def test_worked_by_hand():
    # 2 true positives, 1 false positive, 1 false negative, 4 true negatives.
    result = compute_pair_metrics(LABELS, SCORES, DECISIONS)
    assert result["precision"] == pytest.approx(2 / 3)
    assert result["recall"] == pytest.approx(2 / 3)
    assert result["f1"] == pytest.approx(2 / 3)
    assert result["fpr"] == pytest.approx(1 / 5)
    assert result["balanced_accuracy"] == pytest.approx((2 / 3 + 4 / 5) / 2)
    assert result["mcc"] == pytest.approx((2 * 4 - 1 * 1) / math.sqrt(3 * 3 * 5 * 5))
    # Of 15 pairs of a positive and a negative 13 are in order and one is tied.
    assert result["auroc"] == pytest.approx(13.5 / 15)
    # Positives enter at 0.9 (1 of 1), 0.8 (2 of 2) and 0.3 (3 of 5, its tie included).
    assert result["average_precision"] == pytest.approx((1 + 1 + 3 / 5) / 3)
    assert tuple(result) == PAIR_METRICS


def undefined(labels, decisions):
    result = compute_pair_metrics(labels, np.linspace(0, 1, len(labels)), decisions)
    return {name for name, value in result.items() if math.isnan(value)}


def test_undefined_measures_are_nan():
    both = {"balanced_accuracy", "mcc", "auroc"}
    assert undefined([1, 1], [1, 0]) == both | {"fpr"}
    assert undefined([0, 0], [0, 1]) == both | {"recall", "average_precision"}
    assert undefined([0, 0], [0, 0]) == both | {"recall", "average_precision", "precision", "f1"}
    assert undefined([0, 1], [0, 0]) == {"precision", "mcc"}
    assert undefined([], []) == set(PAIR_METRICS)


@pytest.mark.parametrize("scores", [[0.1], [0.1, math.nan]])
def test_scores_that_do_not_fit_are_an_error(scores):
    with pytest.raises(ValueError, match="same length"):
        compute_pair_metrics([1, 0], scores, [1, 0])


def apply_scikit_learn(labels, scores, decisions):
    """Return the measures that are defined, nan for the others; scikit-learn has no false-positive rate."""
    both, reported = len(set(labels)) == 2, len(set(decisions)) == 2

    def apply(function, predicted, defined):
        return getattr(metrics, function)(labels, predicted) if defined else math.nan

    return {
        "precision": apply("precision_score", decisions, any(decisions)),
        "recall": apply("recall_score", decisions, any(labels)),
        "f1": apply("f1_score", decisions, any(decisions) or any(labels)),
        "fpr": np.mean(decisions[labels == 0]) if 0 in labels else math.nan,
        "balanced_accuracy": apply("balanced_accuracy_score", decisions, both),
        "mcc": apply("matthews_corrcoef", decisions, both and reported),
        "auroc": apply("roc_auc_score", scores, both),
        "average_precision": apply("average_precision_score", scores, any(labels)),
    }


rows = st.tuples(st.integers(0, 1), st.sampled_from([-1.0, 0.0, 0.25, 0.5]), st.integers(0, 1), st.integers(0, 3))


@settings(max_examples=50, deadline=None)
@given(st.lists(rows, min_size=1, max_size=12))
def test_weighted_measures_equal_scikit_learn_on_the_repeated_pairs(pairs):
    labels, scores, decisions, counts = (np.array(column) for column in zip(*pairs))
    expected = apply_scikit_learn(*(np.repeat(column, counts) for column in (labels, scores, decisions)))
    weighted = compute_weighted_metrics(labels == 1, scores, decisions == 1, counts[None].astype(float))
    for name in PAIR_METRICS:
        assert weighted[name][0] == pytest.approx(expected[name], abs=1e-12, nan_ok=True), name


def test_counts_of_pairs_and_of_groups():
    counts = np.concatenate(list(draw_resamples(5, 300, seed=1)))
    assert counts.shape == (300, 5)
    assert set(counts.sum(axis=1)) == {5.0}
    assert counts.mean() == 1.0
    assert counts.std(axis=0).min() > 0.5
    grouped = np.concatenate(list(draw_resamples(5, 300, seed=1, groups=["a", "b", "a", "c", "b"])))
    assert (grouped[:, 0] == grouped[:, 2]).all()
    assert (grouped[:, 1] == grouped[:, 4]).all()
    assert set(grouped[:, 0] + grouped[:, 1] + grouped[:, 3]) == {3.0}


def test_interval_equals_plain_resampling():
    rng = np.random.default_rng(7)
    labels = rng.integers(2, size=60)
    scores = labels + rng.normal(size=60)
    decisions = scores > 0.5
    result = bootstrap_pairs(labels, scores, decisions, seed=3, resamples=150)
    plain = [compute_pair_metrics(labels[i], scores[i], decisions[i]) for i in rng.integers(60, size=(150, 60))]
    for name in ("f1", "auroc"):
        low, high = np.percentile([p[name] for p in plain], [2.5, 97.5])
        # Two independent sets of 150 resamples: their percentiles differ by little, and by something.
        assert result[name] == pytest.approx((low, high), abs=0.07)
        assert low < compute_pair_metrics(labels, scores, decisions)[name] < high


def test_degenerate_resamples_are_skipped():
    result = bootstrap_pairs([1, 0], [0.9, 0.1], [1, 0], resamples=400)
    # Half of all resamples of two pairs hold one class only; in the others the order is right.
    assert result["auroc"] == (1.0, 1.0)
    nothing = bootstrap_pairs([1, 1], [0.9, 0.1], [1, 0], resamples=10)
    assert np.isnan(nothing["auroc"]).all()


def test_groups_widen_the_interval():
    # Twenty groups of ten equal pairs hold no more than twenty pairs do.
    labels = np.repeat([1, 0], 100)
    scores = np.repeat(np.random.default_rng(0).normal(size=20) + np.repeat([1, 0], 10), 10)
    plain = bootstrap_pairs(labels, scores, scores > 0.5, resamples=300)["auroc"]
    grouped = bootstrap_pairs(labels, scores, scores > 0.5, resamples=300, groups=list(np.repeat(range(20), 10)))
    assert np.diff(grouped["auroc"]) > 1.5 * np.diff(plain)
